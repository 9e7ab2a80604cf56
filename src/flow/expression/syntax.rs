//! What an expression is, once read.
//!
//! Chains of one operator are flat, so the tree is no deeper than the nesting that a person wrote,
//! which the parser bounds. Not here: reading (`parse`) and meaning (`evaluate`).

use std::fmt;

use regex::Regex;

use crate::document::number::Arithmetic;
use crate::document::path::Segment;
use crate::document::{Number, Value};
use crate::flow::expression::function::Function;

/// An expression with the text that it was read from.
#[derive(Debug, Clone)]
pub struct Expression {
    pub(crate) source: String,
    pub(crate) root: Node,
    pub(crate) references: Vec<Reference>,
}

impl Expression {
    /// The text that it was read from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What it refers to outside of the document, for the compiler to check.
    pub fn references(&self) -> &[Reference] {
        &self.references
    }
}

/// Something that is named in an expression and must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Byte offset in the text that was read.
    pub at: usize,
    /// What it refers to.
    pub target: Target,
}

/// What a [`Reference`] refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `steps.NAME`
    Step(String),
    /// `secret.NAME`
    Secret(String),
    /// `ctx.error`
    Error,
    /// `uuid()`, `now()` or `ctx.attempt`: other on every attempt.
    Changing(&'static str),
}

/// A part of an expression.
#[derive(Debug, Clone)]
pub enum Node {
    /// A value that is written out.
    Literal(Value),
    /// `[a, b]`
    List(Vec<Node>),
    /// A path into something.
    Path(Root, Vec<Segment>),
    /// `secret.NAME`
    Secret(String),
    /// `!a`
    Not(Box<Node>),
    /// `-a`
    Negate(Box<Node>),
    /// `a || b || …`
    Any(Vec<Node>),
    /// `a && b && …`
    All(Vec<Node>),
    /// `a == b` and the like
    Compare(Comparison, Box<(Node, Node)>),
    /// `a + b - …` or `a * b / …`, from left to right
    Compute(Box<Node>, Vec<(Arithmetic, Node)>),
    /// A function and its arguments, as many as it takes.
    Call(Function, Vec<Node>),
    /// `matches(text, regex)`
    Matches(Box<Node>, Regex),
}

/// Where a path begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// `$`: the current document.
    Document,
    /// `input`: the message as submitted.
    Input,
    /// `steps.NAME`: what an earlier step left.
    Step(String),
    /// `ctx`: about this run.
    Context,
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `in`
    In,
}

impl fmt::Display for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Root::Document => write!(f, "$"),
            Root::Input => write!(f, "input"),
            Root::Step(name) => write!(f, "steps.{name}"),
            Root::Context => write!(f, "ctx"),
        }
    }
}

/// A path as a person writes it.
pub(crate) fn show_path(root: &Root, segments: &[Segment]) -> String {
    segments.iter().fold(root.to_string(), |text, segment| text + &segment.to_string())
}

impl Node {
    /// `-a`, computed at once where `a` is written out.
    pub(crate) fn negated(self) -> Node {
        match self {
            Node::Literal(Value::Number(number)) => Node::Literal(Value::Number(number.negate())),
            other => Node::Negate(Box::new(other)),
        }
    }

    /// The number that is written out here, if one is.
    pub(crate) fn as_number(&self) -> Option<&Number> {
        match self {
            Node::Literal(Value::Number(number)) => Some(number),
            _ => None,
        }
    }
}
