//! The machine's own file system.
//!
//! Promises: files are 0600 and directories 0700 whatever the umask; a symbolic link below the root
//! is refused by name, and so is a file or directory that belongs to neither the root directory's
//! owner nor the superuser; what the superuser makes is given the root directory's owner. `sync` is
//! `fdatasync`: data and length, not the times.
//!
//! `len` and `identity` ask `statx` for what they need only: reading the times would make the next
//! write dirty the inode, which costs a third of all syncs on a log that does not grow.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use fs2::FileExt as LockExt;
use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, StatxFlags};

use crate::disk::holder::holder_of;
use crate::disk::{Disk, DiskFile, Entry, Identity, Open};

/// The file system below one root directory, the state directory. The root itself may be a symbolic
/// link.
#[derive(Debug, Clone)]
pub struct RealDisk {
    root: PathBuf,
}

impl RealDisk {
    /// The disk whose root is this directory, which need not exist yet.
    pub fn new(root: &Path) -> RealDisk {
        RealDisk { root: root.to_path_buf() }
    }

    /// Refuses a symbolic link, and a directory of somebody else, on the way from the root to a
    /// path, the path itself included.
    fn refuse_strange_way(&self, path: &Path) -> io::Result<()> {
        let Ok(below) = path.strip_prefix(&self.root) else { return Ok(()) };
        let mut at = self.root.clone();
        for part in below.components() {
            let Component::Normal(part) = part else {
                return Err(refused(path, "leads out of the state directory"));
            };
            at.push(part);
            match fs::symlink_metadata(&at) {
                Ok(meta) if meta.file_type().is_symlink() => {
                    return Err(refused(&at, "is a symbolic link, which is not followed"));
                }
                // Whoever owns a directory can put another in the place of each file in it.
                Ok(meta) if meta.is_dir() => self.refuse_foreign(&at, meta.uid())?,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Owner and group of the root directory.
    fn root_owner(&self) -> io::Result<(u32, u32)> {
        let meta = fs::metadata(&self.root)?;
        Ok((meta.uid(), meta.gid()))
    }

    fn refuse_foreign(&self, path: &Path, uid: u32) -> io::Result<()> {
        let (owner, _) = self.root_owner()?;
        if uid == owner || uid == 0 {
            return Ok(());
        }
        let why =
            format!("belongs to user {uid}, and only {owner} and the superuser are trusted here");
        Err(refused(path, &why))
    }

    /// Gives what the superuser has just made to the root directory's owner.
    fn hand_over(&self, path: &Path) -> io::Result<()> {
        let (uid, gid) = self.root_owner()?;
        if uid != 0 && rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(path, Some(uid), Some(gid))?;
        }
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        let file = options().write(true).create_new(true).mode(0o600).open(path)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        self.hand_over(path)?;
        Ok(file)
    }

    fn open_file(&self, path: &Path, how: Open) -> io::Result<File> {
        // Another process may make or remove the file between the two calls; it does so rarely.
        for _ in 0..100 {
            match options().write(how != Open::Read).open(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && how == Open::Create => {}
                opened => return opened,
            }
            match self.create(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
        Err(io::Error::other("the file comes and goes"))
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // NOFOLLOW for the last component, beside the look at each of them; NONBLOCK so that a pipe put
    // in a file's place fails instead of waiting for its other end.
    options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    options
}

fn refused(path: &Path, why: &str) -> io::Error {
    let text = format!("{} {why}", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

fn statx_identity(stat: &rustix::fs::Statx) -> Identity {
    let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
    Identity { device, inode: stat.stx_ino }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        self.refuse_strange_way(path)?;
        let file = self.open_file(path, how)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(refused(path, "is not a regular file"));
        }
        self.refuse_foreign(path, meta.uid())?;
        // It stays the same file for as long as it is open.
        let identity = statx_identity(&statx(&file, StatxFlags::INO)?);
        Ok(Box::new(RealFile { file, identity, path: path.to_path_buf() }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.refuse_strange_way(path)?;
        let mut missing = Vec::new();
        for dir in path.ancestors() {
            match fs::metadata(dir) {
                Ok(meta) if meta.is_dir() => break,
                Ok(_) => return Err(refused(dir, "is not a directory")),
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(dir),
                Err(error) => return Err(error),
            }
        }
        for dir in missing.into_iter().rev() {
            match DirBuilder::new().mode(0o700).create(dir) {
                Ok(()) => {
                    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
                    if dir.starts_with(&self.root) && dir != self.root {
                        self.hand_over(dir)?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        if path.starts_with(&self.root) {
            self.refuse_foreign(path, fs::metadata(path)?.uid())?;
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.refuse_strange_way(path)?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string() {
                entries.push(Entry { name, is_dir: entry.file_type()?.is_dir() });
            }
        }
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        match rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::INO) {
            Ok(stat) => Ok(Some(statx_identity(&stat))),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn holder(&self, file: Identity) -> Option<u32> {
        holder_of(file)
    }
}

/// One open file of the machine.
#[derive(Debug)]
struct RealFile {
    file: File,
    identity: Identity,
    path: PathBuf,
}

fn statx(file: &File, what: StatxFlags) -> io::Result<rustix::fs::Statx> {
    Ok(rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, what)?)
}

impl DiskFile for RealFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> io::Result<u64> {
        Ok(statx(&self.file, StatxFlags::SIZE)?.stx_size)
    }

    fn identity(&self) -> io::Result<Identity> {
        Ok(self.identity)
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
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(rustix::fs::fallocate(&self.file, how, offset, len)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn lock(&self, wait: Duration) -> io::Result<bool> {
        let started = Instant::now();
        let mut pause = Duration::from_micros(100);
        loop {
            match LockExt::try_lock_exclusive(&self.file) {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            let left = wait.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    fn unlock(&self) -> io::Result<()> {
        LockExt::unlock(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn disk() -> (tempfile::TempDir, RealDisk, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("state");
        fs::create_dir(&root).unwrap();
        (dir, RealDisk::new(&root), root)
    }

    #[test]
    fn files_and_directories_are_private() {
        let (_dir, disk, root) = disk();
        disk.create_dir_all(&root.join("queues/acme/a")).unwrap();
        disk.open(&root.join("queues/acme/a/f"), Open::Create).unwrap();
        let mode = |path: &str| fs::metadata(root.join(path)).unwrap().mode() & 0o777;
        assert_eq!(mode("queues"), 0o700);
        assert_eq!(mode("queues/acme/a"), 0o700);
        assert_eq!(mode("queues/acme/a/f"), 0o600);
    }

    #[test]
    fn a_symbolic_link_is_refused_wherever_it_stands_below_the_root() {
        let (dir, disk, root) = disk();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), b"untouched").unwrap();
        symlink(&outside, root.join("linked-dir")).unwrap();
        symlink(outside.join("file"), root.join("linked-file")).unwrap();
        for path in ["linked-dir/file", "linked-file", "linked-dir/new"] {
            let error = disk.open(&root.join(path), Open::Create).err().unwrap();
            assert!(error.to_string().contains("symbolic link"), "{path}: {error}");
        }
        let error = disk.create_dir_all(&root.join("linked-dir/sub")).unwrap_err();
        assert!(error.to_string().contains("linked-dir"), "{error}");
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"untouched");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused_wherever_it_stands_below_the_root() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (_dir, disk, root) = disk();
        let inner = root.join("queues/acme/a");
        disk.create_dir_all(&inner).unwrap();
        disk.open(&inner.join("f"), Open::Create).unwrap();
        for foreign in ["queues", "queues/acme", "queues/acme/a"] {
            let foreign = root.join(foreign);
            std::os::unix::fs::chown(&foreign, Some(1234), None).unwrap();
            let opened = disk.open(&inner.join("f"), Open::Read).err().unwrap();
            let made = disk.create_dir_all(&inner.join("g")).unwrap_err();
            let listed = disk.list(&inner).unwrap_err();
            for error in [opened, made, listed] {
                let text = error.to_string();
                let told = format!("{} belongs to user 1234", foreign.display());
                assert!(text.starts_with(&told), "{text}");
            }
            std::os::unix::fs::chown(&foreign, Some(0), None).unwrap();
        }
        disk.open(&inner.join("f"), Open::Read).unwrap();
    }

    #[test]
    fn a_directory_or_a_pipe_in_a_files_place_is_an_error() {
        let (_dir, disk, root) = disk();
        fs::create_dir(root.join("d")).unwrap();
        assert!(disk.open(&root.join("d"), Open::Read).is_err());
        let pipe = root.join("p");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(disk.open(&pipe, Open::Create).is_err());
        fs::write(root.join("f"), b"").unwrap();
        assert!(disk.create_dir_all(&root.join("f/x")).is_err());
    }

    #[test]
    fn a_lock_excludes_another_open_of_the_same_file_until_it_is_given_back() {
        let (_dir, disk, root) = disk();
        let first = disk.open(&root.join("l"), Open::Create).unwrap();
        let second = disk.open(&root.join("l"), Open::Create).unwrap();
        assert!(first.lock(Duration::ZERO).unwrap());
        assert!(!second.lock(Duration::ZERO).unwrap());
        first.unlock().unwrap();
        assert!(second.lock(Duration::ZERO).unwrap());
        drop(second);
        assert!(first.lock(Duration::ZERO).unwrap());
    }

    #[test]
    fn the_holder_of_a_lock_is_this_process_where_the_kernel_tells() {
        let (_dir, disk, root) = disk();
        let file = disk.open(&root.join("l"), Open::Create).unwrap();
        let identity = file.identity().unwrap();
        assert_eq!(disk.holder(identity), None);
        assert!(file.lock(Duration::ZERO).unwrap());
        // On some file systems the kernel's list knows the file by another device.
        assert!([None, Some(std::process::id())].contains(&disk.holder(identity)));
    }

    #[test]
    fn a_file_knows_whether_its_path_still_names_it() {
        let (_dir, disk, root) = disk();
        let path = root.join("f");
        let file = disk.open(&path, Open::Create).unwrap();
        assert!(file.is_still_at_its_path(&disk).unwrap());
        fs::remove_file(&path).unwrap();
        assert!(!file.is_still_at_its_path(&disk).unwrap());
        let other = disk.open(&path, Open::Create).unwrap();
        assert!(!file.is_still_at_its_path(&disk).unwrap());
        assert!(other.is_still_at_its_path(&disk).unwrap());
    }
}
