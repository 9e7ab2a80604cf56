//! Interface stub.
#![allow(missing_docs, unused_variables, dead_code)]
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::{CorrelationId, MessageId, QueueName, RetryPolicy, Timestamp, random::Random};
use crate::disk::Disk;

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub wall: Timestamp,
    pub boot: Duration,
}

/// The state directory and the paths below it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Layout {
    pub state_dir: Arc<Path>,
}
impl Layout {
    pub fn new(state_dir: PathBuf) -> Layout {
        Layout { state_dir: state_dir.into() }
    }
    /// `{state}/queues/{tenant}/{flow}`
    pub fn queue_dir(&self, queue: &QueueName) -> PathBuf {
        unimplemented!()
    }
    /// `{state}/queues/wake`
    pub fn wake_file(&self) -> PathBuf {
        unimplemented!()
    }
    /// `{state}/servers`
    pub fn servers_dir(&self) -> PathBuf {
        unimplemented!()
    }
}

/// A message as it is handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// JSON, byte for byte as submitted.
    pub payload: Vec<u8>,
    pub correlation_id: CorrelationId,
    /// Set on a replay: where the message comes from.
    pub origin: Option<Origin>,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    pub first_id: MessageId,
    pub replays: u32,
}

/// A message as it lies in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: MessageId,
    pub enqueued_at: Timestamp,
    /// Id of the first submission: the same on every replay.
    pub first_id: MessageId,
    pub replays: u32,
    pub correlation_id: CorrelationId,
    pub payload: Vec<u8>,
}

/// Proof that a message is synced to the log. Only the append can make one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    pub id: MessageId,
    pub offset: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct QueueError {
    pub kind: FaultKind,
    pub text: String,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// No room on the device.
    NoRoom,
    /// A lock did not come free within its deadline.
    Locked,
    /// The queue refuses until full recovery has succeeded.
    Poisoned,
    /// Anything else that the file system said, or a file that is not what it must be.
    Io,
}

/// What any process may do: append.
pub struct Appender(());
impl Appender {
    /// Makes the directory where it is missing, reads what is there, and makes both durable.
    pub fn open(
        disk: Arc<dyn Disk>,
        layout: &Layout,
        queue: &QueueName,
    ) -> Result<Appender, QueueError> {
        unimplemented!()
    }
    /// One write and one sync for the whole batch. All of it is stored, or (as far as this process can know) none;
    /// after an error `reopen_needed` may be true.
    pub fn append(
        &mut self,
        batch: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Receipt>, QueueError> {
        unimplemented!()
    }
}

pub enum Election {
    Won(Box<Owner>),
    Lost(Appender),
}

/// The one process elected to deliver a queue: an appender with everything else of the queue's files.
pub struct Owner(());
impl Owner {
    /// Tries `worker.lock` once; winning it means full recovery from the disk. `Err` leaves nothing open; open a new
    /// `Appender` and try again later.
    pub fn elect(appender: Appender, now: Moment) -> Result<Election, QueueError> {
        unimplemented!()
    }
    pub fn append(
        &mut self,
        batch: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Receipt>, QueueError> {
        unimplemented!()
    }
    /// What to do next. Call it while fewer deliveries are in flight than the flow's concurrency. A `Deliver` is then
    /// in flight until it is settled or given back.
    pub fn next(&mut self, now: Moment) -> Result<Step, QueueError> {
        unimplemented!()
    }
    /// Settles deliveries that have ended: one sync for each kind of file for all of them. On error everything is kept
    /// and must be tried again with `settle(vec![], …)` each second until it is `Ok`; meanwhile `next` gives `Stalled`.
    pub fn settle(
        &mut self,
        endings: Vec<(MessageId, Ending)>,
        now: Moment,
        random: &dyn Random,
    ) -> Result<Vec<Settled>, QueueError> {
        unimplemented!()
    }
    /// A delivery that was not tried after all (registry unavailable at shutdown …): forgotten, not charged. It comes again.
    pub fn give_back(&mut self, id: MessageId) {
        unimplemented!()
    }
    /// Syncs the checkpoint if it is due (50 ms or 1000 settlements), or at once with `force`.
    pub fn sync_checkpoint(&mut self, now: Moment, force: bool) -> Result<(), QueueError> {
        unimplemented!()
    }
    /// When the checkpoint must be synced at the latest, in boot time; `None` when it is synced.
    pub fn checkpoint_due(&self) -> Option<Duration> {
        unimplemented!()
    }
    /// The 500 ms poll: notices what other processes appended, checks that the files are still those of the paths;
    /// with nothing left, no retry pending and nothing in flight drains the queue and applies marks. `true` if drained.
    pub fn poll(&mut self, now: Moment) -> Result<bool, QueueError> {
        unimplemented!()
    }
    /// What recovery or reading found damaged since the last call, for the log.
    pub fn take_reports(&mut self) -> Vec<Report> {
        unimplemented!()
    }
    pub fn counts(&self) -> Counts {
        unimplemented!()
    }
    /// Syncs the checkpoint, clears the slots of what is in flight (not charged), gives up the lock.
    pub fn close(self: Box<Self>) -> Result<(), QueueError> {
        unimplemented!()
    }
}

pub enum Step {
    Deliver(Delivery),
    /// Nothing to deliver now; the next retry is due in so long, if there is one.
    Wait(Option<Duration>),
    /// A settlement could not be written; nothing starts until `settle` succeeds.
    Stalled,
    /// `paused` is present.
    Paused,
}

#[derive(Debug, Clone)]
pub struct Delivery {
    pub message: Message,
    pub offset: u64,
    /// From 1.
    pub attempt: u32,
}

/// How a delivery ended, as the worker tells it.
#[derive(Debug, Clone)]
pub enum Ending {
    /// Succeeded, fault handled, filtered, or no such flow: the message leaves the queue.
    Acknowledge,
    /// The flow failed.
    Failed {
        error: String,
        policy: RetryPolicy,
        /// Dead-letter at once, reason `non_retryable`.
        non_retryable: bool,
        /// Not before this many milliseconds (capped by the policy's `max_delay_ms`).
        retry_after_ms: Option<u64>,
    },
    /// The stored flow failed its integrity check: dead-lettered at once.
    CorruptArtifact { error: String },
}

/// What became of a delivery.
#[derive(Debug, Clone)]
pub struct Settled {
    pub id: MessageId,
    pub attempt: u32,
    pub what: Settlement,
}
#[derive(Debug, Clone)]
pub enum Settlement {
    Acknowledged,
    Rescheduled { due_at: Timestamp, delay_ms: u64, error: String },
    DeadLettered { reason: Reason, error: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    MaxAttemptsExceeded,
    CorruptArtifact,
    NonRetryable,
    Crashed,
}
impl Reason {
    /// `max_attempts_exceeded`, `corrupt_artifact`, `non_retryable`, `crashed`
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::MaxAttemptsExceeded => "max_attempts_exceeded",
            Reason::CorruptArtifact => "corrupt_artifact",
            Reason::NonRetryable => "non_retryable",
            Reason::Crashed => "crashed",
        }
    }
}

/// Something damaged that was found and stepped over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub path: PathBuf,
    pub offset: u64,
    pub len: u64,
    pub text: String,
}

/// Messages dead-lettered by recovery itself (crashed too often) come out of `take_dead_lettered`-like reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub in_flight: u64,
    pub retrying: u64,
    pub waiting_bytes: u64,
}

/// A dead-lettered message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    pub id: MessageId,
    pub enqueued_at: Timestamp,
    pub first_id: MessageId,
    pub replays: u32,
    pub payload: Vec<u8>,
    pub failed_at: Timestamp,
    pub attempts: u32,
    pub reason: Reason,
    pub last_error: String,
}

/// Every queue that has a directory, by tenant and flow.
pub fn list_queues(disk: &dyn Disk, layout: &Layout) -> Result<Vec<QueueName>, QueueError> {
    Ok(Vec::new())
}

/// Hands every unhandled dead letter of a queue, by id ascending, to `each`; gives what was damaged and skipped. A
/// queue without a directory has none, and none is made.
pub fn dead_letters(
    disk: &dyn Disk,
    layout: &Layout,
    queue: &QueueName,
    each: &mut dyn FnMut(DeadLetter),
) -> Result<Vec<Report>, QueueError> {
    unimplemented!()
}

#[derive(Debug, thiserror::Error)]
pub enum HandleError {
    #[error("no dead letter with id {id} in {queue}")]
    NotFound { queue: QueueName, id: u64 },
    #[error("the dead letter with id {id} in {queue} is handled already")]
    AlreadyHandled { queue: QueueName, id: u64 },
    #[error(transparent)]
    Queue(#[from] QueueError),
}
/// Appends the payload as a new message with a fresh correlation id, and marks the entry handled. The caller has
/// checked that the flow is in the registry.
pub fn replay(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    queue: &QueueName,
    id: u64,
    now: Timestamp,
    random: &dyn Random,
) -> Result<Receipt, HandleError> {
    Err(HandleError::NotFound { queue: queue.clone(), id })
}
/// Marks the entry handled.
pub fn discard(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    queue: &QueueName,
    id: u64,
) -> Result<(), HandleError> {
    Err(HandleError::NotFound { queue: queue.clone(), id })
}

/// `queues/wake`: names of queues that another process should look at.
pub struct WakeReader(());
impl WakeReader {
    /// Starts reading at the file's present end.
    pub fn open(disk: Arc<dyn Disk>, layout: &Layout) -> WakeReader {
        unimplemented!()
    }
    /// The names written since the last call.
    pub fn poll(&mut self) -> Result<Wake, QueueError> {
        unimplemented!()
    }
}
pub enum Wake {
    Queues(Vec<QueueName>),
    /// The file was emptied: look at every queue once.
    All,
}
/// Whether a queue has undelivered messages, retries or marks to apply (read without locks).
pub fn has_work(disk: &dyn Disk, layout: &Layout, queue: &QueueName) -> Result<bool, QueueError> {
    unimplemented!()
}
/// One line in `queues/wake`.
pub fn wake(disk: &dyn Disk, layout: &Layout, queue: &QueueName) -> Result<(), QueueError> {
    unimplemented!()
}
