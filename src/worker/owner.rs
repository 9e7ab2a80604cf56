//! The owner thread of one active queue: the only one that touches its files.
//!
//! A single-writer loop. Each turn takes everything that waits in the channel, stores all
//! submissions of it with one append, answers them, settles the runs that have ended, looks at the
//! files every 500 ms, and hands out deliveries while fewer are in flight than the flow's
//! concurrency. Then it waits, in one place, for the next command or the earliest of what is due.
//! It never waits for a runner or a client, so neither can hold back a 202.
//!
//! Promises: a message is answered only after its sync; a settlement that could not be written is
//! tried each second and nothing starts before it; a queue whose files fail is closed and reopened
//! through full recovery each second, and refuses meanwhile; a panic costs a recovery, and no other
//! queue anything. Not here: what the files do (`queue`), how this process comes to them
//! (`tenure`).

mod turn;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use crate::base::limits::{MAX_CHANNEL_MESSAGES, MAX_IN_FLIGHT, OWNER_SPIN, POLL_INTERVAL};
use crate::base::random::Random;
use crate::base::time::Clock;
use crate::base::{MessageId, QueueName};
use crate::journal::{Event, Journal, Kind};
use crate::queue::{FaultKind, Moment, QueueError};
use crate::worker::channel::{Command, DoneSignal, Inbox};
use crate::worker::commit::{Batch, Stored, refusal};
use crate::worker::inbox::Refusal;
use crate::worker::report::report_fault;
use crate::worker::runner::{Ended, Job, Runners, Trace, panic_text};
use crate::worker::tenure::Tenure;

/// What an owner thread is given besides its files and its runners.
pub(super) struct Post {
    pub(super) queue: QueueName,
    pub(super) inbox: Arc<Inbox>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) journal: Arc<Journal>,
}

impl Post {
    fn moment(&self) -> Moment {
        Moment { wall: self.clock.now(), boot: self.clock.boot() }
    }

    /// Where a batch is stored, for its answers.
    fn stored(&self) -> Stored<'_> {
        Stored { inbox: &self.inbox, journal: &self.journal, queue: &self.queue }
    }

    fn record(&self, kind: Kind) {
        self.journal.record(&Event::of(kind, &self.queue));
    }
}

/// One active queue's owner.
pub(super) struct OwnerThread {
    post: Post,
    tenure: Tenure,
    runners: Runners,
    batch: Batch,
    /// Runs that are over and not yet settled.
    ended: Vec<Ended>,
    /// What is at a runner, of this tenure and of earlier ones.
    in_flight: Vec<(u32, MessageId)>,
    /// Deliveries that could not be tried, by id. They are handed to a runner before any other.
    held: VecDeque<Job>,
    /// What the events about unsettled endings will say.
    traces: HashMap<MessageId, Trace>,
    /// How many deliveries may run at once; 1 until a flow says otherwise.
    concurrency: usize,
    /// How many more may wait at the runner.
    ahead: usize,
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
    pub(super) fn new(post: Post, tenure: Tenure, runners: Runners) -> OwnerThread {
        let now = post.clock.boot();
        OwnerThread {
            post,
            tenure,
            runners,
            batch: Batch::default(),
            ended: Vec::new(),
            in_flight: Vec::with_capacity(MAX_IN_FLIGHT),
            held: VecDeque::new(),
            traces: HashMap::new(),
            concurrency: 1,
            ahead: 0,
            due: Due { poll: now, retry: None, settle: None, start: Duration::ZERO },
            idle_since: now,
            stage: Stage::Working,
            expecting: false,
        }
    }

    /// Works until the queue is to close or has been idle for long, whatever happens on the way.
    pub(super) fn work(mut self, commands: &Receiver<Command>) {
        self.post.record(Kind::WorkerStarted);
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
            let now = self.post.moment();
            self.post.inbox.set_busy(Some(now.boot));
            self.turn(now);
            if self.is_over() {
                return;
            }
            self.post.inbox.set_busy(None);
            self.wait(commands);
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Closing(_) | Stage::Parked)
    }

    /// Waits for a command or for the next thing that is due, and takes all commands that are
    /// there.
    fn wait(&mut self, commands: &Receiver<Command>) {
        let first = match self.expecting.then(|| spin(commands)).flatten() {
            Some(command) => Some(command),
            // It can only time out: the inbox that this thread holds is a sender too.
            None => commands.recv_deadline(self.deadline()).ok(),
        };
        self.expecting = matches!(first, Some(Command::Submit(..)));
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
                self.post.inbox.release(1, 0);
                self.due.poll = Duration::ZERO;
            }
            Command::Quiesce(signal) => self.stage = Stage::Quiescing(signal),
            Command::Close(signal) => self.stage = Stage::Closing(signal),
        }
    }

    /// When something may be there to be started: a held delivery, or a retry.
    fn starts_at(&self) -> Option<Duration> {
        match self.held.is_empty() {
            false => Some(self.due.start),
            true => self.due.retry.map(|due| due.max(self.due.start)),
        }
    }

    /// The earliest of what is due, as the channel counts time.
    fn deadline(&mut self) -> Instant {
        let starting = matches!(self.stage, Stage::Working);
        let full = self.in_flight.len() >= self.concurrency + self.ahead;
        let dues = match self.tenure.due() {
            Some(due) => [Some(due), None, None, None],
            None => [
                Some(self.due.poll),
                self.due.settle,
                // What may not start yet, or has no runner, is no reason to wake.
                self.starts_at().filter(|_| starting && !full),
                self.tenure.owned().and_then(|files| files.checkpoint_due()),
            ],
        };
        let now = self.post.clock.boot();
        let first = dues.into_iter().flatten().min().unwrap_or(now + POLL_INTERVAL);
        Instant::now() + first.saturating_sub(now).min(POLL_INTERVAL)
    }

    /// Answers what was being stored, and closes the files: what they hold in memory may be half
    /// done.
    fn recover_from_panic(&mut self, text: &str) {
        let now = self.post.moment();
        let why = format!("the queue's thread panicked: {text}");
        let event = Event::of(Kind::WorkerPanicked, &self.post.queue).error(&why);
        self.post.journal.record(&event);
        let error = QueueError { kind: FaultKind::Poisoned, text: why };
        let stored = self.post.stored();
        self.batch.answer(&stored, Err(refusal(&self.post.queue, &error)));
        self.ended.clear();
        let closing = AssertUnwindSafe(|| self.give_up_files(&error, now));
        // The files go in any case: they were taken out of their place before they were closed.
        let _ = catch_unwind(closing);
    }

    /// Syncs and closes, which gives back what is in flight, uncharged; refuses what came too late.
    fn finish(self, commands: &Receiver<Command>) {
        let now = self.post.moment();
        let closed = catch_unwind(AssertUnwindSafe(|| self.tenure.end(now)));
        if let Ok(Err(error)) = closed {
            report_fault(&self.post.journal, &self.post.queue, &error);
        }
        self.post.inbox.close();
        for command in commands.try_iter() {
            if let Command::Submit(_, reply) = command {
                reply.answer(Err(Refusal::Busy("the server is stopping".into())));
            }
        }
        self.post.inbox.set_busy(None);
        self.post.record(Kind::WorkerStopped);
    }
}

/// Looks for a command for a moment without sleeping: with one message at a time, falling asleep
/// and being woken is half of its latency.
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
