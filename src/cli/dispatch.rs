//! From the arguments to a command to an exit status.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use super::args::{Cli, Command, DlqCommand, FlowsCommand};
use super::exit::Exit;
use super::output::{escaped_lines, with_standard_streams};
use super::{dlq, flows, publish, serve, validate};

/// Runs the program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error).into(),
    };
    if let Command::Serve(args) = cli.command {
        return serve::run(*args);
    }
    with_standard_streams(|output| match &cli.command {
        Command::Serve(_) => Ok(()),
        Command::Validate(args) => validate::run(args, output),
        Command::Publish(args) => publish::run(args, output),
        Command::Flows(FlowsCommand::List(args)) => flows::list(args, output),
        Command::Flows(FlowsCommand::Show(args)) => flows::show(args, output),
        Command::Dlq(DlqCommand::List(args)) => dlq::list(args, output),
        Command::Dlq(DlqCommand::Replay(args)) => dlq::replay(args, output),
        Command::Dlq(DlqCommand::Discard(args)) => dlq::discard(args, output),
    })
    .into()
}

/// Prints what clap has to say: help and version to standard output, a wrong usage to standard
/// error in the words of every other error.
fn usage(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        // Help that nobody reads to its end is no failure.
        let _ = error.print();
        return Exit::Done;
    }
    let text = escaped_lines(&error.render().to_string());
    let _ = match text.strip_prefix("error: ") {
        Some(error) => write!(io::stderr(), "nexus: {error}"),
        // The help, for a command line without a command.
        None => write!(io::stderr(), "{text}"),
    };
    Exit::Usage
}
