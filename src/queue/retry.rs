//! `segment.log.retry`: the pending retry schedule, as a log of what happened to it.
//!
//! Records of 52 bytes, appended by the owner and synced before the checkpoint that reflects them:
//!
//! | bytes  | field    | meaning                                                                       |
//! |--------|----------|-------------------------------------------------------------------------------|
//! | 0..4   | magic    | `NXRT`                                                                        |
//! | 4..8   | version  | u32, 1                                                                        |
//! | 8..12  | kind     | u32: 1 scheduled, 2 done, 3 crashed                                           |
//! | 12..16 | number   | u32: scheduled: the attempt that is due; crashed: how often; done: 0          |
//! | 16..24 | id       | u64, of the message                                                           |
//! | 24..32 | offset   | u64, of its frame in `segment.log`; done: 0                                   |
//! | 32..40 | due      | i64, scheduled: wall clock, milliseconds since 1970 UTC; else 0               |
//! | 40..48 | delay    | u64, scheduled: the delay that led to `due`, milliseconds; else 0             |
//! | 48..52 | checksum | CRC-32 over bytes 0..48                                                       |
//!
//! The last `scheduled` or `done` of an id counts. `done` says that the message needs no further
//! retry. `crashed` says that the process died so often while it ran. What does not verify at the
//! end is torn, and is cut by the owner; what does not verify further in front makes the checkpoint
//! be ignored, for a retry may have been lost. Once more than half of it is dead the file is
//! replaced by a shorter one (`compact`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use crate::base::{MessageId, Timestamp};
use crate::disk::DiskFile;
use crate::queue::error::QueueError;
use crate::store::record::{self, Place, RecordReader, RecordWriter};

const MAGIC: [u8; 4] = *b"NXRT";
const VERSION: u32 = 1;

/// Bytes of one record.
pub(crate) const RECORD_LEN: u64 = 52;

const SCHEDULED: u32 = 1;
const DONE: u32 = 2;
const CRASHED: u32 = 3;

/// A retry that is pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scheduled {
    pub id: MessageId,
    pub offset: u64,
    /// The number of the attempt that is due.
    pub attempt: u32,
    pub due: Timestamp,
    pub delay_ms: u64,
}

/// How often the process died while a message ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crashed {
    pub id: MessageId,
    pub offset: u64,
    pub count: u32,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    Scheduled(Scheduled),
    Done(MessageId),
    Crashed(Crashed),
}

impl Record {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (kind, number, id, offset, due, delay) = match self {
            Record::Scheduled(s) => {
                (SCHEDULED, s.attempt, s.id, s.offset, s.due.as_millis(), s.delay_ms)
            }
            Record::Done(id) => (DONE, 0, *id, 0, 0, 0),
            Record::Crashed(c) => (CRASHED, c.count, c.id, c.offset, 0, 0),
        };
        let record = RecordWriter::new(MAGIC, VERSION)
            .u32(kind)
            .u32(number)
            .u64(id.get())
            .u64(offset)
            .i64(due)
            .u64(delay)
            .finish();
        out.extend_from_slice(&record);
    }

    fn from_fields(fields: &mut RecordReader<'_>) -> Option<Record> {
        let kind = fields.u32()?;
        let number = fields.u32()?;
        let id = MessageId::new(fields.u64()?)?;
        let offset = fields.u64()?;
        let due = Timestamp::from_millis(fields.i64()?);
        let delay_ms = fields.u64()?;
        match kind {
            SCHEDULED => {
                Some(Record::Scheduled(Scheduled { id, offset, attempt: number, due, delay_ms }))
            }
            DONE => Some(Record::Done(id)),
            CRASHED => Some(Record::Crashed(Crashed { id, offset, count: number })),
            _ => None,
        }
    }
}

/// What the file says.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub schedule: BTreeMap<MessageId, Scheduled>,
    pub done: BTreeSet<MessageId>,
    pub crashes: BTreeMap<MessageId, Crashed>,
    /// The highest id in any record.
    pub highest: Option<MessageId>,
    /// Where the last sound record ends.
    pub end: u64,
    /// Where the first record stands that does not verify and has sound ones behind it.
    pub damaged_at: Option<u64>,
}

impl Loaded {
    fn apply(&mut self, record: Record) {
        let id = match record {
            Record::Scheduled(scheduled) => {
                self.done.remove(&scheduled.id);
                self.schedule.insert(scheduled.id, scheduled);
                scheduled.id
            }
            Record::Done(id) => {
                self.schedule.remove(&id);
                self.crashes.remove(&id);
                self.done.insert(id);
                id
            }
            Record::Crashed(crashed) => {
                self.crashes.insert(crashed.id, crashed);
                crashed.id
            }
        };
        self.highest = self.highest.max(Some(id));
    }
}

/// Reads the whole schedule. Memory: the pending retries, and what was done since the last
/// compaction.
pub(crate) fn load(file: &dyn DiskFile) -> Result<Loaded, QueueError> {
    let mut loaded = Loaded::default();
    let mut first_damaged = None;
    for_each(file, &mut |(offset, len, record)| {
        match record {
            Some(record) => {
                loaded.apply(record);
                loaded.end = offset + len;
                loaded.damaged_at = loaded.damaged_at.or(first_damaged);
            }
            None => first_damaged = first_damaged.or(Some(offset)),
        }
        ControlFlow::Continue(())
    })?;
    Ok(loaded)
}

/// Hands every record to `each`, until that says to stop.
pub(crate) fn for_each(
    file: &dyn DiskFile,
    each: &mut dyn FnMut(Place<Record>) -> ControlFlow<()>,
) -> Result<(), QueueError> {
    record::read_all(file, (MAGIC, VERSION), RECORD_LEN as usize, Record::from_fields, each)
        .map_err(|error| QueueError::records(file.path(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, Open, RealDisk};
    use proptest::prelude::*;

    fn id(n: u64) -> MessageId {
        MessageId::new(n).unwrap()
    }

    fn scheduled(n: u64, attempt: u32) -> Record {
        let due = Timestamp::from_millis(1000 * i64::from(attempt));
        Record::Scheduled(Scheduled { id: id(n), offset: 10 * n, attempt, due, delay_ms: 500 })
    }

    fn with_records(records: &[Record], test: impl FnOnce(&dyn DiskFile)) {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk::new(dir.path()).open(&dir.path().join("retry"), Open::Create).unwrap();
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode(&mut bytes));
        assert_eq!(bytes.len() as u64, RECORD_LEN * records.len() as u64);
        file.write_all_at(&bytes, 0).unwrap();
        test(file.as_ref());
    }

    #[test]
    fn the_last_record_of_an_id_counts() {
        let crashed = Record::Crashed(Crashed { id: id(3), offset: 30, count: 2 });
        let records =
            [scheduled(1, 2), scheduled(2, 2), scheduled(1, 3), Record::Done(id(2)), crashed];
        with_records(&records, |file| {
            let loaded = load(file).unwrap();
            assert_eq!(loaded.schedule.len(), 1);
            assert_eq!(loaded.schedule[&id(1)].attempt, 3);
            assert!(loaded.done.contains(&id(2)));
            assert_eq!(loaded.crashes[&id(3)].count, 2);
            assert_eq!(loaded.highest, Some(id(3)));
            assert_eq!((loaded.end, loaded.damaged_at), (5 * RECORD_LEN, None));
        });
    }

    #[test]
    fn a_torn_end_is_told_apart_from_damage_in_front_of_sound_records() {
        with_records(&[scheduled(1, 2), scheduled(2, 2), scheduled(3, 2)], |file| {
            file.set_len(3 * RECORD_LEN - 5).unwrap();
            let loaded = load(file).unwrap();
            assert_eq!((loaded.end, loaded.damaged_at), (2 * RECORD_LEN, None));
            file.write_all_at(&[9], RECORD_LEN / 2).unwrap();
            let loaded = load(file).unwrap();
            assert_eq!((loaded.end, loaded.damaged_at), (2 * RECORD_LEN, Some(0)));
            assert_eq!(loaded.schedule.len(), 1);
            file.set_len(100_000).unwrap();
            assert_eq!(load(file).unwrap().end, 2 * RECORD_LEN, "zeros are no records");
        });
    }

    proptest! {
        #[test]
        fn every_record_comes_back(
            n in 1u64.., offset: u64, number: u32, due: i64, delay: u64, kind in 0..3,
        ) {
            let record = match kind {
                0 => Record::Scheduled(Scheduled {
                    id: id(n), offset, attempt: number,
                    due: Timestamp::from_millis(due), delay_ms: delay,
                }),
                1 => Record::Done(id(n)),
                _ => Record::Crashed(Crashed { id: id(n), offset, count: number }),
            };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let mut fields = RecordReader::new(&bytes, MAGIC, VERSION).unwrap();
            prop_assert_eq!(Record::from_fields(&mut fields), Some(record));
        }
    }
}
