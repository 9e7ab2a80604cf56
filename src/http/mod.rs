//! The HTTP door: connections, requests, the order of checks, and the answers.
//!
//! ```text
//!     door                          start, stop; owns the threads
//!     listener > capacity           accepts while there is room, and asks for some
//!     event_loop > connections      a thread: which of its connections are ready
//!     mailbox                       what other threads tell it
//!     connection > request          one connection as a state machine, and one request of it
//!     patience                      its deadlines
//!     head  body  chunked  pace     what a stranger sends, bounded
//!     context                       what every request is served with
//!     route                         the table of what there is
//!     gate > body > decode > correlation > enqueue      the order of a submission
//!     exchange > reply > outbound   the answer that a queue's thread writes
//!     health  dev                   the other entries of the table
//!     message  error                answers, and errors with their status
//!     played                        a connection without a socket, for tests
//! ```
//!
//! The order in which a request is checked is promised to users (`nexus-http(7)`): a caller that
//! the gate refuses is told so before a byte of its body is read.

mod arrivals;
mod body;
mod capacity;
mod chunked;
mod connection;
mod connections;
mod context;
mod correlation;
mod decode;
mod dev;
mod door;
mod enqueue;
mod error;
mod event_loop;
mod exchange;
mod gate;
mod head;
mod health;
mod listener;
mod mailbox;
mod message;
mod outbound;
mod pace;
mod patience;
mod played;
mod reply;
mod request;
mod route;

#[cfg(test)]
mod tests;

pub use door::{Deadlines, Door, DoorConfig, Services};
pub use error::HttpError;
pub use gate::Flows;
pub use health::Readiness;
pub use played::PlayedDoor;
