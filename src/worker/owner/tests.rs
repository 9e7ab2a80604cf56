//! The owner loop with files that fail on purpose, a clock that stands still, and runners that are
//! the test itself.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::*;
use crate::base::limits::{FAULT_RETRY_DELAY, PARK_AFTER};
use crate::base::random::SeededRandom;
use crate::base::{CorrelationId, RetryPolicy, Timestamp};
use crate::queue::{
    Delivery, Ending, Message, NewMessage, Receipt, Report, Settled, Settlement, Step,
};
use crate::worker::files::{AppendFiles, Elected, OpenFiles, OwnFiles};
use crate::worker::inbox::{Reply, Submission};
use crate::worker::runner::{Done, End, Job, Order};

/// What the files did, and what they are to do next.
#[derive(Default)]
struct Script {
    /// What happened, in order.
    log: Vec<String>,
    /// Messages stored and not yet handed out.
    waiting: VecDeque<Arc<Message>>,
    known: HashMap<MessageId, Arc<Message>>,
    next_id: u64,
    /// Kinds of failure for the next calls, by call.
    fail: Vec<(&'static str, FaultKind)>,
    panics: bool,
    others_deliver: bool,
    has_work: bool,
    unsettled: Vec<(MessageId, Ending)>,
}

type Shared = Arc<Mutex<Script>>;

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
struct TestClock(Mutex<Duration>);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.boot().as_millis() as i64)
    }

    fn boot(&self) -> Duration {
        *self.0.lock().unwrap()
    }
}

type Answers = Arc<Mutex<Vec<Result<Receipt, Refusal>>>>;

struct Recorder(Answers);

impl Reply for Recorder {
    fn answer(self: Box<Self>, outcome: Result<Receipt, Refusal>) {
        self.0.lock().unwrap().push(outcome);
    }
}

/// One queue with its owner, whose turns the test takes itself.
struct Bench {
    owner: OwnerThread,
    commands: Receiver<Command>,
    /// What waits for runners, once one has been started.
    orders: Arc<Mutex<Option<Receiver<Order>>>>,
    script: Shared,
    clock: Arc<TestClock>,
    answers: Answers,
}

impl Bench {
    fn new() -> Bench {
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
        Bench { owner, commands, orders, script, clock, answers: Answers::default() }
    }

    fn submit(&self, payload: &str) {
        let submission = Submission {
            payload: payload.as_bytes().to_vec(),
            correlation_id: CorrelationId::parse(b"trace").unwrap(),
        };
        let reply = Box::new(Recorder(Arc::clone(&self.answers)));
        self.owner.post.inbox.submit(submission, reply, 100, || Duration::ZERO).ok().unwrap();
    }

    /// Takes what is in the channel, and one turn.
    fn turn(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.owner.take(command);
        }
        let now = self.owner.post.moment();
        self.owner.turn(now);
    }

    fn turn_after(&mut self, wait: Duration) {
        *self.clock.0.lock().unwrap() += wait;
        self.turn();
    }

    /// The next delivery that waits for a runner.
    fn next_job(&self) -> Option<Job> {
        match self.orders.lock().unwrap().as_ref()?.try_recv().ok()? {
            Order::Run(job) => Some(job),
            Order::End => panic!("no thread is one too many here"),
        }
    }

    fn job(&self) -> Job {
        self.next_job().expect("a delivery")
    }

    fn end(&self, job: &Job, end: End) {
        let done = match &end {
            End::Done(done) => Some(*done),
            _ => None,
        };
        let message = &job.delivery.message;
        let trace = Trace { offset: job.delivery.offset, duration_ms: 1, done };
        let (tenure, id) = (job.tenure, message.id);
        let ended = Ended { tenure, id, trace, end, concurrency: Some(1) };
        self.owner.post.inbox.tell(Command::Ended(Box::new(ended)));
    }

    fn not_tried(&self, job: Job, why: &str) {
        let (tenure, id) = (job.tenure, job.delivery.message.id);
        let trace = Trace { offset: 0, duration_ms: 1, done: None };
        let end = End::NotTried(job, why.into());
        let ended = Ended { tenure, id, trace, end, concurrency: None };
        self.owner.post.inbox.tell(Command::Ended(Box::new(ended)));
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.script.lock().unwrap().log)
    }

    fn fail(&self, call: &'static str, kind: FaultKind) {
        self.script.lock().unwrap().fail.push((call, kind));
    }

    fn answers(&self) -> Vec<Result<Receipt, Refusal>> {
        std::mem::take(&mut self.answers.lock().unwrap())
    }

    fn troubles(&self) -> Vec<String> {
        self.owner.post.inbox.troubles().into_iter().map(|trouble| trouble.text).collect()
    }
}

#[test]
fn all_that_waits_is_one_append_and_each_is_answered_in_order() {
    let mut bench = Bench::new();
    for payload in ["1", "2", "3"] {
        bench.submit(payload);
    }
    bench.turn();
    assert_eq!(bench.log().iter().filter(|call| *call == "append").count(), 1);
    let ids: Vec<u64> =
        bench.answers().into_iter().map(|answer| answer.unwrap().id.get()).collect();
    assert_eq!(ids, [1, 2, 3]);
}

#[test]
fn one_delivery_is_in_flight_and_the_next_starts_when_it_is_settled() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.submit("2");
    bench.turn();
    let job = bench.job();
    assert_eq!(job.delivery.message.payload, b"1");
    bench.turn();
    assert!(bench.next_job().is_none());
    bench.log();
    bench.end(&job, End::Done(Done::Succeeded));
    bench.turn();
    assert_eq!(bench.log(), ["settle", "settled 1", "next"]);
    assert_eq!(bench.job().delivery.message.payload, b"2");
}

#[test]
fn each_failure_of_an_append_is_told_for_what_it_is() {
    let mut bench = Bench::new();
    for kind in [FaultKind::NoRoom, FaultKind::Locked, FaultKind::Io] {
        bench.fail("append", kind);
        bench.submit("x");
        bench.turn();
    }
    let answers = bench.answers();
    assert!(matches!(answers[0], Err(Refusal::NoRoom(_))));
    assert!(matches!(answers[1], Err(Refusal::Busy(_))));
    assert!(matches!(answers[2], Err(Refusal::Unknown(_))));
    bench.submit("y");
    bench.turn();
    assert!(bench.answers()[0].is_ok(), "none of them keeps the queue from accepting");
}

#[test]
fn a_poisoned_queue_refuses_until_it_has_been_reopened() {
    let mut bench = Bench::new();
    bench.turn();
    bench.fail("append", FaultKind::Poisoned);
    bench.submit("x");
    bench.turn();
    assert!(matches!(bench.answers()[0], Err(Refusal::Unknown(_))), "it may be stored");
    assert_eq!(bench.troubles(), ["append failed"]);

    bench.submit("y");
    bench.turn();
    assert!(matches!(bench.answers()[0], Err(Refusal::Busy(_))), "nothing was written");

    bench.fail("open", FaultKind::Io);
    bench.turn_after(FAULT_RETRY_DELAY);
    assert_eq!(bench.troubles(), ["open failed"]);
    bench.log();
    bench.turn_after(FAULT_RETRY_DELAY);
    assert_eq!(bench.log()[..2], ["open", "elect"]);
    assert!(bench.troubles().is_empty());
    bench.submit("z");
    bench.turn();
    assert!(bench.answers()[0].is_ok());
}

#[test]
fn a_settlement_that_could_not_be_written_is_tried_each_second_and_nothing_starts_before() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.submit("2");
    bench.turn();
    let job = bench.job();
    bench.fail("settle", FaultKind::NoRoom);
    bench.fail("settle", FaultKind::Io);
    bench.end(&job, End::Done(Done::Succeeded));
    bench.turn();
    assert_eq!(bench.troubles(), ["settle failed"]);
    bench.log();
    bench.turn();
    assert!(bench.log().is_empty(), "it waits its second");
    bench.turn_after(FAULT_RETRY_DELAY);
    assert_eq!(bench.log(), ["settle", "poll"]);
    assert!(bench.next_job().is_none());
    bench.submit("3");
    bench.turn();
    assert!(bench.answers().iter().all(Result::is_ok), "it accepts all the while");
    bench.log();
    bench.turn_after(FAULT_RETRY_DELAY);
    assert_eq!(bench.log(), ["settle", "settled 1", "poll", "next"]);
    assert!(bench.troubles().is_empty());
}

#[test]
fn with_an_unreadable_registry_the_message_stays_first_and_nothing_starts_for_a_second() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.submit("2");
    bench.turn();
    for _ in 0..3 {
        let job = bench.job();
        assert_eq!(job.delivery.message.payload, b"1");
        bench.log();
        bench.not_tried(job, "registry locked");
        bench.turn();
        assert!(bench.log().is_empty(), "nothing is settled, and nothing else looked for");
        assert_eq!(bench.troubles(), ["registry locked"]);
        assert!(bench.next_job().is_none());
        bench.turn_after(FAULT_RETRY_DELAY);
    }
    let job = bench.job();
    bench.end(&job, End::Done(Done::Succeeded));
    bench.turn();
    assert!(bench.troubles().is_empty());
    assert_eq!(bench.job().delivery.message.payload, b"2");
}

#[test]
fn a_run_of_an_earlier_tenure_settles_nothing_but_holds_its_place_until_it_is_over() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.submit("2");
    bench.turn();
    let job = bench.job();
    bench.fail("append", FaultKind::Poisoned);
    bench.submit("3");
    bench.turn();
    bench.turn_after(FAULT_RETRY_DELAY);
    bench.log();
    bench.turn();
    assert!(bench.log().is_empty(), "the flow's one runner is busy still");
    bench.end(&job, End::Done(Done::Succeeded));
    bench.turn();
    assert_eq!(bench.log(), ["next"], "nothing is settled");
    assert_ne!(bench.job().tenure, job.tenure);
}

#[test]
fn a_panic_answers_the_batch_and_costs_a_recovery() {
    let mut bench = Bench::new();
    bench.turn();
    bench.script.lock().unwrap().panics = true;
    bench.submit("1");
    let turn = catch_unwind(AssertUnwindSafe(|| bench.turn()));
    bench.owner.recover_from_panic(panic_text(&*turn.unwrap_err()));
    assert!(matches!(&bench.answers()[0], Err(Refusal::Unknown(text)) if text.contains("planted")));
    assert_eq!(bench.troubles(), ["the queue's thread panicked: planted"]);
    bench.turn_after(FAULT_RETRY_DELAY);
    bench.submit("2");
    bench.turn();
    assert!(bench.answers()[0].is_ok());
}

#[test]
fn where_another_process_delivers_this_one_appends_and_stands_for_election() {
    let mut bench = Bench::new();
    bench.script.lock().unwrap().others_deliver = true;
    bench.script.lock().unwrap().has_work = true;
    bench.submit("1");
    bench.turn();
    assert!(bench.answers()[0].is_ok());
    assert!(bench.next_job().is_none());
    for _ in 0..10 {
        bench.turn_after(POLL_INTERVAL);
    }
    assert_eq!(bench.log().iter().filter(|call| *call == "elect").count(), 11);
    bench.script.lock().unwrap().others_deliver = false;
    bench.turn_after(POLL_INTERVAL);
    assert_eq!(bench.job().delivery.message.payload, b"1");
}

#[test]
fn a_queue_that_another_process_has_settled_gives_its_place_back() {
    let mut bench = Bench::new();
    bench.script.lock().unwrap().others_deliver = true;
    bench.turn();
    bench.turn_after(POLL_INTERVAL);
    assert!(!bench.owner.is_over());
    bench.turn_after(POLL_INTERVAL);
    assert!(bench.owner.is_over() && bench.owner.post.inbox.is_closed());
}

#[test]
fn an_idle_queue_gives_its_place_back_but_not_with_a_message_on_its_way() {
    let mut bench = Bench::new();
    bench.turn();
    bench.turn_after(PARK_AFTER - Duration::from_millis(1));
    assert!(!bench.owner.is_over());
    bench.submit("1");
    *bench.clock.0.lock().unwrap() += Duration::from_millis(1);
    let now = bench.owner.post.moment();
    bench.owner.turn(now);
    assert!(!bench.owner.is_over(), "it is in the channel");
    bench.turn();
    let job = bench.job();
    bench.turn_after(PARK_AFTER);
    assert!(!bench.owner.is_over(), "it is in flight");
    bench.end(&job, End::Done(Done::Succeeded));
    bench.turn();
    assert!(!bench.owner.is_over());
    bench.turn_after(PARK_AFTER);
    assert!(bench.owner.is_over() && bench.owner.post.inbox.is_closed());
}

#[test]
fn a_stop_finishes_what_is_in_flight_and_starts_nothing() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.submit("2");
    bench.turn();
    let job = bench.job();
    let (signal, done) = DoneSignal::new();
    bench.owner.post.inbox.tell(Command::Quiesce(signal));
    bench.turn();
    assert_eq!(done.try_recv(), Err(crossbeam_channel::TryRecvError::Empty));
    bench.submit("3");
    bench.end(&job, End::Done(Done::Succeeded));
    bench.turn();
    assert_eq!(done.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected));
    assert!(bench.answers().iter().all(Result::is_ok), "it accepts until it closes");
    assert!(bench.next_job().is_none());
}

#[test]
fn a_close_gives_back_what_is_in_flight_and_refuses_what_comes_too_late() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.turn();
    bench.job();
    bench.answers();
    bench.log();
    let (signal, done) = DoneSignal::new();
    bench.owner.post.inbox.tell(Command::Close(signal));
    bench.turn();
    assert!(bench.owner.is_over());
    bench.submit("2");
    let Bench { owner, commands, script, answers, .. } = bench;
    owner.finish(&commands);
    assert_eq!(script.lock().unwrap().log, ["close"]);
    assert!(matches!(answers.lock().unwrap()[0], Err(Refusal::Busy(_))));
    assert_eq!(done.try_recv(), Err(crossbeam_channel::TryRecvError::Disconnected));
}

#[test]
fn a_failed_run_is_settled_with_its_flows_policy() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.turn();
    let job = bench.job();
    bench.fail("settle", FaultKind::NoRoom);
    let ending = Ending::Failed {
        error: "HTTP 503".into(),
        policy: RetryPolicy::default(),
        non_retryable: true,
        retry_after_ms: Some(7),
    };
    bench.end(&job, End::Failed(ending));
    bench.turn();
    let script = bench.script.lock().unwrap();
    assert!(matches!(
        &script.unsettled[..],
        [(MessageId::FIRST, Ending::Failed { non_retryable: true, retry_after_ms: Some(7), .. })]
    ));
}

#[test]
fn a_delivery_of_an_earlier_tenure_that_comes_back_untried_is_not_handed_out_again() {
    let mut bench = Bench::new();
    bench.submit("1");
    bench.submit("2");
    bench.turn();
    let job = bench.job();
    bench.script.lock().unwrap().others_deliver = true;
    bench.script.lock().unwrap().has_work = true;
    bench.fail("append", FaultKind::Poisoned);
    bench.submit("3");
    bench.turn();
    bench.turn_after(FAULT_RETRY_DELAY);
    bench.not_tried(job, "registry locked");
    bench.turn();
    bench.script.lock().unwrap().others_deliver = false;
    bench.turn_after(FAULT_RETRY_DELAY);
    assert_eq!(bench.job().delivery.message.payload, b"2", "the files say what comes next");
}

#[test]
fn the_wait_ends_with_whatever_is_due_first() {
    let mut bench = Bench::new();
    bench.turn();
    let wait = |bench: &mut Bench| bench.owner.deadline().saturating_duration_since(Instant::now());
    assert!(wait(&mut bench) <= POLL_INTERVAL);
    let now = bench.owner.post.clock.boot();
    bench.owner.due.retry = Some(now);
    assert_eq!(wait(&mut bench), Duration::ZERO);
    bench.owner.due.start = now + POLL_INTERVAL;
    assert!(wait(&mut bench) > Duration::ZERO, "nothing may start yet");
    bench.owner.due.settle = Some(now);
    assert_eq!(wait(&mut bench), Duration::ZERO);
}
