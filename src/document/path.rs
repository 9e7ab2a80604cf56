//! Singular paths as RFC 9535 (JSONPath) has them: `$.a.b`, `$.list[0]`, `$.list[-1]`, `$["odd
//! key"]`.
//!
//! A singular path leads to one value or nowhere; wildcards, slices, filters and `..` are refused
//! by name. Not here: which document a path starts in, and what it means that it leads nowhere
//! (both are the flow's matter).

use std::fmt;

use crate::document::Value;
use crate::document::{json, scanner};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// The value of a key.
    Key(String),
    /// An item of a list; counted from the end when negative.
    Index(i64),
}

/// A text that is no singular path, or no string literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    /// Byte offset in the text that was read.
    pub at: usize,
    /// What is wrong.
    pub text: String,
}

/// The largest index that RFC 9535 allows, 2^53 - 1.
const MAX_INDEX: i64 = (1 << 53) - 1;

/// Follows the segments from `root`; `None` when they lead nowhere.
pub fn lookup<'v>(root: &'v Value, segments: &[Segment]) -> Option<&'v Value> {
    segments.iter().try_fold(root, |value, segment| match (segment, value) {
        (Segment::Key(key), Value::Object(object)) => object.get(key),
        (Segment::Index(index), Value::List(items)) => {
            let at = if *index < 0 {
                items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?)?
            } else {
                usize::try_from(*index).ok()?
            };
            items.get(at)
        }
        _ => None,
    })
}

/// Reads the segments that begin at byte `at` of `text`: as many as there are, none included. Gives
/// them and where they end.
///
/// # Errors
/// [`PathError`] when a segment begins and is none of a singular path.
pub fn parse_segments(text: &str, at: usize) -> Result<(Vec<Segment>, usize), PathError> {
    let mut segments = Vec::new();
    let mut end = at;
    loop {
        let next = skip_space(text, end);
        let (segment, after) = match text.as_bytes().get(next) {
            Some(b'.') => dot_segment(text, next)?,
            Some(b'[') => bracket_segment(text, next)?,
            _ => return Ok((segments, end)),
        };
        segments.push(segment);
        end = after;
    }
}

fn dot_segment(text: &str, at: usize) -> Result<(Segment, usize), PathError> {
    let rest = &text[at + 1..];
    match rest.chars().next() {
        Some('.') => return error(at, "'..' can lead to many values; only one can be meant here"),
        Some('*') => return error(at, "'.*' can lead to many values; only one can be meant here"),
        Some(c) if is_name_start(c) => {}
        _ => return error(at + 1, "expected a key after '.'; write other keys as [\"key\"]"),
    }
    let len = rest.find(|c| !is_name_start(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
    Ok((Segment::Key(rest[..len].to_owned()), at + 1 + len))
}

fn bracket_segment(text: &str, at: usize) -> Result<(Segment, usize), PathError> {
    let inner = skip_space(text, at + 1);
    let (segment, after) = match text.as_bytes().get(inner) {
        Some(b'"' | b'\'') => {
            let (key, after) = string_literal(text, inner)?;
            (Segment::Key(key), after)
        }
        Some(b'-' | b'0'..=b'9') => index(text, inner)?,
        Some(b'*' | b'?' | b':') => {
            return error(inner, "only one index or one key in quotes can be meant here");
        }
        _ => return error(inner, "expected an index, or a key in quotes, after '['"),
    };
    let close = skip_space(text, after);
    if text.as_bytes().get(close) != Some(&b']') {
        return error(close, "expected ']'");
    }
    Ok((segment, close + 1))
}

fn index(text: &str, at: usize) -> Result<(Segment, usize), PathError> {
    let rest = &text[at..];
    let len = rest[1..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |len| len + 1);
    let digits = rest[..len].trim_start_matches('-');
    let plain = rest[..len] == *"0" || digits.starts_with(|c: char| ('1'..='9').contains(&c));
    match rest[..len].parse::<i64>() {
        Ok(index) if plain && index.abs() <= MAX_INDEX => Ok((Segment::Index(index), at + len)),
        _ => error(at, "an index is a whole number without leading zeros, at most 2^53 - 1"),
    }
}

/// Reads the text in single or double quotes that begins at byte `at`, with the escapes of JSON and
/// `\'`. Gives it and where it ends.
///
/// # Errors
/// [`PathError`] when there is no such literal.
pub fn string_literal(text: &str, at: usize) -> Result<(String, usize), PathError> {
    let quote = text.as_bytes()[at] as char;
    let mut value = String::new();
    let mut end = at + 1;
    loop {
        let Some(c) = text[end..].chars().next() else {
            return error(at, "this text has no closing quote");
        };
        match c {
            _ if c == quote => return Ok((value, end + 1)),
            '\\' => {
                let (c, len) = escape(text, end, quote)?;
                value.push(c);
                end += len;
            }
            _ => {
                value.push(c);
                end += c.len_utf8();
            }
        }
    }
}

fn escape(text: &str, at: usize, quote: char) -> Result<(char, usize), PathError> {
    let next = text.as_bytes().get(at + 1).map(|byte| *byte as char);
    if next == Some(quote) {
        return Ok((quote, 2));
    }
    let wrong = "not an escape; use \\\\ \\/ \\b \\f \\n \\r \\t or \\uXXXX";
    let len = match next {
        Some('\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => 2,
        Some('u') => escape_len(&text[at..]),
        _ => return error(at, wrong),
    };
    // The scanner of JSON knows which escapes there are and which are half of a pair.
    let Some(raw) = text.get(at..at + len) else { return error(at, wrong) };
    match json::parse(format!("\"{raw}\"").as_bytes()) {
        Ok(_) => Ok(scanner::one_escape(raw)),
        Err(_) => error(at, wrong),
    }
}

/// Bytes of the `\uXXXX`, or the pair of them, at the start of `raw`.
fn escape_len(raw: &str) -> usize {
    let high = raw
        .get(2..4)
        .is_some_and(|digits| matches!(u8::from_str_radix(digits, 16), Ok(0xD8..=0xDB)));
    if high { 12 } else { 6 }
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn skip_space(text: &str, at: usize) -> usize {
    at + text[at..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

fn error<T>(at: usize, text: &str) -> Result<T, PathError> {
    Err(PathError { at, text: text.to_owned() })
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Segment::Index(index) => write!(f, "[{index}]"),
            Segment::Key(key) => {
                let plain = key.starts_with(is_name_start)
                    && key.chars().all(|c| is_name_start(c) || c.is_ascii_digit());
                if plain {
                    write!(f, ".{key}")
                } else {
                    write!(f, "[{}]", Value::String(key.clone()).to_json())
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(path: &str) -> Option<String> {
        let document = json::parse(
            br#"{"a":{"b":[10,20,[30]]},"odd key":1,"it's":2,"q\"":3,"\u00e9":4,"n":null}"#,
        )
        .unwrap();
        let (segments, end) = parse_segments(path, 1).unwrap();
        assert_eq!(end, path.len(), "{path}");
        lookup(&document, &segments).map(Value::to_json)
    }

    #[test]
    fn paths_lead_to_one_value_or_nowhere() {
        let cases = [
            ("$.a.b[1]", Some("20")),
            ("$.a.b[-1][0]", Some("30")),
            ("$[ 'a' ] .b [ 0 ]", Some("10")),
            ("$[\"odd key\"]", Some("1")),
            ("$['it\\'s']", Some("2")),
            ("$[\"q\\\"\"]", Some("3")),
            ("$.é", Some("4")),
            ("$['\\u00e9']", Some("4")),
            ("$.n", Some("null")),
            ("$.a.b[3]", None),
            ("$.a.b[-4]", None),
            ("$.a[0]", None),
            ("$.x.y", None),
            ("$.n.y", None),
        ];
        for (path, value) in cases {
            assert_eq!(find(path).as_deref(), value, "{path}");
        }
    }

    #[test]
    fn paths_that_are_not_singular_are_refused() {
        for bad in [
            "$..a",
            "$.*",
            "$[*]",
            "$[1:2]",
            "$[?@.a]",
            "$.",
            "$.1",
            "$[01]",
            "$[-0]",
            "$['a'",
            "$[a]",
            "$[0,1]",
            "$['\\x']",
            "$['a]",
            "$['\\ud800']",
            "$[9007199254740992]",
            "$[]",
            "$[-]",
        ] {
            assert!(parse_segments(bad, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_path_is_shown_as_it_is_written() {
        let (segments, _) = parse_segments("$.a['b c'][-1]", 1).unwrap();
        let shown: String = segments.iter().map(Segment::to_string).collect();
        assert_eq!(shown, ".a[\"b c\"][-1]");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[$.\\[\\]'\"\\\\u0-9a-fé *:?-]{0,20}") {
            let _ = parse_segments(&text, 0);
        }

        #[test]
        fn a_key_of_any_text_is_shown_and_read_back(key in any::<String>()) {
            let shown = Segment::Key(key.clone()).to_string();
            let (read, end) = parse_segments(&shown, 0).unwrap();
            prop_assert_eq!(end, shown.len());
            prop_assert_eq!(read, vec![Segment::Key(key)]);
        }
    }
}
