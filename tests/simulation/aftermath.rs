//! How a history ends: everything heals, what is left is worked off, and the oracle counts.

use nexus::disk::Open;

use crate::disk::Survival;
use crate::world::{COMMAND_LINE, PROCESSES, Server, World};

/// Steps after which a queue that is not worked off is in a loop.
const MAX_STEPS: u32 = 20_000;

/// Fruitless polls after which nothing more comes.
const IDLE_POLLS: u32 = 2;

/// What a recovery may leave otherwise than it found it.
const FILES: [&str; 6] = [
    "segment.log",
    "segment.log.ckpt",
    "segment.log.retry",
    "segment.log.seq",
    "dlq.log",
    "dlq.log.acked",
];

impl World {
    /// Tries out, on a copy, what becomes of everything from here.
    pub fn check(&mut self) {
        let mut copy = self.fork();
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| copy.finish()));
        if let Err(panic) = outcome {
            self.trace.append(&mut copy.trace);
            std::panic::resume_unwind(panic);
        }
    }

    /// Everything heals, and what is left is worked off; then the oracle counts.
    pub fn finish(&mut self) {
        self.note("finish".to_owned());
        self.stop_all();
        self.disk.heal();
        self.pause(false);
        self.recover_twice();
        self.work_off();
        let letters = self.dead_letters(COMMAND_LINE).expect("a sound disk");
        self.oracle.listed(&letters, true);
        self.oracle.count(&letters);
        let log = self.bytes("segment.log");
        assert!(log.is_empty() || self.oracle.damaged, "not drained");
    }

    pub fn stop_all(&mut self) {
        self.servers.iter_mut().for_each(|server| *server = Server::Down);
        for process in 0..PROCESSES {
            self.disk.kill(process);
            self.disk.revive(process);
        }
    }

    /// Recovering twice is recovering once.
    fn recover_twice(&mut self) {
        self.recover();
        let first: Vec<Vec<u8>> = FILES.iter().map(|file| self.bytes(file)).collect();
        self.cut_power(Survival::All);
        self.recover();
        for (file, before) in FILES.iter().zip(first) {
            assert!(self.bytes(file) == before, "{file} differs after a second recovery");
        }
    }

    /// Server 0 becomes the owner, which a sound disk cannot refuse.
    pub fn recover(&mut self) {
        self.ensure(0);
        let opened = matches!(self.servers[0], Server::Appends(_));
        assert!(opened, "a sound disk, and the queue cannot be opened");
        self.elect(0);
        assert_eq!(self.owner(), Some(0), "a sound disk, and the election is not won");
    }

    /// Everything is delivered and ended, until nothing is left.
    pub fn work_off(&mut self) {
        let mut idle = 0;
        for _ in 0..MAX_STEPS {
            self.start_one(0);
            assert!(matches!(self.servers[0], Server::Owns(..)), "poisoned on a sound disk");
            if self.flights(0) > 0 {
                idle = 0;
                self.end_some(0, 1);
                continue;
            }
            idle += 1;
            self.clock.pass(5000);
            self.poll();
            if idle > IDLE_POLLS {
                let Server::Owns(owner, _) = &self.servers[0] else { panic!("no owner") };
                assert!(owner.is_idle(), "work is left: {:?}", owner.counts());
                return;
            }
        }
        panic!("the queue is never worked off");
    }

    /// Pauses the queue, or lets it go on.
    pub fn pause(&mut self, paused: bool) {
        self.disk.revive(COMMAND_LINE);
        let path = self.layout.queue(&self.queue).paused;
        let disk = self.disk_of(COMMAND_LINE);
        // Without a directory there is nothing to pause, and a pause that fails is none.
        let done =
            if paused { disk.open(&path, Open::Create).map(|_| ()) } else { disk.remove(&path) };
        self.note(format!("paused {paused}: {done:?}"));
    }
}
