//! `dlq.log.acked`: which dead letters are handled, that is replayed or discarded.
//!
//! Records of 20 bytes, appended and synced under `dlq.lock` by whoever handles a dead letter:
//!
//! | bytes  | field    | meaning                    |
//! |--------|----------|----------------------------|
//! | 0..4   | magic    | `NXAK`                     |
//! | 4..8   | version  | u32, 1                     |
//! | 8..16  | id       | u64, of the dead letter    |
//! | 16..20 | checksum | CRC-32 over bytes 0..16    |
//!
//! A record that does not verify does not count, and is reported; what is torn at the end is cut
//! before the next record is written. The owner empties the file once it has rewritten `dlq.log`
//! without the marked entries.

use std::collections::HashSet;
use std::ops::ControlFlow;

use crate::base::MessageId;
use crate::disk::DiskFile;
use crate::queue::error::{QueueError, Report};
use crate::store::record::{self, Place, RecordReader, RecordWriter};

const MAGIC: [u8; 4] = *b"NXAK";
const VERSION: u32 = 1;
const LEN: u64 = 20;

/// What the file says.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub ids: HashSet<MessageId>,
    /// Where the last sound record ends.
    pub end: u64,
    /// Length of the file.
    pub len: u64,
    pub reports: Vec<Report>,
}

/// Reads all marks.
pub(crate) fn read(file: &dyn DiskFile) -> Result<Marks, QueueError> {
    let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
    let mut marks = Marks { len, ..Marks::default() };
    let mut damaged = Vec::new();
    for_each(file, &mut |(offset, len, id)| {
        match id {
            Some(id) => {
                marks.ids.insert(id);
                marks.end = offset + len;
            }
            None => damaged.push(offset),
        }
        ControlFlow::Continue(())
    })?;
    marks.reports = damaged
        .into_iter()
        .filter(|offset| *offset < marks.end)
        .map(|offset| Report {
            path: file.path().to_path_buf(),
            offset,
            len: LEN,
            text: "a mark does not verify and does not count".to_owned(),
        })
        .collect();
    Ok(marks)
}

/// Hands every record to `each`, until that says to stop.
pub(crate) fn for_each(
    file: &dyn DiskFile,
    each: &mut dyn FnMut(Place<MessageId>) -> ControlFlow<()>,
) -> Result<(), QueueError> {
    let id = |fields: &mut RecordReader<'_>| fields.u64().and_then(MessageId::new);
    record::read_all(file, (MAGIC, VERSION), LEN as usize, id, each)
        .map_err(|error| QueueError::records(file.path(), &error))
}

/// The record of a mark.
pub(crate) fn encode(id: MessageId) -> Vec<u8> {
    RecordWriter::new(MAGIC, VERSION).u64(id.get()).finish()
}

/// Marks a dead letter and syncs, under `dlq.lock`; a failure is undone.
pub(crate) fn mark(file: &dyn DiskFile, marks: &Marks, id: MessageId) -> Result<(), QueueError> {
    let fault = |error| QueueError::io("write", file.path(), &error);
    if marks.len > marks.end {
        file.set_len(marks.end).map_err(fault)?;
    }
    let written = file.write_all_at(&encode(id), marks.end).and_then(|()| file.sync());
    if let Err(error) = written {
        // Whether the undoing holds, the next reader finds out: the record verifies, or it does
        // not.
        let undone = file.set_len(marks.end).and_then(|()| file.sync());
        let mut error = fault(error);
        if let Err(second) = undone {
            error.text = format!("{}, nor undo that: {second}", error.text);
        }
        return Err(error);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, Open, RealDisk};

    fn ids(marks: &Marks) -> Vec<u64> {
        let mut ids: Vec<u64> = marks.ids.iter().map(|id| id.get()).collect();
        ids.sort_unstable();
        ids
    }

    #[test]
    fn marks_accumulate_a_torn_one_is_cut_and_a_damaged_one_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk::new(dir.path()).open(&dir.path().join("acked"), Open::Create).unwrap();
        for id in [7, 2, 9] {
            let marks = read(file.as_ref()).unwrap();
            mark(file.as_ref(), &marks, MessageId::new(id).unwrap()).unwrap();
        }
        assert_eq!(ids(&read(file.as_ref()).unwrap()), [2, 7, 9]);

        file.set_len(50).unwrap();
        let marks = read(file.as_ref()).unwrap();
        assert_eq!((ids(&marks), marks.end, marks.reports.len()), (vec![2, 7], 40, 0));
        mark(file.as_ref(), &marks, MessageId::new(11).unwrap()).unwrap();
        assert_eq!(file.len().unwrap(), 60);

        file.write_all_at(&[0xFF], 28).unwrap();
        let marks = read(file.as_ref()).unwrap();
        assert_eq!(ids(&marks), [7, 11]);
        assert_eq!(marks.reports[0].offset, 20);

        file.write_all_at(&[0; 4096], 60).unwrap();
        assert_eq!(ids(&read(file.as_ref()).unwrap()), [7, 11]);
    }
}
