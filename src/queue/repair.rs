//! Mending a queue's files while nobody works on it.
//!
//! All three locks are held throughout, so that no worker runs and nobody appends. What does not
//! verify is copied aside before anything is changed: bytes of the log into `segment.log.corrupt`,
//! any other file whole into a file beside it whose name ends in `.bad-` and a number.
//!
//! Promises: no sound message is lost, and none that is settled is delivered again unless the files
//! that said so are among the damaged ones. A crash in between loses nothing either: at worst
//! messages are delivered again. Afterwards `verify` finds nothing; what it cannot mend (a file of
//! a newer version, a symbolic link) is an error, and is left as it is.
//!
//! | part           | mends                                              |
//! |----------------|----------------------------------------------------|
//! | `dead_letters` | `dlq.log`, `dlq.log.acked`, `segment.log.corrupt`  |
//! | `log`          | `segment.log`, and what refers to places in it     |
//! | `state`        | checkpoint, schedule, `.seq`, slots                |

mod dead_letters;
mod log;
mod state;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::QueueName;
use crate::base::limits::LOCK_DEADLINE;
use crate::disk::{Disk, DiskFile, Open};
use crate::queue::dlq::open_existing;
use crate::queue::error::QueueError;
use crate::queue::layout::{Layout, QueuePaths};
use crate::queue::lock::{Held, LockFile, locked};
use crate::queue::pause::exists;
use crate::queue::segment::rewrite;
use crate::store::replace::{TEMPORARY, copy_range, remove_temporaries};

/// Copies of one damaged file that are kept beside it.
const MAX_COPIES: u32 = 1000;

/// One thing that was mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mended {
    /// The file's name within the queue's directory.
    pub file: String,
    /// For a person: what was wrong and what was done.
    pub text: String,
}

/// Mends a queue's files; gives what was done, nothing when nothing was wrong.
///
/// # Errors
/// `Locked` while a worker runs or another process writes; nothing is changed then. Others: a queue
/// that is not there, a file that cannot be read or written, or that this build cannot mend.
pub fn repair(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    queue: &QueueName,
) -> Result<Vec<Mended>, QueueError> {
    let paths = layout.queue(queue);
    if !exists(disk.as_ref(), layout, queue)? {
        return Err(QueueError::unreadable(&paths.dir, "there is no such queue"));
    }
    let lock = |path: &Path, wait| LockFile::new(Arc::clone(disk), path).lock(wait);
    let worker = LockFile::new(Arc::clone(disk), &paths.worker_lock).try_lock(Duration::ZERO)?;
    let worker = worker.ok_or_else(|| {
        locked(disk.as_ref(), &paths.worker_lock, "stop the server that delivers the queue first")
    })?;
    let _dlq = lock(&paths.dlq_lock, LOCK_DEADLINE)?;
    let _append = lock(&paths.append_lock, LOCK_DEADLINE)?;
    let mut repair = Repair { disk: disk.as_ref(), paths, worker, mended: Vec::new() };
    repair.remove_leftovers()?;
    repair.make_durable()?;
    repair.mend_kept_aside()?;
    repair.mend_dead_letters()?;
    repair.mend_log_and_state()?;
    repair.mend_slots()?;
    let dir = &repair.paths.dir;
    disk.sync_dir(dir).map_err(|error| QueueError::io("sync", dir, &error))?;
    Ok(repair.mended)
}

/// A repair that is under way.
struct Repair<'a> {
    disk: &'a dyn Disk,
    paths: QueuePaths,
    /// `worker.lock`, held.
    worker: Held,
    mended: Vec<Mended>,
}

impl Repair<'_> {
    fn note(&mut self, path: &Path, text: impl Into<String>) {
        self.mended.push(Mended { file: name_of(path), text: text.into() });
    }

    fn open(&self, path: &Path) -> Result<Option<Box<dyn DiskFile>>, QueueError> {
        open_existing(self.disk, path, Open::Write)
    }

    /// What a dead process wrote may never have been synced, and is about to be relied on: a retry
    /// is dropped for the sake of a dead letter, a message for the sake of a checkpoint.
    fn make_durable(&self) -> Result<(), QueueError> {
        for path in [&self.paths.dlq, &self.paths.acked, &self.paths.retry, &self.paths.checkpoint]
        {
            if let Some(file) = self.open(path)? {
                let len = file.len().map_err(|error| QueueError::io("read", path, &error))?;
                rewrite(file.as_ref(), 0, len)?;
            }
        }
        let dir = &self.paths.dir;
        self.disk.sync_dir(dir).map_err(|error| QueueError::io("sync", dir, &error))
    }

    fn remove_leftovers(&mut self) -> Result<(), QueueError> {
        let fault = |error| QueueError::io("tidy", &self.paths.dir, &error);
        let entries = self.disk.list(&self.paths.dir).map_err(fault)?;
        remove_temporaries(self.disk, &self.paths.dir).map_err(fault)?;
        for entry in entries {
            if !entry.is_dir && entry.name.ends_with(TEMPORARY) {
                let text = "was left behind by a crash and has been removed";
                self.mended.push(Mended { file: entry.name, text: text.to_owned() });
            }
        }
        Ok(())
    }

    /// Copies a file whole into one beside it, synced; gives the copy's name.
    fn copy_aside(&self, file: &dyn DiskFile) -> Result<String, QueueError> {
        let fault = |path: &Path, error| QueueError::io("copy aside", path, &error);
        let path = file.path();
        for number in 1..=MAX_COPIES {
            let mut copy = path.as_os_str().to_owned();
            copy.push(format!(".bad-{number}"));
            let copy = Path::new(&copy);
            if self.disk.identity(copy).map_err(|error| fault(copy, error))?.is_some() {
                continue;
            }
            let len = file.len().map_err(|error| fault(path, error))?;
            let to = self.disk.open(copy, Open::Create).map_err(|error| fault(copy, error))?;
            copy_range(file, (0, len), to.as_ref(), 0)
                .and_then(|_| to.sync())
                .and_then(|()| self.disk.sync_dir(&self.paths.dir))
                .map_err(|error| fault(copy, error))?;
            return Ok(name_of(copy));
        }
        let why = format!("there are {MAX_COPIES} copies of it already; move them away first");
        Err(QueueError::unwritable(path, &why))
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
