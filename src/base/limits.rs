//! Every bound of the program on one page, each with its unit. Those that an operator may move are
//! the defaults of flags; the others hold always. What exceeds one is refused with a text that
//! names it.

use std::time::Duration;

/// Bytes of a tenant's or a flow's name.
pub const MAX_NAME_LEN: usize = 64;

/// Characters of a correlation id.
pub const MAX_CORRELATION_ID_LEN: usize = 128;

/// Default ceiling on one message, in bytes (`--max-message-bytes`).
pub const DEFAULT_MAX_MESSAGE_BYTES: u64 = 1 << 20;

/// The highest ceiling on one message that can be asked for, in bytes: what a frame can hold is
/// checked against it before anything is allocated.
pub const MAX_MESSAGE_BYTES: u64 = 64 << 20;

/// Levels of nesting of a JSON or XML document.
pub const MAX_DOCUMENT_DEPTH: usize = 128;

/// Attributes of one XML element.
pub const MAX_XML_ATTRIBUTES: usize = 256;

/// Characters of the name of an XML element or attribute, prefix included.
pub const MAX_XML_NAME_LEN: usize = 1024;

/// Namespace prefixes that may be declared at one place of an XML document.
pub const MAX_XML_NAMESPACES: usize = 64;

/// Bytes of a flow's source.
pub const MAX_FLOW_SOURCE_BYTES: usize = 1 << 20;

/// Steps of a flow, those of its fault handler included.
pub const MAX_FLOW_STEPS: usize = 256;

/// Levels of nesting of an expression or of a template.
pub const MAX_EXPRESSION_DEPTH: usize = 64;

/// Bytes that one step of a flow may build: a document of a template, or the values of an
/// expression.
pub const MAX_BUILT_BYTES: usize = 64 << 20;

/// Default deadline of one run of a flow, in milliseconds (`timeout_ms` of the front matter).
pub const DEFAULT_FLOW_TIMEOUT_MS: u64 = 300_000;

/// Default deadline of one HTTP call of a step, in milliseconds (`timeout_ms` of the step).
pub const DEFAULT_EGRESS_TIMEOUT_MS: u64 = 30_000;

/// The longest deadline that a flow or a step can ask for, in milliseconds: one day.
pub const MAX_FLOW_TIMEOUT_MS: u64 = 86_400_000;

/// Default ceiling on the body of a downstream's answer, in bytes (`max_response_bytes`).
pub const DEFAULT_MAX_RESPONSE_BYTES: u64 = 1 << 20;

/// Bytes of the status line and headers of a downstream's answer.
pub const MAX_RESPONSE_HEAD_BYTES: usize = 64 << 10;

/// How long an idle connection to a downstream is kept: shorter than common servers keep theirs, so
/// that a call is not sent into a connection that is just being closed.
pub const EGRESS_IDLE_AGE: Duration = Duration::from_secs(3);

/// The longest delay between attempts that a flow can ask for, in milliseconds: 30 days.
pub const MAX_RETRY_DELAY_MS: u64 = 2_592_000_000;

/// Characters of a flow's `description`.
pub const MAX_DESCRIPTION_LEN: usize = 200;

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

/// First deliveries that may be settled behind one that is not: after a crash all of them come
/// again.
pub const MAX_OUT_OF_ORDER: usize = 4096;

/// Settled bytes of a log that are given back to the file system at once, at the least.
pub const RECLAIM_CHUNK: u64 = 1 << 20;

/// How often space that retries held on to is looked for again.
pub const RECLAIM_INTERVAL: Duration = Duration::from_secs(30);

/// Deliveries that may wait at the runner of a flow whose runs are short, beside the one that runs:
/// so that neither thread sleeps and is woken for each message.
pub const READ_AHEAD: usize = 31;

/// How long a run may take for its flow to count as one whose runs are short.
pub const SHORT_RUN: Duration = Duration::from_millis(1);

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

/// How often the files of queues that hold nothing are looked for.
pub const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(60);

/// Size in bytes past which whoever finds the wake file empties it.
pub const MAX_WAKE_BYTES: u64 = 1 << 20;

/// Findings about one queue that `nexus queue verify` names before it only counts.
pub const MAX_FINDINGS: usize = 1000;

/// Pending retries that `nexus queue show` lists.
pub const MAX_LISTED_RETRIES: usize = 100;

/// How often `nexus queue show --watch` looks.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of damaged log that are kept aside for a person, for each queue.
pub const MAX_CORRUPT_BYTES: u64 = 64 << 20;

/// Delay before a registry that could not be read, or a file that could not be written, is tried
/// again.
pub const FAULT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// How long a connection to the registry waits for another one's lock.
pub const REGISTRY_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The default number of acceptor threads is the number of cores, but no fewer than this.
pub const MIN_DEFAULT_ACCEPTORS: usize = 2;

/// The highest number of acceptor threads that can be asked for (`--acceptors`).
pub const MAX_ACCEPTORS: usize = 64;

/// Default number of connections that may be open at once (`--max-connections`).
pub const DEFAULT_MAX_CONNECTIONS: usize = 10_000;

/// The highest number of connections that can be asked for.
pub const MAX_CONNECTIONS: usize = 1_000_000;

/// Descriptors that are left to everything but connections and queues, where there are many.
pub const FILE_DESCRIPTORS: u64 = 256;

/// Descriptors that an active queue takes: its files, its locks, and its runner's registry.
pub const DESCRIPTORS_PER_QUEUE: u64 = 12;

/// Events that one wait of an acceptor thread brings at most.
pub const READY_AT_ONCE: usize = 256;

/// The highest number of active queues that can be asked for (`--max-queues`).
pub const MAX_QUEUES: usize = 1 << 20;

/// Default time in seconds that a stopping server gives to what is in flight (`--grace`).
pub const DEFAULT_GRACE_SECONDS: u64 = 25;

/// The longest such time that can be asked for, in seconds.
pub const MAX_GRACE_SECONDS: u64 = 3600;

/// Bytes of stack of a thread that only passes things on.
pub const SMALL_STACK_BYTES: usize = 256 << 10;

/// Stack of an acceptor thread, in bytes.
pub const ACCEPTOR_STACK: usize = 256 << 10;

/// Connections that the kernel keeps waiting to be accepted.
pub const LISTEN_BACKLOG: i32 = 1024;

/// Bytes of a request's head: request line, headers and the empty line.
pub const MAX_HEAD_BYTES: usize = 16 << 10;

/// Header lines of a request.
pub const MAX_HEADERS: usize = 100;

/// How long a request's head may take, from its first byte; for a new connection, from the accept.
pub const HEAD_DEADLINE: Duration = Duration::from_secs(10);

/// How long a connection may be idle between two requests.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(75);

/// Silence that a body, or a client reading an answer, is granted at most.
pub const TRANSFER_GRACE: Duration = Duration::from_secs(10);

/// What a body must bring, and a client must read, after the grace, in bytes a second.
pub const MIN_TRANSFER_RATE: u64 = 1 << 10;

/// How long a submission may go unanswered by its queue before the client is told that the outcome
/// is unknown.
pub const ANSWER_DEADLINE: Duration = Duration::from_secs(30);

/// How long a refused request's body is read and thrown away before its connection is closed.
pub const LINGER_TIME: Duration = Duration::from_secs(1);

/// Bytes of a refused request's body that are read and thrown away.
pub const LINGER_BYTES: usize = 64 << 10;

/// What deadlines without progress fall to while other connections wait for room.
pub const PRESSED_DEADLINE: Duration = Duration::from_secs(1);

/// How often an acceptor thread looks at the deadlines of its connections, at most.
pub const CONNECTION_TICK: Duration = Duration::from_secs(1);

/// How long is waited after an accept that failed for want of descriptors or memory, or for a
/// connection to end when there is no room, before it is tried again.
pub const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Bytes of a line that gives the size of a chunk, with its extension.
pub const MAX_CHUNK_LINE: usize = 1 << 10;

/// Bytes of all chunk extensions of one body together.
pub const MAX_CHUNK_EXTENSIONS: usize = 16 << 10;

/// Bytes of the trailer of a chunked body.
pub const MAX_TRAILER_BYTES: usize = 8 << 10;

/// Bytes that all bodies together may take while they are arriving.
pub const MAX_ARRIVING_BYTES: usize = 256 << 20;

/// Bytes by which a body's memory grows ahead of what has arrived of it.
pub const BODY_STEP: usize = 64 << 10;

/// Distinct keys that `/dev/flaky` remembers.
pub const MAX_FLAKY_KEYS: usize = 10_000;

/// How long a queue may be without progress before it answers at once that it is busy, and is
/// called stuck.
pub const STUCK_AFTER: Duration = Duration::from_secs(2);

/// How long a queue with work may have had no place or no progress before `/ready` names it.
pub const UNREADY_AFTER: Duration = Duration::from_secs(5);

/// How long a queue may be idle before it gives its place back.
pub const PARK_AFTER: Duration = Duration::from_secs(60);

/// How long a flow that publishes to another queue waits for the receipt.
pub const PUBLISH_DEADLINE: Duration = Duration::from_secs(30);

/// How long an owner thread looks for the next command before it sleeps, while batches have one
/// message.
pub const OWNER_SPIN: Duration = Duration::from_micros(30);

/// Bytes of stack of an owner thread.
pub const OWNER_STACK: usize = 512 << 10;

/// Bytes of stack of a runner thread: a document may be nested [`MAX_DOCUMENT_DEPTH`] deep.
pub const RUNNER_STACK: usize = 2 << 20;

/// How long a stop may take beyond its grace, for files that must be synced and closed.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// Names that one answer or one log line lists before it only counts.
pub const MAX_NAMED_PROBLEMS: usize = 20;

/// Lines that one cause may write within one such interval.
pub const REPEAT_LINES: u32 = 10;

/// The time within which the lines of one complaint are counted.
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
