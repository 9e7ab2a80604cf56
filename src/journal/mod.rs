//! What a server says about its work: events with fields, and the log that they are written to.
//!
//! Every event passes [`Journal::record`], and nothing else writes one.

mod event;
mod log;
mod record;
mod thin;

pub use self::log::{LogFormat, init_log};
pub use event::{Event, Kind};
pub use record::Journal;
