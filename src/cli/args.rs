//! Every command and flag, in clap's words.
//!
//! What is checked here is refused with exit status 2, before any command begins. Names are not:
//! their rule and its words are in `base/name`, and each command applies it first of all.
//!
//! `--help` is short and ends in examples; the man pages under `man/` are made from the same
//! definitions.

mod queue;

use std::env;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::builder::{FalseyValueParser, RangedU64ValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

pub use self::queue::{
    QueueCommand, QueueDumpArgs, QueueListArgs, QueueNameArgs, QueueShowArgs, QueueVerifyArgs,
};
use super::exit::Exit;
use super::output::{Failure, escaped_lines};
use crate::base::limits::{
    DEFAULT_GRACE_SECONDS, DEFAULT_MAX_CONNECTIONS, DEFAULT_MAX_MESSAGE_BYTES, DEFAULT_MAX_QUEUES,
    MAX_ACCEPTORS, MAX_CONNECTIONS, MAX_GRACE_SECONDS, MAX_MESSAGE_BYTES, MAX_QUEUES,
    MIN_DEFAULT_ACCEPTORS,
};
use crate::base::name::NameError;
use crate::base::{MessageId, QueueName};

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "nexus",
    version,
    about = "A durable message queue with an HTTP door",
    after_help = "Examples:
  nexus serve --dev flows/*.md
  nexus validate flows/*.md
  nexus publish flows/forward-order.md
  nexus dlq list --tenant acme

Exit status: 0 done, 1 failed, 2 wrong usage."
)]
pub struct Cli {
    /// What is to be done.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Accept messages over HTTP and deliver them
    Serve(Box<ServeArgs>),
    /// Check flows without publishing them
    Validate(ValidateArgs),
    /// Store flows in the registry, as their next versions
    Publish(PublishArgs),
    /// Show what is published
    #[command(subcommand)]
    Flows(FlowsCommand),
    /// List, replay and discard dead letters
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Look at queues, verify and mend their files, pause and resume them
    #[command(subcommand)]
    Queue(QueueCommand),
}

/// Where the registry is.
#[derive(Debug, Clone, Args)]
pub struct DbArgs {
    /// The registry; its directory is the state directory [default: ~/.nexus/registry.db]
    #[arg(long = "db", value_name = "PATH", env = "NEXUS_DB", hide_env_values = true)]
    pub db: Option<PathBuf>,
}

impl DbArgs {
    /// The registry's path, the default one if none was given.
    ///
    /// # Errors
    /// No path was given, and the environment does not say where the home directory is.
    pub fn registry(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.db {
            return Ok(path.clone());
        }
        match env::var_os("HOME").filter(|home| !home.is_empty()) {
            Some(home) => Ok(PathBuf::from(home).join(".nexus/registry.db")),
            None => Err(Failure::new(
                "cannot tell where the registry is",
                "the environment has no HOME; name it with --db PATH",
            )),
        }
    }
}

/// An address to listen on; `localhost` is this machine's own.
fn address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric.parse().map_err(|_| {
        "expected an IP address and a port from 0 to 65535, such as 127.0.0.1:9090 or [::1]:9090"
            .to_owned()
    })
}

/// `nexus serve`. Every flag can be set by the environment too.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:
  nexus serve --dev tests/flows/*.md
  nexus serve --dev --db /var/lib/nexus/registry.db --listen 127.0.0.1:9191")]
pub struct ServeArgs {
    /// Flows to publish before serving
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,

    /// The address to listen on
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        env = "NEXUS_LISTEN",
        hide_env_values = true,
        default_value = "127.0.0.1:9090",
        value_parser = address
    )]
    pub listen: SocketAddr,

    /// For development: loopback only, no keys, and a sample downstream under /dev/
    #[arg(
        long,
        env = "NEXUS_DEV",
        hide_env_values = true,
        value_parser = FalseyValueParser::new()
    )]
    pub dev: bool,

    /// Threads that serve connections, many each [default: one for each core, at least 2]
    #[arg(
        long,
        value_name = "N",
        env = "NEXUS_ACCEPTORS",
        hide_env_values = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_ACCEPTORS as u64)
    )]
    acceptors: Option<usize>,

    /// Connections that may be open at once; the limit on open files, less 256, holds too
    #[arg(
        long,
        value_name = "N",
        env = "NEXUS_MAX_CONNECTIONS",
        hide_env_values = true,
        default_value_t = DEFAULT_MAX_CONNECTIONS,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_CONNECTIONS as u64)
    )]
    pub max_connections: usize,

    /// Ceiling on one message in bytes; a flow can have a lower one
    #[arg(
        long,
        value_name = "BYTES",
        env = "NEXUS_MAX_MESSAGE_BYTES",
        hide_env_values = true,
        default_value_t = DEFAULT_MAX_MESSAGE_BYTES,
        value_parser = clap::value_parser!(u64).range(1..=MAX_MESSAGE_BYTES)
    )]
    pub max_message_bytes: u64,

    /// Queues that may be active at once
    #[arg(
        long,
        value_name = "N",
        env = "NEXUS_MAX_QUEUES",
        hide_env_values = true,
        default_value_t = DEFAULT_MAX_QUEUES,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_QUEUES as u64)
    )]
    pub max_queues: usize,

    /// Seconds that a stopping server gives to what is in flight
    #[arg(
        long,
        value_name = "SECONDS",
        env = "NEXUS_GRACE",
        hide_env_values = true,
        default_value_t = DEFAULT_GRACE_SECONDS,
        value_parser = clap::value_parser!(u64).range(0..=MAX_GRACE_SECONDS)
    )]
    grace: u64,

    /// When what an earlier run left undelivered is taken up: at-start, or on-submit to its flow
    #[arg(
        long,
        value_name = "WHEN",
        env = "NEXUS_RESUME",
        hide_env_values = true,
        hide_possible_values = true,
        value_enum,
        default_value_t = Resume::AtStart
    )]
    pub resume: Resume,

    /// How log lines are written: text or json [default: text on a terminal, else json]
    #[arg(
        long,
        value_name = "FORMAT",
        env = "NEXUS_LOG_FORMAT",
        hide_env_values = true,
        hide_possible_values = true,
        value_enum
    )]
    pub log_format: Option<LogFormat>,
}

impl ServeArgs {
    /// Threads that serve connections.
    pub fn acceptors(&self) -> usize {
        // A machine that does not tell has at least one core.
        let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.acceptors.unwrap_or_else(|| cores().clamp(MIN_DEFAULT_ACCEPTORS, MAX_ACCEPTORS))
    }

    /// The time that a stopping server gives to what is in flight.
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace)
    }
}

/// When a queue that an earlier run left unfinished is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Resume {
    /// When the server starts
    AtStart,
    /// At the next submission to its flow
    OnSubmit,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// `nexus validate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nexus validate flows/*.md
  nexus validate --json - < flow.md")]
pub struct ValidateArgs {
    /// Flows to check; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Print an array of problems as JSON
    #[arg(long)]
    pub json: bool,
}

/// `nexus publish`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nexus publish flows/*.md
  nexus publish --db /var/lib/nexus/registry.db flows/forward-order.md")]
pub struct PublishArgs {
    /// Flows to publish, all or none; - is standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,
}

/// The two names that a queue has. They are checked by [`QueueArgs::parse`].
#[derive(Debug, Args)]
pub struct QueueArgs {
    /// Whose flow it is
    #[arg(long, value_name = "TENANT", allow_hyphen_values = true)]
    pub tenant: String,

    /// The flow's name
    #[arg(long, value_name = "FLOW", allow_hyphen_values = true)]
    pub flow: String,
}

impl QueueArgs {
    /// Applies the rule for a name that becomes a path.
    ///
    /// # Errors
    /// [`NameError`], naming both and the character at fault.
    pub fn parse(&self) -> Result<QueueName, NameError> {
        QueueName::parse(&self.tenant, &self.flow)
    }
}

/// `nexus flows`.
#[derive(Debug, Subcommand)]
pub enum FlowsCommand {
    /// List the latest version of every flow
    #[command(after_help = "Examples:
  nexus flows list
  nexus flows list --json | jq -r .flow")]
    List(FlowsListArgs),
    /// Print the source of a version
    #[command(after_help = "Examples:
  nexus flows show --tenant acme --flow forward-order
  nexus flows show --tenant acme --flow forward-order --version 2")]
    Show(FlowsShowArgs),
}

/// `nexus flows list`.
#[derive(Debug, Args)]
pub struct FlowsListArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,
}

/// `nexus flows show`.
#[derive(Debug, Args)]
pub struct FlowsShowArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub queue: QueueArgs,

    /// The version to show; the latest if none is named
    #[arg(long = "version", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub number: Option<u32>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,
}

/// `nexus dlq`.
#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// List the dead letters that nobody has handled
    #[command(after_help = "Examples:
  nexus dlq list
  nexus dlq list --tenant acme --flow forward-order")]
    List(DlqListArgs),
    /// Submit a dead letter again, as a new message at the back of its queue
    #[command(after_help = "Example:
  nexus dlq replay --tenant acme --flow forward-order --id 7")]
    Replay(DlqEntryArgs),
    /// Mark a dead letter handled without running anything
    #[command(after_help = "Example:
  nexus dlq discard --tenant acme --flow forward-order --id 7")]
    Discard(DlqEntryArgs),
}

/// `nexus dlq list`.
#[derive(Debug, Args)]
pub struct DlqListArgs {
    /// Only this tenant's
    #[arg(long, value_name = "TENANT", allow_hyphen_values = true)]
    pub tenant: Option<String>,

    /// Only those of flows with this name
    #[arg(long, value_name = "FLOW", allow_hyphen_values = true)]
    pub flow: Option<String>,

    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,
}

/// `nexus dlq replay` and `nexus dlq discard`: which dead letter is meant.
#[derive(Debug, Args)]
pub struct DlqEntryArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub queue: QueueArgs,

    /// The message's id, from `nexus dlq list`
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = parse_id)]
    pub id: MessageId,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,
}

/// Reads the program's own arguments.
///
/// # Errors
/// They name no command. What there is to say about that has been printed: help and version to
/// standard output, a wrong usage to standard error in the words of every other error.
pub fn parse() -> Result<Command, Exit> {
    let error = match Cli::try_parse() {
        Ok(cli) => return Ok(cli.command),
        Err(error) => error,
    };
    if !error.use_stderr() {
        // Help that nobody reads to its end is no failure.
        let _ = error.print();
        return Err(Exit::Done);
    }
    let text = escaped_lines(&error.render().to_string());
    let _ = match text.strip_prefix("error: ") {
        Some(error) => write!(io::stderr(), "nexus: {error}"),
        // The help, for a command line without a command.
        None => write!(io::stderr(), "{text}"),
    };
    Err(Exit::Usage)
}

/// The command line as clap knows it, for the man pages.
pub fn command() -> clap::Command {
    Cli::command()
}

fn parse_id(text: &str) -> Result<MessageId, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.and_then(MessageId::new).ok_or_else(|| {
        format!("an id is a whole number from 1 to {}, as `nexus dlq list` shows it", u64::MAX)
    })
}

#[cfg(test)]
mod tests;
