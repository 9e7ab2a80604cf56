//! Where everything is under the state directory (`nexus-files(5)`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::QueueName;
use crate::disk::Disk;
use crate::queue::error::QueueError;

/// The state directory and the paths below it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Layout {
    state_dir: Arc<Path>,
}

/// The files of one queue.
#[derive(Debug, Clone)]
pub struct QueuePaths {
    /// `queues/{tenant}/{flow}`.
    pub dir: PathBuf,
    /// `segment.log`: the messages.
    pub segment: PathBuf,
    /// `segment.log.ckpt`: how far the queue is settled.
    pub checkpoint: PathBuf,
    /// `segment.log.retry`: the pending retries.
    pub retry: PathBuf,
    /// `segment.log.seq`: the next message id.
    pub sequence: PathBuf,
    /// `segment.log.corrupt`: bytes that did not verify.
    pub corrupt: PathBuf,
    /// `dlq.log`: dead letters.
    pub dlq: PathBuf,
    /// `dlq.log.acked`: the dead letters that are handled.
    pub acked: PathBuf,
    /// `worker.lock`: elects the owner, and holds what is in flight.
    pub worker_lock: PathBuf,
    /// `append.lock`.
    pub append_lock: PathBuf,
    /// `dlq.lock`.
    pub dlq_lock: PathBuf,
    /// `paused`: present while the queue is paused.
    pub paused: PathBuf,
}

impl Layout {
    /// The layout below this state directory.
    pub fn new(state_dir: &Path) -> Layout {
        Layout { state_dir: state_dir.into() }
    }

    /// The state directory itself.
    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// `queues`.
    pub fn queues_dir(&self) -> PathBuf {
        self.state_dir.join("queues")
    }

    /// `queues/wake`.
    pub fn wake_file(&self) -> PathBuf {
        self.queues_dir().join("wake")
    }

    /// `servers`.
    pub fn servers_dir(&self) -> PathBuf {
        self.state_dir.join("servers")
    }

    /// The files of one queue.
    pub fn queue(&self, queue: &QueueName) -> QueuePaths {
        let dir = self.queues_dir().join(queue.tenant.as_str()).join(queue.flow.as_str());
        QueuePaths {
            segment: dir.join("segment.log"),
            checkpoint: dir.join("segment.log.ckpt"),
            retry: dir.join("segment.log.retry"),
            sequence: dir.join("segment.log.seq"),
            corrupt: dir.join("segment.log.corrupt"),
            dlq: dir.join("dlq.log"),
            acked: dir.join("dlq.log.acked"),
            worker_lock: dir.join("worker.lock"),
            append_lock: dir.join("append.lock"),
            dlq_lock: dir.join("dlq.lock"),
            paused: dir.join("paused"),
            dir,
        }
    }
}

/// Every queue that has a directory, by tenant and flow. What is no name is no queue, and is passed
/// over.
///
/// # Errors
/// A directory that cannot be read. One that is not there holds no queue.
pub fn list_queues(disk: &dyn Disk, layout: &Layout) -> Result<Vec<QueueName>, QueueError> {
    let root = layout.queues_dir();
    let mut queues = Vec::new();
    for tenant in directories(disk, &root)? {
        for flow in directories(disk, &root.join(&tenant))? {
            queues.extend(QueueName::parse(&tenant, &flow));
        }
    }
    queues.sort();
    Ok(queues)
}

fn directories(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>, QueueError> {
    match disk.list(dir) {
        Ok(entries) => Ok(entries.into_iter().filter(|e| e.is_dir).map(|e| e.name).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(QueueError::io("list", dir, &error)),
    }
}
