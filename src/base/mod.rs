//! What everything else stands on: names, ids, time, chance, limits, the retry policy and digests.
//!
//! Nothing here reads a file or a socket, and nothing here imports from the rest of the program.

pub mod digest;
pub mod id;
pub mod limits;
pub mod name;
pub mod policy;
pub mod random;
pub mod time;

pub use id::{CorrelationId, MessageId};
pub use name::{Name, QueueName};
pub use policy::RetryPolicy;
pub use time::Timestamp;
