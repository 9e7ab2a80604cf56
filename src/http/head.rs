//! The head of a request: request line and headers, read strictly.
//!
//! Home of `httparse`. On top of what it refuses, this file refuses everything that two readers of
//! the same bytes could frame differently: a bare line feed, a `Content-Length` beside a
//! `Transfer-Encoding`, two lengths, a length that is not plain digits, a transfer coding other
//! than `chunked`. Nothing is copied: a [`Head`] points into the connection's buffer.
//!
//! Not here: where the bytes come from and how long they may take (`connection`).

use std::mem::MaybeUninit;
use std::str::FromStr as _;

use crate::base::limits::{MAX_HEAD_BYTES, MAX_HEADERS};
use crate::http::error::HttpError;
use crate::http::message::Method;

/// A request's head, with the headers that the door knows.
#[derive(Debug)]
pub(super) struct Head<'b> {
    pub(super) method: Method,
    /// The path as sent, never decoded.
    pub(super) path: &'b str,
    /// What follows the `?`, or nothing.
    pub(super) query: &'b str,
    pub(super) framing: Framing,
    /// The client wants the connection closed after the answer, or can have it only so (HTTP/1.0).
    pub(super) close: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub(super) expects_continue: bool,
    pub(super) authorization: Field<'b>,
    pub(super) content_type: Field<'b>,
    pub(super) content_encoding: Field<'b>,
    pub(super) correlation_id: Field<'b>,
    pub(super) request_id: Field<'b>,
    pub(super) idempotency_key: Field<'b>,
}

/// How the body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// So many bytes; 0 when there is no body.
    Length(u64),
    Chunked,
}

/// A header that makes sense only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Field<'b> {
    #[default]
    Absent,
    Value(&'b [u8]),
    /// Given more than once, with different values.
    Differing,
}

impl<'b> Field<'b> {
    fn add(&mut self, value: &'b [u8]) {
        *self = match *self {
            Field::Absent => Field::Value(value),
            Field::Value(first) if first == value => Field::Value(first),
            _ => Field::Differing,
        };
    }

    /// The value, if the header is there.
    ///
    /// # Errors
    /// [`HttpError::Differing`], with the header's name.
    pub(super) fn single(self, name: &'static str) -> Result<Option<&'b [u8]>, HttpError> {
        match self {
            Field::Absent => Ok(None),
            Field::Value(value) => Ok(Some(value)),
            Field::Differing => Err(HttpError::Differing(name)),
        }
    }
}

/// Parses the head at the start of `bytes`: the head and its length, or `None` when more bytes are
/// needed.
///
/// # Errors
/// 400 for a malformed one, 431 for one that is too long or has too many headers. The connection
/// must be closed.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Head<'_>, usize)>, HttpError> {
    let mut headers = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(bytes, &mut headers).map_err(explain)?;
    let len = match parsed {
        httparse::Status::Complete(len) => len,
        httparse::Status::Partial => bytes.len(),
    };
    if has_bare_line_feed(&bytes[..len]) {
        return Err(HttpError::BadHead("a line ends in a bare line feed"));
    }
    if len > MAX_HEAD_BYTES || (parsed.is_partial() && len >= MAX_HEAD_BYTES) {
        return Err(HttpError::HeadTooLong);
    }
    if parsed.is_partial() {
        return Ok(None);
    }
    Ok(Some((interpret(&request)?, len)))
}

fn explain(error: httparse::Error) -> HttpError {
    match error {
        httparse::Error::TooManyHeaders => HttpError::TooManyHeaders,
        httparse::Error::HeaderName => HttpError::BadHead("a header's name has a bad character"),
        httparse::Error::HeaderValue => HttpError::BadHead("a header's value has a bad character"),
        httparse::Error::NewLine => HttpError::BadHead("a line does not end in CR LF"),
        httparse::Error::Version => HttpError::BadHead("the version is not HTTP/1.1 or HTTP/1.0"),
        httparse::Error::Status | httparse::Error::Token => {
            HttpError::BadHead("the request line has a bad character")
        }
    }
}

/// Whether a line feed stands without a carriage return before it. Written so that it compiles to
/// wide instructions: it runs over every head.
fn has_bare_line_feed(bytes: &[u8]) -> bool {
    let Some((first, rest)) = bytes.split_first() else { return false };
    let bare = rest
        .iter()
        .zip(bytes)
        .fold(0_u8, |bare, (byte, before)| bare | u8::from(*byte == b'\n' && *before != b'\r'));
    *first == b'\n' || bare != 0
}

fn interpret<'b>(request: &httparse::Request<'_, 'b>) -> Result<Head<'b>, HttpError> {
    let http11 = request.version == Some(1);
    let name = request.method.unwrap_or_default();
    let method = Method::from_str(name)
        .map_err(|()| HttpError::BadHead("the method has a bad character"))?;
    let (path, query) = split_target(request.path.unwrap_or_default());
    let mut head = Head {
        method,
        path,
        query,
        framing: Framing::Length(0),
        close: !http11,
        expects_continue: false,
        authorization: Field::Absent,
        content_type: Field::Absent,
        content_encoding: Field::Absent,
        correlation_id: Field::Absent,
        request_id: Field::Absent,
        idempotency_key: Field::Absent,
    };
    let mut length = Field::Absent;
    let mut codings = Codings::None;
    for header in request.headers.iter() {
        let (name, value) = (header.name, header.value);
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        match name.len() {
            6 if is("Expect") => {
                head.expects_continue |= http11 && value.eq_ignore_ascii_case(b"100-continue");
            }
            10 if is("Connection") => head.close |= has_token(value, b"close"),
            12 if is("Content-Type") => head.content_type.add(value),
            12 if is("X-Request-ID") => head.request_id.add(value),
            13 if is("Authorization") => head.authorization.add(value),
            14 if is("Content-Length") => length.add(value),
            15 if is("Idempotency-Key") => head.idempotency_key.add(value),
            16 if is("Content-Encoding") => head.content_encoding.add(value),
            16 if is("X-Correlation-ID") => head.correlation_id.add(value),
            17 if is("Transfer-Encoding") => codings = codings.and(value),
            _ => {}
        }
    }
    head.framing = framing(http11, length, codings)?;
    Ok(head)
}

/// What the `Transfer-Encoding` lines say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codings {
    None,
    Chunked,
    Other,
}

impl Codings {
    fn and(self, value: &[u8]) -> Codings {
        match self {
            Codings::None if value.eq_ignore_ascii_case(b"chunked") => Codings::Chunked,
            _ => Codings::Other,
        }
    }
}

fn framing(http11: bool, length: Field<'_>, codings: Codings) -> Result<Framing, HttpError> {
    match (codings, length) {
        (Codings::None, Field::Absent) => Ok(Framing::Length(0)),
        (Codings::None, Field::Value(digits)) => Ok(Framing::Length(parse_length(digits)?)),
        (Codings::None, Field::Differing) => {
            Err(HttpError::BadHead("Content-Length is given twice with different values"))
        }
        (_, Field::Value(_) | Field::Differing) => {
            Err(HttpError::BadHead("both Content-Length and Transfer-Encoding are given"))
        }
        (_, Field::Absent) if !http11 => {
            Err(HttpError::BadHead("HTTP/1.0 has no Transfer-Encoding"))
        }
        (Codings::Chunked, Field::Absent) => Ok(Framing::Chunked),
        (Codings::Other, Field::Absent) => {
            Err(HttpError::BadHead("the only Transfer-Encoding accepted is chunked, once"))
        }
    }
}

/// Plain digits only. A number that does not fit is longer than any ceiling, and is taken as the
/// highest.
fn parse_length(digits: &[u8]) -> Result<u64, HttpError> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(HttpError::BadHead("Content-Length is not a number in plain digits"));
    }
    Ok(digits.iter().fold(0_u64, |value, digit| {
        value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    }))
}

/// Splits `/path?query`. A target in absolute form (`http://host/path`) loses its scheme and host
/// first.
fn split_target(target: &str) -> (&str, &str) {
    let origin = match target.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|b| b.is_ascii_alphabetic()) => {
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        _ => target,
    };
    origin.split_once('?').unwrap_or((origin, ""))
}

/// Whether a comma-separated list has this token.
fn has_token(list: &[u8], token: &[u8]) -> bool {
    list.split(|byte| *byte == b',').any(|item| item.trim_ascii().eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &str) -> Result<Head<'_>, HttpError> {
        Ok(parse(text.as_bytes())?.expect("a whole head").0)
    }

    #[test]
    fn a_head_is_read_without_its_body() {
        let text = "POST /flows/acme/forward-order/enqueue?x=1 HTTP/1.1\r\nHost: a\r\n\
                    content-length: 2\r\nX-Correlation-ID:  t-1 \r\n\r\n{}";
        let (head, len) = parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(len, text.len() - 2);
        assert_eq!(head.method, Method::Post);
        assert_eq!((head.path, head.query), ("/flows/acme/forward-order/enqueue", "x=1"));
        assert_eq!(head.framing, Framing::Length(2));
        assert_eq!(head.correlation_id, Field::Value(b"t-1"));
        assert!(!head.close);
    }

    #[test]
    fn every_prefix_of_a_head_asks_for_more() {
        let text = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
        for len in 0..text.len() {
            assert!(parse(&text.as_bytes()[..len]).unwrap().is_none(), "{len}");
        }
    }

    #[test]
    fn http_1_0_is_answered_and_closed() {
        assert!(head("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap().close);
        assert!(head("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n").unwrap().close);
        assert!(!head("GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n").unwrap().close);
    }

    #[test]
    fn an_absolute_target_is_read_as_its_path() {
        assert_eq!(head("GET http://a:1/b?c HTTP/1.1\r\n\r\n").unwrap().path, "/b");
        assert_eq!(head("GET http://a HTTP/1.1\r\n\r\n").unwrap().path, "/");
        assert_eq!(head("GET /x?u=http://a/b HTTP/1.1\r\n\r\n").unwrap().path, "/x");
    }

    #[test]
    fn whatever_two_readers_could_frame_differently_is_refused() {
        let bad = [
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -1\r\n",
            "Content-Length: 5,5\r\n",
            "Content-Length: 0x5\r\n",
            "Content-Length: 5 5\r\n",
            "Content-Length:\r\n",
            "Transfer-Encoding: xchunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding:\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding : chunked\r\n",
            " Transfer-Encoding: chunked\r\n",
            "X: a\r\n b\r\n",
            "X: a\r\n\tb\r\n",
            "X: a\nY: b\r\n",
            "X: a\rY: b\r\n",
            "X: a\0b\r\n",
            "X y: a\r\n",
            ": a\r\n",
            "X\r\n",
        ];
        for lines in bad {
            let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            let refused = parse(text.as_bytes()).map(|parsed| parsed.is_some());
            assert!(matches!(refused, Err(HttpError::BadHead(_))), "{lines:?}: {refused:?}");
        }
        let old = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert!(matches!(parse(old.as_bytes()), Err(HttpError::BadHead(_))));
    }

    #[test]
    fn request_lines_that_are_none_are_refused() {
        for line in [
            "GET / HTTP/2.0\r\n\r\n",
            "GET / HTTP/1.1\n\n",
            "\nGET / HTTP/1.1\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET /\r\n\r\n",
            "G\0T / HTTP/1.1\r\n\r\n",
            "GET /a b HTTP/1.1\r\n\r\n",
            "\x16\x03\x01\x02\x00\x01\x00",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn the_same_length_twice_and_a_length_beyond_numbers_are_lengths() {
        let text = "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(head(text).unwrap().framing, Framing::Length(5));
        let text = "POST / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n";
        assert_eq!(head(text).unwrap().framing, Framing::Length(u64::MAX));
    }

    #[test]
    fn heads_at_both_edges_of_their_bounds() {
        let lines = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(count));
        assert!(parse(lines(MAX_HEADERS).as_bytes()).unwrap().is_some());
        let refused = parse(lines(MAX_HEADERS + 1).as_bytes()).map(|_| ());
        assert_eq!(refused, Err(HttpError::TooManyHeaders));

        let empty = "GET / HTTP/1.1\r\nA: \r\n\r\n".len();
        let long = |len: usize| format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "b".repeat(len - empty));
        assert!(parse(long(MAX_HEAD_BYTES).as_bytes()).unwrap().is_some());
        let over = long(MAX_HEAD_BYTES + 1);
        assert_eq!(
            parse(&over.as_bytes()[..MAX_HEAD_BYTES]).map(|_| ()),
            Err(HttpError::HeadTooLong)
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_parsed_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let _ = parse(&bytes);
        }

        #[test]
        fn arbitrary_header_lines_are_parsed_or_refused(lines in "(([A-Za-z:\\-]{0,8}|Content-Length|Transfer-Encoding|Expect)[: ]{0,2}[ -~]{0,10}\r?\n?){0,6}") {
            let text = format!("POST / HTTP/1.1\r\n{lines}\r\n");
            let _ = parse(text.as_bytes());
        }
    }
}
