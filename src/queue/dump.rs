//! What a file of a queue says, place by place, as rows for a person or a script.
//!
//! Read only and without a lock: beside a running server the last row may be of something that is
//! just being written. Each row names its place as `at` and `length`; `offset` is what a record
//! says of another file. Bytes are shown as text where they are UTF-8, else in Base64.
//!
//! Memory: one message, or the records that are read at once.

use std::ops::ControlFlow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use crate::base::QueueName;
use crate::disk::DiskFile;
use crate::queue::checkpoint::{self, SlotState};
use crate::queue::corrupt;
use crate::queue::dlq;
use crate::queue::error::QueueError;
use crate::queue::message::{KIND_MESSAGE, Message};
use crate::queue::retry::{self, Record};
use crate::queue::sequence::{self, Sequence};
use crate::queue::slots::{self, Slot};
use crate::queue::{acked, wake};
use crate::store::frame::Frame;
use crate::store::record::Place;
use crate::store::scan::{Item, Scanner};

/// Which format a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// `segment.log`.
    Segment,
    /// `segment.log.ckpt`.
    Checkpoint,
    /// `segment.log.retry`.
    Retry,
    /// `segment.log.seq`.
    Sequence,
    /// `segment.log.corrupt`.
    Corrupt,
    /// `dlq.log`.
    DeadLetters,
    /// `dlq.log.acked`.
    Acked,
    /// `worker.lock`.
    WorkerLock,
    /// `queues/wake`.
    Wake,
}

impl FileKind {
    /// The format of a file of this name; that of a copy is its original's (`dlq.log.bad-1`,
    /// `dlq.log.tmp`).
    pub fn of(name: &str) -> Option<FileKind> {
        let name = name.strip_suffix(".tmp").unwrap_or(name);
        let original = match name.rsplit_once(".bad-") {
            Some((original, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                original
            }
            _ => name,
        };
        match original {
            "segment.log" => Some(FileKind::Segment),
            "segment.log.ckpt" => Some(FileKind::Checkpoint),
            "segment.log.retry" => Some(FileKind::Retry),
            "segment.log.seq" => Some(FileKind::Sequence),
            "segment.log.corrupt" => Some(FileKind::Corrupt),
            "dlq.log" => Some(FileKind::DeadLetters),
            "dlq.log.acked" => Some(FileKind::Acked),
            "worker.lock" => Some(FileKind::WorkerLock),
            "wake" => Some(FileKind::Wake),
            _ => None,
        }
    }
}

/// One place of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row<'a> {
    /// Where it begins, in bytes.
    pub at: u64,
    /// How many bytes it has.
    pub length: u64,
    /// What it says.
    #[serde(flatten)]
    pub content: Content<'a>,
}

/// What a place of a file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are those of the formats' own tables")]
pub enum Content<'a> {
    /// A message.
    Message {
        id: u64,
        enqueued_at: String,
        first_id: u64,
        replays: u32,
        correlation_id: &'a str,
        #[serde(flatten)]
        payload: Payload<'a>,
    },
    /// A dead letter.
    DeadLetter {
        id: u64,
        enqueued_at: String,
        first_id: u64,
        replays: u32,
        failed_at: String,
        attempts: u32,
        reason: &'static str,
        last_error: &'a str,
        #[serde(flatten)]
        payload: Payload<'a>,
    },
    /// Bytes of the log that were kept aside.
    Kept {
        offset: u64,
        original_length: u64,
        #[serde(flatten)]
        bytes: Payload<'a>,
    },
    /// A checkpoint.
    Checkpoint { generation: u64, offset: u64, id: u64, retry_length: u64 },
    /// The next id.
    Sequence { next_id: u64, synced_end: u64 },
    /// A retry.
    Scheduled { id: u64, offset: u64, attempt: u32, due_at: String, delay_ms: u64 },
    /// A message that needs no further retry.
    Done { id: u64 },
    /// How often the process died while a message ran.
    Crashed { id: u64, offset: u64, count: u32 },
    /// A dead letter that is replayed or discarded.
    Handled { id: u64 },
    /// A message in flight.
    InFlight { id: u64, offset: u64 },
    /// A queue that is to be looked at.
    Wake { tenant: &'a str, flow: &'a str },
    /// Something sound that does not belong here.
    Foreign,
    /// Bytes that do not verify.
    Damaged,
    /// Zeros.
    Zeros,
    /// Bytes that do not verify, up to the end.
    Torn,
}

/// Bytes, in the one or the other form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs, reason = "the fields are the forms")]
pub enum Payload<'a> {
    /// As they are.
    Text { payload: &'a str },
    /// Not UTF-8.
    Base64 { payload_base64: String },
}

impl<'a> Payload<'a> {
    fn of(bytes: &'a [u8]) -> Payload<'a> {
        match std::str::from_utf8(bytes) {
            Ok(payload) => Payload::Text { payload },
            Err(_) => Payload::Base64 { payload_base64: BASE64_STANDARD.encode(bytes) },
        }
    }
}

/// Takes a row, and says whether there shall be more.
pub type Each<'e> = dyn FnMut(Row<'_>) -> ControlFlow<()> + 'e;

/// Hands every place of a file to `each`, in order, until that says to stop.
///
/// # Errors
/// A file that cannot be read, or is of a newer version.
pub fn dump(file: &dyn DiskFile, kind: FileKind, each: &mut Each<'_>) -> Result<(), QueueError> {
    match kind {
        FileKind::Segment => frames(file, each, &|at, length, frame, each| {
            let message = Some(frame).filter(|frame| frame.kind == KIND_MESSAGE);
            match message.and_then(|frame| Message::decode(frame.body)) {
                Some(message) => each(message_row(at, length, &message)),
                None => each(Row { at, length, content: Content::Foreign }),
            }
        }),
        FileKind::DeadLetters => {
            frames(file, each, &|at, length, frame, each| match dlq::letter(frame) {
                Some(letter) => each(letter_row(at, length, &letter)),
                None => each(Row { at, length, content: Content::Foreign }),
            })
        }
        FileKind::Corrupt => frames(file, each, &|at, length, frame, each| {
            let content = match corrupt::kept(frame) {
                Some(kept) => Content::Kept {
                    offset: kept.offset,
                    original_length: kept.len,
                    bytes: Payload::of(kept.bytes),
                },
                None => Content::Foreign,
            };
            each(Row { at, length, content })
        }),
        FileKind::Checkpoint => checkpoints(file, each),
        FileKind::Sequence => sequence(file, each),
        FileKind::Retry => {
            retry::for_each(file, &mut |place| each(record_row(place, schedule_content)))
        }
        FileKind::Acked => acked::for_each(file, &mut |place| {
            each(record_row(place, |id| Content::Handled { id: id.get() }))
        }),
        FileKind::WorkerLock => slots(file, each),
        FileKind::Wake => wake_lines(file, each),
    }
}

/// Turns a frame at a place (offset and length) into a row.
type OfFrame = dyn Fn(u64, u64, &Frame<'_>, &mut Each<'_>) -> ControlFlow<()>;

fn frames(file: &dyn DiskFile, each: &mut Each<'_>, of_frame: &OfFrame) -> Result<(), QueueError> {
    let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
    let mut scanner = Scanner::default();
    loop {
        let item = scanner.next(file, len);
        let flow = match item.map_err(|error| QueueError::scan(file.path(), &error))? {
            None => return Ok(()),
            Some(Item::Frame { offset, len, frame }) => of_frame(offset, len, &frame, each),
            Some(Item::Gap { offset, len, zeros }) => {
                let content = if zeros { Content::Zeros } else { Content::Damaged };
                each(Row { at: offset, length: len, content })
            }
            Some(Item::Zeros { offset, len }) => {
                each(Row { at: offset, length: len, content: Content::Zeros })
            }
            Some(Item::Tail { offset, len }) => {
                each(Row { at: offset, length: len, content: Content::Torn })
            }
        };
        if flow.is_break() {
            return Ok(());
        }
    }
}

fn message_row(at: u64, length: u64, message: &Message) -> Row<'_> {
    let content = Content::Message {
        id: message.id.get(),
        enqueued_at: message.enqueued_at.to_millis_text(),
        first_id: message.first_id.get(),
        replays: message.replays,
        correlation_id: message.correlation_id.as_str(),
        payload: Payload::of(&message.payload),
    };
    Row { at, length, content }
}

fn letter_row(at: u64, length: u64, letter: &dlq::DeadLetter) -> Row<'_> {
    let content = Content::DeadLetter {
        id: letter.id.get(),
        enqueued_at: letter.enqueued_at.to_millis_text(),
        first_id: letter.first_id.get(),
        replays: letter.replays,
        failed_at: letter.failed_at.to_millis_text(),
        attempts: letter.attempts,
        reason: letter.reason.as_str(),
        last_error: &letter.last_error,
        payload: Payload::of(&letter.payload),
    };
    Row { at, length, content }
}

fn record_row<T>(
    (at, length, record): Place<T>,
    content: impl FnOnce(T) -> Content<'static>,
) -> Row<'static> {
    Row { at, length, content: record.map_or(Content::Damaged, content) }
}

fn schedule_content(record: Record) -> Content<'static> {
    match record {
        Record::Scheduled(retry) => Content::Scheduled {
            id: retry.id.get(),
            offset: retry.offset,
            attempt: retry.attempt,
            due_at: retry.due.to_millis_text(),
            delay_ms: retry.delay_ms,
        },
        Record::Done(id) => Content::Done { id: id.get() },
        Record::Crashed(crashed) => {
            Content::Crashed { id: crashed.id.get(), offset: crashed.offset, count: crashed.count }
        }
    }
}

fn checkpoints(file: &dyn DiskFile, each: &mut Each<'_>) -> Result<(), QueueError> {
    for (at, slot) in checkpoint::slots(file)? {
        let content = match slot {
            SlotState::Empty => continue,
            SlotState::Damaged => Content::Damaged,
            SlotState::Valid(generation, checkpoint) => Content::Checkpoint {
                generation,
                offset: checkpoint.offset,
                id: checkpoint.id.get(),
                retry_length: checkpoint.retry_len,
            },
        };
        if each(Row { at, length: checkpoint::LEN as u64, content }).is_break() {
            break;
        }
    }
    Ok(())
}

fn sequence(file: &dyn DiskFile, each: &mut Each<'_>) -> Result<(), QueueError> {
    let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
    if len == 0 {
        return Ok(());
    }
    let content = match Sequence::read(file)? {
        Some(Sequence { next_id, synced_end }) => {
            Content::Sequence { next_id: next_id.get(), synced_end }
        }
        None => Content::Damaged,
    };
    // There is one row and nothing to stop.
    let _ = each(Row { at: 0, length: len.min(sequence::LEN as u64), content });
    Ok(())
}

fn slots(file: &dyn DiskFile, each: &mut Each<'_>) -> Result<(), QueueError> {
    for (number, slot) in slots::read(file)?.into_iter().enumerate() {
        let (at, length) = slots::place(number);
        let content = match slot {
            Slot::Free => continue,
            Slot::Damaged => Content::Damaged,
            Slot::Full { id, offset } => Content::InFlight { id: id.get(), offset },
        };
        if each(Row { at, length, content }).is_break() {
            break;
        }
    }
    Ok(())
}

fn wake_lines(file: &dyn DiskFile, each: &mut Each<'_>) -> Result<(), QueueError> {
    wake::for_each_line(file, &mut |at, line| {
        let text = line.strip_suffix(b"\n").map(std::str::from_utf8);
        let names = text.and_then(Result::ok).and_then(|line| line.split_once('/'));
        let content = match names {
            Some((tenant, flow)) if QueueName::parse(tenant, flow).is_ok() => {
                Content::Wake { tenant, flow }
            }
            _ => Content::Damaged,
        };
        each(Row { at, length: line.len() as u64, content })
    })
}
