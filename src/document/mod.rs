//! Documents: what a message says, whatever it came as.
//!
//! - [`json`] checks JSON at the door and reads it into a [`Value`].
//! - [`scanner`] has the tokens of JSON.
//! - [`value`] is a document in memory: it keeps the order of keys and the text of numbers.
//! - [`number`] compares and computes exactly, or says that it cannot.
//! - [`path`] finds a value by an RFC 9535 singular path.
//! - [`xml`] reads XML safely, and [`flatten`] turns it into the JSON that a queue stores.
//!
//! Nothing here reads a file or a socket.

pub mod flatten;
pub mod json;
pub mod number;
pub mod path;
pub mod scanner;
pub mod value;
pub mod xml;

pub use json::JsonError;
pub use number::Number;
pub use scanner::JsonFault;
pub use value::{Object, Value};
pub use xml::XmlError;
