//! The tokens of JSON, for whoever reads it: the check at the door, the reader of documents, and
//! templates, which are JSON with placeholders.
//!
//! Promises: no recursion, no copy of the text, and every fault with its place. Not here: how
//! tokens make a document (`json`).

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use crate::base::limits::MAX_DOCUMENT_DEPTH;

/// What is wrong with a text that is not one JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonFault {
    /// Something else was expected here.
    Expected(&'static str),
    /// The text ends where something was expected.
    Ended(&'static str),
    /// Nothing but white space.
    Empty,
    /// A byte order mark stands before the document.
    ByteOrderMark,
    /// The bytes are not UTF-8.
    NotUtf8,
    /// Half of a surrogate pair stands alone.
    LoneSurrogate,
    /// A key comes twice in one object.
    DuplicateKey,
    /// More levels than allowed.
    TooDeep,
    /// The text is larger than the scanner can count.
    TooLong,
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonFault::Expected(what) => write!(f, "expected {what}"),
            JsonFault::Ended(what) => write!(f, "the text ends, and expected was {what}"),
            JsonFault::Empty => write!(f, "the text is empty, and expected was a JSON document"),
            JsonFault::ByteOrderMark => {
                write!(
                    f,
                    "expected a value, and there is a byte order mark; send UTF-8 without one"
                )
            }
            JsonFault::NotUtf8 => write!(f, "expected UTF-8, and this is none"),
            JsonFault::LoneSurrogate => {
                write!(f, "expected a whole surrogate pair, and there is half of one")
            }
            JsonFault::DuplicateKey => {
                write!(f, "expected a new key, and this one is in the object already")
            }
            JsonFault::TooDeep => {
                write!(f, "expected at most {MAX_DOCUMENT_DEPTH} levels of nesting")
            }
            JsonFault::TooLong => write!(f, "expected less than 4 GiB"),
        }
    }
}

/// A fault before its line and column are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) what: JsonFault,
}

/// A JSON string in the text, between its quotes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawString {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) escaped: bool,
}

impl RawString {
    /// The text that the string stands for.
    pub(crate) fn unescape(self, text: &str) -> Cow<'_, str> {
        let raw = &text[self.start as usize..self.end as usize];
        if self.escaped { Cow::Owned(chars(raw).collect()) } else { Cow::Borrowed(raw) }
    }

    /// Compares what two strings stand for, without building either.
    fn compare(&self, other: &RawString, text: &str) -> Ordering {
        let raw = |string: &RawString| &text[string.start as usize..string.end as usize];
        if self.escaped || other.escaped {
            return chars(raw(self)).cmp(chars(raw(other)));
        }
        raw(self).cmp(raw(other))
    }
}

/// Reads the tokens of JSON. The bytes are UTF-8.
pub(crate) struct Scanner<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl Scanner<'_> {
    /// The next byte that is not white space, without taking it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// The fault of not finding what was expected here.
    pub(crate) fn missing(&self, what: &'static str) -> Fault {
        let ended = self.at >= self.bytes.len();
        let what = if ended { JsonFault::Ended(what) } else { JsonFault::Expected(what) };
        Fault { at: self.at, what }
    }

    /// As [`Scanner::missing`], for whoever returns it.
    pub(crate) fn expected<T>(&self, what: &'static str) -> Result<T, Fault> {
        Err(self.missing(what))
    }

    /// Takes `true`, `false` or `null`.
    pub(crate) fn literal(&mut self, word: &'static str) -> Result<(), Fault> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return self.expected("a value");
        }
        self.at += word.len();
        Ok(())
    }

    /// Takes a number of any size.
    pub(crate) fn number(&mut self) -> Result<(usize, usize), Fault> {
        let start = self.at;
        if self.bytes.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        match self.bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok((start, self.at))
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start { self.expected("a digit") } else { Ok(()) }
    }

    /// Takes a string; the next byte is its opening quote.
    pub(crate) fn string(&mut self) -> Result<RawString, Fault> {
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    let end = self.at;
                    self.at += 1;
                    // The text is shorter than 4 GiB: `text_of` and the compiler's own bound see to
                    // it.
                    return Ok(RawString { start: start as u32, end: end as u32, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(0..0x20) => return self.expected("no control character in a string"),
                Some(_) => self.at += 1,
                None => return self.expected("the end of a string, '\"'"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let lone = Fault { at: start, what: JsonFault::LoneSurrogate };
                match self.hex()? {
                    0xDC00..=0xDFFF => return Err(lone),
                    0xD800..=0xDBFF => {
                        if !self.bytes[self.at..].starts_with(b"\\u") {
                            return Err(lone);
                        }
                        self.at += 1;
                        if !matches!(self.hex()?, 0xDC00..=0xDFFF) {
                            return Err(lone);
                        }
                    }
                    _ => {}
                }
            }
            _ => return self.expected("an escape: one of \" \\ / b f n r t u"),
        }
        Ok(())
    }

    /// Takes `uXXXX`.
    fn hex(&mut self) -> Result<u32, Fault> {
        self.at += 1;
        let mut value = 0;
        for _ in 0..4 {
            match self.bytes.get(self.at).and_then(|byte| (*byte as char).to_digit(16)) {
                Some(digit) => value = value << 4 | digit,
                None => return self.expected("four hexadecimal digits after \\u"),
            }
            self.at += 1;
        }
        Ok(value)
    }
}

/// The characters that a string stands for, its escapes resolved. The scanner has accepted it.
fn chars(raw: &str) -> impl Iterator<Item = char> {
    let mut rest = raw;
    std::iter::from_fn(move || {
        let (c, len) = match rest.chars().next()? {
            '\\' => one_escape(rest),
            c => (c, c.len_utf8()),
        };
        rest = &rest[len..];
        Some(c)
    })
}

/// The character of the escape at the start of `raw`, and how many bytes the escape has.
pub(crate) fn one_escape(raw: &str) -> (char, usize) {
    let hex = |at: usize| raw.get(at..at + 4).and_then(|d| u32::from_str_radix(d, 16).ok());
    let c = match raw.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let first = hex(2).unwrap_or(0xFFFD);
            if let 0xD800..=0xDBFF = first {
                let second = hex(8).unwrap_or(0xDC00);
                let code =
                    0x10000 + ((first - 0xD800) << 10) + (second.wrapping_sub(0xDC00) & 0x3FF);
                return (char::from_u32(code).unwrap_or('\u{FFFD}'), 12);
            }
            return (char::from_u32(first).unwrap_or('\u{FFFD}'), 6);
        }
        Some(byte) => *byte as char,
        None => '\\',
    };
    (c, 2)
}

/// Whether the bytes are a JSON number and nothing else.
pub(crate) fn is_number(bytes: &[u8]) -> bool {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.number().is_ok() && scanner.at == bytes.len()
}

/// Keys up to which each is compared with each; more are sorted.
const FEW_KEYS: usize = 16;

/// Finds a key that comes twice in one object.
pub(crate) fn check_keys(keys: &[RawString], text: &str) -> Result<(), Fault> {
    if keys.len() <= FEW_KEYS {
        for (at, key) in keys.iter().enumerate() {
            if keys[..at].iter().any(|before| before.compare(key, text).is_eq()) {
                return Err(duplicate(key));
            }
        }
        return Ok(());
    }
    let mut sorted = keys.to_vec();
    sorted.sort_unstable_by(|a, b| a.compare(b, text).then(a.start.cmp(&b.start)));
    match sorted.windows(2).find(|pair| pair[0].compare(&pair[1], text).is_eq()) {
        Some(pair) => Err(duplicate(&pair[1])),
        None => Ok(()),
    }
}

fn duplicate(key: &RawString) -> Fault {
    // At its opening quote.
    Fault { at: key.start as usize - 1, what: JsonFault::DuplicateKey }
}
