//! The disk as a pair of traits, so that a test can fail any write, sync, rename or lock on
//! purpose.
//!
//! [`Disk`] is the file system below the state directory, [`DiskFile`] one open file. `real` is the
//! machine's; the simulated one lives with the tests. Nothing else in the program opens the queue's
//! files.
//!
//! Promises of an implementation: `sync` and `sync_dir` return `Ok` only when the device has what
//! was written before them; a lock belongs to one open file and is freed when that file is dropped
//! or its process dies; nothing below the state directory is ever followed through a symbolic link.

mod holder;
mod real;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use real::RealDisk;

/// Which file it is, whatever its name: two opens of one file have the same identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode on it.
    pub inode: u64,
}

/// How a file is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; it must exist.
    Write,
    /// For reading and writing; made, empty, when it does not exist.
    Create,
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, without its directory. Names that are no UTF-8 are left out of listings.
    pub name: String,
    /// Whether it is itself a directory.
    pub is_dir: bool,
}

/// The file system.
pub trait Disk: Send + Sync {
    /// Opens a file. New ones are private to their owner (0600).
    ///
    /// # Errors
    /// `NotFound` without [`Open::Create`]; a symbolic link and a file of another owner are refused
    /// by name.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;

    /// Makes a directory and those above it that are missing, private to their owner (0700).
    ///
    /// # Errors
    /// As the file system gives them; a symbolic link on the way below the root is refused by name.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// The names in a directory, in no order.
    ///
    /// # Errors
    /// `NotFound`, and as the file system gives them.
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>>;

    /// Replaces `to` by `from`. Durable only after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// As the file system gives them.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file. Durable only after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// As the file system gives them.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As the file system gives them.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Which file the path names now; `None` when there is none.
    ///
    /// # Errors
    /// As the file system gives them.
    fn identity(&self, path: &Path) -> io::Result<Option<Identity>>;

    /// The process that holds the lock of a file; `None` when nobody does, or when that cannot be
    /// told here. For texts and listings: nothing is decided by it.
    fn holder(&self, _file: Identity) -> Option<u32> {
        None
    }
}

/// One open file.
#[allow(
    clippy::len_without_is_empty,
    reason = "a file's length is asked of the disk, and may fail"
)]
pub trait DiskFile: Send + Sync {
    /// The path that it was opened by, for error texts.
    fn path(&self) -> &Path;

    /// Its length in bytes.
    ///
    /// # Errors
    /// As the file system gives them.
    fn len(&self) -> io::Result<u64>;

    /// Which file it is.
    ///
    /// # Errors
    /// As the file system gives them.
    fn identity(&self) -> io::Result<Identity>;

    /// Reads at an offset; may give less than was asked for, and 0 at the end.
    ///
    /// # Errors
    /// As the file system gives them.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at an offset; may take less than it was given.
    ///
    /// # Errors
    /// As the file system gives them; how much was written is then unknown.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;

    /// Cuts or extends the file to a length.
    ///
    /// # Errors
    /// As the file system gives them.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Gives the space of a part of the file back to the file system; the part then reads as zeros,
    /// and the length stays. Need not be durable.
    ///
    /// # Errors
    /// `Unsupported` where the file system has no holes, and as it gives them.
    fn punch(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Makes data and length durable.
    ///
    /// # Errors
    /// As the file system gives them. After a failure what was written is in an unknown state, and
    /// a later success proves nothing about it.
    fn sync(&self) -> io::Result<()>;

    /// Takes the file's exclusive lock if it comes free within `wait`; zero tries once. `false`
    /// when it did not.
    ///
    /// # Errors
    /// As the file system gives them, for instance where it has no locks.
    fn lock(&self, wait: Duration) -> io::Result<bool>;

    /// Gives the lock back.
    ///
    /// # Errors
    /// As the file system gives them.
    fn unlock(&self) -> io::Result<()>;
}

impl dyn DiskFile + '_ {
    /// Fills `buf` from an offset as far as the file goes; the number of bytes read is less only at
    /// its end.
    ///
    /// # Errors
    /// As [`DiskFile::read_at`].
    pub fn read_full_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all of `buf` at an offset, in as many calls as it takes.
    ///
    /// # Errors
    /// As [`DiskFile::write_at`]; `WriteZero` when the file takes nothing more.
    pub fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.write_at(&buf[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the path still names this file.
    ///
    /// # Errors
    /// As [`Disk::identity`] and [`DiskFile::identity`].
    pub fn is_still_at_its_path(&self, disk: &dyn Disk) -> io::Result<bool> {
        Ok(disk.identity(self.path())? == Some(self.identity()?))
    }
}

/// The directories from `dir` up to and including `root`, innermost first; `dir` alone when it is
/// not below `root`.
pub fn up_to_root(dir: &Path, root: &Path) -> Vec<PathBuf> {
    let mut dirs = vec![dir.to_path_buf()];
    if dir.starts_with(root) {
        let above = dir.ancestors().skip(1).take_while(|above| above.starts_with(root));
        dirs.extend(above.map(Path::to_path_buf));
    }
    dirs
}
