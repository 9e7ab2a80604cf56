//! How a process becomes the owner of a queue: the election, and what it makes of what it finds.
//!
//! Nothing cached is trusted. What a dead process left may never have been synced, so the
//! checkpoint, the schedule, the dead letters and the marks are written again in place and synced
//! before they are relied on. Recovering twice is recovering once.
//!
//! What the owner believes: an id decides, an offset is a hint. A message is settled when its id is
//! below the checkpoint's, when the schedule says that it is done, or when a dead letter has its
//! id; it waits when the schedule holds it; everything else in the log is delivered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::MessageId;
use crate::base::limits::{LOCK_DEADLINE, RECLAIM_CHUNK};
use crate::disk::{DiskFile, Open};
use crate::queue::acked;
use crate::queue::checkpoint::{Checkpoint, CheckpointFile};
use crate::queue::core::{Owner, Tail};
use crate::queue::dlq::{self, Index};
use crate::queue::error::{FaultKind, QueueError, Report};
use crate::queue::lock::LockFile;
use crate::queue::message::read_message;
use crate::queue::retry::{self, Crashed, Loaded, Record};
use crate::queue::schedule::{Moment, Schedule};
use crate::queue::segment::{Appender, rewrite};
use crate::queue::settle;
use crate::queue::slots::Slots;
use crate::queue::space::Space;
use crate::store::replace::remove_temporaries;
use crate::store::scan::Scanner;

/// How an election ended.
pub enum Election {
    /// This process owns the queue.
    Won(Box<Owner>),
    /// Another does; the appender is as it was.
    Lost(Box<Appender>),
}

impl Owner {
    /// Tries `worker.lock` once. Winning it means full recovery from the disk.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that is of a newer version. Nothing is left open.
    pub fn elect(mut appender: Appender, now: Moment) -> Result<Election, QueueError> {
        let path = appender.paths.worker_lock.clone();
        let mut lock = LockFile::new(Arc::clone(&appender.disk), &path);
        let Some(held) = lock.try_lock(Duration::ZERO)? else {
            return Ok(Election::Lost(Box::new(appender)));
        };
        // Frames that another process wrote are looked at under the lock once.
        let lock = appender.lock()?;
        appender.check_identity()?;
        appender.refresh(&lock)?;
        drop(lock);
        appender.set_owned();
        let (slots, in_flight) = Slots::take_over(held)?;
        let mut owner = recover(appender, slots, now)?;
        // First, so that an election that fails from here on does not count the same crash again:
        // one too few does no harm, one too many gives a sound message up.
        owner.slots.clear()?;
        owner.note_crashes(&in_flight)?;
        Ok(Election::Won(Box::new(owner)))
    }

    /// Counts a crash for each message that was in flight when the last owner died and is not
    /// settled.
    fn note_crashes(&mut self, in_flight: &[(MessageId, u64)]) -> Result<(), QueueError> {
        let mut bytes = Vec::new();
        for &(id, offset) in in_flight {
            let scheduled = self.schedule.contains(id);
            let waiting = id >= self.min_id && !self.settled_early.contains(&id);
            let there = read_message(self.appender.file(), offset, id)?.is_some();
            if !there || !(scheduled || waiting) {
                continue;
            }
            let count = self.crashes.get(&id).map_or(0, |crashed| crashed.count) + 1;
            let crashed = Crashed { id, offset, count };
            Record::Crashed(crashed).encode(&mut bytes);
            self.crashes.insert(id, crashed);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        match settle::append(&mut self.retry, &bytes) {
            // Counted in memory only. A full device must not keep the queue from delivering, which
            // makes room; and where there is none, nothing could be dead-lettered either.
            Err(error) if error.kind == FaultKind::NoRoom => Ok(()),
            appended => appended,
        }
    }

    /// Gives the queue up in order: the checkpoint is synced, and what is in flight is no crash and
    /// is not charged.
    ///
    /// # Errors
    /// A file that cannot be written; a crash would have left no less.
    pub fn close(mut self: Box<Self>, now: Moment) -> Result<(), QueueError> {
        self.sync_checkpoint(now, true)?;
        self.slots.clear()
    }
}

fn recover(appender: Appender, slots: Slots, now: Moment) -> Result<Owner, QueueError> {
    let disk = Arc::clone(&appender.disk);
    let paths = appender.paths.clone();
    remove_temporaries(disk.as_ref(), &paths.dir)
        .map_err(|error| QueueError::io("tidy", &paths.dir, &error))?;
    let open = |path: &Path| {
        disk.open(path, Open::Create).map_err(|error| QueueError::io("open", path, &error))
    };
    let mut reports = Vec::new();
    let (checkpoint, found) = CheckpointFile::take_over(open(&paths.checkpoint)?)?;
    let (retry, loaded) = take_over_retry(open(&paths.retry)?)?;
    let mut dlq_lock = LockFile::new(Arc::clone(&disk), &paths.dlq_lock);
    let held = dlq_lock.lock(LOCK_DEADLINE)?;
    let (dlq, index) = take_over_dlq(open(&paths.dlq)?)?;
    reports.extend(take_over_marks(open(&paths.acked)?.as_ref())?);
    drop(held);
    disk.sync_dir(&paths.dir).map_err(|error| QueueError::io("sync", &paths.dir, &error))?;

    let settled_to = believe(found, &loaded).unwrap_or_else(|doubt| {
        reports.extend(report_doubt(&appender, doubt));
        Checkpoint::NOTHING
    });
    let start = starting_offset(appender.file(), settled_to)?;
    reports.extend(index.reports.iter().cloned());
    let mut owner = Owner {
        appender,
        slots,
        checkpoint,
        retry,
        dlq,
        dlq_lock,
        scanner: Scanner::at(start),
        min_id: settled_to.id,
        last_id: None,
        settled_early: BTreeSet::new(),
        line: VecDeque::new(),
        flights: BTreeMap::new(),
        schedule: Schedule::default(),
        crashes: loaded.crashes.clone(),
        pending: Vec::new(),
        finished: Vec::new(),
        stalled: false,
        paused: false,
        unsynced_since: None,
        unsynced_count: 0,
        reports,
        space: Space::new(RECLAIM_CHUNK),
        last_frame: 0,
        zeros: None,
        retry_first: false,
    };
    owner.adopt(loaded, &index, now)?;
    owner.poll_pause()?;
    Ok(owner)
}

impl Owner {
    /// Takes in what the schedule and the dead letters say of the messages in the log.
    fn adopt(&mut self, loaded: Loaded, index: &Index, now: Moment) -> Result<(), QueueError> {
        let dead: BTreeSet<MessageId> = index.places.iter().map(|place| place.id).collect();
        for retry in loaded.schedule.into_values() {
            // A dead letter wins over a retry of the same message.
            if dead.contains(&retry.id) {
                continue;
            }
            if read_message(self.appender.file(), retry.offset, retry.id)?.is_none() {
                self.reports.push(Report {
                    path: self.appender.paths.retry.clone(),
                    offset: 0,
                    len: 0,
                    text: format!(
                        "the retry of message {} names offset {} of the log, where it is not: \
                         it does not count",
                        retry.id, retry.offset
                    ),
                });
                continue;
            }
            self.settled_early.insert(retry.id);
            self.schedule.insert(retry, now);
        }
        self.settled_early.extend(loaded.done);
        self.settled_early.extend(dead);
        let min_id = self.min_id;
        self.settled_early.retain(|id| *id >= min_id);
        Ok(())
    }
}

/// Why a checkpoint is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// No slot of the checkpoint is valid, or there is none.
    NoCheckpoint,
    /// The schedule, of which so many bytes can be read, is shorter than the checkpoint says.
    ShortSchedule { end: u64, expected: u64 },
    /// A record of the schedule at this offset does not verify.
    DamagedSchedule { offset: u64 },
}

/// The checkpoint that was found, unless a retry that it relies on may have been lost: then nothing
/// counts as settled but what is done or dead-lettered.
///
/// # Errors
/// [`Doubt`].
pub(crate) fn believe(found: Option<Checkpoint>, loaded: &Loaded) -> Result<Checkpoint, Doubt> {
    let checkpoint = found.ok_or(Doubt::NoCheckpoint)?;
    if loaded.end < checkpoint.retry_len {
        return Err(Doubt::ShortSchedule { end: loaded.end, expected: checkpoint.retry_len });
    }
    match loaded.damaged_at {
        Some(offset) => Err(Doubt::DamagedSchedule { offset }),
        None => Ok(checkpoint),
    }
}

/// What a doubt means for the queue; `None` where there is nothing in the log that it could
/// concern.
fn report_doubt(appender: &Appender, doubt: Doubt) -> Option<Report> {
    let again =
        "every message in the log that is neither done nor dead-lettered is delivered again";
    let (path, offset, text) = match doubt {
        Doubt::NoCheckpoint if appender.end() == 0 => return None,
        Doubt::NoCheckpoint => {
            (&appender.paths.checkpoint, 0, format!("no checkpoint can be read: {again}"))
        }
        Doubt::ShortSchedule { end, expected } => {
            let text =
                format!("the schedule should have {expected} bytes and {end} can be read: {again}");
            (&appender.paths.retry, end, text)
        }
        Doubt::DamagedSchedule { offset } => {
            let text = format!("a record of the schedule does not verify: {again}");
            (&appender.paths.retry, offset, text)
        }
    };
    Some(Report { path: path.clone(), offset, len: 0, text })
}

/// Where reading begins: at the checkpoint's offset when the message of its id begins there, else
/// at the start.
fn starting_offset(file: &dyn DiskFile, checkpoint: Checkpoint) -> Result<u64, QueueError> {
    let hit = read_message(file, checkpoint.offset, checkpoint.id)?.is_some();
    Ok(if hit { checkpoint.offset } else { 0 })
}

fn take_over_retry(file: Box<dyn DiskFile>) -> Result<(Tail, Loaded), QueueError> {
    let loaded = retry::load(file.as_ref())?;
    cut(file.as_ref(), loaded.end)?;
    rewrite(file.as_ref(), 0, loaded.end)?;
    Ok((Tail { file, end: loaded.end }, loaded))
}

fn take_over_dlq(file: Box<dyn DiskFile>) -> Result<(Tail, Index), QueueError> {
    let index = dlq::index(file.as_ref())?;
    cut(file.as_ref(), index.end)?;
    rewrite(file.as_ref(), 0, index.end)?;
    Ok((Tail { file, end: index.end }, index))
}

fn take_over_marks(file: &dyn DiskFile) -> Result<Vec<Report>, QueueError> {
    let marks = acked::read(file)?;
    rewrite(file, 0, marks.end)?;
    Ok(marks.reports)
}

/// Cuts what is torn behind the sound part.
fn cut(file: &dyn DiskFile, end: u64) -> Result<(), QueueError> {
    let fault = |error| QueueError::io("cut the torn end of", file.path(), &error);
    if file.len().map_err(fault)? > end {
        file.set_len(end).map_err(fault)?;
    }
    Ok(())
}
