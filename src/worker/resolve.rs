//! Which flow a message is run by: the version that is `latest` when it is picked up.
//!
//! Each runner thread has its own connection to the registry, opened when it is first needed, and
//! keeps the loaded flow until `PRAGMA data_version` says that somebody has changed the file. So a
//! deploy, and a damaged row, are seen at the next pick-up. Not here: what is done when there is no
//! flow or the registry cannot be read (`runner`).

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use crate::base::QueueName;
use crate::flow::Flow;
use crate::registry::{FlowGate, Latest, Registry, RegistryError};

/// What the registry has for a queue.
pub(super) enum Resolved {
    /// A flow, ready to run.
    Flow {
        /// Its version, from 1.
        version: u32,
        /// The flow.
        flow: Box<Flow>,
    },
    /// No such flow.
    Missing,
    /// The stored flow failed its integrity check, with what was found.
    Corrupt(String),
}

/// A connection to the registry that is opened when it is needed, and again after an error.
///
/// A running flow that publishes asks it too, so it is shared; one thread at a time ever does.
pub(super) struct RegistryReader {
    path: PathBuf,
    connection: Mutex<Connection>,
}

#[derive(Default)]
struct Connection {
    registry: Option<Registry>,
    /// How often it has been opened: a data version means nothing across two connections.
    opened: u64,
}

/// When what was read is no longer to be trusted: the connection and its data version.
type Seen = (u64, i64);

impl RegistryReader {
    /// A reader of this file; nothing is opened yet.
    pub(super) fn new(path: PathBuf) -> RegistryReader {
        RegistryReader { path, connection: Mutex::default() }
    }

    /// What the gate knows of a flow; `None` when there is no such flow.
    pub(super) fn gate(&self, queue: &QueueName) -> Result<Option<FlowGate>, RegistryError> {
        self.read(|registry, _| registry.gate(queue))
    }

    fn read<T>(
        &self,
        ask: impl FnOnce(&Registry, u64) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let Connection { registry, opened } = &mut *connection;
        let open = match registry.take() {
            Some(open) => open,
            None => {
                *opened += 1;
                Registry::open(&self.path)?
            }
        };
        // Kept only if it answers: after an error the next question opens the file anew.
        let answer = ask(&open, *opened)?;
        *registry = Some(open);
        Ok(answer)
    }
}

/// Resolves one queue's flow again and again.
pub(super) struct Resolver {
    queue: QueueName,
    cached: Option<(Seen, Resolved)>,
}

impl Resolver {
    /// A resolver of this queue's flow, with nothing loaded.
    pub(super) fn new(queue: QueueName) -> Resolver {
        Resolver { queue, cached: None }
    }

    /// The latest version now.
    ///
    /// # Errors
    /// The registry cannot be read. Nothing is cached then.
    pub(super) fn latest(&mut self, reader: &RegistryReader) -> Result<&Resolved, RegistryError> {
        let cached = self.cached.take();
        let queue = &self.queue;
        let fresh = reader.read(|registry, opened| {
            // Asked before the flow is read: a change in between is seen the next time.
            let seen = (opened, registry.data_version()?);
            match cached {
                Some((when, resolved)) if when == seen => Ok((seen, resolved)),
                _ => Ok((seen, load(queue, registry.latest(queue)?))),
            }
        })?;
        Ok(&self.cached.insert(fresh).1)
    }
}

fn load(queue: &QueueName, latest: Latest) -> Resolved {
    match latest {
        Latest::None => Resolved::Missing,
        // The registry's text names the flow and the version.
        Latest::Corrupt { text, .. } => Resolved::Corrupt(text),
        Latest::Version { version, artifact } => match Flow::from_artifact(&artifact) {
            Ok(flow) => Resolved::Flow { version, flow: Box::new(flow) },
            Err(error) => Resolved::Corrupt(format!("flow {queue}, version {version}: {error}")),
        },
    }
}
