//! What the threads of the worker are given: disk, clock, chance, the registry's place, and their
//! limits.
//!
//! Everything outside the worker that it touches is here, so that a test can give it something
//! else.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::random::Random;
use crate::base::time::Clock;
use crate::disk::Disk;
use crate::flow::effect::HttpEgress;
use crate::journal::Journal;
use crate::queue::Layout;

/// What every owner, runner and janitor thread of a process shares.
pub struct Surroundings {
    /// Where the queues' files are.
    pub disk: Arc<dyn Disk>,
    /// The paths of the queues' files.
    pub layout: Layout,
    /// The registry's file.
    pub registry: PathBuf,
    /// Who tells the time.
    pub clock: Arc<dyn Clock>,
    /// Who draws lots.
    pub random: Arc<dyn Random>,
    /// The HTTP client of all runs.
    pub egress: HttpEgress,
    /// Where events go.
    pub journal: Arc<Journal>,
    /// The bounds that an operator may move.
    pub limits: Limits,
}

/// The worker's bounds that an operator may move.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Queues that may be active at once (`--max-queues`).
    pub max_queues: usize,
    /// Submissions from the doors that may wait on one queue: at most half of the
    /// connections.
    pub max_waiting: usize,
    /// Ceiling on one message in bytes (`--max-message-bytes`), for what flows publish too.
    pub max_message_bytes: u64,
}
