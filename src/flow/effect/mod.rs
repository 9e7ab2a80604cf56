//! What a flow can do to the outside.
//!
//! - [`http_call`] is the effect `http_egress` as a step declares it.
//! - [`http_egress`] is the HTTP client that all runs of a process share.
//! - [`queue_publish`] puts the document on another flow's queue.

#[cfg(test)]
#[path = "tests/downstream.rs"]
pub(crate) mod downstream;
pub mod http_call;
pub mod http_egress;
pub mod queue_publish;

use crate::base::random::Random;
use crate::base::time::Clock;

pub use http_egress::HttpEgress;
pub use queue_publish::{Publish, PublishError};

/// Everything outside that a running flow may touch.
pub struct Effects<'a> {
    /// The HTTP client, shared by all runs of a process.
    pub egress: &'a HttpEgress,
    /// Who puts documents on queues.
    pub publish: &'a dyn Publish,
    /// Who tells the time.
    pub clock: &'a dyn Clock,
    /// Who makes ids.
    pub random: &'a dyn Random,
}
