//! Servers on one simulated disk, and what can be done with them. `submissions` adds the
//! clients, `command_line` the person at the shell, `workload` what is done at random, `aftermath`
//! how a history ends.

use std::path::Path;
use std::sync::Arc;

use nexus::base::random::SeededRandom;
use nexus::base::{QueueName, RetryPolicy};
use nexus::disk::Disk;
use nexus::queue::{
    Appender, Delivery, Election, Ending, FaultKind, Layout, Owner, QueueError, Report, Step,
};

use crate::clock::SimClock;
use crate::disk::{Process, Sabotage, SimDisk, Survival};
use crate::oracle::{MAX_ATTEMPTS, Oracle};

pub const SERVERS: Process = 2;
pub const COMMAND_LINE: Process = 2;
/// One more than the highest process.
pub const PROCESSES: Process = 3;

/// Settled bytes that are given back to the file system at once: about as many as two messages.
const RECLAIM_CHUNK: u64 = 1000;

/// Lines of a trace that are kept.
const MAX_TRACE: usize = 5000;

/// One server's view of the queue.
pub enum Server {
    Down,
    Appends(Box<Appender>),
    Owns(Box<Owner>, Vec<Delivery>),
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Succeeds,
    Fails,
    FailsForGood,
    Corrupt,
}

impl Outcome {
    fn ending(self) -> Ending {
        match self {
            Outcome::Succeeds => Ending::Acknowledge,
            Outcome::Corrupt => Ending::CorruptArtifact { error: "sum".to_owned() },
            failed => Ending::Failed {
                error: "HTTP 503".to_owned(),
                policy: RetryPolicy { max_attempts: MAX_ATTEMPTS, ..RetryPolicy::default() },
                non_retryable: failed == Outcome::FailsForGood,
                retry_after_ms: None,
            },
        }
    }
}

/// What differs from one history to another.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Of ten runs, how many fail.
    pub failing: u64,
    /// The most messages of a batch.
    pub batch: u64,
    /// The most bytes of padding in a payload, and one.
    pub padding: u64,
    /// Deliveries in flight at once.
    pub concurrency: usize,
}

impl Default for Habits {
    fn default() -> Habits {
        Habits { failing: 5, batch: 4, padding: 550, concurrency: 8 }
    }
}

pub struct World {
    pub disk: SimDisk,
    pub random: Arc<SeededRandom>,
    pub layout: Layout,
    pub queue: QueueName,
    pub servers: Vec<Server>,
    pub clock: SimClock,
    pub oracle: Oracle,
    pub habits: Habits,
    pub trace: Vec<String>,
    /// The ids that were handed out, in order.
    pub deliveries: Vec<u64>,
    /// What was called damaged.
    pub reports: Vec<Report>,
    /// The number of the next payload.
    pub next_payload: u64,
    /// Payloads whose senders do not know what became of them.
    pub unknown: Vec<Vec<u8>>,
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
            clock: SimClock::new(),
            oracle: Oracle::default(),
            habits: Habits::default(),
            trace: Vec::new(),
            deliveries: Vec::new(),
            reports: Vec::new(),
            next_payload: 0,
            unknown: Vec::new(),
        }
    }

    /// Another world with the same files, none of the processes, and a sound disk.
    pub fn fork(&self) -> World {
        let random = Arc::new(SeededRandom::new(self.random.next_u64()));
        World {
            disk: self.disk.fork(Arc::clone(&random)),
            random,
            layout: self.layout.clone(),
            queue: self.queue.clone(),
            servers: (0..SERVERS).map(|_| Server::Down).collect(),
            clock: self.clock.clone(),
            oracle: self.oracle.clone(),
            habits: self.habits,
            trace: Vec::new(),
            deliveries: Vec::new(),
            reports: Vec::new(),
            next_payload: self.next_payload,
            unknown: Vec::new(),
        }
    }

    pub fn roll(&self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    pub fn note(&mut self, line: String) {
        if self.trace.len() < MAX_TRACE {
            self.trace.push(line);
        }
    }

    pub fn disk_of(&self, process: Process) -> Arc<dyn Disk> {
        Arc::new(self.disk.of(process))
    }

    /// The bytes of one of the queue's files, by its name.
    pub fn bytes(&self, file: &str) -> Vec<u8> {
        self.disk.bytes(&self.layout.queue(&self.queue).dir.join(file)).unwrap_or_default()
    }

    /// Brings a server up as an appender.
    pub fn ensure(&mut self, server: Process) {
        if self.disk.is_dead(server) {
            self.servers[server] = Server::Down;
            self.disk.revive(server);
        }
        if matches!(self.servers[server], Server::Down) {
            match Appender::open(self.disk_of(server), &self.layout, &self.queue) {
                Ok(mut appender) => {
                    self.note(format!("server {server}: opened"));
                    self.reported(appender.take_reports());
                    self.servers[server] = Server::Appends(Box::new(appender));
                }
                Err(error) => self.note(format!("server {server}: cannot open: {error}")),
            }
        }
    }

    /// The server that owns the queue.
    pub fn owner(&self) -> Option<Process> {
        (0..SERVERS).find(|server| {
            !self.disk.is_dead(*server) && matches!(self.servers[*server], Server::Owns(..))
        })
    }

    pub fn flights(&self, server: Process) -> usize {
        match &self.servers[server] {
            Server::Owns(_, flights) => flights.len(),
            _ => 0,
        }
    }

    pub fn elect(&mut self, server: Process) {
        self.ensure(server);
        let taken = std::mem::replace(&mut self.servers[server], Server::Down);
        self.servers[server] = match taken {
            Server::Appends(appender) => match Owner::elect(*appender, self.clock.now()) {
                Ok(Election::Won(mut owner)) => {
                    owner.set_reclaim_chunk(RECLAIM_CHUNK);
                    self.elected(server, owner)
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

    fn elected(&mut self, server: Process, mut owner: Box<Owner>) -> Server {
        assert!(self.owner().is_none(), "two owners at once");
        let reports = owner.take_reports();
        self.note(format!("server {server}: elected, {reports:?}"));
        self.reported(reports);
        self.oracle.elected(self.clock.now());
        if let Some(letters) = self.dead_letters(server) {
            self.oracle.listed(&letters, true);
        }
        Server::Owns(owner, Vec::new())
    }

    /// The owner hands out one message, or ends one that it has handed out.
    pub fn work(&mut self) {
        let Some(server) = self.owner() else {
            let server = self.roll(SERVERS as u64) as Process;
            return self.elect(server);
        };
        let flights = self.flights(server);
        let full = flights >= self.habits.concurrency;
        if full || (flights > 0 && self.roll(3) < flights as u64) {
            let count = 1 + self.roll(2);
            self.end_some(server, count);
        } else {
            let _ = self.start_one(server);
        }
    }

    /// Hands out one message, or says that nothing is to be done; whether the owner is stalled.
    pub fn start_one(&mut self, server: Process) -> bool {
        let now = self.clock.now();
        let Server::Owns(owner, flights) = &mut self.servers[server] else { return false };
        match owner.next(now) {
            Ok(Step::Stalled) => return true,
            Ok(Step::Deliver(delivery)) => {
                flights.push(delivery.clone());
                let (id, attempt) = (delivery.message.id, delivery.attempt);
                self.note(format!("server {server}: delivers id {id} attempt {attempt}"));
                self.oracle.delivered(&delivery, now);
                self.deliveries.push(id.get());
            }
            Ok(Step::Settled(settled)) => self.oracle.settled(&settled, now),
            Ok(Step::Wait(wait)) => self.oracle.waits(wait, now),
            Ok(Step::Paused) => {}
            Err(error) => self.failed(server, "next", &error),
        }
        false
    }

    fn failed(&mut self, server: Process, what: &str, error: &QueueError) {
        self.note(format!("server {server}: {what} failed: {error}"));
        if error.kind == FaultKind::Poisoned {
            self.servers[server] = Server::Down;
        }
    }

    pub fn end_some(&mut self, server: Process, count: u64) {
        let mut endings = Vec::new();
        for _ in 0..count {
            let (pick, outcome) = (self.random.next_u64() as usize, self.outcome());
            let Server::Owns(_, flights) = &mut self.servers[server] else { return };
            if flights.is_empty() {
                break;
            }
            let delivery = flights.remove(pick % flights.len());
            endings.push((delivery, outcome));
        }
        self.end(server, endings);
    }

    fn outcome(&self) -> Outcome {
        if self.roll(10) >= self.habits.failing {
            return Outcome::Succeeds;
        }
        match self.roll(10) {
            0 => Outcome::Corrupt,
            1 => Outcome::FailsForGood,
            _ => Outcome::Fails,
        }
    }

    /// All that is in flight ends in one way.
    pub fn end_all(&mut self, server: Process, outcome: Outcome) {
        let Server::Owns(_, flights) = &mut self.servers[server] else { return };
        let endings = flights.drain(..).map(|delivery| (delivery, outcome)).collect();
        self.end(server, endings);
    }

    /// All that is in flight ends in one way, but what was handed out first.
    pub fn end_all_but_the_first(&mut self, server: Process, outcome: Outcome) {
        let Server::Owns(_, flights) = &mut self.servers[server] else { return };
        let endings = flights.drain(1..).map(|delivery| (delivery, outcome)).collect();
        self.end(server, endings);
    }

    fn end(&mut self, server: Process, ended: Vec<(Delivery, Outcome)>) {
        let mut endings = Vec::new();
        for (delivery, outcome) in ended {
            let ending = outcome.ending();
            self.note(format!("server {server}: id {} {outcome:?}", delivery.message.id));
            self.oracle.ends(&delivery, &ending);
            endings.push((delivery.message.id, ending));
        }
        let (now, random) = (self.clock.now(), Arc::clone(&self.random));
        let Server::Owns(owner, _) = &mut self.servers[server] else { return };
        match owner.settle(endings, now, random.as_ref()) {
            Ok(settled) => {
                for one in &settled {
                    self.note(format!("settled id {}: {:?}", one.message.id, one.what));
                }
                self.oracle.settled(&settled, now);
            }
            Err(error) => self.failed(server, "settle", &error),
        }
    }

    pub fn poll(&mut self) {
        let Some(server) = self.owner() else { return };
        let now = self.clock.now();
        let Server::Owns(owner, _) = &mut self.servers[server] else { return };
        match owner.poll(now) {
            Ok(true) => {
                self.note(format!("server {server}: drained"));
                self.oracle.checkpoint_synced(true);
                let schedule = self.bytes("segment.log.retry");
                assert!(schedule.is_empty(), "the schedule is not empty after a drain");
            }
            Ok(false) => {}
            Err(error) => self.failed(server, "poll", &error),
        }
        self.end(server, Vec::new());
        if let Server::Owns(owner, _) = &mut self.servers[server] {
            let reports = owner.take_reports();
            self.reported(reports);
        }
    }

    fn reported(&mut self, reports: Vec<Report>) {
        self.oracle.reported(&reports);
        self.reports.extend(reports);
    }

    pub fn sync_checkpoint(&mut self, force: bool) {
        let Some(server) = self.owner() else { return };
        let now = self.clock.now();
        let Server::Owns(owner, _) = &mut self.servers[server] else { return };
        let nothing_in_flight = owner.counts().in_flight == 0;
        let due = owner.checkpoint_due().is_some();
        match owner.sync_checkpoint(now, force) {
            Ok(()) if force && due => self.oracle.checkpoint_synced(nothing_in_flight),
            Ok(()) => {}
            Err(error) => self.failed(server, "sync of the checkpoint", &error),
        }
    }

    /// A delivery is not run for a while, and perhaps taken up again.
    pub fn set_aside(&mut self) {
        let again = self.roll(2) == 0;
        let Some(server) = self.owner() else { return };
        let Server::Owns(owner, flights) = &mut self.servers[server] else { return };
        let Some(delivery) = flights.last() else { return };
        owner.set_aside(delivery.message.id);
        if again {
            // A failure leaves it set aside, and it can be settled all the same.
            let _ = owner.take_up(delivery.message.id);
        }
    }

    pub fn close(&mut self) {
        let Some(server) = self.owner() else { return };
        let now = self.clock.now();
        if let Server::Owns(owner, _) = std::mem::replace(&mut self.servers[server], Server::Down) {
            self.note(format!("server {server}: closes"));
            // What could not be written is as after a kill.
            let _ = owner.close(now);
        }
    }

    pub fn kill(&mut self, server: Process) {
        self.note(format!("kill -9 server {server}"));
        self.disk.kill(server);
        self.servers[server] = Server::Down;
    }

    /// A process that died in the middle of something is noticed.
    pub fn bury(&mut self, process: Process) {
        if process < SERVERS {
            self.kill(process);
        } else {
            self.disk.revive(process);
        }
    }

    pub fn cut_power(&mut self, survival: Survival) {
        self.note(format!("power cut, of what was not synced survives: {survival:?}"));
        self.disk.cut_power(0..PROCESSES, survival);
        self.servers.iter_mut().for_each(|server| *server = Server::Down);
        (0..PROCESSES).for_each(|process| self.disk.revive(process));
        self.clock.restart();
        self.clock.pass(1000);
    }

    /// Some work in a row, so that queues empty now and then.
    pub fn drive(&mut self, rounds: u64) {
        for _ in 0..rounds {
            self.work();
            self.work();
            self.clock.pass(700);
            self.poll();
        }
    }
}
