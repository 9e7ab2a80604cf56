//! Every bound of the program on one page, each with its unit. Those that an operator may move are the defaults of
//! flags; the others hold always. What exceeds one is refused with a text that names it.

use std::time::Duration;

/// Bytes of a tenant's or a flow's name.
pub const MAX_NAME_LEN: usize = 64;

/// Characters of a correlation id.
pub const MAX_CORRELATION_ID_LEN: usize = 128;

/// Default ceiling on one message, in bytes (`--max-message-bytes`).
pub const DEFAULT_MAX_MESSAGE_BYTES: u64 = 1 << 20;

/// The highest ceiling on one message that can be asked for, in bytes: what a frame can hold is checked against it
/// before anything is allocated.
pub const MAX_MESSAGE_BYTES: u64 = 64 << 20;

/// Levels of nesting of a JSON or XML document.
pub const MAX_DOCUMENT_DEPTH: usize = 128;

/// Bytes of an error text that came from outside, such as a downstream's answer.
pub const MAX_ERROR_TEXT: usize = 4096;

/// Default number of queues that may be active at once (`--max-queues`).
pub const DEFAULT_MAX_QUEUES: usize = 4096;

/// Messages that may wait in the channel of one queue.
pub const MAX_CHANNEL_MESSAGES: usize = 4096;

/// Bytes that may wait in the channel of one queue.
pub const MAX_CHANNEL_BYTES: usize = 64 << 20;

/// Deliveries of one queue that may be in flight at once (the highest `queue_concurrency`).
pub const MAX_IN_FLIGHT: usize = 64;

/// First deliveries that may be settled behind one that is not: after a crash all of them come again.
pub const MAX_OUT_OF_ORDER: usize = 4096;

/// Crashes of the process during one message's run after which it is dead-lettered.
pub const MAX_CRASHES: u32 = 5;

/// How often an idle queue, the wake file and the locks of other servers are looked at.
pub const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How long `append.lock` and `dlq.lock` are waited for.
pub const LOCK_DEADLINE: Duration = Duration::from_secs(5);

/// How late the checkpoint may be synced.
pub const CHECKPOINT_SYNC_DELAY: Duration = Duration::from_millis(50);

/// Settlements after which the checkpoint is synced in any case.
pub const CHECKPOINT_SYNC_COUNT: u32 = 1000;

/// Size in bytes past which whoever finds the wake file empties it.
pub const MAX_WAKE_BYTES: u64 = 1 << 20;

/// Bytes of damaged log that are kept aside for a person, for each queue.
pub const MAX_CORRUPT_BYTES: u64 = 64 << 20;

/// Delay before a registry that could not be read, or a file that could not be written, is tried again.
pub const FAULT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long a queue may be without progress before it answers at once that it is busy, and is called stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(2);

/// How long a queue with work may have had no place or no progress before `/ready` names it.
pub const UNREADY_AFTER: Duration = Duration::from_secs(5);

/// How long a queue may be idle before it gives its place back.
pub const PARK_AFTER: Duration = Duration::from_secs(60);

/// How long a flow that publishes to another queue waits for the receipt.
pub const PUBLISH_DEADLINE: Duration = Duration::from_secs(30);

/// How long an owner thread looks for the next command before it sleeps, while batches have one message.
pub const OWNER_SPIN: Duration = Duration::from_micros(30);

/// Bytes of stack of an owner thread.
pub const OWNER_STACK: usize = 512 << 10;

/// Bytes of stack of a runner thread: a document may be nested [`MAX_DOCUMENT_DEPTH`] deep.
pub const RUNNER_STACK: usize = 2 << 20;

/// How long a stop may take beyond its grace, for files that must be synced and closed.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// Names that one answer or one log line lists before it only counts.
pub const MAX_NAMED_PROBLEMS: usize = 20;

/// Equal complaints within this time are one line of the log.
pub const REPEAT_INTERVAL: Duration = Duration::from_secs(1);

/// Causes whose repeats are told apart.
pub const MAX_THINNED_CAUSES: usize = 1024;

/// Servers on one state directory whose locks are looked at.
pub const MAX_SERVERS: usize = 1024;

/// Bytes on the state directory's device below which the server is not ready.
pub const MIN_FREE_BYTES: u64 = 1 << 20;

/// How often the door's snapshot of the registry is compared with the file.
pub const CATALOG_POLL: Duration = Duration::from_millis(200);

/// Lines of the log that may wait to be written; further ones are left out and counted.
pub const MAX_LOG_LINES: usize = 16 << 10;

/// How long the end of the process waits for the last lines of its log.
pub const LOG_FINISH_DEADLINE: Duration = Duration::from_secs(1);
