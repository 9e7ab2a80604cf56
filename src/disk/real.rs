//! Stand-in for the real disk.
#![allow(missing_docs, unused_variables)]
use super::{Disk, DiskFile, Entry, Identity, Open};
use std::{io, path::Path};
pub struct RealDisk(());
impl RealDisk {
    pub fn new(root: &Path) -> RealDisk {
        RealDisk(())
    }
}
impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
