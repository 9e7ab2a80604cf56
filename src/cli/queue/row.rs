//! How a queue is shown as JSON. The names are those of the HTTP interface.

use serde::Serialize;

use crate::base::{QueueName, Timestamp};
use crate::queue::{Inspection, Overview, Worker};

/// A queue as `list --json` shows it.
#[derive(Debug, Serialize)]
pub(super) struct QueueRow<'a> {
    tenant: &'a str,
    flow: &'a str,
    waiting: u64,
    in_flight: u64,
    retrying: u64,
    dead_letters: u64,
    total: u64,
    processed: u64,
    /// Null when nothing is due.
    oldest_due_seconds: Option<u64>,
    paused: bool,
    /// Null when nobody delivers it.
    worker: Option<WorkerRow>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum WorkerRow {
    /// The process's number.
    Process(u32),
    /// True: there is one, and which it is cannot be told.
    Unknown(bool),
}

impl<'a> QueueRow<'a> {
    pub(super) fn of(queue: &'a QueueName, seen: &Overview, now: Timestamp) -> QueueRow<'a> {
        QueueRow {
            tenant: queue.tenant.as_str(),
            flow: queue.flow.as_str(),
            waiting: seen.waiting,
            in_flight: seen.in_flight,
            retrying: seen.retrying,
            dead_letters: seen.dead_letters,
            total: seen.total,
            processed: seen.processed,
            oldest_due_seconds: seen.oldest_due_seconds(now),
            paused: seen.paused,
            worker: match seen.worker {
                Worker::None => None,
                Worker::Running(Some(process)) => Some(WorkerRow::Process(process)),
                Worker::Running(None) => Some(WorkerRow::Unknown(true)),
            },
        }
    }
}

/// A queue as `show --json` shows it.
#[derive(Debug, Serialize)]
pub(super) struct DetailRow<'a> {
    #[serde(flatten)]
    queue: QueueRow<'a>,
    oldest: Option<OldestRow>,
    next_due_at: Option<String>,
    retries: Vec<RetryRow>,
    files: Vec<FileRow<'a>>,
}

#[derive(Debug, Serialize)]
struct OldestRow {
    id: u64,
    enqueued_at: String,
}

#[derive(Debug, Serialize)]
struct RetryRow {
    id: u64,
    attempt: u32,
    due_at: String,
    delay_ms: u64,
}

#[derive(Debug, Serialize)]
struct FileRow<'a> {
    name: &'a str,
    bytes: u64,
}

impl<'a> DetailRow<'a> {
    pub(super) fn of(queue: &'a QueueName, seen: &'a Inspection, now: Timestamp) -> DetailRow<'a> {
        let retries = seen.retries.iter().map(|retry| RetryRow {
            id: retry.id.get(),
            attempt: retry.attempt,
            due_at: retry.due_at.to_millis_text(),
            delay_ms: retry.delay_ms,
        });
        DetailRow {
            queue: QueueRow::of(queue, &seen.overview, now),
            oldest: seen.oldest.map(|oldest| OldestRow {
                id: oldest.id.get(),
                enqueued_at: oldest.enqueued_at.to_millis_text(),
            }),
            next_due_at: seen.overview.next_due.map(Timestamp::to_millis_text),
            retries: retries.collect(),
            files: seen.files.iter().map(|(name, bytes)| FileRow { name, bytes: *bytes }).collect(),
        }
    }
}
