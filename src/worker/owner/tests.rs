//! The owner loop, turn by turn (`bench`).

mod bench;

use self::bench::Bench;
use super::*;
use crate::base::RetryPolicy;
use crate::base::limits::{FAULT_RETRY_DELAY, PARK_AFTER, READ_AHEAD, SHORT_RUN};
use crate::queue::Ending;
use crate::worker::runner::{Done, End};

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

/// A bench whose runs are short, with so many messages, the first of which has ended.
fn reading_ahead(messages: usize) -> Bench {
    let mut bench = Bench::new();
    bench.took = SHORT_RUN;
    for n in 1..=messages {
        bench.submit(&n.to_string());
    }
    bench.turn();
    let job = bench.job();
    assert!(bench.next_job().is_none(), "nothing is known of the runs yet");
    bench.end(&job, End::Done(Done::Succeeded));
    bench.turn();
    bench
}

#[test]
fn short_runs_are_read_ahead_in_order_and_within_the_bound() {
    let bench = reading_ahead(100);
    let jobs: Vec<Job> = std::iter::from_fn(|| bench.next_job()).collect();
    assert_eq!(jobs.len(), 1 + READ_AHEAD);
    let payloads: Vec<_> =
        jobs.iter().map(|job| String::from_utf8_lossy(&job.delivery.message.payload)).collect();
    assert_eq!(payloads[..3], ["2", "3", "4"]);
}

#[test]
fn a_long_run_takes_back_what_was_read_ahead() {
    let mut bench = reading_ahead(5);
    let second = bench.job();
    bench.took = 5 * SHORT_RUN;
    bench.end(&second, End::Done(Done::Succeeded));
    bench.turn();
    assert_eq!(bench.job().delivery.message.payload, b"3");
    assert!(bench.next_job().is_none(), "one at a time again");
    let aside = bench.script.lock().unwrap().aside.len();
    assert_eq!(aside, 2, "4 and 5 are blamed for no crash");
}

#[test]
fn a_pause_takes_back_what_was_read_ahead() {
    let mut bench = reading_ahead(5);
    let _running = bench.job();
    bench.script.lock().unwrap().paused = true;
    bench.turn();
    assert!(bench.next_job().is_none());
    bench.script.lock().unwrap().paused = false;
    bench.turn();
    assert_eq!(bench.job().delivery.message.payload, b"3", "in their order, once it goes on");
    assert!(bench.script.lock().unwrap().aside.is_empty());
}

#[test]
fn nothing_is_read_ahead_while_a_crash_is_not_accounted_for() {
    let mut bench = Bench::new();
    bench.took = SHORT_RUN;
    bench.script.lock().unwrap().crashes = true;
    (1..=3).for_each(|n| bench.submit(&n.to_string()));
    bench.turn();
    let job = bench.job();
    bench.end(&job, End::Done(Done::Succeeded));
    bench.turn();
    assert_eq!(bench.job().delivery.message.payload, b"2");
    assert!(bench.next_job().is_none());
}
