//! What a flow can do to the outside.
#![allow(missing_docs)]

use crate::base::random::Random;
use crate::base::time::Clock;
use crate::base::{CorrelationId, Name};

/// Puts a document on another flow's queue of the same tenant. Implemented by the worker.
pub trait Publish: Sync {
    /// Returns once the message is synced in the target's log. All checks come before the write.
    fn publish(
        &self,
        target: &Name,
        payload: &[u8],
        correlation_id: &CorrelationId,
    ) -> Result<(), PublishError>;
}
/// Why a document could not be put on another flow's queue; its text names the target and the
/// reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PublishError(pub String);

/// Everything outside that a running flow may touch.
pub struct Effects<'a> {
    /// The HTTP client, shared by all runs of a process.
    pub egress: &'a HttpEgress,
    pub publish: &'a dyn Publish,
    pub clock: &'a dyn Clock,
    pub random: &'a dyn Random,
}

/// The shared HTTP client (a `ureq::Agent` inside). Moves to `http_egress.rs`.
pub struct HttpEgress(());
impl HttpEgress {
    pub fn new() -> HttpEgress {
        HttpEgress(())
    }
}
