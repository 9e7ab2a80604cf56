//! What every request is served with: the services from outside, the configuration, the door's
//! state, and the moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::base::Timestamp;
use crate::base::time::Clock;
use crate::http::arrivals::Arrivals;
use crate::http::capacity::Capacity;
use crate::http::dev::Flaky;
use crate::http::door::{Deadlines, Services};
use crate::http::gate::Access;

/// Shared by all threads of a door.
pub(super) struct Context {
    pub(super) services: Services,
    pub(super) deadlines: Deadlines,
    /// The server's ceiling on one message, in bytes.
    pub(super) max_message_bytes: u64,
    pub(super) access: Access,
    /// The sample downstream, with `--dev` only.
    pub(super) dev: Option<Flaky>,
    pub(super) capacity: Capacity,
    pub(super) arrivals: Arrivals,
    pub(super) stopping: AtomicBool,
}

impl Context {
    /// The boot clock, which all deadlines are measured with.
    pub(super) fn boot(&self) -> Duration {
        self.services.clock.boot()
    }

    /// Whether the door is closing: requests in hand are finished, and no others begun.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// What a deadline without progress falls to, if others wait for a connection to end.
    pub(super) fn pressed_deadline(&self) -> Option<Duration> {
        self.capacity.is_high().then_some(self.deadlines.pressed)
    }
}

/// The door at one moment. A loop looks at the clocks once for all that is ready.
pub(super) struct Scene<'s> {
    pub(super) context: &'s Context,
    /// The boot clock.
    pub(super) boot: Duration,
    /// The wall clock.
    pub(super) wall: Timestamp,
    /// The same as the `Date` header has it.
    pub(super) date: &'s str,
}

/// The date of the current second, formatted once for it.
#[derive(Debug, Default)]
pub(super) struct Calendar {
    second: Option<i64>,
    text: String,
}

impl Calendar {
    /// The door as it is now.
    pub(super) fn scene<'s>(&'s mut self, context: &'s Context) -> Scene<'s> {
        let clock: &dyn Clock = &*context.services.clock;
        let wall = clock.now();
        let second = wall.as_millis().div_euclid(1000);
        if self.second != Some(second) {
            self.second = Some(second);
            self.text = wall.to_http_date();
        }
        Scene { context, boot: clock.boot(), wall, date: &self.text }
    }
}
