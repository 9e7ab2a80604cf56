//! A disk with nothing real behind it: it remembers what was synced and what was not, and can lose
//! the difference.
//!
//! Every file has what a reader sees (`live`) and what is on the platter (`durable`), and the
//! writes between the two in order. A sync carries them over. A power cut carries over any subset
//! of them, each whole or in some of its 512-byte sectors, and any subset of the names that no
//! directory sync has covered. A sync that fails carries over some and forgets that the rest was
//! ever unsynced, as the kernel does. A kill loses nothing that was written and frees the locks of
//! its process.
//!
//! Any operation can be told to fail, to write short, or to be the last of its process.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nexus::base::random::SeededRandom;
use nexus::disk::{Disk, DiskFile, Entry, Identity, Open};

const SECTOR: usize = 512;

/// Who does an operation.
pub type Process = usize;

/// What is to happen to operations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// One operation in so many fails; 0 for none.
    pub errors_one_in: u64,
    /// Whether writes find no room.
    pub full: bool,
}

/// Bugs that are put into the disk on purpose, to see that the simulation catches them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// Syncs of files whose name ends so do nothing.
    pub skip_sync_of: &'static [&'static str],
    /// Syncs of directories do nothing.
    pub skip_dir_sync: bool,
}

#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

#[derive(Debug, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<Change>,
    locked_by: Option<(Process, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Dir,
    File(u64),
}

#[derive(Default)]
struct State {
    inodes: HashMap<u64, Inode>,
    names: BTreeMap<PathBuf, Node>,
    durable_names: BTreeMap<PathBuf, Node>,
    next: u64,
    dead: Vec<Process>,
    faults: Faults,
    sabotage: Sabotage,
    /// The process that dies, and after how many more operations of its own.
    doomed: Option<(Process, u64)>,
    /// What another process does in between, and after how many more operations of which process.
    intruder: Option<(Process, u64, Intruder)>,
}

/// What another process does between two operations of one.
pub type Intruder = Box<dyn FnOnce() + Send>;

/// The disk as one process sees it.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    random: Arc<SeededRandom>,
    process: Process,
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
    match random.next_u64() % 3 {
        0 => {}
        1 => apply(bytes, change),
        _ => {
            let Change::Write(at, data) = change else { return };
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
    }
}

impl SimDisk {
    pub fn new(random: Arc<SeededRandom>) -> SimDisk {
        SimDisk { state: Arc::default(), random, process: 0 }
    }

    /// The same disk as another process sees it.
    pub fn of(&self, process: Process) -> SimDisk {
        SimDisk { process, ..self.clone() }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    pub fn set_sabotage(&self, sabotage: Sabotage) {
        self.state().sabotage = sabotage;
    }

    /// Lets a process die in the middle of one of its next operations.
    pub fn doom(&self, process: Process, operations: u64) {
        self.state().doomed = Some((process, operations));
    }

    pub fn is_dead(&self, process: Process) -> bool {
        self.state().dead.contains(&process)
    }

    /// kill -9: what was written stays, unsynced as it was; the locks are free.
    pub fn kill(&self, process: Process) {
        let mut state = self.state();
        if !state.dead.contains(&process) {
            state.dead.push(process);
        }
        for inode in state.inodes.values_mut() {
            if inode.locked_by.is_some_and(|(holder, _)| holder == process) {
                inode.locked_by = None;
            }
        }
    }

    /// A power cut: every process is gone, and of what was not synced any part.
    pub fn cut_power(&self, processes: std::ops::Range<Process>) {
        processes.for_each(|process| self.kill(process));
        let mut state = self.state();
        let mut numbers: Vec<u64> = state.inodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(inode) = state.inodes.get_mut(&number) else { continue };
            for change in std::mem::take(&mut inode.unsynced) {
                apply_some(&mut inode.durable, &change, &self.random);
            }
            inode.live = inode.durable.clone();
        }
        let changed: Vec<PathBuf> = state
            .names
            .keys()
            .chain(state.durable_names.keys())
            .filter(|path| state.names.get(*path) != state.durable_names.get(*path))
            .cloned()
            .collect();
        for path in changed {
            if self.random.next_u64().is_multiple_of(2) {
                match state.names.get(&path).copied() {
                    Some(node) => state.durable_names.insert(path, node),
                    None => state.durable_names.remove(&path),
                };
            }
        }
        // What lies in a directory whose own name is lost is lost with it.
        let durable = state.durable_names.clone();
        let has_parents = |path: &Path| {
            path.ancestors().skip(1).all(|dir| dir == Path::new("/") || durable.contains_key(dir))
        };
        state.durable_names.retain(|path, _| has_parents(path));
        state.names = state.durable_names.clone();
    }

    /// A process of this number may do things again.
    pub fn revive(&self, process: Process) {
        self.state().dead.retain(|dead| *dead != process);
    }

    /// The bytes of a file as a reader sees them.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        match state.names.get(path)? {
            Node::File(number) => Some(state.inodes.get(number)?.live.clone()),
            Node::Dir => None,
        }
    }

    /// Changes a file's bytes behind everybody's back, on the platter too.
    pub fn tamper(&self, path: &Path, change: impl Fn(&mut Vec<u8>)) {
        let mut state = self.state();
        if let Some(Node::File(number)) = state.names.get(path).copied()
            && let Some(inode) = state.inodes.get_mut(&number)
        {
            change(&mut inode.live);
            inode.durable = inode.live.clone();
            inode.unsynced.clear();
        }
    }

    /// Lets another process act between two of the next operations of this one.
    pub fn intrude(&self, process: Process, operations: u64, intruder: Intruder) {
        self.state().intruder = Some((process, operations, intruder));
    }

    /// What has not been called yet.
    pub fn take_intruder(&self) -> Option<Intruder> {
        self.state().intruder.take().map(|(_, _, intruder)| intruder)
    }

    /// Another process's turn comes before an operation begins.
    fn step_aside(&self) {
        let mut state = self.state();
        let Some((process, left, _)) = &mut state.intruder else { return };
        if *process != self.process {
            return;
        }
        if *left > 0 {
            *left -= 1;
            return;
        }
        let intruder = state.intruder.take();
        drop(state);
        if let Some((_, _, intruder)) = intruder {
            intruder();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Whether the process lives, and whether this operation is to fail. `Err` with `half` set: it
    /// died in it.
    fn begin(&self, state: &mut State, may_fail: bool) -> Result<(), Failing> {
        if state.dead.contains(&self.process) {
            return Err(Failing::Dead);
        }
        if let Some((process, left)) = &mut state.doomed
            && *process == self.process
        {
            if *left == 0 {
                state.doomed = None;
                state.dead.push(self.process);
                for inode in state.inodes.values_mut() {
                    if inode.locked_by.is_some_and(|(holder, _)| holder == self.process) {
                        inode.locked_by = None;
                    }
                }
                return Err(Failing::DiesNow);
            }
            *left -= 1;
        }
        let one_in = state.faults.errors_one_in;
        if may_fail && one_in > 0 && self.random.next_u64().is_multiple_of(one_in) {
            return Err(Failing::Error);
        }
        Ok(())
    }
}

enum Failing {
    Dead,
    DiesNow,
    Error,
}

impl From<Failing> for io::Error {
    fn from(failing: Failing) -> io::Error {
        match failing {
            Failing::Dead | Failing::DiesNow => io::Error::other("the process is dead"),
            Failing::Error => io::Error::other("injected fault"),
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        self.step_aside();
        let mut state = self.state();
        self.begin(&mut state, true)?;
        let inode = match (state.names.get(path).copied(), how) {
            (Some(Node::File(inode)), _) => inode,
            (Some(Node::Dir), _) => return Err(io::Error::other("a directory")),
            (None, Open::Create) => {
                let parent = path.parent().unwrap();
                if !state.names.contains_key(parent) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                if state.faults.full {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                state.next += 1;
                let inode = state.next;
                state.inodes.insert(inode, Inode::default());
                state.names.insert(path.to_path_buf(), Node::File(inode));
                inode
            }
            (None, _) => return Err(io::ErrorKind::NotFound.into()),
        };
        state.next += 1;
        let handle = state.next;
        drop(state);
        Ok(Box::new(SimFile { disk: self.clone(), path: path.to_path_buf(), inode, handle }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.step_aside();
        let mut state = self.state();
        self.begin(&mut state, true)?;
        for dir in path.ancestors().filter(|dir| *dir != Path::new("/")) {
            state.names.entry(dir.to_path_buf()).or_insert(Node::Dir);
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.step_aside();
        let mut state = self.state();
        self.begin(&mut state, true)?;
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = state.names.iter().filter(|(name, _)| name.parent() == Some(path));
        Ok(inside
            .map(|(name, node)| Entry {
                name: name.file_name().unwrap().to_str().unwrap().to_owned(),
                is_dir: *node == Node::Dir,
            })
            .collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step_aside();
        let mut state = self.state();
        self.begin(&mut state, true)?;
        let node = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_path_buf(), node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step_aside();
        let mut state = self.state();
        self.begin(&mut state, true)?;
        state.names.remove(path).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.step_aside();
        let mut state = self.state();
        self.begin(&mut state, true)?;
        if state.sabotage.skip_dir_sync {
            return Ok(());
        }
        let inside = |name: &Path| name.parent() == Some(path);
        let now: Vec<_> = state
            .names
            .iter()
            .filter(|(name, _)| inside(name))
            .map(|(name, node)| (name.clone(), *node))
            .collect();
        state.durable_names.retain(|name, _| !inside(name));
        state.durable_names.extend(now);
        // Syncing a directory says nothing of its own name; the root has none to lose.
        if path.parent() == Some(Path::new("/")) {
            state.durable_names.insert(path.to_path_buf(), Node::Dir);
        }
        Ok(())
    }

    fn identity(&self, path: &Path) -> io::Result<Option<Identity>> {
        self.step_aside();
        let mut state = self.state();
        self.begin(&mut state, true)?;
        Ok(state.names.get(path).map(|node| match node {
            Node::File(inode) => Identity { device: 0, inode: *inode },
            Node::Dir => Identity { device: 1, inode: 0 },
        }))
    }
}

struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    inode: u64,
    handle: u64,
}

impl SimFile {
    fn change(&self, state: &mut State, change: Change) {
        let inode = state.inodes.get_mut(&self.inode).unwrap();
        apply(&mut inode.live, &change);
        inode.unsynced.push(change);
    }
}

impl DiskFile for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> io::Result<u64> {
        self.disk.step_aside();
        let mut state = self.disk.state();
        self.disk.begin(&mut state, true)?;
        Ok(state.inodes[&self.inode].live.len() as u64)
    }

    fn identity(&self) -> io::Result<Identity> {
        self.disk.step_aside();
        let mut state = self.disk.state();
        self.disk.begin(&mut state, true)?;
        Ok(Identity { device: 0, inode: self.inode })
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.step_aside();
        let mut state = self.disk.state();
        self.disk.begin(&mut state, true)?;
        let live = &state.inodes[&self.inode].live;
        let from = live.len().min(offset as usize);
        let n = buf.len().min(live.len() - from);
        buf[..n].copy_from_slice(&live[from..from + n]);
        Ok(n)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.disk.step_aside();
        let mut state = self.disk.state();
        let begun = self.disk.begin(&mut state, true);
        let grows = offset as usize + buf.len() > state.inodes[&self.inode].live.len();
        let short = match &begun {
            Err(Failing::Dead) => 0,
            Err(_) => (self.disk.random.next_u64() as usize) % (buf.len() + 1),
            Ok(()) if state.faults.full && grows => 0,
            Ok(()) if self.disk.random.next_u64().is_multiple_of(50) && buf.len() > 1 => {
                1 + (self.disk.random.next_u64() as usize) % (buf.len() - 1)
            }
            Ok(()) => buf.len(),
        };
        if short > 0 {
            self.change(&mut state, Change::Write(offset as usize, buf[..short].to_vec()));
        }
        begun?;
        if short == 0 && !buf.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(short)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.step_aside();
        let mut state = self.disk.state();
        let begun = self.disk.begin(&mut state, true);
        let done = match &begun {
            Ok(()) => true,
            Err(Failing::Dead) => false,
            Err(_) => self.disk.random.next_u64().is_multiple_of(2),
        };
        if done {
            self.change(&mut state, Change::SetLen(len as usize));
        }
        Ok(begun?)
    }

    fn punch(&self, offset: u64, len: u64) -> io::Result<()> {
        self.disk.step_aside();
        let mut state = self.disk.state();
        self.disk.begin(&mut state, true)?;
        let live = state.inodes[&self.inode].live.len() as u64;
        let len = len.min(live.saturating_sub(offset));
        self.change(&mut state, Change::Write(offset as usize, vec![0; len as usize]));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.step_aside();
        let mut state = self.disk.state();
        let begun = self.disk.begin(&mut state, true);
        let name = self.path.to_string_lossy();
        if begun.is_ok() && state.sabotage.skip_sync_of.iter().any(|end| name.ends_with(end)) {
            return Ok(());
        }
        let inode = state.inodes.get_mut(&self.inode).unwrap();
        match begun {
            Ok(()) => {
                for change in std::mem::take(&mut inode.unsynced) {
                    apply(&mut inode.durable, &change);
                }
                Ok(())
            }
            Err(Failing::Error) => {
                for change in std::mem::take(&mut inode.unsynced) {
                    apply_some(&mut inode.durable, &change, &self.disk.random);
                }
                Err(Failing::Error.into())
            }
            Err(failing) => Err(failing.into()),
        }
    }

    fn lock(&self, _wait: Duration) -> io::Result<bool> {
        self.disk.step_aside();
        let mut state = self.disk.state();
        self.disk.begin(&mut state, true)?;
        let process = self.disk.process;
        let inode = state.inodes.get_mut(&self.inode).unwrap();
        match inode.locked_by {
            Some((_, handle)) if handle != self.handle => Ok(false),
            _ => {
                inode.locked_by = Some((process, self.handle));
                Ok(true)
            }
        }
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let inode = state.inodes.get_mut(&self.inode).unwrap();
        if inode.locked_by.is_some_and(|(_, handle)| handle == self.handle) {
            inode.locked_by = None;
        }
        Ok(())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}
