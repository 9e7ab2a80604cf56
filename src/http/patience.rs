//! How long a connection waits for its client, and for its queue.
//!
//! Looked at only now and then (`event_loop`). While others wait for its place, an idle connection
//! may be closed, and the deadlines of heads and of bodies without progress fall to a second. What
//! is too late is answered 408, a queue that has not answered in time is answered for with 503.

use std::time::Duration;

use crate::http::connection::{Connection, Next, State};
use crate::http::context::Scene;
use crate::http::error::HttpError;
use crate::http::exchange::Standing;
use crate::http::message::{self, Envelope};

impl Connection {
    /// When it has to be looked at next.
    pub(super) fn due(&self, scene: &Scene<'_>) -> Duration {
        let deadlines = &scene.context.deadlines;
        let own = match &self.state {
            State::Head if self.is_idle() => self.since + deadlines.idle,
            State::Head => self.since + deadlines.head,
            State::Body(arriving) => arriving.pace.deadline(),
            // Only a look tells when it was answered.
            State::Answering(_) => scene.boot + deadlines.tick,
            State::Lingering(_) => self.since + deadlines.linger,
            State::Over => scene.boot,
        };
        let pressed = scene.context.pressed_deadline();
        let soonest = pressed.map_or(own, |pressed| own.min(scene.boot + pressed));
        self.sending.as_ref().map_or(soonest, |pace| soonest.min(pace.deadline()))
    }

    /// Since when it is idle, if it may be closed for others that wait: a client that asked just
    /// now is likely to ask again.
    pub(super) fn idle_for_others(&self, scene: &Scene<'_>) -> Option<Duration> {
        let pressed = scene.context.deadlines.pressed;
        let may = matches!(self.state, State::Head)
            && self.is_idle()
            && scene.boot.saturating_sub(self.since) >= pressed;
        may.then_some(self.since)
    }

    /// Looks at its deadlines, and ends what has missed one.
    pub(super) fn look(&mut self, scene: &Scene<'_>) {
        // A queue that has not answered need not tell of it when it does, unless the end is waited
        // for.
        let awaiting = self.exchange.glance() == Standing::Awaiting;
        if matches!(self.state, State::Answering(_)) && (!awaiting || scene.context.is_stopping()) {
            self.progress(scene);
        }
        let pressed = scene.context.pressed_deadline();
        if self.sending.as_ref().is_some_and(|pace| pace.is_too_slow(scene.boot, pressed)) {
            return self.lose();
        }
        let waited = scene.boot.saturating_sub(self.since);
        let deadlines = &scene.context.deadlines;
        match &self.state {
            State::Head if self.is_idle() => {
                if waited >= deadlines.idle || scene.context.is_stopping() {
                    self.lose();
                }
            }
            State::Head => {
                let limit = pressed.map_or(deadlines.head, |pressed| pressed.min(deadlines.head));
                if scene.context.is_stopping() {
                    self.lose();
                } else if waited >= limit {
                    self.input = Vec::new();
                    self.refuse(&HttpError::HeadTimeout, Next::LingerUnpressed, scene);
                    self.progress(scene);
                }
            }
            State::Body(arriving) => {
                if arriving.pace.is_too_slow(scene.boot, pressed) {
                    self.refuse_body(&HttpError::BodyTimeout, Next::LingerUnpressed, scene);
                    self.progress(scene);
                }
            }
            State::Answering(_) => {
                if waited >= deadlines.answer && self.exchange.glance() == Standing::Awaiting {
                    self.answer_for_queue(scene);
                }
            }
            State::Lingering(_) => {
                let cut = pressed.is_some() || scene.context.is_stopping();
                if cut || waited >= deadlines.linger {
                    self.lose();
                }
            }
            State::Over => {}
        }
    }

    /// Nothing of a request has come, and it is not the first.
    fn is_idle(&self) -> bool {
        self.served && self.input.is_empty()
    }

    fn answer_for_queue(&mut self, scene: &Scene<'_>) {
        let envelope = Envelope {
            correlation: &self.owed.correlation,
            now: scene.wall,
            close: self.owed.close,
            head_only: false,
        };
        let text = message::print(HttpError::NoAnswer.response(scene.wall), envelope);
        self.exchange.answer_for_queue(text);
        self.progress(scene);
    }
}
