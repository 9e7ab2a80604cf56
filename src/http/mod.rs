//! Stand-in for the door.
#![allow(missing_docs)]
use crate::base::{QueueName, random::Random, time::Clock};
use crate::registry::FlowGate;
use crate::worker::Submit;
use std::{net::SocketAddr, sync::Arc, time::Duration};

pub trait Flows: Send + Sync {
    fn gate(&self, queue: &QueueName) -> Result<Option<FlowGate>, String>;
}
pub trait Readiness: Send + Sync {
    fn problems(&self) -> Vec<String>;
}
#[derive(Default)]
pub struct Deadlines(());
pub struct DoorConfig {
    pub listen: SocketAddr,
    pub acceptors: usize,
    pub max_message_bytes: u64,
    pub dev: bool,
    pub deadlines: Deadlines,
}
pub struct Services {
    pub flows: Arc<dyn Flows>,
    pub queues: Arc<dyn Submit>,
    pub readiness: Arc<dyn Readiness>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}
pub struct Door(SocketAddr);
impl Door {
    pub fn start(config: DoorConfig, _: Services) -> std::io::Result<Door> {
        Ok(Door(config.listen))
    }
    pub fn address(&self) -> SocketAddr {
        self.0
    }
    pub fn stop(&self) {}
    pub fn join(&self, _: Duration) -> usize {
        0
    }
}
