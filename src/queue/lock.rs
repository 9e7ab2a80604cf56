//! A lock file of a queue: taken within a deadline, and only if the path still names the file that
//! was locked.
//!
//! The order is `worker.lock`, then `dlq.lock`, then `append.lock`. None of them is ever removed
//! while the queue's directory stands; where the directory was moved away or removed, the lock of
//! the old file excludes nobody, which is why the path is looked at after the lock has been taken.
//! The kernel frees a lock when its process dies.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::disk::{Disk, DiskFile, Open};
use crate::queue::error::{FaultKind, QueueError};

/// How often a lock file that was replaced meanwhile is opened again.
const REOPENS: u32 = 10;

/// One lock file, kept open so that taking it costs one call.
pub(crate) struct LockFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Option<Arc<dyn DiskFile>>,
}

/// A lock that is held until this is dropped.
pub(crate) struct Held {
    file: Arc<dyn DiskFile>,
}

impl Held {
    /// The locked file.
    pub(crate) fn file(&self) -> &dyn DiskFile {
        self.file.as_ref()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closing the file frees it in any case.
        let _ = self.file.unlock();
    }
}

/// The error of a lock that is held, with the process that holds it where that can be told.
pub(crate) fn locked(disk: &dyn Disk, path: &Path, more: &str) -> QueueError {
    let holder = match disk.identity(path).ok().flatten().and_then(|file| disk.holder(file)) {
        Some(process) => format!("process {process}"),
        None => "another process".to_owned(),
    };
    let text = format!("{} is held by {holder}: {more}", path.display());
    QueueError { kind: FaultKind::Locked, text }
}

impl LockFile {
    pub(crate) fn new(disk: Arc<dyn Disk>, path: &Path) -> LockFile {
        LockFile { disk, path: path.to_path_buf(), file: None }
    }

    /// Takes the lock if it comes free within `wait`.
    pub(crate) fn try_lock(&mut self, wait: Duration) -> Result<Option<Held>, QueueError> {
        self.attempt(wait).map_err(|error| QueueError::io("lock", &self.path, &error))
    }

    /// Takes the lock, or says that it did not come free within `wait`.
    pub(crate) fn lock(&mut self, wait: Duration) -> Result<Held, QueueError> {
        self.try_lock(wait)?.ok_or_else(|| {
            let waited = format!("it did not come free within {} s", wait.as_secs_f64());
            locked(self.disk.as_ref(), &self.path, &waited)
        })
    }

    fn attempt(&mut self, wait: Duration) -> io::Result<Option<Held>> {
        for _ in 0..REOPENS {
            let file = match &self.file {
                Some(file) => Arc::clone(file),
                None => Arc::from(self.disk.open(&self.path, Open::Create)?),
            };
            if !file.lock(wait)? {
                self.file = Some(file);
                return Ok(None);
            }
            let held = Held { file: Arc::clone(&file) };
            if file.is_still_at_its_path(self.disk.as_ref())? {
                self.file = Some(file);
                return Ok(Some(held));
            }
            self.file = None;
        }
        Err(io::Error::other("the file is replaced again and again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn a_lock_that_does_not_come_free_is_named_with_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir.path()));
        let path = dir.path().join("append.lock");
        let held = LockFile::new(Arc::clone(&disk), &path).lock(Duration::ZERO).unwrap();
        let error = LockFile::new(Arc::clone(&disk), &path).lock(Duration::ZERO).err().unwrap();
        assert_eq!(error.kind, FaultKind::Locked);
        let holder = match disk.holder(held.file().identity().unwrap()) {
            Some(process) => format!("process {process}"),
            None => "another process".to_owned(),
        };
        let expected =
            format!("{} is held by {holder}: it did not come free within 0 s", path.display());
        assert_eq!(error.text, expected);
    }
}
