//! The real binary on real sockets and real files: what a user and an operator see of it.
//!
//! Each test has a state directory, a server on a port of its own and, where one is called, a fake
//! downstream. Nothing is awaited by sleeping: conditions are polled until a generous deadline.
//! What takes long or needs more than Cargo.lock has is ignored with its reason.

mod attempts;
mod client;
mod crashes;
mod damage;
mod disk;
mod files;
mod flows;
mod full_disk;
mod harness;
mod nobody;
mod processes;
mod refusals;
mod restart;
mod sink;
mod stopping;
mod syncs;
