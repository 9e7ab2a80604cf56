//! The current document of a run, read and written only when it is needed.
//!
//! Promises: until a step replaces it, the document's text is byte for byte what came in. A
//! document that came as XML keeps that mark until a template replaces it.

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::document::{Value, json};
use crate::flow::expression::Reason;

/// A document as text, as a value, or both. At least one of the two is there from the beginning.
pub(crate) struct Current<'m> {
    text: OnceCell<Cow<'m, [u8]>>,
    value: OnceCell<Value>,
    xml: bool,
}

impl<'m> Current<'m> {
    /// A document whose text has come in.
    pub(crate) fn from_text(text: impl Into<Cow<'m, [u8]>>, xml: bool) -> Current<'m> {
        Current { text: OnceCell::from(text.into()), value: OnceCell::new(), xml }
    }

    /// A document that was built.
    pub(crate) fn from_value(value: Value, xml: bool) -> Current<'m> {
        Current { text: OnceCell::new(), value: OnceCell::from(value), xml }
    }

    /// Whether it came as XML.
    pub(crate) fn is_xml(&self) -> bool {
        self.xml
    }

    /// Its value.
    pub(crate) fn value(&self) -> Result<&Value, Reason> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let text = self.text.get().map_or(&b""[..], |text| text);
        let value = json::parse(text)
            .map_err(|error| Reason(format!("the document is not JSON: {error}")))?;
        Ok(self.value.get_or_init(|| value))
    }

    /// Its JSON text.
    pub(crate) fn text(&self) -> &[u8] {
        self.text.get_or_init(|| {
            let text = self.value.get().map(Value::to_json).unwrap_or_default();
            Cow::Owned(text.into_bytes())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_came_in_is_kept_and_a_value_that_was_built_is_written() {
        let text = b"{ \"a\": 1E400, \"b\":-0 }";
        let document = Current::from_text(&text[..], false);
        assert_eq!(document.value().unwrap().kind(), "an object");
        assert_eq!(document.text(), text);
        let built = Current::from_value(Value::Bool(true), true);
        assert_eq!(built.text(), b"true");
        assert!(built.is_xml());
        assert!(Current::from_text(&b"{"[..], false).value().is_err());
    }
}
