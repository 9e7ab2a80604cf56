//! Replacing a file whole: write beside, sync, rename, sync the directory.
//!
//! At every instant the path names either the old file, whole, or the new one, whole and synced. A
//! crash leaves at most a `.tmp` beside it, which the next owner removes.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskFile, Open};

/// Ending of the file that is written beside.
pub const TEMPORARY: &str = ".tmp";

/// Replaces the file at `path` by one with what `write` puts into it, and gives the new one, open
/// for writing.
///
/// # Errors
/// As the disk and `write` give them. The old file then still stands, unless only the sync of the
/// directory failed: the new one stands then, and may be undone by a power cut.
pub fn replace(
    disk: &dyn Disk,
    path: &Path,
    write: impl FnOnce(&dyn DiskFile) -> io::Result<()>,
) -> io::Result<Box<dyn DiskFile>> {
    let beside = temporary_of(path);
    let file = disk.open(&beside, Open::Create)?;
    file.set_len(0)?;
    write(file.as_ref())?;
    file.sync()?;
    disk.rename(&beside, path)?;
    if let Some(dir) = path.parent() {
        disk.sync_dir(dir)?;
    }
    drop(file);
    disk.open(path, Open::Write)
}

fn temporary_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    PathBuf::from(name)
}

/// Bytes that are copied at once.
const COPY_CHUNK: u64 = 1 << 20;

/// Copies a range (offset and length) of a file to an offset of another; gives how many bytes that
/// were, fewer only where the file ends.
///
/// # Errors
/// As the files give them.
pub fn copy_range(
    from: &dyn DiskFile,
    (offset, len): (u64, u64),
    to: &dyn DiskFile,
    at: u64,
) -> io::Result<u64> {
    let mut buffer = vec![0; len.min(COPY_CHUNK) as usize];
    let mut done = 0;
    while done < len {
        let want = buffer.len().min((len - done) as usize);
        let read = from.read_full_at(&mut buffer[..want], offset + done)?;
        if read == 0 {
            break;
        }
        to.write_all_at(&buffer[..read], at + done)?;
        done += read as u64;
    }
    Ok(done)
}

/// Removes what a crash left of replacements in a directory.
///
/// # Errors
/// As the disk gives them.
pub fn remove_temporaries(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for entry in disk.list(dir)? {
        if !entry.is_dir && entry.name.ends_with(TEMPORARY) {
            disk.remove(&dir.join(entry.name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_a_temporary_that_is_removed_later() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(dir.path());
        let path = dir.path().join("f");
        replace(&disk, &path, |file| file.write_all_at(b"old", 0)).unwrap();
        let failed = replace(&disk, &path, |_| Err(io::Error::other("no")));
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert!(dir.path().join("f.tmp").exists());
        remove_temporaries(&disk, dir.path()).unwrap();
        assert!(!dir.path().join("f.tmp").exists());
        let file = replace(&disk, &path, |file| file.write_all_at(b"new", 0)).unwrap();
        assert_eq!(file.path(), path);
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }
}
