//! What is done at random. Each seed has one kind of history: which acts are frequent in it, and
//! how its flows and clients behave.

use crate::command_line::Handling;
use crate::disk::{Fate, Faults, Process, Survival};
use crate::world::{COMMAND_LINE, Habits, SERVERS, World};

/// Acts of one history.
const STEPS: u64 = 100;

#[derive(Debug, Clone, Copy)]
enum Act {
    Submit,
    SubmitInBetween,
    Work,
    Drive,
    Poll,
    Advance,
    StepClock,
    Elect,
    Handle,
    HandleInBetween,
    ChangeFaults,
    Doom,
    Kill,
    CutPower,
    Close,
    SyncCheckpoint,
    SetAside,
    Pause,
}

/// What every history has of everything.
const COMMON: &[(Act, u64)] = &[
    (Act::Submit, 24),
    (Act::SubmitInBetween, 3),
    (Act::Work, 28),
    (Act::Drive, 8),
    (Act::Poll, 6),
    (Act::Advance, 4),
    (Act::StepClock, 1),
    (Act::Elect, 3),
    (Act::Handle, 4),
    (Act::HandleInBetween, 2),
    (Act::ChangeFaults, 2),
    (Act::Doom, 4),
    (Act::Kill, 2),
    (Act::CutPower, 2),
    (Act::Close, 2),
    (Act::SyncCheckpoint, 3),
    (Act::SetAside, 1),
    (Act::Pause, 1),
];

/// Files whose syncs fail in some histories.
const FILES: [&str; 6] = [
    "segment.log",
    "segment.log.ckpt",
    "segment.log.retry",
    "segment.log.seq",
    "dlq.log",
    "dlq.log.acked",
];

/// A kind of history.
struct Kind {
    habits: Habits,
    /// What it has more of.
    more: &'static [(Act, u64)],
    /// The file whose syncs fail.
    failing_sync_of: Option<&'static str>,
}

fn kind_of(seed: u64) -> Kind {
    let usual = Habits::default();
    let kind = |habits, more| Kind { habits, more, failing_sync_of: None };
    match seed % 8 {
        0 => kind(usual, &[]),
        // Nearly empty: drained again and again.
        1 => kind(Habits { concurrency: 1, ..usual }, &[(Act::Drive, 250)]),
        2 => kind(
            Habits { concurrency: 1 + (seed / 8 % 3) as usize, ..usual },
            &[(Act::Drive, 200), (Act::CutPower, 30), (Act::ChangeFaults, 8)],
        ),
        // Most fail, so that the schedule grows and is compacted.
        3 => kind(
            Habits { failing: 9, batch: 24, padding: 10, concurrency: 64 },
            &[(Act::Drive, 60), (Act::Work, 150), (Act::Advance, 10), (Act::SyncCheckpoint, 8)],
        ),
        4 => Kind {
            habits: usual,
            more: &[(Act::Drive, 120), (Act::CutPower, 8), (Act::SyncCheckpoint, 20)],
            failing_sync_of: Some(FILES[(seed / 8) as usize % FILES.len()]),
        },
        // Much is dead-lettered and handled, replays of replays among it.
        5 => kind(
            Habits { failing: 8, batch: 2, ..usual },
            &[(Act::Drive, 150), (Act::Handle, 60), (Act::HandleInBetween, 60)],
        ),
        // Two servers at once, and elections.
        6 => kind(
            Habits { failing: 3, ..usual },
            &[(Act::SubmitInBetween, 60), (Act::Kill, 20), (Act::Doom, 20), (Act::Elect, 20)],
        ),
        // Faults all the time.
        _ => kind(usual, &[(Act::Drive, 80), (Act::ChangeFaults, 30), (Act::Poll, 20)]),
    }
}

impl World {
    /// One random history; `after_crash` is called after each crash.
    pub fn live(&mut self, seed: u64, after_crash: impl Fn(&mut World)) {
        let kind = kind_of(seed);
        self.habits = kind.habits;
        let faults = Faults { failing_sync_of: kind.failing_sync_of, ..Faults::default() };
        self.disk.set_faults(faults);
        let acts = [COMMON, kind.more].concat();
        let total = acts.iter().map(|(_, weight)| weight).sum();
        for _ in 0..STEPS {
            let mut roll = self.roll(total);
            let act = acts.iter().find(|(_, weight)| {
                let hit = roll < *weight;
                roll = roll.saturating_sub(*weight);
                hit
            });
            let act = act.map_or(Act::Work, |(act, _)| *act);
            let dead = self.count_dead();
            self.act(act, faults);
            if matches!(act, Act::Kill | Act::CutPower) || self.count_dead() > dead {
                after_crash(self);
            }
        }
    }

    fn count_dead(&self) -> usize {
        (0..SERVERS).filter(|server| self.disk.is_dead(*server)).count()
    }

    fn act(&mut self, act: Act, faults: Faults) {
        match act {
            Act::Submit => {
                let server = self.pick_server();
                let _ = self.submit(server);
            }
            Act::SubmitInBetween => {
                let operations = self.roll(40);
                self.submit_in_between(operations);
            }
            Act::Work => self.work(),
            Act::Drive => self.drive(3),
            Act::Poll => self.poll(),
            Act::Advance => self.clock.pass([10, 500, 1500, 5000][self.roll(4) as usize]),
            Act::StepClock => {
                let millis = [-7_200_000, -1500, 1500, 7_200_000][self.roll(4) as usize];
                self.note(format!("the wall clock is set by {millis} ms"));
                self.clock.step_wall(millis);
            }
            Act::Elect => {
                let server = self.pick_server();
                self.elect(server);
            }
            Act::Handle => {
                let handling = self.pick_handling();
                self.handle_one(handling);
            }
            Act::HandleInBetween => {
                let handling = self.pick_handling();
                let operations = self.roll(60);
                self.handle_in_between(handling, operations);
            }
            Act::ChangeFaults => self.change_faults(faults),
            Act::Doom => self.doom(),
            Act::Kill => {
                let server = self.pick_server();
                self.kill(server);
            }
            Act::CutPower => self.cut_power(Survival::Any),
            Act::Close => self.close(),
            Act::SyncCheckpoint => {
                let force = self.roll(2) == 0;
                self.sync_checkpoint(force);
            }
            Act::SetAside => self.set_aside(),
            Act::Pause => {
                let paused = self.roll(3) == 0;
                self.pause(paused);
            }
        }
    }

    fn pick_server(&self) -> Process {
        self.roll(SERVERS as u64) as Process
    }

    fn pick_handling(&self) -> Handling {
        if self.roll(2) == 0 { Handling::Discard } else { Handling::Replay }
    }

    fn change_faults(&mut self, usual: Faults) {
        let faults = match self.roll(4) {
            0 => Faults { errors_one_in: 40 + self.roll(300), ..usual },
            1 => Faults { full: true, ..usual },
            _ => usual,
        };
        self.note(format!("{faults:?}"));
        self.disk.set_faults(faults);
    }

    fn doom(&mut self) {
        let process = self.roll(COMMAND_LINE as u64 + 1) as Process;
        let operations = self.roll(60);
        self.note(format!("process {process} dies in {operations} operations"));
        self.disk.plan(Some(process), operations, Fate::IsTheLast);
    }
}
