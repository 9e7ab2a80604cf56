//! The active queues of this process, and the doors' way to them.
//!
//! A queue becomes active with its first submission, or when the janitor finds work in it: a thread
//! is started that owns it. At most `max_queues` are active; one more is refused before anything is
//! written. A queue that has been idle for long gives its place back. Looking up an active queue is
//! one read lock and one hash; nothing that can wait is done under a lock.
//!
//! Not here: what an owner does (`owner`), which queues have work (`janitor`).

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::base::QueueName;
use crate::base::limits::{
    CLOSE_DEADLINE, MAX_CHANNEL_MESSAGES, MAX_NAMED_PROBLEMS, OWNER_STACK, STUCK_AFTER,
    UNREADY_AFTER,
};
use crate::worker::channel::{Closed, Command, DoneSignal, Inbox, Never};
use crate::worker::files::QueueFiles;
use crate::worker::inbox::{Refusal, Reply, Submission, Submit};
use crate::worker::owner::{OwnerThread, Post};
use crate::worker::runner::{Runners, Seat};
use crate::worker::surroundings::Surroundings;
use crate::worker::tenure::Tenure;

/// The active queues.
pub struct Roster {
    around: Arc<Surroundings>,
    active: RwLock<Active>,
    /// Queues that have work and no place, with the boot time since which.
    unplaced: Mutex<BTreeMap<QueueName, Duration>>,
    /// Itself, for the threads that it starts: they do not keep it alive.
    me: Weak<Roster>,
}

#[derive(Default)]
struct Active {
    queues: HashMap<QueueName, Arc<Inbox>>,
    phase: Phase,
}

/// How far the process is on its way to its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Working,
    /// Queues accept, and start no delivery.
    Quiescing,
    /// No queue becomes active any more.
    Closing,
}

impl Roster {
    /// A roster with no active queue.
    pub fn new(around: Arc<Surroundings>) -> Arc<Roster> {
        Arc::new_cyclic(|me| Roster {
            around,
            active: RwLock::default(),
            unplaced: Mutex::default(),
            me: Weak::clone(me),
        })
    }

    /// Starts a queue, or has an active one look at its files at once. For queues that are known to
    /// have work.
    ///
    /// # Errors
    /// Why there is no place for it; it is remembered, and named by [`Roster::problems`].
    pub fn wake(&self, queue: &QueueName) -> Result<(), String> {
        let awake = self.active().queues.get(queue).is_some_and(|inbox| inbox.wake().is_ok());
        // A new owner looks at everything when it opens.
        let placed = if awake { Ok(()) } else { self.start(queue).map(drop) };
        let mut unplaced = self.unplaced.lock().unwrap_or_else(PoisonError::into_inner);
        match placed {
            Ok(()) => drop(unplaced.remove(queue)),
            Err(_) => drop(unplaced.entry(queue.clone()).or_insert(self.around.clock.boot())),
        }
        placed
    }

    /// Queues that have work and got no place when they were last to be started.
    pub fn unplaced(&self) -> Vec<QueueName> {
        self.unplaced.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Whether this process works the queue.
    pub fn is_active(&self, queue: &QueueName) -> bool {
        self.active().queues.contains_key(queue)
    }

    /// How many queues are active.
    pub fn active_queues(&self) -> usize {
        self.active().queues.len()
    }

    /// What keeps this process from being ready, each naming its queue; empty when all is well. At
    /// most [`MAX_NAMED_PROBLEMS`], then a count.
    pub fn problems(&self) -> Vec<String> {
        let now = self.around.clock.boot();
        let mut problems: Vec<String> = self
            .active()
            .queues
            .iter()
            .filter_map(|(queue, inbox)| Some(format!("queue {queue}: {}", problem(inbox, now)?)))
            .collect();
        let unplaced = self.unplaced.lock().unwrap_or_else(PoisonError::into_inner);
        problems.extend(
            unplaced
                .iter()
                .filter(|(_, since)| now.saturating_sub(**since) >= UNREADY_AFTER)
                .map(|(queue, _)| format!("queue {queue}: it has work, but {}", self.full())),
        );
        problems.sort_unstable();
        shorten(problems)
    }

    /// Has every queue start nothing further, and waits until nothing is in flight or the deadline
    /// is past. Queues go on accepting, so that flows in flight can publish and the doors' last
    /// messages are stored.
    pub fn quiesce(&self, until: Instant) {
        let inboxes = self.enter(Phase::Quiescing);
        // What is still in flight at the deadline is given back when its queue closes.
        let _ = tell_all(&inboxes, Command::Quiesce, until);
    }

    /// Closes every queue: what is in flight is given back uncharged, files are synced and closed.
    /// Takes no longer than [`CLOSE_DEADLINE`]. The doors must be closed before.
    ///
    /// # Errors
    /// The number of queues that did not close in time, for instance because their disk does not
    /// answer.
    pub fn close(&self) -> Result<(), usize> {
        let inboxes = self.enter(Phase::Closing);
        match tell_all(&inboxes, Command::Close, Instant::now() + CLOSE_DEADLINE) {
            true => Ok(()),
            false => Err(self.active_queues().max(1)),
        }
    }

    fn enter(&self, phase: Phase) -> Vec<Arc<Inbox>> {
        let mut active = self.active.write().unwrap_or_else(PoisonError::into_inner);
        active.phase = phase;
        active.queues.values().cloned().collect()
    }

    /// The queues as a running flow sees them: it holds no connection, so only the channel's own
    /// bound holds.
    fn for_flows(&self) -> Arc<dyn Submit> {
        Arc::new(ForFlows(Weak::clone(&self.me)))
    }

    fn submit_within(
        &self,
        queue: &QueueName,
        submission: Submission,
        reply: Box<dyn Reply>,
        limit: usize,
    ) {
        let boot = || self.around.clock.boot();
        let mut carried = (submission, reply);
        if let Some(inbox) = self.active().queues.get(queue) {
            match inbox.submit(carried.0, carried.1, limit, boot) {
                Ok(()) => return,
                Err(Closed(back)) => carried = back,
            }
        }
        let (submission, reply) = carried;
        let inbox = match self.start(queue) {
            Ok(inbox) => inbox,
            Err(why) => return reply.answer(Err(Refusal::Busy(why))),
        };
        if let Err(Closed((_, reply))) = inbox.submit(submission, reply, limit, boot) {
            // Only a stop closes an owner as young as this.
            reply.answer(Err(Refusal::Busy("the server is stopping".into())));
        }
    }

    /// The queue's inbox, with a new owner thread behind it unless it has a living one.
    fn start(&self, queue: &QueueName) -> Result<Arc<Inbox>, String> {
        let mut active = self.active.write().unwrap_or_else(PoisonError::into_inner);
        if active.phase == Phase::Closing {
            return Err("the server is stopping".into());
        }
        let replaces = match active.queues.get(queue) {
            Some(inbox) if !inbox.is_closed() => return Ok(Arc::clone(inbox)),
            Some(_) => true,
            None => false,
        };
        if !replaces && active.queues.len() >= self.around.limits.max_queues {
            return Err(self.full());
        }
        let inbox = self.spawn(queue).map_err(|error| {
            format!("no worker can be started for queue {queue}: no thread: {error}")
        })?;
        if active.phase == Phase::Quiescing {
            // Nobody waits for it: it has nothing in flight.
            inbox.tell(Command::Quiesce(DoneSignal::new().0));
        }
        active.queues.insert(queue.clone(), Arc::clone(&inbox));
        Ok(inbox)
    }

    fn full(&self) -> String {
        let max = self.around.limits.max_queues;
        format!("no worker can be started for it: {max} queues are active (--max-queues)")
    }

    fn spawn(&self, queue: &QueueName) -> std::io::Result<Arc<Inbox>> {
        let (inbox, commands) = Inbox::new();
        let inbox = Arc::new(inbox);
        let seat = Seat {
            around: Arc::clone(&self.around),
            queue: queue.clone(),
            inbox: Arc::clone(&inbox),
            queues: self.for_flows(),
        };
        let files = QueueFiles { around: Arc::clone(&self.around), queue: queue.clone() };
        let post = Post {
            queue: queue.clone(),
            inbox: Arc::clone(&inbox),
            clock: Arc::clone(&self.around.clock),
            random: Arc::clone(&self.around.random),
            journal: Arc::clone(&self.around.journal),
        };
        let owner = OwnerThread::new(
            post,
            Tenure::new(Box::new(files)),
            Runners::new(Box::new(move |orders| seat.clone().start(orders))),
        );
        let (roster, name, own) = (Weak::clone(&self.me), queue.clone(), Arc::clone(&inbox));
        std::thread::Builder::new().name(format!("q:{queue}")).stack_size(OWNER_STACK).spawn(
            move || {
                let work = AssertUnwindSafe(|| owner.work(&commands));
                // It catches its own panics; should one happen at its very end, its place is free
                // all the same.
                let _ = catch_unwind(work);
                own.close();
                if let Some(roster) = roster.upgrade() {
                    roster.forget(&name, &own);
                }
            },
        )?;
        Ok(inbox)
    }

    /// Takes an owner that has ended off the roster, unless another has its place already.
    fn forget(&self, queue: &QueueName, inbox: &Arc<Inbox>) {
        let mut active = self.active.write().unwrap_or_else(PoisonError::into_inner);
        if active.queues.get(queue).is_some_and(|present| Arc::ptr_eq(present, inbox)) {
            active.queues.remove(queue);
        }
    }

    fn active(&self) -> RwLockReadGuard<'_, Active> {
        self.active.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Submit for Roster {
    fn submit(&self, queue: &QueueName, submission: Submission, reply: Box<dyn Reply>) {
        self.submit_within(queue, submission, reply, self.around.limits.max_waiting);
    }
}

/// See [`Roster::for_flows`].
struct ForFlows(Weak<Roster>);

impl Submit for ForFlows {
    fn submit(&self, queue: &QueueName, submission: Submission, reply: Box<dyn Reply>) {
        match self.0.upgrade() {
            Some(roster) => roster.submit_within(queue, submission, reply, MAX_CHANNEL_MESSAGES),
            None => reply.answer(Err(Refusal::Busy("the server is stopping".into()))),
        }
    }
}

/// Tells all of them, and waits until each is done or the deadline is past; `true` when all are
/// done.
fn tell_all(
    inboxes: &[Arc<Inbox>],
    command: impl Fn(DoneSignal) -> Command,
    until: Instant,
) -> bool {
    let (signal, done): (DoneSignal, Receiver<Never>) = DoneSignal::new();
    for inbox in inboxes {
        inbox.tell(command(signal.clone()));
    }
    drop(signal);
    // Nothing is ever sent: it ends by the last signal being dropped, or by the deadline.
    done.recv_deadline(until) == Err(RecvTimeoutError::Disconnected)
}

fn problem(inbox: &Inbox, now: Duration) -> Option<String> {
    let stuck = inbox.busy_for(now);
    if stuck >= STUCK_AFTER {
        return Some(format!("its files have not answered for {} s", stuck.as_secs()));
    }
    let trouble = inbox.troubles().into_iter().next()?;
    let lasts = now.saturating_sub(trouble.since).as_secs();
    Some(format!("{} (for {lasts} s)", trouble.text))
}

fn shorten(mut problems: Vec<String>) -> Vec<String> {
    let more = problems.len().saturating_sub(MAX_NAMED_PROBLEMS);
    problems.truncate(MAX_NAMED_PROBLEMS);
    if more > 0 {
        problems.push(format!("and {more} more"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_problems_ends_in_a_count() {
        let all = |count| (0..count).map(|n| format!("queue {n}")).collect::<Vec<_>>();
        assert_eq!(shorten(all(MAX_NAMED_PROBLEMS)), all(MAX_NAMED_PROBLEMS));
        let short = shorten(all(MAX_NAMED_PROBLEMS + 3));
        assert_eq!(short.len(), MAX_NAMED_PROBLEMS + 1);
        assert_eq!(short.last().unwrap(), "and 3 more");
    }

    #[test]
    fn a_stop_waits_for_every_signal_and_no_longer_than_its_deadline() {
        let (inbox, commands) = Inbox::new();
        let inboxes = [Arc::new(inbox)];
        assert!(!tell_all(&inboxes, Command::Quiesce, Instant::now()), "nobody has answered");
        drop(commands.try_recv().unwrap());
        let far = Instant::now() + Duration::from_secs(60);
        assert!(tell_all(&[], Command::Close, far), "nobody is asked");
        drop(commands);
        assert!(tell_all(&inboxes, Command::Close, far), "a thread that has gone is done");
    }
}
