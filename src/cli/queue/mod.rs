//! `nexus queue`: queues looked at from outside, verified, mended, paused and resumed.
//!
//! | file     | holds                                                         |
//! |----------|---------------------------------------------------------------|
//! | `row`    | how a queue is shown, as JSON                                 |
//! | `list`   | every queue, a line each                                      |
//! | `show`   | one queue, once or each second                                |
//! | `verify` | what is wrong with the files                                  |
//! | `dump`   | one file, place by place                                      |
//! | `repair` | mending                                                       |
//! | `pause`  | pausing and resuming                                          |
//! | `target` | the queue that a command is about, checked before it is opened |
//!
//! All but `repair`, `pause` and `resume` only read, and make nothing.

mod dump;
mod list;
mod pause;
mod repair;
mod row;
mod show;
mod target;
mod verify;

pub use dump::dump;
pub use list::list;
pub use pause::{pause, resume};
pub use repair::repair;
pub use show::show;
pub use verify::verify;
