//! The owner thread of one active queue: the only one that touches its files.
//!
//! A single-writer loop. Each turn takes everything that waits in the channel, stores all submissions of it with one
//! append, answers them, settles the runs that have ended, looks at the files every 500 ms, and hands out deliveries
//! while fewer are in flight than the flow's concurrency. Then it waits, in one place, for the next command or the
//! earliest of what is due. It never waits for a runner or a client, so neither can hold back a 202.
//!
//! Promises: a message is answered only after its sync; a settlement that could not be written is tried each second
//! and nothing starts before it; a queue whose files fail is closed and reopened through full recovery each second,
//! and refuses meanwhile; a panic costs a recovery, and no other queue anything. Not here: what the files do
//! (`queue`), how this process comes to them (`tenure`).

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::base::limits::{
    FAULT_RETRY_DELAY, MAX_CHANNEL_MESSAGES, MAX_IN_FLIGHT, OWNER_SPIN, PARK_AFTER, POLL_INTERVAL,
};
use crate::base::{MessageId, QueueName};
use crate::journal::{Event, Kind};
use crate::queue::{Ending, FaultKind, Moment, QueueError, Step};
use crate::worker::channel::{Command, DoneSignal, Inbox, Part};
use crate::worker::commit::{Batch, Stored, refusal};
use crate::worker::inbox::Refusal;
use crate::worker::report::{report_damage, report_fault, report_settled};
use crate::worker::runner::{End, Ended, Job, Runners, Trace, panic_text};
use crate::worker::surroundings::Surroundings;
use crate::worker::tenure::{Change, Tenure};

/// One active queue's owner.
pub(super) struct OwnerThread {
    around: Arc<Surroundings>,
    queue: QueueName,
    inbox: Arc<Inbox>,
    tenure: Tenure,
    runners: Runners,
    batch: Batch,
    /// Runs that are over and not yet settled.
    ended: Vec<Ended>,
    /// What is at a runner, of this tenure and of earlier ones.
    in_flight: Vec<(u32, MessageId)>,
    /// What the events about unsettled endings will say.
    traces: HashMap<MessageId, Trace>,
    /// How many deliveries may be in flight; 1 until a flow says otherwise.
    concurrency: usize,
    due: Due,
    /// Boot time since which nothing was to be done.
    idle_since: Duration,
    stage: Stage,
    /// Whether a command is likely to follow within microseconds.
    expecting: bool,
}

/// When the next things are due, in boot time.
struct Due {
    /// Looking at the files.
    poll: Duration,
    /// The next retry, as far as it is known.
    retry: Option<Duration>,
    /// Settling again what could not be written.
    settle: Option<Duration>,
    /// Before this nothing is started: the registry or a file failed.
    start: Duration,
}

/// How far the queue is on its way to its end.
enum Stage {
    /// It works.
    Working,
    /// It starts nothing; the signal is dropped when nothing is in flight.
    Quiescing(#[expect(dead_code, reason = "held for its drop")] DoneSignal),
    /// It starts nothing, and nothing is in flight.
    Quiet,
    /// To be closed; the signal is dropped when that is done.
    Closing(#[expect(dead_code, reason = "held for its drop")] DoneSignal),
    /// Idle for long, and closed to whoever comes.
    Parked,
}

impl OwnerThread {
    /// An owner with nothing open yet.
    pub(super) fn new(
        around: Arc<Surroundings>,
        queue: QueueName,
        inbox: Arc<Inbox>,
        tenure: Tenure,
        runners: Runners,
    ) -> OwnerThread {
        let now = around.clock.boot();
        OwnerThread {
            around,
            queue,
            inbox,
            tenure,
            runners,
            batch: Batch::default(),
            ended: Vec::new(),
            in_flight: Vec::with_capacity(MAX_IN_FLIGHT),
            traces: HashMap::new(),
            concurrency: 1,
            due: Due { poll: now, retry: None, settle: None, start: Duration::ZERO },
            idle_since: now,
            stage: Stage::Working,
            expecting: false,
        }
    }

    /// Works until the queue is to close or has been idle for long, whatever happens on the way.
    pub(super) fn work(mut self, commands: &Receiver<Command>) {
        self.record(Kind::WorkerStarted);
        while !self.is_over() {
            let turns = AssertUnwindSafe(|| self.take_turns(commands));
            if let Err(panic) = catch_unwind(turns) {
                self.recover_from_panic(panic_text(&*panic));
            }
        }
        self.finish(commands);
    }

    fn take_turns(&mut self, commands: &Receiver<Command>) {
        loop {
            let now = self.around.moment();
            self.inbox.set_busy(Some(now.boot));
            self.turn(now);
            if self.is_over() {
                return;
            }
            self.inbox.set_busy(None);
            self.wait(commands);
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Closing(_) | Stage::Parked)
    }

    /// Does everything that there is to do now.
    fn turn(&mut self, now: Moment) {
        self.advance(now);
        self.commit(now);
        self.settle(now);
        self.poll(now);
        self.deliver(now);
        self.sync_checkpoint(now);
        self.report_damage();
        self.quiesce();
    }

    /// Waits for a command or for the next thing that is due, and takes all commands that are there.
    fn wait(&mut self, commands: &Receiver<Command>) {
        let first = match self.expecting.then(|| spin(commands)).flatten() {
            Some(command) => Some(command),
            None => match commands.recv_deadline(self.deadline()) {
                Ok(command) => Some(command),
                // The inbox that this thread holds is a sender too: there is always one.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
            },
        };
        self.expecting = first.is_some();
        if let Some(command) = first {
            self.take(command);
        }
        while self.batch.messages().len() < MAX_CHANNEL_MESSAGES {
            match commands.try_recv() {
                Ok(command) => self.take(command),
                Err(_) => break,
            }
        }
        // With more than one in a batch, other threads have better use for the processor.
        self.expecting &= self.batch.messages().len() <= 1;
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Submit(submission, reply) => self.batch.push(submission, reply),
            Command::Ended(ended) => {
                let run = (ended.tenure, ended.id);
                self.in_flight.retain(|other| *other != run);
                self.ended.push(*ended);
            }
            Command::Wake => {
                self.inbox.release(1, 0);
                self.due.poll = Duration::ZERO;
            }
            Command::Quiesce(signal) => self.stage = Stage::Quiescing(signal),
            Command::Close(signal) => self.stage = Stage::Closing(signal),
        }
    }

    /// The earliest of what is due, as the channel counts time.
    fn deadline(&mut self) -> Instant {
        let starting = matches!(self.stage, Stage::Working);
        let full = self.in_flight.len() >= self.concurrency;
        let dues = match self.tenure.due() {
            Some(due) => [Some(due), None, None, None],
            None => [
                Some(self.due.poll),
                self.due.settle,
                // What may not start yet, or has no runner, is no reason to wake.
                self.due.retry.filter(|_| starting && !full).map(|due| due.max(self.due.start)),
                self.tenure.owned().and_then(|files| files.checkpoint_due()),
            ],
        };
        let now = self.around.clock.boot();
        let first = dues.into_iter().flatten().min().unwrap_or(now + POLL_INTERVAL);
        Instant::now() + first.saturating_sub(now).min(POLL_INTERVAL)
    }

    /// Comes to the files, or closer to them.
    fn advance(&mut self, now: Moment) {
        let change = self.tenure.advance(now);
        match &change {
            Change::None => return,
            Change::Failed(error) => {
                report_fault(&self.around.journal, &self.queue, error);
                self.inbox.set_trouble(Part::Files, error.text.clone(), now.boot);
                return;
            }
            Change::Won => {
                self.record(Kind::WorkerElected);
                self.due = Due { poll: now.boot, retry: None, settle: None, start: now.boot };
                self.idle_since = now.boot;
            }
            Change::Lost => self.park_if_settled_elsewhere(now),
        }
        if !self.inbox.troubles().is_empty() {
            self.record(Kind::QueueReopened);
            self.inbox.clear_all_troubles();
        }
    }

    /// Stores all submissions that were taken with one append, and answers them.
    fn commit(&mut self, now: Moment) {
        if self.batch.messages().is_empty() {
            return;
        }
        self.idle_since = now.boot;
        let stored =
            Stored { inbox: &self.inbox, journal: &self.around.journal, queue: &self.queue };
        let error = match self.tenure.append(self.batch.messages(), now) {
            Some(Ok(receipts)) => return self.batch.answer(&stored, Ok(receipts)),
            None => {
                let why = self.tenure.closed_because();
                let text = format!("queue {} is not open: {why}", self.queue);
                return self.batch.answer(&stored, Err(Refusal::Busy(text)));
            }
            Some(Err(error)) => error,
        };
        self.batch.answer(&stored, Err(refusal(&self.queue, &error)));
        report_fault(&self.around.journal, &self.queue, &error);
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
        let number = self.tenure.number();
        let ended = std::mem::take(&mut self.ended);
        let Some(files) = self.tenure.owned() else { return };
        let mut endings = Vec::with_capacity(ended.len());
        let mut not_tried = None;
        for Ended { tenure, id, trace, end, concurrency } in ended {
            // An earlier tenure's message has been forgotten with its files, and comes again.
            if tenure != number {
                continue;
            }
            if let Some(concurrency) = concurrency {
                self.concurrency = concurrency.clamp(1, MAX_IN_FLIGHT);
            }
            let ending = match end {
                End::Done(_) => Ending::Acknowledge,
                End::Failed(ending) => ending,
                End::NotTried(why) => {
                    files.give_back(id);
                    not_tried = Some(why);
                    continue;
                }
            };
            self.traces.insert(id, trace);
            endings.push((id, ending));
        }
        let tried = !endings.is_empty();
        let result = match tried || again {
            true => files.settle(endings, now, &*self.around.random),
            false => Ok(Vec::new()),
        };
        match not_tried {
            Some(why) => self.hold_starts(why, Kind::RegistryUnavailable, now),
            None if tried => self.inbox.clear_trouble(Part::Running),
            None => {}
        }
        self.after_settling(result, now);
    }

    fn after_settling(
        &mut self,
        result: Result<Vec<crate::queue::Settled>, QueueError>,
        now: Moment,
    ) {
        match result {
            Ok(settled) => {
                for settled in settled {
                    let trace = self.traces.remove(&settled.id);
                    let journal = &self.around.journal;
                    report_settled(journal, &self.queue, &settled, trace.as_ref());
                }
                if self.due.settle.take().is_some() {
                    self.inbox.clear_trouble(Part::Settling);
                }
            }
            Err(error) => {
                report_fault(&self.around.journal, &self.queue, &error);
                if error.kind == FaultKind::Poisoned {
                    return self.give_up_files(&error, now);
                }
                self.due.settle = Some(now.boot + FAULT_RETRY_DELAY);
                self.inbox.set_trouble(Part::Settling, error.text, now.boot);
            }
        }
    }

    /// The regular look at the files: what others appended, whether all is settled, whether to park.
    fn poll(&mut self, now: Moment) {
        if now.boot < self.due.poll {
            return;
        }
        let Some(files) = self.tenure.owned() else { return };
        self.due.poll = now.boot + POLL_INTERVAL;
        match files.poll(now) {
            Ok(drained) => {
                self.inbox.clear_trouble(Part::Reading);
                if drained {
                    self.record(Kind::QueueDrained);
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
        self.due.retry = None;
        while self.in_flight.len() < self.concurrency {
            let Some(files) = self.tenure.owned() else { return };
            match files.next(now) {
                Ok(Step::Deliver(delivery)) => {
                    let job = Job { tenure: self.tenure.number(), delivery };
                    self.idle_since = now.boot;
                    if !self.hand_over(job, now) {
                        return;
                    }
                }
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
        match self.runners.hand(job, self.in_flight.len()) {
            Ok(()) => {
                self.in_flight.push(run);
                true
            }
            Err((job, error)) => {
                if let Some(files) = self.tenure.owned() {
                    files.give_back(job.delivery.message.id);
                }
                let why = format!("no thread can be started to run its flow: {error}");
                self.hold_starts(why, Kind::QueueFault, now);
                false
            }
        }
    }

    /// Starts nothing for a second: what a delivery needs is not there.
    fn hold_starts(&mut self, why: String, kind: Kind, now: Moment) {
        self.around.journal.record(&Event::of(kind, &self.queue).error(&why));
        self.inbox.set_trouble(Part::Running, why, now.boot);
        self.due.start = now.boot + FAULT_RETRY_DELAY;
        self.due.retry = Some(self.due.start);
    }

    fn sync_checkpoint(&mut self, now: Moment) {
        let Some(files) = self.tenure.owned() else { return };
        if files.checkpoint_due().is_none_or(|due| now.boot < due) {
            return;
        }
        if let Err(error) = files.sync_checkpoint(now, false) {
            report_fault(&self.around.journal, &self.queue, &error);
            match error.kind {
                FaultKind::Poisoned => self.give_up_files(&error, now),
                _ => self.due.settle = Some(now.boot + FAULT_RETRY_DELAY),
            }
        }
    }

    fn report_damage(&mut self) {
        let Some(files) = self.tenure.owned() else { return };
        for report in files.take_reports() {
            report_damage(&self.around.journal, &self.queue, &report);
        }
    }

    fn quiesce(&mut self) {
        let settled = self.in_flight.is_empty() && self.due.settle.is_none();
        if settled && matches!(self.stage, Stage::Quiescing(_)) {
            self.stage = Stage::Quiet;
        }
    }

    /// Looking for work failed.
    fn fault(&mut self, error: &QueueError, now: Moment) {
        report_fault(&self.around.journal, &self.queue, error);
        match error.kind {
            FaultKind::Poisoned | FaultKind::Io => self.give_up_files(error, now),
            FaultKind::NoRoom | FaultKind::Locked => {
                self.inbox.set_trouble(Part::Reading, error.text.clone(), now.boot);
                self.due.start = now.boot + FAULT_RETRY_DELAY;
                self.due.poll = self.due.start;
            }
        }
    }

    /// Closes the files; they are recovered from the disk in a second.
    fn give_up_files(&mut self, error: &QueueError, now: Moment) {
        let event = Event::of(Kind::QueuePoisoned, &self.queue).error(&error.text);
        self.around.journal.record(&event);
        self.inbox.set_trouble(Part::Files, error.text.clone(), now.boot);
        self.tenure.close(error.text.clone(), now);
        self.traces.clear();
        self.due.settle = None;
    }

    fn park_if_idle(&mut self, now: Moment) {
        let idle = now.boot.saturating_sub(self.idle_since) >= PARK_AFTER;
        if !idle || !self.in_flight.is_empty() {
            return;
        }
        let synced = self.tenure.owned().is_some_and(|files| files.checkpoint_due().is_none());
        if synced && self.inbox.close_if_idle() {
            self.stage = Stage::Parked;
        }
    }

    fn park_if_settled_elsewhere(&mut self, now: Moment) {
        // What was stored here since the last election may not have been seen by whoever delivers.
        if now.boot.saturating_sub(self.idle_since) < 2 * POLL_INTERVAL {
            return;
        }
        match self.tenure.is_settled_elsewhere() {
            Ok(true) if self.in_flight.is_empty() && self.inbox.close_if_idle() => {
                self.stage = Stage::Parked;
            }
            Ok(_) => {}
            Err(error) => report_fault(&self.around.journal, &self.queue, &error),
        }
    }

    /// Answers what was being stored, and closes the files: what they hold in memory may be half done.
    fn recover_from_panic(&mut self, text: &str) {
        let now = self.around.moment();
        let why = format!("the queue's thread panicked: {text}");
        let event = Event::of(Kind::WorkerPanicked, &self.queue).error(&why);
        self.around.journal.record(&event);
        let error = QueueError { kind: FaultKind::Poisoned, text: why };
        let stored =
            Stored { inbox: &self.inbox, journal: &self.around.journal, queue: &self.queue };
        self.batch.answer(&stored, Err(refusal(&self.queue, &error)));
        self.ended.clear();
        let closing = AssertUnwindSafe(|| self.give_up_files(&error, now));
        // The files go in any case: they were taken out of their place before they were closed.
        let _ = catch_unwind(closing);
    }

    /// Gives back what is in flight, syncs, closes, and refuses what came too late.
    fn finish(mut self, commands: &Receiver<Command>) {
        let number = self.tenure.number();
        if let Some(files) = self.tenure.owned() {
            for (_, id) in self.in_flight.iter().filter(|(tenure, _)| *tenure == number) {
                files.give_back(*id);
            }
        }
        let closed = catch_unwind(AssertUnwindSafe(|| self.tenure.end()));
        if let Ok(Err(error)) = closed {
            report_fault(&self.around.journal, &self.queue, &error);
        }
        self.inbox.close();
        for command in commands.try_iter() {
            if let Command::Submit(_, reply) = command {
                reply.answer(Err(Refusal::Busy("the server is stopping".into())));
            }
        }
        self.inbox.set_busy(None);
        self.around.journal.record(&Event::of(Kind::WorkerStopped, &self.queue));
    }

    fn record(&self, kind: Kind) {
        self.around.journal.record(&Event::of(kind, &self.queue));
    }
}

/// Looks for a command for a moment without sleeping: with one message at a time, falling asleep and being woken is
/// half of its latency.
fn spin(commands: &Receiver<Command>) -> Option<Command> {
    let until = Instant::now() + OWNER_SPIN;
    loop {
        if let Ok(command) = commands.try_recv() {
            return Some(command);
        }
        if Instant::now() >= until {
            return None;
        }
        std::hint::spin_loop();
    }
}
