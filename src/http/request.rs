//! One request of a connection: from its head over its body to its answer, or its hand-over.
//!
//! The order of checks is promised (`nexus-http(7)`): whoever the gate refuses is told so before a
//! byte of the body is used.

use std::mem;

use crate::http::body::Body;
use crate::http::connection::{Connection, Next, State, Step, WAIT, used};
use crate::http::context::Scene;
use crate::http::correlation::Correlation;
use crate::http::error::HttpError;
use crate::http::head::{Framing, Head};
use crate::http::message::{self, Envelope, Method, Response};
use crate::http::pace::Pace;
use crate::http::route::{self, Outcome, Task};

/// A request of which the body is still coming.
pub(super) struct Arriving {
    task: Task,
    manner: Manner,
    pub(super) body: Body,
    pub(super) pace: Pace,
}

/// How a request is answered.
struct Manner {
    correlation: Correlation,
    head_only: bool,
    /// The connection ends after the answer.
    close: bool,
}

impl Connection {
    /// Begins a request, of whose body some may have arrived behind the head; finishes it if all
    /// has. The gate is asked here, before a byte of the body is used.
    pub(super) fn begin(
        &mut self,
        head: &Head<'_>,
        len: usize,
        bytes: &[u8],
        scene: &Scene<'_>,
    ) -> Step {
        let manner = Manner {
            correlation: Correlation::of(head, &*scene.context.services.random),
            head_only: head.method == Method::Head,
            close: head.close || self.must_yield(scene),
        };
        let unread = if head.framing == Framing::Length(0) { Next::Head } else { Next::Linger };
        let task = match route::find_task(head, scene.context) {
            Ok(task) => task,
            Err(error) => return self.answer_error(&error, manner, unread, len, scene),
        };
        let Some(ceiling) = task.ceiling(scene.context) else {
            return self.finish(task, manner, Vec::new(), unread, (len, bytes.len()), scene);
        };
        let ahead = &bytes[len..];
        let mut body = match Body::begin(head.framing, ceiling, ahead.len()) {
            Ok(body) => body,
            Err(error) => return self.answer_error(&error, manner, unread, len, scene),
        };
        if body.is_whole() {
            return self.finish(task, manner, Vec::new(), Next::Head, (len, bytes.len()), scene);
        }
        match body.take(ahead) {
            Ok(here) if body.is_whole() => {
                let body = body.into_bytes();
                let lens = (len + here, bytes.len());
                self.finish(task, manner, body, Next::Head, lens, scene)
            }
            Ok(here) => {
                if let Err(error) = body.count_in(&scene.context.arrivals) {
                    return self.answer_error(&error, manner, Next::Linger, len, scene);
                }
                // A client that waits for our word gets it now.
                if head.expects_continue && ahead.is_empty() {
                    self.exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec());
                    self.note_unsent(self.exchange.glance(), scene);
                }
                let pace = Pace::start(scene.boot, scene.context.deadlines.transfer);
                self.state = State::Body(Box::new(Arriving { task, manner, body, pace }));
                Step { used: len + here, goes_on: false }
            }
            Err(error) => self.answer_error(&error, manner, Next::Linger, len, scene),
        }
    }

    pub(super) fn read_body(&mut self, bytes: &[u8], scene: &Scene<'_>) -> Step {
        let State::Body(arriving) = &mut self.state else { return WAIT };
        if bytes.is_empty() {
            return WAIT;
        }
        arriving.pace.moved(scene.boot, bytes.len());
        let taken = arriving.body.take(bytes);
        if let Ok(here) = taken
            && !arriving.body.is_whole()
        {
            return Step { used: here, goes_on: false };
        }
        let State::Body(arriving) = mem::replace(&mut self.state, State::Head) else {
            return WAIT;
        };
        let Arriving { task, manner, body, .. } = *arriving;
        match taken {
            Ok(here) => {
                let lens = (here, bytes.len());
                self.finish(task, manner, body.into_bytes(), Next::Head, lens, scene)
            }
            Err(error) => self.answer_error(&error, manner, Next::Linger, bytes.len(), scene),
        }
    }

    /// Does what a request asks for, and answers it or hands it over. Of so many bytes, so many
    /// were used for it.
    fn finish(
        &mut self,
        task: Task,
        mut manner: Manner,
        body: Vec<u8>,
        unread: Next,
        (len, all): (usize, usize),
        scene: &Scene<'_>,
    ) -> Step {
        manner.close |= scene.context.is_stopping();
        let outcome = match task.carry_out(body, &mut manner.correlation, scene) {
            Ok(outcome) => outcome,
            Err(error) => return self.answer_error(&error, manner, unread, len, scene),
        };
        let submission = match outcome {
            Outcome::Answer(response) => {
                self.answer(response, manner, unread, scene);
                return used(len);
            }
            Outcome::Submit(submission) => submission,
        };
        self.owed.correlation.clear();
        self.owed.correlation.push_str(manner.correlation.as_str());
        self.owed.close = manner.close;
        self.since = scene.boot;
        self.state = State::Answering(if manner.close { Next::End } else { Next::Head });
        submission.hand_over(manner.correlation, manner.close, &self.exchange, scene);
        // If nothing is to be done after the answer, nobody needs to be told of it.
        let goes_on = manner.close || len < all || self.input_ended || scene.context.is_stopping();
        Step { used: len, goes_on }
    }

    fn answer_error(
        &mut self,
        error: &HttpError,
        manner: Manner,
        unread: Next,
        len: usize,
        scene: &Scene<'_>,
    ) -> Step {
        self.answer(error.response(scene.wall), manner, unread, scene);
        used(len)
    }

    fn answer(&mut self, response: Response, manner: Manner, unread: Next, scene: &Scene<'_>) {
        let interim = response.status_code().0 < 200;
        let last = unread != Next::Head;
        let close = manner.close || interim || last || scene.context.is_stopping();
        let envelope = Envelope {
            correlation: manner.correlation.as_str(),
            now: scene.wall,
            close,
            head_only: manner.head_only,
        };
        self.say(message::print(response, envelope), scene);
        self.state = State::Answering(if close && !last { Next::End } else { unread });
    }

    /// Answers what is no request.
    pub(super) fn refuse(&mut self, error: &HttpError, next: Next, scene: &Scene<'_>) {
        let correlation = Correlation::fresh(&*scene.context.services.random);
        let manner = Manner { correlation, head_only: false, close: true };
        self.answer(error.response(scene.wall), manner, next, scene);
    }

    /// Gives up on the body that is coming.
    pub(super) fn refuse_body(&mut self, error: &HttpError, next: Next, scene: &Scene<'_>) {
        if let State::Body(arriving) = mem::replace(&mut self.state, State::Head) {
            self.answer(error.response(scene.wall), arriving.manner, next, scene);
        }
    }

    fn say(&mut self, text: Vec<u8>, scene: &Scene<'_>) {
        self.since = scene.boot;
        self.exchange.send(text);
    }

    /// Whether this connection has had its turn: others wait, and it has been open, or not asked,
    /// for a while. So the next client waits no longer than a busy one stays.
    fn must_yield(&mut self, scene: &Scene<'_>) -> bool {
        let Some(pressed) = scene.context.pressed_deadline() else { return false };
        if scene.boot.saturating_sub(self.asked_to_yield) < pressed {
            return false;
        }
        self.asked_to_yield = scene.boot;
        scene.context.capacity.must_yield()
    }
}
