//! A document in memory.
//!
//! Promises: what is read and written again says the same: keys stay in order, numbers keep their
//! text. Not here: reading (`json`, `flatten`), finding (`path`), computing (`number`).

use crate::document::Number;

/// Any JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, by its text.
    Number(Number),
    /// A text.
    String(String),
    /// A list, in order.
    List(Vec<Value>),
    /// Keys and values, in order.
    Object(Object),
}

/// The members of an object in the order in which they were written. No key comes twice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object(Vec<(String, Value)>);

impl Object {
    /// The object of these members. The caller has made sure that no key comes twice.
    pub(crate) fn from_members(members: Vec<(String, Value)>) -> Object {
        Object(members)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Value {
    /// What kind of value this is, for a person: `a number`.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::List(_) => "a list",
            Value::Object(_) => "an object",
        }
    }

    /// The value as compact JSON text.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        self.write_json(&mut text);
        text
    }

    /// Appends the value as compact JSON text.
    pub fn write_json(&self, out: &mut String) {
        match self {
            Value::Null => out.push_str("null"),
            Value::Bool(true) => out.push_str("true"),
            Value::Bool(false) => out.push_str("false"),
            Value::Number(number) => out.push_str(number.as_str()),
            Value::String(text) => write_string(text, out),
            Value::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    item.write_json(out);
                }
                out.push(']');
            }
            Value::Object(object) => {
                out.push('{');
                for (at, (key, value)) in object.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write_json(out);
                }
                out.push('}');
            }
        }
    }

    /// Levels of lists and objects in the value; 0 for a value that holds no other.
    pub fn depth(&self) -> usize {
        match self {
            Value::List(items) => 1 + items.iter().map(Value::depth).max().unwrap_or(0),
            Value::Object(object) => 1 + object.iter().map(|(_, v)| v.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// About how many bytes of JSON text the value makes: enough to bound what is built from it.
    pub fn weight(&self) -> usize {
        match self {
            Value::Null | Value::Bool(_) => 5,
            Value::Number(number) => number.as_str().len() + 1,
            Value::String(text) => text.len() + 3,
            Value::List(items) => 2 + items.iter().map(Value::weight).sum::<usize>(),
            Value::Object(object) => {
                2 + object.iter().map(|(key, value)| key.len() + 4 + value.weight()).sum::<usize>()
            }
        }
    }
}

/// Appends a text as a JSON string. Only what must be escaped is escaped.
fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 => "",
            _ => continue,
        };
        out.push_str(&text[done..at]);
        done = at + 1;
        if escape.is_empty() {
            out.push_str(&format!("\\u{byte:04x}"));
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&text[done..]);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_written_as_a_json_string_that_reads_back(text in any::<String>()) {
            let written = Value::String(text.clone()).to_json();
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }

    #[test]
    fn depth_counts_containers() {
        let depth = |text: &str| crate::document::json::parse(text.as_bytes()).unwrap().depth();
        assert_eq!(depth("1"), 0);
        assert_eq!(depth("[]"), 1);
        assert_eq!(depth(r#"{"a":[{}],"b":1}"#), 3);
    }
}
