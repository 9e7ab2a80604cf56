//! `segment.log`: the messages, appended in order by any process.
//!
//! A file of frames (`store/frame`) of kind 1 (`message`), the first at offset 0. [`Appender`] is
//! its only writer: one write and one sync for a whole batch, under `append.lock`. Zeros behind the
//! last frame are no data, and what is torn behind it is cut, after a copy of it has been put into
//! `segment.log.corrupt`. Frames are never changed; the file is emptied by a drain and by nothing
//! else.
//!
//! Promises: a [`Receipt`] exists only for a message that is synced, in a file whose name is
//! synced. A batch whose write or sync fails is undone within the same hold of the lock; if it
//! cannot be undone the appender is poisoned and writes nothing more. Ids grow, and none is given
//! twice: the next is above every id found in any file of the queue. What a process that died left
//! behind, written and perhaps never synced, is written again in place and synced before anything
//! is appended behind it.

use std::path::Path;
use std::sync::Arc;

use crate::base::{MessageId, QueueName, Timestamp, limits};
use crate::disk::{Disk, DiskFile, Open, up_to_root};
use crate::queue::corrupt;
use crate::queue::error::{QueueError, Report};
use crate::queue::layout::{Layout, QueuePaths};
use crate::queue::lock::{Held, LockFile};
use crate::queue::message::read_message;
use crate::queue::message::{Fixed, KIND_MESSAGE, NewMessage, Receipt};
use crate::queue::sequence::Sequence;
use crate::queue::{acked, checkpoint, dlq, retry};
use crate::store::scan::{Item, Scanner};

/// Bytes that are written again at once.
const REWRITE_CHUNK: usize = 1 << 20;

/// The buffer of a batch that is kept for the next one.
const KEPT_BUFFER: usize = 1 << 20;

/// Bytes of a batch from which on space is taken ahead of it.
const FILL_FROM: usize = 2 << 10;

/// How many times its own length a batch takes ahead, and the most that one takes.
const FILL_FACTOR: usize = 32;
const MAX_FILL: usize = 256 << 10;

/// What any process may do with a queue: append to it.
pub struct Appender {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) paths: QueuePaths,
    segment: Box<dyn DiskFile>,
    sequence: Box<dyn DiskFile>,
    append_lock: LockFile,
    known: Known,
    poisoned: Option<String>,
    /// Whether this process delivers the queue: then nobody else empties the log.
    owned: bool,
    reports: Vec<Report>,
    buffer: Vec<u8>,
}

/// What this process last saw, under `append.lock`.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Where the last frame ends.
    end: u64,
    /// Length of the file; more than `end` when zeros follow.
    file_len: u64,
    next_id: MessageId,
    /// What `.seq` said; `None` when it was not valid.
    sequence: Option<Sequence>,
    /// The last message: where it begins and its id.
    last: Option<(u64, MessageId)>,
}

/// Where the frames end, as found by reading.
#[derive(Debug, Default)]
struct Found {
    end: u64,
    highest: Option<MessageId>,
    last: Option<(u64, MessageId)>,
    /// Whether the first thing read was no frame.
    begins_damaged: bool,
    /// What does not verify behind the last frame.
    tail: Option<(u64, u64)>,
}

impl Appender {
    /// Makes the queue's directory where it is missing, reads what is there, and makes names and
    /// frames durable.
    ///
    /// # Errors
    /// [`QueueError`] naming the file; nothing is left open.
    pub fn open(
        disk: Arc<dyn Disk>,
        layout: &Layout,
        queue: &QueueName,
    ) -> Result<Appender, QueueError> {
        let paths = layout.queue(queue);
        let fault = |tried: &str, path: &Path, error| QueueError::io(tried, path, &error);
        disk.create_dir_all(&paths.dir).map_err(|e| fault("create", &paths.dir, e))?;
        let open = |path: &Path| disk.open(path, Open::Create).map_err(|e| fault("open", path, e));
        let mut appender = Appender {
            segment: open(&paths.segment)?,
            sequence: open(&paths.sequence)?,
            append_lock: LockFile::new(Arc::clone(&disk), &paths.append_lock),
            known: Known {
                end: 0,
                file_len: 0,
                next_id: MessageId::FIRST,
                sequence: None,
                last: None,
            },
            owned: false,
            disk,
            paths,
            poisoned: None,
            reports: Vec::new(),
            buffer: Vec::new(),
        };
        let held = appender.lock()?;
        appender.known.next_id = appender.first_free_id()?;
        appender.refresh(&held)?;
        drop(held);
        // Whoever created them: a name that was never synced takes the synced file with it in a
        // power cut.
        for dir in up_to_root(&appender.paths.dir, layout.state_dir()) {
            appender.disk.sync_dir(&dir).map_err(|e| fault("sync", &dir, e))?;
        }
        Ok(appender)
    }

    /// Appends a batch: all of it is stored and synced, or, as far as this process can know, none
    /// of it. Its ids stay consumed either way.
    ///
    /// # Errors
    /// `NoRoom` and `Io`: whether the batch is stored is unknown to its senders, though it was
    /// undone here. `Locked`: nothing was written. `Poisoned`: the queue must be opened anew before
    /// it takes anything.
    pub fn append(
        &mut self,
        batch: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Receipt>, QueueError> {
        if let Some(why) = &self.poisoned {
            return Err(QueueError::poisoned(why.clone()));
        }
        let held = self.lock()?;
        self.check_identity()?;
        self.refresh(&held)?;
        let receipts = self.encode(batch, now);
        let next_id = self.known.next_id.plus(batch.len() as u64);
        self.known.next_id = next_id;
        let sequence = Sequence { next_id, synced_end: self.known.end };
        self.known.sequence = None;
        sequence.write(self.sequence.as_ref())?;
        self.known.sequence = Some(sequence);
        self.write_batch()?;
        let last = receipts.last().map(|receipt| (receipt.offset, receipt.id));
        self.known.last = last.or(self.known.last);
        Ok(receipts)
    }

    /// Puts the frames of a batch into the buffer.
    fn encode(&mut self, batch: &[NewMessage], now: Timestamp) -> Vec<Receipt> {
        self.buffer.clear();
        self.buffer.shrink_to(KEPT_BUFFER);
        self.buffer.reserve(batch.iter().map(NewMessage::frame_len).sum());
        let mut receipts = Vec::with_capacity(batch.len());
        for (index, message) in batch.iter().enumerate() {
            let id = self.known.next_id.plus(index as u64);
            receipts.push(Receipt { id, offset: self.known.end + self.buffer.len() as u64 });
            message.encode(id, now, &mut self.buffer);
        }
        receipts
    }

    /// One write, one sync; a failure is undone, or poisons.
    ///
    /// A large batch that makes the file grow takes space ahead, filled with zeros: the syncs of
    /// the batches that follow need not write the file's length, which nearly doubles their number.
    /// Single small ones gain nothing by it.
    fn write_batch(&mut self) -> Result<(), QueueError> {
        let end = self.known.end;
        let len = self.buffer.len();
        if len >= FILL_FROM && end + len as u64 > self.known.file_len {
            self.buffer.resize(len + (FILL_FACTOR * len).min(MAX_FILL), 0);
        }
        let written = self
            .segment
            .write_all_at(&self.buffer, end)
            .map_err(|error| QueueError::io("append to", &self.paths.segment, &error))
            .and_then(|()| {
                let synced = self.segment.sync();
                synced.map_err(|error| QueueError::io("sync", &self.paths.segment, &error))
            });
        let Err(mut error) = written else {
            self.known.end = end + len as u64;
            self.known.file_len = self.known.file_len.max(end + self.buffer.len() as u64);
            return Ok(());
        };
        self.known.file_len = end;
        if let Err(second) = self.segment.set_len(end).and_then(|()| self.segment.sync()) {
            error.text = format!("{}, nor undo that: {second}", error.text);
            self.poisoned = Some(error.text.clone());
        }
        Err(error)
    }

    /// Takes `append.lock`.
    pub(crate) fn lock(&mut self) -> Result<Held, QueueError> {
        self.append_lock.lock(limits::LOCK_DEADLINE)
    }

    /// Poisons the appender when the log is no longer the file at its path.
    pub(crate) fn check_identity(&mut self) -> Result<(), QueueError> {
        for file in [&self.segment, &self.sequence] {
            let same = file.is_still_at_its_path(self.disk.as_ref());
            if !same.map_err(|error| QueueError::io("look at", file.path(), &error))? {
                let text = format!("{} was removed or replaced", file.path().display());
                self.poisoned = Some(text.clone());
                return Err(QueueError::poisoned(text));
            }
        }
        Ok(())
    }

    /// Whether another process has appended or drained since this one last looked. Needs no lock;
    /// the answer is only a reason to take it.
    pub(crate) fn is_stale(&self) -> Result<bool, QueueError> {
        let sequence = Sequence::read(self.sequence.as_ref())?;
        Ok(sequence != self.known.sequence || self.len()? != self.known.file_len)
    }

    /// Learns, under `append.lock`, what other processes did: where the log ends now and which id
    /// is next.
    pub(crate) fn refresh(&mut self, _held: &Held) -> Result<(), QueueError> {
        let len = self.len()?;
        let sequence = Sequence::read(self.sequence.as_ref())?;
        let seen = sequence.is_some() && sequence == self.known.sequence;
        if seen && len == self.known.file_len {
            return Ok(());
        }
        self.check_last()?;
        let (from, found) = self.find_frames(sequence, len)?;
        self.rewrite(from, found.end)?;
        let len = self.cut_tail(&found, len)?;
        let from_frames = found.highest.map(MessageId::next);
        let from_sequence = sequence.map(|sequence| sequence.next_id);
        // Without `.seq`, ids that were given since this process last looked may be in the other
        // files only: the log may have been emptied meanwhile.
        let from_others = if sequence.is_none() { Some(self.first_free_id()?) } else { None };
        let found_ids = [from_frames, from_sequence, from_others].into_iter().flatten();
        let next_id = found_ids.fold(self.known.next_id, MessageId::max);
        let last = found.last.or(self.known.last);
        self.known = Known { end: found.end, file_len: len, next_id, sequence, last };
        Ok(())
    }

    /// Poisons an owner's appender when the last message that it knew of is gone: it was damaged,
    /// and another process has cut it off and appended in its place, behind where the owner has
    /// read to. Recovery finds what is there.
    fn check_last(&mut self) -> Result<(), QueueError> {
        let Some((offset, id)) = self.known.last.filter(|_| self.owned) else { return Ok(()) };
        if read_message(self.segment.as_ref(), offset, id)?.is_some() {
            return Ok(());
        }
        let text = format!(
            "message {id} at offset {offset} of {} is damaged, and the log was changed behind it",
            self.paths.segment.display()
        );
        self.poisoned = Some(text.clone());
        Err(QueueError::poisoned(text))
    }

    /// From here on this process delivers the queue.
    pub(crate) fn set_owned(&mut self) {
        self.owned = true;
    }

    /// Reads the frames from where the log is known to be synced; from its start where that is not
    /// known, or where no frame begins there, because `.seq` is older or newer than the log.
    fn find_frames(
        &self,
        sequence: Option<Sequence>,
        len: u64,
    ) -> Result<(u64, Found), QueueError> {
        let from = sequence.map_or(0, |sequence| sequence.synced_end);
        if from > 0 && from <= len {
            let found = self.read_frames(from, len)?;
            if !found.begins_damaged {
                return Ok((from, found));
            }
        }
        Ok((0, self.read_frames(0, len)?))
    }

    fn read_frames(&self, from: u64, len: u64) -> Result<Found, QueueError> {
        let mut found = Found { end: from, ..Found::default() };
        let mut scanner = Scanner::at(from);
        loop {
            let item = scanner.next(self.segment.as_ref(), len);
            match item.map_err(|error| QueueError::scan(&self.paths.segment, &error))? {
                None => return Ok(found),
                Some(Item::Frame { offset, len, frame }) => {
                    found.end = offset + len;
                    if frame.kind == KIND_MESSAGE {
                        let id = Fixed::read(frame.body).map(|(fixed, _)| fixed.id);
                        found.highest = found.highest.max(id);
                        found.last = id.map(|id| (offset, id));
                    }
                }
                // Zeros may be space that was given back.
                Some(Item::Gap { offset, zeros, .. }) => {
                    found.begins_damaged |= offset == from && !zeros;
                }
                Some(Item::Zeros { .. }) => {}
                Some(Item::Tail { offset, len }) => {
                    found.begins_damaged |= offset == from;
                    found.tail = Some((offset, len));
                }
            }
        }
    }

    /// Writes a part of the log again in place and syncs it.
    fn rewrite(&self, from: u64, to: u64) -> Result<(), QueueError> {
        if from >= to {
            return Ok(());
        }
        rewrite(self.segment.as_ref(), from, to)
    }

    /// Cuts what is torn behind the last frame; the length that the file has then.
    fn cut_tail(&mut self, found: &Found, len: u64) -> Result<u64, QueueError> {
        let Some((offset, tail_len)) = found.tail else { return Ok(len) };
        let fault = |error| QueueError::io("cut the torn end of", &self.paths.segment, &error);
        let kept = corrupt::keep_aside(
            self.disk.as_ref(),
            &self.paths.corrupt,
            self.segment.as_ref(),
            (offset, tail_len),
        );
        self.segment.set_len(found.end).map_err(fault)?;
        self.segment.sync().map_err(fault)?;
        self.reports.push(Report {
            path: self.paths.segment.clone(),
            offset,
            len: tail_len,
            text: corrupt::describe("the end of the log was torn and has been cut", kept),
        });
        Ok(found.end)
    }

    /// The id above every one in any file of the queue but the log and `.seq`.
    fn first_free_id(&self) -> Result<MessageId, QueueError> {
        let open = |path: &Path| dlq::open_existing(self.disk.as_ref(), path, Open::Read);
        let mut highest = None;
        if let Some(file) = open(&self.paths.checkpoint)?
            && let Some(checkpoint) = checkpoint::read(file.as_ref())?
            && checkpoint.id > MessageId::FIRST
        {
            // The checkpoint's id may itself be still to give.
            highest = MessageId::new(checkpoint.id.get() - 1);
        }
        if let Some(file) = open(&self.paths.retry)? {
            highest = highest.max(retry::load(file.as_ref())?.highest);
        }
        if let Some(file) = open(&self.paths.dlq)? {
            let index = dlq::index(file.as_ref())?;
            highest = highest.max(index.places.iter().map(|place| place.id).max());
        }
        if let Some(file) = open(&self.paths.acked)? {
            highest = highest.max(acked::read(file.as_ref())?.ids.into_iter().max());
        }
        Ok(highest.map_or(MessageId::FIRST, MessageId::next))
    }

    /// Empties the log, under `append.lock`, after everything in it is settled on the disk. `.seq`
    /// is synced first: from then on it alone remembers the ids.
    pub(crate) fn empty(&mut self, _held: &Held) -> Result<(), QueueError> {
        let sequence = Sequence { next_id: self.known.next_id, synced_end: 0 };
        self.known.sequence = None;
        sequence.write(self.sequence.as_ref())?;
        let synced = self.sequence.sync();
        synced.map_err(|error| QueueError::io("sync", &self.paths.sequence, &error))?;
        self.known.sequence = Some(sequence);
        let emptied = self.segment.set_len(0).and_then(|()| self.segment.sync());
        if let Err(error) = emptied {
            let error = QueueError::io("empty", &self.paths.segment, &error);
            self.poisoned = Some(error.text.clone());
            return Err(QueueError::poisoned(error.text));
        }
        self.known.end = 0;
        self.known.last = None;
        self.known.file_len = 0;
        Ok(())
    }

    /// Where the last frame ends, as this process last saw it. What lies before is synced.
    pub(crate) fn end(&self) -> u64 {
        self.known.end
    }

    /// Whether the file has any byte.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.file_len == 0
    }

    /// The log, for reading.
    pub(crate) fn file(&self) -> &dyn DiskFile {
        self.segment.as_ref()
    }

    /// What was found damaged since the last call.
    pub fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    fn len(&self) -> Result<u64, QueueError> {
        self.segment.len().map_err(|error| QueueError::io("read", &self.paths.segment, &error))
    }
}

/// Writes a part of a file again in place and syncs it: bytes that can be read may never have been
/// synced, and after a failed sync a later one proves nothing about them.
pub(crate) fn rewrite(file: &dyn DiskFile, from: u64, to: u64) -> Result<(), QueueError> {
    let fault = |error| QueueError::io("write again", file.path(), &error);
    let mut buffer = vec![0; REWRITE_CHUNK.min((to.saturating_sub(from)) as usize)];
    let mut at = from;
    while at < to {
        let want = buffer.len().min((to - at) as usize);
        let read = file.read_full_at(&mut buffer[..want], at).map_err(fault)?;
        if read == 0 {
            break;
        }
        // Zeros are no data, and may be space that was given back.
        if buffer[..read].iter().any(|byte| *byte != 0) {
            file.write_all_at(&buffer[..read], at).map_err(fault)?;
        }
        at += read as u64;
    }
    file.sync().map_err(fault)
}
