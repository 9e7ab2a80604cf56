//! `segment.log.ckpt`: how far a queue is settled.
//!
//! Below its offset every message of `segment.log` is settled: acknowledged, dropped by rule,
//! dead-lettered, or written to `segment.log.retry`. Two slots, at 0 and at 4096, each:
//!
//! | bytes  | field        | meaning                                                          |
//! |--------|--------------|------------------------------------------------------------------|
//! | 0..4   | magic        | `NXCK`                                                           |
//! | 4..8   | version      | u32, 1                                                           |
//! | 8..16  | generation   | u64, from 1; the valid slot with the higher one counts           |
//! | 16..24 | offset       | u64, where the first unsettled message begins: a hint            |
//! | 24..32 | id           | u64, no unsettled message has a lower one: decides               |
//! | 32..40 | retry length | u64, bytes of `segment.log.retry` that it relies on              |
//! | 40..44 | checksum     | CRC-32 over bytes 0..40                                          |
//!
//! Promises: it never passes an unsettled message, and moves only after what it passes is synced
//! elsewhere, so a crash repeats work and loses none. Between two syncs only one slot is written,
//! the one that does not hold the last synced generation: a power cut can tear it, and the other
//! still stands.
//!
//! Why the id: a crash between emptying the log and writing this file leaves an old offset over new
//! messages. An offset at which no frame of that id begins is no hint, and the log is read from its
//! start.
//!
//! No valid slot: nothing is settled; everything left is delivered again.

use std::io;

use crate::base::MessageId;
use crate::disk::DiskFile;
use crate::queue::error::{FaultKind, QueueError};
use crate::store::record::{NotARecord, RecordReader, RecordWriter};

const MAGIC: [u8; 4] = *b"NXCK";
const VERSION: u32 = 1;
/// Bytes of one slot.
pub(crate) const LEN: usize = 44;
const SLOTS: [u64; 2] = [0, 4096];

/// What a valid slot says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub offset: u64,
    pub id: MessageId,
    pub retry_len: u64,
}

impl Checkpoint {
    /// Nothing is settled.
    pub(crate) const NOTHING: Checkpoint =
        Checkpoint { offset: 0, id: MessageId::FIRST, retry_len: 0 };
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    generation: u64,
    checkpoint: Checkpoint,
}

impl Slot {
    fn encode(&self) -> Vec<u8> {
        RecordWriter::new(MAGIC, VERSION)
            .u64(self.generation)
            .u64(self.checkpoint.offset)
            .u64(self.checkpoint.id.get())
            .u64(self.checkpoint.retry_len)
            .finish()
    }

    fn read(file: &dyn DiskFile, slot: usize) -> Result<Option<Slot>, QueueError> {
        let mut bytes = [0; LEN];
        let read = file
            .read_full_at(&mut bytes, SLOTS[slot])
            .map_err(|error| QueueError::io("read", file.path(), &error))?;
        match RecordReader::new(&bytes[..read], MAGIC, VERSION) {
            Ok(mut fields) => Ok(Slot::from_fields(&mut fields)),
            Err(NotARecord::Damaged) => Ok(None),
            Err(NotARecord::Newer(version)) => {
                let why =
                    format!("it has format version {version}, and this build reads {VERSION}");
                Err(QueueError::unreadable(file.path(), &why))
            }
        }
    }

    fn from_fields(fields: &mut RecordReader<'_>) -> Option<Slot> {
        let generation = fields.u64()?;
        let offset = fields.u64()?;
        let id = MessageId::new(fields.u64()?)?;
        let retry_len = fields.u64()?;
        Some(Slot { generation, checkpoint: Checkpoint { offset, id, retry_len } })
    }
}

/// The newest checkpoint of a file; `None` when no slot is valid.
pub(crate) fn read(file: &dyn DiskFile) -> Result<Option<Checkpoint>, QueueError> {
    Ok(newest(file)?.map(|(_, slot)| slot.checkpoint))
}

/// What stands at the place of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    /// Nothing has been written there.
    Empty,
    /// It does not verify.
    Damaged,
    /// It says this, in this generation.
    Valid(u64, Checkpoint),
}

/// Both slots, each with its offset in the file.
pub(crate) fn slots(file: &dyn DiskFile) -> Result<[(u64, SlotState); 2], QueueError> {
    let state = |slot: usize| {
        if let Some(slot) = Slot::read(file, slot)? {
            return Ok(SlotState::Valid(slot.generation, slot.checkpoint));
        }
        let mut bytes = [0; LEN];
        file.read_full_at(&mut bytes, SLOTS[slot])
            .map_err(|error| QueueError::io("read", file.path(), &error))?;
        let empty = bytes.iter().all(|byte| *byte == 0);
        Ok(if empty { SlotState::Empty } else { SlotState::Damaged })
    };
    Ok([(SLOTS[0], state(0)?), (SLOTS[1], state(1)?)])
}

/// Writes a checkpoint into both slots, the older one first, and syncs after each: at every instant
/// one of them says what the file said before, or what it says now.
pub(crate) fn write_both(file: &dyn DiskFile, checkpoint: Checkpoint) -> Result<(), QueueError> {
    let (newest, generation) = match newest(file)? {
        Some((index, slot)) => (index, slot.generation),
        None => (1, 0),
    };
    for (slot, generation) in [(1 - newest, generation + 1), (newest, generation + 2)] {
        write(file, slot, &Slot { generation, checkpoint }.encode())?;
        sync(file)?;
    }
    Ok(())
}

fn newest(file: &dyn DiskFile) -> Result<Option<(usize, Slot)>, QueueError> {
    let mut best: Option<(usize, Slot)> = None;
    for index in 0..SLOTS.len() {
        let Some(slot) = Slot::read(file, index)? else { continue };
        if best.is_none_or(|(_, other)| slot.generation > other.generation) {
            best = Some((index, slot));
        }
    }
    Ok(best)
}

/// The file, open for its owner.
pub(crate) struct CheckpointFile {
    file: Box<dyn DiskFile>,
    generation: u64,
    /// The slot that holds the last synced generation.
    synced_slot: usize,
    /// What the other slot holds, written since the last sync.
    unsynced: Option<Checkpoint>,
    /// Whether the last write or sync of it failed.
    rewrite: bool,
}

impl CheckpointFile {
    /// Takes the file over: what it says is written again and synced before it is relied on, for
    /// the process that wrote it may have died before its own sync.
    pub(crate) fn take_over(
        file: Box<dyn DiskFile>,
    ) -> Result<(CheckpointFile, Option<Checkpoint>), QueueError> {
        let found = newest(file.as_ref())?;
        let (synced_slot, generation) = match found {
            Some((index, slot)) => {
                write(file.as_ref(), index, &slot.encode())?;
                sync(file.as_ref())?;
                (index, slot.generation)
            }
            // Nothing is synced; the first generation goes into slot 0.
            None => (1, 0),
        };
        let checkpoint = found.map(|(_, slot)| slot.checkpoint);
        reserve(file.as_ref())?;
        Ok((
            CheckpointFile { file, generation, synced_slot, unsynced: None, rewrite: false },
            checkpoint,
        ))
    }

    /// Writes a checkpoint, without a sync.
    pub(crate) fn write(&mut self, checkpoint: Checkpoint) -> Result<(), QueueError> {
        let slot = Slot { generation: self.generation + 1, checkpoint };
        self.unsynced = Some(checkpoint);
        self.rewrite = true;
        write(self.file.as_ref(), 1 - self.synced_slot, &slot.encode())?;
        self.generation += 1;
        self.rewrite = false;
        Ok(())
    }

    /// Syncs what was written. After a failed write or sync the repetition writes again first: a
    /// later sync proves nothing about what an earlier one should have covered.
    pub(crate) fn sync(&mut self) -> Result<(), QueueError> {
        let Some(checkpoint) = self.unsynced else { return Ok(()) };
        if self.rewrite {
            self.write(checkpoint)?;
        }
        if let Err(error) = sync(self.file.as_ref()) {
            self.rewrite = true;
            return Err(error);
        }
        self.unsynced = None;
        self.synced_slot = 1 - self.synced_slot;
        Ok(())
    }

    /// The file, for the check that its path still names it.
    pub(crate) fn file(&self) -> &dyn DiskFile {
        self.file.as_ref()
    }
}

/// Writes zeros where the file ends before a slot: on a device that has filled up meanwhile, only
/// what has its place already can be written, and only delivering makes room again.
fn reserve(file: &dyn DiskFile) -> Result<(), QueueError> {
    let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
    for (slot, at) in SLOTS.into_iter().enumerate() {
        if len > at {
            continue;
        }
        match write(file, slot, &[0; LEN]) {
            // Too late for this time; what needs the room says so.
            Err(error) if error.kind == FaultKind::NoRoom => return Ok(()),
            written => written?,
        }
    }
    Ok(())
}

fn write(file: &dyn DiskFile, slot: usize, bytes: &[u8]) -> Result<(), QueueError> {
    let written: io::Result<()> = file.write_all_at(bytes, SLOTS[slot]);
    written.map_err(|error| QueueError::io("write", file.path(), &error))
}

fn sync(file: &dyn DiskFile) -> Result<(), QueueError> {
    file.sync().map_err(|error| QueueError::io("sync", file.path(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Disk, Open, RealDisk};

    fn at(offset: u64) -> Checkpoint {
        Checkpoint { offset, id: MessageId::new(offset + 1).unwrap(), retry_len: 7 }
    }

    fn open(dir: &std::path::Path) -> (CheckpointFile, Option<Checkpoint>) {
        let file = RealDisk::new(dir).open(&dir.join("ckpt"), Open::Create).unwrap();
        CheckpointFile::take_over(file).unwrap()
    }

    #[test]
    fn the_newest_slot_counts_and_a_torn_one_leaves_the_last_synced() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, found) = open(dir.path());
        assert_eq!(found, None);
        file.write(at(10)).unwrap();
        file.sync().unwrap();
        file.write(at(20)).unwrap();
        file.write(at(30)).unwrap();
        assert_eq!(read(file.file()).unwrap(), Some(at(30)));
        file.file().write_all_at(&[0xAA; 20], 4096 + 8).unwrap();
        assert_eq!(read(file.file()).unwrap(), Some(at(10)));
        let (mut file, found) = open(dir.path());
        assert_eq!(found, Some(at(10)));
        file.write(at(40)).unwrap();
        assert_eq!(read(file.file()).unwrap(), Some(at(40)));
        file.file().write_all_at(&[0; 44], 0).unwrap();
        assert_eq!(read(file.file()).unwrap(), Some(at(40)), "the other slot was overwritten");
    }

    #[test]
    fn both_slots_have_their_place_from_the_start_and_zeros_in_them_are_no_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let (file, found) = open(dir.path());
        assert_eq!((found, file.file().len().unwrap()), (None, SLOTS[1] + LEN as u64));
        assert_eq!(read(file.file()).unwrap(), None);
        let (mut file, _) = open(dir.path());
        file.write(at(10)).unwrap();
        let (_, found) = open(dir.path());
        assert_eq!(found, Some(at(10)), "what is there is not overwritten");
    }

    #[test]
    fn what_was_written_is_unsynced_until_the_sync() {
        let dir = tempfile::tempdir().unwrap();
        let (mut file, _) = open(dir.path());
        assert_eq!(file.unsynced, None);
        file.write(at(1)).unwrap();
        assert_eq!(file.unsynced, Some(at(1)));
        file.sync().unwrap();
        assert_eq!(file.unsynced, None);
    }

    #[test]
    fn a_newer_version_is_refused_by_its_number() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk::new(dir.path()).open(&dir.path().join("ckpt"), Open::Create).unwrap();
        let newer = RecordWriter::new(MAGIC, 9).u64(1).u64(0).u64(1).u64(0).finish();
        file.write_all_at(&newer, 0).unwrap();
        let error = read(file.as_ref()).unwrap_err().to_string();
        assert!(error.contains("version 9") && error.contains("ckpt"), "{error}");
    }
}
