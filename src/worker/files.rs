//! What an owner thread asks of its queue's files, as traits over the queue engine.
//!
//! The engine's own types implement them word for word; the owner loop's tests have files that fail
//! on purpose. Not here: what the calls do (`queue`), when they are made (`owner`).

use std::sync::Arc;
use std::time::Duration;

use crate::base::random::Random;
use crate::base::{MessageId, QueueName, Timestamp};
use crate::queue::{
    self, Appender, Election, Ending, Moment, NewMessage, Owner, QueueError, Receipt, Report,
    Settled, Step,
};
use crate::worker::surroundings::Surroundings;

/// How an owner thread comes to its files.
pub(super) trait OpenFiles: Send {
    /// Opens the queue for appending, making what is missing.
    fn open(&self) -> Result<Box<dyn AppendFiles>, QueueError>;

    /// Whether anything in the queue waits to be done, by whatever process.
    fn has_work(&self) -> Result<bool, QueueError>;
}

/// A queue that this process may append to, but does not deliver.
pub(super) trait AppendFiles: Send {
    /// See [`Appender::append`].
    fn append(&mut self, batch: &[NewMessage], now: Timestamp) -> Result<Vec<Receipt>, QueueError>;

    /// See [`Owner::elect`].
    fn elect(self: Box<Self>, now: Moment) -> Result<Elected, QueueError>;
}

/// How an election ended.
pub(super) enum Elected {
    /// This process delivers the queue.
    Won(Box<dyn OwnFiles>),
    /// Another does.
    Lost(Box<dyn AppendFiles>),
}

/// A queue that this process delivers. Each method is the [`Owner`]'s of the same name.
pub(super) trait OwnFiles: Send {
    fn append(&mut self, batch: &[NewMessage], now: Timestamp) -> Result<Vec<Receipt>, QueueError>;
    fn next(&mut self, now: Moment) -> Result<Step, QueueError>;
    fn settle(
        &mut self,
        endings: Vec<(MessageId, Ending)>,
        now: Moment,
        random: &dyn Random,
    ) -> Result<Vec<Settled>, QueueError>;
    fn sync_checkpoint(&mut self, now: Moment, force: bool) -> Result<(), QueueError>;
    fn checkpoint_due(&self) -> Option<Duration>;
    fn set_aside(&mut self, id: MessageId);
    fn take_up(&mut self, id: MessageId) -> Result<(), QueueError>;
    fn is_paused(&self) -> bool;
    fn has_crashes(&self) -> bool;
    fn poll(&mut self, now: Moment) -> Result<bool, QueueError>;
    fn take_reports(&mut self) -> Vec<Report>;
    fn close(self: Box<Self>, now: Moment) -> Result<(), QueueError>;
}

/// The files of one queue in the state directory.
pub(super) struct QueueFiles {
    pub(super) around: Arc<Surroundings>,
    pub(super) queue: QueueName,
}

impl OpenFiles for QueueFiles {
    fn open(&self) -> Result<Box<dyn AppendFiles>, QueueError> {
        let disk = Arc::clone(&self.around.disk);
        Ok(Box::new(Appender::open(disk, &self.around.layout, &self.queue)?))
    }

    fn has_work(&self) -> Result<bool, QueueError> {
        queue::has_work(&*self.around.disk, &self.around.layout, &self.queue)
    }
}

impl AppendFiles for Appender {
    fn append(&mut self, batch: &[NewMessage], now: Timestamp) -> Result<Vec<Receipt>, QueueError> {
        Appender::append(self, batch, now)
    }

    fn elect(self: Box<Self>, now: Moment) -> Result<Elected, QueueError> {
        Ok(match Owner::elect(*self, now)? {
            Election::Won(owner) => Elected::Won(owner),
            Election::Lost(appender) => Elected::Lost(appender),
        })
    }
}

impl OwnFiles for Owner {
    fn append(&mut self, batch: &[NewMessage], now: Timestamp) -> Result<Vec<Receipt>, QueueError> {
        Owner::append(self, batch, now)
    }

    fn next(&mut self, now: Moment) -> Result<Step, QueueError> {
        Owner::next(self, now)
    }

    fn settle(
        &mut self,
        endings: Vec<(MessageId, Ending)>,
        now: Moment,
        random: &dyn Random,
    ) -> Result<Vec<Settled>, QueueError> {
        Owner::settle(self, endings, now, random)
    }

    fn sync_checkpoint(&mut self, now: Moment, force: bool) -> Result<(), QueueError> {
        Owner::sync_checkpoint(self, now, force)
    }

    fn checkpoint_due(&self) -> Option<Duration> {
        Owner::checkpoint_due(self)
    }

    fn set_aside(&mut self, id: MessageId) {
        Owner::set_aside(self, id);
    }

    fn take_up(&mut self, id: MessageId) -> Result<(), QueueError> {
        Owner::take_up(self, id)
    }

    fn is_paused(&self) -> bool {
        Owner::is_paused(self)
    }

    fn has_crashes(&self) -> bool {
        Owner::has_crashes(self)
    }

    fn poll(&mut self, now: Moment) -> Result<bool, QueueError> {
        Owner::poll(self, now)
    }

    fn take_reports(&mut self) -> Vec<Report> {
        Owner::take_reports(self)
    }

    fn close(self: Box<Self>, now: Moment) -> Result<(), QueueError> {
        Owner::close(self, now)
    }
}
