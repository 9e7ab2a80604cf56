//! `nexus serve`: publishes the flows it is given, and serves until it is told to stop.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use super::args::{self, Resume, ServeArgs};
use super::output::{Failure, with_standard_streams};
use super::publish::publish_files;
use crate::base::time::SystemClock;
use crate::journal::{LogFormat, finish_log, init_log};
use crate::server::{self, ServerConfig, StartError};

/// Serves until it is told to stop.
pub fn run(args: ServeArgs) -> ExitCode {
    if let Err(error) = init_log(log_format(args.log_format)) {
        let failure = Failure::new("cannot start the log's thread", error);
        return with_standard_streams(|_| Err(failure)).into();
    }
    let mut checked = None;
    let published = with_standard_streams(|output| {
        let config = config(&args)?;
        server::check(&config).map_err(told)?;
        if !args.files.is_empty() {
            publish_files(&config.registry, &args.files, &SystemClock, output)?;
        }
        checked = Some(config);
        Ok(())
    });
    let Some(config) = checked else { return published.into() };
    // Not within the streams: they are held by whoever writes to them, and the log needs one.
    let served = server::run(&config);
    finish_log();
    with_standard_streams(|_| served.map_err(told)).into()
}

fn told(error: StartError) -> Failure {
    Failure::Told(error.to_string())
}

fn config(args: &ServeArgs) -> Result<ServerConfig, Failure> {
    let registry = args.db.registry()?;
    let registry = std::path::absolute(&registry)
        .map_err(|error| Failure::new(format!("cannot find {}", registry.display()), error))?;
    Ok(ServerConfig {
        registry,
        listen: args.listen,
        dev: args.dev,
        acceptors: args.acceptors(),
        max_connections: args.max_connections,
        max_message_bytes: args.max_message_bytes,
        max_queues: args.max_queues,
        grace: args.grace(),
        resume_at_start: args.resume == Resume::AtStart,
    })
}

/// As asked; else JSON lines, unless a person reads standard error.
fn log_format(asked: Option<args::LogFormat>) -> LogFormat {
    match asked {
        Some(args::LogFormat::Json) => LogFormat::Json,
        Some(args::LogFormat::Text) => LogFormat::Text,
        None if io::stderr().is_terminal() => LogFormat::Text,
        None => LogFormat::Json,
    }
}
