//! The HTTP door: connections, requests, the order of checks, and the answers.
//!
//! ```text
//!     door        start, stop; owns the pool
//!     acceptors   the pool: accept, serve one connection, again; what pressure is
//!     connection  one connection: head after head, in order; deadlines; how it ends
//!     buffer  head  body  chunked  pace     what a stranger sends, bounded
//!     context     what every request is served with
//!     route       the table of what there is
//!     gate > body > decode > correlation > enqueue      the order of a submission
//!     reply       the answer that a queue's thread writes
//!     health  dev                   the other entries of the table
//!     message  error                answers, and errors with their status
//!     stream                        the socket, and what stands in for it in tests
//! ```
//!
//! The order in which a request is checked is promised to users (`nexus-http(7)`): a caller that
//! the gate refuses is told so before a byte of its body is read.

mod acceptors;
mod body;
mod buffer;
mod chunked;
mod connection;
mod context;
mod correlation;
mod decode;
mod dev;
mod door;
mod enqueue;
mod error;
mod gate;
mod head;
mod health;
mod message;
mod pace;
mod reply;
mod route;
mod stream;

#[cfg(test)]
mod tests;

pub use door::{Deadlines, Door, DoorConfig, Services};
pub use error::HttpError;
pub use gate::Flows;
pub use health::Readiness;
