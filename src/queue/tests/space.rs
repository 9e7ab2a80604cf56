//! Giving space back, on a real file system.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use crate::base::random::SeededRandom;
use crate::base::{CorrelationId, QueueName, RetryPolicy, Timestamp};
use crate::disk::{Disk, RealDisk};
use crate::queue::{Appender, Election, Ending, Layout, Moment, NewMessage, Owner, Step};

const KIB: usize = 1 << 10;

struct Bench {
    dir: tempfile::TempDir,
    now: Moment,
    random: SeededRandom,
}

impl Bench {
    fn new() -> Bench {
        let now =
            Moment { wall: Timestamp::from_millis(1_000_000), boot: Duration::from_secs(1000) };
        Bench { dir: tempfile::tempdir().unwrap(), now, random: SeededRandom::new(1) }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.dir.path())
    }

    fn queue(&self) -> QueueName {
        QueueName::parse("acme", "a").unwrap()
    }

    fn owner(&self) -> Box<Owner> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(self.dir.path()));
        let appender = Appender::open(disk, &self.layout(), &self.queue()).unwrap();
        match Owner::elect(appender, self.now).unwrap() {
            Election::Won(owner) => owner,
            Election::Lost(_) => panic!("nobody else is there"),
        }
    }

    fn submit(&self, owner: &mut Owner, payload: Vec<u8>) {
        let correlation_id = CorrelationId::generate(&self.random);
        let message = NewMessage { payload, correlation_id, origin: None };
        owner.append(&[message], self.now.wall).unwrap();
    }

    /// Hands out the next message and ends it.
    fn end_next(&self, owner: &mut Owner, ending: Ending) -> Vec<u8> {
        let Step::Deliver(delivery) = owner.next(self.now).unwrap() else { panic!("nothing") };
        owner.settle(vec![(delivery.message.id, ending)], self.now, &self.random).unwrap();
        delivery.message.payload.clone()
    }

    fn used_bytes(&self) -> u64 {
        let segment = self.layout().queue(&self.queue()).segment;
        std::fs::metadata(segment).unwrap().blocks() * 512
    }
}

fn in_an_hour() -> Ending {
    let policy = RetryPolicy {
        initial_delay_ms: 3_600_000,
        max_delay_ms: 3_600_000,
        ..RetryPolicy::default()
    };
    let error = "HTTP 503".to_owned();
    Ending::Failed { error, policy, non_retryable: false, retry_after_ms: None }
}

#[test]
fn one_old_message_does_not_pin_what_is_settled_around_it() {
    let mut bench = Bench::new();
    let mut owner = bench.owner();
    let payload = |n: usize| format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(100 * KIB));
    for n in 0..80 {
        bench.submit(&mut owner, payload(n).into_bytes());
    }
    for n in 0..60 {
        let ending = if n == 20 { in_an_hour() } else { Ending::Acknowledge };
        bench.end_next(&mut owner, ending);
    }
    let before = bench.used_bytes();
    owner.poll(bench.now).unwrap();
    let after = bench.used_bytes();
    let live = 22 * 100 * KIB as u64;
    assert!(before > 80 * 100 * KIB as u64);
    assert!(after < live + 3 * (1 << 20), "{after} bytes are used for {live} that are needed");

    // Nothing else has changed, for this owner and for the next.
    assert_eq!(bench.end_next(&mut owner, Ending::Acknowledge), payload(60).into_bytes());
    assert!(owner.take_reports().is_empty());
    owner.close(bench.now).unwrap();
    let mut owner = bench.owner();
    assert_eq!(bench.end_next(&mut owner, Ending::Acknowledge), payload(61).into_bytes());
    bench.now.boot += Duration::from_secs(3600);
    let mut rest = Vec::new();
    for _ in 62..=80 {
        rest.push(bench.end_next(&mut owner, Ending::Acknowledge));
    }
    assert!(rest.contains(&payload(20).into_bytes()));
    assert!(rest.contains(&payload(79).into_bytes()));
    assert!(owner.take_reports().is_empty());
    assert!(owner.poll(bench.now).unwrap(), "and it drains as ever");
    assert_eq!(bench.used_bytes(), 0);
}
