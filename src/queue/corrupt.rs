//! `segment.log.corrupt`: bytes of the log that did not verify, kept for a person.
//!
//! Frames (`store/frame`) of kind 3, whose body is:
//!
//! | bytes | field  | meaning                                      |
//! |-------|--------|----------------------------------------------|
//! | 0..8  | offset | u64, where the bytes stood in `segment.log`  |
//! | 8..16 | length | u64, how many they were                      |
//! | 16..  | bytes  | as they were, at most 1 MiB of them          |
//!
//! Each gap is kept once, by offset, length and bytes; the file grows to at most 64 MiB. It is a
//! copy, and nothing depends on it: it is written before a repair, under `append.lock`, and never
//! read by the queue.

use std::path::Path;

use crate::base::limits::MAX_CORRUPT_BYTES;
use crate::disk::{Disk, DiskFile, Open};
use crate::queue::error::QueueError;
use crate::store::frame::{self, Frame};
use crate::store::scan::{Item, Scanner};

const KIND_CORRUPT: u8 = 3;

/// Bytes of one gap that are kept.
const MAX_KEPT: u64 = 1 << 20;

/// Copies a gap (offset and length) of the log into the file at `path`, unless it is there already
/// or the file is full.
pub(crate) fn keep_aside(
    disk: &dyn Disk,
    path: &Path,
    log: &dyn DiskFile,
    gap: (u64, u64),
) -> Result<(), QueueError> {
    keep(disk, path, log, gap).map(|_| ())
}

/// Copies all of a gap, however long, in as many pieces as it takes.
///
/// # Errors
/// Also when the file is full: then not all of it is kept.
pub(crate) fn keep_all_aside(
    disk: &dyn Disk,
    path: &Path,
    log: &dyn DiskFile,
    (offset, len): (u64, u64),
) -> Result<(), QueueError> {
    let mut done = 0;
    while done < len {
        let piece = (len - done).min(MAX_KEPT);
        if !keep(disk, path, log, (offset + done, piece))? {
            let why = format!(
                "it has the {MAX_CORRUPT_BYTES} bytes that it may have; move it away first"
            );
            return Err(QueueError::unwritable(path, &why));
        }
        done += piece;
    }
    Ok(())
}

/// Keeps at most [`MAX_KEPT`] bytes of a gap; `false` when there is no room for them.
fn keep(
    disk: &dyn Disk,
    path: &Path,
    log: &dyn DiskFile,
    (offset, len): (u64, u64),
) -> Result<bool, QueueError> {
    let fault = |error| QueueError::io("write", path, &error);
    let mut bytes = vec![0; len.min(MAX_KEPT) as usize];
    let read = log
        .read_full_at(&mut bytes, offset)
        .map_err(|error| QueueError::io("read", log.path(), &error))?;
    bytes.truncate(read);
    let mut gap = Vec::with_capacity(bytes.len() + 32);
    frame::encode(KIND_CORRUPT, &mut gap, |out| {
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&bytes);
    });
    let file = disk.open(path, Open::Create).map_err(fault)?;
    let Some(end) = end_without(file.as_ref(), &gap)? else { return Ok(true) };
    if end + gap.len() as u64 > MAX_CORRUPT_BYTES {
        return Ok(false);
    }
    file.write_all_at(&gap, end).and_then(|()| file.sync()).map_err(fault)?;
    Ok(true)
}

/// A gap that was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept<'a> {
    /// Where it stood in the log.
    pub offset: u64,
    /// How many bytes it had.
    pub len: u64,
    /// As many of them as were kept.
    pub bytes: &'a [u8],
}

/// The gap that a frame holds; `None` when it holds none.
pub(crate) fn kept<'a>(frame: &Frame<'a>) -> Option<Kept<'a>> {
    if frame.kind != KIND_CORRUPT {
        return None;
    }
    let (offset, rest) = frame.body.split_first_chunk::<8>()?;
    let (len, bytes) = rest.split_first_chunk::<8>()?;
    Some(Kept { offset: u64::from_le_bytes(*offset), len: u64::from_le_bytes(*len), bytes })
}

/// The text of a report, with what became of the copy: a full disk must not keep a queue from being
/// repaired.
pub(crate) fn describe(text: &str, kept: Result<(), QueueError>) -> String {
    match kept {
        Ok(()) => format!("{text}; the bytes are kept in segment.log.corrupt"),
        Err(error) => format!("{text}; the bytes could not be kept aside: {error}"),
    }
}

/// Where the next gap goes; `None` when this one is there already.
fn end_without(file: &dyn DiskFile, gap: &[u8]) -> Result<Option<u64>, QueueError> {
    let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
    let mut scanner = Scanner::default();
    let mut end = 0;
    loop {
        let item = scanner.next(file, len);
        match item.map_err(|error| QueueError::scan(file.path(), &error))? {
            None => return Ok(Some(end)),
            Some(Item::Frame { frame, .. }) if frame.body == &gap[frame::HEADER_LEN..] => {
                return Ok(None);
            }
            Some(Item::Frame { offset, len, .. }) => end = offset + len,
            Some(_) => {}
        }
    }
}
