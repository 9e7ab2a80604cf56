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

/// How long a connection to the registry waits for another one's lock.
pub const REGISTRY_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Default number of acceptor threads, each with one connection at a time (`--acceptors`).
pub const DEFAULT_ACCEPTORS: usize = 512;

/// The highest number of acceptor threads that can be asked for.
pub const MAX_ACCEPTORS: usize = 16_384;

/// The highest number of active queues that can be asked for (`--max-queues`).
pub const MAX_QUEUES: usize = 1 << 20;

/// Default time in seconds that a stopping server gives to what is in flight (`--grace`).
pub const DEFAULT_GRACE_SECONDS: u64 = 25;

/// The longest such time that can be asked for, in seconds.
pub const MAX_GRACE_SECONDS: u64 = 3600;

/// Bytes of a flow's source.
pub const MAX_FLOW_SOURCE_BYTES: usize = 1 << 20;

/// Bytes of stack of a thread that only passes things on.
pub const SMALL_STACK_BYTES: usize = 256 << 10;
