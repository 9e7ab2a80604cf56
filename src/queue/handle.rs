//! What a person does with dead letters, in any process: list them, replay one, discard one.
//!
//! Replaying holds `dlq.lock` from reading the entry to syncing its mark, so that of twelve replays
//! at once one wins and the others are told that it is handled. The entry is written again in place
//! and synced before it is acted on: the owner that wrote it may have died before its own sync. The
//! message is appended and synced, then the queue is named in `queues/wake`, then the mark is
//! written and synced: a crash in between gives one message more, never less.

use std::path::Path;
use std::sync::Arc;

use crate::base::limits::LOCK_DEADLINE;
use crate::base::random::Random;
use crate::base::{CorrelationId, MessageId, QueueName, Timestamp};
use crate::disk::{Disk, DiskFile, Open};
use crate::queue::acked::{self, Marks};
use crate::queue::dlq::{self, DeadLetter, Place};
use crate::queue::error::{QueueError, Report};
use crate::queue::layout::{Layout, QueuePaths};
use crate::queue::lock::LockFile;
use crate::queue::message::{NewMessage, Origin, Receipt};
use crate::queue::segment::Appender;
use crate::queue::wake;

/// Why a dead letter was not handled.
#[derive(Debug, thiserror::Error)]
pub enum HandleError {
    /// There is no such entry.
    #[error("no dead letter with id {id} in tenant {} flow {}", queue.tenant, queue.flow)]
    NotFound {
        /// The queue.
        queue: QueueName,
        /// The id that was asked for.
        id: u64,
    },
    /// It was replayed or discarded before.
    #[error(
        "the dead letter with id {id} in tenant {} flow {} is handled already",
        queue.tenant,
        queue.flow
    )]
    AlreadyHandled {
        /// The queue.
        queue: QueueName,
        /// The id that was asked for.
        id: u64,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// Hands every dead letter of a queue that nobody has handled, by id ascending, to `each`, one at a
/// time; gives what was damaged and skipped. A queue without a directory has none, and none is
/// made.
///
/// # Errors
/// A file that cannot be read.
pub fn dead_letters(
    disk: &dyn Disk,
    layout: &Layout,
    queue: &QueueName,
    each: &mut dyn FnMut(DeadLetter),
) -> Result<Vec<Report>, QueueError> {
    let Some((file, mut index)) = dlq::unhandled(disk, &layout.queue(queue))? else {
        return Ok(Vec::new());
    };
    for place in index.places {
        match dlq::read(file.as_ref(), place)? {
            Some(letter) => each(letter),
            None => index.reports.push(Report {
                path: file.path().to_path_buf(),
                offset: place.offset,
                len: place.len,
                text: "a dead letter does not verify and is skipped".to_owned(),
            }),
        }
    }
    Ok(index.reports)
}

/// Appends the payload of a dead letter as a new message, with a fresh correlation id and a full
/// retry budget, and marks the entry handled. The caller has checked that the flow is in the
/// registry.
///
/// # Errors
/// [`HandleError`]; the entry is then as it was, except that a message whose mark could not be
/// written may come again.
pub fn replay(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    queue: &QueueName,
    id: u64,
    now: Timestamp,
    random: &dyn Random,
) -> Result<Receipt, HandleError> {
    let held = Entry::find(disk, layout, queue, id)?;
    let letter = held.letter;
    let message = NewMessage {
        payload: letter.payload,
        correlation_id: CorrelationId::generate(random),
        origin: Some(Origin {
            first_id: letter.first_id,
            replays: letter.replays.saturating_add(1),
        }),
    };
    let mut appender = Appender::open(Arc::clone(disk), layout, queue)?;
    let receipts = appender.append(&[message], now)?;
    wake::write(disk.as_ref(), layout, queue)?;
    acked::mark(held.marked.as_ref(), &held.marks, letter.id)?;
    // One message, one receipt.
    Ok(receipts[0])
}

/// Marks a dead letter handled without running anything.
///
/// # Errors
/// [`HandleError`]; the entry is then as it was.
pub fn discard(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    queue: &QueueName,
    id: u64,
) -> Result<(), HandleError> {
    let held = Entry::find(disk, layout, queue, id)?;
    acked::mark(held.marked.as_ref(), &held.marks, held.letter.id)?;
    // The mark is what counts, and it is on the disk; without the line it is applied a little
    // later.
    let _ = wake::write(disk.as_ref(), layout, queue);
    Ok(())
}

/// A dead letter that is about to be handled, `dlq.lock` being held.
struct Entry {
    letter: DeadLetter,
    marks: Marks,
    marked: Box<dyn DiskFile>,
    _held: crate::queue::lock::Held,
}

impl Entry {
    fn find(
        disk: &Arc<dyn Disk>,
        layout: &Layout,
        queue: &QueueName,
        id: u64,
    ) -> Result<Entry, HandleError> {
        let not_found = || HandleError::NotFound { queue: queue.clone(), id };
        let paths = layout.queue(queue);
        let wanted = MessageId::new(id).ok_or_else(not_found)?;
        // Nothing is created for a queue that does not exist.
        if dlq::open_existing(disk.as_ref(), &paths.dlq, Open::Read)?.is_none() {
            return Err(not_found());
        }
        let held = LockFile::new(Arc::clone(disk), &paths.dlq_lock).lock(LOCK_DEADLINE)?;
        let marked = open(disk.as_ref(), &paths.acked, Open::Create)?;
        let marks = acked::read(marked.as_ref())?;
        if marks.ids.contains(&wanted) {
            return Err(HandleError::AlreadyHandled { queue: queue.clone(), id });
        }
        let log = open(disk.as_ref(), &paths.dlq, Open::Write)?;
        let place = dlq::index(log.as_ref())?.places.into_iter().find(|place| place.id == wanted);
        let place = place.ok_or_else(not_found)?;
        let letter = dlq::read(log.as_ref(), place)?.ok_or_else(not_found)?;
        make_durable(disk.as_ref(), &paths, log.as_ref(), place)?;
        Ok(Entry { letter, marks, marked, _held: held })
    }
}

/// Writes an entry again in place and syncs it, and the names of the files.
fn make_durable(
    disk: &dyn Disk,
    paths: &QueuePaths,
    log: &dyn DiskFile,
    place: Place,
) -> Result<(), QueueError> {
    let bytes = dlq::read_frame(log, place)?;
    let written = log.write_all_at(&bytes, place.offset).and_then(|()| log.sync());
    written.map_err(|error| QueueError::io("write again", log.path(), &error))?;
    disk.sync_dir(&paths.dir).map_err(|error| QueueError::io("sync", &paths.dir, &error))
}

fn open(disk: &dyn Disk, path: &Path, how: Open) -> Result<Box<dyn DiskFile>, QueueError> {
    disk.open(path, how).map_err(|error| QueueError::io("open", path, &error))
}
