//! What a look at a queue counts.

use super::sample::{Sample, at};
use crate::queue::{Overview, Step, Worker, inspect, overview, pause};

fn look(sample: &Sample, seconds: u64) -> Overview {
    overview(sample.disk.as_ref(), &sample.layout, &sample.queue, at(seconds).wall).unwrap()
}

#[test]
fn a_queue_that_is_not_there_holds_nothing_and_nothing_is_made() {
    let sample = Sample::new();
    let seen = look(&sample, 1000);
    assert_eq!((seen.total, seen.dead_letters, seen.worker), (0, 0, Worker::None));
    assert_eq!(seen.oldest_due_seconds(at(1000).wall), None);
    assert!(!sample.layout.queues_dir().exists());
}

#[test]
fn every_message_of_the_log_is_counted_where_it_stands() {
    let sample = Sample::full();
    let expected = Overview {
        waiting: 2,
        in_flight: 0,
        retrying: 2,
        dead_letters: 1,
        total: 8,
        processed: 4,
        oldest_due: Some(at(1000).wall),
        next_due: Some(at(1060).wall),
        paused: false,
        worker: Worker::None,
    };
    assert_eq!(look(&sample, 1030), expected);
    assert_eq!(expected.oldest_due_seconds(at(1030).wall), Some(30));
    pause(sample.disk.as_ref(), &sample.layout, &sample.queue).unwrap();
    assert!(look(&sample, 1030).paused);
}

#[test]
fn the_retries_are_listed_by_when_they_are_due_and_the_files_with_their_lengths() {
    let sample = Sample::full();
    let now = at(1030).wall;
    let seen = inspect(sample.disk.as_ref(), &sample.layout, &sample.queue, now, 1).unwrap();
    let retry = &seen.retries[0];
    assert_eq!((seen.retries.len(), retry.id.get(), retry.attempt), (1, 2, 2));
    assert_eq!((retry.due_at, retry.delay_ms), (at(1060).wall, 60_000));
    assert_eq!(seen.oldest.unwrap().id.get(), 2);
    let log = seen.files.iter().find(|(name, _)| name == "segment.log").unwrap();
    assert_eq!(log.1, sample.read("segment.log").len() as u64);
}

#[test]
fn a_retry_that_is_not_yet_due_is_not_the_oldest_that_is() {
    let sample = Sample::new();
    sample.append(1, at(1000));
    assert_eq!(look(&sample, 1005).oldest_due_seconds(at(1005).wall), Some(5));
    let sample = Sample::full();
    let mut owner = sample.elect(at(1050));
    for _ in 7..=8 {
        let Step::Deliver(delivery) = owner.next(at(1050)).unwrap() else { panic!() };
        let ending = crate::queue::Ending::Acknowledge;
        owner.settle(vec![(delivery.message.id, ending)], at(1050), &sample.random).unwrap();
    }
    assert_eq!(look(&sample, 1055).oldest_due, None);
    assert_eq!(look(&sample, 1065).oldest_due_seconds(at(1065).wall), Some(5));
}

#[test]
fn what_a_running_worker_has_in_flight_is_counted_and_its_process_named_where_that_is_told() {
    let sample = Sample::full();
    let mut owner = sample.elect(at(1030));
    let Step::Deliver(_) = owner.next(at(1030)).unwrap() else { panic!() };
    let seen = look(&sample, 1030);
    assert_eq!((seen.waiting, seen.in_flight, seen.retrying), (1, 1, 2));
    let this = Worker::Running(Some(std::process::id()));
    assert!([this, Worker::Running(None)].contains(&seen.worker), "{:?}", seen.worker);
    drop(owner);
    let seen = look(&sample, 1030);
    assert_eq!((seen.waiting, seen.in_flight, seen.worker), (2, 0, Worker::None));
}
