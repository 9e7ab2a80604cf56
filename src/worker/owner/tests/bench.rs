//! One owner on a bench: files that fail on purpose, a clock that stands still, and runners that
//! are the test itself.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Mutex;

use super::super::*;
use crate::base::limits::SHORT_RUN;
use crate::base::random::SeededRandom;
use crate::base::{CorrelationId, Timestamp};
use crate::queue::{
    Delivery, Ending, Message, NewMessage, Receipt, Report, Settled, Settlement, Step,
};
use crate::worker::files::{AppendFiles, Elected, OpenFiles, OwnFiles};
use crate::worker::inbox::{Reply, Submission};
use crate::worker::runner::{End, Job, Order};

/// What the files did, and what they are to do next.
#[derive(Default)]
pub(super) struct Script {
    /// What happened, in order.
    pub(super) log: Vec<String>,
    /// Messages stored and not yet handed out.
    pub(super) waiting: VecDeque<Arc<Message>>,
    pub(super) known: HashMap<MessageId, Arc<Message>>,
    pub(super) next_id: u64,
    /// Kinds of failure for the next calls, by call.
    pub(super) fail: Vec<(&'static str, FaultKind)>,
    pub(super) panics: bool,
    pub(super) others_deliver: bool,
    pub(super) has_work: bool,
    pub(super) unsettled: Vec<(MessageId, Ending)>,
    /// Deliveries that a crash is not to be blamed on.
    pub(super) aside: BTreeSet<MessageId>,
    pub(super) paused: bool,
    pub(super) crashes: bool,
}

pub(super) type Shared = Arc<Mutex<Script>>;

struct FakeFiles(Shared);

impl FakeFiles {
    fn call(&self, name: &'static str) -> Result<(), QueueError> {
        let mut script = self.0.lock().unwrap();
        script.log.push(name.into());
        match script.fail.iter().position(|(call, _)| *call == name) {
            Some(at) => {
                let (_, kind) = script.fail.remove(at);
                Err(QueueError { kind, text: format!("{name} failed") })
            }
            None => Ok(()),
        }
    }

    fn store(&self, batch: &[NewMessage], now: Timestamp) -> Result<Vec<Receipt>, QueueError> {
        let panics = std::mem::take(&mut self.0.lock().unwrap().panics);
        assert!(!panics, "planted");
        self.call("append")?;
        let mut script = self.0.lock().unwrap();
        let receipt = |message: &NewMessage| {
            script.next_id += 1;
            let id = MessageId::new(script.next_id).unwrap();
            let message = Arc::new(Message {
                id,
                enqueued_at: now,
                first_id: id,
                replays: 0,
                correlation_id: message.correlation_id.clone(),
                payload: message.payload.clone(),
            });
            script.waiting.push_back(Arc::clone(&message));
            script.known.insert(id, message);
            Receipt { id, offset: id.get() * 100 }
        };
        Ok(batch.iter().map(receipt).collect())
    }
}

impl OpenFiles for FakeFiles {
    fn open(&self) -> Result<Box<dyn AppendFiles>, QueueError> {
        self.call("open")?;
        Ok(Box::new(FakeFiles(Arc::clone(&self.0))))
    }

    fn has_work(&self) -> Result<bool, QueueError> {
        Ok(self.0.lock().unwrap().has_work)
    }
}

impl AppendFiles for FakeFiles {
    fn append(&mut self, batch: &[NewMessage], now: Timestamp) -> Result<Vec<Receipt>, QueueError> {
        self.store(batch, now)
    }

    fn elect(self: Box<Self>, _: Moment) -> Result<Elected, QueueError> {
        self.call("elect")?;
        let lost = self.0.lock().unwrap().others_deliver;
        Ok(if lost { Elected::Lost(self) } else { Elected::Won(self) })
    }
}

impl OwnFiles for FakeFiles {
    fn append(&mut self, batch: &[NewMessage], now: Timestamp) -> Result<Vec<Receipt>, QueueError> {
        self.store(batch, now)
    }

    fn next(&mut self, _: Moment) -> Result<Step, QueueError> {
        self.call("next")?;
        let Some(message) = self.0.lock().unwrap().waiting.pop_front() else {
            return Ok(Step::Wait(None));
        };
        let offset = message.id.get() * 100;
        Ok(Step::Deliver(Delivery { message, offset, attempt: 1 }))
    }

    fn settle(
        &mut self,
        endings: Vec<(MessageId, Ending)>,
        _: Moment,
        _: &dyn Random,
    ) -> Result<Vec<Settled>, QueueError> {
        self.0.lock().unwrap().unsettled.extend(endings);
        self.call("settle")?;
        let mut script = self.0.lock().unwrap();
        let unsettled = std::mem::take(&mut script.unsettled);
        let settle = |(id, _): (MessageId, Ending)| {
            script.log.push(format!("settled {id}"));
            let message = Arc::clone(&script.known[&id]);
            Settled { message, attempt: 1, what: Settlement::Acknowledged }
        };
        Ok(unsettled.into_iter().map(settle).collect())
    }

    fn sync_checkpoint(&mut self, _: Moment, _: bool) -> Result<(), QueueError> {
        self.call("checkpoint")
    }

    fn checkpoint_due(&self) -> Option<Duration> {
        None
    }

    fn set_aside(&mut self, id: MessageId) {
        self.0.lock().unwrap().aside.insert(id);
    }

    fn take_up(&mut self, id: MessageId) -> Result<(), QueueError> {
        self.0.lock().unwrap().aside.remove(&id);
        Ok(())
    }

    fn is_paused(&self) -> bool {
        self.0.lock().unwrap().paused
    }

    fn has_crashes(&self) -> bool {
        self.0.lock().unwrap().crashes
    }

    fn poll(&mut self, _: Moment) -> Result<bool, QueueError> {
        self.call("poll")?;
        Ok(false)
    }

    fn take_reports(&mut self) -> Vec<Report> {
        Vec::new()
    }

    fn close(self: Box<Self>, _: Moment) -> Result<(), QueueError> {
        self.call("close")
    }
}

/// A clock that goes forward when it is told to.
pub(super) struct TestClock(pub(super) Mutex<Duration>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.boot().as_millis() as i64)
    }

    fn boot(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

pub(super) type Answers = Arc<Mutex<Vec<Result<Receipt, Refusal>>>>;

struct Recorder(Answers);

impl Reply for Recorder {
    fn answer(self: Box<Self>, outcome: Result<Receipt, Refusal>) {
        self.0.lock().unwrap().push(outcome);
    }
}

/// One queue with its owner, whose turns the test takes itself.
pub(super) struct Bench {
    pub(super) owner: OwnerThread,
    pub(super) commands: Receiver<Command>,
    /// What waits for runners, once one has been started.
    pub(super) orders: Arc<Mutex<Option<Receiver<Order>>>>,
    pub(super) script: Shared,
    pub(super) clock: Arc<TestClock>,
    pub(super) answers: Answers,
    /// How long runs take from now on.
    pub(super) took: Duration,
}

impl Bench {
    pub(super) fn new() -> Bench {
        let script = Shared::default();
        let clock = Arc::new(TestClock(Mutex::new(Duration::from_secs(1000))));
        let (inbox, commands) = Inbox::new();
        let orders = Arc::new(Mutex::new(None));
        let started = Arc::clone(&orders);
        let runners = Runners::new(Box::new(move |orders| {
            // The test is every runner.
            *started.lock().unwrap() = Some(orders);
            Ok(())
        }));
        let post = Post {
            queue: QueueName::parse("acme", "orders").unwrap(),
            inbox: Arc::new(inbox),
            clock: Arc::clone(&clock) as _,
            random: Arc::new(SeededRandom::new(1)),
            journal: Arc::new(Journal::new(Arc::clone(&clock) as _)),
        };
        let tenure = Tenure::new(Box::new(FakeFiles(Arc::clone(&script))));
        let owner = OwnerThread::new(post, tenure, runners);
        let (answers, took) = (Answers::default(), 5 * SHORT_RUN);
        Bench { owner, commands, orders, script, clock, answers, took }
    }

    pub(super) fn submit(&self, payload: &str) {
        let submission = Submission {
            payload: payload.as_bytes().to_vec(),
            correlation_id: CorrelationId::parse(b"trace").unwrap(),
        };
        let reply = Box::new(Recorder(Arc::clone(&self.answers)));
        self.owner.post.inbox.submit(submission, reply, 100, || Duration::ZERO).ok().unwrap();
    }

    /// Takes what is in the channel, and one turn.
    pub(super) fn turn(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.owner.take(command);
        }
        let now = self.owner.post.moment();
        self.owner.turn(now);
    }

    pub(super) fn turn_after(&mut self, wait: Duration) {
        *self.clock.0.lock().unwrap() += wait;
        self.turn();
    }

    /// The next delivery that waits for a runner.
    pub(super) fn next_job(&self) -> Option<Job> {
        match self.orders.lock().unwrap().as_ref()?.try_recv().ok()? {
            Order::Run(job) => Some(job),
            Order::End => panic!("no thread is one too many here"),
        }
    }

    pub(super) fn job(&self) -> Job {
        self.next_job().expect("a delivery")
    }

    pub(super) fn end(&self, job: &Job, end: End) {
        let done = match &end {
            End::Done(done) => Some(*done),
            _ => None,
        };
        let message = &job.delivery.message;
        let trace = Trace { offset: job.delivery.offset, duration_ms: 1, done };
        let (tenure, id) = (job.tenure, message.id);
        let ended = Ended { tenure, id, trace, end, concurrency: Some(1), took: self.took };
        self.owner.post.inbox.tell(Command::Ended(Box::new(ended)));
    }

    pub(super) fn not_tried(&self, job: Job, why: &str) {
        let (tenure, id) = (job.tenure, job.delivery.message.id);
        let trace = Trace { offset: 0, duration_ms: 1, done: None };
        let end = End::NotTried(job, why.into());
        let ended = Ended { tenure, id, trace, end, concurrency: None, took: self.took };
        self.owner.post.inbox.tell(Command::Ended(Box::new(ended)));
    }

    pub(super) fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.script.lock().unwrap().log)
    }

    pub(super) fn fail(&self, call: &'static str, kind: FaultKind) {
        self.script.lock().unwrap().fail.push((call, kind));
    }

    pub(super) fn answers(&self) -> Vec<Result<Receipt, Refusal>> {
        std::mem::take(&mut self.answers.lock().unwrap())
    }

    pub(super) fn troubles(&self) -> Vec<String> {
        self.owner.post.inbox.troubles().into_iter().map(|trouble| trouble.text).collect()
    }
}
