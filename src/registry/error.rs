//! What can go wrong with the registry, in words that name the file and say what to do.
//!
//! Every text stands on its own: it names the path, so a caller adds only what it was doing.

use std::path::PathBuf;

/// Why the registry could not be opened, read or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// There is no file at the path.
    #[error(
        "there is no registry at {}: the directory read was {}; \
         `nexus publish` or `nexus serve` makes one there",
        .path.display(), .directory.display()
    )]
    Missing {
        /// Where the registry was looked for.
        path: PathBuf,
        /// The directory that holds it, which is the state directory.
        directory: PathBuf,
    },

    /// The path names something that cannot be the registry, such as a directory.
    #[error("{} is not a registry: it is {what}", .path.display())]
    NotARegistry {
        /// The path.
        path: PathBuf,
        /// What is there instead.
        what: &'static str,
    },

    /// The file has a newer schema than this build knows; it is never guessed at.
    #[error(
        "the registry {} has schema version {found}, and this nexus knows versions up to {known}: \
         use the newer nexus that wrote it",
        .path.display()
    )]
    Newer {
        /// The registry's file.
        path: PathBuf,
        /// Its schema version.
        found: i64,
        /// The newest version that this build knows.
        known: i64,
    },

    /// The file belongs to somebody else.
    #[error(
        "the registry {} belongs to user {owner}, and only user {expected}, who owns its \
         directory, or root may own it",
        .path.display()
    )]
    ForeignOwner {
        /// The registry's file.
        path: PathBuf,
        /// The file's owner.
        owner: u32,
        /// The directory's owner.
        expected: u32,
    },

    /// Another connection has held the write lock for too long.
    #[error(
        "cannot {doing} the registry {}: another process has held its lock for {seconds} s",
        .path.display()
    )]
    Busy {
        /// The registry's file.
        path: PathBuf,
        /// What was being done, as a verb.
        doing: &'static str,
        /// How long was waited, in seconds.
        seconds: u64,
    },

    /// The file system or SQLite said no, or the file is damaged.
    #[error("cannot {doing} the registry {}: {reason}", .path.display())]
    Storage {
        /// The registry's file.
        path: PathBuf,
        /// What was being done, as a verb.
        doing: &'static str,
        /// What was said.
        reason: String,
    },
}
