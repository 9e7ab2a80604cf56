//! The thread that finds work nobody here knows of: at start, after another process wrote, and
//! after a server died.
//!
//! Every 500 ms it reads `queues/wake`, tries the locks of the other servers (one that comes free
//! had a holder that is dead: what it left is taken over), and tries again to place queues that had
//! work and no place. Each minute it removes the files of queues that hold nothing. Parked queues
//! cost nothing and are never forgotten. Not here: the wake file's bytes (`queue`), the queues
//! themselves (`roster`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::base::QueueName;
use crate::base::limits::{CLOSE_DEADLINE, HOUSEKEEPING_INTERVAL, MAX_SERVERS, POLL_INTERVAL};
use crate::disk::{Disk, DiskFile, Open};
use crate::journal::{Event, Kind};
use crate::queue::{self, QueueError, Wake, WakeReader};
use crate::worker::channel::{DoneSignal, Never};
use crate::worker::roster::Roster;
use crate::worker::runner::panic_text;
use crate::worker::surroundings::Surroundings;

/// How the file of a server's lock ends.
const LOCK_SUFFIX: &str = ".lock";

/// The running thread; it ends when this is dropped or stopped.
pub struct Janitor {
    stop: DoneSignal,
    ended: Receiver<Never>,
}

impl Janitor {
    /// Takes this server's lock and starts the thread, which first starts every queue that has
    /// work, if it is to `resume` them.
    ///
    /// # Errors
    /// The server's lock file cannot be made or locked, or there is no thread.
    pub fn start(
        around: Arc<Surroundings>,
        roster: Arc<Roster>,
        resume: bool,
    ) -> io::Result<Janitor> {
        let servers = Servers::register(&*around.disk, &around.layout.servers_dir(), || {
            around.random.uuid_v4()
        })?;
        let (stop, stopped) = DoneSignal::new();
        let (alive, ended) = DoneSignal::new();
        let wake = WakeReader::new(Arc::clone(&around.disk), &around.layout);
        let housekeeping_due = around.clock.boot();
        let rounds = Rounds { around, roster, servers, wake, housekeeping_due };
        std::thread::Builder::new().name("janitor".into()).spawn(move || {
            match resume {
                true => rounds.start_all_with_work(),
                false => rounds.leave_earlier_runs(),
            }
            rounds.work(&stopped);
            drop(alive);
        })?;
        Ok(Janitor { stop, ended })
    }

    /// Ends the thread and gives the server's lock up, so that other servers look after what is
    /// left. Waits no longer than [`CLOSE_DEADLINE`]: a disk that does not answer holds up nobody
    /// else.
    pub fn stop(self) {
        drop(self.stop);
        // Nothing is ever sent: it ends with the thread, or with the deadline.
        let _ = self.ended.recv_timeout(CLOSE_DEADLINE);
    }
}

struct Rounds {
    around: Arc<Surroundings>,
    roster: Arc<Roster>,
    servers: Servers,
    wake: WakeReader,
    /// When to look for queues that hold nothing, in boot time.
    housekeeping_due: Duration,
}

impl Rounds {
    fn work(mut self, stopped: &Receiver<Never>) {
        while stopped.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let round = AssertUnwindSafe(|| self.round());
            if let Err(panic) = catch_unwind(round) {
                let event = Event::new(Kind::WorkerPanicked);
                let text = format!("the search for work panicked: {}", panic_text(&*panic));
                self.around.journal.record(&event.error(text));
            }
        }
        self.servers.leave(&*self.around.disk);
    }

    fn round(&mut self) {
        match self.wake.poll() {
            Ok(Wake::Queues(queues)) => queues.iter().for_each(|queue| self.wake(queue)),
            Ok(Wake::All) => self.start_all_with_work(),
            Err(error) => self.report(&error.text),
        }
        match self.servers.bury_dead(&*self.around.disk) {
            Ok(0) => {}
            Ok(_) => self.start_all_with_work(),
            Err(error) => self.report(&error.to_string()),
        }
        for queue in self.roster.unplaced() {
            self.wake(&queue);
        }
        self.keep_house();
    }

    /// Removes the files of queues that hold nothing and that nobody works.
    fn keep_house(&mut self) {
        let now = self.around.clock.boot();
        if now < self.housekeeping_due {
            return;
        }
        self.housekeeping_due = now + HOUSEKEEPING_INTERVAL;
        let queues = match queue::list_queues(&*self.around.disk, &self.around.layout) {
            Ok(queues) => queues,
            Err(error) => return self.report(&error.text),
        };
        for queue in queues.into_iter().filter(|queue| !self.roster.is_active(queue)) {
            let removed = queue::remove_empty(&self.around.disk, &self.around.layout, &queue);
            if let Err(error) = removed {
                self.around.journal.record(&Event::of(Kind::QueueFault, &queue).error(error.text));
            }
        }
    }

    /// Removes what servers left that were dead before this one started. What they left in their
    /// queues is an earlier run's, and waits for a submission.
    fn leave_earlier_runs(&self) {
        if let Err(error) = self.servers.bury_dead(&*self.around.disk) {
            self.report(&error.to_string());
        }
    }

    fn start_all_with_work(&self) {
        match queue::list_queues(&*self.around.disk, &self.around.layout) {
            Ok(queues) => queues.iter().for_each(|queue| self.start_if_it_has_work(queue)),
            Err(error) => self.report(&error.text),
        }
    }

    fn start_if_it_has_work(&self, queue: &QueueName) {
        match queue::has_work(&*self.around.disk, &self.around.layout, queue) {
            Ok(false) => {}
            Ok(true) => self.wake(queue),
            // Its owner meets the same error, says so, and goes on trying.
            Err(QueueError { .. }) => self.wake(queue),
        }
    }

    fn wake(&self, queue: &QueueName) {
        if let Err(why) = self.roster.wake(queue) {
            self.around.journal.record(&Event::of(Kind::QueueFault, queue).error(why));
        }
    }

    fn report(&self, error: &str) {
        self.around.journal.record(&Event::new(Kind::QueueFault).error(error));
    }
}

/// The lock files of the servers on one state directory.
///
/// Each server holds the lock of its own file for its life. A lock that comes free says that its
/// holder is dead.
struct Servers {
    dir: PathBuf,
    own_path: PathBuf,
    own: Box<dyn DiskFile>,
}

impl Servers {
    /// Makes and locks this server's file.
    fn register(disk: &dyn Disk, dir: &Path, name: impl Fn() -> String) -> io::Result<Servers> {
        disk.create_dir_all(dir)?;
        // Another server may find the new file before it is locked, and remove it.
        for _ in 0..MAX_SERVERS {
            let own_path = dir.join(name() + LOCK_SUFFIX);
            let own = disk.open(&own_path, Open::Create)?;
            if own.lock(Duration::ZERO)? && own.is_still_at_its_path(disk)? {
                return Ok(Servers { dir: dir.to_owned(), own_path, own });
            }
        }
        Err(io::Error::other(format!("no lock file of this server's own in {}", dir.display())))
    }

    /// Removes the files whose holders are dead; gives their number.
    fn bury_dead(&self, disk: &dyn Disk) -> io::Result<usize> {
        let mut dead = 0;
        for entry in disk.list(&self.dir)?.into_iter().take(MAX_SERVERS) {
            let path = self.dir.join(&entry.name);
            if entry.is_dir || !entry.name.ends_with(LOCK_SUFFIX) || path == self.own_path {
                continue;
            }
            let file = match disk.open(&path, Open::Write) {
                Ok(file) => file,
                // Another server was quicker.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            if file.lock(Duration::ZERO)? && file.is_still_at_its_path(disk)? {
                disk.remove(&path)?;
                dead += 1;
            }
        }
        Ok(dead)
    }

    /// Removes this server's file: its queues are closed, and nobody need look after them.
    fn leave(&self, disk: &dyn Disk) {
        // What cannot be removed is found free and removed by another server.
        let _ = disk.remove(&self.own_path);
        let _ = self.own.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use std::cell::Cell;

    #[test]
    fn a_servers_file_is_removed_once_its_holder_is_dead_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(dir.path());
        let servers = dir.path().join("servers");
        let one = Servers::register(&disk, &servers, || "one".into()).unwrap();
        let two = Servers::register(&disk, &servers, || "two".into()).unwrap();
        assert_eq!(one.bury_dead(&disk).unwrap(), 0, "it lives");
        drop(two);
        assert_eq!(one.bury_dead(&disk).unwrap(), 1);
        assert_eq!(one.bury_dead(&disk).unwrap(), 0);
        let left = disk.list(&servers).unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].name, "one.lock");
        one.leave(&disk);
        assert!(disk.list(&servers).unwrap().is_empty());
    }

    #[test]
    fn a_name_that_another_server_holds_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::new(dir.path());
        let names = Cell::new(0);
        let name = || {
            names.set(names.get() + 1);
            format!("server-{}", names.get() / 2)
        };
        let one = Servers::register(&disk, dir.path(), name).unwrap();
        names.set(0);
        let two = Servers::register(&disk, dir.path(), name).unwrap();
        assert_ne!(one.own_path, two.own_path);
    }
}
