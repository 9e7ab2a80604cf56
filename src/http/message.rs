//! Answers: how they are made, and how they are printed as one piece of text, so that one response
//! is one write.
//!
//! Home of `tiny_http`, of which only the message types are used, never its server (it reads bodies
//! before a gate could run, and has no bounds). Printing is done here because its printer drops
//! `Connection` and gives a 204 a length.

use std::io::{Cursor, Read as _};

use crate::base::Timestamp;

pub(super) use tiny_http::{Header, Method, StatusCode};

/// An answer with its body in memory.
pub(super) type Response = tiny_http::Response<Cursor<Vec<u8>>>;

/// An answer with a JSON body.
pub(super) fn json(status: u16, body: impl Into<Vec<u8>>) -> Response {
    let response = Response::from_data(body).with_status_code(StatusCode(status));
    with(response, "Content-Type", "application/json")
}

/// An answer without a body.
pub(super) fn empty(status: u16) -> Response {
    Response::from_data(Vec::new()).with_status_code(StatusCode(status))
}

/// The same answer with one more header. A value that is not ASCII cannot be sent and is left out.
pub(super) fn with(response: Response, name: &'static str, value: &str) -> Response {
    match Header::from_bytes(name, value) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    }
}

/// What an answer owes to the request and the connection, besides its own content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope<'a> {
    /// The request's correlation id.
    pub(super) correlation: &'a str,
    /// When the answer is made.
    pub(super) now: Timestamp,
    /// The connection ends after it.
    pub(super) close: bool,
    /// The request was a HEAD: the length is told, the body is not sent.
    pub(super) head_only: bool,
}

/// Prints an answer.
pub(super) fn print(response: Response, envelope: Envelope<'_>) -> Vec<u8> {
    let status = response.status_code();
    let mut out = Vec::with_capacity(512);
    push(&mut out, &["HTTP/1.1 ", &status.0.to_string(), " ", status.default_reason_phrase()]);
    push(&mut out, &["\r\nDate: ", &envelope.now.to_http_date()]);
    push(&mut out, &["\r\nX-Correlation-ID: ", envelope.correlation]);
    push(&mut out, &["\r\nX-Content-Type-Options: nosniff"]);
    for header in response.headers() {
        push(&mut out, &["\r\n", header.field.as_str().as_str(), ": ", header.value.as_str()]);
    }
    if envelope.close {
        push(&mut out, &["\r\nConnection: close"]);
    }
    if matches!(status.0, 100..=199 | 204) {
        push(&mut out, &["\r\n\r\n"]);
        return out;
    }
    let mut body = Vec::new();
    // Reading from memory cannot fail.
    let _read = response.into_reader().read_to_end(&mut body);
    push(&mut out, &["\r\nContent-Length: ", &body.len().to_string(), "\r\n\r\n"]);
    if !envelope.head_only && status.0 != 304 {
        out.extend_from_slice(&body);
    }
    out
}

fn push(out: &mut Vec<u8>, pieces: &[&str]) {
    pieces.iter().for_each(|piece| out.extend_from_slice(piece.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> Envelope<'static> {
        let now = Timestamp::from_millis(1_786_284_131_250);
        Envelope { correlation: "trace-1", now, close: false, head_only: false }
    }

    fn text(response: Response, envelope: Envelope<'_>) -> String {
        String::from_utf8(print(response, envelope)).unwrap()
    }

    #[test]
    fn an_answer_is_printed_with_everything_it_owes() {
        assert_eq!(
            text(json(200, "{}"), envelope()),
            "HTTP/1.1 200 OK\r\nDate: Sun, 09 Aug 2026 14:02:11 GMT\r\n\
             X-Correlation-ID: trace-1\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        );
    }

    #[test]
    fn a_head_answer_tells_the_length_and_sends_no_body() {
        let answer = text(json(200, "{}"), Envelope { head_only: true, ..envelope() });
        assert!(answer.ends_with("Content-Length: 2\r\n\r\n"), "{answer}");
    }

    #[test]
    fn answers_that_have_no_body_tell_no_length() {
        let answer = text(json(204, "{}"), Envelope { close: true, ..envelope() });
        assert!(answer.ends_with("\r\nConnection: close\r\n\r\n"), "{answer}");
        assert!(!answer.contains("Content-Length"));
        assert!(text(empty(304), envelope()).ends_with("\r\n\r\n"));
    }
}
