//! The door as a client sees it: real sockets on loopback, with queues, registry and clock of the
//! test's own.
//!
//! `enqueue`: submissions and their answers. `framing`: what belongs to which request. `deadlines`:
//! clients that are slow, silent or deaf. `pool`: more clients than room, panics, the end.
//! `memory`: clients played from memory, with arbitrary bytes. `machine`: one connection, step by
//! step, by a clock of the test's own. `fakes`: what stands in for the rest
//! of the program.

mod deadlines;
mod enqueue;
mod fakes;
mod framing;
mod machine;
mod memory;
mod pool;
