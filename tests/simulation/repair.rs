//! A repair that dies in its middle, any number of times, with or without a power cut: the next one
//! finds a queue that can still be mended, and no sound message is lost on the way.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nexus::base::random::SeededRandom;
use nexus::base::{CorrelationId, QueueName, RetryPolicy, Timestamp};
use nexus::disk::{Disk, Open};
use nexus::queue::{
    Appender, Election, Ending, Layout, Moment, NewMessage, Owner, Step, discard, repair, verify,
};
use nexus::store::scan::{Item, Scanner};

use crate::disk::{Fate, SimDisk, Survival};

const SERVER: usize = 0;
const CLI: usize = 2;

/// A queue in the middle of its work.
struct Case {
    disk: SimDisk,
    random: Arc<SeededRandom>,
    layout: Layout,
    queue: QueueName,
    /// The ids that are still to be delivered.
    open: BTreeSet<u64>,
}

fn at(seconds: u64) -> Moment {
    let millis = i64::try_from(seconds * 1000).unwrap();
    Moment { wall: Timestamp::from_millis(millis), boot: Duration::from_secs(seconds) }
}

impl Case {
    fn new(seed: u64) -> Case {
        let random = Arc::new(SeededRandom::new(seed));
        let disk = SimDisk::new(Arc::clone(&random));
        let root = Path::new("/state");
        disk.create_dir_all(root).unwrap();
        disk.sync_dir(root).unwrap();
        let layout = Layout::new(root);
        let queue = QueueName::parse("acme", "a").unwrap();
        let mut case = Case { disk, random, layout, queue, open: BTreeSet::new() };
        case.work();
        case
    }

    fn roll(&self, n: usize) -> usize {
        (self.random.next_u64() % n as u64) as usize
    }

    fn disk_of(&self, process: usize) -> Arc<dyn Disk> {
        Arc::new(self.disk.of(process))
    }

    fn elect(&self) -> Box<Owner> {
        let disk = self.disk_of(SERVER);
        let appender = Appender::open(disk, &self.layout, &self.queue).unwrap();
        match Owner::elect(appender, at(1000)).unwrap() {
            Election::Won(owner) => owner,
            Election::Lost(_) => panic!("somebody else owns the queue"),
        }
    }

    /// Twelve messages, of which some have ended in each way.
    fn work(&mut self) {
        let mut owner = self.elect();
        let message = |n: usize| NewMessage {
            payload: format!("{{\"n\":{n},\"pad\":\"{}\"}}", "x".repeat(n * 37)).into_bytes(),
            correlation_id: CorrelationId::generate(self.random.as_ref()),
            origin: None,
        };
        let batch: Vec<NewMessage> = (0..12).map(message).collect();
        owner.append(&batch, at(1000).wall).unwrap();
        self.open = (1..=12).collect();
        for _ in 0..self.roll(12) {
            let Step::Deliver(delivery) = owner.next(at(1000)).unwrap() else { panic!() };
            let id = delivery.message.id;
            let non_retryable = self.roll(2) == 0;
            let ending = match self.roll(3) {
                0 => Ending::Acknowledge,
                _ => Ending::Failed {
                    error: "no".to_owned(),
                    policy: RetryPolicy::default(),
                    non_retryable,
                    retry_after_ms: Some(60_000),
                },
            };
            if non_retryable || matches!(ending, Ending::Acknowledge) {
                self.open.remove(&id.get());
            }
            let random = Arc::clone(&self.random);
            owner.settle(vec![(id, ending)], at(1000), random.as_ref()).unwrap();
        }
        owner.close(at(1001)).unwrap();
        for id in 1..=3 {
            // Not every one of them is a dead letter.
            let _ = discard(&self.disk_of(CLI), &self.layout, &self.queue, id);
        }
    }

    /// Damages a file at random; its bytes move only if they `may_move`.
    fn damage(&self, may_move: bool) {
        let files = [
            "segment.log",
            "segment.log",
            "segment.log.ckpt",
            "segment.log.retry",
            "segment.log.seq",
            "dlq.log",
            "dlq.log.acked",
        ];
        let path = self.layout.queue(&self.queue).dir.join(files[self.roll(files.len())]);
        let len = self.disk.bytes(&path).unwrap().len();
        if len == 0 {
            return;
        }
        let (place, kind) = (self.roll(len), self.roll(if may_move { 4 } else { 3 }));
        self.disk.tamper(&path, |bytes| match kind {
            0 => bytes[place] ^= 4,
            1 => bytes.truncate(place),
            2 => bytes[place..len.min(place + 50)].fill(0),
            _ => drop(bytes.splice(place..place, [7; 33])),
        });
    }

    /// The bodies of the sound frames of a file.
    fn sound(&self, file: &str) -> Vec<Vec<u8>> {
        let path = self.layout.queue(&self.queue).dir.join(file);
        let file = self.disk.of(1).open(&path, Open::Read).unwrap();
        let len = file.len().unwrap();
        let mut scanner = Scanner::default();
        let mut found = Vec::new();
        while let Some(item) = scanner.next(file.as_ref(), len).unwrap() {
            if let Item::Frame { frame, .. } = item {
                found.push(frame.body.to_vec());
            }
        }
        found
    }

    /// A repair that dies in one of its operations, unless it comes to its end before.
    fn die_in_a_repair(&self) {
        self.disk.plan(Some(CLI), self.roll(120) as u64, Fate::IsTheLast);
        let died = repair(&self.disk_of(CLI), &self.layout, &self.queue).is_err();
        self.disk.heal();
        if died && self.roll(2) == 0 {
            self.disk.cut_power(0..3, Survival::Any);
        }
        (0..3).for_each(|process| self.disk.revive(process));
    }

    fn mend(&self) {
        for _ in 0..self.roll(4) {
            self.die_in_a_repair();
        }
        repair(&self.disk_of(CLI), &self.layout, &self.queue).unwrap();
        let verified = verify(&self.disk_of(CLI), &self.layout, &self.queue);
        assert!(verified.findings.are_ok(), "{:#?}", verified.findings);
    }

    fn deliver_all(&self) -> BTreeSet<u64> {
        let mut owner = self.elect();
        let mut seen = BTreeSet::new();
        let mut now = at(9000);
        for _ in 0..3 {
            while let Step::Deliver(delivery) = owner.next(now).unwrap() {
                let id = delivery.message.id;
                seen.insert(id.get());
                let ended = vec![(id, Ending::Acknowledge)];
                owner.settle(ended, now, self.random.as_ref()).unwrap();
            }
            now = at(19_000);
        }
        seen
    }
}

fn id(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[..8].try_into().unwrap())
}

/// Those of the open messages that lie in the log.
fn due(case: &Case, messages: &[Vec<u8>]) -> BTreeSet<u64> {
    messages.iter().map(|body| id(body)).filter(|id| case.open.contains(id)).collect()
}

#[test]
fn a_repair_that_dies_at_any_moment_loses_nothing() {
    for seed in 0..2000 {
        let case = Case::new(seed);
        for _ in 0..=case.roll(3) {
            case.damage(true);
        }
        let (messages, letters) = (case.sound("segment.log"), case.sound("dlq.log"));
        case.mend();
        assert_eq!(case.sound("segment.log"), messages, "seed {seed}: messages");
        assert_eq!(case.sound("dlq.log"), letters, "seed {seed}: dead letters");
        let delivered = case.deliver_all();
        let lost: Vec<u64> = due(&case, &messages).difference(&delivered).copied().collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?} were never delivered");
    }
}

#[test]
fn a_server_may_follow_a_repair_that_died() {
    for seed in 0..4000 {
        let case = Case::new(seed);
        for _ in 0..=case.roll(3) {
            case.damage(false);
        }
        let messages = case.sound("segment.log");
        case.die_in_a_repair();
        let delivered = case.deliver_all();
        let lost: Vec<u64> = due(&case, &messages).difference(&delivered).copied().collect();
        assert!(lost.is_empty(), "seed {seed}: {lost:?} were never delivered");
    }
}
