//! The expression language of FlowMarkdown.
//!
//! - [`syntax`] is what an expression is, once read.
//! - [`parse`] reads its text, at publication and again when an artifact is loaded.
//! - [`function`] names the functions and their arguments.
//! - [`evaluate`] gives its value.
//!
//! The language has no loops and no assignments, so an evaluation ends without being counted; what
//! it may build is bounded in bytes.

pub mod evaluate;
pub mod function;
pub mod parse;
pub mod syntax;

pub use evaluate::{Reason, Scope, Surroundings};
pub use parse::ExpressionError;
pub use syntax::{Expression, Node, Reference, Root, Target};
