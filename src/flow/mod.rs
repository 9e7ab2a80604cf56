//! Flows.

mod compile;
pub mod effect;
mod outcome;

pub use compile::{Compilation, Problem, Severity, compile};
pub use effect::{Effects, Publish, PublishError};
pub use outcome::*;
