//! The real disk (stub).
#[derive(Debug)]
/// The disk.
pub struct RealDisk;
