//! Worker.

mod inbox;

pub use inbox::*;
