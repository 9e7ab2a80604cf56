//! The 500 ms poll of an owner: what others appended, whether the files are still its own, and,
//! with nothing left to do, the drain.
//!
//! A drain empties `segment.log` in place and rewrites `dlq.log` without the entries that are
//! handled (the document "Queues, retries and the DLQ", section "Housekeeping"). Its order is what
//! makes a crash between any two steps safe:
//!
//! 1. under `append.lock`, the end of the log is the last settled offset;
//! 2. the checkpoint is written as offset 0, schedule length 0, its id kept, and synced;
//! 3. the schedule is emptied and synced; 4. `.seq` is written and synced; 5. the log is emptied
//!    and synced;
//! 6. under `dlq.lock`, the log being empty: `dlq.log` is replaced, then the marks are cleared.

use std::io;

use crate::base::limits::LOCK_DEADLINE;
use crate::disk::{DiskFile, Open};
use crate::queue::acked;
use crate::queue::checkpoint::Checkpoint;
use crate::queue::core::{Owner, Tail};
use crate::queue::error::QueueError;
use crate::queue::message::Fixed;
use crate::queue::retry::{RECORD_LEN, Record};
use crate::queue::schedule::Moment;
use crate::store::replace::{copy_range, replace};
use crate::store::scan::{Item, Scanner};

/// Length of the schedule in bytes below which it is not compacted.
const COMPACT_FROM: u64 = 4 * 1024;

impl Owner {
    /// Looks around: to be called every 500 ms. `true` when the queue was drained.
    ///
    /// # Errors
    /// `Poisoned`: a file is no longer the one at its path; the queue must be opened anew. Others:
    /// a file that cannot be read or written; nothing is lost, and the next poll tries again.
    pub fn poll(&mut self, now: Moment) -> Result<bool, QueueError> {
        self.check_identities()?;
        self.poll_pause()?;
        if self.appender.is_stale()? {
            let held = self.appender.lock()?;
            self.appender.refresh(&held)?;
        }
        if self.stalled {
            return Ok(false);
        }
        if !self.is_idle() {
            self.compact(now)?;
            self.reclaim(now)?;
            return Ok(false);
        }
        self.sync_checkpoint(now, true)?;
        if self.is_clean()? { Ok(false) } else { self.drain(now) }
    }

    /// Whether nothing is left to deliver and no retry is pending.
    pub fn is_idle(&self) -> bool {
        self.line.is_empty()
            && self.flights.is_empty()
            && self.schedule.is_empty()
            && self.pending.is_empty()
            && self.scanner.position() >= self.appender.end()
    }

    /// Whether there is nothing that a drain would empty.
    fn is_clean(&self) -> Result<bool, QueueError> {
        let marks = match self.appender.disk.open(&self.appender.paths.acked, Open::Read) {
            Ok(file) => length(file.as_ref())?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(QueueError::io("open", &self.appender.paths.acked, &error)),
        };
        Ok(marks == 0 && self.appender.is_empty() && length(self.retry.file.as_ref())? == 0)
    }

    fn drain(&mut self, now: Moment) -> Result<bool, QueueError> {
        let held = self.appender.lock()?;
        self.appender.refresh(&held)?;
        if self.scanner.position() < self.appender.end() {
            return Ok(false);
        }
        let id = self.floor().id;
        // From here to the end of the step nothing starts: a failure leaves the rest for the next
        // poll.
        self.checkpoint.write(Checkpoint { offset: 0, id, retry_len: 0 })?;
        self.unsynced_since = Some(now.boot);
        self.checkpoint.sync()?;
        self.unsynced_since = None;
        self.unsynced_count = 0;
        let fault = |error| QueueError::io("empty", &self.appender.paths.retry, &error);
        // Even if this fails: a record appended behind what is gone would leave a hole. Over what
        // is still there it does no harm: all of that is done.
        self.retry.end = 0;
        self.retry.file.set_len(0).map_err(fault)?;
        self.retry.file.sync().map_err(fault)?;
        self.appender.empty(&held)?;
        drop(held);
        self.min_id = id;
        self.settled_early.clear();
        self.crashes.clear();
        self.scanner.seek(0);
        self.last_frame = 0;
        self.space.reset();
        self.apply_marks()?;
        Ok(true)
    }

    /// Rewrites `dlq.log` without the entries that are handled, then clears the marks. Only while
    /// the log is empty: an entry whose message still stood in it would, once gone, let the message
    /// be delivered again.
    fn apply_marks(&mut self) -> Result<(), QueueError> {
        let paths = self.appender.paths.clone();
        let disk = std::sync::Arc::clone(&self.appender.disk);
        let _held = self.dlq_lock.lock(LOCK_DEADLINE)?;
        let marked = disk
            .open(&paths.acked, Open::Create)
            .map_err(|error| QueueError::io("open", &paths.acked, &error))?;
        let marks = acked::read(marked.as_ref())?;
        if marks.len == 0 {
            return Ok(());
        }
        if !marks.ids.is_empty() {
            let old = self.dlq.file.as_ref();
            let end = self.dlq.end;
            let is_kept =
                |body: &[u8]| Fixed::read(body).is_none_or(|(f, _)| !marks.ids.contains(&f.id));
            let file = replace(disk.as_ref(), &paths.dlq, |new| copy_kept(old, end, new, &is_kept))
                .and_then(|file| Ok((file.len()?, file)));
            let (end, file) = file.map_err(|error| self.not_replaced("rewrite", old, &error))?;
            self.dlq = Tail { end, file };
        }
        let cleared = marked.set_len(0).and_then(|()| marked.sync());
        cleared.map_err(|error| QueueError::io("clear", &paths.acked, &error))
    }

    /// Replaces the schedule by a shorter one once more than half of it is dead.
    fn compact(&mut self, now: Moment) -> Result<(), QueueError> {
        let live = self.schedule.len() + self.crashes.len() + self.flights.len();
        let live_len = live as u64 * RECORD_LEN;
        if self.retry.end < COMPACT_FROM || self.retry.end < 2 * live_len {
            return Ok(());
        }
        // The old checkpoint relies on a length that the new file will not have.
        self.checkpoint.write(Checkpoint { retry_len: 0, ..self.floor() })?;
        self.unsynced_since = Some(now.boot);
        self.sync_checkpoint(now, true)?;
        self.settled_early = self.settled_early.split_off(&self.floor().id);
        let bytes = self.live_records();
        let (disk, old) = (self.appender.disk.as_ref(), self.retry.file.as_ref());
        let file = replace(disk, old.path(), |new| new.write_all_at(&bytes, 0))
            .map_err(|error| self.not_replaced("compact", old, &error))?;
        self.retry = Tail { file, end: bytes.len() as u64 };
        Ok(())
    }

    /// The fault of a replacement that failed. If the path names the new file all the same, what
    /// would be appended to the old one would be lost: the queue must be opened anew.
    fn not_replaced(&self, tried: &str, old: &dyn DiskFile, error: &io::Error) -> QueueError {
        let error = QueueError::io(tried, old.path(), error);
        match old.is_still_at_its_path(self.appender.disk.as_ref()) {
            Ok(true) => error,
            Ok(false) | Err(_) => QueueError::poisoned(error.text),
        }
    }

    /// The records that still say something: pending retries, those in flight, crashes, and what is
    /// done at or past the checkpoint.
    fn live_records(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let in_flight = self.flights.values().filter_map(|flight| flight.retry.as_ref());
        for retry in self.schedule.iter().chain(in_flight) {
            Record::Scheduled(*retry).encode(&mut bytes);
        }
        for crashed in self.crashes.values() {
            Record::Crashed(*crashed).encode(&mut bytes);
        }
        let floor = self.floor().id;
        let dead_or_done = self
            .settled_early
            .iter()
            .chain(self.line.iter().filter(|place| place.settled).map(|place| &place.id));
        for id in dead_or_done {
            let scheduled = self.schedule.contains(*id) || self.flights.contains_key(id);
            if *id >= floor && !scheduled {
                Record::Done(*id).encode(&mut bytes);
            }
        }
        bytes
    }

    fn check_identities(&mut self) -> Result<(), QueueError> {
        self.appender.check_identity()?;
        let disk = self.appender.disk.as_ref();
        let own: [&dyn DiskFile; 4] = [
            self.checkpoint.file(),
            self.retry.file.as_ref(),
            self.dlq.file.as_ref(),
            self.slots.held().file(),
        ];
        for file in own {
            let same = file.is_still_at_its_path(disk);
            if !same.map_err(|error| QueueError::io("look at", file.path(), &error))? {
                let text = format!("{} was removed or replaced", file.path().display());
                return Err(QueueError::poisoned(text));
            }
        }
        Ok(())
    }

    /// Notices whether the queue is paused.
    pub(crate) fn poll_pause(&mut self) -> Result<(), QueueError> {
        let path = &self.appender.paths.paused;
        let found = self.appender.disk.identity(path);
        self.paused = found.map_err(|error| QueueError::io("look at", path, &error))?.is_some();
        Ok(())
    }
}

fn length(file: &dyn DiskFile) -> Result<u64, QueueError> {
    file.len().map_err(|error| QueueError::io("read", file.path(), &error))
}

/// Copies what is kept of a file of frames, damaged bytes included: they may be all that is left of
/// a message.
fn copy_kept(
    old: &dyn DiskFile,
    end: u64,
    new: &dyn DiskFile,
    is_kept: &dyn Fn(&[u8]) -> bool,
) -> io::Result<()> {
    let mut scanner = Scanner::default();
    let mut to = 0;
    loop {
        let (offset, len) = match scanner.next(old, end).map_err(io::Error::other)? {
            None => return Ok(()),
            Some(Item::Frame { frame, .. }) if !is_kept(frame.body) => continue,
            Some(Item::Frame { offset, len, .. } | Item::Gap { offset, len, .. }) => (offset, len),
            Some(Item::Zeros { offset, len } | Item::Tail { offset, len }) => (offset, len),
        };
        to += copy_range(old, (offset, len), new, to)?;
    }
}
