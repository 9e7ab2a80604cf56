//! `nexus queue`: its commands and flags.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DbArgs, QueueArgs};

/// `nexus queue`.
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// Show how much every queue holds and who delivers it
    #[command(after_help = "Examples:
  nexus queue list
  nexus queue list --json | jq 'select(.waiting > 1000)'")]
    List(QueueListArgs),
    /// Show one queue: its retry schedule, its oldest message, its files
    #[command(after_help = "Examples:
  nexus queue show --tenant acme --flow forward-order
  nexus queue show --tenant acme --flow forward-order --watch")]
    Show(QueueShowArgs),
    /// Read every file of every queue and report what is wrong
    #[command(after_help = "Examples:
  nexus queue verify
  nexus queue verify --tenant acme --flow forward-order --json")]
    Verify(QueueVerifyArgs),
    /// Print any file of a queue as JSON lines
    #[command(after_help = "Examples:
  nexus queue dump ~/.nexus/queues/acme/forward-order/segment.log
  nexus queue dump ~/.nexus/queues/acme/forward-order/segment.log.retry")]
    Dump(QueueDumpArgs),
    /// Mend the files of a queue that no server delivers
    #[command(after_help = "Example:
  nexus queue repair --tenant acme --flow forward-order")]
    Repair(QueueNameArgs),
    /// Accept messages for a queue, and deliver none
    #[command(after_help = "Example:
  nexus queue pause --tenant acme --flow forward-order")]
    Pause(QueueNameArgs),
    /// Deliver the messages of a paused queue again
    #[command(after_help = "Example:
  nexus queue resume --tenant acme --flow forward-order")]
    Resume(QueueNameArgs),
}

/// `nexus queue list`.
#[derive(Debug, Args)]
pub struct QueueListArgs {
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,
}

/// `nexus queue show`.
#[derive(Debug, Args)]
pub struct QueueShowArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub queue: QueueArgs,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Look again each second, until interrupted
    #[arg(long)]
    pub watch: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,
}

/// `nexus queue verify`.
#[derive(Debug, Args)]
pub struct QueueVerifyArgs {
    /// Only this tenant's
    #[arg(long, value_name = "TENANT", allow_hyphen_values = true)]
    pub tenant: Option<String>,

    /// Only those of flows with this name
    #[arg(long, value_name = "FLOW", allow_hyphen_values = true)]
    pub flow: Option<String>,

    /// Print one JSON object per queue
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,
}

/// `nexus queue dump`.
#[derive(Debug, Args)]
pub struct QueueDumpArgs {
    /// The file, or a copy of it; its name says what it is
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `nexus queue repair`, `pause` and `resume`: which queue is meant.
#[derive(Debug, Args)]
pub struct QueueNameArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub queue: QueueArgs,

    #[command(flatten)]
    #[allow(missing_docs)]
    pub db: DbArgs,
}
