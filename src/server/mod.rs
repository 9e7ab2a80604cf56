//! The server: puts registry, worker and door together, and takes them apart again in order.
//!
//! | | |
//! |---|---|
//! | `config` | what an operator decides, and what of it cannot be |
//! | `start` | from a directory to a listening process |
//! | `readiness` | what keeps it from being ready |
//! | `stop` | from a signal to an orderly end |

mod config;
mod readiness;
mod start;
mod stop;

pub use config::{ServerConfig, StartError};
pub use start::{Server, check, run};
