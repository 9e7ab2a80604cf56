//! Flows.

pub mod effect;
mod outcome;

pub use effect::{Effects, Publish, PublishError};
pub use outcome::*;
