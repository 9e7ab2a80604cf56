//! One turn of an owner thread: everything that there is to do now, in an order that keeps the
//! promises.
//!
//! Come to the files; store and answer; settle; look for what others did; start deliveries; sync
//! the checkpoint. Each step that fails says so, notes it for `/ready`, and sets when it is tried
//! again; none of them waits. Not here: the waiting and the end (`owner`).

use std::time::Duration;

use super::{Due, OwnerThread, Stage};
use crate::base::MessageId;
use crate::base::limits::{
    FAULT_RETRY_DELAY, MAX_IN_FLIGHT, PARK_AFTER, POLL_INTERVAL, READ_AHEAD, SHORT_RUN,
};
use crate::journal::{Event, Kind};
use crate::queue::{Ending, FaultKind, Moment, QueueError, Settled, Step};
use crate::worker::channel::Part;
use crate::worker::commit::refusal;
use crate::worker::inbox::Refusal;
use crate::worker::report::{report_damage, report_fault, report_settled};
use crate::worker::runner::{End, Ended, Job};
use crate::worker::tenure::Change;

impl OwnerThread {
    /// Does everything that there is to do now.
    pub(super) fn turn(&mut self, now: Moment) {
        self.advance(now);
        self.commit(now);
        self.settle(now);
        self.poll(now);
        self.deliver(now);
        self.sync_checkpoint(now);
        self.report_damage();
        self.quiesce();
    }

    /// Comes to the files, or closer to them.
    fn advance(&mut self, now: Moment) {
        let change = self.tenure.advance(now);
        match &change {
            Change::None => return,
            Change::Failed(error) => {
                report_fault(&self.post.journal, &self.post.queue, error);
                self.post.inbox.set_trouble(Part::Files, error.text.clone(), now.boot);
                return;
            }
            Change::Won => {
                self.post.record(Kind::WorkerElected);
                self.due = Due { poll: now.boot, retry: None, settle: None, start: now.boot };
                self.idle_since = now.boot;
            }
            Change::Lost => self.park_if_settled_elsewhere(now),
        }
        if !self.post.inbox.troubles().is_empty() {
            self.post.record(Kind::QueueReopened);
            self.post.inbox.clear_all_troubles();
        }
    }

    /// Stores all submissions that were taken with one append, and answers them.
    fn commit(&mut self, now: Moment) {
        if self.batch.messages().is_empty() {
            return;
        }
        self.idle_since = now.boot;
        let stored = self.post.stored();
        let error = match self.tenure.append(self.batch.messages(), now) {
            Some(Ok(receipts)) => return self.batch.answer(&stored, Ok(receipts)),
            None => {
                let why = self.tenure.closed_because();
                let text = format!("queue {} is not open: {why}", self.post.queue);
                return self.batch.answer(&stored, Err(Refusal::Busy(text)));
            }
            Some(Err(error)) => error,
        };
        self.batch.answer(&stored, Err(refusal(&self.post.queue, &error)));
        report_fault(&self.post.journal, &self.post.queue, &error);
        match error.kind {
            FaultKind::Poisoned => self.give_up_files(&error, now),
            FaultKind::Io if self.tenure.owned().is_none() => self.give_up_files(&error, now),
            // The next look at the files tells whether they are still those of their paths.
            FaultKind::Io => self.due.poll = Duration::ZERO,
            FaultKind::NoRoom | FaultKind::Locked => {}
        }
    }

    /// Settles the runs that have ended, and again what could not be written before.
    fn settle(&mut self, now: Moment) {
        let again = self.due.settle.is_some_and(|due| due <= now.boot);
        if self.ended.is_empty() && !again {
            return;
        }
        self.idle_since = now.boot;
        let endings = self.take_endings(now);
        if endings.is_empty() && !again {
            return;
        }
        if !endings.is_empty() {
            self.post.inbox.clear_trouble(Part::Running);
        }
        let Some(files) = self.tenure.owned() else { return };
        let result = files.settle(endings, now, &*self.post.random);
        self.after_settling(result, now);
    }

    /// Sorts the runs that have ended: what is to be settled, what is to be run once more, what is
    /// of an earlier tenure and has been forgotten with its files.
    fn take_endings(&mut self, now: Moment) -> Vec<(MessageId, Ending)> {
        let number = self.tenure.number();
        let ended = std::mem::take(&mut self.ended);
        let mut endings = Vec::with_capacity(ended.len());
        for Ended { id, trace, end, concurrency, took, .. } in
            ended.into_iter().filter(|ended| ended.tenure == number)
        {
            if let Some(concurrency) = concurrency {
                self.concurrency = concurrency.clamp(1, MAX_IN_FLIGHT);
                self.pace(took);
            }
            let ending = match end {
                End::Done(_) => Ending::Acknowledge,
                End::Failed(ending) => ending,
                End::NotTried(job, why) => {
                    self.hold(job, why, Kind::RegistryUnavailable, now);
                    continue;
                }
            };
            self.traces.insert(id, trace);
            endings.push((id, ending));
        }
        self.runners.shrink_to(self.concurrency);
        endings
    }

    /// Reads ahead for a flow that runs one delivery at a time and briefly, unless the process has
    /// died while one ran: then what runs must be known for certain.
    fn pace(&mut self, took: Duration) {
        let crashes = self.tenure.owned().is_some_and(|files| files.has_crashes());
        let short = self.concurrency == 1 && took <= SHORT_RUN && !crashes;
        self.ahead = if short { READ_AHEAD } else { 0 };
        if !short {
            self.recall();
        }
    }

    /// Takes back what waits at the runner.
    fn recall(&mut self) {
        if self.in_flight.len() <= self.concurrency {
            return;
        }
        for job in self.runners.recall() {
            let run = (job.tenure, job.delivery.message.id);
            self.in_flight.retain(|other| *other != run);
            self.put_back(job);
        }
    }

    fn after_settling(&mut self, result: Result<Vec<Settled>, QueueError>, now: Moment) {
        match result {
            Ok(settled) => {
                self.report_settled(&settled);
                if self.due.settle.take().is_some() {
                    self.post.inbox.clear_trouble(Part::Settling);
                }
            }
            Err(error) => {
                report_fault(&self.post.journal, &self.post.queue, &error);
                if error.kind == FaultKind::Poisoned {
                    return self.give_up_files(&error, now);
                }
                self.due.settle = Some(now.boot + FAULT_RETRY_DELAY);
                self.post.inbox.set_trouble(Part::Settling, error.text, now.boot);
            }
        }
    }

    /// The regular look at the files: what others appended, whether all is settled, whether to
    /// park.
    fn poll(&mut self, now: Moment) {
        if now.boot < self.due.poll {
            return;
        }
        let Some(files) = self.tenure.owned() else { return };
        self.due.poll = now.boot + POLL_INTERVAL;
        match files.poll(now) {
            Ok(drained) => {
                self.post.inbox.clear_trouble(Part::Reading);
                if drained {
                    self.post.record(Kind::QueueDrained);
                }
            }
            Err(error) => self.fault(&error, now),
        }
    }

    /// Hands out what can be delivered.
    fn deliver(&mut self, now: Moment) {
        if !matches!(self.stage, Stage::Working)
            || now.boot < self.due.start
            || self.due.settle.is_some()
        {
            return;
        }
        if self.tenure.owned().is_some_and(|files| files.is_paused()) {
            self.idle_since = now.boot;
            return self.recall();
        }
        self.due.retry = None;
        while self.in_flight.len() < self.concurrency + self.ahead {
            if let Some(job) = self.held.pop_front() {
                if self.hand_over(job, now) {
                    continue;
                }
                return;
            }
            let number = self.tenure.number();
            let Some(files) = self.tenure.owned() else { return };
            match files.next(now) {
                Ok(Step::Deliver(delivery)) => {
                    self.idle_since = now.boot;
                    self.held.push_back(Job { tenure: number, delivery });
                }
                Ok(Step::Settled(settled)) => self.report_settled(&settled),
                Ok(Step::Wait(Some(after))) => {
                    self.due.retry = Some(now.boot + after);
                    self.idle_since = now.boot;
                    return;
                }
                Ok(Step::Wait(None)) => return self.park_if_idle(now),
                Ok(Step::Stalled) => {
                    self.due.settle = Some(now.boot + FAULT_RETRY_DELAY);
                    return;
                }
                Ok(Step::Paused) => {
                    self.idle_since = now.boot;
                    return;
                }
                Err(error) => return self.fault(&error, now),
            }
        }
    }

    fn hand_over(&mut self, job: Job, now: Moment) -> bool {
        let run = (job.tenure, job.delivery.message.id);
        if let Some(files) = self.tenure.owned()
            && let Err(error) = files.take_up(run.1)
        {
            self.hold(job, error.text, Kind::QueueFault, now);
            return false;
        }
        let busy = self.in_flight.len().min(self.concurrency - 1);
        match self.runners.hand(job, busy) {
            Ok(()) => {
                self.in_flight.push(run);
                true
            }
            Err((job, error)) => {
                let why = format!("no thread can be started to run its flow: {error}");
                self.hold(job, why, Kind::QueueFault, now);
                false
            }
        }
    }

    /// Keeps a delivery that could not be tried. It goes first when deliveries start again, in a
    /// second: nothing behind it starts before it, and its attempt is not charged.
    fn hold(&mut self, job: Job, why: String, kind: Kind, now: Moment) {
        self.post.journal.record(&Event::of(kind, &self.post.queue).error(&why));
        self.post.inbox.set_trouble(Part::Running, why, now.boot);
        self.ahead = 0;
        self.put_back(job);
        self.due.start = now.boot + FAULT_RETRY_DELAY;
    }

    /// Sets a delivery aside, in the order of the ids. It is in flight to the queue, and no crash
    /// is blamed on it.
    fn put_back(&mut self, job: Job) {
        if let Some(files) = self.tenure.owned() {
            files.set_aside(job.delivery.message.id);
        }
        let later = |other: &Job| other.delivery.message.id > job.delivery.message.id;
        let place = self.held.iter().position(later).unwrap_or(self.held.len());
        self.held.insert(place, job);
    }

    fn report_settled(&mut self, settled: &[Settled]) {
        for settled in settled {
            let trace = self.traces.remove(&settled.message.id);
            report_settled(&self.post.journal, &self.post.queue, settled, trace.as_ref());
        }
    }

    fn sync_checkpoint(&mut self, now: Moment) {
        let Some(files) = self.tenure.owned() else { return };
        if files.checkpoint_due().is_none_or(|due| now.boot < due) {
            return;
        }
        if let Err(error) = files.sync_checkpoint(now, false) {
            report_fault(&self.post.journal, &self.post.queue, &error);
            match error.kind {
                FaultKind::Poisoned => self.give_up_files(&error, now),
                _ => self.due.settle = Some(now.boot + FAULT_RETRY_DELAY),
            }
        }
    }

    fn report_damage(&mut self) {
        let Some(files) = self.tenure.owned() else { return };
        for report in files.take_reports() {
            report_damage(&self.post.journal, &self.post.queue, &report);
        }
    }

    fn quiesce(&mut self) {
        if matches!(self.stage, Stage::Quiescing(_)) {
            self.recall();
        }
        // A held delivery is not in flight at a runner: closing gives it back.
        let settled = self.in_flight.is_empty() && self.due.settle.is_none();
        if settled && matches!(self.stage, Stage::Quiescing(_)) {
            self.stage = Stage::Quiet;
        }
    }

    /// Looking for work failed.
    fn fault(&mut self, error: &QueueError, now: Moment) {
        report_fault(&self.post.journal, &self.post.queue, error);
        match error.kind {
            FaultKind::Poisoned => self.give_up_files(error, now),
            // Nothing is lost, and the same can be tried again.
            FaultKind::NoRoom | FaultKind::Locked | FaultKind::Io => {
                self.post.inbox.set_trouble(Part::Reading, error.text.clone(), now.boot);
                self.due.start = now.boot + FAULT_RETRY_DELAY;
                self.due.poll = self.due.start;
            }
        }
    }

    /// Closes the files; they are recovered from the disk in a second.
    pub(super) fn give_up_files(&mut self, error: &QueueError, now: Moment) {
        let event = Event::of(Kind::QueuePoisoned, &self.post.queue).error(&error.text);
        self.post.journal.record(&event);
        self.post.inbox.set_trouble(Part::Files, error.text.clone(), now.boot);
        self.tenure.close(error.text.clone(), now);
        self.held.clear();
        self.traces.clear();
        self.due.settle = None;
    }

    fn park_if_idle(&mut self, now: Moment) {
        let idle = now.boot.saturating_sub(self.idle_since) >= PARK_AFTER;
        if !idle || !self.in_flight.is_empty() || !self.held.is_empty() {
            return;
        }
        let synced = self.tenure.owned().is_some_and(|files| files.checkpoint_due().is_none());
        if synced && self.post.inbox.close_if_idle() {
            self.stage = Stage::Parked;
        }
    }

    fn park_if_settled_elsewhere(&mut self, now: Moment) {
        // What was stored here since the last election may not have been seen by whoever delivers.
        if now.boot.saturating_sub(self.idle_since) < 2 * POLL_INTERVAL {
            return;
        }
        match self.tenure.is_settled_elsewhere() {
            Ok(true) if self.in_flight.is_empty() && self.post.inbox.close_if_idle() => {
                self.stage = Stage::Parked;
            }
            Ok(_) => {}
            Err(error) => report_fault(&self.post.journal, &self.post.queue, &error),
        }
    }
}
