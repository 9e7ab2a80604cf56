//! What the queue's files are made of: frames with a checksum (`frame`), reading through a file of
//! frames and past its damage (`scan`), fixed records (`record`), and replacing a small file whole
//! (`replace`).
//!
//! Knows bytes and files, and nothing of messages.

pub mod frame;
pub mod record;
pub mod replace;
pub mod scan;
