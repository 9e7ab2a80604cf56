//! XML flattened to JSON, so that a queue stores JSON and a flow reads `$.id`.
//!
//! The rules: the root tag is dropped. A child element is a key; siblings of one name are a list in
//! document order. Text alone is a string, never a number (`007` stays), without the white space
//! around it unless that was written as CDATA. An empty element is `""`. An attribute is the key
//! `@name`. Text beside children or attributes is `#text`, its pieces joined. Prefixes of
//! namespaces are dropped, so two keys can become one: then it is a list. Comments and processing
//! instructions vanish. A root with text alone is a JSON string.
//!
//! Not here: reading XML safely (`xml`).

use std::collections::HashMap;

use crate::base::limits::MAX_DOCUMENT_DEPTH;
use crate::document::xml::{self, XmlError, XmlPart};
use crate::document::{Object, Value};

/// Reads an XML document and flattens it.
///
/// # Errors
/// [`XmlError`] when it is not XML as `xml` accepts it, or would be deeper as JSON than
/// [`MAX_DOCUMENT_DEPTH`].
pub fn flatten(bytes: &[u8]) -> Result<Value, XmlError> {
    let mut open: Vec<Element> = Vec::new();
    let mut root = Value::Null;
    xml::read(bytes, |part| {
        match part {
            XmlPart::Start { name, attributes } => open.push(Element::new(name, attributes)),
            XmlPart::Text(text) => {
                if let Some(element) = open.last_mut() {
                    element.text.push(&text);
                }
            }
            XmlPart::Verbatim(text) => {
                if let Some(element) = open.last_mut() {
                    element.text.push_verbatim(&text);
                }
            }
            XmlPart::End => {
                let Some(element) = open.pop() else { return Ok(()) };
                let (name, value, depth) = element.close();
                if depth > MAX_DOCUMENT_DEPTH {
                    return Err(format!(
                        "as JSON the document has more than {MAX_DOCUMENT_DEPTH} levels of nesting"
                    ));
                }
                match open.last_mut() {
                    Some(parent) => parent.members.add(name, value, depth),
                    None => root = value,
                }
            }
        }
        Ok(())
    })?;
    Ok(root)
}

/// An element that is being read.
struct Element {
    name: String,
    members: Members,
    text: Text,
}

impl Element {
    fn new(name: String, attributes: Vec<(String, String)>) -> Element {
        let mut members = Members::default();
        for (name, value) in attributes {
            members.add(format!("@{name}"), Value::String(value), 0);
        }
        Element { name, members, text: Text::default() }
    }

    /// Its name, its value and the value's depth.
    fn close(mut self) -> (String, Value, usize) {
        let text = self.text.trimmed();
        if self.members.slots.is_empty() {
            return (self.name, Value::String(text.to_owned()), 0);
        }
        if !text.is_empty() {
            self.members.add("#text".to_owned(), Value::String(text.to_owned()), 0);
        }
        let (value, depth) = self.members.into_value();
        (self.name, value, depth)
    }
}

/// Members in document order, with those of one name together.
#[derive(Default)]
struct Members {
    slots: Vec<(String, Slot)>,
    /// Where each name is, once there are many.
    index: HashMap<String, usize>,
}

struct Slot {
    values: Vec<Value>,
    depth: usize,
}

/// Members up to which a name is looked for one by one.
const FEW_MEMBERS: usize = 16;

impl Members {
    fn add(&mut self, name: String, value: Value, depth: usize) {
        if let Some(at) = self.find(&name) {
            let slot = &mut self.slots[at].1;
            slot.values.push(value);
            slot.depth = slot.depth.max(depth);
            return;
        }
        let at = self.slots.len();
        if at >= FEW_MEMBERS {
            if self.index.is_empty() {
                let known = self.slots.iter().enumerate();
                self.index = known.map(|(at, (name, _))| (name.clone(), at)).collect();
            }
            self.index.insert(name.clone(), at);
        }
        self.slots.push((name, Slot { values: vec![value], depth }));
    }

    fn find(&self, name: &str) -> Option<usize> {
        if self.index.is_empty() {
            return self.slots.iter().position(|(known, _)| known == name);
        }
        self.index.get(name).copied()
    }

    fn into_value(self) -> (Value, usize) {
        let mut depth = 0;
        let mut members = Vec::with_capacity(self.slots.len());
        for (name, mut slot) in self.slots {
            let only = if slot.values.len() == 1 { slot.values.pop() } else { None };
            depth = depth.max(slot.depth + usize::from(only.is_none()));
            members.push((name, only.unwrap_or(Value::List(slot.values))));
        }
        (Value::Object(Object::from_members(members)), depth + 1)
    }
}

/// The text of an element, and which part of it was written as CDATA.
#[derive(Default)]
struct Text {
    text: String,
    /// From the start of the first CDATA to the end of the last.
    verbatim: Option<(usize, usize)>,
}

impl Text {
    fn push(&mut self, piece: &str) {
        self.text.push_str(piece);
    }

    fn push_verbatim(&mut self, piece: &str) {
        let start = self.text.len();
        self.text.push_str(piece);
        let first = self.verbatim.map_or(start, |(first, _)| first);
        self.verbatim = Some((first, self.text.len()));
    }

    /// The text without white space around it; CDATA keeps its own.
    fn trimmed(&self) -> &str {
        let space = [' ', '\t', '\n', '\r'];
        let (first, last) = self.verbatim.unwrap_or((self.text.len(), 0));
        let start = (self.text.len() - self.text.trim_start_matches(space).len()).min(first);
        let end = self.text.trim_end_matches(space).len().max(last);
        self.text.get(start..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flat(text: &str) -> String {
        flatten(text.as_bytes()).unwrap().to_json()
    }

    #[test]
    fn the_rules_of_the_page() {
        let cases = [
            ("<order><id>A-1</id></order>", r#"{"id":"A-1"}"#),
            ("<o><item><id>1</id></item></o>", r#"{"item":{"id":"1"}}"#),
            ("<o><i>1</i><x/><i>2</i></o>", r#"{"i":["1","2"],"x":""}"#),
            (
                "<o total=\"3\">x<b>y</b>z<![CDATA[<raw>]]><!--c--><e/><f></f><g> </g></o>",
                r##"{"@total":"3","b":"y","e":"","f":"","g":"","#text":"xz<raw>"}"##,
            ),
            ("<o>5</o>", r#""5""#),
            ("<o/>", r#""""#),
            ("<o> <n>007</n>\n</o>", r#"{"n":"007"}"#),
            ("<o>  a b  </o>", r#""a b""#),
            ("<o> <![CDATA[ a ]]> </o>", r#"" a ""#),
            ("<o><e a=\"1\"/></o>", r#"{"e":{"@a":"1"}}"#),
            ("<o a=\"1\"/>", r#"{"@a":"1"}"#),
            ("<o><?pi data?><_text/></o>", r#"{"_text":""}"#),
            ("<p>Hello <b>bold</b> world</p>", r##"{"b":"bold","#text":"Hello  world"}"##),
            (
                "<a:o xmlns:a=\"u1\" xmlns:b=\"u2\"><a:id>1</a:id><b:id>2</b:id></a:o>",
                r#"{"id":["1","2"]}"#,
            ),
            (
                "<o xmlns:a=\"u1\" xmlns=\"u0\" a:k=\"1\" k=\"2\" xml:lang=\"de\"/>",
                r#"{"@k":["1","2"],"@lang":"de"}"#,
            ),
            ("<o t=\" x \"/>", r#"{"@t":" x "}"#),
            ("<o>&#233;&amp;\"\\</o>", r#""é&\"\\""#),
        ];
        for (text, json) in cases {
            assert_eq!(flat(text), json, "{text}");
        }
    }

    #[test]
    fn nothing_is_accepted_that_would_be_too_deep_as_json() {
        let listed =
            |depth: usize| format!("{}{}", "<a><b/><b/>".repeat(depth), "</a>".repeat(depth));
        assert!(flatten(listed(100).as_bytes()).is_ok());
        let twins =
            |depth: usize| format!("<r>{}{}</r>", "<a/><a>".repeat(depth), "</a>".repeat(depth));
        let flat = flatten(twins(63).as_bytes()).unwrap();
        assert_eq!(flat.depth(), 126);
        assert!(crate::document::json::validate(flat.to_json().as_bytes()).is_ok());
        assert!(flatten(twins(64).as_bytes()).is_ok());
        assert!(flatten(twins(65).as_bytes()).unwrap_err().text.contains("as JSON"));
    }

    #[test]
    fn many_siblings_and_many_names_are_read_in_order() {
        let same = format!("<o>{}</o>", "<a/>".repeat(50_000));
        assert!(matches!(flatten(same.as_bytes()).unwrap(), Value::Object(o)
            if matches!(o.get("a"), Some(Value::List(items)) if items.len() == 50_000)));
        let names: String = (0..20_000).map(|n| format!("<k{n}/>")).collect();
        let Value::Object(object) = flatten(format!("<o>{names}<k7/></o>").as_bytes()).unwrap()
        else {
            panic!("an object was expected")
        };
        assert_eq!(object.len(), 20_000);
        assert!(object.iter().map(|(key, _)| key).eq((0..20_000).map(|n| format!("k{n}"))));
    }

    proptest! {
        #[test]
        fn what_is_flattened_is_a_document_that_the_door_accepts(
            text in "(<[ab]( c='[x&]')?>|</[ab]>|<[ab]/>|[ xy]|<!\\[CDATA\\[ z\\]\\]>){0,20}",
        ) {
            if let Ok(value) = flatten(format!("<r>{text}</r>").as_bytes()) {
                let json = value.to_json();
                prop_assert_eq!(crate::document::json::parse(json.as_bytes()), Ok(value));
            }
        }
    }
}
