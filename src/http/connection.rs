//! One connection as a state machine: bytes go in, answers go out, in order, until one side ends
//! it.
//!
//! It has no socket to read from and no clock, so it can be played from memory (`played`). What it
//! cannot use yet it keeps: at most as much as the longest head, and no memory while that is
//! nothing. Deadlines are in `patience`.
//!
//! ```text
//!     Head > Body > Answering > Head …      or > Lingering > Over
//! ```
//!
//! A request whose body was not read is answered with `Connection: close`, and never followed by
//! another: what comes behind it is thrown away (64 KiB or one second of it, so that the client can
//! read its answer), never parsed.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::base::limits::{LINGER_BYTES, MAX_HEAD_BYTES};
use crate::http::body::Body;
use crate::http::context::Scene;
use crate::http::correlation::Correlation;
use crate::http::error::HttpError;
use crate::http::exchange::{Exchange, Standing};
use crate::http::head::{self, Framing, Head};
use crate::http::message::{self, Envelope, Method, Response};
use crate::http::pace::Pace;
use crate::http::route::{self, Outcome, Task};

/// One connection.
pub(super) struct Connection {
    pub(super) exchange: Arc<Exchange>,
    pub(super) state: State,
    /// What has arrived and is not used yet.
    pub(super) input: Vec<u8>,
    /// Since when the state's deadline runs. A head's runs from its first byte, and a new
    /// connection's from the accept.
    pub(super) since: Duration,
    /// A request has come, so an empty input means that the connection is idle.
    pub(super) served: bool,
    /// When it was opened, or last asked whether it must yield.
    asked_to_yield: Duration,
    /// The client sends no more.
    input_ended: bool,
    /// How the client takes what is unsent.
    pub(super) sending: Option<Box<Pace>>,
    /// Of the answer that a queue owes: its correlation id, and whether it is the last.
    pub(super) owed: Owed,
}

/// What must be known of an answer that a queue owes, should it never come. The memory is used
/// again for the next.
#[derive(Debug, Default)]
pub(super) struct Owed {
    pub(super) correlation: String,
    pub(super) close: bool,
}

/// What a connection waits for.
pub(super) enum State {
    /// A whole head.
    Head,
    /// A whole body.
    Body(Box<Arriving>),
    /// An answer that is owed by a queue, or that the socket has not taken.
    Answering(Next),
    /// The client to end; so many bytes are thrown away still.
    Lingering(usize),
    /// Nothing: it has ended.
    Over,
}

/// A request of which the body is still coming.
pub(super) struct Arriving {
    task: Task,
    manner: Manner,
    body: Body,
    pub(super) pace: Pace,
}

/// How a request is answered.
struct Manner {
    correlation: Correlation,
    head_only: bool,
    /// The connection ends after the answer.
    close: bool,
}

/// What comes after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The next request.
    Head,
    /// The end.
    End,
    /// The end; what the client still sends is thrown away first.
    Linger,
    /// Likewise, for a client that was too slow: not while others wait for its place.
    LingerUnpressed,
}

/// How far bytes were used.
struct Step {
    used: usize,
    /// There is more to be done without further bytes.
    goes_on: bool,
}

const WAIT: Step = Step { used: 0, goes_on: false };

/// So many bytes were used, and there may be more to do.
fn used(used: usize) -> Step {
    Step { used, goes_on: true }
}

impl Connection {
    /// A connection that is open since now.
    pub(super) fn new(exchange: Arc<Exchange>, now: Duration) -> Connection {
        Connection {
            exchange,
            state: State::Head,
            input: Vec::new(),
            since: now,
            served: false,
            asked_to_yield: now,
            input_ended: false,
            sending: None,
            owed: Owed::default(),
        }
    }

    /// How many bytes it can take now; 0 while it must not be read from.
    pub(super) fn room(&self) -> usize {
        if self.input_ended {
            return 0;
        }
        let space = MAX_HEAD_BYTES.saturating_sub(self.input.len());
        match &self.state {
            State::Head | State::Answering(_) => space,
            // A decoder leaves at most a line, so that there is always space.
            State::Body(arriving) => arriving.body.missing().unwrap_or(space),
            State::Lingering(left) => *left,
            State::Over => 0,
        }
    }

    /// Whether it has ended.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Whether the socket has not taken all that was to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.sending.is_some()
    }

    /// Bytes have arrived, no more than there was room for.
    pub(super) fn receive(&mut self, bytes: &[u8], scene: &Scene<'_>) {
        if self.input.is_empty() {
            if matches!(self.state, State::Head) {
                self.since = if self.served { scene.boot } else { self.since };
            }
            let used = self.advance(bytes, scene);
            self.input.extend_from_slice(&bytes[used..]);
        } else {
            self.input.extend_from_slice(bytes);
            // A client that sends one byte at a time so costs one parsing for each line.
            let in_head = matches!(self.state, State::Head);
            if in_head && !bytes.contains(&b'\n') && self.input.len() < MAX_HEAD_BYTES {
                return;
            }
            self.advance_input(scene);
        }
        self.wind_up(scene);
    }

    /// The client sends no more.
    pub(super) fn end_input(&mut self, scene: &Scene<'_>) {
        self.input_ended = true;
        self.progress(scene);
    }

    /// Goes on with what has arrived already, if what was outstanding is settled.
    pub(super) fn progress(&mut self, scene: &Scene<'_>) {
        self.advance_input(scene);
        self.wind_up(scene);
    }

    /// The socket takes bytes again.
    pub(super) fn flush(&mut self, scene: &Scene<'_>) {
        let took = self.exchange.flush();
        if took > 0
            && let Some(pace) = &mut self.sending
        {
            pace.moved(scene.boot, took);
        }
        self.note_unsent(self.exchange.glance(), scene);
        self.progress(scene);
    }

    /// The client is gone.
    pub(super) fn lose(&mut self) {
        self.state = State::Over;
    }

    /// Leaves the socket. A queue that was given up on may hold its share of it for long; the
    /// client must not.
    pub(super) fn leave(self) {
        if Arc::strong_count(&self.exchange) > 1 {
            self.exchange.close();
        }
    }

    fn advance_input(&mut self, scene: &Scene<'_>) {
        let mut input = mem::take(&mut self.input);
        let used = self.advance(&input, scene);
        if used < input.len() {
            input.drain(..used);
            self.input = input;
        }
    }

    /// Uses as many of the bytes as can be used now.
    fn advance(&mut self, bytes: &[u8], scene: &Scene<'_>) -> usize {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let step = match &mut self.state {
                State::Head => self.read_head(rest, scene),
                State::Body(_) => self.read_body(rest, scene),
                State::Answering(next) => {
                    let next = *next;
                    self.settle(next, !rest.is_empty(), scene)
                }
                State::Lingering(left) => {
                    *left = left.saturating_sub(rest.len());
                    if *left == 0 {
                        self.state = State::Over;
                    }
                    Step { used: rest.len(), goes_on: false }
                }
                State::Over => return bytes.len(),
            };
            used += step.used;
            if !step.goes_on {
                return used;
            }
        }
    }

    fn read_head(&mut self, bytes: &[u8], scene: &Scene<'_>) -> Step {
        if bytes.is_empty() {
            return WAIT;
        }
        match head::parse(bytes) {
            Ok(Some((head, len))) => {
                self.served = true;
                self.begin(&head, len, bytes, scene)
            }
            Ok(None) => WAIT,
            Err(error) => {
                self.refuse(&error, Next::Linger, scene);
                used(bytes.len())
            }
        }
    }

    /// Begins a request, of whose body some may have arrived behind the head; finishes it if all
    /// has. The gate is asked here, before a byte of the body is used.
    fn begin(&mut self, head: &Head<'_>, len: usize, bytes: &[u8], scene: &Scene<'_>) -> Step {
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

    fn read_body(&mut self, bytes: &[u8], scene: &Scene<'_>) -> Step {
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

    /// Goes on after an answer, if nothing of it is outstanding.
    fn settle(&mut self, next: Next, more_has_come: bool, scene: &Scene<'_>) -> Step {
        let standing = self.exchange.standing();
        self.note_unsent(standing, scene);
        match standing {
            Standing::Awaiting | Standing::Unsent => return WAIT,
            Standing::Broken => self.state = State::Over,
            Standing::Quiet => self.go_on(next, more_has_come, scene),
        }
        used(0)
    }

    fn go_on(&mut self, next: Next, more_has_come: bool, scene: &Scene<'_>) {
        let pressed = scene.context.capacity.is_high();
        self.since = scene.boot;
        self.state = match next {
            Next::Head => State::Head,
            Next::End if !more_has_come => State::Over,
            Next::LingerUnpressed if pressed => State::Over,
            Next::End | Next::Linger | Next::LingerUnpressed => {
                // Closing with bytes unread would reset the connection, and the client might lose
                // its answer.
                self.exchange.finish();
                State::Lingering(LINGER_BYTES)
            }
        };
    }

    pub(super) fn note_unsent(&mut self, standing: Standing, scene: &Scene<'_>) {
        if standing != Standing::Unsent {
            self.sending = None;
        } else if self.sending.is_none() {
            let pace = Pace::start(scene.boot, scene.context.deadlines.transfer);
            self.sending = Some(Box::new(pace));
        }
    }

    /// Ends what cannot go on: the client sends no more, or the door stops.
    fn wind_up(&mut self, scene: &Scene<'_>) {
        let unfinished = HttpError::BadHead("it ended before it was whole");
        match &self.state {
            State::Head if self.input_ended && self.is_blank() => self.state = State::Over,
            State::Head if self.input_ended => self.refuse(&unfinished, Next::Linger, scene),
            State::Head if scene.context.is_stopping() => self.state = State::Over,
            State::Body(_) if self.input_ended => {
                let unfinished = HttpError::BadBody("it ended before it was whole");
                self.refuse_body(&unfinished, Next::Linger, scene);
            }
            State::Lingering(_) if self.input_ended => self.state = State::Over,
            _ => return,
        }
        self.input = Vec::new();
        self.advance(&[], scene);
        if self.input_ended && matches!(self.state, State::Lingering(_)) {
            self.state = State::Over;
        }
    }

    /// Empty lines are no request (old clients end bodies with one).
    fn is_blank(&self) -> bool {
        self.input.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
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
