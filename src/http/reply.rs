//! The answer to a submission, written by the queue's own thread.
//!
//! Waking the connection's thread to write each 202 costs half of the throughput. So the connection
//! thread prepares the 202, hands it over with the message, and goes back to reading its
//! connection; after the sync the queue's thread puts the offset in and writes it, without ever
//! blocking. What the socket does not take at once goes back to the connection thread, which finds
//! it before its next answer, or at its next tick.
//!
//! Promises: one answer for each submission, and none overtakes another: whoever wants to write on
//! the connection first waits until nothing is outstanding ([`Exchange::settle`]). A queue that
//! does not answer in time, or whose thread dies, is answered for with 503 (whether the message is
//! stored is unknown), and what it says later is dropped. The socket is owned by the connection and
//! the answers together, so its descriptor is never another's.
//!
//! The connection thread is woken only when it has said that it waits.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::base::time::Clock;
use crate::base::{QueueName, Timestamp};
use crate::http::context::Context;
use crate::http::error::{HttpError, Interruption};
use crate::http::message::{self, Envelope};
use crate::http::pace::Pace;
use crate::http::stream::{Stream, is_tick};
use crate::queue::Receipt;
use crate::worker::{Refusal, Reply, Submission};

/// A connection's socket and what is outstanding on it.
pub(super) struct Exchange {
    stream: Box<dyn Stream>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    /// Counts submissions, so that an answer given up on is told from the one after it.
    ticket: u64,
    /// The connection thread sleeps on `changed`.
    waited_for: bool,
    /// When the outstanding answer was first seen to be outstanding.
    awaited_since: Option<Duration>,
    prepared: Prepared,
    date: HttpDate,
    out: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing is outstanding.
    Quiet,
    /// A queue has a submission and has not answered.
    Awaiting,
    /// The queue has answered, and the socket took only so many bytes of it.
    Unsent(usize),
    /// The socket cannot be written any more.
    Broken,
}

/// The client is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

impl From<Gone> for Interruption {
    fn from(_: Gone) -> Interruption {
        Interruption::Gone
    }
}

impl Exchange {
    /// The exchange of a new connection.
    pub(super) fn new(stream: Box<dyn Stream>, clock: Arc<dyn Clock>) -> Exchange {
        let state = State {
            phase: Phase::Quiet,
            ticket: 0,
            waited_for: false,
            awaited_since: None,
            prepared: Prepared::default(),
            date: HttpDate::default(),
            out: Vec::new(),
        };
        Exchange { stream, clock, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The socket, to read from or to close. Writing goes through [`Exchange::write`].
    pub(super) fn stream(&self) -> &dyn Stream {
        &*self.stream
    }

    /// Prepares the 202 of a submission, and gives the handle that its queue answers with.
    ///
    /// Call it only when everything before is settled.
    pub(super) fn hand_over(
        self: &Arc<Self>,
        queue: &QueueName,
        submission: &Submission,
        close: bool,
    ) -> Box<dyn Reply> {
        let mut state = self.lock();
        let State { prepared, date, .. } = &mut *state;
        let date = date.at(self.clock.now());
        prepared.fill(queue, submission.correlation_id.as_str(), date, close);
        state.phase = Phase::Awaiting;
        state.awaited_since = None;
        state.ticket = state.ticket.wrapping_add(1);
        let ticket = state.ticket;
        drop(state);
        Box::new(Answer { exchange: Arc::clone(self), ticket, answered: false })
    }

    /// Waits until nothing is outstanding; bounded by the answer's deadline and the pace of
    /// writing.
    pub(super) fn settle(&self, context: &Context) -> Result<(), Gone> {
        while self.look(context)? {
            self.wait(context.deadlines.tick);
        }
        Ok(())
    }

    /// Whether a queue's answer is outstanding. Finishes an answer that the socket did not take,
    /// and gives up on a queue that has not answered in time.
    pub(super) fn look(&self, context: &Context) -> Result<bool, Gone> {
        let mut state = self.lock();
        let rest = match state.phase {
            Phase::Quiet => return Ok(false),
            Phase::Broken => return Err(Gone),
            Phase::Unsent(sent) => {
                state.phase = Phase::Quiet;
                state.out.split_off(sent)
            }
            Phase::Awaiting => {
                let now = self.clock.boot();
                let since = *state.awaited_since.get_or_insert(now);
                if now.saturating_sub(since) < context.deadlines.answer {
                    return Ok(true);
                }
                state.phase = Phase::Quiet;
                state.prepared.print_error(&HttpError::NoAnswer, self.clock.now())
            }
        };
        drop(state);
        self.write(&rest, context)?;
        Ok(false)
    }

    fn wait(&self, tick: Duration) {
        let mut state = self.lock();
        if state.phase != Phase::Awaiting {
            return;
        }
        state.waited_for = true;
        let (mut state, _timeout) =
            self.changed.wait_timeout(state, tick).unwrap_or_else(PoisonError::into_inner);
        state.waited_for = false;
    }

    /// Writes all of it. A client that does not read is given up on.
    ///
    /// Call it only when everything before is settled.
    pub(super) fn write(&self, bytes: &[u8], context: &Context) -> Result<(), Gone> {
        let mut pace = None;
        let mut sent = 0;
        while sent < bytes.len() {
            let step = match self.stream.write(&bytes[sent..]) {
                Ok(0) => Err(Gone),
                Ok(len) => Ok(len),
                Err(error) if is_tick(&error) => Ok(0),
                Err(_) => Err(Gone),
            };
            let Ok(len) = step else { return Err(self.break_off()) };
            sent += len;
            if sent == bytes.len() {
                break;
            }
            let now = self.clock.boot();
            let pace = pace.get_or_insert_with(|| Pace::start(now, context.deadlines.transfer));
            if len > 0 {
                pace.moved(now, len);
            }
            if pace.is_too_slow(now, context.pressed_deadline()) {
                return Err(self.break_off());
            }
        }
        Ok(())
    }

    fn break_off(&self) -> Gone {
        self.lock().phase = Phase::Broken;
        Gone
    }

    // A thread that panicked while it held the lock left at worst an answer half prepared, which is
    // then not sent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The handle that a queue's thread answers with.
struct Answer {
    exchange: Arc<Exchange>,
    ticket: u64,
    answered: bool,
}

impl Answer {
    fn give(&mut self, outcome: Result<Receipt, Refusal>) {
        if self.answered {
            return;
        }
        self.answered = true;
        let exchange = &*self.exchange;
        let mut state = exchange.lock();
        if state.ticket != self.ticket || state.phase != Phase::Awaiting {
            return;
        }
        let State { prepared, out, .. } = &mut *state;
        match outcome {
            Ok(receipt) => prepared.print_accepted(receipt.offset, out),
            Err(refusal) => {
                *out = prepared.print_error(&HttpError::Refused(refusal), exchange.clock.now());
            }
        }
        state.phase = match exchange.stream.write_now(&state.out) {
            Ok(len) if len == state.out.len() => Phase::Quiet,
            Ok(len) => Phase::Unsent(len),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Phase::Unsent(0),
            Err(_) => Phase::Broken,
        };
        let wake = state.waited_for;
        drop(state);
        if wake {
            exchange.changed.notify_one();
        }
    }
}

impl Reply for Answer {
    fn answer(mut self: Box<Self>, outcome: Result<Receipt, Refusal>) {
        self.give(outcome);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.give(Err(Refusal::Unknown(String::from(
            "the queue ended before it answered: whether the message is stored is unknown, \
             and it may be sent again",
        ))));
    }
}

/// An answer ready but for what only the queue knows. Its memory is used again for the next one.
#[derive(Debug, Default)]
struct Prepared {
    /// All of the 202 but the length and the offset, which go in at `split`.
    text: Vec<u8>,
    split: usize,
    correlation: String,
    close: bool,
}

/// What stands between the length and the offset in a 202.
const BEFORE_OFFSET: &[u8] = b"\r\n\r\n{\"queued\":true,\"offset\":";

/// Of that, what counts as body.
const BODY_BEFORE_OFFSET: usize = BEFORE_OFFSET.len() - 4;

impl Prepared {
    fn fill(&mut self, queue: &QueueName, correlation: &str, date: &str, close: bool) {
        self.correlation.clear();
        self.correlation.push_str(correlation);
        self.close = close;
        self.text.clear();
        self.push(&["HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nDate: ", date]);
        self.push(&["\r\nX-Content-Type-Options: nosniff\r\nX-Correlation-ID: ", correlation]);
        if close {
            self.push(&["\r\nConnection: close"]);
        }
        self.push(&["\r\nContent-Length: "]);
        self.split = self.text.len();
        self.push(&[",\"tenant\":\"", queue.tenant.as_str()]);
        self.push(&["\",\"flow\":\"", queue.flow.as_str(), "\"}"]);
    }

    fn push(&mut self, pieces: &[&str]) {
        pieces.iter().for_each(|piece| self.text.extend_from_slice(piece.as_bytes()));
    }

    fn print_accepted(&self, offset: u64, out: &mut Vec<u8>) {
        let (before, after) = self.text.split_at(self.split);
        let mut digits = [0; 20];
        let offset = decimal(offset, &mut digits);
        let length = BODY_BEFORE_OFFSET + offset.len() + after.len();
        out.clear();
        out.extend_from_slice(before);
        out.extend_from_slice(decimal(length as u64, &mut [0; 20]));
        out.extend_from_slice(BEFORE_OFFSET);
        out.extend_from_slice(offset);
        out.extend_from_slice(after);
    }

    fn print_error(&self, error: &HttpError, now: Timestamp) -> Vec<u8> {
        let envelope =
            Envelope { correlation: &self.correlation, now, close: self.close, head_only: false };
        message::print(error.response(now), envelope)
    }
}

/// The digits of a number, at the end of a buffer that holds any.
fn decimal(mut value: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        // A remainder of ten is one digit.
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &buffer[at..];
        }
    }
}

/// The date of the current second, formatted once for it.
#[derive(Debug, Default)]
struct HttpDate {
    second: Option<i64>,
    text: String,
}

impl HttpDate {
    fn at(&mut self, now: Timestamp) -> &str {
        let second = now.as_millis().div_euclid(1000);
        if self.second != Some(second) {
            self.second = Some(second);
            self.text = now.to_http_date();
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_202_has_exactly_its_keys_in_their_order() {
        let queue = QueueName::parse("acme", "forward-order").unwrap();
        let mut prepared = Prepared::default();
        let mut out = Vec::new();
        prepared.fill(&queue, "trace-1", "Sun, 09 Aug 2026 14:02:11 GMT", false);
        prepared.print_accepted(0, &mut out);
        assert_eq!(
            String::from_utf8(out.clone()).unwrap(),
            "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n\
             Date: Sun, 09 Aug 2026 14:02:11 GMT\r\nX-Content-Type-Options: nosniff\r\n\
             X-Correlation-ID: trace-1\r\nContent-Length: 65\r\n\r\n\
             {\"queued\":true,\"offset\":0,\"tenant\":\"acme\",\"flow\":\"forward-order\"}"
        );

        prepared.fill(&queue, "trace-2", "Sun, 09 Aug 2026 14:02:11 GMT", true);
        prepared.print_accepted(u64::MAX, &mut out);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("X-Correlation-ID: trace-2\r\nConnection: close\r\n"), "{head}");
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.contains("\"offset\":18446744073709551615,"), "{body}");
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for value in [0, 9, 10, 1_234_567, u64::MAX] {
            assert_eq!(decimal(value, &mut [0; 20]), value.to_string().as_bytes());
        }
    }
}
