//! What this process has of a queue's files: nothing, the right to append, or all of it.
//!
//! A queue is opened, put up for election, and reopened through full recovery after a failure that
//! its files do not survive. What follows is a new tenure with another number; a run that began in
//! an earlier one says nothing about this one. Not here: what is done with the files (`owner`).

use std::time::Duration;

use crate::base::limits::{FAULT_RETRY_DELAY, POLL_INTERVAL};
use crate::queue::{Moment, NewMessage, QueueError, Receipt};
use crate::worker::files::{AppendFiles, Elected, OpenFiles, OwnFiles};

/// The files of one queue, as far as this process has them.
pub(super) struct Tenure {
    opener: Box<dyn OpenFiles>,
    state: State,
    number: u32,
}

enum State {
    /// Nothing is open; to be opened at this boot time.
    Closed { why: String, open_at: Duration },
    /// Another process delivers; the next election is at this boot time.
    Appending { files: Box<dyn AppendFiles>, elect_at: Duration },
    /// This process delivers.
    Owning(Box<dyn OwnFiles>),
}

/// What an attempt to come to the files changed.
#[derive(Debug)]
pub(super) enum Change {
    /// It was not time for one.
    None,
    /// Open, and this process delivers.
    Won,
    /// Open for appending; another process delivers.
    Lost,
    /// Opening failed; the next attempt is a second away.
    Failed(QueueError),
}

impl Tenure {
    /// Nothing is open yet; the first attempt is due at once.
    pub(super) fn new(opener: Box<dyn OpenFiles>) -> Tenure {
        let state = State::Closed { why: "it is being opened".into(), open_at: Duration::ZERO };
        Tenure { opener, state, number: 0 }
    }

    /// Which tenure it is: another one from the moment its files are given up.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Opens what is closed and tries the election, each when it is due.
    pub(super) fn advance(&mut self, now: Moment) -> Change {
        let due = match &self.state {
            State::Closed { open_at, .. } => *open_at,
            State::Appending { elect_at, .. } => *elect_at,
            State::Owning(_) => return Change::None,
        };
        if now.boot < due {
            return Change::None;
        }
        // Closed while it is tried, should the attempt panic.
        let opening = State::Closed {
            why: "it is being recovered".into(),
            open_at: now.boot + FAULT_RETRY_DELAY,
        };
        let elected = match std::mem::replace(&mut self.state, opening) {
            State::Appending { files, .. } => files.elect(now),
            State::Closed { .. } => self.opener.open().and_then(|files| files.elect(now)),
            State::Owning(_) => return Change::None,
        };
        self.take(elected, now)
    }

    fn take(&mut self, elected: Result<Elected, QueueError>, now: Moment) -> Change {
        match elected {
            Ok(Elected::Won(files)) => {
                self.state = State::Owning(files);
                Change::Won
            }
            Ok(Elected::Lost(files)) => {
                self.state = State::Appending { files, elect_at: now.boot + POLL_INTERVAL };
                Change::Lost
            }
            Err(error) => {
                self.close(error.text.clone(), now);
                Change::Failed(error)
            }
        }
    }

    /// Appends, in either right. `None` while nothing is open.
    pub(super) fn append(
        &mut self,
        batch: &[NewMessage],
        now: Moment,
    ) -> Option<Result<Vec<Receipt>, QueueError>> {
        match &mut self.state {
            State::Closed { .. } => None,
            State::Appending { files, .. } => Some(files.append(batch, now.wall)),
            State::Owning(files) => Some(files.append(batch, now.wall)),
        }
    }

    /// The files, if this process delivers.
    pub(super) fn owned(&mut self) -> Option<&mut dyn OwnFiles> {
        match &mut self.state {
            State::Owning(files) => Some(&mut **files),
            State::Closed { .. } | State::Appending { .. } => None,
        }
    }

    /// Why nothing can be stored, while nothing is open.
    pub(super) fn closed_because(&self) -> &str {
        match &self.state {
            State::Closed { why, .. } => why,
            State::Appending { .. } | State::Owning(_) => "it is open",
        }
    }

    /// Whether this process appends only, and nothing in the queue waits any more.
    pub(super) fn is_settled_elsewhere(&self) -> Result<bool, QueueError> {
        match self.state {
            State::Appending { .. } => self.opener.has_work().map(|work| !work),
            State::Closed { .. } | State::Owning(_) => Ok(false),
        }
    }

    /// Closes what is open, to be opened again through recovery in a second.
    pub(super) fn close(&mut self, why: String, now: Moment) {
        self.number = self.number.wrapping_add(1);
        let closed = State::Closed { why, open_at: now.boot + FAULT_RETRY_DELAY };
        if let State::Owning(files) = std::mem::replace(&mut self.state, closed) {
            // The files are given up because they failed; recovery reads them anew whatever this
            // says.
            let _ = files.close(now);
        }
    }

    /// Closes what is open for good: syncs, and gives the lock up.
    pub(super) fn end(self, now: Moment) -> Result<(), QueueError> {
        match self.state {
            State::Owning(files) => files.close(now),
            State::Closed { .. } | State::Appending { .. } => Ok(()),
        }
    }

    /// When [`Tenure::advance`] is due again.
    pub(super) fn due(&self) -> Option<Duration> {
        match self.state {
            State::Closed { open_at, .. } => Some(open_at),
            State::Appending { elect_at, .. } => Some(elect_at),
            State::Owning(_) => None,
        }
    }
}
