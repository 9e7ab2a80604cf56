//! What keeps the server from being ready: queues in trouble, a registry that cannot be read, a
//! device without room.
//!
//! Asked anew each time, so that it turns good again by itself. Not here: how it is answered
//! (`http`).

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::QueueName;
use crate::base::limits::MIN_FREE_BYTES;
use crate::http::{Flows, Readiness};
use crate::registry::{Catalog, FlowGate};
use crate::worker::Roster;

/// The server as the door asks about it.
pub(super) struct State {
    pub(super) catalog: Arc<Catalog>,
    pub(super) roster: Arc<Roster>,
    pub(super) state_dir: PathBuf,
}

impl Flows for State {
    fn gate(&self, queue: &QueueName) -> Result<Option<FlowGate>, String> {
        self.catalog.gate(queue).map_err(|error| error.to_string())
    }
}

impl Readiness for State {
    fn problems(&self) -> Vec<String> {
        let mut problems = self.roster.problems();
        if let Err(error) = self.catalog.readable() {
            problems.push(error.to_string());
        }
        problems.extend(self.no_room());
        problems
    }
}

impl State {
    fn no_room(&self) -> Option<String> {
        let dir = self.state_dir.display();
        match rustix::fs::statvfs(&self.state_dir) {
            Ok(device) => {
                let free = device.f_bavail.saturating_mul(device.f_frsize);
                (free < MIN_FREE_BYTES)
                    .then(|| format!("the device of {dir} has {free} bytes left"))
            }
            Err(error) => Some(format!("the state directory {dir} cannot be looked at: {error}")),
        }
    }
}
