//! Publishing: new versions of flows, all or none.
//!
//! Versions count up from 1 for each (tenant, flow). The same source as the latest version's is
//! no new version, unless that version's artifact has been damaged: then publishing again mends
//! it. Two processes that publish at once get one version after the other.
//!
//! Not here: compiling (`flow`), reading the files (`cli`).

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::error::RegistryError;
use super::schema::Registry;
use crate::base::digest::Sha256;
use crate::base::{QueueName, Timestamp};

/// A compiled flow that is to become a new version.
#[derive(Debug, Clone)]
pub struct NewVersion {
    /// The flow that it is a version of.
    pub queue: QueueName,
    /// The FlowMarkdown text.
    pub source: String,
    /// What the compiler made of it.
    pub artifact: Vec<u8>,
    /// The flow's own ceiling on one message, in bytes.
    pub max_message_bytes: Option<u64>,
    /// One line for lists.
    pub description: Option<String>,
}

/// What became of one flow of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The flow.
    pub queue: QueueName,
    /// Its latest version now.
    pub version: u32,
    /// That version was there already, with the same source.
    pub unchanged: bool,
}

impl Registry {
    /// Stores all of these or none, in one transaction, synced when this returns.
    ///
    /// # Errors
    /// As the database gives them; nothing is stored then.
    pub fn publish(
        &mut self,
        flows: &[NewVersion],
        now: Timestamp,
    ) -> Result<Vec<Published>, RegistryError> {
        self.write(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let published = flows
                .iter()
                .map(|flow| publish_one(&transaction, flow, now))
                .collect::<rusqlite::Result<Vec<Published>>>()?;
            transaction.commit()?;
            Ok(published)
        })
    }
}

/// The latest version of a flow, as far as publishing needs it.
struct LatestRow {
    version: u32,
    same_source: bool,
    sound: bool,
}

fn publish_one(
    transaction: &Transaction<'_>,
    flow: &NewVersion,
    now: Timestamp,
) -> rusqlite::Result<Published> {
    let queue = flow.queue.clone();
    let version = match latest_row(transaction, flow)? {
        Some(latest) if latest.same_source && latest.sound => {
            return Ok(Published { queue, version: latest.version, unchanged: true });
        }
        // Past the last number the table's own check refuses the row.
        Some(latest) => i64::from(latest.version) + 1,
        None => 1,
    };
    transaction.execute(
        "INSERT INTO flows (tenant, flow, version, published_at, max_message_bytes, description, \
         sha256, source, artifact) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            queue.tenant.as_str(),
            queue.flow.as_str(),
            version,
            now.as_millis(),
            flow.max_message_bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
            flow.description,
            Sha256::of(&flow.artifact).to_string(),
            flow.source,
            flow.artifact,
        ],
    )?;
    // The row was accepted, so the version is within what the table's check allows: a u32.
    let version = u32::try_from(version).unwrap_or(u32::MAX);
    Ok(Published { queue, version, unchanged: false })
}

fn latest_row(
    transaction: &Transaction<'_>,
    flow: &NewVersion,
) -> rusqlite::Result<Option<LatestRow>> {
    transaction
        .query_row(
            "SELECT version, source = ?3, sha256, artifact FROM flows \
             WHERE tenant = ?1 AND flow = ?2 ORDER BY version DESC LIMIT 1",
            params![flow.queue.tenant.as_str(), flow.queue.flow.as_str(), flow.source],
            |row| {
                let sha256: String = row.get(2)?;
                let artifact: Vec<u8> = row.get(3)?;
                Ok(LatestRow {
                    version: row.get(0)?,
                    same_source: row.get(1)?,
                    sound: Sha256::of(&artifact).to_string() == sha256,
                })
            },
        )
        .optional()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Latest;
    use std::path::Path;

    fn version_of(flow: &str, source: &str) -> NewVersion {
        NewVersion {
            queue: QueueName::parse("acme", flow).unwrap(),
            source: source.to_owned(),
            artifact: format!("compiled {source}").into_bytes(),
            max_message_bytes: None,
            description: None,
        }
    }

    fn publish(registry: &mut Registry, flows: &[NewVersion]) -> Vec<(u32, bool)> {
        let published = registry.publish(flows, Timestamp::from_millis(5)).unwrap();
        published.iter().map(|one| (one.version, one.unchanged)).collect()
    }

    fn registry(directory: &Path) -> Registry {
        Registry::create(&directory.join("registry.db")).unwrap()
    }

    #[test]
    fn versions_count_up_for_each_flow_and_the_same_source_is_unchanged() {
        let temp = tempfile::tempdir().unwrap();
        let mut registry = registry(temp.path());
        assert_eq!(publish(&mut registry, &[version_of("a", "one")]), [(1, false)]);
        assert_eq!(publish(&mut registry, &[version_of("a", "one")]), [(1, true)]);
        let both = [version_of("a", "two"), version_of("b", "one")];
        assert_eq!(publish(&mut registry, &both), [(2, false), (1, false)]);
        // An older source is not the latest one's: it becomes a version again.
        assert_eq!(publish(&mut registry, &[version_of("a", "one")]), [(3, false)]);
    }

    #[test]
    fn one_flow_that_cannot_be_stored_keeps_out_all_others() {
        let temp = tempfile::tempdir().unwrap();
        let mut registry = registry(temp.path());
        let bad = NewVersion { max_message_bytes: Some(0), ..version_of("b", "one") };
        let both = [version_of("a", "one"), bad];
        assert!(registry.publish(&both, Timestamp::from_millis(5)).is_err());
        assert!(registry.list().unwrap().is_empty());
    }

    #[test]
    fn publishing_the_same_source_again_mends_a_damaged_artifact() {
        let temp = tempfile::tempdir().unwrap();
        let mut registry = registry(temp.path());
        publish(&mut registry, &[version_of("a", "one")]);
        registry
            .write(|connection| connection.execute("UPDATE flows SET artifact = x'00'", []))
            .unwrap();
        let queue = QueueName::parse("acme", "a").unwrap();
        assert!(matches!(registry.latest(&queue), Ok(Latest::Corrupt { version: 1, .. })));
        assert_eq!(publish(&mut registry, &[version_of("a", "one")]), [(2, false)]);
        assert!(matches!(registry.latest(&queue), Ok(Latest::Version { version: 2, .. })));
    }

    #[test]
    fn connections_that_publish_at_once_get_one_version_after_the_other() {
        let temp = tempfile::tempdir().unwrap();
        drop(registry(temp.path()));
        let publisher = |name: &'static str| {
            let mut registry = registry(temp.path());
            move || {
                let sources = (0..25).map(|n| format!("{name} {n}"));
                let versions =
                    sources.map(|source| publish(&mut registry, &[version_of("a", &source)])[0].0);
                versions.collect::<Vec<u32>>()
            }
        };
        let mut versions = std::thread::scope(|scope| {
            let (one, two) = (scope.spawn(publisher("one")), scope.spawn(publisher("two")));
            [one.join().unwrap(), two.join().unwrap()].concat()
        });
        versions.sort_unstable();
        assert_eq!(versions, (1..=50).collect::<Vec<u32>>());
    }

    #[test]
    fn what_is_published_is_there_after_opening_again() {
        let temp = tempfile::tempdir().unwrap();
        let mut first = registry(temp.path());
        publish(&mut first, &[version_of("a", "one")]);
        drop(first);
        let queue = QueueName::parse("acme", "a").unwrap();
        let again = Registry::open(&temp.path().join("registry.db")).unwrap();
        let Latest::Version { version: 1, artifact } = again.latest(&queue).unwrap() else {
            panic!("no version 1");
        };
        assert_eq!(artifact, b"compiled one");
    }
}
