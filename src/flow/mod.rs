//! Flows: their source, the compiler, the artifact, and running them.
//!
//! The way of a source: [`source`] takes it apart, [`front_matter`] and [`step`] read the parts (by
//! [`yaml`] and [`fields`]), [`check`] looks at the whole, [`compile`] puts the [`program`]
//! together, [`artifact`] stores it. The way of a message: [`run`] follows the program with the
//! [`current`] document, [`effect`]s, [`rule`]s, [`condition`]s and the [`fault`] handler, and ends
//! in an [`outcome`]. [`expression`]s and [`template`]s serve both.
//!
//! A flow knows no queue, no registry and no door: what it does to the outside goes through
//! [`Effects`].

mod artifact;
mod check;
mod compile;
mod condition;
mod current;
pub mod effect;
pub mod expression;
mod fault;
mod fields;
mod front_matter;
mod outcome;
mod problem;
mod program;
mod rule;
mod run;
mod source;
mod step;
mod suggest;
pub mod template;
mod yaml;

pub use artifact::ArtifactError;
pub use compile::{Compilation, compile};
pub use effect::{Effects, HttpEgress, Publish, PublishError};
pub use outcome::{Context, DeliveryContext, Failure, FailureKind, Outcome};
pub use problem::{Problem, Severity};
pub use program::Flow;
