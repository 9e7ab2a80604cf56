//! The owner of a queue: what is handed out, what is in flight, and what may be forgotten.
//!
//! Passive: it is told the time, hands out a [`Delivery`], is told an
//! [`Ending`](crate::queue::Ending), and starts no thread. It holds no payload of a waiting
//! message: memory is bounded by the pending retries and by what is in flight.
//!
//! Promises: first deliveries come in the order of the log; nothing that does not verify is handed
//! out; the checkpoint never passes a message that is not settled. How it comes to be is in
//! `recover`, how deliveries end in `settle`, how the queue is emptied in `drain`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::base::limits::{MAX_CRASHES, MAX_IN_FLIGHT, MAX_OUT_OF_ORDER};
use crate::base::{MessageId, Timestamp};
use crate::disk::DiskFile;
use crate::queue::checkpoint::{Checkpoint, CheckpointFile};
use crate::queue::corrupt;
use crate::queue::error::{QueueError, Report};
use crate::queue::lock::LockFile;
use crate::queue::message::{KIND_MESSAGE, Message, NewMessage, Receipt, read_message};
use crate::queue::retry::{Crashed, Scheduled};
use crate::queue::schedule::{Moment, Schedule};
use crate::queue::segment::Appender;
use crate::queue::settle::Pending;
use crate::queue::slots::Slots;
use crate::queue::space::Space;
use crate::queue::verdict::{self, Settled};
use crate::store::scan::{Item, Scanner};

/// A message that is handed out to be run.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The message.
    pub message: Arc<Message>,
    /// Where its frame lies in the log, in bytes.
    pub offset: u64,
    /// Which attempt it is, from 1.
    pub attempt: u32,
}

/// What there is to do next.
#[derive(Debug)]
pub enum Step {
    /// Run this.
    Deliver(Delivery),
    /// Messages that were dead-lettered without another run, because the process died too often
    /// while they ran.
    Settled(Vec<Settled>),
    /// Nothing now; the next retry is due in so long, if there is one.
    Wait(Option<Duration>),
    /// A settlement could not be written; nothing starts until [`Owner::settle`] succeeds.
    Stalled,
    /// The queue is paused.
    Paused,
}

/// How much a queue has to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Deliveries in flight.
    pub in_flight: usize,
    /// Pending retries.
    pub retrying: usize,
    /// Bytes of the log that have not been handed out yet.
    pub waiting_bytes: u64,
}

/// The one process elected to deliver a queue.
pub struct Owner {
    pub(crate) appender: Appender,
    pub(crate) slots: Slots,
    pub(crate) checkpoint: CheckpointFile,
    pub(crate) retry: Tail,
    pub(crate) dlq: Tail,
    pub(crate) dlq_lock: LockFile,
    pub(crate) scanner: Scanner,
    /// No unsettled message has a lower id.
    pub(crate) min_id: MessageId,
    /// The highest id that reading has passed.
    pub(crate) last_id: Option<MessageId>,
    /// Messages that reading passes over: settled, dead-lettered or scheduled before the last
    /// election.
    pub(crate) settled_early: BTreeSet<MessageId>,
    /// First deliveries that are not settled, and those behind them that are, in the order of the
    /// log and of the ids.
    pub(crate) line: VecDeque<InLine>,
    pub(crate) flights: BTreeMap<MessageId, Flight>,
    pub(crate) schedule: Schedule,
    pub(crate) crashes: BTreeMap<MessageId, Crashed>,
    pub(crate) pending: Vec<Pending>,
    pub(crate) finished: Vec<Settled>,
    pub(crate) stalled: bool,
    pub(crate) paused: bool,
    pub(crate) unsynced_since: Option<Duration>,
    pub(crate) unsynced_count: u32,
    pub(crate) reports: Vec<Report>,
    pub(crate) space: Space,
    /// Where the last frame begins that reading has come to.
    pub(crate) last_frame: u64,
    /// Zeros between frames that are damage unless what follows them is settled, as offset and
    /// length.
    pub(crate) zeros: Option<(u64, u64)>,
    /// Whether a due retry goes first when there is also a fresh message: they take turns.
    pub(crate) retry_first: bool,
}

/// A file that only its owner appends to, and where its sound part ends.
pub(crate) struct Tail {
    pub file: Box<dyn DiskFile>,
    pub end: u64,
}

/// A first delivery in the order of the log.
pub(crate) struct InLine {
    pub id: MessageId,
    pub offset: u64,
    pub settled: bool,
}

/// A delivery in flight.
pub(crate) struct Flight {
    pub delivery: Delivery,
    /// Its slot in `worker.lock`; `None` while it is set aside.
    pub slot: Option<usize>,
    /// What was scheduled, when this is a retry.
    pub retry: Option<Scheduled>,
}

impl Owner {
    /// Appends a batch, as [`Appender::append`].
    ///
    /// # Errors
    /// As [`Appender::append`].
    pub fn append(
        &mut self,
        batch: &[NewMessage],
        now: Timestamp,
    ) -> Result<Vec<Receipt>, QueueError> {
        self.appender.append(batch, now)
    }

    /// What to do next. A delivery is in flight from here until it is settled.
    ///
    /// # Errors
    /// A file that cannot be read or written; nothing is lost, and the same call can be made again.
    pub fn next(&mut self, now: Moment) -> Result<Step, QueueError> {
        if self.stalled {
            return Ok(Step::Stalled);
        }
        if self.paused {
            return Ok(Step::Paused);
        }
        if self.slots.are_full() || self.flights.len() >= MAX_IN_FLIGHT {
            return Ok(Step::Wait(None));
        }
        self.retry_first = !self.retry_first;
        let step = if self.retry_first {
            match self.next_retry(now)? {
                Some(step) => Some(step),
                None => self.next_fresh(now)?,
            }
        } else {
            match self.next_fresh(now)? {
                Some(step) => Some(step),
                None => self.next_retry(now)?,
            }
        };
        Ok(step.unwrap_or_else(|| Step::Wait(self.schedule.until_next(now))))
    }

    /// The retry that has been due the longest.
    fn next_retry(&mut self, now: Moment) -> Result<Option<Step>, QueueError> {
        while let Some(retry) = self.schedule.first_due(now) {
            let Some(message) = read_message(self.appender.file(), retry.offset, retry.id)? else {
                self.schedule.remove(retry.id);
                self.report_lost_retry(retry);
                continue;
            };
            let delivery = Delivery {
                message: Arc::new(message),
                offset: retry.offset,
                attempt: retry.attempt,
            };
            let step = self.launch(delivery, Some(retry), now);
            // In flight, or dead-lettered already; else it stays where it was.
            if step.is_ok() || self.flights.contains_key(&retry.id) {
                self.schedule.remove(retry.id);
            }
            return step.map(Some);
        }
        Ok(None)
    }

    /// The next message of the log that nobody has seen yet.
    fn next_fresh(&mut self, now: Moment) -> Result<Option<Step>, QueueError> {
        let end = self.appender.end();
        if self.line.len() >= MAX_OUT_OF_ORDER {
            return Ok(None);
        }
        loop {
            let item = self.scanner.next(self.appender.file(), end);
            let item =
                item.map_err(|error| QueueError::scan(self.appender.file().path(), &error))?;
            let (offset, len) = match item {
                None => return Ok(None),
                // Space that was given back, if what follows it is settled.
                Some(Item::Gap { offset, len, zeros: true }) => {
                    self.zeros = (offset > 0).then_some((offset, len));
                    continue;
                }
                Some(Item::Gap { offset, len, .. })
                | Some(Item::Zeros { offset, len })
                | Some(Item::Tail { offset, len }) => (offset, len),
                Some(Item::Frame { offset, len, frame }) => {
                    self.last_frame = offset;
                    let message =
                        (frame.kind == KIND_MESSAGE).then(|| Message::decode(frame.body)).flatten();
                    if let Some(message) = &message {
                        self.judge_zeros(message.id);
                    }
                    match message {
                        Some(message) if self.is_passed_over(message.id) => continue,
                        Some(message) => {
                            return self.launch_fresh(message, offset, now).map(Some);
                        }
                        None => (offset, len),
                    }
                }
            };
            self.report_gap(offset, len);
        }
    }

    /// Whether a message of the log is settled already, or has its place in the schedule.
    fn is_passed_over(&mut self, id: MessageId) -> bool {
        let settled = id < self.min_id
            || self.settled_early.contains(&id)
            || self.last_id.is_some_and(|last| id <= last);
        if settled {
            self.last_id = self.last_id.max(Some(id));
        }
        settled
    }

    /// Zeros in front of a message were given back if everything before it is settled; else they
    /// are damage.
    fn judge_zeros(&mut self, next: MessageId) {
        if let Some((offset, len)) = self.zeros.take()
            && next > self.min_id
        {
            self.report_gap(offset, len);
        }
    }

    /// Sets how many settled bytes are given back to the file system at once, at the least; a
    /// megabyte unless it is set. For logs that are small on purpose.
    pub fn set_reclaim_chunk(&mut self, bytes: u64) {
        self.space = Space::new(bytes);
    }

    fn launch_fresh(
        &mut self,
        message: Message,
        offset: u64,
        now: Moment,
    ) -> Result<Step, QueueError> {
        let id = message.id;
        let before = self.last_id;
        self.line.push_back(InLine { id, offset, settled: false });
        self.last_id = Some(id);
        let delivery = Delivery { message: Arc::new(message), offset, attempt: 1 };
        let step = self.launch(delivery, None, now);
        if step.is_err() && !self.flights.contains_key(&id) {
            self.line.pop_back();
            self.last_id = before;
            self.scanner.seek(offset);
        }
        step
    }

    /// Puts a delivery in flight; one that crashed the process too often is dead-lettered instead.
    fn launch(
        &mut self,
        delivery: Delivery,
        retry: Option<Scheduled>,
        now: Moment,
    ) -> Result<Step, QueueError> {
        let id = delivery.message.id;
        let slot = self.slots.fill(id, delivery.offset)?;
        let flight = Flight { delivery: delivery.clone(), slot: Some(slot), retry };
        self.flights.insert(id, flight);
        match self.crashes.get(&id) {
            Some(crashed) if crashed.count >= MAX_CRASHES => {
                self.pend(id, verdict::crashed(crashed.count));
                // A failure leaves it in flight and pending: `settle` tries again.
                self.flush(now).map(Step::Settled)
            }
            _ => Ok(Step::Deliver(delivery)),
        }
    }

    /// Notes that a delivery is not run for now: a crash of the process is not to be blamed on it.
    /// It stays in flight, and the caller keeps it.
    pub fn set_aside(&mut self, id: MessageId) {
        if let Some(slot) = self.flights.get_mut(&id).and_then(|flight| flight.slot.take()) {
            self.slots.free(slot);
        }
    }

    /// Notes that a delivery that was set aside is run now.
    ///
    /// # Errors
    /// `worker.lock` cannot be written; the delivery is still set aside.
    pub fn take_up(&mut self, id: MessageId) -> Result<(), QueueError> {
        if let Some(flight) = self.flights.get_mut(&id)
            && flight.slot.is_none()
        {
            flight.slot = Some(self.slots.fill(id, flight.delivery.offset)?);
        }
        Ok(())
    }

    /// Whether the queue was paused at the last poll.
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether the process died while a message ran that is still to be delivered.
    pub fn has_crashes(&self) -> bool {
        !self.crashes.is_empty()
    }

    /// Where reading has come to and what is in flight, as the checkpoint says it.
    pub(crate) fn floor(&self) -> Checkpoint {
        let (offset, id) = match self.line.front() {
            Some(first) => (first.offset, first.id),
            None => {
                let next = self.last_id.map_or(self.min_id, MessageId::next);
                (self.scanner.position(), next.max(self.min_id))
            }
        };
        Checkpoint { offset, id, retry_len: self.retry.end }
    }

    /// How much there is to do.
    pub fn counts(&self) -> Counts {
        Counts {
            in_flight: self.flights.len(),
            retrying: self.schedule.len(),
            waiting_bytes: self.appender.end().saturating_sub(self.scanner.position()),
        }
    }

    /// What was found damaged since the last call.
    pub fn take_reports(&mut self) -> Vec<Report> {
        let mut reports = self.appender.take_reports();
        reports.append(&mut self.reports);
        reports
    }

    fn report_lost_retry(&mut self, retry: Scheduled) {
        self.reports.push(Report {
            path: self.appender.paths.segment.clone(),
            offset: retry.offset,
            len: 0,
            text: format!(
                "message {} was to be tried again and no longer verifies: it is not delivered",
                retry.id
            ),
        });
    }

    fn report_gap(&mut self, offset: u64, len: u64) {
        let kept = self.appender.lock().and_then(|_held| {
            corrupt::keep_aside(
                self.appender.disk.as_ref(),
                &self.appender.paths.corrupt,
                self.appender.file(),
                (offset, len),
            )
        });
        self.reports.push(Report {
            path: self.appender.paths.segment.clone(),
            offset,
            len,
            text: corrupt::describe("bytes of the log do not verify and are not delivered", kept),
        });
    }
}
