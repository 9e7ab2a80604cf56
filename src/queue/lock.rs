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
        self.try_lock(wait)?.ok_or_else(|| QueueError {
            kind: FaultKind::Locked,
            text: format!(
                "{} is held by another process and did not come free within {} s",
                self.path.display(),
                wait.as_secs_f64()
            ),
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
