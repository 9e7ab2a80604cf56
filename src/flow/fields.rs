//! Typed reading of keys: each value has its kind and its range, or is an error that names key and
//! value.
//!
//! Nothing falls back silently: an unknown key is an error that suggests the nearest known one, a
//! value of the wrong kind is an error, and a number in quotes is no number.

use std::ops::RangeInclusive;

use crate::flow::problem::Problems;
use crate::flow::suggest::did_you_mean;
use crate::flow::yaml::{Entry, Kind, Node};

/// The entries of a mapping, taken out one by one.
pub(crate) struct Fields {
    entries: Vec<Entry>,
}

impl Fields {
    pub(crate) fn new(entries: Vec<Entry>) -> Fields {
        Fields { entries }
    }

    /// Takes the value of a key out.
    pub(crate) fn take(&mut self, key: &str) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(at))
    }

    /// Notes each key that was not taken as unknown.
    pub(crate) fn refuse_rest(self, known: &[&str], problems: &mut Problems<'_>) {
        for entry in self.entries {
            let help = did_you_mean(&entry.key, known)
                .unwrap_or_else(|| format!("known are {}", known.join(", ")));
            problems.error_with_help(entry.at, format!("unknown key `{}`", entry.key), help);
        }
    }
}

/// A value as a person wrote it, for an error.
fn written(node: &Node) -> String {
    match &node.kind {
        Kind::Null => "nothing".to_owned(),
        Kind::Plain(text) => format!("`{}`", shorten(text)),
        Kind::Quoted(text) => format!("the text {:?}", shorten(text)),
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) => "a mapping".to_owned(),
    }
}

fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain(['…']).collect()
}

fn wrong(entry: &Entry, wanted: &str, problems: &mut Problems<'_>) {
    let message = format!("`{}` must be {wanted}, and is {}", entry.key, written(&entry.value));
    let help = match &entry.value.kind {
        Kind::Quoted(text) if text.trim().parse::<f64>().is_ok() => {
            Some("a number in quotes is a text; leave the quotes out".to_owned())
        }
        Kind::Null => Some(format!("write `{}: VALUE`, or leave the key out", entry.key)),
        _ => None,
    };
    match help {
        Some(help) => problems.error_with_help(entry.value.at, message, help),
        None => problems.error(entry.value.at, message),
    }
}

/// Whether a scalar without quotes is a text for YAML, and no number, boolean or null.
fn is_text(plain: &str) -> bool {
    let number = plain.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))
        && plain.parse::<f64>().is_ok();
    !number && !matches!(plain, "true" | "false" | "True" | "False" | "TRUE" | "FALSE")
}

/// A text of one line.
pub(crate) fn text(entry: &Entry, problems: &mut Problems<'_>) -> Option<String> {
    let text = match &entry.value.kind {
        Kind::Quoted(text) => text,
        Kind::Plain(text) if is_text(text) => text,
        Kind::Plain(text) => {
            let message =
                format!("`{}` must be a text, and is {}", entry.key, written(&entry.value));
            let help = format!("write it in quotes: {}: \"{text}\"", entry.key);
            problems.error_with_help(entry.value.at, message, help);
            return None;
        }
        _ => {
            wrong(entry, "a text", problems);
            return None;
        }
    };
    if text.contains(['\n', '\r']) {
        problems.error(entry.value.at, format!("`{}` must be one line", entry.key));
        return None;
    }
    Some(text.clone())
}

/// A whole number in a range, in decimal digits.
pub(crate) fn whole(
    entry: &Entry,
    range: RangeInclusive<u64>,
    unit: &str,
    problems: &mut Problems<'_>,
) -> Option<u64> {
    let value = match &entry.value.kind {
        Kind::Plain(text) if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().ok().filter(|value| range.contains(value))
        }
        _ => None,
    };
    if value.is_none() {
        let unit = if unit.is_empty() { String::new() } else { format!(" of {unit}") };
        let (from, to) = (range.start(), range.end());
        let wanted = match *to {
            u64::MAX => format!("a whole number{unit} of at least {from}"),
            _ => format!("a whole number{unit} from {from} to {to}"),
        };
        wrong(entry, &wanted, problems);
    }
    value
}

/// A number with or without a fraction, finite and in a range.
pub(crate) fn number(
    entry: &Entry,
    range: RangeInclusive<f64>,
    problems: &mut Problems<'_>,
) -> Option<f64> {
    let value = match &entry.value.kind {
        Kind::Plain(text) if crate::document::scanner::is_number(text.as_bytes()) => {
            text.parse::<f64>().ok().filter(|value| value.is_finite() && range.contains(value))
        }
        _ => None,
    };
    if value.is_none() {
        let (from, to) = (range.start(), range.end());
        let wanted = match *to {
            f64::MAX => format!("a finite number of at least {from:.1}"),
            _ => format!("a number from {from} to {to}"),
        };
        wrong(entry, &wanted, problems);
    }
    value
}

/// `true` or `false`.
pub(crate) fn flag(entry: &Entry, problems: &mut Problems<'_>) -> Option<bool> {
    match &entry.value.kind {
        Kind::Plain(text) if text == "true" => Some(true),
        Kind::Plain(text) if text == "false" => Some(false),
        _ => {
            wrong(entry, "true or false", problems);
            None
        }
    }
}

/// A list.
pub(crate) fn list<'e>(entry: &'e Entry, problems: &mut Problems<'_>) -> Option<&'e [Node]> {
    match &entry.value.kind {
        Kind::List(items) => Some(items),
        _ => {
            wrong(entry, "a list in brackets, such as [http_egress]", problems);
            None
        }
    }
}

/// A mapping.
pub(crate) fn map<'e>(entry: &'e Entry, problems: &mut Problems<'_>) -> Option<&'e [Entry]> {
    match &entry.value.kind {
        Kind::Map(entries) => Some(entries),
        _ => {
            wrong(entry, "a mapping, such as {\"Name\": \"value\"}", problems);
            None
        }
    }
}

/// The text of a scalar, whether quoted or not.
pub(crate) fn scalar(node: &Node) -> Option<&str> {
    match &node.kind {
        Kind::Plain(text) | Kind::Quoted(text) => Some(text),
        _ => None,
    }
}
