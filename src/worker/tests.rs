//! Rosters, janitors and owners together, on real files, with the registry missing: nothing is ever
//! run here.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};

use crate::base::random::SystemRandom;
use crate::base::time::SystemClock;
use crate::base::{CorrelationId, QueueName};
use crate::disk::RealDisk;
use crate::flow::effect::HttpEgress;
use crate::journal::Journal;
use crate::queue::{self, Layout, Receipt};
use crate::worker::{Janitor, Limits, Refusal, Reply, Roster, Submission, Submit, Surroundings};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

type Outcome = Result<Receipt, Refusal>;

struct Answer(Sender<Outcome>);

impl Reply for Answer {
    fn answer(self: Box<Self>, outcome: Outcome) {
        self.0.send(outcome).unwrap();
    }
}

fn surroundings(dir: &Path, max_queues: usize) -> Arc<Surroundings> {
    Arc::new(Surroundings {
        disk: Arc::new(RealDisk::new(dir)),
        layout: Layout::new(dir),
        registry: dir.join("registry.db"),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        egress: HttpEgress::new(),
        journal: Arc::new(Journal::new(Arc::new(SystemClock))),
        limits: Limits { max_queues, max_waiting: 100, max_message_bytes: 1 << 20 },
    })
}

fn queue(flow: &str) -> QueueName {
    QueueName::parse("acme", flow).unwrap()
}

fn send(roster: &Roster, flow: &str) -> Receiver<Outcome> {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    let submission = Submission {
        payload: b"{}".to_vec(),
        correlation_id: CorrelationId::parse(b"trace").unwrap(),
    };
    roster.submit(&queue(flow), submission, Box::new(Answer(sender)));
    receiver
}

fn submit(roster: &Roster, flow: &str) -> Outcome {
    send(roster, flow).recv_timeout(PATIENCE).expect("an answer")
}

/// Gives other threads their time until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_submission_starts_its_queue_and_is_on_the_disk_when_it_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let around = surroundings(dir.path(), 8);
    let roster = Roster::new(Arc::clone(&around));
    let first = submit(&roster, "a").unwrap();
    let second = submit(&roster, "a").unwrap();
    assert_eq!((first.id.get(), first.offset, second.id.get()), (1, 0, 2));
    assert_eq!(roster.active_queues(), 1);
    roster.close().unwrap();
    assert!(queue::has_work(&*around.disk, &around.layout, &queue("a")).unwrap());
    let refusal = submit(&roster, "a").unwrap_err();
    assert_eq!(refusal, Refusal::Busy("the server is stopping".into()));
}

#[test]
fn one_queue_more_than_the_budget_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let around = surroundings(dir.path(), 1);
    let roster = Roster::new(Arc::clone(&around));
    submit(&roster, "a").unwrap();
    let refusal = submit(&roster, "b").unwrap_err();
    assert!(matches!(&refusal, Refusal::Busy(text) if text.contains("--max-queues")), "{refusal}");
    let dir_of_b = around.layout.queue(&queue("b")).dir;
    assert!(around.disk.identity(&dir_of_b).unwrap().is_none());
    assert!(roster.wake(&queue("b")).is_err());
    assert_eq!(roster.unplaced(), [queue("b")]);
    roster.close().unwrap();
}

#[test]
fn a_message_that_cannot_be_tried_is_named_as_a_problem_and_blocks_no_other_queue() {
    let dir = tempfile::tempdir().unwrap();
    let roster = Roster::new(surroundings(dir.path(), 8));
    submit(&roster, "a").unwrap();
    until("the registry is missing", || !roster.problems().is_empty());
    assert!(roster.problems()[0].starts_with("queue acme/a: "), "{:?}", roster.problems());
    submit(&roster, "b").unwrap();
    roster.quiesce(Instant::now());
    roster.close().unwrap();
}

#[test]
fn what_a_stopped_server_left_is_started_again_without_a_submission() {
    let dir = tempfile::tempdir().unwrap();
    let roster = Roster::new(surroundings(dir.path(), 8));
    for flow in ["a", "b", "c"] {
        submit(&roster, flow).unwrap();
    }
    roster.close().unwrap();
    until("every owner has ended", || roster.active_queues() == 0);

    let around = surroundings(dir.path(), 8);
    let roster = Roster::new(Arc::clone(&around));
    let janitor = Janitor::start(around, Arc::clone(&roster), true).unwrap();
    until("three queues have work", || roster.active_queues() == 3);
    janitor.stop();
    roster.close().unwrap();
}

#[test]
fn a_wake_line_of_another_process_starts_its_queue() {
    let dir = tempfile::tempdir().unwrap();
    let around = surroundings(dir.path(), 8);
    let roster = Roster::new(Arc::clone(&around));
    let janitor = Janitor::start(Arc::clone(&around), Arc::clone(&roster), false).unwrap();
    around.disk.create_dir_all(&around.layout.queues_dir()).unwrap();
    queue::write_wake(&*around.disk, &around.layout, &queue("a")).unwrap();
    until("the line is read", || roster.active_queues() == 1);
    janitor.stop();
    roster.close().unwrap();
}

#[test]
fn two_servers_on_one_queue_both_accept_and_never_give_an_id_twice() {
    let dir = tempfile::tempdir().unwrap();
    let one = Roster::new(surroundings(dir.path(), 8));
    let two = Roster::new(surroundings(dir.path(), 8));
    let answers: Vec<_> =
        (0..200).map(|n| send(if n % 2 == 0 { &one } else { &two }, "a")).collect();
    let mut ids: Vec<u64> = answers
        .into_iter()
        .map(|answer| answer.recv_timeout(PATIENCE).expect("an answer").unwrap().id.get())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=200).collect::<Vec<_>>());
    one.close().unwrap();
    two.close().unwrap();
}
