//! `nexus validate`: checks flows without publishing them.
//!
//! Prints `FILE: ok`, or every problem of the file; or all problems of all files as one array of
//! JSON. The exit status is 1 if any file has an error or cannot be read; warnings leave it at 0.

use super::args::ValidateArgs;
use super::output::{Failure, Output};
use super::source::{self, Checked, ProblemRow};

/// Checks the files one after the other; one that cannot be read does not stop the others.
pub fn run(args: &ValidateArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    if args.json {
        return print_array(args, output);
    }
    for file in &args.files {
        let checked = match source::check(file) {
            Ok(checked) => checked,
            Err(failure) => {
                output.report(failure);
                continue;
            }
        };
        for problem in &checked.problems {
            output.line(source::problem_text(&checked.name, problem))?;
        }
        if checked.is_faulty() {
            output.fail();
        } else {
            output.line(format_args!("{}: ok", checked.name))?;
        }
    }
    Ok(())
}

fn print_array(args: &ValidateArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let results: Vec<(String, Result<Checked, String>)> = args
        .files
        .iter()
        .map(|file| (source::shown(file), source::check(file).map_err(|error| error.to_string())))
        .collect();
    let mut rows = Vec::new();
    for (name, result) in &results {
        match result {
            Ok(checked) => {
                rows.extend(checked.problems.iter().map(|one| ProblemRow::at(name, one)))
            }
            Err(text) => rows.push(ProblemRow::unreadable(name, text)),
        }
        if result.as_ref().map_or(true, Checked::is_faulty) {
            output.fail();
        }
    }
    output.json(&rows)
}
