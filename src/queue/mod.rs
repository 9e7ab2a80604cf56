//! The queue engine: what is on the disk for one (tenant, flow) pair, and how it changes.
//!
//! Passive: it starts no thread, waits for nothing but file locks, and is told the time.
//! [`Appender`] is what any process may do with a queue; [`Owner`] is the one process elected to
//! deliver it; the dead letters are read and handled by any process (`handle`).
//!
//! One file owns each format, and its header is the specification:
//!
//! ```text
//! segment.log          segment (frames of message)      dlq.log           dlq
//! segment.log.seq      sequence                         dlq.log.acked     acked
//! segment.log.ckpt     checkpoint                       worker.lock       slots
//! segment.log.retry    retry                            queues/wake       wake
//! segment.log.corrupt  corrupt
//! ```
//!
//! The life of a message here: `segment` appends it; `core` hands it out; `verdict` decides what
//! becomes of it; `settle` writes that down; `drain` empties the log once nothing is left;
//! `recover` finds all of it again.

mod acked;
mod checkpoint;
mod core;
mod corrupt;
mod dlq;
mod drain;
mod dump;
mod error;
mod finding;
mod handle;
mod housekeeping;
mod inspect;
mod layout;
mod lock;
mod message;
mod pause;
mod recover;
mod repair;
mod retry;
mod schedule;
mod segment;
mod sequence;
mod settle;
mod slots;
mod space;
#[cfg(test)]
mod tests;
mod verdict;
mod verify;
mod wake;

pub use self::core::{Counts, Delivery, Owner, Step};
pub use dlq::{DeadLetter, Reason};
pub use dump::{Content, FileKind, Payload, Row, dump};
pub use error::{FaultKind, QueueError, Report};
pub use finding::{Finding, Findings, Severity};
pub use handle::{HandleError, dead_letters, discard, replay};
pub use housekeeping::remove_empty;
pub use inspect::{Inspection, Oldest, Overview, PendingRetry, Worker, inspect, overview};
pub use layout::{Layout, QueuePaths, list_queues};
pub use message::{Message, NewMessage, Origin, Receipt};
pub use pause::{exists, pause, resume};
pub use recover::Election;
pub use repair::{Mended, repair};
pub use schedule::Moment;
pub use segment::Appender;
pub use verdict::{Ending, Settled, Settlement};
pub use verify::{Verified, strays, verify};
pub use wake::{Wake, WakeReader, has_work, write as write_wake};
