//! A look at a queue from outside: how much it holds, what is due, who delivers it.
//!
//! Read only, beside a running server or without one: no lock is held, nothing is made, and the
//! numbers are those of moments close to each other. Memory: what is scheduled and the places of
//! the dead letters, never a payload beyond one.
//!
//! What counts as settled is what an owner would believe (`recover`): the id decides.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::base::{MessageId, QueueName, Timestamp};
use crate::disk::{Disk, DiskFile, Open};
use crate::queue::checkpoint::{self, Checkpoint};
use crate::queue::dlq::{self, open_existing};
use crate::queue::error::QueueError;
use crate::queue::layout::{Layout, QueuePaths};
use crate::queue::message::{Fixed, KIND_MESSAGE};
use crate::queue::recover::{Doubt, believe};
use crate::queue::retry::{self, Loaded};
use crate::queue::slots::{self, Slot};
use crate::store::scan::{Item, Scanner};

/// How often files that change while they are read are read again.
const ATTEMPTS: u32 = 5;

/// Who delivers a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worker {
    /// Nobody.
    None,
    /// A process, and its number where that can be told.
    Running(Option<u32>),
}

/// How much a queue holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overview {
    /// Messages in the log that have never been tried, or whose try was cut short.
    pub waiting: u64,
    /// Messages that are being delivered.
    pub in_flight: u64,
    /// Messages that wait to be tried again.
    pub retrying: u64,
    /// Dead letters that nobody has handled.
    pub dead_letters: u64,
    /// Messages that the log holds now.
    pub total: u64,
    /// Those of them that are settled.
    pub processed: u64,
    /// Since when the longest-standing message has been due: since it was appended, or since its
    /// next attempt fell due. `None` when none is due.
    pub oldest_due: Option<Timestamp>,
    /// When the next attempt falls due.
    pub next_due: Option<Timestamp>,
    /// Whether the queue is paused.
    pub paused: bool,
    /// Who delivers it.
    pub worker: Worker,
}

impl Overview {
    /// How long the longest-standing message has been due, in whole seconds.
    pub fn oldest_due_seconds(&self, now: Timestamp) -> Option<u64> {
        self.oldest_due.map(|since| now.millis_since(since) / 1000)
    }
}

/// A retry that is pending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRetry {
    /// The message.
    pub id: MessageId,
    /// The attempt that comes next.
    pub attempt: u32,
    /// When it falls due.
    pub due_at: Timestamp,
    /// The delay that led to that, in milliseconds.
    pub delay_ms: u64,
}

/// The message that has stood in the log for the longest without being settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oldest {
    /// Its id.
    pub id: MessageId,
    /// When it was appended.
    pub enqueued_at: Timestamp,
}

/// A closer look at a queue.
#[derive(Debug, Clone)]
pub struct Inspection {
    /// How much it holds.
    pub overview: Overview,
    /// The oldest message that is not settled.
    pub oldest: Option<Oldest>,
    /// The retries that fall due first, at most as many as were asked for.
    pub retries: Vec<PendingRetry>,
    /// The files that are there and their lengths in bytes.
    pub files: Vec<(String, u64)>,
}

/// Counts what a queue holds. A queue without a directory holds nothing.
///
/// # Errors
/// A file that cannot be read, or is of a newer version.
pub fn overview(
    disk: &dyn Disk,
    layout: &Layout,
    queue: &QueueName,
    now: Timestamp,
) -> Result<Overview, QueueError> {
    let paths = layout.queue(queue);
    let standings = Standings::read(disk, &paths)?;
    let counted = count(disk, &paths, &standings, now)?;
    overview_of(disk, &paths, &standings, &counted)
}

/// Looks at a queue more closely, and lists at most `retries` of its pending retries.
///
/// # Errors
/// As [`overview`].
pub fn inspect(
    disk: &dyn Disk,
    layout: &Layout,
    queue: &QueueName,
    now: Timestamp,
    retries: usize,
) -> Result<Inspection, QueueError> {
    let paths = layout.queue(queue);
    let standings = Standings::read(disk, &paths)?;
    let counted = count(disk, &paths, &standings, now)?;
    Ok(Inspection {
        overview: overview_of(disk, &paths, &standings, &counted)?,
        oldest: counted.oldest,
        retries: standings.first_retries(retries),
        files: files(disk, &paths)?,
    })
}

fn overview_of(
    disk: &dyn Disk,
    paths: &QueuePaths,
    standings: &Standings,
    counted: &Counted,
) -> Result<Overview, QueueError> {
    let open = counted.waiting + counted.in_flight + counted.retrying;
    let paused = disk.identity(&paths.paused);
    let paused = paused.map_err(|error| QueueError::io("look at", &paths.paused, &error))?;
    Ok(Overview {
        waiting: counted.waiting,
        in_flight: counted.in_flight,
        retrying: counted.retrying,
        dead_letters: dlq::unhandled(disk, paths)?.map_or(0, |(_, i)| i.places.len() as u64),
        total: counted.total,
        processed: counted.total - open,
        oldest_due: counted.oldest_due,
        next_due: standings.first_retries(1).first().map(|retry| retry.due_at),
        paused: paused.is_some(),
        worker: standings.worker,
    })
}

/// Who holds `worker.lock`. Where the kernel does not tell, the lock is tried and given back at
/// once; a server that tries it at the same moment tries again.
pub(crate) fn worker_of(disk: &dyn Disk, path: &Path) -> Result<Worker, QueueError> {
    let Some(file) = open_existing(disk, path, Open::Read)? else { return Ok(Worker::None) };
    let fault = |error| QueueError::io("look at", path, &error);
    let holder = || Ok(disk.holder(file.identity().map_err(fault)?));
    if let Some(process) = holder()? {
        return Ok(Worker::Running(Some(process)));
    }
    if file.lock(Duration::ZERO).map_err(fault)? {
        file.unlock().map_err(fault)?;
        return Ok(Worker::None);
    }
    Ok(Worker::Running(holder()?))
}

/// Where a message of the log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Settled,
    /// With the moment at which its attempt fell due, when it is a retry.
    InFlight(Option<Timestamp>),
    Scheduled(Timestamp),
    Waiting,
}

/// What the small files say of the messages in the log.
pub(crate) struct Standings {
    pub checkpoint: Checkpoint,
    pub doubt: Option<Doubt>,
    pub loaded: Loaded,
    pub dead: HashSet<MessageId>,
    pub in_flight: HashSet<MessageId>,
    pub worker: Worker,
}

impl Standings {
    /// Reads them as an owner would. The checkpoint first: what it relies on is written before it.
    pub(crate) fn read(disk: &dyn Disk, paths: &QueuePaths) -> Result<Standings, QueueError> {
        Standings::read_with(disk, paths, worker_of(disk, &paths.worker_lock)?)
    }

    /// Reads them when it is known whether a worker runs.
    pub(crate) fn read_with(
        disk: &dyn Disk,
        paths: &QueuePaths,
        worker: Worker,
    ) -> Result<Standings, QueueError> {
        let (mut loaded, mut believed) = read_schedule(disk, paths)?;
        for _ in 1..ATTEMPTS {
            // The schedule may just have been replaced by a shorter one.
            if believed.is_ok() || worker == Worker::None {
                break;
            }
            (loaded, believed) = read_schedule(disk, paths)?;
        }
        let dead = match open_existing(disk, &paths.dlq, Open::Read)? {
            Some(file) => dlq::index(file.as_ref())?.places.iter().map(|place| place.id).collect(),
            None => HashSet::new(),
        };
        // What a dead process had in flight is waiting again.
        let in_flight = match worker {
            Worker::None => HashSet::new(),
            Worker::Running(_) => in_flight(disk, paths)?,
        };
        Ok(Standings {
            checkpoint: believed.unwrap_or(Checkpoint::NOTHING),
            doubt: believed.err(),
            loaded,
            dead,
            in_flight,
            worker,
        })
    }

    /// Where the message of this id stands.
    pub(crate) fn of(&self, id: MessageId) -> Standing {
        if self.dead.contains(&id) {
            return Standing::Settled;
        }
        let scheduled = self.loaded.schedule.get(&id);
        let settled = id < self.checkpoint.id || self.loaded.done.contains(&id);
        match scheduled {
            None if settled => Standing::Settled,
            _ if self.in_flight.contains(&id) => {
                Standing::InFlight(scheduled.map(|retry| retry.due))
            }
            Some(retry) => Standing::Scheduled(retry.due),
            None => Standing::Waiting,
        }
    }

    /// The pending retries that fall due first.
    fn first_retries(&self, most: usize) -> Vec<PendingRetry> {
        let mut first = BTreeMap::new();
        for retry in self.loaded.schedule.values() {
            if matches!(self.of(retry.id), Standing::Scheduled(_)) {
                first.insert((retry.due, retry.id), retry);
            }
            if first.len() > most {
                first.pop_last();
            }
        }
        let pending = first.into_values().map(|retry| PendingRetry {
            id: retry.id,
            attempt: retry.attempt,
            due_at: retry.due,
            delay_ms: retry.delay_ms,
        });
        pending.collect()
    }
}

fn read_schedule(
    disk: &dyn Disk,
    paths: &QueuePaths,
) -> Result<(Loaded, Result<Checkpoint, Doubt>), QueueError> {
    let checkpoint = match open_existing(disk, &paths.checkpoint, Open::Read)? {
        Some(file) => checkpoint::read(file.as_ref())?,
        None => None,
    };
    let loaded = match open_existing(disk, &paths.retry, Open::Read)? {
        Some(file) => retry::load(file.as_ref())?,
        None => Loaded::default(),
    };
    let believed = believe(checkpoint, &loaded);
    Ok((loaded, believed))
}

fn in_flight(disk: &dyn Disk, paths: &QueuePaths) -> Result<HashSet<MessageId>, QueueError> {
    let Some(file) = open_existing(disk, &paths.worker_lock, Open::Read)? else {
        return Ok(HashSet::new());
    };
    let ids = slots::read(file.as_ref())?.into_iter().filter_map(|slot| match slot {
        Slot::Full { id, .. } => Some(id),
        Slot::Free | Slot::Damaged => None,
    });
    Ok(ids.collect())
}

/// What the log holds.
#[derive(Debug, Default)]
struct Counted {
    total: u64,
    waiting: u64,
    in_flight: u64,
    retrying: u64,
    oldest: Option<Oldest>,
    oldest_due: Option<Timestamp>,
}

fn count(
    disk: &dyn Disk,
    paths: &QueuePaths,
    standings: &Standings,
    now: Timestamp,
) -> Result<Counted, QueueError> {
    let mut counted = Counted::default();
    let Some(file) = open_existing(disk, &paths.segment, Open::Read)? else {
        return Ok(counted);
    };
    let mut last_id = None;
    for_each_message(file.as_ref(), &mut |message| {
        counted.total += 1;
        // An id that does not grow is passed over by the owner.
        if Some(message.id) > last_id {
            last_id = Some(message.id);
            counted.add(message, standings.of(message.id), now);
        }
    })?;
    Ok(counted)
}

impl Counted {
    fn add(&mut self, message: &Fixed, standing: Standing, now: Timestamp) {
        let due = match standing {
            Standing::Settled => return,
            Standing::InFlight(due) => {
                self.in_flight += 1;
                due.unwrap_or(message.enqueued_at)
            }
            Standing::Scheduled(due) => {
                self.retrying += 1;
                due
            }
            Standing::Waiting => {
                self.waiting += 1;
                message.enqueued_at
            }
        };
        let (id, enqueued_at) = (message.id, message.enqueued_at);
        self.oldest.get_or_insert(Oldest { id, enqueued_at });
        if due <= now && self.oldest_due.is_none_or(|oldest| due < oldest) {
            self.oldest_due = Some(due);
        }
    }
}

fn for_each_message(file: &dyn DiskFile, each: &mut dyn FnMut(&Fixed)) -> Result<(), QueueError> {
    let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
    let mut scanner = Scanner::default();
    while let Some(item) =
        scanner.next(file, len).map_err(|error| QueueError::scan(file.path(), &error))?
    {
        let Item::Frame { frame, .. } = item else { continue };
        if frame.kind == KIND_MESSAGE
            && let Some((fixed, _)) = Fixed::read(frame.body)
        {
            each(&fixed);
        }
    }
    Ok(())
}

/// The files of a queue's directory and their lengths, by name.
fn files(disk: &dyn Disk, paths: &QueuePaths) -> Result<Vec<(String, u64)>, QueueError> {
    let entries = match disk.list(&paths.dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(QueueError::io("list", &paths.dir, &error)),
    };
    let mut files = Vec::new();
    for entry in entries.into_iter().filter(|entry| !entry.is_dir) {
        let path = paths.dir.join(&entry.name);
        // A file that has gone meanwhile is none.
        if let Some(file) = open_existing(disk, &path, Open::Read)? {
            let len = file.len().map_err(|error| QueueError::io("read", &path, &error))?;
            files.push((entry.name, len));
        }
    }
    files.sort_unstable();
    Ok(files)
}
