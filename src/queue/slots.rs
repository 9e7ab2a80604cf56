//! `worker.lock`: elects the one process that delivers a queue, and holds what it has in flight.
//!
//! The lock is held for as long as a process owns the queue. The file has 64 slots of 32 bytes,
//! written before a run begins, zeroed when it has ended, and never synced:
//!
//! | bytes  | field    | meaning                                |
//! |--------|----------|----------------------------------------|
//! | 0..4   | magic    | `NXIF`                                 |
//! | 4..8   | version  | u32, 1                                 |
//! | 8..16  | id       | u64, of the message in flight          |
//! | 16..24 | offset   | u64, of its frame in `segment.log`     |
//! | 24..28 | checksum | CRC-32 over bytes 0..24                |
//!
//! A slot that is full when a process is elected is a crash while that message ran. What does not
//! verify is a free slot: after a power cut crashes may go uncounted, and nothing else depends on
//! it.

use crate::base::MessageId;
use crate::base::limits::MAX_IN_FLIGHT;
use crate::disk::DiskFile;
use crate::queue::error::QueueError;
use crate::queue::lock::Held;
use crate::store::record::{RecordReader, RecordWriter};

const MAGIC: [u8; 4] = *b"NXIF";
const VERSION: u32 = 1;
const SLOT_LEN: usize = 32;
const RECORD_LEN: usize = 28;

/// The held `worker.lock`, and which of its slots are in use.
pub(crate) struct Slots {
    held: Held,
    used: [bool; MAX_IN_FLIGHT],
}

impl Slots {
    /// Takes the file over; the messages (id and offset) that were in flight when the last process
    /// died.
    pub(crate) fn take_over(held: Held) -> Result<(Slots, Vec<(MessageId, u64)>), QueueError> {
        let crashed = read(held.file())?.into_iter().filter_map(|slot| match slot {
            Slot::Full { id, offset } => Some((id, offset)),
            Slot::Free | Slot::Damaged => None,
        });
        let crashed = crashed.collect();
        Ok((Slots { held, used: [false; MAX_IN_FLIGHT] }, crashed))
    }

    /// Frees every slot: what was in flight is not in flight any more, and no crash.
    pub(crate) fn clear(&mut self) -> Result<(), QueueError> {
        self.used = [false; MAX_IN_FLIGHT];
        self.write(0, &[0; SLOT_LEN * MAX_IN_FLIGHT])
    }

    /// Whether every slot is in use.
    pub(crate) fn are_full(&self) -> bool {
        self.used.iter().all(|used| *used)
    }

    /// Fills a free slot; its number. Only to be called while not all [are full](Slots::are_full).
    pub(crate) fn fill(&mut self, id: MessageId, offset: u64) -> Result<usize, QueueError> {
        let Some(slot) = self.used.iter().position(|used| !used) else {
            let why = format!("all of its {MAX_IN_FLIGHT} slots are in use");
            return Err(QueueError::unreadable(self.held.file().path(), &why));
        };
        let record = RecordWriter::new(MAGIC, VERSION).u64(id.get()).u64(offset).finish();
        self.write(slot, &record)?;
        self.used[slot] = true;
        Ok(slot)
    }

    /// Frees a slot. A failure leaves the bytes as they are: at worst a crash is counted that was
    /// none.
    pub(crate) fn free(&mut self, slot: usize) {
        self.used[slot] = false;
        let _ = self.write(slot, &[0; RECORD_LEN]);
    }

    /// The lock.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    fn write(&self, slot: usize, bytes: &[u8]) -> Result<(), QueueError> {
        let file = self.held.file();
        let written = file.write_all_at(bytes, (slot * SLOT_LEN) as u64);
        written.map_err(|error| QueueError::io("write", file.path(), &error))
    }
}

/// What a slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    Free,
    Full {
        id: MessageId,
        offset: u64,
    },
    /// It does not verify, and counts as free.
    Damaged,
}

/// Where a slot lies, and how many bytes it has.
pub(crate) fn place(number: usize) -> (u64, u64) {
    ((number * SLOT_LEN) as u64, SLOT_LEN as u64)
}

/// Reads every slot that the file has.
pub(crate) fn read(file: &dyn DiskFile) -> Result<Vec<Slot>, QueueError> {
    let mut bytes = vec![0; SLOT_LEN * MAX_IN_FLIGHT];
    let read = file
        .read_full_at(&mut bytes, 0)
        .map_err(|error| QueueError::io("read", file.path(), &error))?;
    bytes.truncate(read);
    Ok(bytes.chunks(SLOT_LEN).map(decode).collect())
}

fn decode(slot: &[u8]) -> Slot {
    let record = slot.get(..RECORD_LEN).unwrap_or(slot);
    if record.iter().all(|byte| *byte == 0) {
        return Slot::Free;
    }
    let full = || {
        let mut fields = RecordReader::new(record, MAGIC, VERSION).ok()?;
        let id = MessageId::new(fields.u64()?)?;
        Some(Slot::Full { id, offset: fields.u64()? })
    };
    full().unwrap_or(Slot::Damaged)
}
