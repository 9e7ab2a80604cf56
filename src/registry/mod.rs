//! Interface stub: the registry.
#![allow(missing_docs, unused_variables)]
use std::path::Path;

use crate::base::{QueueName, Timestamp};

pub struct Registry(());
impl Registry {
    /// Opens one that exists; a missing one is an error that names the path and the directory.
    pub fn open(path: &Path) -> Result<Registry, RegistryError> {
        unimplemented!()
    }
    /// Opens it, making it and its directory (0700) where missing.
    pub fn create(path: &Path) -> Result<Registry, RegistryError> {
        unimplemented!()
    }
    /// All or none, in one transaction.
    pub fn publish(
        &mut self,
        flows: &[NewVersion],
        now: Timestamp,
    ) -> Result<Vec<Published>, RegistryError> {
        unimplemented!()
    }
    /// The newest version with its artifact; `Corrupt` when the bytes do not have their SHA-256.
    pub fn latest(&self, queue: &QueueName) -> Result<Latest, RegistryError> {
        unimplemented!()
    }
    /// Columns only.
    pub fn gate(&self, queue: &QueueName) -> Result<Option<FlowGate>, RegistryError> {
        unimplemented!()
    }
    /// All flows' gates, for the catalog's snapshot.
    pub fn gates(&self) -> Result<Vec<(QueueName, FlowGate)>, RegistryError> {
        unimplemented!()
    }
    /// Changes whenever another connection has changed the file (`PRAGMA data_version`).
    pub fn data_version(&self) -> Result<i64, RegistryError> {
        unimplemented!()
    }
    pub fn list(&self) -> Result<Vec<FlowSummary>, RegistryError> {
        unimplemented!()
    }
    pub fn show(
        &self,
        queue: &QueueName,
        version: Option<u32>,
    ) -> Result<Option<FlowDetail>, RegistryError> {
        unimplemented!()
    }
}
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RegistryError(pub String);
pub struct NewVersion {
    pub queue: QueueName,
    pub source: String,
    pub artifact: Vec<u8>,
    pub max_message_bytes: Option<u64>,
    pub description: Option<String>,
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    pub queue: QueueName,
    pub version: u32,
    pub unchanged: bool,
}
pub enum Latest {
    None,
    Version { version: u32, artifact: Vec<u8> },
    Corrupt { version: u32, text: String },
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowGate {
    pub version: u32,
    pub max_message_bytes: Option<u64>,
}
#[derive(Debug, Clone)]
pub struct FlowSummary {
    pub queue: QueueName,
    pub version: u32,
    pub published_at: Timestamp,
    pub description: Option<String>,
}
#[derive(Debug, Clone)]
pub struct FlowDetail {
    pub queue: QueueName,
    pub version: u32,
    pub published_at: Timestamp,
    pub sha256: String,
    pub source: String,
}
/// Stand-in.
pub fn state_dir(path: &Path) -> std::path::PathBuf {
    path.parent().unwrap_or(path).to_path_buf()
}
/// Stand-in.
pub struct Catalog(());
impl Catalog {
    pub fn start(path: &Path, poll: std::time::Duration) -> Result<Catalog, RegistryError> {
        Ok(Catalog(()))
    }
    pub fn gate(&self, queue: &QueueName) -> Result<Option<FlowGate>, RegistryError> {
        Ok(None)
    }
    pub fn readable(&self) -> Result<(), RegistryError> {
        Ok(())
    }
    pub fn stop(&self) {}
}
