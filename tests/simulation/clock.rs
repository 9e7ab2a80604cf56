//! Both clocks, moved by hand.

use std::time::Duration;

use nexus::base::Timestamp;
use nexus::queue::Moment;

#[derive(Debug, Clone)]
pub struct SimClock {
    now: Moment,
}

impl SimClock {
    pub fn new() -> SimClock {
        let wall = Timestamp::from_millis(1_000_000_000_000);
        SimClock { now: Moment { wall, boot: Duration::from_secs(100) } }
    }

    pub fn now(&self) -> Moment {
        self.now
    }

    /// Time passes, for both clocks.
    pub fn pass(&mut self, millis: u64) {
        self.now.boot += Duration::from_millis(millis);
        self.now.wall = self.now.wall.plus_millis(millis);
    }

    /// Somebody sets the wall clock.
    pub fn step_wall(&mut self, millis: i64) {
        self.now.wall = Timestamp::from_millis(self.now.wall.as_millis() + millis);
    }

    /// The machine starts: the boot clock begins anew.
    pub fn restart(&mut self) {
        self.now.boot = Duration::from_secs(5);
    }
}
