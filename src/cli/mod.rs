//! The command line: what a person or a script says to `nexus`, and what it answers.
//!
//! | file          | holds                                                           |
//! |---------------|-----------------------------------------------------------------|
//! | `args`        | every command and flag, in clap's words                         |
//! | `dispatch`    | from the arguments to a command to an exit status               |
//! | `exit`        | the exit statuses                                               |
//! | `output`      | both streams: escaping, closed pipes, how an error is worded    |
//! | `source`      | reading and compiling the files of `validate` and `publish`     |
//! | `dead_letter` | how a dead letter is shown, as text and as JSON                 |
//! | `filter`      | which queues a listing is about                                 |
//! | the others    | one command each                                                |
//!
//! Promises: names and ids are checked before anything is opened; only `publish` and `serve` ever
//! make a registry; an error is one line that names what it is about and what to do.

pub mod args;
mod dead_letter;
mod dispatch;
mod dlq;
mod exit;
mod filter;
mod flows;
mod output;
mod publish;
mod queue;
mod serve;
mod source;
mod validate;

pub use args::command;
pub use dispatch::main;
