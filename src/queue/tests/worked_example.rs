//! The worked example of the document "Queues, retries and the DLQ": five attempts, four delays,
//! 16.5 seconds of retrying, then a dead letter. On a clock that the test moves.

use std::sync::Arc;
use std::time::Duration;

use crate::base::random::SeededRandom;
use crate::base::{CorrelationId, QueueName, RetryPolicy, Timestamp};
use crate::disk::{Disk, RealDisk};
use crate::queue::{
    Appender, Election, Ending, Layout, Moment, NewMessage, Owner, Reason, Settlement, Step,
    dead_letters,
};

const POLICY: RetryPolicy = RetryPolicy {
    max_attempts: 5,
    initial_delay_ms: 500,
    backoff_factor: 3.0,
    max_delay_ms: 10_000,
    jitter_factor: 0.0,
};

fn at(millis: u64) -> Moment {
    Moment {
        wall: Timestamp::from_millis(1_000_000).plus_millis(millis),
        boot: Duration::from_millis(50_000 + millis),
    }
}

fn owner(disk: &Arc<dyn Disk>, layout: &Layout, queue: &QueueName, now: Moment) -> Box<Owner> {
    let appender = Appender::open(Arc::clone(disk), layout, queue).unwrap();
    match Owner::elect(appender, now).unwrap() {
        Election::Won(owner) => owner,
        Election::Lost(_) => panic!("nobody else is there"),
    }
}

#[test]
fn five_attempts_with_the_delays_of_the_table_and_then_a_dead_letter() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir.path()));
    let layout = Layout::new(dir.path());
    let queue = QueueName::parse("acme", "forward-order").unwrap();
    let random = SeededRandom::new(1);
    let mut owner_now = owner(&disk, &layout, &queue, at(0));
    let message = NewMessage {
        payload: br#"{"orderId":"A-1"}"#.to_vec(),
        correlation_id: CorrelationId::parse(b"trace-1").unwrap(),
        origin: None,
    };
    owner_now.append(&[message], at(0).wall).unwrap();

    let mut now = 0;
    let mut delays = Vec::new();
    let last = loop {
        let Step::Deliver(delivery) = owner_now.next(at(now)).unwrap() else {
            panic!("nothing at {now} ms")
        };
        assert_eq!(delivery.attempt as usize, delays.len() + 1);
        assert_eq!(delivery.message.correlation_id.as_str(), "trace-1");
        let ending = Ending::Failed {
            error: "step 'forward': effect handler failed: HTTP 503".to_owned(),
            policy: POLICY,
            non_retryable: false,
            retry_after_ms: None,
        };
        let endings = vec![(delivery.message.id, ending)];
        let settled = owner_now.settle(endings, at(now), &random).unwrap().remove(0);
        let Settlement::Rescheduled { delay_ms, due_at, .. } = settled.what else {
            break settled.what;
        };
        assert_eq!(due_at, at(now + delay_ms).wall);
        let early = owner_now.next(at(now + delay_ms - 1)).unwrap();
        assert!(matches!(early, Step::Wait(Some(wait)) if wait == Duration::from_millis(1)));
        delays.push(delay_ms);
        if delays.len() == 3 {
            // A restart in the middle: the schedule is on the disk, with absolute times.
            drop(owner_now);
            owner_now = owner(&disk, &layout, &queue, at(now + 700));
        }
        now += delay_ms;
    };
    assert_eq!(delays, [500, 1500, 4500, 10_000]);
    assert_eq!(now, 16_500);
    let Settlement::DeadLettered { reason, .. } = last else { panic!("{last:?}") };
    assert_eq!(reason, Reason::MaxAttemptsExceeded);
    assert!(owner_now.poll(at(now)).unwrap(), "nothing is left: the queue is drained");

    let mut letters = Vec::new();
    dead_letters(disk.as_ref(), &layout, &queue, &mut |letter| letters.push(letter)).unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].attempts, 5);
    assert_eq!(letters[0].payload, br#"{"orderId":"A-1"}"#);
    assert_eq!(letters[0].failed_at, at(16_500).wall);
}
