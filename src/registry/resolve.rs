//! Reading the registry: the latest version with its digest verified, the columns that the door
//! needs, lists and sources.
//!
//! An artifact is handed out only after its SHA-256 has been computed anew and found equal to the
//! one stored with it, each time that it is loaded. What the door asks for is answered from
//! columns; no artifact is read for it.

use rusqlite::{Connection, OptionalExtension, Row};

use super::error::RegistryError;
use super::schema::Registry;
use crate::base::digest::Sha256;
use crate::base::{QueueName, Timestamp};

/// The newest version of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Latest {
    /// The registry has no such flow.
    None,
    /// The version and what the compiler made of it; its digest is the stored one.
    Version {
        /// Its number, from 1.
        version: u32,
        /// For [`crate::base::digest`]-verified loading by the flow layer.
        artifact: Vec<u8>,
    },
    /// The stored bytes do not have the stored digest. Reading them again changes nothing.
    Corrupt {
        /// Its number, from 1.
        version: u32,
        /// What is wrong, naming the flow and both digests.
        text: String,
    },
}

/// What the door must know about a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowGate {
    /// The latest version, from 1.
    pub version: u32,
    /// The flow's own ceiling on one message, in bytes.
    pub max_message_bytes: Option<u64>,
}

/// One line of the list of flows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSummary {
    /// The flow.
    pub queue: QueueName,
    /// Its latest version, from 1.
    pub version: u32,
    /// When that version was published.
    pub published_at: Timestamp,
    /// The flow's own words about itself.
    pub description: Option<String>,
}

/// One version of a flow with its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowDetail {
    /// The flow.
    pub queue: QueueName,
    /// The version, from 1.
    pub version: u32,
    /// When it was published.
    pub published_at: Timestamp,
    /// The artifact's SHA-256 as it is stored, lower-case hex.
    pub sha256: String,
    /// The FlowMarkdown text, byte for byte as published.
    pub source: String,
}

impl Registry {
    /// The newest version with its artifact.
    ///
    /// # Errors
    /// A registry that cannot be read. A damaged artifact is no error but [`Latest::Corrupt`].
    pub fn latest(&self, queue: &QueueName) -> Result<Latest, RegistryError> {
        let row = self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT version, sha256, artifact FROM flows \
                     WHERE tenant = ?1 AND flow = ?2 ORDER BY version DESC LIMIT 1",
                )?
                .query_row((queue.tenant.as_str(), queue.flow.as_str()), |row| {
                    Ok((row.get::<_, u32>(0)?, row.get::<_, String>(1)?, row.get(2)?))
                })
                .optional()
        })?;
        Ok(match row {
            None => Latest::None,
            Some((version, stored, artifact)) => verified(queue, version, &stored, artifact),
        })
    }

    /// The latest version's number and ceiling, from columns only.
    ///
    /// # Errors
    /// A registry that cannot be read.
    pub fn gate(&self, queue: &QueueName) -> Result<Option<FlowGate>, RegistryError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT version, max_message_bytes FROM flows \
                     WHERE tenant = ?1 AND flow = ?2 ORDER BY version DESC LIMIT 1",
                )?
                .query_row((queue.tenant.as_str(), queue.flow.as_str()), |row| gate_at(row, 0))
                .optional()
        })
    }

    /// The gates of all flows, in no order.
    ///
    /// # Errors
    /// A registry that cannot be read.
    pub fn gates(&self) -> Result<Vec<(QueueName, FlowGate)>, RegistryError> {
        self.read(|connection| {
            latest_rows(connection, "version, max_message_bytes", |row, queue| {
                Ok((queue, gate_at(row, 2)?))
            })
        })
    }

    /// The latest version of every flow, by tenant and flow.
    ///
    /// # Errors
    /// A registry that cannot be read.
    pub fn list(&self) -> Result<Vec<FlowSummary>, RegistryError> {
        self.read(|connection| {
            latest_rows(connection, "version, published_at, description", |row, queue| {
                Ok(FlowSummary {
                    queue,
                    version: row.get(2)?,
                    published_at: Timestamp::from_millis(row.get(3)?),
                    description: row.get(4)?,
                })
            })
        })
    }

    /// One version of a flow, the latest if none is named; `None` when there is no such one.
    ///
    /// # Errors
    /// A registry that cannot be read.
    pub fn show(
        &self,
        queue: &QueueName,
        version: Option<u32>,
    ) -> Result<Option<FlowDetail>, RegistryError> {
        self.read(|connection| {
            connection
                .query_row(
                    "SELECT version, published_at, sha256, source FROM flows \
                     WHERE tenant = ?1 AND flow = ?2 AND (?3 IS NULL OR version = ?3) \
                     ORDER BY version DESC LIMIT 1",
                    (queue.tenant.as_str(), queue.flow.as_str(), version),
                    |row| {
                        Ok(FlowDetail {
                            queue: queue.clone(),
                            version: row.get(0)?,
                            published_at: Timestamp::from_millis(row.get(1)?),
                            sha256: row.get(2)?,
                            source: row.get(3)?,
                        })
                    },
                )
                .optional()
        })
    }
}

/// Every flow's latest row, by tenant and flow; `read` finds the asked-for columns from index 2.
fn latest_rows<T>(
    connection: &Connection,
    columns: &str,
    mut read: impl FnMut(&Row<'_>, QueueName) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let query = format!(
        "SELECT tenant, flow, {columns} FROM flows AS one WHERE version = \
         (SELECT max(version) FROM flows WHERE tenant = one.tenant AND flow = one.flow) \
         ORDER BY tenant, flow"
    );
    let mut statement = connection.prepare_cached(&query)?;
    let mut rows = statement.query([])?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let (tenant, flow): (String, String) = (row.get(0)?, row.get(1)?);
        match QueueName::parse(&tenant, &flow) {
            Ok(queue) => all.push(read(row, queue)?),
            // The table's checks refuse such a row. No request can name it, so it hides nothing.
            Err(error) => log::warn!("a row of the registry is left out: {error}"),
        }
    }
    Ok(all)
}

fn gate_at(row: &Row<'_>, column: usize) -> rusqlite::Result<FlowGate> {
    let ceiling: Option<i64> = row.get(column + 1)?;
    Ok(FlowGate {
        version: row.get(column)?,
        // The table's check keeps it at 1 or above.
        max_message_bytes: ceiling.map(|bytes| u64::try_from(bytes).unwrap_or(0)),
    })
}

fn verified(queue: &QueueName, version: u32, stored: &str, artifact: Vec<u8>) -> Latest {
    let computed = Sha256::of(&artifact).to_string();
    if computed == stored {
        return Latest::Version { version, artifact };
    }
    let text = format!(
        "the stored flow {queue} version {version} failed its integrity check: \
         its SHA-256 is {computed}, and {} was stored with it",
        stored.escape_default()
    );
    Latest::Corrupt { version, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::NewVersion;

    struct Fixture {
        registry: Registry,
        _directory: tempfile::TempDir,
    }

    fn queue(flow: &str) -> QueueName {
        QueueName::parse("acme", flow).unwrap()
    }

    fn with_versions(versions: &[(&str, &str, Option<u64>)]) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let mut registry = Registry::create(&directory.path().join("registry.db")).unwrap();
        for (flow, source, max_message_bytes) in versions {
            let new = NewVersion {
                queue: queue(flow),
                source: (*source).to_owned(),
                artifact: source.as_bytes().to_vec(),
                max_message_bytes: *max_message_bytes,
                description: Some(format!("about {source}")),
            };
            registry.publish(&[new], Timestamp::from_millis(1000)).unwrap();
        }
        Fixture { registry, _directory: directory }
    }

    #[test]
    fn the_gate_and_the_list_show_the_latest_version() {
        let fixture = with_versions(&[("b", "b1", None), ("a", "a1", None), ("a", "a2", Some(9))]);
        let registry = &fixture.registry;
        let gate = FlowGate { version: 2, max_message_bytes: Some(9) };
        assert_eq!(registry.gate(&queue("a")).unwrap(), Some(gate));
        assert_eq!(registry.gate(&queue("c")).unwrap(), None);
        let gates = registry.gates().unwrap();
        assert_eq!(gates.len(), 2);
        assert_eq!(gates[0], (queue("a"), gate));
        let list = registry.list().unwrap();
        let lines: Vec<_> = list.iter().map(|one| (one.queue.clone(), one.version)).collect();
        assert_eq!(lines, [(queue("a"), 2), (queue("b"), 1)]);
        assert_eq!(list[0].description.as_deref(), Some("about a2"));
        assert_eq!(list[0].published_at, Timestamp::from_millis(1000));
    }

    #[test]
    fn any_version_can_be_shown_byte_for_byte() {
        let fixture = with_versions(&[("a", "one\r\n\0é", None), ("a", "two", None)]);
        let show = |version| fixture.registry.show(&queue("a"), version).unwrap();
        assert_eq!(show(None).unwrap().source, "two");
        assert_eq!(show(Some(1)).unwrap().source, "one\r\n\0é");
        assert_eq!(show(Some(1)).unwrap().sha256.len(), 64);
        assert!(show(Some(3)).is_none());
        assert!(fixture.registry.show(&queue("b"), None).unwrap().is_none());
    }

    #[test]
    fn a_damaged_artifact_is_corrupt_and_names_the_flow_and_the_version() {
        let mut fixture = with_versions(&[("a", "one", None)]);
        assert_eq!(fixture.registry.latest(&queue("b")).unwrap(), Latest::None);
        fixture
            .registry
            .write(|connection| connection.execute("UPDATE flows SET artifact = x'6f6e64'", []))
            .unwrap();
        let Latest::Corrupt { version: 1, text } = fixture.registry.latest(&queue("a")).unwrap()
        else {
            panic!("not corrupt");
        };
        assert!(text.contains("acme/a version 1 failed its integrity check"), "{text}");
    }

    #[test]
    fn the_data_version_changes_when_another_connection_publishes() {
        let fixture = with_versions(&[]);
        let before = fixture.registry.data_version().unwrap();
        assert_eq!(fixture.registry.data_version().unwrap(), before);
        let mut other = Registry::open(fixture.registry.path()).unwrap();
        let new = NewVersion {
            queue: queue("a"),
            source: String::new(),
            artifact: Vec::new(),
            max_message_bytes: None,
            description: None,
        };
        other.publish(&[new], Timestamp::from_millis(1)).unwrap();
        assert_ne!(fixture.registry.data_version().unwrap(), before);
    }
}
