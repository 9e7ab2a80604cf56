//! A queue with something of everything, made through the engine with fixed clocks.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::random::SeededRandom;
use crate::base::{CorrelationId, QueueName, RetryPolicy, Timestamp};
use crate::disk::{Disk, RealDisk};
use crate::queue::{
    Appender, Election, Ending, Layout, Moment, NewMessage, Owner, Step, Verified, discard, verify,
};

pub(super) struct Sample {
    _dir: tempfile::TempDir,
    pub disk: Arc<dyn Disk>,
    pub layout: Layout,
    pub queue: QueueName,
    pub random: SeededRandom,
}

/// A moment so many seconds after 1970, and after the start of the machine.
pub(super) fn at(seconds: u64) -> Moment {
    let millis = i64::try_from(seconds * 1000).unwrap();
    Moment { wall: Timestamp::from_millis(millis), boot: Duration::from_secs(seconds) }
}

impl Sample {
    /// No queue yet.
    pub(super) fn new() -> Sample {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir.path()));
        let layout = Layout::new(dir.path());
        let queue = QueueName::parse("acme", "a").unwrap();
        Sample { _dir: dir, disk, layout, queue, random: SeededRandom::new(1) }
    }

    /// Eight messages: 1 succeeded, 2 and 3 wait for their second attempt (due at 1060 s), 4 and 5
    /// are dead letters of which 4 is discarded, 6 succeeded, 7 and 8 have never been tried.
    pub(super) fn full() -> Sample {
        let sample = Sample::new();
        sample.append(8, at(1000));
        let mut owner = sample.elect(at(1000));
        for _ in 1..=6 {
            let Step::Deliver(delivery) = owner.next(at(1000)).unwrap() else { panic!() };
            let id = delivery.message.id;
            let failed = |non_retryable| Ending::Failed {
                error: format!("no {id}"),
                policy: RetryPolicy { initial_delay_ms: 60_000, ..RetryPolicy::default() },
                non_retryable,
                retry_after_ms: Some(60_000),
            };
            let ending = match id.get() {
                2 | 3 => failed(false),
                4 | 5 => failed(true),
                _ => Ending::Acknowledge,
            };
            owner.settle(vec![(id, ending)], at(1000), &sample.random).unwrap();
        }
        owner.close(at(1001)).unwrap();
        discard(&sample.disk, &sample.layout, &sample.queue, 4).unwrap();
        sample
    }

    pub(super) fn append(&self, count: usize, now: Moment) {
        let mut appender = self.appender();
        appender.append(&self.messages(count), now.wall).unwrap();
    }

    pub(super) fn appender(&self) -> Appender {
        Appender::open(Arc::clone(&self.disk), &self.layout, &self.queue).unwrap()
    }

    pub(super) fn messages(&self, count: usize) -> Vec<NewMessage> {
        let message = |n: usize| NewMessage {
            payload: format!("{{\"n\":{n}}}").into_bytes(),
            correlation_id: CorrelationId::generate(&self.random),
            origin: None,
        };
        (0..count).map(message).collect()
    }

    pub(super) fn elect(&self, now: Moment) -> Box<Owner> {
        match Owner::elect(self.appender(), now).unwrap() {
            Election::Won(owner) => owner,
            Election::Lost(_) => panic!("somebody else owns the queue"),
        }
    }

    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.layout.queue(&self.queue).dir.join(file)
    }

    pub(super) fn read(&self, file: &str) -> Vec<u8> {
        fs::read(self.path(file)).unwrap()
    }

    /// Changes a file's bytes.
    pub(super) fn change(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(file)).unwrap_or_default();
        change(&mut bytes);
        fs::write(self.path(file), bytes).unwrap();
    }

    pub(super) fn verify(&self) -> Verified {
        verify(&self.disk, &self.layout, &self.queue)
    }

    /// What is found, a line each; notes begin with `note`.
    pub(super) fn findings(&self) -> Vec<String> {
        let verified = self.verify();
        let line = |finding: &crate::queue::Finding| {
            let note = match finding.severity {
                crate::queue::Severity::Note => "note ",
                crate::queue::Severity::Fault => "",
            };
            let place = finding.place.map(|(at, len)| format!(" {at}+{len}")).unwrap_or_default();
            format!("{note}{}{place}: {}", finding.file, finding.text)
        };
        verified.findings.list.iter().map(line).collect()
    }
}
