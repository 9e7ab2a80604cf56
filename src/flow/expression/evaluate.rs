//! The value of an expression.
//!
//! A path that leads nowhere is null where values are compared, and in `exists` and `default`;
//! anywhere else it is an error that names the path. Nothing is converted silently: values of two
//! kinds are never equal, and comparing their order is an error. Numbers are exact or an error.
//! Error texts name kinds and paths, and never a value of the message. Not here: what surrounds an
//! evaluation (`run` gives the documents, the context, the clock).

use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

use crate::base::limits::MAX_BUILT_BYTES;
use crate::document::number::{Arithmetic, NumberError};
use crate::document::path::lookup;
use crate::document::{Number, Value};
use crate::flow::expression::function::Function;
use crate::flow::expression::syntax::{Comparison, Expression, Node, Root, show_path};

/// Why an expression has no value. Its text names kinds and paths, never a value of the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Reason(pub String);

impl From<NumberError> for Reason {
    fn from(error: NumberError) -> Reason {
        Reason(error.to_string())
    }
}

/// What an expression can see.
pub trait Surroundings {
    /// What a path begins in; `None` for a step that has not run.
    ///
    /// # Errors
    /// When the document there cannot be read.
    fn root(&self, root: &Root) -> Result<Option<&Value>, Reason>;

    /// The value of a secret; `None` when the server has none of that name.
    fn secret(&self, name: &str) -> Option<String>;

    /// A new UUIDv4.
    fn uuid(&self) -> String;

    /// The time as text.
    fn now(&self) -> String;
}

/// One evaluation, or several that share a bound on what they build.
pub struct Scope<'a> {
    surroundings: &'a dyn Surroundings,
    left: Cell<usize>,
}

type Evaluated<'a> = Result<Cow<'a, Value>, Reason>;

impl Expression {
    /// Its value.
    ///
    /// # Errors
    /// [`Reason`] when it has none.
    pub fn evaluate<'a>(&'a self, scope: &Scope<'a>) -> Evaluated<'a> {
        scope.evaluate(&self.root)
    }

    /// Its value, which must be true or false.
    ///
    /// # Errors
    /// [`Reason`] when it has none, or one of another kind.
    pub fn decide(&self, scope: &Scope<'_>) -> Result<bool, Reason> {
        match *scope.evaluate(&self.root)? {
            Value::Bool(value) => Ok(value),
            ref other => Err(Reason(format!("it gives {}, not true or false", other.kind()))),
        }
    }
}

impl<'a> Scope<'a> {
    /// A scope that may build up to [`MAX_BUILT_BYTES`].
    pub fn new(surroundings: &'a dyn Surroundings) -> Scope<'a> {
        Scope { surroundings, left: Cell::new(MAX_BUILT_BYTES) }
    }

    /// Counts bytes that are about to be built.
    ///
    /// # Errors
    /// [`Reason`] when that is more than a step may build.
    pub fn spend(&self, bytes: usize) -> Result<(), Reason> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => Err(Reason(format!("it would build more than {MAX_BUILT_BYTES} bytes"))),
        }
    }

    /// The value of a node.
    ///
    /// # Errors
    /// [`Reason`] when it has none.
    pub fn evaluate(&self, node: &'a Node) -> Evaluated<'a> {
        match node {
            Node::Literal(value) => Ok(Cow::Borrowed(value)),
            Node::Path(root, segments) => match self.find(node)? {
                Some(value) => Ok(Cow::Borrowed(value)),
                None => Err(Reason(format!("nothing is at {}", show_path(root, segments)))),
            },
            Node::List(items) => self.list(items),
            Node::Secret(name) => match self.surroundings.secret(name) {
                Some(text) => Ok(Cow::Owned(Value::String(text))),
                None => Err(Reason(format!(
                    "the server has no secret {name} (NEXUS_FLOW_SECRET_{name} is not set)"
                ))),
            },
            Node::Not(inner) => Ok(boolean(!self.truth(inner, "!")?)),
            Node::Negate(inner) => {
                let number = self.number(inner, "-")?.negate();
                Ok(Cow::Owned(Value::Number(number)))
            }
            Node::Any(terms) => self.any(terms),
            Node::All(terms) => self.all(terms),
            Node::Compare(comparison, sides) => Ok(boolean(self.compare(*comparison, sides)?)),
            Node::Compute(first, rest) => Ok(Cow::Owned(Value::Number(self.compute(first, rest)?))),
            Node::Call(function, arguments) => self.call(*function, arguments),
            Node::Matches(text, regex) => {
                let text = self.evaluate(text)?;
                Ok(boolean(regex.is_match(as_text(&text, "matches")?)))
            }
        }
    }

    /// What is at a path, if the node is one and it leads somewhere.
    fn find(&self, node: &'a Node) -> Result<Option<&'a Value>, Reason> {
        let Node::Path(root, segments) = node else { return Ok(None) };
        let found = self.surroundings.root(root)?;
        Ok(found.and_then(|value| lookup(value, segments)))
    }

    /// The value of a node, null where a path leads nowhere.
    fn lenient(&self, node: &'a Node) -> Evaluated<'a> {
        if let Node::Path(..) = node {
            return Ok(self.find(node)?.map_or(Cow::Owned(Value::Null), Cow::Borrowed));
        }
        self.evaluate(node)
    }

    fn list(&self, items: &'a [Node]) -> Evaluated<'a> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let value = self.evaluate(item)?;
            self.spend(value.weight())?;
            values.push(value.into_owned());
        }
        Ok(Cow::Owned(Value::List(values)))
    }

    fn any(&self, terms: &'a [Node]) -> Evaluated<'a> {
        for term in terms {
            if self.truth(term, "||")? {
                return Ok(boolean(true));
            }
        }
        Ok(boolean(false))
    }

    fn all(&self, terms: &'a [Node]) -> Evaluated<'a> {
        for term in terms {
            if !self.truth(term, "&&")? {
                return Ok(boolean(false));
            }
        }
        Ok(boolean(true))
    }

    fn truth(&self, node: &'a Node, operator: &str) -> Result<bool, Reason> {
        match *self.evaluate(node)? {
            Value::Bool(value) => Ok(value),
            ref other => Err(wants(operator, "true or false", other)),
        }
    }

    fn number(&self, node: &'a Node, operator: &str) -> Result<Number, Reason> {
        if let Some(number) = node.as_number() {
            return Ok(number.clone());
        }
        match &*self.evaluate(node)? {
            Value::Number(number) => Ok(number.clone()),
            other => Err(wants(operator, "a number", other)),
        }
    }

    fn compute(&self, first: &'a Node, rest: &'a [(Arithmetic, Node)]) -> Result<Number, Reason> {
        let sign = rest.first().map_or("+", |(operation, _)| symbol(*operation));
        let mut result = self.number(first, sign)?;
        for (operation, node) in rest {
            result = result.compute(*operation, &self.number(node, symbol(*operation))?)?;
        }
        Ok(result)
    }

    fn compare(&self, comparison: Comparison, sides: &'a (Node, Node)) -> Result<bool, Reason> {
        let (left, right) = (self.lenient(&sides.0)?, self.lenient(&sides.1)?);
        let ordered = |test: fn(Ordering) -> bool| Ok(test(order(&left, &right)?));
        match comparison {
            Comparison::Equal => equal(&left, &right),
            Comparison::NotEqual => Ok(!equal(&left, &right)?),
            Comparison::Less => ordered(Ordering::is_lt),
            Comparison::LessOrEqual => ordered(Ordering::is_le),
            Comparison::Greater => ordered(Ordering::is_gt),
            Comparison::GreaterOrEqual => ordered(Ordering::is_ge),
            Comparison::In => {
                let Value::List(items) = &*right else {
                    return Err(wants("in", "a list on its right", &right));
                };
                for item in items {
                    if equal(&left, item)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn call(&self, function: Function, arguments: &'a [Node]) -> Evaluated<'a> {
        let name = function.name();
        match function {
            Function::Exists => return Ok(boolean(self.find(&arguments[0])?.is_some())),
            Function::Default => {
                let value = self.lenient(&arguments[0])?;
                return if *value == Value::Null {
                    self.evaluate(&arguments[1])
                } else {
                    Ok(value)
                };
            }
            Function::Round => return self.round(&arguments[0], &arguments[1]),
            Function::Uuid => return Ok(text(self.surroundings.uuid())),
            Function::Now => return Ok(text(self.surroundings.now())),
            _ => {}
        }
        let first = self.evaluate(&arguments[0])?;
        let second = arguments.get(1).map(|node| self.evaluate(node)).transpose()?;
        let of = |value: &'_ Cow<'_, Value>| as_text(value, name).map(str::to_owned);
        let pair = |test: fn(&str, &str) -> bool| {
            let second = second.as_deref().unwrap_or(&Value::Null);
            Ok(boolean(test(as_text(&first, name)?, as_text(second, name)?)))
        };
        match function {
            Function::Length => Ok(Cow::Owned(Value::Number(length(&first)?))),
            Function::Lower => self.built(of(&first)?.to_lowercase()),
            Function::Upper => self.built(of(&first)?.to_uppercase()),
            Function::Trim => self.built(as_text(&first, name)?.trim().to_owned()),
            Function::Contains => pair(|text, part| text.contains(part)),
            Function::StartsWith => pair(|text, part| text.starts_with(part)),
            Function::EndsWith => pair(|text, part| text.ends_with(part)),
            Function::Number => to_number(&first),
            Function::Join => self.join(&first, second.as_deref().unwrap_or(&Value::Null)),
            Function::Json => {
                self.spend(first.weight())?;
                Ok(text(first.to_json()))
            }
            _ => {
                self.spend(first.weight())?;
                Ok(text(text_of(&first)))
            }
        }
    }

    fn built(&self, result: String) -> Evaluated<'a> {
        self.spend(result.len())?;
        Ok(text(result))
    }

    /// A division that is rounded at once may have no end.
    fn round(&self, node: &'a Node, places: &'a Node) -> Evaluated<'a> {
        let places = self.number(places, "round")?;
        if let Node::Compute(first, rest) = node
            && let Some(((Arithmetic::Divide, divisor), before)) = rest.split_last()
        {
            let dividend = self.compute(first, before)?;
            let divisor = self.number(divisor, "/")?;
            let result = dividend.divide_rounded(&divisor, &places)?;
            return Ok(Cow::Owned(Value::Number(result)));
        }
        let result = self.number(node, "round")?.round(&places)?;
        Ok(Cow::Owned(Value::Number(result)))
    }

    fn join(&self, list: &Value, between: &Value) -> Evaluated<'a> {
        let Value::List(items) = list else { return Err(wants("join", "a list", list)) };
        let between = as_text(between, "join")?;
        let mut joined = String::new();
        for (at, item) in items.iter().enumerate() {
            if matches!(item, Value::List(_) | Value::Object(_)) {
                return Err(wants("join", "a list of texts and numbers", item));
            }
            self.spend(item.weight() + between.len())?;
            if at > 0 {
                joined.push_str(between);
            }
            joined.push_str(&text_of(item));
        }
        Ok(text(joined))
    }
}

/// A value as text: a text as it is, a number by its digits, a list or an object as JSON.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_json(),
    }
}

fn boolean<'a>(value: bool) -> Cow<'a, Value> {
    Cow::Owned(Value::Bool(value))
}

fn text<'a>(text: String) -> Cow<'a, Value> {
    Cow::Owned(Value::String(text))
}

fn wants(what: &str, wanted: &str, found: &Value) -> Reason {
    Reason(format!("{what} needs {wanted}, and there is {}", found.kind()))
}

fn as_text<'v>(value: &'v Value, function: &str) -> Result<&'v str, Reason> {
    match value {
        Value::String(text) => Ok(text),
        other => Err(wants(function, "a text", other)),
    }
}

fn symbol(operation: Arithmetic) -> &'static str {
    match operation {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::Remainder => "%",
    }
}

fn length(value: &Value) -> Result<Number, Reason> {
    let len = match value {
        Value::String(text) => text.chars().count(),
        Value::List(items) => items.len(),
        Value::Object(object) => object.len(),
        other => return Err(wants("length", "a text, a list or an object", other)),
    };
    Ok(Number::from_u64(len as u64))
}

fn to_number<'a>(value: &Value) -> Evaluated<'a> {
    let number = match value {
        Value::Number(number) => number.clone(),
        Value::String(text) => Number::from_loose_text(text)
            .ok_or_else(|| Reason("number needs a text that is a number".to_owned()))?,
        other => return Err(wants("number", "a text or a number", other)),
    };
    Ok(Cow::Owned(Value::Number(number)))
}

/// Equality by value; values of two kinds are not equal.
fn equal(left: &Value, right: &Value) -> Result<bool, Reason> {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => Ok(a.compare(b)?.is_eq()),
        (Value::List(a), Value::List(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (a, b) in a.iter().zip(b) {
                if !equal(a, b)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Object(a), Value::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, a) in a.iter() {
                match b.get(key) {
                    Some(b) if equal(a, b)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (a, b) => Ok(a == b),
    }
}

fn order(left: &Value, right: &Value) -> Result<Ordering, Reason> {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => Ok(a.compare(b)?),
        (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
        (a, b) => {
            let text = format!("{} and {} have no order", a.kind(), b.kind());
            Err(Reason(text))
        }
    }
}

#[cfg(test)]
mod tests;
