//! What can go wrong with a queue's files, and what it found damaged.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::record::RecordsError;
use crate::store::scan::ScanError;

/// What kind of fault it is: what a caller does next depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// No room on the device.
    NoRoom,
    /// A lock did not come free within its deadline.
    Locked,
    /// The queue refuses until it has been opened anew, through full recovery.
    Poisoned,
    /// Anything else that the file system said, or a file that is not what it must be.
    Io,
}

/// A queue's file could not be read or written. The text names the file and the reason.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub struct QueueError {
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// For a person: the file, what was tried, the reason.
    pub text: String,
}

impl QueueError {
    /// A fault of the file system: what was tried on which file, and what it said.
    pub fn io(tried: &str, path: &Path, error: &io::Error) -> QueueError {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => FaultKind::NoRoom,
            _ => FaultKind::Io,
        };
        QueueError { kind, text: format!("cannot {tried} {}: {error}", path.display()) }
    }

    /// The queue must be opened anew.
    pub fn poisoned(text: String) -> QueueError {
        QueueError { kind: FaultKind::Poisoned, text }
    }

    /// A file that this build cannot read, such as one of a newer version.
    pub fn unreadable(path: &Path, why: &str) -> QueueError {
        let text = format!("cannot read {}: {why}", path.display());
        QueueError { kind: FaultKind::Io, text }
    }

    /// A file that is not written, for a reason of this program's own.
    pub fn unwritable(path: &Path, why: &str) -> QueueError {
        let text = format!("cannot write {}: {why}", path.display());
        QueueError { kind: FaultKind::Io, text }
    }

    /// A file of frames that could not be scanned.
    pub fn scan(path: &Path, error: &ScanError) -> QueueError {
        match error {
            ScanError::Io(error) => QueueError::io("read", path, error),
            newer @ ScanError::Newer { .. } => QueueError::unreadable(path, &newer.to_string()),
        }
    }

    /// A file of records that could not be read.
    pub fn records(path: &Path, error: &RecordsError) -> QueueError {
        match error {
            RecordsError::Io(error) => QueueError::io("read", path, error),
            newer @ RecordsError::Newer { .. } => QueueError::unreadable(path, &newer.to_string()),
        }
    }
}

/// Something damaged that was found and stepped over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The file.
    pub path: PathBuf,
    /// Where in it the damage begins.
    pub offset: u64,
    /// How many bytes are damaged; 0 when that is not known.
    pub len: u64,
    /// For a person: what it means for the queue.
    pub text: String,
}
