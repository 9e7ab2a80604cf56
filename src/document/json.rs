//! JSON: checks a message at the door, and reads a document into a [`Value`].
//!
//! Accepted is one document as RFC 8259 has it, in UTF-8 without a byte order mark, at most
//! [`MAX_DOCUMENT_DEPTH`] deep, with no key twice in an object (after unescaping) and no lone
//! surrogate. Numbers may be of any size: they are kept by their text. So whoever reads the stored
//! bytes later, here or downstream, sees the same document.
//!
//! The check is on the path of every submission: one pass, no recursion, no allocation but one list
//! of keys. Not here: what a flow does with a document.

use std::fmt;

use crate::base::limits::MAX_DOCUMENT_DEPTH;
use crate::document::scanner::{Fault, JsonFault, RawString, Scanner, check_keys};
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
    walk(text, &mut Nothing).map_err(|fault| locate(fault, bytes))
}

/// Reads one JSON document by the rules above.
///
/// # Errors
/// The first fault, with its line and column.
pub fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let text = text_of(bytes)?;
    let mut tree = Tree { text, open: Vec::new(), done: Value::Null };
    walk(text, &mut tree).map_err(|fault| locate(fault, bytes))?;
    Ok(tree.done)
}

/// A fault with its line and column.
fn locate(fault: Fault, bytes: &[u8]) -> JsonError {
    let before = &bytes[..fault.at.min(bytes.len())];
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let column = 1 + before[start..].iter().filter(|byte| (**byte as i8) >= -0x40).count();
    JsonError { offset: fault.at, line, column, fault: fault.what }
}

fn text_of(bytes: &[u8]) -> Result<&str, JsonError> {
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        return Err(locate(Fault { at: 0, what: JsonFault::ByteOrderMark }, bytes));
    }
    if u32::try_from(bytes.len()).is_err() {
        return Err(locate(Fault { at: 0, what: JsonFault::TooLong }, bytes));
    }
    std::str::from_utf8(bytes)
        .map_err(|error| locate(Fault { at: error.valid_up_to(), what: JsonFault::NotUtf8 }, bytes))
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

#[cfg(test)]
mod tests;
