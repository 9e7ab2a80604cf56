//! The rules of a `validate` fence: one per line, `EXPR | "message"`.
//!
//! Source: the document's section "Delivery semantics" shows one: `$.status == "ACCEPTED" |
//! "backend did not accept the message"`. All rules are evaluated; the messages of those that are
//! false are joined.

use crate::document::path;
use crate::flow::expression::{Expression, ExpressionError, Scope};

/// A rule: what must hold, and what is said when it does not.
#[derive(Debug, Clone)]
pub struct Rule {
    /// What must hold.
    pub expression: Expression,
    /// What is said when it does not.
    pub message: String,
}

/// Between the expression and the message; the last one on the line counts.
const SEPARATOR: &str = " | ";

impl Rule {
    /// Reads one line.
    ///
    /// # Errors
    /// [`ExpressionError`], with the byte offset of the fault.
    pub fn parse(line: &str) -> Result<Rule, ExpressionError> {
        let Some(split) = line.rfind(SEPARATOR) else {
            return Err(ExpressionError {
                at: 0,
                text: "a rule needs a message".to_owned(),
                help: Some(
                    "write EXPR | \"message\", with a space on either side of the |".to_owned(),
                ),
            });
        };
        let message_at = split + SEPARATOR.len();
        let message_at =
            message_at + (line[message_at..].len() - line[message_at..].trim_start().len());
        let wrong = |at: usize| ExpressionError {
            at,
            text: "the message of a rule is one text in quotes".to_owned(),
            help: Some("write EXPR | \"message\"".to_owned()),
        };
        if !line[message_at..].starts_with(['"', '\'']) {
            return Err(wrong(message_at));
        }
        let (message, end) =
            path::string_literal(line, message_at).map_err(|_| wrong(message_at))?;
        if !line[end..].trim().is_empty() {
            return Err(wrong(end));
        }
        Ok(Rule { expression: Expression::parse(&line[..split])?, message })
    }
}

/// The rules of a fence with the place of each line; blank lines and those that begin with `#` are
/// none.
pub fn lines(content: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    content.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        let text = line.trim_end();
        let skipped = text.trim_start();
        (!skipped.is_empty() && !skipped.starts_with('#')).then_some((start, text))
    })
}

/// Evaluates all rules. `Err` has the text of the failure, without the step's name.
pub fn check(rules: &[Rule], scope: &Scope<'_>) -> Result<(), String> {
    let mut broken = Vec::new();
    let mut undecided = Vec::new();
    for rule in rules {
        match rule.expression.decide(scope) {
            Ok(true) => {}
            Ok(false) => broken.push(rule.message.as_str()),
            Err(reason) => undecided.push(format!("{}: {reason}", rule.expression.source().trim())),
        }
    }
    if !undecided.is_empty() {
        return Err(format!("validation failed (Structural): {}", undecided.join("; ")));
    }
    if !broken.is_empty() {
        return Err(format!("validation failed (Semantic): {}", broken.join("; ")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_split_at_its_last_separator() {
        let rule = Rule::parse("$.a == \" | \" || $.b | \"not | good\"");
        assert!(rule.is_err(), "the last separator is inside of the message");
        let rule = Rule::parse("$.a == \"x | y\" || true | \"a message\"").unwrap();
        assert_eq!(rule.expression.source(), "$.a == \"x | y\" || true");
        assert_eq!(rule.message, "a message");
        assert_eq!(Rule::parse("true |   'it\\'s'  ").unwrap().message, "it's");
        for bad in
            ["true", "true | message", "true | \"a", "true | \"a\" b", " | \"a\"", "true|\"a\""]
        {
            assert!(Rule::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn blank_lines_and_comments_are_no_rules() {
        let found: Vec<_> = lines("a\n\n  # no\n b \r\nc").collect();
        assert_eq!(found, [(0, "a"), (10, " b"), (15, "c")]);
    }
}
