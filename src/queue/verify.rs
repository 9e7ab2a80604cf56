//! Whether the files of a queue are as they should be.
//!
//! Every file is read: each frame and record, what lies between them, and whether the files agree
//! with one another. Read only, and right beside a running server too: what looks damaged is looked
//! at once more under the lock that keeps everybody from writing there, and a disagreement between
//! files counts only if the worker has written no checkpoint meanwhile. `worker.lock` is never
//! held.
//!
//! | part           | its findings                                               |
//! |----------------|------------------------------------------------------------|
//! | `log`          | `segment.log`: frames, gaps, torn end, order of the ids    |
//! | `dead_letters` | `dlq.log`, `dlq.log.acked`, `segment.log.corrupt`          |
//! | `state`        | checkpoint, schedule, `.seq`, slots, and what they refer to |
//!
//! Memory: what is scheduled and the ids of the dead letters, never a payload beyond one.

mod dead_letters;
mod log;
mod state;

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::base::QueueName;
use crate::base::limits::LOCK_DEADLINE;
use crate::disk::{Disk, Open};
use crate::queue::error::QueueError;
use crate::queue::finding::{Finding, Findings};
use crate::queue::inspect::{Worker, worker_of};
use crate::queue::layout::{Layout, QueuePaths, list_queues};
use crate::queue::lock::LockFile;
use crate::store::replace::TEMPORARY;

/// How often what changes while it is read is read again.
const ATTEMPTS: u32 = 5;

/// What was read and found.
#[derive(Debug, Clone, Default)]
pub struct Verified {
    /// Sound messages in the log.
    pub messages: u64,
    /// Sound dead letters, handled ones included.
    pub dead_letters: u64,
    /// What was found.
    pub findings: Findings,
}

/// Verifies every file of a queue. One without a directory has none.
pub fn verify(disk: &Arc<dyn Disk>, layout: &Layout, queue: &QueueName) -> Verified {
    let queue = Queue { disk, paths: layout.queue(queue) };
    let mut last = Pass::default();
    for _ in 0..ATTEMPTS {
        last = queue.pass();
        if last.doubts.is_empty() || !last.changed {
            break;
        }
    }
    let Pass { mut verified, doubts, changed } = last;
    if changed && !doubts.is_empty() {
        let text = "the worker writes so fast that the files could not be compared";
        verified.findings.push(Finding::note(".", None, text));
    } else {
        verified.findings.extend(doubts);
    }
    verified
}

/// What is in the directory of all queues and is no queue: links, files, names that break the rule.
/// Each is named below `queues/`.
///
/// # Errors
/// A directory that cannot be read.
pub fn strays(disk: &dyn Disk, layout: &Layout) -> Result<Vec<Finding>, QueueError> {
    let root = layout.queues_dir();
    let queues = list_queues(disk, layout)?;
    let mut strays = Vec::new();
    let mut stray = |name: &str, text: &str| strays.push(Finding::fault(name, None, text));
    for tenant in list(disk, &root)? {
        if !tenant.is_dir {
            if root.join(&tenant.name) != layout.wake_file() {
                stray(&tenant.name, "is neither a tenant's directory nor the wake file");
            } else if let Err(error) = disk.open(&layout.wake_file(), Open::Read) {
                stray(&tenant.name, &error.to_string());
            }
            continue;
        }
        for flow in list(disk, &root.join(&tenant.name))? {
            let name = format!("{}/{}", tenant.name, flow.name);
            if !queues.iter().any(|queue| queue.to_string() == name) {
                stray(&name, "is no directory of a queue");
            }
        }
    }
    strays.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(strays)
}

fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<crate::disk::Entry>, QueueError> {
    match disk.list(dir) {
        Ok(entries) => Ok(entries),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(QueueError::io("list", dir, &error)),
    }
}

/// One look at all files of a queue.
#[derive(Debug, Default)]
struct Pass {
    verified: Verified,
    /// Disagreements between files that were read at different moments.
    doubts: Findings,
    /// Whether the worker has written a checkpoint during the pass.
    changed: bool,
}

/// The queue that is verified.
struct Queue<'a> {
    disk: &'a Arc<dyn Disk>,
    paths: QueuePaths,
}

impl Queue<'_> {
    fn pass(&self) -> Pass {
        let mut pass = Pass::default();
        if let Err(error) = self.read_files(&mut pass) {
            pass.verified.findings.push(Finding::fault(".", None, error.text));
        }
        pass
    }

    fn read_files(&self, pass: &mut Pass) -> Result<(), QueueError> {
        let entries = list(self.disk.as_ref(), &self.paths.dir)?;
        if entries.is_empty() {
            return Ok(());
        }
        // A server makes the same call before it works here; for a directory that is there it
        // makes nothing and only looks whose it is.
        self.disk
            .create_dir_all(&self.paths.dir)
            .map_err(|error| QueueError::io("use", &self.paths.dir, &error))?;
        let worker = worker_of(self.disk.as_ref(), &self.paths.worker_lock)?;
        let findings = &mut pass.verified.findings;
        // The state first: what it relies on is written before it, and `.seq` last, for the same
        // reason the other way round.
        let state = self.read_state(worker, findings);
        let letters = self.read_dead_letters(findings);
        let log = self.read_log(&state, worker, findings);
        self.read_kept_aside(findings);
        self.read_slots(worker, findings);
        self.compare(&state, &letters, &log, &mut pass.doubts);
        for entry in entries {
            self.look_at(&entry, worker, findings);
        }
        pass.verified.messages = log.messages;
        pass.verified.dead_letters = letters.ids.len() as u64;
        pass.changed = self.generation() != state.generation;
        Ok(())
    }

    /// Whether what stands in the directory under this name may stand there.
    fn look_at(&self, entry: &crate::disk::Entry, worker: Worker, findings: &mut Findings) {
        let name = entry.name.as_str();
        if entry.is_dir {
            if !self.has_content(name) {
                findings.push(Finding::note(name, None, "is a directory, and none of ours"));
            }
            return;
        }
        match self.disk.open(&self.paths.dir.join(name), Open::Read) {
            // A worker that runs is writing it, and one that starts removes it.
            Ok(_) if name.ends_with(TEMPORARY) && worker == Worker::None => {
                let text = "was left behind by a crash; the next worker removes it";
                findings.push(Finding::fault(name, None, text));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // What is wrong with a file that has content has been told where that was read.
            Err(_) if self.has_content(name) => {}
            Err(error) => findings.push(Finding::fault(name, None, error.to_string())),
        }
    }

    fn has_content(&self, name: &str) -> bool {
        let paths = &self.paths;
        [
            &paths.segment,
            &paths.checkpoint,
            &paths.retry,
            &paths.sequence,
            &paths.corrupt,
            &paths.dlq,
            &paths.acked,
            &paths.worker_lock,
        ]
        .iter()
        .any(|path| name_of(path) == name)
    }

    /// Judges something while nobody can write it: under this lock, if there is such a lock file.
    fn under<T>(
        &self,
        lock: &Path,
        judge: impl FnOnce() -> Result<T, QueueError>,
    ) -> Result<T, QueueError> {
        let there = self.disk.identity(lock);
        let there = there.map_err(|error| QueueError::io("look at", lock, &error))?.is_some();
        // Without the file there has been no writer, and none is made here.
        let _held = match there {
            true => Some(LockFile::new(Arc::clone(self.disk), lock).lock(LOCK_DEADLINE)?),
            false => None,
        };
        judge()
    }
}

/// The name of a file within the queue's directory.
fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or(".")
}
