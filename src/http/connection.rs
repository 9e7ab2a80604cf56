//! One connection as a state machine: bytes go in, answers go out, in order, until one side ends
//! it.
//!
//! It has no socket to read from and no clock, so it can be played from memory (`played`). What it
//! cannot use yet it keeps: at most as much as the longest head, and no memory while that is
//! nothing. What a request goes through is in `request`, deadlines are in `patience`.
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
use crate::http::context::Scene;
use crate::http::error::HttpError;
use crate::http::exchange::{Exchange, Standing};
use crate::http::head;
use crate::http::pace::Pace;
use crate::http::request::Arriving;

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
    pub(super) asked_to_yield: Duration,
    /// The client sends no more.
    pub(super) input_ended: bool,
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
pub(super) struct Step {
    pub(super) used: usize,
    /// There is more to be done without further bytes.
    pub(super) goes_on: bool,
}

/// Nothing can be done without further bytes.
pub(super) const WAIT: Step = Step { used: 0, goes_on: false };

/// So many bytes were used, and there may be more to do.
pub(super) fn used(used: usize) -> Step {
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
}
