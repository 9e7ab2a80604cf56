//! `segment.log.seq`: the next message id, and how far the log is known to be synced.
//!
//! One record, written in place at offset 0 before every batch and synced only by a drain:
//!
//! | bytes  | field      | meaning                                                              |
//! |--------|------------|----------------------------------------------------------------------|
//! | 0..4   | magic      | `NXSQ`                                                               |
//! | 4..8   | version    | u32, 1                                                               |
//! | 8..16  | next id    | u64, above every id that was ever issued when it was written         |
//! | 16..24 | synced end | u64, where the batch begins that follows: what lies before is synced |
//! | 24..28 | checksum   | CRC-32 over bytes 0..24                                              |
//!
//! Why it needs no sync: ids are raised past every frame that is found (`segment`), and the log is
//! emptied only after this file has been synced (`drain`). Why `synced end`: a process that died
//! between its write and its sync leaves a batch that can be read and is not on the disk. Whoever
//! comes next writes what lies behind `synced end` again and syncs it, and need not do so for the
//! whole log.
//!
//! Missing, damaged or shorter: recomputed from all files of the queue, and the whole log is
//! written again and synced.

use crate::base::MessageId;
use crate::disk::DiskFile;
use crate::queue::error::QueueError;
use crate::store::record::{NotARecord, RecordReader, RecordWriter};

const MAGIC: [u8; 4] = *b"NXSQ";
const VERSION: u32 = 1;
/// Bytes of the record.
pub(crate) const LEN: usize = 28;

/// What the file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sequence {
    pub next_id: MessageId,
    pub synced_end: u64,
}

impl Sequence {
    /// Reads the file; `None` when it is missing, damaged or short.
    pub(crate) fn read(file: &dyn DiskFile) -> Result<Option<Sequence>, QueueError> {
        let mut bytes = [0; LEN];
        let read = file
            .read_full_at(&mut bytes, 0)
            .map_err(|error| QueueError::io("read", file.path(), &error))?;
        let mut fields = match RecordReader::new(&bytes[..read], MAGIC, VERSION) {
            Ok(fields) => fields,
            Err(NotARecord::Damaged) => return Ok(None),
            Err(NotARecord::Newer(version)) => {
                let why =
                    format!("it has format version {version}, and this build reads {VERSION}");
                return Err(QueueError::unreadable(file.path(), &why));
            }
        };
        let next_id = fields.u64().and_then(MessageId::new);
        let synced_end = fields.u64();
        Ok(next_id.zip(synced_end).map(|(next_id, synced_end)| Sequence { next_id, synced_end }))
    }

    /// Writes the file, without a sync.
    pub(crate) fn write(self, file: &dyn DiskFile) -> Result<(), QueueError> {
        let bytes =
            RecordWriter::new(MAGIC, VERSION).u64(self.next_id.get()).u64(self.synced_end).finish();
        file.write_all_at(&bytes, 0).map_err(|error| QueueError::io("write", file.path(), &error))
    }
}
