//! The registry: which flows are published, in which versions, in `registry.db`.
//!
//! One [`Registry`] is one connection, for one thread; any number of them, in any number of
//! processes, may work on one file. [`Catalog`] answers the door's question (is there such a
//! flow, and how large may its messages be) from memory, for all threads of a process.
//!
//! | file      | holds                                                              |
//! |-----------|--------------------------------------------------------------------|
//! | `schema`  | the tables, the schema version, how a connection is set up         |
//! | `file`    | the file and its directory: making them, and whose they must be    |
//! | `publish` | storing new versions, all or none                                  |
//! | `resolve` | reading: latest with its digest verified, gates, lists, sources    |
//! | `catalog` | the snapshot of all gates that the door reads                      |
//! | `error`   | what can go wrong, in words that name the file                     |
//!
//! API keys will be a table of the same file, in `keys`. What an artifact means is the
//! compiler's business (`flow`); here it is bytes with a SHA-256.

mod catalog;
mod error;
mod file;
mod publish;
mod resolve;
mod schema;

pub use catalog::Catalog;
pub use error::RegistryError;
pub use file::{must_exist, state_dir};
pub use publish::{NewVersion, Published};
pub use resolve::{FlowDetail, FlowGate, FlowSummary, Latest};
pub use schema::Registry;
