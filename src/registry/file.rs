//! The registry's file and its directory: making them, and whose they must be.
//!
//! Promises: a registry appears at its path complete or not at all, whoever else makes one at the
//! same moment, because it is built beside its place and linked there; the file is 0600 and a
//! directory made for it is 0700 whatever the umask; a symbolic link, and a file that belongs to
//! neither the directory's owner nor root, is refused by name. Root gives a new file the
//! directory's owner, so that the server's user can open what `sudo nexus publish` made.
//!
//! The file is never opened here once it has its name: closing any descriptor of it would free
//! the locks that SQLite holds in this process.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::RegistryError;
use super::schema;

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// Checks that there is a file at `path` which may be a registry, and opens nothing.
///
/// # Errors
/// [`RegistryError::Missing`], which names the directory read, or what is there instead.
pub fn must_exist(path: &Path) -> Result<(), RegistryError> {
    identify(&absolute(path)?).map(|_| ())
}

/// The path with the working directory in front where it has none. It then begins with `/`, so
/// that SQLite takes it neither for a URI nor for one of its special names.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, RegistryError> {
    std::path::absolute(path).map_err(|error| storage(path, "find", &error))
}

/// The state directory: the one that the registry's file is in. Everything else that the program
/// keeps is below it.
pub fn state_dir(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Which file is at the path, after the checks that the header promises.
pub(super) fn identify(path: &Path) -> Result<Identity, RegistryError> {
    let directory = state_dir(path);
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_absent(&error) => {
            return Err(RegistryError::Missing { path: path.to_path_buf(), directory });
        }
        Err(error) => return Err(storage(path, "open", &error)),
    };
    let what = match metadata.file_type() {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_symlink() => Some("a symbolic link"),
        _ => Some("no plain file"),
    };
    if let Some(what) = what {
        return Err(RegistryError::NotARegistry { path: path.to_path_buf(), what });
    }
    check_owner(path, path)?;
    Ok(Identity { device: metadata.dev(), inode: metadata.ino() })
}

/// Whether `file`, which is or is to become the registry at `path`, belongs to the directory's
/// owner or to root.
fn check_owner(path: &Path, file: &Path) -> Result<(), RegistryError> {
    let failed = |error| storage(path, "open", &error);
    let owner = fs::symlink_metadata(file).map_err(failed)?.uid();
    let expected = fs::metadata(state_dir(path)).map_err(failed)?.uid();
    if owner == 0 || owner == expected {
        return Ok(());
    }
    Err(RegistryError::ForeignOwner { path: path.to_path_buf(), owner, expected })
}

/// Makes an empty registry at the path, and its directory, where they are missing.
pub(super) fn create_if_missing(path: &Path) -> Result<(), RegistryError> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(());
    }
    let directory = state_dir(path);
    make_directory(&directory).map_err(|error| storage(path, "make a directory for", &error))?;
    let draft = draft_path(path);
    let made = build(path, &draft);
    // The draft's other name, if it got one, is the registry. What cannot be removed is harmless.
    let _ = fs::remove_file(&draft);
    made?;
    sync_directory(&directory).map_err(|error| storage(path, "sync the directory of", &error))
}

/// Builds a registry at `draft`, then gives it its name unless another process was faster.
fn build(path: &Path, draft: &Path) -> Result<(), RegistryError> {
    make_private_file(draft).map_err(|error| storage(path, "create", &error))?;
    schema::initialise(draft)?;
    // What could not be opened afterwards is not made.
    check_owner(path, draft)?;
    match fs::hard_link(draft, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(storage(path, "create", &error))
        }
        _ => Ok(()),
    }
}

/// A name beside the registry's that no other process or thread uses.
fn draft_path(path: &Path) -> PathBuf {
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let draft = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}-{draft}.tmp", std::process::id()));
    path.with_file_name(name)
}

/// Makes a directory and those above it that are missing. The mode is set once more after the
/// making, because a umask can only take bits away.
fn make_directory(directory: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    for above in directory.ancestors() {
        if above.as_os_str().is_empty() || above.exists() {
            break;
        }
        missing.push(above);
    }
    for directory in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => fs::set_permissions(directory, Permissions::from_mode(0o700))?,
            // Another process makes the same directory at this moment.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        sync_directory(&state_dir(directory))?;
    }
    Ok(())
}

fn make_private_file(path: &Path) -> io::Result<()> {
    // A draft of the same name can only be what a dead process of the same number left.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    let owner = fs::metadata(state_dir(path))?;
    if file.metadata()?.uid() == 0 && owner.uid() != 0 {
        fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(())
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// No such file, or no such directory to hold it.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn storage(path: &Path, doing: &'static str, error: &io::Error) -> RegistryError {
    RegistryError::Storage { path: path.to_path_buf(), doing, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Registry;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_registry_is_private_in_a_private_directory_and_leaves_nothing_beside_it() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b/registry.db");
        let registry = Registry::create(&path).unwrap();
        registry.list().unwrap();
        for directory in ["a", "a/b"] {
            assert_eq!(mode(&temp.path().join(directory)), 0o700, "{directory}");
        }
        for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            assert!(!name.ends_with(".tmp"), "left behind: {name}");
            assert_eq!(mode(&entry.path()), 0o600, "{name}");
        }
    }

    #[test]
    fn a_missing_registry_is_named_with_its_directory_and_not_made() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("none/registry.db");
        let text = Registry::open(&path).err().unwrap().to_string();
        assert!(text.contains(&path.display().to_string()), "{text}");
        let directory = temp.path().join("none");
        assert!(text.contains(&format!("directory read was {}", directory.display())), "{text}");
        assert!(!directory.exists());
    }

    #[test]
    fn what_is_no_plain_file_is_refused_by_name() {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path().join("registry.db");
        fs::create_dir(&directory).unwrap();
        let link = temp.path().join("link.db");
        Registry::create(&temp.path().join("real.db")).unwrap();
        std::os::unix::fs::symlink(temp.path().join("real.db"), &link).unwrap();
        for (path, what) in [(&directory, "a directory"), (&link, "a symbolic link")] {
            for opened in [Registry::open(path), Registry::create(path)] {
                let text = opened.err().unwrap().to_string();
                assert!(
                    text.contains(&path.display().to_string()) && text.contains(what),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_dangling_link_is_refused_too_and_its_target_not_made() {
        let temp = tempfile::tempdir().unwrap();
        let target = temp.path().join("target.db");
        let link = temp.path().join("registry.db");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(Registry::create(&link).is_err());
        assert!(!target.exists());
    }

    #[test]
    fn of_many_that_make_a_registry_at_once_all_get_the_same_one() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("state/registry.db");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| Registry::create(&path).unwrap().list().unwrap());
            }
        });
        let names = fs::read_dir(path.parent().unwrap()).unwrap();
        assert!(names.into_iter().all(|name| !name.unwrap().path().ends_with(".tmp")));
    }
}
