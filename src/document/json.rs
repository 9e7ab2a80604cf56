//! JSON: one scanner, used to check a message at the door and to read a document into a [`Value`].
//!
//! Accepted is one document as RFC 8259 has it, in UTF-8 without a byte order mark, at most
//! [`MAX_DOCUMENT_DEPTH`] deep, with no key twice in an object (after unescaping) and no lone
//! surrogate. Numbers may be of any size: they are kept by their text. So whoever reads the stored
//! bytes later, here or downstream, sees the same document.
//!
//! The check is on the path of every submission: one pass, no recursion, no allocation but one list
//! of keys. Not here: what a flow does with a document.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use crate::base::limits::MAX_DOCUMENT_DEPTH;
use crate::document::{Number, Object, Value};

/// Why a text is not one JSON document, and where. The text of the error never repeats the
/// document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// Byte offset from 0.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What was expected, or which rule is broken.
    pub fault: JsonFault,
}

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

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.fault)
    }
}

impl std::error::Error for JsonError {}

/// Checks that the bytes are one JSON document by the rules above.
///
/// # Errors
/// The first fault, with its line and column.
pub fn validate(bytes: &[u8]) -> Result<(), JsonError> {
    let text = text_of(bytes)?;
    walk(text, &mut Nothing).map_err(|fault| fault.locate(bytes))
}

/// Reads one JSON document by the rules above.
///
/// # Errors
/// The first fault, with its line and column.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let text = text_of(bytes)?;
    let mut tree = Tree { text, open: Vec::new(), done: Value::Null };
    walk(text, &mut tree).map_err(|fault| fault.locate(bytes))?;
    Ok(tree.done)
}

/// Whether the bytes are a JSON number and nothing else.
pub(crate) fn is_number(bytes: &[u8]) -> bool {
    let mut scanner = Scanner { bytes, at: 0 };
    scanner.number().is_ok() && scanner.at == bytes.len()
}

fn text_of(bytes: &[u8]) -> Result<&str, JsonError> {
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(Fault { at: 0, what: JsonFault::ByteOrderMark }.locate(bytes));
    }
    if u32::try_from(bytes.len()).is_err() {
        return Err(Fault { at: 0, what: JsonFault::TooLong }.locate(bytes));
    }
    std::str::from_utf8(bytes)
        .map_err(|error| Fault { at: error.valid_up_to(), what: JsonFault::NotUtf8 }.locate(bytes))
}

/// A fault before its line and column are counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) at: usize,
    pub(crate) what: JsonFault,
}

impl Fault {
    fn locate(self, bytes: &[u8]) -> JsonError {
        let before = &bytes[..self.at.min(bytes.len())];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let column = 1 + before[start..].iter().filter(|byte| (**byte as i8) >= -0x40).count();
        JsonError { offset: self.at, line, column, fault: self.what }
    }
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
    pub(crate) fn expected<T>(&self, what: &'static str) -> Result<T, Fault> {
        let ended = self.at >= self.bytes.len();
        let what = if ended { JsonFault::Ended(what) } else { JsonFault::Expected(what) };
        Err(Fault { at: self.at, what })
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

/// What is done with the parts of a document as they are read.
trait Sink {
    fn literal(&mut self, value: Value);
    fn number(&mut self, start: usize, end: usize);
    fn string(&mut self, raw: RawString);
    fn key(&mut self, raw: RawString);
    fn begin(&mut self, list: bool);
    fn end(&mut self);
}

/// The sink of the check: nothing is kept.
struct Nothing;

impl Sink for Nothing {
    fn literal(&mut self, _: Value) {}
    fn number(&mut self, _: usize, _: usize) {}
    fn string(&mut self, _: RawString) {}
    fn key(&mut self, _: RawString) {}
    fn begin(&mut self, _: bool) {}
    fn end(&mut self) {}
}

/// The sink that builds the value.
struct Tree<'a> {
    text: &'a str,
    open: Vec<Open>,
    done: Value,
}

enum Open {
    List(Vec<Value>),
    Object { members: Vec<(String, Value)>, key: String },
}

impl Tree<'_> {
    fn put(&mut self, value: Value) {
        match self.open.last_mut() {
            Some(Open::List(items)) => items.push(value),
            Some(Open::Object { members, key }) => members.push((std::mem::take(key), value)),
            None => self.done = value,
        }
    }
}

impl Sink for Tree<'_> {
    fn literal(&mut self, value: Value) {
        self.put(value);
    }

    fn number(&mut self, start: usize, end: usize) {
        self.put(Value::Number(Number::from_json_text(&self.text[start..end])));
    }

    fn string(&mut self, raw: RawString) {
        self.put(Value::String(raw.unescape(self.text).into_owned()));
    }

    fn key(&mut self, raw: RawString) {
        if let Some(Open::Object { key, .. }) = self.open.last_mut() {
            *key = raw.unescape(self.text).into_owned();
        }
    }

    fn begin(&mut self, list: bool) {
        self.open.push(if list {
            Open::List(Vec::new())
        } else {
            Open::Object { members: Vec::new(), key: String::new() }
        });
    }

    fn end(&mut self) {
        match self.open.pop() {
            Some(Open::List(items)) => self.put(Value::List(items)),
            Some(Open::Object { members, .. }) => {
                self.put(Value::Object(Object::from_members(members)));
            }
            None => {}
        }
    }
}

/// The containers that are open, innermost last, and the keys of those that are objects.
struct Nesting<'a> {
    text: &'a str,
    /// For each level the index of its first key, or [`Nesting::LIST`].
    levels: [u32; MAX_DOCUMENT_DEPTH],
    depth: usize,
    keys: Vec<RawString>,
}

impl Nesting<'_> {
    const LIST: u32 = u32::MAX;

    fn open(&mut self, at: usize, list: bool) -> Result<(), Fault> {
        let Some(level) = self.levels.get_mut(self.depth) else {
            return Err(Fault { at, what: JsonFault::TooDeep });
        };
        *level = if list { Self::LIST } else { self.keys.len() as u32 };
        self.depth += 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        self.depth -= 1;
        let first = self.levels[self.depth];
        if first != Self::LIST {
            check_keys(&self.keys[first as usize..], self.text)?;
            self.keys.truncate(first as usize);
        }
        Ok(())
    }

    /// `None` outside of any container, else whether it is a list.
    fn innermost_is_list(&self) -> Option<bool> {
        let level = self.depth.checked_sub(1)?;
        Some(self.levels[level] == Self::LIST)
    }
}

/// Walks over the one document in `text`.
fn walk<S: Sink>(text: &str, sink: &mut S) -> Result<(), Fault> {
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0 };
    let mut nesting = Nesting { text, levels: [0; MAX_DOCUMENT_DEPTH], depth: 0, keys: Vec::new() };
    if scanner.peek().is_none() {
        return Err(Fault { at: scanner.at, what: JsonFault::Empty });
    }
    loop {
        if begin_value(&mut scanner, &mut nesting, sink)? {
            continue;
        }
        if !after_value(&mut scanner, &mut nesting, sink)? {
            return Ok(());
        }
    }
}

/// Takes one value, or opens a container; true when a value inside of it comes next.
fn begin_value<S: Sink>(
    scanner: &mut Scanner<'_>,
    nesting: &mut Nesting<'_>,
    sink: &mut S,
) -> Result<bool, Fault> {
    match scanner.peek() {
        Some(b'"') => sink.string(scanner.string()?),
        Some(b'-' | b'0'..=b'9') => {
            let (start, end) = scanner.number()?;
            sink.number(start, end);
        }
        Some(b'{') => {
            nesting.open(scanner.at, false)?;
            sink.begin(false);
            scanner.at += 1;
            if scanner.peek() != Some(b'}') {
                key(scanner, nesting, sink, "a key in double quotes, or '}'")?;
                return Ok(true);
            }
            close(scanner, nesting, sink)?;
        }
        Some(b'[') => {
            nesting.open(scanner.at, true)?;
            sink.begin(true);
            scanner.at += 1;
            if scanner.peek() != Some(b']') {
                return Ok(true);
            }
            close(scanner, nesting, sink)?;
        }
        Some(b't') => {
            scanner.literal("true")?;
            sink.literal(Value::Bool(true));
        }
        Some(b'f') => {
            scanner.literal("false")?;
            sink.literal(Value::Bool(false));
        }
        Some(b'n') => {
            scanner.literal("null")?;
            sink.literal(Value::Null);
        }
        _ => return scanner.expected("a value"),
    }
    Ok(false)
}

/// Goes from the end of a value to where the next begins; false at the end of the document.
fn after_value<S: Sink>(
    scanner: &mut Scanner<'_>,
    nesting: &mut Nesting<'_>,
    sink: &mut S,
) -> Result<bool, Fault> {
    loop {
        let next = scanner.peek();
        match (nesting.innermost_is_list(), next) {
            (None, None) => return Ok(false),
            (None, Some(_)) => return scanner.expected("the end, after one document"),
            (Some(true), Some(b',')) => {
                scanner.at += 1;
                return Ok(true);
            }
            (Some(false), Some(b',')) => {
                scanner.at += 1;
                key(scanner, nesting, sink, "a key in double quotes")?;
                return Ok(true);
            }
            (Some(true), Some(b']')) | (Some(false), Some(b'}')) => close(scanner, nesting, sink)?,
            (Some(true), _) => return scanner.expected("',' or ']'"),
            (Some(false), _) => return scanner.expected("',' or '}'"),
        }
    }
}

fn close<S: Sink>(
    scanner: &mut Scanner<'_>,
    nesting: &mut Nesting<'_>,
    sink: &mut S,
) -> Result<(), Fault> {
    scanner.at += 1;
    nesting.close()?;
    sink.end();
    Ok(())
}

/// Takes a key and its colon.
fn key<S: Sink>(
    scanner: &mut Scanner<'_>,
    nesting: &mut Nesting<'_>,
    sink: &mut S,
    expected: &'static str,
) -> Result<(), Fault> {
    if scanner.peek() != Some(b'"') {
        return scanner.expected(expected);
    }
    let raw = scanner.string()?;
    nesting.keys.push(raw);
    sink.key(raw);
    if scanner.peek() != Some(b':') {
        return scanner.expected("':'");
    }
    scanner.at += 1;
    Ok(())
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

#[cfg(test)]
mod tests;
