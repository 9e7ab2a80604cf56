//! The queue engine: what is on the disk for one (tenant, flow) pair, and how it changes.
//!
//! Passive: it starts no thread, waits for nothing but file locks, and is told the time. [`Appender`] is what any
//! process may do with a queue; [`Owner`] is the one elected to deliver it. The dead letters are read and handled by
//! any process (`dlq`).

mod api;

pub use api::*;
