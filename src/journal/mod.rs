//! What a server says about its work: events with fields, and the log that they are written to.
//!
//! Every event passes [`Journal::record`], and nothing else writes one.

mod event;
mod log;
mod record;
mod thin;
mod writer;

pub use self::log::{LogFormat, finish_log, init_log};
pub use event::{Event, Kind};
pub use record::Journal;
