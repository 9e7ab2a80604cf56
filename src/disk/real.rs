//! The real disk (stub).
use std::io;
use std::path::Path;

use super::{Disk, DiskFile, Entry, Identity, Open};

#[derive(Debug)]
/// The disk.
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, _: &Path, _: Open) -> io::Result<Box<dyn DiskFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn list(&self, _: &Path) -> io::Result<Vec<Entry>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn identity(&self, _: &Path) -> io::Result<Option<Identity>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
