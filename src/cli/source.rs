//! The files of `validate` and `publish`: reading them, compiling them, wording what is wrong.
//!
//! A file is read up to [`MAX_FLOW_SOURCE_BYTES`] and no further. What makes it unreadable as
//! text is a problem at a place like any other, so that an editor can jump to it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;

use super::output::{Failure, Output, escaped};
use crate::base::limits::MAX_FLOW_SOURCE_BYTES;
use crate::flow::{self, Flow, Problem, Severity};

/// A file that has been compiled.
pub struct Checked {
    /// Its name as it is shown.
    pub name: String,
    /// Its text; empty when it could not be read as text.
    pub source: String,
    /// All that the compiler found.
    pub problems: Vec<Problem>,
    /// The flow, unless there was an error.
    pub flow: Option<Flow>,
}

impl Checked {
    /// Whether the flow cannot be published.
    pub fn is_faulty(&self) -> bool {
        self.flow.is_none() || self.problems.iter().any(|one| one.severity == Severity::Error)
    }
}

/// Reads and compiles one file; `-` is standard input.
///
/// # Errors
/// The file cannot be read at all. What is wrong in it is in [`Checked::problems`].
pub fn check(file: &Path) -> Result<Checked, Failure> {
    let name = shown(file);
    let bytes = read(file).map_err(|error| Failure::new(format!("cannot read {name}"), error))?;
    let source = match to_text(bytes) {
        Ok(source) => source,
        Err(problem) => {
            let source = String::new();
            return Ok(Checked { name, source, problems: vec![problem], flow: None });
        }
    };
    let flow::Compilation { problems, flow } = flow::compile(&source);
    Ok(Checked { name, source, problems, flow })
}

/// `FILE:LINE:COLUMN: error: …`, and the help indented on a line of its own.
pub fn problem_text(name: &str, problem: &Problem) -> String {
    let Problem { line, column, message, help, .. } = problem;
    let severity = severity_text(problem.severity);
    let mut text = format!("{name}:{line}:{column}: {severity}: {}", escaped(message));
    if let Some(help) = help {
        text.push_str("\n  help: ");
        text.push_str(&escaped(help));
    }
    text
}

/// A problem as `validate --json` shows it.
#[derive(Debug, Serialize)]
pub struct ProblemRow<'a> {
    file: &'a str,
    /// Null for a file that cannot be read.
    line: Option<usize>,
    column: Option<usize>,
    severity: &'static str,
    message: &'a str,
    help: Option<&'a str>,
}

impl<'a> ProblemRow<'a> {
    /// The row of a problem in a file.
    pub fn at(file: &'a str, problem: &'a Problem) -> ProblemRow<'a> {
        ProblemRow {
            file,
            line: Some(problem.line),
            column: Some(problem.column),
            severity: severity_text(problem.severity),
            message: &problem.message,
            help: problem.help.as_deref(),
        }
    }

    /// The row of a file that cannot be read.
    pub fn unreadable(file: &'a str, message: &'a str) -> ProblemRow<'a> {
        ProblemRow { file, line: None, column: None, severity: "error", message, help: None }
    }
}

/// A file's name as it is shown.
pub fn shown(file: &Path) -> String {
    escaped(&file.to_string_lossy()).into_owned()
}

/// Compiles all files, notes their problems on standard error, and gives the flows.
///
/// # Errors
/// A file that cannot be read, or, after all problems of all files, that there are any.
pub fn check_all<'a>(
    files: impl IntoIterator<Item = &'a Path>,
    output: &mut Output<'_>,
) -> Result<Vec<(Checked, Flow)>, Failure> {
    let mut sound = Vec::new();
    let mut faulty = 0_usize;
    for file in files {
        let mut checked = check(file)?;
        for problem in &checked.problems {
            output.note(problem_text(&checked.name, problem));
        }
        match (checked.is_faulty(), checked.flow.take()) {
            (false, Some(flow)) => sound.push((checked, flow)),
            _ => faulty += 1,
        }
    }
    match faulty {
        0 => Ok(sound),
        1 => Err(Failure::new("nothing was published", "1 file has errors")),
        n => Err(Failure::new("nothing was published", format_args!("{n} files have errors"))),
    }
}

fn severity_text(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

/// At most one byte more than a flow may have: enough to tell that it has too many.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = MAX_FLOW_SOURCE_BYTES as u64 + 1;
    if file.as_os_str() == "-" {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    } else {
        File::open(file)?.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn to_text(bytes: Vec<u8>) -> Result<String, Problem> {
    let problem = |line, column, message| Problem {
        line,
        column,
        severity: Severity::Error,
        message,
        help: None,
    };
    if bytes.len() > MAX_FLOW_SOURCE_BYTES {
        let message = format!(
            "the file is larger than {MAX_FLOW_SOURCE_BYTES} bytes, the most that a flow may have"
        );
        return Err(problem(1, 1, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let before = String::from_utf8_lossy(before);
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        problem(line, column, "the file is not UTF-8 text from here on".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(help: Option<&str>) -> Problem {
        Problem {
            line: 4,
            column: 1,
            severity: Severity::Error,
            message: "unknown key `queue_max_attempt`".to_owned(),
            help: help.map(str::to_owned),
        }
    }

    #[test]
    fn a_problem_is_shown_with_its_place_and_its_help() {
        assert_eq!(
            problem_text("a.md", &problem(Some("did you mean `queue_max_attempts`?"))),
            "a.md:4:1: error: unknown key `queue_max_attempt`\n  \
             help: did you mean `queue_max_attempts`?"
        );
        let warning = Problem { severity: Severity::Warning, ..problem(None) };
        let text = problem_text("-", &warning);
        assert_eq!(text, "-:4:1: warning: unknown key `queue_max_attempt`");
    }

    #[test]
    fn a_problem_cannot_forge_a_line() {
        let forged = Problem { message: "x\nb.md: ok\u{1b}[2K".to_owned(), ..problem(None) };
        assert_eq!(problem_text("a.md", &forged), r"a.md:4:1: error: x\nb.md: ok\u{1b}[2K");
    }

    #[test]
    fn bytes_that_are_no_text_are_a_problem_at_their_place() {
        let problem = to_text(b"one\n\xc3\xa9\xff".to_vec()).unwrap_err();
        assert_eq!((problem.line, problem.column), (2, 2));
        assert_eq!(to_text("é".into()).unwrap(), "é");
    }

    #[test]
    fn a_flow_of_the_largest_size_is_read_and_one_byte_more_is_refused() {
        assert!(to_text(vec![b'x'; MAX_FLOW_SOURCE_BYTES]).is_ok());
        let problem = to_text(vec![b'x'; MAX_FLOW_SOURCE_BYTES + 1]).unwrap_err();
        assert!(problem.message.contains("1048576 bytes"), "{}", problem.message);
    }
}
