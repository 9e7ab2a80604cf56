//! Templates: JSON with placeholders `{{ EXPR }}`.
//!
//! A template is read as JSON first; a placeholder may stand in a string or where a value is
//! expected. In a string its value is inserted as text, elsewhere as a value with its type. Since
//! the structure is fixed before any value is known, no value can change it: there is nothing to
//! escape by hand and nothing to inject. The key of an object is never a placeholder. A
//! [`TextTemplate`] is the same for one line of text, such as a header.
//!
//! Not here: the language of the expressions (`expression`).

use crate::base::limits::{MAX_DOCUMENT_DEPTH, MAX_EXPRESSION_DEPTH};
use crate::document::scanner::{self, Fault, RawString, Scanner};
use crate::document::{Number, Object, Value};
use crate::flow::expression::evaluate::text_of;
use crate::flow::expression::parse::parse_at;
use crate::flow::expression::{ExpressionError, Node, Reason, Reference, Scope};

/// A JSON document with placeholders.
#[derive(Debug, Clone)]
pub struct Template {
    source: String,
    root: Part,
    references: Vec<Reference>,
}

#[derive(Debug, Clone)]
enum Part {
    /// No placeholder in it.
    Fixed(Value),
    /// A string with placeholders.
    Text(Vec<Piece>),
    /// A placeholder where a value is expected.
    Insert(Node),
    List(Vec<Part>),
    Object(Vec<(String, Part)>),
}

/// A piece of a text with placeholders.
#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Insert(Node),
}

/// A line of text with placeholders.
#[derive(Debug, Clone)]
pub struct TextTemplate {
    source: String,
    pieces: Vec<Piece>,
    references: Vec<Reference>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// [`ExpressionError`], with the byte offset of the fault, when it is not JSON with
    /// placeholders.
    pub fn parse(source: &str) -> Result<Template, ExpressionError> {
        if u32::try_from(source.len()).is_err() {
            return Err(fault(0, "a template is shorter than 4 GiB"));
        }
        let scanner = Scanner { bytes: source.as_bytes(), at: 0 };
        let mut parser = Parser { text: source, scanner, depth: 0, references: Vec::new() };
        let root = parser.value()?;
        if parser.scanner.peek().is_some() {
            return Err(fault(parser.scanner.at, "expected the end, after one JSON document"));
        }
        Ok(Template { source: source.to_owned(), root, references: parser.references })
    }

    /// The text that it was read from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What its placeholders refer to, for the compiler to check.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The document that it gives.
    ///
    /// # Errors
    /// [`Reason`] when a placeholder has no value, or the document would be too large or too deep.
    pub fn render(&self, scope: &Scope<'_>) -> Result<Value, Reason> {
        let value = self.root.render(scope)?;
        if value.depth() > MAX_DOCUMENT_DEPTH {
            let text = format!("the document would nest more than {MAX_DOCUMENT_DEPTH} deep");
            return Err(Reason(text));
        }
        Ok(value)
    }
}

impl Part {
    fn render<'a>(&'a self, scope: &Scope<'a>) -> Result<Value, Reason> {
        match self {
            Part::Fixed(value) => {
                scope.spend(value.weight())?;
                Ok(value.clone())
            }
            Part::Text(pieces) => Ok(Value::String(render_text(pieces, scope, Ok)?)),
            Part::Insert(node) => {
                let value = scope.evaluate(node)?;
                scope.spend(value.weight())?;
                Ok(value.into_owned())
            }
            Part::List(parts) => {
                let items: Result<Vec<Value>, Reason> =
                    parts.iter().map(|part| part.render(scope)).collect();
                Ok(Value::List(items?))
            }
            Part::Object(parts) => {
                let mut members = Vec::with_capacity(parts.len());
                for (key, part) in parts {
                    scope.spend(key.len())?;
                    members.push((key.clone(), part.render(scope)?));
                }
                Ok(Value::Object(Object::from_members(members)))
            }
        }
    }
}

fn render_text<'a>(
    pieces: &'a [Piece],
    scope: &Scope<'a>,
    encode: impl Fn(String) -> Result<String, Reason>,
) -> Result<String, Reason> {
    let mut rendered = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => rendered.push_str(text),
            Piece::Insert(node) => {
                let value = scope.evaluate(node)?;
                scope.spend(value.weight())?;
                rendered.push_str(&encode(text_of(&value))?);
            }
        }
    }
    Ok(rendered)
}

impl TextTemplate {
    /// Reads a text with placeholders.
    ///
    /// # Errors
    /// [`ExpressionError`], with the byte offset of the fault.
    pub fn parse(source: &str) -> Result<TextTemplate, ExpressionError> {
        let mut references = Vec::new();
        let pieces = pieces(source, &mut references, &|at| at)?;
        Ok(TextTemplate { source: source.to_owned(), pieces, references })
    }

    /// The text that it was read from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What its placeholders refer to, for the compiler to check.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }

    /// The text before the first placeholder, and whether there is one.
    pub fn start(&self) -> (&str, bool) {
        match &self.pieces[..] {
            [] => ("", false),
            [Piece::Text(text)] => (text, false),
            [Piece::Text(text), ..] => (text, true),
            [Piece::Insert(_), ..] => ("", true),
        }
    }

    /// Whether the whole text is one placeholder.
    pub fn is_one_placeholder(&self) -> bool {
        matches!(&self.pieces[..], [Piece::Insert(_)])
    }

    /// The text that it gives.
    ///
    /// # Errors
    /// [`Reason`] when a placeholder has no value, or the text would be too large.
    pub fn render(&self, scope: &Scope<'_>) -> Result<String, Reason> {
        render_text(&self.pieces, scope, Ok)
    }

    /// The text that it gives, with each value encoded, unless the whole text is one placeholder.
    ///
    /// # Errors
    /// As [`TextTemplate::render`].
    pub fn render_encoded(
        &self,
        scope: &Scope<'_>,
        encode: impl Fn(String) -> Result<String, Reason>,
    ) -> Result<String, Reason> {
        if self.is_one_placeholder() {
            return self.render(scope);
        }
        render_text(&self.pieces, scope, encode)
    }
}

/// Splits a text at its placeholders. `place` gives the offset in the source for an offset in the
/// text.
fn pieces(
    text: &str,
    references: &mut Vec<Reference>,
    place: &dyn Fn(usize) -> usize,
) -> Result<Vec<Piece>, ExpressionError> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find("{{") {
        let open = at + found;
        if found > 0 {
            pieces.push(Piece::Text(text[at..open].to_owned()));
        }
        let (node, end) = placeholder(text, open, references, place)?;
        pieces.push(Piece::Insert(node));
        at = end;
    }
    if at < text.len() {
        pieces.push(Piece::Text(text[at..].to_owned()));
    }
    Ok(pieces)
}

/// Reads the placeholder that opens at byte `open`. Gives its expression and where it ends.
fn placeholder(
    text: &str,
    open: usize,
    references: &mut Vec<Reference>,
    place: &dyn Fn(usize) -> usize,
) -> Result<(Node, usize), ExpressionError> {
    let (node, found, end) = parse_at(text, open + 2)
        .map_err(|error| ExpressionError { at: place(error.at), ..error })?;
    if !text[end..].starts_with("}}") {
        let help = "a placeholder is {{ EXPR }}; write {{ \"{{\" }} for the braces themselves";
        return Err(ExpressionError {
            at: place(end),
            text: "expected an operator or the end of the placeholder, '}}'".to_owned(),
            help: Some(help.to_owned()),
        });
    }
    references.extend(
        found.into_iter().map(|reference| Reference { at: place(reference.at), ..reference }),
    );
    Ok((node, end + 2))
}

struct Parser<'t> {
    text: &'t str,
    scanner: Scanner<'t>,
    depth: usize,
    references: Vec<Reference>,
}

impl Parser<'_> {
    fn value(&mut self) -> Result<Part, ExpressionError> {
        let next = self.scanner.peek();
        let start = self.scanner.at;
        match next {
            Some(b'{') if self.text[start..].starts_with("{{") => {
                let (node, end) = placeholder(self.text, start, &mut self.references, &|at| at)?;
                self.scanner.at = end;
                Ok(Part::Insert(node))
            }
            Some(b'{') => self.nested(Parser::object),
            Some(b'[') => self.nested(Parser::list),
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => {
                let (start, end) = self.scanner.number().map_err(of_json)?;
                let number = Number::from_json_text(&self.text[start..end]);
                Ok(Part::Fixed(Value::Number(number)))
            }
            Some(b't') => self.literal("true", Value::Bool(true)),
            Some(b'f') => self.literal("false", Value::Bool(false)),
            Some(b'n') => self.literal("null", Value::Null),
            _ => Err(of_json(self.scanner.missing("a JSON value or a placeholder"))),
        }
    }

    fn literal(&mut self, word: &'static str, value: Value) -> Result<Part, ExpressionError> {
        self.scanner.literal(word).map_err(of_json)?;
        Ok(Part::Fixed(value))
    }

    fn nested(
        &mut self,
        read: fn(&mut Self) -> Result<Part, ExpressionError>,
    ) -> Result<Part, ExpressionError> {
        if self.depth >= MAX_EXPRESSION_DEPTH {
            let text = format!("a template nests at most {MAX_EXPRESSION_DEPTH} deep");
            return Err(fault(self.scanner.at, &text));
        }
        self.depth += 1;
        self.scanner.at += 1;
        let part = read(self);
        self.depth -= 1;
        part
    }

    fn list(&mut self) -> Result<Part, ExpressionError> {
        let mut parts = Vec::new();
        if self.take(b']') {
            return Ok(Part::Fixed(Value::List(Vec::new())));
        }
        loop {
            parts.push(self.value()?);
            if self.take(b']') {
                return Ok(Part::List(parts));
            }
            self.expect(b',', "',' or ']'")?;
        }
    }

    fn object(&mut self) -> Result<Part, ExpressionError> {
        let mut parts = Vec::new();
        let mut keys: Vec<RawString> = Vec::new();
        if self.take(b'}') {
            return Ok(Part::Fixed(Value::Object(Object::default())));
        }
        loop {
            if self.scanner.peek() != Some(b'"') {
                return Err(of_json(self.scanner.missing("a key in double quotes")));
            }
            let at = self.scanner.at;
            let raw = self.scanner.string().map_err(of_json)?;
            let key = raw.unescape(self.text).into_owned();
            if key.contains("{{") {
                return Err(ExpressionError {
                    at,
                    text: "a key cannot hold a placeholder".to_owned(),
                    help: Some("a value never changes the structure of a document".to_owned()),
                });
            }
            keys.push(raw);
            self.expect(b':', "':'")?;
            parts.push((key, self.value()?));
            if self.take(b'}') {
                scanner::check_keys(&keys, self.text).map_err(of_json)?;
                return Ok(Part::Object(parts));
            }
            self.expect(b',', "',' or '}'")?;
        }
    }

    fn string(&mut self) -> Result<Part, ExpressionError> {
        let raw = self.scanner.string().map_err(of_json)?;
        let text = raw.unescape(self.text);
        if !text.contains("{{") {
            return Ok(Part::Fixed(Value::String(text.into_owned())));
        }
        let place = places(&self.text[raw.start as usize..raw.end as usize], raw.start as usize);
        let place = |at: usize| place.get(at).copied().unwrap_or(raw.end as usize);
        Ok(Part::Text(pieces(&text, &mut self.references, &place)?))
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.scanner.peek() == Some(byte);
        self.scanner.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), ExpressionError> {
        if self.take(byte) {
            return Ok(());
        }
        Err(of_json(self.scanner.missing(expected)))
    }
}

/// For each byte of the text that `raw` stands for, where it comes from; `raw` begins at `start`.
fn places(raw: &str, start: usize) -> Vec<usize> {
    let mut places = Vec::with_capacity(raw.len());
    let mut at = 0;
    while at < raw.len() {
        let (c, len) = match raw[at..].chars().next() {
            Some('\\') => scanner::one_escape(&raw[at..]),
            Some(c) => (c, c.len_utf8()),
            None => break,
        };
        places.extend(std::iter::repeat_n(start + at, c.len_utf8()));
        at += len;
    }
    places
}

fn fault(at: usize, text: &str) -> ExpressionError {
    ExpressionError { at, text: text.to_owned(), help: None }
}

fn of_json(error: Fault) -> ExpressionError {
    fault(error.at, &error.what.to_string())
}

#[cfg(test)]
mod tests;
