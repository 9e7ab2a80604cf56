//! From the arguments to a command to an exit status.

use std::process::ExitCode;

use super::args::{self, Command, DlqCommand, FlowsCommand, QueueCommand};
use super::output::with_standard_streams;
use super::{dlq, flows, publish, queue, serve, validate};

/// Runs the program.
pub fn main() -> ExitCode {
    let command = match args::parse() {
        Ok(command) => command,
        Err(exit) => return exit.into(),
    };
    if let Command::Serve(args) = command {
        return serve::run(*args);
    }
    with_standard_streams(|output| match &command {
        Command::Serve(_) => Ok(()),
        Command::Validate(args) => validate::run(args, output),
        Command::Publish(args) => publish::run(args, output),
        Command::Flows(FlowsCommand::List(args)) => flows::list(args, output),
        Command::Flows(FlowsCommand::Show(args)) => flows::show(args, output),
        Command::Dlq(DlqCommand::List(args)) => dlq::list(args, output),
        Command::Dlq(DlqCommand::Replay(args)) => dlq::replay(args, output),
        Command::Dlq(DlqCommand::Discard(args)) => dlq::discard(args, output),
        Command::Queue(QueueCommand::List(args)) => queue::list(args, output),
        Command::Queue(QueueCommand::Show(args)) => queue::show(args, output),
        Command::Queue(QueueCommand::Verify(args)) => queue::verify(args, output),
        Command::Queue(QueueCommand::Dump(args)) => queue::dump(args, output),
        Command::Queue(QueueCommand::Repair(args)) => queue::repair(args, output),
        Command::Queue(QueueCommand::Pause(args)) => queue::pause(args, output),
        Command::Queue(QueueCommand::Resume(args)) => queue::resume(args, output),
    })
    .into()
}
