//! What makes the files: the queue engine with fixed clocks and texts.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nexus::base::random::SeededRandom;
use nexus::base::{CorrelationId, QueueName, RetryPolicy, Timestamp};
use nexus::disk::{Disk, RealDisk};
use nexus::queue::{
    Appender, Delivery, Election, Ending, Layout, Moment, NewMessage, Owner, Step, discard, replay,
};

/// 2026-08-09T14:02:11.250Z, 0x0000019fe6ff3252 milliseconds.
const NOW: i64 = 1_786_284_131_250;

/// A state directory with one queue.
pub struct Life {
    dir: tempfile::TempDir,
    disk: Arc<dyn Disk>,
    layout: Layout,
    queue: QueueName,
    random: SeededRandom,
}

fn moment(after_ms: u64) -> Moment {
    let wall = Timestamp::from_millis(NOW).plus_millis(after_ms);
    Moment { wall, boot: Duration::from_millis(after_ms) }
}

impl Life {
    pub fn new() -> Life {
        let dir = tempfile::tempdir().unwrap();
        Life {
            disk: Arc::new(RealDisk::new(dir.path())),
            layout: Layout::new(dir.path()),
            queue: QueueName::parse("acme", "a").unwrap(),
            random: SeededRandom::new(1),
            dir,
        }
    }

    pub fn with_a_dead_letter() -> Life {
        let life = Life::new();
        life.append(&[(b"{}", "trace-1")]);
        life.end_one(moment(0), &|_| Ending::Failed {
            error: "HTTP 503".to_owned(),
            policy: RetryPolicy::default(),
            non_retryable: true,
            retry_after_ms: None,
        });
        life
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.layout.queue(&self.queue).dir.join(file)
    }

    pub fn put(&self, file: &str, bytes: &[u8]) {
        fs::create_dir_all(self.path("")).unwrap();
        fs::write(self.path(file), bytes).unwrap();
    }

    pub fn tear_the_log(&self, bytes: &[u8]) {
        let mut log = fs::read(self.path("segment.log")).unwrap();
        log.extend_from_slice(bytes);
        self.put("segment.log", &log);
    }

    pub fn append(&self, messages: &[(&[u8], &str)]) {
        let message = |(payload, correlation): &(&[u8], &str)| NewMessage {
            payload: payload.to_vec(),
            correlation_id: CorrelationId::parse(correlation.as_bytes()).unwrap(),
            origin: None,
        };
        let batch: Vec<NewMessage> = messages.iter().map(message).collect();
        self.appender().append(&batch, moment(0).wall).unwrap();
    }

    pub fn acknowledge_one(&self) {
        self.end_one(moment(5000), &|_| Ending::Acknowledge);
    }

    /// It is to be tried again after a second.
    pub fn fail_one(&self) {
        self.end_one(moment(0), &|_| Ending::Failed {
            error: "HTTP 503".to_owned(),
            policy: RetryPolicy { jitter_factor: 0.0, ..RetryPolicy::default() },
            non_retryable: false,
            retry_after_ms: None,
        });
    }

    pub fn crash_in_the_retry(&self) {
        let mut owner = self.elect(moment(5000));
        next(&mut owner, moment(5000));
        // Dropped, not closed: its slot stays full.
    }

    pub fn with_two_in_flight(&self) -> Box<Owner> {
        let mut owner = self.elect(moment(0));
        next(&mut owner, moment(0));
        next(&mut owner, moment(0));
        owner
    }

    pub fn replay(&self) {
        let now = moment(0).wall;
        replay(&self.disk, &self.layout, &self.queue, 1, now, &self.random).unwrap();
    }

    pub fn discard(&self) {
        discard(&self.disk, &self.layout, &self.queue, 1).unwrap();
    }

    /// Id, payload and correlation id of everything that is delivered.
    pub fn deliver_all(&self) -> Vec<(u64, Vec<u8>, String)> {
        let mut owner = self.elect(moment(0));
        let mut seen = Vec::new();
        while let Step::Deliver(Delivery { message, .. }) = owner.next(moment(0)).unwrap() {
            let correlation = message.correlation_id.as_str().to_owned();
            seen.push((message.id.get(), message.payload.clone(), correlation));
        }
        seen
    }

    fn end_one(&self, now: Moment, ending: &dyn Fn(&Delivery) -> Ending) {
        let mut owner = self.elect(now);
        let delivery = next(&mut owner, now);
        let ended = vec![(delivery.message.id, ending(&delivery))];
        owner.settle(ended, now, &self.random).unwrap();
        owner.close(now).unwrap();
    }

    fn appender(&self) -> Appender {
        assert!(self.dir.path().is_dir());
        Appender::open(Arc::clone(&self.disk), &self.layout, &self.queue).unwrap()
    }

    fn elect(&self, now: Moment) -> Box<Owner> {
        match Owner::elect(self.appender(), now).unwrap() {
            Election::Won(owner) => owner,
            Election::Lost(_) => panic!("somebody else owns the queue"),
        }
    }
}

fn next(owner: &mut Owner, now: Moment) -> Delivery {
    match owner.next(now).unwrap() {
        Step::Deliver(delivery) => delivery,
        other => panic!("nothing to deliver: {other:?}"),
    }
}
