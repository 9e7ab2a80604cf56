//! One file of the simulated disk: what a reader sees, what is on the platter, and the changes in
//! between that no sync has covered.

use nexus::base::random::SeededRandom;

/// Bytes that a disk writes whole, if it is a kind disk.
const SECTOR: usize = 512;

/// Who does an operation.
pub type Process = usize;

/// What a power cut leaves of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Any part of it: each change whole, gone, or torn at any byte.
    Any,
    /// All of it.
    All,
    /// Nothing of it.
    Nothing,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

#[derive(Debug, Default, Clone)]
pub struct Inode {
    pub live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    /// Who holds its lock, and through which open file.
    pub locked_by: Option<(Process, u64)>,
}

impl Inode {
    pub fn write(&mut self, at: usize, data: &[u8]) {
        self.change(Change::Write(at, data.to_vec()));
    }

    pub fn set_len(&mut self, len: usize) {
        self.change(Change::SetLen(len));
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.live, &change);
        self.unsynced.push(change);
    }

    /// Everything reaches the platter.
    pub fn sync(&mut self) {
        for change in std::mem::take(&mut self.unsynced) {
            apply(&mut self.durable, &change);
        }
    }

    /// A part of it reaches the platter, and that the rest did not is forgotten, as a kernel does:
    /// a later sync succeeds and covers nothing of it.
    pub fn fail_sync(&mut self, random: &SeededRandom) {
        for change in std::mem::take(&mut self.unsynced) {
            apply_some(&mut self.durable, &change, random);
        }
    }

    /// The power is gone: only the platter is left.
    pub fn cut_power(&mut self, survival: Survival, random: &SeededRandom) {
        match survival {
            Survival::Any => self.fail_sync(random),
            Survival::All => {
                self.durable.clone_from(&self.live);
                self.unsynced.clear();
            }
            Survival::Nothing => self.unsynced.clear(),
        }
        self.live.clone_from(&self.durable);
    }

    /// Changes the bytes behind everybody's back, on the platter too.
    pub fn tamper(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.live);
        self.durable.clone_from(&self.live);
        self.unsynced.clear();
    }

    pub fn unlock_all_of(&mut self, process: Process) {
        if self.locked_by.is_some_and(|(holder, _)| holder == process) {
            self.locked_by = None;
        }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(at, data) => {
            if bytes.len() < at + data.len() {
                bytes.resize(at + data.len(), 0);
            }
            bytes[*at..at + data.len()].copy_from_slice(data);
        }
        Change::SetLen(len) => bytes.resize(*len, 0),
    }
}

/// Carries over all, none or some sectors of a change.
fn apply_some(bytes: &mut Vec<u8>, change: &Change, random: &SeededRandom) {
    match (random.next_u64() % 3, change) {
        (0, _) => {}
        (1, _) => apply(bytes, change),
        (_, Change::SetLen(_)) => {}
        (_, Change::Write(at, data)) => tear(bytes, *at, data, random),
    }
}

fn tear(bytes: &mut Vec<u8>, at: usize, data: &[u8], random: &SeededRandom) {
    let mut from = 0;
    while from < data.len() {
        let sector_end = ((at + from) / SECTOR + 1) * SECTOR - at;
        let mut until = sector_end.min(data.len());
        if random.next_u64().is_multiple_of(4) {
            // Torn at any byte, not only between sectors.
            until = from + 1 + (random.next_u64() as usize) % (until - from);
        }
        if random.next_u64().is_multiple_of(2) {
            apply(bytes, &Change::Write(at + from, data[from..until].to_vec()));
        }
        from = until;
    }
}
