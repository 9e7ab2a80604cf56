//! What every request is served with: the services from outside, the configuration, and the door's
//! state.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::base::Timestamp;
use crate::http::acceptors::Pressure;
use crate::http::dev::Flaky;
use crate::http::door::{Deadlines, Services};
use crate::http::gate::Access;

/// Shared by all acceptors of a door.
pub(super) struct Context {
    pub(super) services: Services,
    pub(super) deadlines: Deadlines,
    /// The server's ceiling on one message, in bytes.
    pub(super) max_message_bytes: u64,
    pub(super) access: Access,
    /// The sample downstream, with `--dev` only.
    pub(super) dev: Option<Flaky>,
    pub(super) pressure: Pressure,
    pub(super) stopping: AtomicBool,
}

impl Context {
    /// The boot clock, which all deadlines are measured with.
    pub(super) fn boot(&self) -> Duration {
        self.services.clock.boot()
    }

    /// The wall clock, which answers show.
    pub(super) fn now(&self) -> Timestamp {
        self.services.clock.now()
    }

    /// Whether the door is closing: requests in hand are finished, and no others begun.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// What a deadline without progress falls to, if others wait for an acceptor now.
    pub(super) fn pressed_deadline(&self) -> Option<Duration> {
        self.pressure.is_high().then_some(self.deadlines.pressed)
    }
}
