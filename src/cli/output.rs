//! What the program writes: results to standard output, errors to standard error.
//!
//! An error is one line, `nexus: what was wrong: why`. Texts that came from outside (file names,
//! error texts of downstreams, arguments) are shown with control characters escaped, so that they
//! cannot move the cursor, colour the terminal or forge a line. Writing to a pipe whose reader has
//! left ends the program quietly.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;

use super::exit::Exit;

/// Why a command could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was wrong and why, for a person.
    #[error("{0}")]
    Told(String),
    /// Standard output takes nothing more.
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    /// A failure that reads `what: why`.
    pub fn new(what: impl Display, why: impl Display) -> Failure {
        Failure::Told(format!("{what}: {why}"))
    }
}

/// Both streams of a command, and whether something has gone wrong that did not end it.
pub struct Output<'a> {
    out: BufWriter<&'a mut dyn Write>,
    err: &'a mut dyn Write,
    terminal: bool,
    failed: bool,
}

impl<'a> Output<'a> {
    /// Writes to these streams; `terminal` says that a person reads the first.
    pub fn new(out: &'a mut dyn Write, err: &'a mut dyn Write, terminal: bool) -> Output<'a> {
        Output { out: BufWriter::new(out), err, terminal, failed: false }
    }

    /// Whether standard output is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Writes text to standard output as it is.
    ///
    /// # Errors
    /// As the stream gives them.
    pub fn text(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// Writes a line to standard output as it is.
    ///
    /// # Errors
    /// As the stream gives them.
    pub fn line(&mut self, line: impl Display) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{line}")?)
    }

    /// Writes a value to standard output as one line of JSON.
    ///
    /// # Errors
    /// As the stream gives them.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let json = serde_json::to_string(value).map_err(io::Error::from)?;
        self.line(escaped_json(&json))
    }

    /// Hands on what has been written so far, before a pause.
    ///
    /// # Errors
    /// As the stream gives them.
    pub fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// Writes a line to standard error as it is, after everything that is before it on the other.
    /// A standard error that takes nothing is no reason to stop.
    pub fn note(&mut self, line: impl Display) {
        let _ = self.out.flush();
        let _ = writeln!(self.err, "{line}");
    }

    /// Tells of something wrong that does not end the command, and makes its exit status 1.
    pub fn report(&mut self, what: impl Display) {
        self.note(format_args!("nexus: {}", escaped(&what.to_string())));
        self.fail();
    }

    /// Makes the exit status 1.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// Ends a command: tells why it failed, if it did, and gives its exit status.
    pub fn finish(mut self, result: Result<(), Failure>) -> Exit {
        let result = result.and_then(|()| Ok(self.out.flush()?));
        match result {
            Ok(()) => {}
            // The reader has seen enough.
            Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {}
            Err(failure) => self.report(failure),
        }
        // What is still buffered had its chance; dropping must not try again.
        let (_, _) = self.out.into_parts();
        if self.failed { Exit::Failed } else { Exit::Done }
    }
}

/// Runs a command with the process's own streams and gives its exit status.
pub fn with_standard_streams(command: impl FnOnce(&mut Output<'_>) -> Result<(), Failure>) -> Exit {
    let terminal = io::stdout().is_terminal();
    // Not locked for the whole command: another thread may have something to log.
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let mut output = Output::new(&mut out, &mut err, terminal);
    let result = command(&mut output);
    output.finish(result)
}

/// A text from outside, with everything escaped that a terminal would obey or that would reorder
/// or break the line.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_unprintable(c) {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// As [`escaped`], for a text of many lines.
pub fn escaped_lines(text: &str) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        let cells: Vec<_> = line.strip_suffix('\r').unwrap_or(line).split('\t').collect();
        let cells: Vec<_> = cells.into_iter().map(escaped).collect();
        cells.join("\t") + end
    });
    lines.collect()
}

/// JSON of one line, with the same characters as JSON escapes. They can only stand inside its
/// strings, so the value stays the same.
fn escaped_json(json: &str) -> Cow<'_, str> {
    if !json.contains(is_unprintable) {
        return Cow::Borrowed(json);
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if !is_unprintable(c) {
            safe.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(safe, "\\u{unit:04x}");
        }
    }
    Cow::Owned(safe)
}

/// Control characters, and those that reorder text or separate lines without being seen.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A stream that fails with this kind of error.
    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn write_to(out: &mut dyn Write) -> (Exit, String) {
        let mut err = Vec::new();
        let mut output = Output::new(out, &mut err, false);
        let result = (0..10_000).try_for_each(|n| output.line(n));
        let exit = output.finish(result);
        (exit, String::from_utf8(err).unwrap())
    }

    #[test]
    fn a_closed_pipe_ends_quietly_and_a_full_disk_is_an_error() {
        let (exit, err) = write_to(&mut Broken(io::ErrorKind::BrokenPipe));
        assert_eq!((exit, err.as_str()), (Exit::Done, ""));
        let (exit, err) = write_to(&mut Broken(io::ErrorKind::StorageFull));
        assert_eq!(exit, Exit::Failed);
        assert!(err.starts_with("nexus: cannot write to standard output: "), "{err}");
    }

    #[test]
    fn a_report_comes_after_what_was_written_before_and_makes_the_exit_status_1() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut output = Output::new(&mut out, &mut err, false);
        output.line("one").unwrap();
        output.report("two\n\u{1b}[31m");
        let exit = output.finish(Ok(()));
        assert_eq!(exit, Exit::Failed);
        assert_eq!(out, b"one\n");
        assert_eq!(err, b"nexus: two\\n\\u{1b}[31m\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(escaped("plain é ☃ 'x'"), "plain é ☃ 'x'");
        assert_eq!(escaped("\u{1b}[2J\r\n\t\0\u{7f}\u{9b}"), r"\u{1b}[2J\r\n\t\u{0}\u{7f}\u{9b}");
        assert_eq!(escaped("a\u{202e}b"), r"a\u{202e}b");
        assert_eq!(escaped_lines("a\tb\r\nc\u{1b}\n\nd"), "a\tb\nc\\u{1b}\n\nd");
    }

    proptest! {
        #[test]
        fn escaped_text_is_one_line_without_control_characters(text in any::<String>()) {
            prop_assert!(!escaped(&text).contains(is_unprintable));
        }

        #[test]
        fn escaped_json_has_the_same_value(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let safe = escaped_json(&json);
            prop_assert!(!safe.contains(is_unprintable));
            prop_assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
        }
    }
}
