//! The worker: joins queues, flows and the registry, and is all of the program's threads but the
//! doors'.
//!
//! | | |
//! |---|---|
//! | [`Roster`] | the active queues; the doors submit through it ([`Submit`]) |
//! | `channel` | the bounded way to one queue's owner thread |
//! | `owner`, with `tenure`, `commit`, `report` | the thread that owns one queue's files |
//! | `runner`, with `resolve`, `publish` | the threads that run flows and touch no file |
//! | [`Janitor`] | finds work that nobody here knows of |

mod channel;
mod commit;
mod files;
mod inbox;
mod janitor;
mod owner;
mod publish;
mod report;
mod resolve;
mod roster;
mod runner;
mod surroundings;
mod tenure;

#[cfg(test)]
mod tests;

pub use inbox::{Refusal, Reply, Submission, Submit};
pub use janitor::Janitor;
pub use roster::Roster;
pub use surroundings::{Limits, Surroundings};
