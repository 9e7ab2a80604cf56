//! Removing the files of a queue that nobody works and that holds nothing (the document "Queues,
//! retries and the DLQ", section "Housekeeping").
//!
//! A queue with a message, a pending retry, a dead letter that nobody has handled, a mark that is
//! not applied, or bytes that do not verify is not touched. All three locks are held, in their
//! order, and none is waited for. `.seq` is synced before anything is removed and stays, with the
//! checkpoint and the lock files: from then on they alone remember the ids.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::QueueName;
use crate::disk::Disk;
use crate::queue::dlq;
use crate::queue::error::QueueError;
use crate::queue::layout::{Layout, QueuePaths};
use crate::queue::lock::LockFile;
use crate::queue::segment::Appender;
use crate::queue::wake::has_work;

/// Removes the files of a queue that holds nothing, if nobody works it. `true` when it did.
///
/// # Errors
/// A file that cannot be read, synced or removed; what is left is a queue that holds nothing.
pub fn remove_empty(
    disk: &Arc<dyn Disk>,
    layout: &Layout,
    queue: &QueueName,
) -> Result<bool, QueueError> {
    let paths = layout.queue(queue);
    if !has_files(disk.as_ref(), &paths)? || holds_something(disk.as_ref(), layout, queue)? {
        return Ok(false);
    }
    let Some(_worker) = try_lock(disk, &paths.worker_lock)? else { return Ok(false) };
    let Some(_dlq) = try_lock(disk, &paths.dlq_lock)? else { return Ok(false) };
    let mut appender = Appender::open(Arc::clone(disk), layout, queue)?;
    let held = appender.lock()?;
    appender.refresh(&held)?;
    if appender.end() > 0 || holds_something(disk.as_ref(), layout, queue)? {
        return Ok(false);
    }
    appender.empty(&held)?;
    for path in removable(&paths) {
        match disk.remove(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(QueueError::io("remove", path, &error)),
        }
    }
    let synced = disk.sync_dir(&paths.dir);
    synced.map_err(|error| QueueError::io("sync", &paths.dir, &error))?;
    Ok(true)
}

fn removable(paths: &QueuePaths) -> [&Path; 4] {
    [&paths.segment, &paths.retry, &paths.dlq, &paths.acked]
}

fn has_files(disk: &dyn Disk, paths: &QueuePaths) -> Result<bool, QueueError> {
    for path in removable(paths) {
        let found = disk.identity(path);
        if found.map_err(|error| QueueError::io("look at", path, &error))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds_something(
    disk: &dyn Disk,
    layout: &Layout,
    queue: &QueueName,
) -> Result<bool, QueueError> {
    if has_work(disk, layout, queue)? {
        return Ok(true);
    }
    let unhandled = dlq::unhandled(disk, &layout.queue(queue))?;
    Ok(unhandled.is_some_and(|(_, index)| !index.places.is_empty() || !index.reports.is_empty()))
}

fn try_lock(
    disk: &Arc<dyn Disk>,
    path: &Path,
) -> Result<Option<crate::queue::lock::Held>, QueueError> {
    LockFile::new(Arc::clone(disk), path).try_lock(Duration::ZERO)
}
