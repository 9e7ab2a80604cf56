//! The rule for a name that becomes a path, as a type.
//!
//! A [`Name`] is 1 to 64 of `a-z`, `0-9`, `-` and `_`, and begins with a letter or a digit. A value
//! of the type cannot hold `../x`, a dot, an uppercase letter or a percent sign, so a path built
//! from it stays where it was built. The compiler, the HTTP door, the command line and the queue
//! all take names in through this file, and it is the only place that words the refusal.

use std::fmt;

use crate::base::limits::MAX_NAME_LEN;

/// One component of a queue's path: a tenant or a flow.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

/// Why a text is not a [`Name`]. It does not say whose name it was: [`NameError`] does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NameFault {
    /// The text is empty.
    Empty,
    /// The text has more than [`MAX_NAME_LEN`] bytes; the value is its length.
    TooLong(usize),
    /// The first character that is not allowed, and where it stands (counted in characters, from
    /// 1).
    Character(char, usize),
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameFault::Empty => write!(f, "it is empty"),
            NameFault::TooLong(len) => {
                write!(f, "it is {len} bytes long, and {MAX_NAME_LEN} are allowed")
            }
            NameFault::Character(c, 1) => {
                write!(f, "it begins with {c:?}; a name begins with a letter a-z or a digit")
            }
            NameFault::Character(c, at) => {
                write!(f, "it has {c:?} at position {at}; allowed are a-z, 0-9, '-' and '_'")
            }
        }
    }
}

/// A (tenant, flow) pair that breaks the rule. Its text names both and the character at fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "tenant {tenant:?}, flow {flow:?}: the {part} is not a name that can become a path: {fault}"
)]
pub struct NameError {
    /// The tenant as it was given, cut to a printable length.
    pub tenant: String,
    /// The flow as it was given, cut to a printable length.
    pub flow: String,
    /// `tenant` or `flow`: the one at fault.
    pub part: &'static str,
    /// What is wrong with it.
    pub fault: NameFault,
}

impl Name {
    /// Checks one text against the rule.
    ///
    /// # Errors
    /// The first fault found; the text is not otherwise used.
    pub fn parse(text: &str) -> Result<Name, NameFault> {
        if text.is_empty() {
            return Err(NameFault::Empty);
        }
        for (at, c) in text.chars().enumerate().take(MAX_NAME_LEN + 1) {
            let alphanumeric = c.is_ascii_lowercase() || c.is_ascii_digit();
            if !alphanumeric && (at == 0 || !matches!(c, '-' | '_')) {
                return Err(NameFault::Character(c, at + 1));
            }
        }
        if text.len() > MAX_NAME_LEN {
            return Err(NameFault::TooLong(text.len()));
        }
        Ok(Name(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl serde::Serialize for Name {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Name {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let text = String::deserialize(deserializer)?;
        Name::parse(&text).map_err(|fault| serde::de::Error::custom(format!("{text:?}: {fault}")))
    }
}

/// The (tenant, flow) pair that names one queue.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName {
    /// Whose queue it is.
    pub tenant: Name,
    /// The flow that is run on its messages.
    pub flow: Name,
}

impl QueueName {
    /// Checks a pair of texts against the rule.
    ///
    /// # Errors
    /// [`NameError`], naming both texts and the character at fault.
    pub fn parse(tenant: &str, flow: &str) -> Result<QueueName, NameError> {
        let blame =
            |part, fault| NameError { tenant: shorten(tenant), flow: shorten(flow), part, fault };
        Ok(QueueName {
            tenant: Name::parse(tenant).map_err(|fault| blame("tenant", fault))?,
            flow: Name::parse(flow).map_err(|fault| blame("flow", fault))?,
        })
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.flow)
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text from outside, cut so that an error that shows it stays readable.
fn shorten(text: &str) -> String {
    if text.len() <= 2 * MAX_NAME_LEN {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(MAX_NAME_LEN).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_at_both_edges_of_the_rule() {
        for good in ["a", "0", "forward-order", "a_b", "a-", &"x".repeat(64)] {
            assert_eq!(Name::parse(good).unwrap().as_str(), good);
        }
        let cases = [
            ("", NameFault::Empty),
            ("../x", NameFault::Character('.', 1)),
            (".", NameFault::Character('.', 1)),
            ("-a", NameFault::Character('-', 1)),
            ("_a", NameFault::Character('_', 1)),
            ("A", NameFault::Character('A', 1)),
            ("a.b", NameFault::Character('.', 2)),
            ("a/b", NameFault::Character('/', 2)),
            ("a\\b", NameFault::Character('\\', 2)),
            ("a%2fb", NameFault::Character('%', 2)),
            ("é", NameFault::Character('é', 1)),
            ("ſ", NameFault::Character('ſ', 1)),
            ("a\u{ff0f}b", NameFault::Character('\u{ff0f}', 2)),
            ("a\0", NameFault::Character('\0', 2)),
            ("a ", NameFault::Character(' ', 2)),
            ("segment.log", NameFault::Character('.', 8)),
        ];
        for (bad, fault) in cases {
            assert_eq!(Name::parse(bad), Err(fault), "{bad:?}");
        }
        assert_eq!(Name::parse(&"x".repeat(65)), Err(NameFault::TooLong(65)));
        assert_eq!(Name::parse(&"x".repeat(300)), Err(NameFault::TooLong(300)));
    }

    #[test]
    fn the_error_names_the_tenant_the_flow_and_the_character() {
        let error = QueueName::parse("acme", "../x").unwrap_err().to_string();
        assert_eq!(
            error,
            "tenant \"acme\", flow \"../x\": the flow is not a name that can become a path: \
             it begins with '.'; a name begins with a letter a-z or a digit"
        );
        let error = QueueName::parse("a.b", "x").unwrap_err().to_string();
        assert!(error.contains("the tenant") && error.contains("'.' at position 2"), "{error}");
        let long = QueueName::parse("acme", &"é".repeat(100_000)).unwrap_err().to_string();
        assert!(long.len() < 500, "an error stays readable: {} bytes", long.len());
    }

    proptest! {
        #[test]
        fn a_name_is_one_plain_path_component(text in ".{0,80}") {
            if let Ok(name) = Name::parse(&text) {
                let path = std::path::Path::new(name.as_str());
                let parts: Vec<_> = path.components().collect();
                prop_assert!(matches!(parts[..], [std::path::Component::Normal(_)]));
                prop_assert!(!name.as_str().contains('.'));
            }
        }
    }
}
