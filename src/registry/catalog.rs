//! The catalog: a snapshot of all gates, so that the door's check costs no database.
//!
//! One thread looks at the registry's data version every so often, through one connection, and
//! replaces the snapshot when it has changed. A flow that the snapshot has is answered from it; a
//! flow that it has not is asked of the database at once, so that a flow published a moment ago is
//! found by the very next request. While the registry cannot be read every answer is that error;
//! the next look that succeeds ends it.
//!
//! Not here: artifacts (`resolve`), which the worker loads through connections of its own.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use super::error::RegistryError;
use super::resolve::FlowGate;
use super::schema::Registry;
use crate::base::QueueName;
use crate::base::limits::SMALL_STACK_BYTES;

/// What was read last: all gates, or why they could not be read.
type Snapshot = Result<Arc<HashMap<QueueName, FlowGate>>, RegistryError>;

/// All gates of a registry, for all threads of a process. Dropping it ends its thread.
pub struct Catalog {
    shared: Arc<Shared>,
    poller: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    path: PathBuf,
    snapshot: RwLock<Snapshot>,
    /// For the flows that the snapshot has not; opened when first needed.
    direct: Mutex<Option<Registry>>,
    stopping: Mutex<bool>,
    stop: Condvar,
}

impl Catalog {
    /// Reads all gates and starts the thread that looks for changes every `poll`.
    ///
    /// # Errors
    /// A registry that cannot be opened or read now, or a thread that cannot be started.
    pub fn start(path: &Path, poll: Duration) -> Result<Catalog, RegistryError> {
        let mut watch = Watch { registry: None, seen: None };
        let Some(snapshot) = watch.look(path) else {
            // A first look always has something to tell.
            return Err(cannot_start(path, "its first reading found nothing".to_owned()));
        };
        let shared = Arc::new(Shared {
            path: path.to_path_buf(),
            snapshot: RwLock::new(Ok(snapshot?)),
            direct: Mutex::new(None),
            stopping: Mutex::new(false),
            stop: Condvar::new(),
        });
        let polled = Arc::clone(&shared);
        let poller = Builder::new()
            .name("registry-catalog".to_owned())
            .stack_size(SMALL_STACK_BYTES)
            .spawn(move || polled.poll(watch, poll))
            .map_err(|error| cannot_start(path, error.to_string()))?;
        Ok(Catalog { shared, poller: Mutex::new(Some(poller)) })
    }

    /// The gate of one flow; `None` when it is not published.
    ///
    /// # Errors
    /// A registry that cannot be read at present.
    pub fn gate(&self, queue: &QueueName) -> Result<Option<FlowGate>, RegistryError> {
        let known = {
            let snapshot = self.shared.snapshot.read().unwrap_or_else(PoisonError::into_inner);
            match &*snapshot {
                Ok(gates) => gates.get(queue).copied(),
                Err(error) => return Err(error.clone()),
            }
        };
        if known.is_some() {
            return Ok(known);
        }
        self.shared.ask(queue)
    }

    /// Whether the registry could be read at the last look.
    ///
    /// # Errors
    /// Why it could not.
    pub fn readable(&self) -> Result<(), RegistryError> {
        let snapshot = self.shared.snapshot.read().unwrap_or_else(PoisonError::into_inner);
        snapshot.as_ref().map(|_| ()).map_err(RegistryError::clone)
    }

    /// Ends the thread and waits for it. The snapshot stays as it is.
    pub fn stop(&self) {
        *lock(&self.shared.stopping) = true;
        self.shared.stop.notify_all();
        if let Some(poller) = lock(&self.poller).take() {
            // It holds nothing that its end could leave half done.
            let _ = poller.join();
        }
    }
}

impl Drop for Catalog {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// Asks the database itself.
    fn ask(&self, queue: &QueueName) -> Result<Option<FlowGate>, RegistryError> {
        let mut direct = lock(&self.direct);
        let registry = match direct.take() {
            Some(registry) => registry,
            None => Registry::open(&self.path)?,
        };
        // A connection that has failed is not kept.
        let gate = registry.gate(queue)?;
        *direct = Some(registry);
        Ok(gate)
    }

    /// Looks for changes until it is told to stop.
    fn poll(&self, mut watch: Watch, interval: Duration) {
        loop {
            let stopping = lock(&self.stopping);
            let wait = self.stop.wait_timeout_while(stopping, interval, |stopping| !*stopping);
            let (stopping, _) = wait.unwrap_or_else(PoisonError::into_inner);
            if *stopping {
                return;
            }
            drop(stopping);
            if let Some(snapshot) = watch.look(&self.path) {
                *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
            }
        }
    }
}

/// The poller's own connection and the data version that its last reading belongs to.
struct Watch {
    registry: Option<Registry>,
    seen: Option<i64>,
}

impl Watch {
    /// A new snapshot, or `None` when nothing has changed.
    fn look(&mut self, path: &Path) -> Option<Snapshot> {
        let snapshot = self.read(path).transpose()?;
        if snapshot.is_err() {
            // The next look begins anew, and tells even what it told before.
            *self = Watch { registry: None, seen: None };
        }
        Some(snapshot)
    }

    fn read(
        &mut self,
        path: &Path,
    ) -> Result<Option<Arc<HashMap<QueueName, FlowGate>>>, RegistryError> {
        let registry = match &self.registry {
            Some(registry) => registry,
            None => self.registry.insert(Registry::open(path)?),
        };
        // Read before the gates: a change between the two is then seen at the next look.
        let version = registry.data_version()?;
        if self.seen == Some(version) {
            return Ok(None);
        }
        let gates = registry.gates()?.into_iter().collect();
        self.seen = Some(version);
        Ok(Some(Arc::new(gates)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks leaves a value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cannot_start(path: &Path, reason: String) -> RegistryError {
    RegistryError::Storage { path: path.to_path_buf(), doing: "watch", reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::registry::NewVersion;
    use std::fs;

    /// Long enough that no look falls into a test that does not want one.
    const NEVER: Duration = Duration::from_secs(3600);

    fn queue(flow: &str) -> QueueName {
        QueueName::parse("acme", flow).unwrap()
    }

    fn publish(path: &Path, flow: &str, source: &str) {
        let new = NewVersion {
            queue: queue(flow),
            source: source.to_owned(),
            artifact: Vec::new(),
            max_message_bytes: None,
            description: None,
        };
        Registry::create(path).unwrap().publish(&[new], Timestamp::from_millis(1)).unwrap();
    }

    fn version(catalog: &Catalog, flow: &str) -> Option<u32> {
        catalog.gate(&queue(flow)).unwrap().map(|gate| gate.version)
    }

    /// Lets the poller look until `done`, and gives up in time for a person to notice.
    fn until(done: impl Fn() -> bool) {
        let started = std::time::Instant::now();
        while !done() {
            assert!(started.elapsed() < Duration::from_secs(30), "the catalog did not notice");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_hit_is_answered_without_the_database_and_a_miss_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("registry.db");
        publish(&path, "old", "1");
        let catalog = Catalog::start(&path, NEVER).unwrap();
        publish(&path, "new", "1");
        assert_eq!(version(&catalog, "new"), Some(1), "published a moment ago");
        assert_eq!(version(&catalog, "none"), None);
        publish(&path, "old", "2");
        assert_eq!(version(&catalog, "old"), Some(1), "from the snapshot");
        fs::remove_file(&path).unwrap();
        assert_eq!(version(&catalog, "old"), Some(1), "from the snapshot");
        assert!(matches!(catalog.gate(&queue("x")), Err(RegistryError::Missing { .. })));
        catalog.stop();
    }

    #[test]
    fn a_new_version_is_noticed_and_so_is_a_registry_that_cannot_be_read_for_a_while() {
        let temp = tempfile::tempdir().unwrap();
        let (path, aside) = (temp.path().join("registry.db"), temp.path().join("aside.db"));
        publish(&path, "a", "1");
        let catalog = Catalog::start(&path, Duration::from_millis(1)).unwrap();
        publish(&path, "a", "2");
        until(|| version(&catalog, "a") == Some(2));
        fs::rename(&path, &aside).unwrap();
        until(|| catalog.readable().is_err());
        assert!(matches!(catalog.gate(&queue("a")), Err(RegistryError::Missing { .. })));
        fs::rename(&aside, &path).unwrap();
        until(|| catalog.readable().is_ok());
        assert_eq!(version(&catalog, "a"), Some(2));
        catalog.stop();
        catalog.stop();
    }

    #[test]
    fn a_registry_that_is_not_there_cannot_be_watched() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("registry.db");
        assert!(matches!(Catalog::start(&path, NEVER), Err(RegistryError::Missing { .. })));
        assert!(!path.exists());
    }
}
