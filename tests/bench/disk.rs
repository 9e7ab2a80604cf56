//! The real disk, counting its syncs.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nexus::disk::{Disk, DiskFile, Entry, Identity, Open, RealDisk};

/// A disk that counts the syncs of its files.
pub struct CountingDisk {
    disk: RealDisk,
    syncs: Arc<AtomicU64>,
}

impl CountingDisk {
    pub fn new(root: &Path) -> CountingDisk {
        CountingDisk { disk: RealDisk::new(root), syncs: Arc::default() }
    }

    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl Disk for CountingDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let file = self.disk.open(path, how)?;
        Ok(Box::new(CountingFile { file, syncs: Arc::clone(&self.syncs) }))
    }
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_dir(path)
    }
    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        self.disk.identity(path)
    }
}

struct CountingFile {
    file: Box<dyn DiskFile>,
    syncs: Arc<AtomicU64>,
}

impl DiskFile for CountingFile {
    fn path(&self) -> &Path {
        self.file.path()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(buf, offset)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.punch(offset, len)
    }
    fn sync(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }
    fn lock(&self, wait: Duration) -> io::Result<bool> {
        self.file.lock(wait)
    }
    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
