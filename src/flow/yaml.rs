//! `key: value` text as nodes that know their places: the front matter, and the properties of a
//! step.
//!
//! Promises: a scalar keeps the text that was written and whether it was quoted, so that `"2"` is
//! not taken for a number nor `0x3` for 3; anchors, aliases and merge keys are refused. Not here:
//! which keys there are and what they may hold (`fields`, `front_matter`, `step`).

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Location, Spanned};

use crate::flow::problem::Problems;
use crate::flow::source::Excerpt;

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Byte offset in the source of the flow.
    pub at: usize,
    /// What it is.
    pub kind: Kind,
}

/// What a [`Node`] is.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Nothing, `null` or `~`.
    Null,
    /// A scalar without quotes, as it was written.
    Plain(String),
    /// A scalar in quotes, or a block of text.
    Quoted(String),
    /// A list.
    List(Vec<Node>),
    /// Keys and values, in order.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Byte offset of the key in the source of the flow.
    pub at: usize,
    /// The value.
    pub value: Node,
}

/// Levels of nesting that are read: more than any key needs, and few enough for any stack.
const MAX_DEPTH: usize = 8;

/// Reads an excerpt that is one mapping. `None` when it is not, which is noted.
pub(crate) fn read(excerpt: &Excerpt, problems: &mut Problems<'_>) -> Option<Vec<Entry>> {
    if excerpt.text.trim().is_empty() {
        return Some(Vec::new());
    }
    let options = serde_saphyr::options! {
        strict_booleans: true,
        reject_non_finite_typeless_float: false,
        merge_keys: serde_saphyr::MergeKeyPolicy::AsOrdinary,
        with_snippet: false,
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
    };
    let reader = Reader { excerpt };
    let raw: Spanned<Raw> = match serde_saphyr::from_str_with_options(&excerpt.text, options) {
        Ok(raw) => raw,
        Err(error) => {
            let at = error.location().map_or(0, |location| reader.offset(&location));
            problems.error_with_help(
                excerpt.place(at),
                syntax_fault(&error),
                "a value with `: `, `#`, `{`, `[` or `@` in it stands in quotes; a space follows \
                 the colon of a key",
            );
            return None;
        }
    };
    match reader.node(&raw) {
        Ok(Node { kind: Kind::Map(entries), .. }) => Some(entries),
        Ok(Node { at, .. }) => {
            problems.error(at, "expected lines of `key: value`");
            None
        }
        Err(at) => {
            problems.error(at, "anchors and aliases are not used here; write the value out");
            None
        }
    }
}

fn syntax_fault(error: &Error) -> String {
    let text = error.without_snippet().render();
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("");
    let reason = first.trim_start_matches("error: ");
    // Its own place counts from the start of the excerpt, and its advice is for programmers.
    let reason = reason.split(" at line ").next().unwrap_or(reason);
    let reason = reason.split(", set ").next().unwrap_or(reason);
    format!("this is not YAML: {reason}")
}

/// A value as the YAML parser gives it.
enum Raw {
    Null,
    /// A text that the parser resolved, or a scalar whose text is taken from the source.
    Scalar(Option<String>),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Key>, Spanned<Raw>)>),
}

/// A key, whatever scalar it is.
struct Key(String);

struct Reader<'e> {
    excerpt: &'e Excerpt,
}

impl Reader<'_> {
    /// `Err` with the place of an alias.
    fn node(&self, raw: &Spanned<Raw>) -> Result<Node, usize> {
        let at = self.excerpt.place(self.offset(&raw.referenced));
        if raw.referenced != raw.defined {
            return Err(at);
        }
        let kind = match &raw.value {
            Raw::Null => Kind::Null,
            Raw::Scalar(text) => self.scalar(text.as_deref(), &raw.referenced),
            Raw::List(items) => {
                let items: Result<Vec<Node>, usize> =
                    items.iter().map(|item| self.node(item)).collect();
                Kind::List(items?)
            }
            Raw::Map(entries) => {
                let entries: Result<Vec<Entry>, usize> = entries
                    .iter()
                    .map(|(key, value)| {
                        let at = self.excerpt.place(self.offset(&key.referenced));
                        Ok(Entry { key: key.value.0.clone(), at, value: self.node(value)? })
                    })
                    .collect();
                Kind::Map(entries?)
            }
        };
        Ok(Node { at, kind })
    }

    fn scalar(&self, resolved: Option<&str>, location: &Location) -> Kind {
        let written = self.written(location).unwrap_or_default().trim();
        match resolved {
            Some(text) if written.starts_with(['"', '\'', '!']) || is_block(text) => {
                Kind::Quoted(text.to_owned())
            }
            // Folded from several lines, or its place is not known.
            Some(text) if written.is_empty() || written.contains('\n') => {
                Kind::Plain(text.to_owned())
            }
            _ => Kind::Plain(written.to_owned()),
        }
    }

    /// The text of a scalar as it was written.
    fn written(&self, location: &Location) -> Option<&str> {
        let start = self.offset(location);
        let len = usize::try_from(location.span().byte_len()?).ok()?;
        self.excerpt.text.get(start..start.checked_add(len)?)
    }

    fn offset(&self, location: &Location) -> usize {
        let text = &self.excerpt.text;
        let offset = location.span().byte_offset().and_then(|at| usize::try_from(at).ok());
        if let Some(at) = offset.filter(|at| *at <= text.len()) {
            return at;
        }
        let line = usize::try_from(location.line()).unwrap_or(1).max(1);
        text.split_inclusive('\n').take(line - 1).map(str::len).sum()
    }
}

/// Whether a text that the parser resolved was a block: a plain scalar has no line break, and one
/// that is a number is resolved to a number.
fn is_block(resolved: &str) -> bool {
    resolved.contains('\n') || crate::document::scanner::is_number(resolved.as_bytes())
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Raw, D::Error> {
        struct RawVisitor;
        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_bool<E>(self, _: bool) -> Result<Raw, E> {
                Ok(Raw::Scalar(None))
            }
            fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
                Ok(Raw::Scalar(None))
            }
            fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
                Ok(Raw::Scalar(None))
            }
            fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
                Ok(Raw::Scalar(None))
            }
            fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
                Ok(Raw::Scalar(Some(text.to_owned())))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Raw, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    items.push(item);
                }
                Ok(Raw::List(items))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Raw::Map(entries))
            }
        }
        deserializer.deserialize_any(RawVisitor)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        String::deserialize(deserializer).map(Key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(text: &str) -> Result<Vec<Entry>, String> {
        let mut problems = Problems::new(text);
        let entries = read(&Excerpt::contiguous(text, 0), &mut problems);
        match problems.into_sorted().first() {
            Some(problem) => Err(problem.to_string()),
            None => Ok(entries.unwrap()),
        }
    }

    fn kind(value: &str) -> Kind {
        let entries = entries(&format!("a: {value}\nb: 1\n")).unwrap();
        assert_eq!((entries[0].key.as_str(), entries.len()), ("a", 2));
        entries[0].value.kind.clone()
    }

    #[test]
    fn a_scalar_keeps_its_text_and_whether_it_was_quoted() {
        for plain in [
            "2",
            "2.0",
            "0x3",
            "1e3",
            "1e400",
            ".inf",
            "NaN",
            ".nan",
            "-1",
            "0o7",
            "1_000",
            "true",
            "forward-order",
            "https://x.example/a#b",
            "2,0",
            "4xx",
            "007",
            "+5",
            "yes",
            "http://127.0.0.1:9090/{{ $.id }}",
            "é",
        ] {
            assert_eq!(kind(plain), Kind::Plain(plain.to_owned()), "{plain}");
        }
        assert_eq!(kind("2   # two"), Kind::Plain("2".into()));
        assert_eq!(kind("\"2\""), Kind::Quoted("2".into()));
        assert_eq!(kind("'2'"), Kind::Quoted("2".into()));
        assert_eq!(kind("\"{{ $.a }}\""), Kind::Quoted("{{ $.a }}".into()));
        assert_eq!(kind("\"\""), Kind::Quoted("".into()));
        assert_eq!(kind("|\n  text\n"), Kind::Quoted("text\n".into()));
        assert_eq!(kind("|-\n  2\n"), Kind::Quoted("2".into()));
        assert_eq!(kind("two\n  lines"), Kind::Plain("two lines".into()));
        for null in ["", "null", "~"] {
            assert_eq!(kind(null), Kind::Null, "{null:?}");
        }
    }

    #[test]
    fn lists_and_maps_keep_order_and_places() {
        let text = "effects: [http_egress, \"x\"]\nheaders: {\"K\": \"{{ a }}\",\n  b: c}\n";
        let entries = entries(text).unwrap();
        let Kind::List(items) = &entries[0].value.kind else { panic!() };
        assert_eq!(&text[items[1].at..items[1].at + 3], "\"x\"");
        let Kind::Map(headers) = &entries[1].value.kind else { panic!() };
        assert_eq!(&text[headers[1].at..headers[1].at + 4], "b: c");
        assert_eq!(&text[entries[1].at..entries[1].at + 7], "headers");
    }

    #[test]
    fn what_is_not_plain_yaml_is_refused_at_its_place() {
        assert!(entries("a: 1\na: 2\n").unwrap_err().starts_with("2:1: error: this is not YAML"));
        assert!(entries("a: [1\nb: 2\n").is_err());
        assert!(entries("a: &x 1\nb: *x\n").unwrap_err().contains("anchors and aliases"));
        assert!(entries("- a\n- b\n").unwrap_err().contains("expected lines of `key: value`"));
        assert!(entries("just text").is_err());
        assert_eq!(entries("<<: {a: 1}\n").unwrap()[0].key, "<<");
        assert!(entries("a: \"x\n").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = entries(&text);
        }

        #[test]
        fn no_yaml_makes_it_panic(text in "(a|: |- |\n|  |\\[|\\]|\\{|\\}|,|\"|'|&x |\\*x|!!int \
         |#|\\||>|é|1|~|---|<<){0,24}") {
            let _ = entries(&text);
        }
    }
}
