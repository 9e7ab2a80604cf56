//! What a door hands to a queue's owner thread, and how it hears back.
//!
//! Everything below `worker` that is not a file reaches the owner through here: a submission with
//! its [`Reply`]. Not here: the channel itself (`channel`), which queue has an owner (`roster`).

use crate::base::{CorrelationId, QueueName};
use crate::queue::Receipt;

/// A message at the door, checked and ready to be stored.
#[derive(Debug)]
pub struct Submission {
    /// JSON, byte for byte as submitted.
    pub payload: Vec<u8>,
    /// What ties the message's trace together.
    pub correlation_id: CorrelationId,
}

/// Who waits for the answer to a submission.
///
/// The owner thread calls it after the sync, and goes on at once: an implementation never blocks.
/// One that is dropped unanswered (its queue's thread died) must tell its client that the outcome
/// is unknown.
pub trait Reply: Send {
    /// Tells how it ended.
    fn answer(self: Box<Self>, outcome: Result<Receipt, Refusal>);
}

/// Why a submission was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing was written; the same submission can be sent again (503 with `Retry-After`).
    #[error("{0}")]
    Busy(String),
    /// The write or the sync failed: whether the message is stored is unknown (503).
    #[error("{0}")]
    Unknown(String),
    /// The device is full; nothing is lost (507).
    #[error("{0}")]
    NoRoom(String),
}

/// The queues as the doors see them. `Roster` implements it; tests and benchmarks have their own.
pub trait Submit: Send + Sync {
    /// Hands a submission to its queue's owner thread. Every outcome, a refusal at once too, comes
    /// through `reply`.
    fn submit(&self, queue: &QueueName, submission: Submission, reply: Box<dyn Reply>);
}
