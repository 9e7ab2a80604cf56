//! `queues/wake`: names of queues that another process should look at.
//!
//! One line a queue, `tenant/flow` and a line feed, appended by any process under the file's own
//! lock. A reader remembers how far it has read. Whoever finds the file over 1 MiB empties it; a
//! reader whose position then lies past the end looks at every queue once. A line is written after
//! the append that it speaks of has been synced, and is itself only a hint: what it names is in the
//! queue's own files.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use crate::base::QueueName;
use crate::base::limits::{LOCK_DEADLINE, MAX_WAKE_BYTES};
use crate::disk::{Disk, DiskFile, Open};
use crate::queue::error::QueueError;
use crate::queue::layout::Layout;
use crate::queue::lock::locked;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// Appends a queue's name.
///
/// # Errors
/// The file cannot be written, or its lock does not come free.
pub fn write(disk: &dyn Disk, layout: &Layout, queue: &QueueName) -> Result<(), QueueError> {
    let path = layout.wake_file();
    let fault = |error| QueueError::io("write", &path, &error);
    let file = disk.open(&path, Open::Create).map_err(fault)?;
    if !file.lock(LOCK_DEADLINE).map_err(fault)? {
        let waited = format!("it did not come free within {} s", LOCK_DEADLINE.as_secs());
        return Err(locked(disk, &path, &waited));
    }
    let mut end = file.len().map_err(fault)?;
    if end > MAX_WAKE_BYTES {
        file.set_len(0).map_err(fault)?;
        end = 0;
    }
    file.write_all_at(format!("{queue}\n").as_bytes(), end).map_err(fault)
}

/// What a reader is to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// These queues, perhaps none.
    Queues(Vec<QueueName>),
    /// Every queue once: the file was emptied.
    All,
}

/// A reader of the file and how far it has read.
pub struct WakeReader {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    position: u64,
}

impl WakeReader {
    /// Begins at the present end of the file: whoever starts looks at every queue in any case.
    pub fn new(disk: Arc<dyn Disk>, layout: &Layout) -> WakeReader {
        let path = layout.wake_file();
        let position = disk.open(&path, Open::Read).and_then(|file| file.len()).unwrap_or_default();
        WakeReader { disk, path, position }
    }

    /// The names written since the last call.
    ///
    /// # Errors
    /// The file cannot be read; nothing is skipped.
    pub fn poll(&mut self) -> Result<Wake, QueueError> {
        let fault = |error| QueueError::io("read", &self.path, &error);
        let file = match self.disk.open(&self.path, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.position = 0;
                return Ok(Wake::Queues(Vec::new()));
            }
            Err(error) => return Err(fault(error)),
        };
        if self.position > file.len().map_err(fault)? {
            self.position = 0;
            return Ok(Wake::All);
        }
        self.read_lines(file.as_ref()).map_err(|error| QueueError::io("read", &self.path, &error))
    }

    fn read_lines(&mut self, file: &dyn DiskFile) -> io::Result<Wake> {
        let mut bytes = vec![0; CHUNK];
        let read = file.read_full_at(&mut bytes, self.position)?;
        // A line that is still being written is left for the next call.
        let whole = bytes[..read].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole == 0 && read == CHUNK {
            // No line is that long: not ours.
            self.position += read as u64;
        }
        self.position += whole as u64;
        let mut queues = Vec::new();
        for line in bytes[..whole].split(|byte| *byte == b'\n') {
            let name = std::str::from_utf8(line).ok().and_then(|line| line.split_once('/'));
            queues.extend(name.and_then(|(tenant, flow)| QueueName::parse(tenant, flow).ok()));
        }
        queues.sort();
        queues.dedup();
        Ok(Wake::Queues(queues))
    }
}

/// Hands every line of the file, its line feed included, to `each` with where it begins, until that
/// says to stop. A line that is longer than any name is given in parts.
pub(crate) fn for_each_line(
    file: &dyn DiskFile,
    each: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
) -> Result<(), QueueError> {
    let mut bytes = vec![0; CHUNK];
    let mut at = 0;
    loop {
        let read = file
            .read_full_at(&mut bytes, at)
            .map_err(|error| QueueError::io("read", file.path(), &error))?;
        let whole = bytes[..read].iter().rposition(|byte| *byte == b'\n').map(|last| last + 1);
        // The last line may have no end.
        let part = whole.filter(|_| read == CHUNK).unwrap_or(read);
        if part == 0 {
            return Ok(());
        }
        for line in bytes[..part].split_inclusive(|byte| *byte == b'\n') {
            if each(at, line).is_break() {
                return Ok(());
            }
            at += line.len() as u64;
        }
    }
}

/// Whether a queue may have undelivered messages, retries or marks to apply: read without a lock,
/// from the lengths of its files alone. A drained queue has none of them.
///
/// # Errors
/// A file that cannot be read.
pub fn has_work(disk: &dyn Disk, layout: &Layout, queue: &QueueName) -> Result<bool, QueueError> {
    let paths = layout.queue(queue);
    for path in [&paths.segment, &paths.retry, &paths.acked] {
        let length = match disk.open(path, Open::Read) {
            Ok(file) => file.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        };
        if length.map_err(|error| QueueError::io("read", path, &error))? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn a_reader_sees_each_line_once_and_looks_at_everything_after_the_file_was_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(dir.path()));
        let layout = Layout::new(dir.path());
        disk.create_dir_all(&layout.queues_dir()).unwrap();
        let mut reader = WakeReader::new(Arc::clone(&disk), &layout);
        assert_eq!(reader.poll().unwrap(), Wake::Queues(Vec::new()));
        let queue = |flow: &str| QueueName::parse("acme", flow).unwrap();
        for flow in ["b", "a", "b"] {
            write(disk.as_ref(), &layout, &queue(flow)).unwrap();
        }
        assert_eq!(reader.poll().unwrap(), Wake::Queues(vec![queue("a"), queue("b")]));
        assert_eq!(reader.poll().unwrap(), Wake::Queues(Vec::new()));

        let file = disk.open(&layout.wake_file(), Open::Write).unwrap();
        let len = file.len().unwrap();
        file.write_all_at(b"../x/y\nacme/c\nacme/unfinished", len).unwrap();
        assert_eq!(reader.poll().unwrap(), Wake::Queues(vec![queue("c")]));

        file.set_len(0).unwrap();
        assert_eq!(reader.poll().unwrap(), Wake::All);
        write(disk.as_ref(), &layout, &queue("d")).unwrap();
        assert_eq!(reader.poll().unwrap(), Wake::Queues(vec![queue("d")]));
    }

    #[test]
    fn the_file_is_emptied_once_it_is_over_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(dir.path());
        let layout = Layout::new(dir.path());
        disk.create_dir_all(&layout.queues_dir()).unwrap();
        let file = disk.open(&layout.wake_file(), Open::Create).unwrap();
        file.set_len(MAX_WAKE_BYTES + 1).unwrap();
        write(&disk, &layout, &QueueName::parse("acme", "a").unwrap()).unwrap();
        assert_eq!(file.len().unwrap(), 7);
    }
}
