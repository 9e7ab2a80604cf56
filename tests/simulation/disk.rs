//! A disk with nothing real behind it: it remembers what was synced and what was not, and can lose
//! the difference.
//!
//! A sync carries the changes of a file to its platter (`platter`). A power cut carries over any
//! part of them, and any subset of the names that no directory sync has covered. A sync that fails
//! carries over some and forgets that the rest was ever unsynced, as a kernel does. A kill loses
//! nothing that was written and frees the locks of its process.
//!
//! Any operation can be told to fail, to write short, to be the last of its process, or to have
//! another process act before it. What the operations themselves do is in `calls`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use nexus::base::random::SeededRandom;

pub use crate::platter::{Process, Survival};

use crate::platter::Inode;

/// What is to happen to operations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// One operation in so many fails; 0 for none.
    pub errors_one_in: u64,
    /// Every other sync of files whose name ends so fails.
    pub failing_sync_of: Option<&'static str>,
    /// Whether writes find no room.
    pub full: bool,
}

/// Bugs that are put into the disk on purpose, to see that the simulation catches them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sabotage {
    /// Syncs of files whose name ends so do nothing.
    pub skip_sync_of: Option<&'static str>,
    /// Syncs of directories do nothing.
    pub skip_dir_sync: bool,
}

/// What becomes of one operation that was picked in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It fails, and its process lives.
    Fails,
    /// Its process dies in it.
    IsTheLast,
}

/// What another process does between two operations of one.
pub type Intruder = Box<dyn FnOnce() + Send>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    Dir,
    File(u64),
}

#[derive(Default)]
pub struct State {
    pub inodes: HashMap<u64, Inode>,
    pub names: BTreeMap<PathBuf, Node>,
    pub durable_names: BTreeMap<PathBuf, Node>,
    /// The next number of an inode or an open file.
    pub next: u64,
    dead: BTreeSet<Process>,
    pub faults: Faults,
    pub sabotage: Sabotage,
    /// Operations so far, of all processes.
    operations: u64,
    /// Which operation of which process (or of any) meets which fate.
    fated: Option<(Option<Process>, u64, Fate)>,
    /// What another process does in between, and after how many more operations of which process.
    intruder: Option<(Process, u64, Intruder)>,
}

/// The disk as one process sees it.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    pub random: Arc<SeededRandom>,
    pub process: Process,
}

/// Why an operation does not succeed.
pub enum Failing {
    /// Its process died before it.
    Dead,
    /// Its process dies in it: a part of it may be done.
    DiesNow,
    /// It fails: a part of it may be done.
    Error,
}

impl From<Failing> for std::io::Error {
    fn from(failing: Failing) -> std::io::Error {
        match failing {
            Failing::Dead | Failing::DiesNow => std::io::Error::other("the process is dead"),
            Failing::Error => std::io::Error::other("injected fault"),
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

    /// Another disk with the same on it, and no faults.
    pub fn fork(&self, random: Arc<SeededRandom>) -> SimDisk {
        let state = self.state();
        let copy = State {
            inodes: state.inodes.clone(),
            names: state.names.clone(),
            durable_names: state.durable_names.clone(),
            next: state.next,
            sabotage: state.sabotage,
            ..State::default()
        };
        SimDisk { state: Arc::new(Mutex::new(copy)), random, process: self.process }
    }

    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    pub fn set_sabotage(&self, sabotage: Sabotage) {
        self.state().sabotage = sabotage;
    }

    /// No more faults, and nothing planned.
    pub fn heal(&self) {
        let mut state = self.state();
        state.faults = Faults::default();
        state.fated = None;
    }

    /// What becomes of an operation after so many more, of one process or of any.
    pub fn plan(&self, process: Option<Process>, operations: u64, fate: Fate) {
        self.state().fated = Some((process, operations, fate));
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    pub fn is_dead(&self, process: Process) -> bool {
        self.state().dead.contains(&process)
    }

    /// kill -9: what was written stays, unsynced as it was; the locks are free.
    pub fn kill(&self, process: Process) {
        kill(&mut self.state(), process);
    }

    /// A process of this number may do things again.
    pub fn revive(&self, process: Process) {
        self.state().dead.remove(&process);
    }

    /// A power cut: every process is gone, and of what was not synced some may be.
    pub fn cut_power(&self, processes: std::ops::Range<Process>, survival: Survival) {
        let mut state = self.state();
        processes.for_each(|process| kill(&mut state, process));
        let mut numbers: Vec<u64> = state.inodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            if let Some(inode) = state.inodes.get_mut(&number) {
                inode.cut_power(survival, &self.random);
            }
        }
        for path in changed_names(&state) {
            let survives = match survival {
                Survival::Any => self.random.next_u64().is_multiple_of(2),
                Survival::All => true,
                Survival::Nothing => false,
            };
            if survives {
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

    /// The bytes of a file as a reader sees them.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state();
        match state.names.get(path)? {
            Node::File(number) => Some(state.inodes.get(number)?.live.clone()),
            Node::Dir => None,
        }
    }

    /// Changes a file's bytes behind everybody's back, on the platter too.
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        if let Some(Node::File(number)) = state.names.get(path).copied()
            && let Some(inode) = state.inodes.get_mut(&number)
        {
            inode.tamper(change);
        }
    }

    /// Takes a file's name away behind everybody's back, on the platter too.
    pub fn lose(&self, path: &Path) {
        let mut state = self.state();
        state.names.remove(path);
        state.durable_names.remove(path);
    }

    /// Lets another process act between two of the next operations of this one.
    pub fn intrude(&self, process: Process, operations: u64, intruder: Intruder) {
        self.state().intruder = Some((process, operations, intruder));
    }

    /// What has not been called yet.
    pub fn take_intruder(&self) -> Option<Intruder> {
        self.state().intruder.take().map(|(_, _, intruder)| intruder)
    }

    /// The state, once every other process whose turn comes before the operation has acted.
    pub fn operation(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if let Some((process, left, _)) = &mut state.intruder
            && *process == self.process
        {
            if *left > 0 {
                *left -= 1;
                return state;
            }
            let intruder = state.intruder.take();
            drop(state);
            if let Some((_, _, intruder)) = intruder {
                intruder();
            }
            return self.state();
        }
        state
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Whether the process lives, and whether this operation is to succeed.
    pub fn begin(&self, state: &mut State) -> Result<(), Failing> {
        if state.dead.contains(&self.process) {
            return Err(Failing::Dead);
        }
        state.operations += 1;
        match self.fate(state) {
            Some(Fate::IsTheLast) => {
                kill(state, self.process);
                return Err(Failing::DiesNow);
            }
            Some(Fate::Fails) => return Err(Failing::Error),
            None => {}
        }
        let one_in = state.faults.errors_one_in;
        if one_in > 0 && self.random.next_u64().is_multiple_of(one_in) {
            return Err(Failing::Error);
        }
        Ok(())
    }

    fn fate(&self, state: &mut State) -> Option<Fate> {
        let (process, left, fate) = state.fated.as_mut()?;
        if process.is_some_and(|process| process != self.process) {
            return None;
        }
        if *left > 0 {
            *left -= 1;
            return None;
        }
        let fate = *fate;
        state.fated = None;
        Some(fate)
    }
}

fn kill(state: &mut State, process: Process) {
    state.dead.insert(process);
    for inode in state.inodes.values_mut() {
        inode.unlock_all_of(process);
    }
}

/// The names that no directory sync has covered.
fn changed_names(state: &State) -> BTreeSet<PathBuf> {
    let all = state.names.keys().chain(state.durable_names.keys());
    all.filter(|path| state.names.get(*path) != state.durable_names.get(*path)).cloned().collect()
}
