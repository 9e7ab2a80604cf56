//! Reads the text of an expression.
//!
//! Precedence, loosest first: `||`, `&&`, one comparison (they do not chain), `+ -`, `* / %`, `!
//! -`. Promises: never panics on any text, and refuses what nests deeper than
//! [`MAX_EXPRESSION_DEPTH`]. Not here: whether the steps, secrets and effects that are named exist
//! (`check`).

use regex::Regex;

use crate::base::limits::MAX_EXPRESSION_DEPTH;
use crate::document::number::Arithmetic;
use crate::document::path::{self, PathError, Segment};
use crate::document::scanner::Scanner;
use crate::document::{Number, Value};
use crate::flow::expression::function::{FUNCTIONS, Function, MATCHES};
use crate::flow::expression::syntax::{Comparison, Expression, Node, Reference, Root, Target};
use crate::flow::suggest::did_you_mean;

/// Why a text is not an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ExpressionError {
    /// Byte offset in the text that was read.
    pub at: usize,
    /// What is wrong.
    pub text: String,
    /// What to do about it.
    pub help: Option<String>,
}

/// Members of `ctx`.
pub const CONTEXT_MEMBERS: [&str; 10] = [
    "correlation_id",
    "message_key",
    "tenant",
    "flow",
    "version",
    "step",
    "attempt",
    "message_id",
    "enqueued_at",
    "error",
];

/// Members of `ctx.error`.
pub const ERROR_MEMBERS: [&str; 3] = ["step", "message", "status"];

impl Expression {
    /// Reads a text that is one expression and nothing else.
    ///
    /// # Errors
    /// [`ExpressionError`], with the byte offset of the fault.
    pub fn parse(source: &str) -> Result<Expression, ExpressionError> {
        let mut parser = Parser::new(source, 0);
        let root = parser.expression()?;
        parser.skip_space();
        if parser.at < source.len() {
            return Err(parser.unexpected("an operator, or the end of the expression"));
        }
        Ok(Expression { source: source.to_owned(), root, references: parser.references })
    }
}

/// Reads one expression that begins at byte `at` of `text`. Gives it, what it refers to, and where
/// it ends.
///
/// # Errors
/// [`ExpressionError`], with the byte offset of the fault in `text`.
pub fn parse_at(text: &str, at: usize) -> Result<(Node, Vec<Reference>, usize), ExpressionError> {
    let mut parser = Parser::new(text, at);
    let node = parser.expression()?;
    parser.skip_space();
    Ok((node, parser.references, parser.at))
}

/// An operator between two operands.
#[derive(Debug, Clone, Copy)]
enum Operator {
    Or,
    And,
    Compare(Comparison),
    Compute(Arithmetic),
}

/// The operators that are signs; a longer one stands before one that it begins with.
const SYMBOLS: [(&str, Operator); 13] = [
    ("||", Operator::Or),
    ("&&", Operator::And),
    ("==", Operator::Compare(Comparison::Equal)),
    ("!=", Operator::Compare(Comparison::NotEqual)),
    ("<=", Operator::Compare(Comparison::LessOrEqual)),
    (">=", Operator::Compare(Comparison::GreaterOrEqual)),
    ("<", Operator::Compare(Comparison::Less)),
    (">", Operator::Compare(Comparison::Greater)),
    ("+", Operator::Compute(Arithmetic::Add)),
    ("-", Operator::Compute(Arithmetic::Subtract)),
    ("*", Operator::Compute(Arithmetic::Multiply)),
    ("/", Operator::Compute(Arithmetic::Divide)),
    ("%", Operator::Compute(Arithmetic::Remainder)),
];

impl Operator {
    /// How tightly it binds.
    fn level(self) -> u8 {
        match self {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Compare(_) => 3,
            Operator::Compute(Arithmetic::Add | Arithmetic::Subtract) => 4,
            Operator::Compute(_) => 5,
        }
    }

    /// The two operands under the operator. What stands on the left is complete, so a chain of it
    /// goes on from left to right and the tree grows no deeper.
    fn join(self, left: Node, right: Node) -> Node {
        match (self, left) {
            (Operator::Or, Node::Any(mut terms)) => {
                terms.push(right);
                Node::Any(terms)
            }
            (Operator::And, Node::All(mut terms)) => {
                terms.push(right);
                Node::All(terms)
            }
            (Operator::Compute(operation), Node::Compute(first, mut rest)) => {
                rest.push((operation, right));
                Node::Compute(first, rest)
            }
            (Operator::Or, left) => Node::Any(vec![left, right]),
            (Operator::And, left) => Node::All(vec![left, right]),
            (Operator::Compute(operation), left) => {
                Node::Compute(Box::new(left), vec![(operation, right)])
            }
            (Operator::Compare(comparison), left) => {
                Node::Compare(comparison, Box::new((left, right)))
            }
        }
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    references: Vec<Reference>,
}

type Parsed = Result<Node, ExpressionError>;

impl<'t> Parser<'t> {
    fn new(text: &'t str, at: usize) -> Parser<'t> {
        Parser { text, at, depth: 0, references: Vec::new() }
    }

    fn expression(&mut self) -> Parsed {
        self.operators(0)
    }

    /// An operand, and the operators after it that bind at least as tightly as `loosest`.
    fn operators(&mut self, loosest: u8) -> Parsed {
        self.deeper()?;
        let mut left = self.unary()?;
        let mut compared = false;
        loop {
            self.skip_space();
            let before = self.at;
            let Some(operator) = self.operator().filter(|operator| operator.level() >= loosest)
            else {
                self.at = before;
                break;
            };
            if compared && matches!(operator, Operator::Compare(_)) {
                let help = "join comparisons with &&: a < b && b < c".to_owned();
                let text = "comparisons do not chain".to_owned();
                return Err(ExpressionError { at: before, text, help: Some(help) });
            }
            compared = matches!(operator, Operator::Compare(_));
            let right = self.operators(operator.level() + 1)?;
            left = operator.join(left, right);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn operator(&mut self) -> Option<Operator> {
        let symbol = SYMBOLS.iter().find(|(symbol, _)| self.rest().starts_with(symbol));
        if let Some((symbol, operator)) = symbol {
            self.at += symbol.len();
            return Some(*operator);
        }
        (self.word() == "in").then_some(Operator::Compare(Comparison::In))
    }

    fn unary(&mut self) -> Parsed {
        let not = self.take("!");
        if !not && !self.take("-") {
            return self.primary();
        }
        self.deeper()?;
        let inner = self.unary()?;
        self.depth -= 1;
        Ok(if not { Node::Not(Box::new(inner)) } else { inner.negated() })
    }

    /// Counts a level of nesting; the first fault ends the reading, so only success counts back.
    fn deeper(&mut self) -> Result<(), ExpressionError> {
        if self.depth >= MAX_EXPRESSION_DEPTH {
            let text = format!("an expression nests at most {MAX_EXPRESSION_DEPTH} deep");
            return Err(self.fault(self.at, text));
        }
        self.depth += 1;
        Ok(())
    }

    fn primary(&mut self) -> Parsed {
        self.skip_space();
        match self.text.as_bytes().get(self.at) {
            Some(b'(') => {
                self.at += 1;
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Some(b'[') => {
                self.at += 1;
                Ok(Node::List(self.items("]")?))
            }
            Some(b'"' | b'\'') => {
                let literal = path::string_literal(self.text, self.at);
                let (text, end) = literal.map_err(of_path)?;
                self.at = end;
                Ok(Node::Literal(Value::String(text)))
            }
            Some(b'0'..=b'9') => self.number(),
            Some(b'$') => {
                self.at += 1;
                self.path(Root::Document)
            }
            Some(byte) if byte.is_ascii_alphabetic() || *byte == b'_' => self.named(),
            _ => Err(self.unexpected("a value, a path such as $.total, or a function")),
        }
    }

    fn number(&mut self) -> Parsed {
        let mut scanner = Scanner { bytes: self.text.as_bytes(), at: self.at };
        let Ok((start, end)) = scanner.number() else {
            return Err(self.fault(scanner.at, "expected a digit of this number".to_owned()));
        };
        if self.text[end..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return Err(self.fault(start, "not a number as JSON writes it".to_owned()));
        }
        self.at = end;
        Ok(Node::Literal(Value::Number(Number::from_json_text(&self.text[start..end]))))
    }

    /// A constant, a path with a named root, or a call.
    fn named(&mut self) -> Parsed {
        let start = self.at;
        match self.word() {
            "true" => Ok(Node::Literal(Value::Bool(true))),
            "false" => Ok(Node::Literal(Value::Bool(false))),
            "null" => Ok(Node::Literal(Value::Null)),
            "input" => self.path(Root::Input),
            "steps" => {
                let name = self.member("steps", "the name of a step")?;
                let target = Target::Step(name.clone());
                self.references.push(Reference { at: start, target });
                self.path(Root::Step(name))
            }
            "secret" => {
                let name = self.member("secret", "the name of a secret")?;
                let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
                if name.is_empty() || !name.chars().all(plain) {
                    let text = "the name of a secret is of letters, digits and '_'".to_owned();
                    return Err(self.fault(start, text));
                }
                let target = Target::Secret(name.clone());
                self.references.push(Reference { at: start, target });
                Ok(Node::Secret(name))
            }
            "ctx" => self.context(start),
            name => self.call(start, name),
        }
    }

    /// `.NAME` or `["NAME"]` after `steps` or `secret`. A step's name may have dashes.
    fn member(&mut self, of: &str, what: &str) -> Result<String, ExpressionError> {
        if let Some(rest) = self.rest().strip_prefix('.') {
            let dash = if of == "steps" { '-' } else { '_' };
            let other = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == dash);
            let len = rest.find(other).unwrap_or(rest.len());
            let name = rest[..len].to_owned();
            self.at += 1 + len;
            if !name.is_empty() {
                return Ok(name);
            }
        } else if self.rest().starts_with("[\"") || self.rest().starts_with("['") {
            let (name, end) = path::string_literal(self.text, self.at + 1).map_err(of_path)?;
            if self.text[end..].starts_with(']') {
                self.at = end + 1;
                return Ok(name);
            }
        }
        Err(self.unexpected(&format!("{what}: {of}.NAME")))
    }

    fn context(&mut self, start: usize) -> Parsed {
        let (segments, end) = path::parse_segments(self.text, self.at).map_err(of_path)?;
        let name = |at: usize| match segments.get(at) {
            Some(Segment::Key(key)) => key.as_str(),
            _ => "",
        };
        let Some(member) = CONTEXT_MEMBERS.iter().find(|known| **known == name(0)) else {
            let text = format!("ctx has no {:?}", name(0));
            let help = did_you_mean(name(0), &CONTEXT_MEMBERS)
                .unwrap_or_else(|| format!("it has {}", CONTEXT_MEMBERS.join(", ")));
            return Err(ExpressionError { at: start, text, help: Some(help) });
        };
        if *member == "error" {
            if segments.len() > 1 && !ERROR_MEMBERS.contains(&name(1)) {
                let text = format!("ctx.error has no {:?}", name(1));
                let help = Some(format!("it has {}", ERROR_MEMBERS.join(", ")));
                return Err(ExpressionError { at: start, text, help });
            }
            self.references.push(Reference { at: start, target: Target::Error });
        }
        if *member == "attempt" {
            let target = Target::Changing("ctx.attempt");
            self.references.push(Reference { at: start, target });
        }
        self.at = end;
        Ok(Node::Path(Root::Context, segments))
    }

    fn path(&mut self, root: Root) -> Parsed {
        let (segments, end) = path::parse_segments(self.text, self.at).map_err(of_path)?;
        self.at = end;
        Ok(Node::Path(root, segments))
    }

    fn call(&mut self, start: usize, name: &str) -> Parsed {
        let function = FUNCTIONS.iter().find(|(known, _, _)| *known == name);
        if function.is_none() && name != MATCHES {
            return Err(unknown_word(self.text, start, name));
        }
        self.skip_space();
        if !self.take("(") {
            return Err(self.unexpected(&format!("'(' after {name}")));
        }
        let arguments = self.items(")")?;
        let takes = function.map_or(2, |(_, _, takes)| *takes);
        if arguments.len() != takes {
            let plural = if takes == 1 { "" } else { "s" };
            let text =
                format!("{name} takes {takes} argument{plural}, and has {}", arguments.len());
            return Err(self.fault(start, text));
        }
        let Some((_, function, _)) = function else {
            return matches_call(start, arguments);
        };
        match function {
            Function::Exists | Function::Default if !matches!(arguments[0], Node::Path(..)) => {
                let text = format!("the first argument of {name} is a path, such as $.total");
                return Err(self.fault(start, text));
            }
            Function::Uuid => self.changing(start, "uuid()"),
            Function::Now => self.changing(start, "now()"),
            _ => {}
        }
        Ok(Node::Call(*function, arguments))
    }

    fn changing(&mut self, at: usize, what: &'static str) {
        self.references.push(Reference { at, target: Target::Changing(what) });
    }

    /// Expressions with commas between them, up to and with `close`.
    fn items(&mut self, close: &'static str) -> Result<Vec<Node>, ExpressionError> {
        let mut items = Vec::new();
        if self.take(close) {
            return Ok(items);
        }
        loop {
            items.push(self.expression()?);
            if self.take(close) {
                return Ok(items);
            }
            if !self.take(",") {
                return Err(self.unexpected(&format!("',' or '{close}'")));
            }
        }
    }

    /// Takes letters, digits and underscores.
    fn word(&mut self) -> &'t str {
        self.skip_space();
        let rest = &self.text[self.at..];
        let other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let len = rest.find(other).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn take(&mut self, symbol: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(symbol);
        if found {
            self.at += symbol.len();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ExpressionError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(&format!("'{symbol}'"))) }
    }

    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.rest().bytes().take_while(space).count();
    }

    fn fault(&self, at: usize, text: String) -> ExpressionError {
        ExpressionError { at, text, help: None }
    }

    /// Something else was expected here.
    fn unexpected(&self, expected: &str) -> ExpressionError {
        let help = match self.rest() {
            rest if rest.starts_with('=') => Some("equality is =="),
            rest if rest.starts_with('&') => Some("and is &&"),
            rest if rest.starts_with('|') => Some("or is ||"),
            rest if rest.starts_with("and ") => Some("and is &&"),
            rest if rest.starts_with("or ") => Some("or is ||"),
            _ => None,
        };
        let text = match self.rest().chars().next() {
            Some(c) => format!("expected {expected}, and found {c:?}"),
            None => format!("expected {expected}, and the text ends"),
        };
        ExpressionError { at: self.at, text, help: help.map(str::to_owned) }
    }
}

fn unknown_word(text: &str, at: usize, name: &str) -> ExpressionError {
    let roots = ["true", "false", "null", "input", "steps", "ctx", "secret", MATCHES];
    let known: Vec<&str> = FUNCTIONS.iter().map(|(name, _, _)| *name).chain(roots).collect();
    let help = match name {
        "not" => "not is !".to_owned(),
        _ if text[..at].ends_with('-') => {
            "a key with a dash is written [\"order-id\"], as in $[\"order-id\"]".to_owned()
        }
        _ => did_you_mean(name, &known).unwrap_or_else(|| {
            "a text stands in quotes, and a path begins with $, as in $.total".to_owned()
        }),
    };
    ExpressionError { at, text: format!("nothing is named {name:?} here"), help: Some(help) }
}

/// The pattern is compiled here: at publication, so that a wrong one is refused, and again when it
/// is loaded.
fn matches_call(at: usize, mut arguments: Vec<Node>) -> Parsed {
    let Some(Node::Literal(Value::String(pattern))) = arguments.pop() else {
        let text = "the second argument of matches is a regular expression in quotes".to_owned();
        return Err(ExpressionError { at, text, help: None });
    };
    match Regex::new(&pattern) {
        Ok(regex) => Ok(Node::Matches(Box::new(arguments.remove(0)), regex)),
        Err(error) => {
            let text = error.to_string();
            let reason = text.lines().next_back().unwrap_or_default();
            let reason = reason.trim_start_matches("error: ");
            let text = format!("{pattern:?} is not a regular expression: {reason}");
            Err(ExpressionError { at, text, help: None })
        }
    }
}

fn of_path(error: PathError) -> ExpressionError {
    ExpressionError { at: error.at, text: error.text, help: None }
}

#[cfg(test)]
mod tests;
