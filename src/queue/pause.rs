//! Pausing a queue: it accepts, and delivers nothing, across restarts.
//!
//! A queue is paused while the file `paused` is there; it holds nothing. Whoever delivers the queue
//! looks for it at every poll.

use std::io;

use crate::base::QueueName;
use crate::disk::{Disk, Open, up_to_root};
use crate::queue::error::QueueError;
use crate::queue::layout::{Layout, QueuePaths};
use crate::queue::wake;

/// Whether a queue has a directory.
///
/// # Errors
/// A directory that cannot be read, or is a symbolic link.
pub fn exists(disk: &dyn Disk, layout: &Layout, queue: &QueueName) -> Result<bool, QueueError> {
    let dir = layout.queue(queue).dir;
    match disk.list(&dir) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(QueueError::io("list", &dir, &error)),
    }
}

/// Pauses a queue, and makes its directory where it is missing. What is in flight is finished.
///
/// # Errors
/// A file or directory that cannot be made or synced; whether the queue is paused is then unknown.
pub fn pause(disk: &dyn Disk, layout: &Layout, queue: &QueueName) -> Result<(), QueueError> {
    let paths = layout.queue(queue);
    disk.create_dir_all(&paths.dir)
        .map_err(|error| QueueError::io("create", &paths.dir, &error))?;
    disk.open(&paths.paused, Open::Create)
        .and_then(|file| file.sync())
        .map_err(|error| QueueError::io("create", &paths.paused, &error))?;
    for dir in up_to_root(&paths.dir, layout.state_dir()) {
        disk.sync_dir(&dir).map_err(|error| QueueError::io("sync", &dir, &error))?;
    }
    Ok(())
}

/// Ends a pause, and has whatever server there is look at the queue. One that is not paused stays
/// as it is.
///
/// # Errors
/// The file cannot be removed, or the removal cannot be synced or told.
pub fn resume(disk: &dyn Disk, layout: &Layout, queue: &QueueName) -> Result<(), QueueError> {
    let QueuePaths { dir, paused, .. } = layout.queue(queue);
    // Opening refuses what is no plain file of ours.
    match disk.open(&paused, Open::Read).and_then(|_| disk.remove(&paused)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(QueueError::io("remove", &paused, &error)),
    }
    disk.sync_dir(&dir).map_err(|error| QueueError::io("sync", &dir, &error))?;
    wake::write(disk, layout, queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn a_pause_can_be_set_and_ended_any_number_of_times_and_its_end_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(dir.path());
        let layout = Layout::new(dir.path());
        let queue = QueueName::parse("acme", "a").unwrap();
        assert!(!exists(&disk, &layout, &queue).unwrap());
        resume(&disk, &layout, &queue).unwrap();
        assert!(!exists(&disk, &layout, &queue).unwrap(), "nothing is made");
        for _ in 0..2 {
            pause(&disk, &layout, &queue).unwrap();
            assert!(layout.queue(&queue).paused.exists());
        }
        assert!(exists(&disk, &layout, &queue).unwrap());
        for _ in 0..2 {
            resume(&disk, &layout, &queue).unwrap();
            assert!(!layout.queue(&queue).paused.exists());
        }
        assert_eq!(std::fs::read(layout.wake_file()).unwrap(), b"acme/a\n");
    }
}
