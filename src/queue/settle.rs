//! How deliveries end on the disk: dead letters first, then the schedule, then the checkpoint that
//! passes them.
//!
//! Promises: a message leaves the queue only after what it becomes is synced; deliveries that end
//! together share one sync of each file. A write or a sync that fails loses nothing: the outcome
//! stays in memory, nothing further starts, and the next try writes the same bytes at the same
//! place again before it syncs.

use crate::base::MessageId;
use crate::base::limits::{CHECKPOINT_SYNC_COUNT, CHECKPOINT_SYNC_DELAY, LOCK_DEADLINE};
use crate::base::random::Random;
use crate::queue::core::{Owner, Tail};
use crate::queue::dlq::{self, Verdict};
use crate::queue::error::QueueError;
use crate::queue::retry::{Record, Scheduled};
use crate::queue::schedule::Moment;
use crate::queue::verdict::{self, Ending, Settled, Settlement};

/// A delivery that has ended and is not yet settled on the disk.
pub(crate) struct Pending {
    id: MessageId,
    settlement: Settlement,
    /// Whether its dead letter is synced.
    in_dlq: bool,
}

impl Owner {
    /// Settles deliveries that have ended. Those of an earlier call that failed are tried again
    /// first, so that an empty list is the way to try again; it is to be called each second until
    /// it succeeds.
    ///
    /// # Errors
    /// A file that cannot be written. Nothing is lost, [`Owner::next`] gives
    /// [`Step::Stalled`](crate::queue::Step) until a later call succeeds.
    pub fn settle(
        &mut self,
        endings: Vec<(MessageId, Ending)>,
        now: Moment,
        random: &dyn Random,
    ) -> Result<Vec<Settled>, QueueError> {
        for (id, ending) in endings {
            if let Some(flight) = self.flights.get(&id) {
                let settlement = verdict::decide(ending, flight.delivery.attempt, now.wall, random);
                self.pend(id, settlement);
            }
        }
        self.flush(now)
    }

    pub(crate) fn pend(&mut self, id: MessageId, settlement: Settlement) {
        self.pending.push(Pending { id, settlement, in_dlq: false });
    }

    /// Writes everything that is pending.
    pub(crate) fn flush(&mut self, now: Moment) -> Result<Vec<Settled>, QueueError> {
        self.stalled = true;
        self.write_dead_letters(now)?;
        self.write_schedule()?;
        self.apply(now);
        self.write_checkpoint(now)?;
        self.stalled = false;
        Ok(std::mem::take(&mut self.finished))
    }

    /// One write and one sync of `dlq.log` for all of them, under `dlq.lock`.
    fn write_dead_letters(&mut self, now: Moment) -> Result<(), QueueError> {
        let mut bytes = Vec::new();
        for pending in self.pending.iter().filter(|pending| !pending.in_dlq) {
            let Settlement::DeadLettered { reason, error } = &pending.settlement else { continue };
            let Some(flight) = self.flights.get(&pending.id) else { continue };
            let verdict = Verdict {
                failed_at: now.wall,
                attempts: flight.delivery.attempt,
                reason: *reason,
                last_error: error.clone(),
            };
            dlq::encode(&flight.delivery.message, &verdict, &mut bytes);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let held = self.dlq_lock.lock(LOCK_DEADLINE)?;
        append(&mut self.dlq, &bytes)?;
        drop(held);
        for pending in &mut self.pending {
            pending.in_dlq |= matches!(pending.settlement, Settlement::DeadLettered { .. });
        }
        Ok(())
    }

    /// One write and one sync of `.retry`: what is scheduled, and which retries are done.
    fn write_schedule(&mut self) -> Result<(), QueueError> {
        let mut bytes = Vec::new();
        for pending in &self.pending {
            let Some(flight) = self.flights.get(&pending.id) else { continue };
            match scheduled(pending, flight.delivery.offset) {
                Some(retry) => Record::Scheduled(retry).encode(&mut bytes),
                None if flight.retry.is_some() => Record::Done(pending.id).encode(&mut bytes),
                None => {}
            }
        }
        if bytes.is_empty() { Ok(()) } else { append(&mut self.retry, &bytes) }
    }

    /// Everything pending is on the disk: memory follows.
    fn apply(&mut self, now: Moment) {
        for pending in std::mem::take(&mut self.pending) {
            let Some(flight) = self.flights.remove(&pending.id) else { continue };
            if let Some(slot) = flight.slot {
                self.slots.free(slot);
            }
            self.unsynced_count += 1;
            match scheduled(&pending, flight.delivery.offset) {
                Some(retry) => self.schedule.insert(retry, now),
                None => {
                    self.crashes.remove(&pending.id);
                }
            }
            if let Ok(at) = self.line.binary_search_by_key(&pending.id, |place| place.id) {
                self.line[at].settled = true;
            }
            self.finished.push(Settled {
                message: flight.delivery.message,
                attempt: flight.delivery.attempt,
                what: pending.settlement,
            });
        }
        while self.line.front().is_some_and(|place| place.settled) {
            self.line.pop_front();
        }
    }

    /// Writes the checkpoint, to be synced later with others.
    pub(crate) fn write_checkpoint(&mut self, now: Moment) -> Result<(), QueueError> {
        if self.unsynced_count == 0 {
            return Ok(());
        }
        self.checkpoint.write(self.floor())?;
        self.unsynced_since.get_or_insert(now.boot);
        Ok(())
    }

    /// Syncs the checkpoint when it is due (50 ms or 1000 settlements after the last sync), or at
    /// once with `force`.
    ///
    /// # Errors
    /// As [`Owner::settle`], which is then to be called until it succeeds.
    pub fn sync_checkpoint(&mut self, now: Moment, force: bool) -> Result<(), QueueError> {
        let Some(since) = self.unsynced_since else { return Ok(()) };
        let late = now.boot >= since + CHECKPOINT_SYNC_DELAY;
        if !force && !late && self.unsynced_count < CHECKPOINT_SYNC_COUNT {
            return Ok(());
        }
        self.stalled = true;
        self.checkpoint.sync()?;
        self.stalled = !self.pending.is_empty();
        self.unsynced_since = None;
        self.unsynced_count = 0;
        Ok(())
    }

    /// When the checkpoint is to be synced at the latest, by the boot clock; `None` when it is
    /// synced.
    pub fn checkpoint_due(&self) -> Option<std::time::Duration> {
        self.unsynced_since.map(|since| since + CHECKPOINT_SYNC_DELAY)
    }
}

/// The retry that a settlement schedules.
fn scheduled(pending: &Pending, offset: u64) -> Option<Scheduled> {
    let Settlement::Rescheduled { next_attempt, due_at, delay_ms, .. } = pending.settlement else {
        return None;
    };
    Some(Scheduled { id: pending.id, offset, attempt: next_attempt, due: due_at, delay_ms })
}

/// Writes at the end of what is sound, and syncs. A failure leaves the end where it was, so that a
/// repetition writes at the same place.
pub(crate) fn append(tail: &mut Tail, bytes: &[u8]) -> Result<(), QueueError> {
    let fault = |error| QueueError::io("write", tail.file.path(), &error);
    tail.file.write_all_at(bytes, tail.end).map_err(fault)?;
    tail.file.sync().map_err(fault)?;
    tail.end += bytes.len() as u64;
    Ok(())
}
