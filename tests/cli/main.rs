//! The command line as a person meets it: the real program, its outputs to the letter, its exit
//! statuses, and what it leaves on the disk (nothing, where it refuses).

mod dlq;
mod flows;
mod processes;
mod queue;
mod refusals;
mod support;
mod validate;
