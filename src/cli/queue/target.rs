//! The queue that a command is about. Its names are checked before anything is opened, and nothing
//! is done for a queue that neither has files nor is a flow of the registry.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::QueueName;
use crate::cli::args::{DbArgs, QueueArgs};
use crate::cli::dlq::open;
use crate::cli::output::Failure;
use crate::disk::Disk;
use crate::queue::{self, Layout};
use crate::registry::{self, Registry};

/// A queue, and where its files are.
pub(super) struct Target {
    pub queue: QueueName,
    pub disk: Arc<dyn Disk>,
    pub layout: Layout,
    registry: PathBuf,
}

impl Target {
    /// The queue of these names in the state directory of an existing registry. `verb` is what is
    /// to be done with it.
    pub(super) fn parse(names: &QueueArgs, db: &DbArgs, verb: &str) -> Result<Target, Failure> {
        let queue = names.parse().map_err(|error| Failure::Told(error.to_string()))?;
        let registry = db.registry()?;
        registry::must_exist(&registry)
            .map_err(|error| Failure::new(format_args!("cannot {verb} {queue}"), error))?;
        let (disk, layout) = open(&registry);
        Ok(Target { queue, disk, layout, registry })
    }

    /// Refuses a queue that has no files and is no flow of the registry.
    pub(super) fn must_be_known(&self, verb: &str) -> Result<(), Failure> {
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::new(format_args!("cannot {verb} {}", self.queue), why)
        };
        if queue::exists(self.disk.as_ref(), &self.layout, &self.queue)
            .map_err(|error| cannot(&error))?
        {
            return Ok(());
        }
        let published = Registry::open(&self.registry)
            .and_then(|registry| registry.gate(&self.queue))
            .map_err(|error| cannot(&error))?;
        match published {
            Some(_) => Ok(()),
            None => {
                let registry = self.registry.display();
                Err(cannot(&format_args!(
                    "it has no files, and the registry {registry} has no such flow"
                )))
            }
        }
    }
}
