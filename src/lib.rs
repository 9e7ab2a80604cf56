//! `nexus`: a durable message queue with an HTTP door, in one process over one directory.
//!
//! A row imports from the rows below it; never from above, never from a sibling (`tests/tidy.rs`
//! holds us to it):
//!
//! ```text
//!     main > cli > server > http > worker          journal (events) serves these four
//!     queue | flow | registry                      siblings: they do not know one another
//!     document (under flow, http)   store (under queue)
//!     disk                                         the only std::fs of the queue's files
//!     base                                         names, ids, time, limits, policy, digests
//! ```
//!
//! The life of a message: a connection thread (`http`) reads and checks it and hands it to the
//! owner thread of its queue (`worker`), which appends it to the queue's log (`queue`), syncs once
//! for all that waited, and answers 202. A runner thread (`worker`) then runs the flow (`flow`,
//! loaded from `registry`) on it and reports how that ended; the owner settles it: acknowledged,
//! scheduled again, or dead-lettered.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod base;
pub mod cli;
pub mod disk;
pub mod document;
pub mod flow;
pub mod http;
pub mod journal;
pub mod queue;
pub mod registry;
pub mod server;
pub mod store;
pub mod worker;
