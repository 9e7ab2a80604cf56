//! The answer to a submission, prepared by the connection's loop and written by the queue's thread.
//!
//! Everything but the offset is printed when the message is handed over. A queue whose thread dies
//! is answered for with 503: whether the message is stored is unknown.

use std::ops::Range;
use std::sync::Arc;

use crate::base::{QueueName, Timestamp};
use crate::http::error::HttpError;
use crate::http::exchange::Exchange;
use crate::http::message::{self, Envelope};
use crate::queue::Receipt;
use crate::worker::{Refusal, Reply};

/// The handle that a queue's thread answers with.
pub(super) struct Answer {
    exchange: Arc<Exchange>,
    ticket: u64,
    /// Taken when it is answered.
    prepared: Option<Prepared>,
}

impl Answer {
    /// The handle of a submission whose answer is awaited from here on.
    pub(super) fn new(exchange: &Arc<Exchange>, prepared: Prepared) -> Answer {
        let ticket = exchange.await_answer();
        Answer { exchange: Arc::clone(exchange), ticket, prepared: Some(prepared) }
    }

    fn give(&mut self, outcome: Result<Receipt, Refusal>) {
        let Some(prepared) = self.prepared.take() else { return };
        let text = match outcome {
            Ok(receipt) => prepared.accepted(receipt.offset),
            Err(refusal) => prepared.refused(refusal, self.exchange.now()),
        };
        self.exchange.answer(self.ticket, text);
    }
}

impl Reply for Answer {
    fn answer(mut self: Box<Self>, outcome: Result<Receipt, Refusal>) {
        self.give(outcome);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if self.prepared.is_some() {
            self.give(Err(Refusal::Unknown(String::from(
                "the queue ended before it answered: whether the message is stored is unknown, \
                 and it may be sent again",
            ))));
        }
    }
}

/// An answer ready but for what only the queue knows.
#[derive(Debug)]
pub(super) struct Prepared {
    /// All of the 202 but the length and the offset, which go in at `split`.
    text: Vec<u8>,
    split: usize,
    /// Where the correlation id stands in it.
    correlation: Range<usize>,
    close: bool,
}

/// What stands between the length and the offset in a 202.
const BEFORE_OFFSET: &[u8] = b"\r\n\r\n{\"queued\":true,\"offset\":";

/// Of that, what counts as body.
const BODY_BEFORE_OFFSET: usize = BEFORE_OFFSET.len() - 4;

/// Bytes of a 202 that are the same for all, and some more.
const FIXED_LEN: usize = 320;

impl Prepared {
    /// The 202 of a submission to this queue.
    pub(super) fn new(queue: &QueueName, correlation: &str, date: &str, close: bool) -> Prepared {
        let (tenant, flow) = (queue.tenant.as_str(), queue.flow.as_str());
        let len = FIXED_LEN + correlation.len() + tenant.len() + flow.len();
        let mut text = Vec::with_capacity(len);
        push(
            &mut text,
            &["HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nDate: ", date],
        );
        push(&mut text, &["\r\nX-Content-Type-Options: nosniff\r\nX-Correlation-ID: "]);
        let start = text.len();
        push(&mut text, &[correlation]);
        let correlation = start..text.len();
        if close {
            push(&mut text, &["\r\nConnection: close"]);
        }
        push(&mut text, &["\r\nContent-Length: "]);
        let split = text.len();
        push(&mut text, &[",\"tenant\":\"", tenant, "\",\"flow\":\"", flow, "\"}"]);
        Prepared { text, split, correlation, close }
    }

    /// The 202 with the message's offset.
    fn accepted(self, offset: u64) -> Vec<u8> {
        let Prepared { mut text, split, .. } = self;
        let mut digits = [0; 20];
        let offset = decimal(offset, &mut digits);
        let before = text.len();
        let length = BODY_BEFORE_OFFSET + offset.len() + (before - split);
        // Written behind what is there, and then turned in front of the names.
        text.extend_from_slice(decimal(length as u64, &mut [0; 20]));
        text.extend_from_slice(BEFORE_OFFSET);
        text.extend_from_slice(offset);
        let inserted = text.len() - before;
        text[split..].rotate_right(inserted);
        text
    }

    fn refused(&self, refusal: Refusal, now: Timestamp) -> Vec<u8> {
        // It was put in as text.
        let correlation = str::from_utf8(&self.text[self.correlation.clone()]).unwrap_or_default();
        let envelope = Envelope { correlation, now, close: self.close, head_only: false };
        message::print(HttpError::Refused(refusal).response(now), envelope)
    }
}

fn push(text: &mut Vec<u8>, pieces: &[&str]) {
    pieces.iter().for_each(|piece| text.extend_from_slice(piece.as_bytes()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_202_has_exactly_its_keys_in_their_order() {
        let queue = QueueName::parse("acme", "forward-order").unwrap();
        let date = "Sun, 09 Aug 2026 14:02:11 GMT";
        let out = Prepared::new(&queue, "trace-1", date, false).accepted(0);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n\
             Date: Sun, 09 Aug 2026 14:02:11 GMT\r\nX-Content-Type-Options: nosniff\r\n\
             X-Correlation-ID: trace-1\r\nContent-Length: 65\r\n\r\n\
             {\"queued\":true,\"offset\":0,\"tenant\":\"acme\",\"flow\":\"forward-order\"}"
        );

        let out = Prepared::new(&queue, "trace-2", date, true).accepted(u64::MAX);
        let text = String::from_utf8(out).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("X-Correlation-ID: trace-2\r\nConnection: close\r\n"), "{head}");
        assert!(head.ends_with(&format!("Content-Length: {}", body.len())), "{head}");
        assert!(body.contains("\"offset\":18446744073709551615,"), "{body}");
    }

    #[test]
    fn a_refusal_has_the_same_correlation_id() {
        let queue = QueueName::parse("acme", "x").unwrap();
        let prepared = Prepared::new(&queue, "trace-1", "now", true);
        let text = prepared.refused(Refusal::Busy("full".into()), Timestamp::from_millis(0));
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
        assert!(text.contains("\r\nX-Correlation-ID: trace-1\r\n"), "{text}");
        assert!(text.contains("\r\nConnection: close\r\n"), "{text}");
    }

    #[test]
    fn numbers_are_written_in_decimal() {
        for value in [0, 9, 10, 1_234_567, u64::MAX] {
            assert_eq!(decimal(value, &mut [0; 20]), value.to_string().as_bytes());
        }
    }
}
