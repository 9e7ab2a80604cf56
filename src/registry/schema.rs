//! `registry.db`: its tables, its schema version, and how a connection to it is set up.
//!
//! SQLite in WAL mode with `synchronous = FULL`: a commit is on the disk when it returns, readers
//! never wait for a writer, and a writer waits at most [`REGISTRY_BUSY_TIMEOUT`] for another.
//!
//! | table   | columns                                                                    |
//! |---------|----------------------------------------------------------------------------|
//! | `flows` | `tenant`, `flow`, `version` (from 1, the key), `published_at` (ms since     |
//! |         | 1970), `max_message_bytes` and `description` (null where the flow has none),|
//! |         | `sha256` (of the artifact, lower-case hex), `source`, `artifact`            |
//!
//! The large columns stand last, so that reading the small ones touches no overflow page. A table
//! `keys` will stand beside it, as schema version 2.
//!
//! `PRAGMA application_id` says that a database is a registry, `PRAGMA user_version` is the schema
//! version. A change of the tables raises [`SCHEMA_VERSION`] and adds a migration from the version
//! before; a newer version than this build knows is refused.
//!
//! A file that was replaced at its path (restored from a backup) is noticed before each use, and
//! opened anew. Not here: making the file (`file`), what is written (`publish`) and read
//! (`resolve`).

use std::cell::{Ref, RefCell};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::error::RegistryError;
use super::file::{self, Identity};
use crate::base::limits::REGISTRY_BUSY_TIMEOUT;

/// The schema version that this build writes, and the newest that it reads.
const SCHEMA_VERSION: i64 = 1;

/// `NXRG`, in the database's header.
const APPLICATION_ID: i64 = 0x4E58_5247;

/// The tables of version 1. The checks repeat the rule for a name that becomes a path, so that
/// no other program can put a row here that could not be addressed.
const TABLES: &str = "
    CREATE TABLE flows (
        tenant            TEXT    NOT NULL
            CHECK (length(tenant) BETWEEN 1 AND 64 AND tenant GLOB '[a-z0-9]*'
                   AND tenant NOT GLOB '*[^-a-z0-9_]*'),
        flow              TEXT    NOT NULL
            CHECK (length(flow) BETWEEN 1 AND 64 AND flow GLOB '[a-z0-9]*'
                   AND flow NOT GLOB '*[^-a-z0-9_]*'),
        version           INTEGER NOT NULL CHECK (version BETWEEN 1 AND 4294967295),
        published_at      INTEGER NOT NULL,
        max_message_bytes INTEGER CHECK (max_message_bytes >= 1),
        description       TEXT,
        sha256            TEXT    NOT NULL CHECK (length(sha256) = 64),
        source            TEXT    NOT NULL,
        artifact          BLOB    NOT NULL,
        PRIMARY KEY (tenant, flow, version)
    ) STRICT;
";

/// One connection to a registry, for one thread.
pub struct Registry {
    path: PathBuf,
    opened: RefCell<Opened>,
}

struct Opened {
    connection: Connection,
    identity: Identity,
    /// How often the file was found replaced and opened anew.
    generation: u32,
}

impl Registry {
    /// Opens a registry that exists.
    ///
    /// # Errors
    /// A missing one is named with its directory, and not made; what is no registry, or a newer
    /// one, is refused by name.
    pub fn open(path: &Path) -> Result<Registry, RegistryError> {
        let path = file::absolute(path)?;
        let opened = RefCell::new(open_at(&path, 0)?);
        Ok(Registry { path, opened })
    }

    /// Opens a registry, making it and its directory (0700) where they are missing.
    ///
    /// # Errors
    /// As [`Registry::open`], and what the file system says to the making.
    pub fn create(path: &Path) -> Result<Registry, RegistryError> {
        file::create_if_missing(&file::absolute(path)?)?;
        Registry::open(path)
    }

    /// The file, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Changes whenever another connection, of this or another process, has changed the file, or
    /// the file at the path is another one.
    ///
    /// # Errors
    /// A file that cannot be read, or is not there any more.
    pub fn data_version(&self) -> Result<i64, RegistryError> {
        let opened = self.current()?;
        let version: u32 = opened
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(|error| sqlite(&self.path, "read", error))?;
        Ok(i64::from(opened.generation) << 32 | i64::from(version))
    }

    /// Reads through the connection, which is that of the file now at the path.
    pub(super) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, RegistryError> {
        query(&self.current()?.connection).map_err(|error| sqlite(&self.path, "read", error))
    }

    /// Writes through the connection, which is that of the file now at the path.
    pub(super) fn write<T>(
        &mut self,
        change: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, RegistryError> {
        drop(self.current()?);
        let connection = &mut self.opened.get_mut().connection;
        change(connection).map_err(|error| sqlite(&self.path, "write to", error))
    }

    fn current(&self) -> Result<Ref<'_, Opened>, RegistryError> {
        let identity = file::identify(&self.path)?;
        let (known, generation) = {
            let opened = self.opened.borrow();
            (opened.identity, opened.generation)
        };
        if known != identity {
            let anew = open_at(&self.path, generation.wrapping_add(1))?;
            self.opened.replace(anew);
        }
        Ok(self.opened.borrow())
    }
}

/// Opens the file now at the path. The identity is read first: should the file be replaced
/// between the two, the next use sees another identity and opens again.
fn open_at(path: &Path, generation: u32) -> Result<Opened, RegistryError> {
    let identity = file::identify(path)?;
    let connection = connect(path)?;
    check_kind_and_version(path, &connection)?;
    Ok(Opened { connection, identity, generation })
}

fn connect(path: &Path) -> Result<Connection, RegistryError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
        .and_then(|connection| {
            connection.busy_timeout(REGISTRY_BUSY_TIMEOUT)?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            Ok(connection)
        })
        .map_err(|error| sqlite(path, "open", error))
}

fn check_kind_and_version(path: &Path, connection: &Connection) -> Result<(), RegistryError> {
    let pragma = |name: &str| {
        connection
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map_err(|error| sqlite(path, "open", error))
    };
    if pragma("application_id")? != APPLICATION_ID {
        let what = "another database, or an empty one";
        return Err(RegistryError::NotARegistry { path: path.to_path_buf(), what });
    }
    let found = pragma("user_version")?;
    if found > SCHEMA_VERSION {
        let path = path.to_path_buf();
        return Err(RegistryError::Newer { path, found, known: SCHEMA_VERSION });
    }
    Ok(())
}

/// Makes the empty file at `path` an empty registry, complete and synced when this returns.
pub(super) fn initialise(path: &Path) -> Result<(), RegistryError> {
    let connection = connect(path)?;
    let set_up = || -> rusqlite::Result<()> {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.execute_batch(&format!(
            "BEGIN; {TABLES} PRAGMA application_id = {APPLICATION_ID}; \
             PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        ))
    };
    set_up().map_err(|error| sqlite(path, "set up", error))?;
    // Closing the last connection moves the WAL into the file and removes it.
    connection.close().map_err(|(_, error)| sqlite(path, "set up", error))
}

/// Words for what SQLite said.
fn sqlite(path: &Path, doing: &'static str, error: rusqlite::Error) -> RegistryError {
    let path = path.to_path_buf();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            RegistryError::NotARegistry { path, what: "no SQLite database" }
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let seconds = REGISTRY_BUSY_TIMEOUT.as_secs();
            RegistryError::Busy { path, doing, seconds }
        }
        _ => RegistryError::Storage { path, doing, reason: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn text_of(path: &Path) -> String {
        Registry::open(path).err().unwrap().to_string()
    }

    #[test]
    fn a_newer_schema_is_refused_with_both_numbers() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("registry.db");
        Registry::create(&path).unwrap();
        connect(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
        let text = text_of(&path);
        assert!(text.contains("version 7") && text.contains("up to 1"), "{text}");
        assert!(text.contains(&path.display().to_string()), "{text}");
    }

    #[test]
    fn files_that_are_no_registry_are_refused_by_name_and_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("registry.db");
        let noise = "not a database ".repeat(100);
        for (content, what) in [(noise.as_str(), "no SQLite database"), ("", "an empty one")] {
            fs::write(&path, content).unwrap();
            let text = text_of(&path);
            assert!(text.contains(what), "{text}");
            assert!(text.contains(&path.display().to_string()), "{text}");
            assert!(Registry::create(&path).is_err());
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        fs::remove_file(&path).unwrap();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE flows (x)").unwrap();
        assert!(text_of(&path).contains("another database"));
    }

    #[test]
    fn every_commit_is_synced_in_wal_mode() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("registry.db");
        let registry = Registry::create(&path).unwrap();
        let (mode, synchronous): (String, i64) = registry
            .read(|connection| {
                Ok((
                    connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?,
                    connection.pragma_query_value(None, "synchronous", |row| row.get(0))?,
                ))
            })
            .unwrap();
        assert_eq!((mode.as_str(), synchronous), ("wal", 2));
    }

    #[test]
    fn a_name_that_breaks_the_rule_cannot_be_stored_by_another_program_either() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("registry.db");
        Registry::create(&path).unwrap();
        let connection = connect(&path).unwrap();
        let insert = "INSERT INTO flows VALUES (?1, 'x', 1, 0, NULL, NULL, ?2, '', x'')";
        let digest = "0".repeat(64);
        for bad in ["", "../x", "A", "a.b", "-a", "_a", "é", "a/b", &"x".repeat(65)] {
            assert!(connection.execute(insert, (bad, &digest)).is_err(), "{bad:?}");
        }
        for good in ["a", "0-_z", &"x".repeat(64)] {
            connection.execute(insert, (good, &digest)).unwrap();
        }
    }

    #[test]
    fn a_file_replaced_at_its_path_is_opened_anew_and_a_missing_one_is_an_error_until_then() {
        let temp = tempfile::tempdir().unwrap();
        let (path, aside) = (temp.path().join("registry.db"), temp.path().join("aside.db"));
        let registry = Registry::create(&path).unwrap();
        let before = registry.data_version().unwrap();
        fs::rename(&path, &aside).unwrap();
        assert!(matches!(registry.data_version(), Err(RegistryError::Missing { .. })));
        drop(Registry::create(&path).unwrap());
        assert_ne!(registry.data_version().unwrap(), before);
        assert!(registry.list().unwrap().is_empty());
    }
}
