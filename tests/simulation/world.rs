//! Servers and a command line on one simulated disk, driven by a seed, and the oracle that watches
//! them.
//!
//! What must hold whatever happened: a message that was acknowledged ends processed, dead-lettered
//! or handled by a person; no id names two messages; first deliveries are in order; what is
//! delivered is what was submitted; an attempt never exceeds the budget; a retry never comes before
//! its time; what was discarded never comes again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus::base::random::SeededRandom;
use nexus::base::{CorrelationId, MessageId, QueueName, RetryPolicy, Timestamp};
use nexus::disk::Disk;
use nexus::queue::{
    Appender, Delivery, Election, Ending, FaultKind, HandleError, Layout, Moment, NewMessage,
    Owner, QueueError, Receipt, Settled, Settlement, Step, dead_letters, discard, repair, replay,
    verify,
};

use crate::disk::{Faults, Process, Sabotage, SimDisk};

const SERVERS: Process = 2;
const CLI: Process = 2;
const MAX_ATTEMPTS: u32 = 3;

/// What the oracle knows of one id.
#[derive(Debug, Default, Clone)]
struct Known {
    payload: Option<Vec<u8>>,
    acknowledged: bool,
    /// Reported to the engine as processed, seen in the dead-letter queue, or handled.
    ended: bool,
    delivered: bool,
    discarded: bool,
    /// Acknowledged to the engine, and how far that went.
    acknowledgement: Acknowledgement,
    /// Set when a retry is known to be on the disk: not before this time, and which attempt.
    due: Option<(Timestamp, u32)>,
}

/// How far the acknowledgement of a delivery went. One that is synced is never undone.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Acknowledgement {
    #[default]
    None,
    Settled,
    Synced,
}

/// One server's view of the queue.
enum Server {
    Down,
    Appends(Box<Appender>),
    Owns(Box<Owner>, Vec<Delivery>),
}

pub struct World {
    pub disk: SimDisk,
    random: Arc<SeededRandom>,
    layout: Layout,
    queue: QueueName,
    servers: Vec<Server>,
    now: Moment,
    next_payload: u64,
    quiet: bool,
    ids: BTreeMap<MessageId, Known>,
    highest_first_delivery: Option<MessageId>,
    unknown: Vec<Vec<u8>>,
    pub trace: Vec<String>,
    /// Whether files were damaged on purpose: then a message may be lost, but never altered.
    damaged: bool,
}

impl World {
    pub fn new(seed: u64, sabotage: Sabotage) -> World {
        let random = Arc::new(SeededRandom::new(seed));
        let disk = SimDisk::new(Arc::clone(&random));
        disk.set_sabotage(sabotage);
        let root = Path::new("/state");
        disk.create_dir_all(root).unwrap();
        disk.sync_dir(root).unwrap();
        World {
            disk,
            random,
            layout: Layout::new(root),
            queue: QueueName::parse("acme", "forward-order").unwrap(),
            servers: (0..SERVERS).map(|_| Server::Down).collect(),
            now: Moment {
                wall: Timestamp::from_millis(1_000_000_000_000),
                boot: Duration::from_secs(100),
            },
            next_payload: 0,
            quiet: !seed.is_multiple_of(3),
            ids: BTreeMap::new(),
            highest_first_delivery: None,
            unknown: Vec::new(),
            trace: Vec::new(),
            damaged: false,
        }
    }

    fn roll(&self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn note(&mut self, line: String) {
        if self.trace.len() < 5000 {
            self.trace.push(line);
        }
    }

    fn disk_of(&self, process: Process) -> Arc<dyn Disk> {
        Arc::new(self.disk.of(process))
    }

    /// One random event. Some worlds are busy, in others the queue is empty most of the time.
    pub fn step(&mut self) {
        if self.quiet && self.roll(3) > 0 {
            return self.drive(2);
        }
        match self.roll(100) {
            0..=26 => self.submit(),
            27..=29 => self.two_at_once(),
            30..=59 => self.work(),
            60..=66 => self.poll(),
            67..=70 => self.advance(),
            71..=74 => self.elect(),
            75..=78 => self.handle_one(),
            79..=80 => self.toggle_faults(),
            81..=84 => self.doom(),
            85..=86 => self.kill(),
            87..=88 => self.cut_power(),
            89..=90 => self.close(),
            91..=93 => self.sync_checkpoint(),
            94 => self.set_aside(),
            95 => self.mend(),
            _ => self.drive(3),
        }
    }

    fn pick_server(&mut self) -> Process {
        let server = self.roll(SERVERS as u64) as Process;
        self.ensure(server);
        server
    }

    /// Brings a server up as an appender.
    fn ensure(&mut self, server: Process) {
        if self.disk.is_dead(server) {
            self.servers[server] = Server::Down;
            self.disk.revive(server);
        }
        if matches!(self.servers[server], Server::Down) {
            match Appender::open(self.disk_of(server), &self.layout, &self.queue) {
                Ok(appender) => {
                    self.note(format!("server {server}: opened"));
                    self.servers[server] = Server::Appends(Box::new(appender));
                }
                Err(error) => self.note(format!("server {server}: cannot open: {error}")),
            }
        }
    }

    fn submit(&mut self) {
        let server = self.pick_server();
        let batch = self.new_batch();
        let now = self.now.wall;
        let result = match &mut self.servers[server] {
            Server::Down => return,
            Server::Appends(appender) => appender.append(&batch, now),
            Server::Owns(owner, _) => owner.append(&batch, now),
        };
        self.submitted(server, batch, result);
    }

    /// The other server appends in the middle of what the owner does.
    fn two_at_once(&mut self) {
        let Some(owner) = self.owner() else { return self.elect() };
        let other = 1 - owner;
        self.ensure(other);
        let taken = std::mem::replace(&mut self.servers[other], Server::Down);
        let Server::Appends(mut appender) = taken else {
            self.servers[other] = taken;
            return;
        };
        let batch = self.new_batch();
        let (now, sent) = (self.now.wall, batch.clone());
        let done = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&done);
        let append = move || {
            let result = appender.append(&sent, now);
            *slot.lock().unwrap() = Some((appender, result));
        };
        self.note(format!("server {other} appends while server {owner} goes on"));
        self.disk.intrude(owner, self.roll(40), Box::new(append));
        self.drive(1);
        if let Some(late) = self.disk.take_intruder() {
            late();
        }
        let (appender, result) = done.lock().unwrap().take().unwrap();
        if !self.disk.is_dead(other) {
            self.servers[other] = Server::Appends(appender);
        }
        self.submitted(other, batch, result);
    }

    fn new_batch(&mut self) -> Vec<NewMessage> {
        let count = 1 + self.roll(4);
        let mut batch = Vec::new();
        for _ in 0..count {
            // A client that saw no 202 sends the same body again.
            let payload = match self.unknown.pop() {
                Some(again) if self.roll(2) == 0 => again,
                _ => {
                    self.next_payload += 1;
                    let pad = "x".repeat(self.roll(900) as usize);
                    format!("{{\"n\":{},\"pad\":\"{pad}\"}}", self.next_payload).into_bytes()
                }
            };
            let correlation_id = CorrelationId::generate(self.random.as_ref());
            batch.push(NewMessage { payload, correlation_id, origin: None });
        }
        batch
    }

    fn submitted(
        &mut self,
        server: Process,
        batch: Vec<NewMessage>,
        result: Result<Vec<Receipt>, QueueError>,
    ) {
        match result {
            Ok(receipts) => {
                for (receipt, message) in receipts.iter().zip(batch) {
                    self.note(format!(
                        "server {server}: 202 id {} offset {}",
                        receipt.id, receipt.offset
                    ));
                    self.learn(receipt.id, message.payload);
                    self.ids.get_mut(&receipt.id).unwrap().acknowledged = true;
                }
            }
            Err(error) => {
                self.note(format!("server {server}: append failed: {error}"));
                self.unknown.extend(batch.into_iter().map(|message| message.payload));
                if error.kind == nexus::queue::FaultKind::Poisoned {
                    self.servers[server] = Server::Down;
                }
            }
        }
    }

    /// An id and its payload were seen together: they stay together.
    fn learn(&mut self, id: MessageId, payload: Vec<u8>) {
        let known = self.ids.entry(id).or_default();
        match &known.payload {
            Some(before) => assert_eq!(
                String::from_utf8_lossy(before),
                String::from_utf8_lossy(&payload),
                "id {id} names two messages, or a message was altered"
            ),
            None => known.payload = Some(payload),
        }
    }

    fn owner(&mut self) -> Option<Process> {
        (0..SERVERS).find(|server| {
            !self.disk.is_dead(*server) && matches!(self.servers[*server], Server::Owns(..))
        })
    }

    fn elect(&mut self) {
        let server = self.pick_server();
        let taken = std::mem::replace(&mut self.servers[server], Server::Down);
        self.servers[server] = match taken {
            Server::Appends(appender) => match Owner::elect(*appender, self.now) {
                Ok(Election::Won(mut owner)) => {
                    owner.set_reclaim_chunk(1000);
                    assert!(self.owner().is_none(), "two owners at once");
                    self.note(format!("server {server}: elected"));
                    self.unsynced_acknowledgements_are_void();
                    Server::Owns(owner, Vec::new())
                }
                Ok(Election::Lost(appender)) => Server::Appends(appender),
                Err(error) => {
                    self.note(format!("server {server}: election failed: {error}"));
                    Server::Down
                }
            },
            other => other,
        };
    }

    /// The owner hands out one message, or ends one that it has handed out.
    fn work(&mut self) {
        let Some(server) = self.owner() else { return self.elect() };
        let in_flight = match &self.servers[server] {
            Server::Owns(_, flights) => flights.len() as u64,
            _ => 0,
        };
        if in_flight > 0 && self.roll(3) < in_flight {
            self.end_some(server);
        } else {
            self.start_one(server);
        }
    }

    fn start_one(&mut self, server: Process) {
        let now = self.now;
        let Server::Owns(owner, _) = &mut self.servers[server] else { return };
        match owner.next(now) {
            Ok(Step::Deliver(delivery)) => self.delivered(server, delivery),
            Ok(Step::Settled(settled)) => self.settled(&settled),
            Ok(_) => {}
            Err(error) => self.failed(server, "next", &error),
        }
    }

    fn failed(&mut self, server: Process, what: &str, error: &QueueError) {
        self.note(format!("server {server}: {what} failed: {error}"));
        if error.kind == nexus::queue::FaultKind::Poisoned {
            self.servers[server] = Server::Down;
        }
    }

    fn delivered(&mut self, server: Process, delivery: Delivery) {
        let message = &delivery.message;
        self.note(format!(
            "server {server}: delivers id {} attempt {}",
            message.id, delivery.attempt
        ));
        let id = message.id;
        self.learn(id, message.payload.clone());
        assert!(delivery.attempt <= MAX_ATTEMPTS, "attempt {} of id {id}", delivery.attempt);
        let (damaged, wall) = (self.damaged, self.now.wall);
        let known = self.ids.get_mut(&id).unwrap();
        assert!(!known.discarded || damaged, "id {id} was discarded and comes again");
        assert!(
            known.acknowledgement != Acknowledgement::Synced || damaged,
            "id {id} was acknowledged on the disk and comes again"
        );
        if let Some((due, attempt)) = known.due
            && !damaged
        {
            assert!(wall >= due, "the retry of id {id} comes before its time");
            assert!(delivery.attempt >= attempt, "the retry of id {id} forgot its attempts");
        }
        if !known.delivered {
            known.delivered = true;
            if self.highest_first_delivery.is_some_and(|highest| id <= highest) && !damaged {
                panic!("id {id} is delivered for the first time behind a later one");
            }
            self.highest_first_delivery = self.highest_first_delivery.max(Some(id));
        }
        if let Server::Owns(_, flights) = &mut self.servers[server] {
            flights.push(delivery);
        }
    }

    fn end_some(&mut self, server: Process) {
        let count = 1 + self.roll(2);
        let mut endings = Vec::new();
        for _ in 0..count {
            let pick = self.random.next_u64() as usize;
            let Server::Owns(_, flights) = &mut self.servers[server] else { return };
            if flights.is_empty() {
                break;
            }
            let delivery = flights.remove(pick % flights.len());
            let id = delivery.message.id;
            let ending = self.ending();
            if matches!(ending, Ending::Acknowledge) {
                // Its effect has happened, whatever becomes of the acknowledgement.
                self.ids.get_mut(&id).unwrap().ended = true;
            }
            self.note(format!("server {server}: id {id} ends {ending:?}"));
            endings.push((id, ending));
        }
        self.settle(server, endings);
    }

    fn ending(&self) -> Ending {
        match self.roll(10) {
            0..=4 => Ending::Acknowledge,
            5 => Ending::CorruptArtifact { error: "sum".to_owned() },
            kind => Ending::Failed {
                error: "HTTP 503".to_owned(),
                policy: RetryPolicy { max_attempts: MAX_ATTEMPTS, ..RetryPolicy::default() },
                non_retryable: kind == 6,
                retry_after_ms: None,
            },
        }
    }

    fn settle(&mut self, server: Process, endings: Vec<(MessageId, Ending)>) {
        let (now, random) = (self.now, Arc::clone(&self.random));
        let Server::Owns(owner, _) = &mut self.servers[server] else { return };
        match owner.settle(endings, now, random.as_ref()) {
            Ok(settled) => self.settled(&settled),
            Err(error) => self.failed(server, "settle", &error),
        }
    }

    fn settled(&mut self, settled: &[Settled]) {
        for one in settled {
            let id = one.message.id;
            self.note(format!("settled id {id}: {:?}", one.what));
            let known = self.ids.entry(id).or_default();
            match &one.what {
                Settlement::Acknowledged => {
                    known.due = None;
                    known.acknowledgement = Acknowledgement::Settled;
                }
                Settlement::Rescheduled { next_attempt, due_at, .. } => {
                    known.due = Some((*due_at, *next_attempt));
                }
                Settlement::DeadLettered { .. } => {
                    known.due = None;
                    known.ended = true;
                }
            }
        }
    }

    fn poll(&mut self) {
        let Some(server) = self.owner() else { return self.elect() };
        let now = self.now;
        let Server::Owns(owner, _) = &mut self.servers[server] else { return };
        match owner.poll(now) {
            Ok(true) => {
                self.note(format!("server {server}: drained"));
                self.acknowledgements_are_synced();
            }
            Ok(false) => {}
            Err(error) => self.failed(server, "poll", &error),
        }
        self.settle(server, Vec::new());
    }

    fn sync_checkpoint(&mut self) {
        let Some(server) = self.owner() else { return };
        let (now, force) = (self.now, self.roll(2) == 0);
        let Server::Owns(owner, flights) = &mut self.servers[server] else { return };
        let nothing_in_flight = flights.is_empty() && owner.counts().in_flight == 0;
        match owner.sync_checkpoint(now, force) {
            Ok(()) if force && nothing_in_flight => self.acknowledgements_are_synced(),
            Ok(()) => {}
            Err(error) => self.failed(server, "sync of the checkpoint", &error),
        }
    }

    /// What the last owner had acknowledged and not synced may come again.
    fn unsynced_acknowledgements_are_void(&mut self) {
        for known in self.ids.values_mut() {
            if known.acknowledgement == Acknowledgement::Settled {
                known.acknowledgement = Acknowledgement::None;
            }
        }
    }

    fn acknowledgements_are_synced(&mut self) {
        for known in self.ids.values_mut() {
            if known.acknowledgement == Acknowledgement::Settled {
                known.acknowledgement = Acknowledgement::Synced;
            }
        }
    }

    fn set_aside(&mut self) {
        let Some(server) = self.owner() else { return };
        let Server::Owns(owner, flights) = &mut self.servers[server] else { return };
        if let Some(delivery) = flights.last() {
            owner.set_aside(delivery.message.id);
            // A failure leaves it set aside, and it can be settled all the same.
            let _ = owner.take_up(delivery.message.id);
        }
    }

    fn advance(&mut self) {
        let millis = [10, 500, 1500, 5000][self.roll(4) as usize];
        self.pass(millis);
    }

    fn pass(&mut self, millis: u64) {
        self.now.boot += Duration::from_millis(millis);
        self.now.wall = self.now.wall.plus_millis(millis);
    }

    /// The command line replays or discards a dead letter.
    fn handle_one(&mut self) {
        self.disk.revive(CLI);
        let disk = self.disk_of(CLI);
        let mut ids = Vec::new();
        let listed = dead_letters(disk.as_ref(), &self.layout, &self.queue, &mut |letter| {
            ids.push((letter.id, letter.payload));
        });
        if listed.is_err() || ids.is_empty() {
            return;
        }
        let (id, payload) = ids.swap_remove(self.roll(ids.len() as u64) as usize);
        self.learn(id, payload.clone());
        self.ids.get_mut(&id).unwrap().ended = true;
        if self.roll(2) == 0 {
            match discard(&disk, &self.layout, &self.queue, id.get()) {
                Ok(()) => {
                    self.note(format!("cli: discarded {id}"));
                    self.ids.get_mut(&id).unwrap().discarded = true;
                }
                Err(error) => self.note(format!("cli: discard {id}: {error}")),
            }
            return;
        }
        let wall = self.now.wall;
        let result = replay(&disk, &self.layout, &self.queue, id.get(), wall, self.random.as_ref());
        match result {
            Ok(receipt) => {
                self.note(format!("cli: replayed {id} as {}", receipt.id));
                self.learn(receipt.id, payload);
                self.ids.get_mut(&receipt.id).unwrap().acknowledged = true;
                let again = discard(&disk, &self.layout, &self.queue, id.get());
                assert!(
                    matches!(
                        again,
                        Err(HandleError::AlreadyHandled { .. }
                            | HandleError::NotFound { .. }
                            | HandleError::Queue(_))
                    ),
                    "id {id} was handled twice"
                );
            }
            Err(error) => self.note(format!("cli: replay {id}: {error}")),
        }
    }

    /// The command line mends the queue, if no server delivers it.
    fn mend(&mut self) {
        self.disk.revive(CLI);
        let disk = self.disk_of(CLI);
        let mended = repair(&disk, &self.layout, &self.queue);
        self.note(format!("cli: repair: {mended:?}"));
        let untouched = match &mended {
            Ok(mended) => mended.is_empty(),
            Err(error) => error.kind == FaultKind::Locked,
        };
        if untouched {
            return;
        }
        // Nothing is lost by it; but what was settled in files that had to be mended, or in the
        // middle of a repair that did not come to its end, may come again from the start.
        for known in self.ids.values_mut() {
            known.acknowledgement = Acknowledgement::None;
            known.due = None;
        }
    }

    fn toggle_faults(&mut self) {
        let faults = match self.roll(4) {
            0 => Faults { errors_one_in: 40 + self.roll(300), full: false },
            1 => Faults { errors_one_in: 0, full: true },
            _ => Faults::default(),
        };
        self.note(format!("{faults:?}"));
        self.disk.set_faults(faults);
    }

    fn doom(&mut self) {
        let process = self.roll(SERVERS as u64 + 1) as Process;
        let operations = self.roll(60);
        self.note(format!("process {process} dies in {operations} operations"));
        self.disk.doom(process, operations);
    }

    fn kill(&mut self) {
        let server = self.roll(SERVERS as u64) as Process;
        self.note(format!("kill -9 server {server}"));
        self.disk.kill(server);
        self.servers[server] = Server::Down;
    }

    fn cut_power(&mut self) {
        self.note("power cut".to_owned());
        self.disk.cut_power(0..SERVERS + 1);
        self.servers.iter_mut().for_each(|server| *server = Server::Down);
        (0..=SERVERS).for_each(|process| self.disk.revive(process));
        self.now.boot = Duration::from_secs(5);
        self.pass(1000);
    }

    fn close(&mut self) {
        let Some(server) = self.owner() else { return };
        let now = self.now;
        if let Server::Owns(owner, _) = std::mem::replace(&mut self.servers[server], Server::Down) {
            self.note(format!("server {server}: closes"));
            let _ = owner.close(now);
        }
    }

    /// Some work in a row, so that queues empty now and then.
    fn drive(&mut self, rounds: u64) {
        for _ in 0..rounds {
            self.work();
            self.work();
            self.pass(700);
            self.poll();
        }
    }

    pub fn damage(&mut self, file: &str, change: impl Fn(&mut Vec<u8>)) {
        self.damaged = true;
        let path = self.layout.queue(&self.queue).dir.join(file);
        self.disk.tamper(&path, change);
    }

    /// Everything heals, and what is left is worked off; then the oracle counts.
    pub fn finish(&mut self) {
        self.disk.set_faults(Faults::default());
        self.note("finish".to_owned());
        for process in 0..=SERVERS {
            self.disk.kill(process);
            self.disk.revive(process);
        }
        self.servers.iter_mut().for_each(|server| *server = Server::Down);
        self.disk.doom(99, 0);
        if self.roll(2) == 0 {
            self.mend();
            self.must_verify();
        }
        self.ensure(0);
        let Server::Appends(appender) = std::mem::replace(&mut self.servers[0], Server::Down)
        else {
            panic!("a sound disk, and the queue cannot be opened");
        };
        let Ok(Election::Won(owner)) = Owner::elect(*appender, self.now) else {
            panic!("a sound disk, and nobody else, and the election is not won");
        };
        self.servers[0] = Server::Owns(owner, Vec::new());
        let mut idle = 0;
        for _ in 0..20_000 {
            self.start_one(0);
            let Server::Owns(_, flights) = &self.servers[0] else { panic!("poisoned at the end") };
            if flights.is_empty() {
                idle += 1;
                self.pass(5000);
                self.poll();
            } else {
                idle = 0;
                self.end_some(0);
            }
            if idle > 5 {
                break;
            }
        }
        self.count();
    }

    /// On a sound disk nothing is found in a queue that has just been mended.
    fn must_verify(&self) {
        let verified = verify(&self.disk_of(CLI), &self.layout, &self.queue);
        assert!(verified.findings.are_ok(), "{:#?}", verified.findings);
    }

    fn count(&mut self) {
        let Server::Owns(owner, _) = &self.servers[0] else { panic!("no owner at the end") };
        let counts = owner.counts();
        assert!(owner.is_idle(), "work is left: {counts:?}");
        let mut dead = HashMap::new();
        let disk = self.disk_of(CLI);
        dead_letters(disk.as_ref(), &self.layout, &self.queue, &mut |letter| {
            dead.insert(letter.id, letter.payload);
        })
        .unwrap();
        for (id, payload) in &dead {
            let known = self.ids.get(id);
            assert!(
                known.and_then(|known| known.payload.as_ref()).is_none_or(|p| p == payload),
                "the dead letter {id} was altered"
            );
            assert!(
                known.is_none_or(|known| !known.discarded) || self.damaged,
                "{id} was discarded and is listed again"
            );
        }
        if self.damaged {
            return;
        }
        for (id, known) in &self.ids {
            assert!(
                !known.acknowledged || known.ended || dead.contains_key(id),
                "id {id} was acknowledged and is lost: {known:?}"
            );
        }
        let log = self.layout.queue(&self.queue).segment;
        assert_eq!(self.disk.bytes(&log).map(|bytes| bytes.len()), Some(0), "not drained");
    }
}
