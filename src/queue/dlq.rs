//! `dlq.log`: the messages that could not be delivered.
//!
//! Frames of kind 2, appended by the owner under `dlq.lock` and synced before the message leaves
//! the queue. The body begins as that of a message, with the length of its correlation id 0
//! (`message`), then:
//!
//! | bytes  | field      | meaning                                                                  |
//! |--------|------------|--------------------------------------------------------------------------|
//! | 30..38 | failed at  | i64, milliseconds since 1970 UTC                                         |
//! | 38..42 | attempts   | u32, how many it consumed                                                |
//! | 42     | reason     | u8: 1 max_attempts_exceeded, 2 corrupt_artifact, 3 non_retryable, 4 crashed |
//! | 43..47 | length     | u32, of the last error                                                   |
//! | 47..   | last error | UTF-8                                                                    |
//! | ..     | payload    | JSON, byte for byte as submitted                                         |
//!
//! The correlation id is not kept, as the document says. The same id twice is one entry, the first.
//! An entry that does not verify is skipped and reported; what is torn at the end is cut by the
//! owner. Nobody but the owner writes here: handling an entry is a mark in `dlq.log.acked`.

use std::io;

use crate::base::{MessageId, Timestamp};
use crate::disk::{Disk, DiskFile, Open};
use crate::queue::acked::{self, Marks};
use crate::queue::error::{QueueError, Report};
use crate::queue::layout::QueuePaths;
use crate::queue::message::{Fixed, Message};
use crate::store::frame::{self, Frame};
use crate::store::scan::{Item, Scanner};

/// The kind of a frame that holds a dead letter.
const KIND_DEAD_LETTER: u8 = 2;

/// Why a message was dead-lettered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The attempt numbered `queue_max_attempts` failed.
    MaxAttemptsExceeded,
    /// The stored flow failed its integrity check.
    CorruptArtifact,
    /// It failed in a way that the flow declares to be final.
    NonRetryable,
    /// The process died too often while it ran.
    Crashed,
}

impl Reason {
    /// The word for it: `max_attempts_exceeded`, `corrupt_artifact`, `non_retryable`, `crashed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::MaxAttemptsExceeded => "max_attempts_exceeded",
            Reason::CorruptArtifact => "corrupt_artifact",
            Reason::NonRetryable => "non_retryable",
            Reason::Crashed => "crashed",
        }
    }

    fn code(self) -> u8 {
        match self {
            Reason::MaxAttemptsExceeded => 1,
            Reason::CorruptArtifact => 2,
            Reason::NonRetryable => 3,
            Reason::Crashed => 4,
        }
    }

    fn from_code(code: u8) -> Option<Reason> {
        match code {
            1 => Some(Reason::MaxAttemptsExceeded),
            2 => Some(Reason::CorruptArtifact),
            3 => Some(Reason::NonRetryable),
            4 => Some(Reason::Crashed),
            _ => None,
        }
    }
}

/// A dead-lettered message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The message's id.
    pub id: MessageId,
    /// When it was appended.
    pub enqueued_at: Timestamp,
    /// Id of the first submission.
    pub first_id: MessageId,
    /// How often it has been replayed.
    pub replays: u32,
    /// When it was dead-lettered.
    pub failed_at: Timestamp,
    /// How many attempts it consumed.
    pub attempts: u32,
    /// Why.
    pub reason: Reason,
    /// The text of the last error.
    pub last_error: String,
    /// As submitted.
    pub payload: Vec<u8>,
}

/// What is added to a message when it is dead-lettered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub failed_at: Timestamp,
    pub attempts: u32,
    pub reason: Reason,
    pub last_error: String,
}

/// Appends the frame of a dead letter.
pub(crate) fn encode(message: &Message, verdict: &Verdict, out: &mut Vec<u8>) {
    let fixed = Fixed {
        id: message.id,
        enqueued_at: message.enqueued_at,
        first_id: message.first_id,
        replays: message.replays,
        correlation_id_len: 0,
    };
    frame::encode(KIND_DEAD_LETTER, out, |out| {
        fixed.write(out);
        out.extend_from_slice(&verdict.failed_at.as_millis().to_le_bytes());
        out.extend_from_slice(&verdict.attempts.to_le_bytes());
        out.push(verdict.reason.code());
        // Error texts are cut to some KiB where they arise.
        out.extend_from_slice(&(verdict.last_error.len() as u32).to_le_bytes());
        out.extend_from_slice(verdict.last_error.as_bytes());
        out.extend_from_slice(&message.payload);
    });
}

fn decode(body: &[u8]) -> Option<DeadLetter> {
    let (fixed, rest) = Fixed::read(body)?;
    let (_, rest) = rest.split_at_checked(usize::from(fixed.correlation_id_len))?;
    let (failed_at, rest) = rest.split_first_chunk::<8>()?;
    let (attempts, rest) = rest.split_first_chunk::<4>()?;
    let (reason, rest) = rest.split_first()?;
    let (error_len, rest) = rest.split_first_chunk::<4>()?;
    let (error, payload) = rest.split_at_checked(u32::from_le_bytes(*error_len) as usize)?;
    Some(DeadLetter {
        id: fixed.id,
        enqueued_at: fixed.enqueued_at,
        first_id: fixed.first_id,
        replays: fixed.replays,
        failed_at: Timestamp::from_millis(i64::from_le_bytes(*failed_at)),
        attempts: u32::from_le_bytes(*attempts),
        reason: Reason::from_code(*reason)?,
        last_error: String::from_utf8_lossy(error).into_owned(),
        payload: payload.to_vec(),
    })
}

/// Where an entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub id: MessageId,
    pub offset: u64,
    pub len: u64,
}

/// The entries of a file, by where they lie. Memory: 24 bytes an entry.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// In the order of the file, each id once.
    pub places: Vec<Place>,
    /// Where the last sound frame ends.
    pub end: u64,
    pub reports: Vec<Report>,
}

/// Reads through the file.
pub(crate) fn index(file: &dyn DiskFile) -> Result<Index, QueueError> {
    let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
    let mut seen = std::collections::HashSet::new();
    let mut index = Index::default();
    let mut scanner = Scanner::default();
    loop {
        let item = scanner.next(file, len).map_err(|e| QueueError::scan(file.path(), &e))?;
        let (offset, bad_len) = match item {
            None => return Ok(index),
            Some(Item::Frame { offset, len, frame }) => {
                index.end = offset + len;
                match entry_id(frame.kind, frame.body) {
                    Some(id) if seen.insert(id) => index.places.push(Place { id, offset, len }),
                    Some(_) => {}
                    None => index.reports.push(skipped(file, offset, len)),
                }
                continue;
            }
            Some(Item::Gap { offset, len, .. }) => (offset, len),
            // Torn or not written: the owner cuts it, and a reader passes over it.
            Some(Item::Zeros { .. } | Item::Tail { .. }) => continue,
        };
        index.reports.push(skipped(file, offset, bad_len));
    }
}

fn skipped(file: &dyn DiskFile, offset: u64, len: u64) -> Report {
    let text = "a dead letter does not verify and is skipped".to_owned();
    Report { path: file.path().to_path_buf(), offset, len, text }
}

fn entry_id(kind: u8, body: &[u8]) -> Option<MessageId> {
    if kind != KIND_DEAD_LETTER {
        return None;
    }
    Fixed::read(body).map(|(fixed, _)| fixed.id)
}

/// Reads one entry; `None` when it no longer verifies.
pub(crate) fn read(file: &dyn DiskFile, place: Place) -> Result<Option<DeadLetter>, QueueError> {
    let bytes = read_frame(file, place)?;
    Ok(frame::decode(&bytes).ok().and_then(|frame| letter(&frame)))
}

/// The dead letter that a frame holds; `None` when it holds none.
pub(crate) fn letter(frame: &Frame<'_>) -> Option<DeadLetter> {
    if frame.kind == KIND_DEAD_LETTER { decode(frame.body) } else { None }
}

/// The bytes of an entry's frame, whose length the index has verified.
pub(crate) fn read_frame(file: &dyn DiskFile, place: Place) -> Result<Vec<u8>, QueueError> {
    let mut bytes = vec![0; place.len as usize];
    let read = file
        .read_full_at(&mut bytes, place.offset)
        .map_err(|error| QueueError::io("read", file.path(), &error))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// A file that need not be there.
pub(crate) fn open_existing(
    disk: &dyn Disk,
    path: &std::path::Path,
    how: Open,
) -> Result<Option<Box<dyn DiskFile>>, QueueError> {
    match disk.open(path, how) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(QueueError::io("open", path, &error)),
    }
}

/// A file of dead letters and where its entries lie.
pub(crate) type Listing = (Box<dyn DiskFile>, Index);

/// The dead letters of a queue that nobody has handled, by id; `None` when there is no file.
pub(crate) fn unhandled(
    disk: &dyn Disk,
    paths: &QueuePaths,
) -> Result<Option<Listing>, QueueError> {
    // The marks first: the owner clears them only after it has replaced the log, so a log that is
    // read later never shows an entry whose mark was seen to be gone.
    let marks = match open_existing(disk, &paths.acked, Open::Read)? {
        Some(file) => acked::read(file.as_ref())?,
        None => Marks::default(),
    };
    let Some(file) = open_existing(disk, &paths.dlq, Open::Read)? else { return Ok(None) };
    let mut index = index(file.as_ref())?;
    index.places.retain(|place| !marks.ids.contains(&place.id));
    index.places.sort_by_key(|place| place.id);
    index.reports.extend(marks.reports);
    Ok(Some((file, index)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::CorrelationId;
    use crate::disk::RealDisk;
    use proptest::prelude::*;

    fn message(id: u64, payload: &[u8]) -> Message {
        let id = MessageId::new(id).unwrap();
        Message {
            id,
            enqueued_at: Timestamp::from_millis(5),
            first_id: id,
            replays: 0,
            correlation_id: CorrelationId::parse(b"c").unwrap(),
            payload: payload.to_vec(),
        }
    }

    fn verdict(error: &str) -> Verdict {
        Verdict {
            failed_at: Timestamp::from_millis(9),
            attempts: 3,
            reason: Reason::MaxAttemptsExceeded,
            last_error: error.to_owned(),
        }
    }

    #[test]
    fn a_damaged_entry_is_skipped_and_reported_and_a_repeated_id_is_one_entry() {
        let dir = tempfile::tempdir().unwrap();
        let file =
            RealDisk::new(dir.path()).open(&dir.path().join("dlq.log"), Open::Create).unwrap();
        let mut bytes = Vec::new();
        let mut starts = Vec::new();
        for id in [5, 2, 5, 9] {
            starts.push(bytes.len());
            encode(&message(id, b"{}"), &verdict("no"), &mut bytes);
        }
        bytes[starts[1] + 40] ^= 1;
        file.write_all_at(&bytes, 0).unwrap();
        file.write_all_at(&[0; 100], bytes.len() as u64).unwrap();
        let index = index(file.as_ref()).unwrap();
        let ids: Vec<u64> = index.places.iter().map(|place| place.id.get()).collect();
        assert_eq!(ids, [5, 9]);
        assert_eq!(index.end, bytes.len() as u64);
        assert_eq!(index.reports.len(), 1);
        assert_eq!(index.reports[0].offset, starts[1] as u64);
    }

    proptest! {
        #[test]
        fn a_dead_letter_comes_back_as_it_went_in(
            id in 1u64.., error in ".{0,50}", payload in prop::collection::vec(any::<u8>(), 0..100), code in 1u8..5,
        ) {
            let reason = Reason::from_code(code).unwrap();
            prop_assert_eq!(reason.code(), code);
            let mut bytes = Vec::new();
            let message = message(id, &payload);
            let verdict = Verdict { reason, ..verdict(&error) };
            encode(&message, &verdict, &mut bytes);
            let letter = decode(frame::decode(&bytes).unwrap().body).unwrap();
            prop_assert_eq!(letter.id, message.id);
            prop_assert_eq!(letter.reason, reason);
            prop_assert_eq!(letter.last_error, error);
            prop_assert_eq!(letter.payload, payload);
        }
    }
}
