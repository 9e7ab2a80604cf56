//! What the compiler has to say about a flow's source: where, how bad, what, and what to do about
//! it.

use std::fmt;

/// One problem of a source.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Whether the flow can be published all the same.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it, in one line.
    pub help: Option<String>,
}

/// How bad a [`Problem`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The flow is refused.
    Error,
    /// The flow is accepted, and probably not what was meant.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

/// `LINE:COLUMN: error: message`, without the help.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.line, self.column, self.severity, self.message)
    }
}

/// The problems of one source, as they are found.
pub(crate) struct Problems<'s> {
    source: &'s str,
    found: Vec<(usize, Problem)>,
}

impl<'s> Problems<'s> {
    pub(crate) fn new(source: &'s str) -> Problems<'s> {
        Problems { source, found: Vec::new() }
    }

    /// Notes an error at a byte offset of the source.
    pub(crate) fn error(&mut self, at: usize, message: impl Into<String>) {
        self.add(at, Severity::Error, message.into(), None);
    }

    /// Notes an error and what to do about it.
    pub(crate) fn error_with_help(
        &mut self,
        at: usize,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(at, Severity::Error, message.into(), Some(help.into()));
    }

    /// Notes a warning and what to do about it.
    pub(crate) fn warning(
        &mut self,
        at: usize,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.add(at, Severity::Warning, message.into(), Some(help.into()));
    }

    pub(crate) fn add(
        &mut self,
        at: usize,
        severity: Severity,
        message: String,
        help: Option<String>,
    ) {
        let mut at = at.min(self.source.len());
        while !self.source.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.source[..at];
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.chars().rev().take_while(|c| *c != '\n').count();
        let message = one_line(&message);
        self.found.push((at, Problem { line, column, severity, message, help }));
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.iter().any(|(_, problem)| problem.severity == Severity::Error)
    }

    /// All problems in the order of the source.
    pub(crate) fn into_sorted(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|(at, _)| *at);
        self.found.into_iter().map(|(_, problem)| problem).collect()
    }
}

/// A text from a source can have line breaks; a problem is one line.
fn one_line(text: &str) -> String {
    text.split(['\n', '\r'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
