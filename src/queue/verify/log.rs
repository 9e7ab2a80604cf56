//! `segment.log`: each frame, what lies between them, and the order of the ids.

use crate::base::MessageId;
use crate::disk::{DiskFile, Open};
use crate::queue::dlq::open_existing;
use crate::queue::error::QueueError;
use crate::queue::finding::{Finding, Findings};
use crate::queue::inspect::Worker;
use crate::queue::message::read_message;
use crate::queue::message::{KIND_MESSAGE, Message};
use crate::queue::space::is_given_back;
use crate::queue::verify::state::State;
use crate::queue::verify::{ATTEMPTS, Queue, name_of};
use crate::store::scan::{Item, Scanner};

/// What the log holds.
#[derive(Debug, Clone, Default)]
pub(super) struct LogFacts {
    /// Sound messages.
    pub messages: u64,
    /// The highest id of them.
    pub highest: Option<MessageId>,
    /// Where the last sound frame ends.
    pub end: u64,
    /// The message that begins where the checkpoint says.
    pub at_checkpoint: Option<MessageId>,
}

/// A reading of the log.
struct Reading {
    /// The file's name.
    file: String,
    /// Where the checkpoint, as it was before, says that the first unsettled message begins.
    checkpoint_offset: Option<u64>,
    worker: Worker,
    facts: LogFacts,
    findings: Findings,
    /// The last message that was read, and where it begins.
    last: Option<(u64, MessageId)>,
}

/// How a reading ended.
enum End {
    Read,
    /// The log was emptied meanwhile: what was read is gone.
    Emptied,
}

impl Queue<'_> {
    pub(super) fn read_log(
        &self,
        state: &State,
        worker: Worker,
        findings: &mut Findings,
    ) -> LogFacts {
        match self.read_log_until_it_stands(state, worker) {
            Ok(reading) => {
                findings.extend(reading.findings);
                reading.facts
            }
            Err(error) => {
                findings.push(Finding::fault(self.log_name(), None, error.text));
                LogFacts::default()
            }
        }
    }

    fn read_log_until_it_stands(
        &self,
        state: &State,
        worker: Worker,
    ) -> Result<Reading, QueueError> {
        let new = || Reading::new(self.log_name(), state.offset(), worker);
        for _ in 1..ATTEMPTS {
            let mut reading = new();
            if let End::Read = self.read_once(&mut reading, false)? {
                return Ok(reading);
            }
        }
        let mut reading = new();
        self.under(&self.paths.append_lock, || self.read_once(&mut reading, true))?;
        Ok(reading)
    }

    /// Reads the log from its start to its end. What does not verify is judged under `append.lock`,
    /// if that is not `locked` already.
    fn read_once(&self, reading: &mut Reading, locked: bool) -> Result<End, QueueError> {
        let path = &self.paths.segment;
        let Some(file) = open_existing(self.disk.as_ref(), path, Open::Read)? else {
            return Ok(End::Read);
        };
        let mut len = length(file.as_ref())?;
        let mut scanner = Scanner::default();
        loop {
            let item = scanner.next(file.as_ref(), len);
            let item = match item.map_err(|error| QueueError::scan(path, &error))? {
                None => return Ok(End::Read),
                Some(item) => item,
            };
            if matches!(item, Item::Frame { .. } | Item::Zeros { .. }) || locked {
                let is_gap = matches!(item, Item::Gap { .. });
                reading.take(&item, if is_gap { self.settled_to() } else { None });
                continue;
            }
            let offset = place_of(&item).0;
            scanner.seek(offset);
            let judged = self.under(&self.paths.append_lock, || {
                len = length(file.as_ref())?;
                reading.judge(file.as_ref(), &mut scanner, len, self.settled_to())
            })?;
            if let End::Emptied = judged {
                return Ok(End::Emptied);
            }
        }
    }

    fn log_name(&self) -> &str {
        name_of(&self.paths.segment)
    }
}

impl Reading {
    fn new(file: &str, checkpoint_offset: Option<u64>, worker: Worker) -> Reading {
        Reading {
            file: file.to_owned(),
            checkpoint_offset,
            worker,
            facts: LogFacts::default(),
            findings: Findings::default(),
            last: None,
        }
    }

    /// Looks once more at a place where nothing verified, while nobody writes. A frame that was not
    /// whole before is left to be read as any other.
    fn judge(
        &mut self,
        file: &dyn DiskFile,
        scanner: &mut Scanner,
        len: u64,
        settled: Option<u64>,
    ) -> Result<End, QueueError> {
        let offset = scanner.position();
        let last_is_gone = match self.last {
            Some((at, id)) => read_message(file, at, id)?.is_none(),
            None => false,
        };
        if last_is_gone || offset > len {
            return Ok(End::Emptied);
        }
        let mut seen = None;
        for _ in 1..ATTEMPTS {
            // A worker that runs may just be giving space back; that takes no time.
            let item = scanner.next(file, len);
            let item = item.map_err(|error| QueueError::scan(file.path(), &error))?;
            let now = item.map(|item| (matches!(item, Item::Frame { .. }), place_of(&item)));
            scanner.seek(offset);
            if seen.replace(now) == Some(now) {
                break;
            }
        }
        let item = scanner.next(file, len);
        match item.map_err(|error| QueueError::scan(file.path(), &error))? {
            Some(Item::Frame { .. }) => scanner.seek(offset),
            Some(item) => self.take(&item, settled),
            None => {}
        }
        Ok(End::Read)
    }

    /// Whether zeros between messages are space that was given back. A worker that runs may just
    /// have given it back, and the reading have begun in its middle.
    fn is_given_back(&self, (offset, len): (u64, u64), settled: Option<u64>) -> bool {
        let below = settled.is_some_and(|settled| offset.saturating_add(len) <= settled);
        is_given_back((offset, len), settled) || (below && self.worker != Worker::None)
    }

    /// Notes what stands at one place of the log, of which everything below `settled` is settled.
    fn take(&mut self, item: &Item<'_>, settled: Option<u64>) {
        let (offset, len) = place_of(item);
        let fault = |text: String| Finding::fault(&self.file, Some((offset, len)), text);
        let finding = match item {
            // Space that was taken ahead.
            Item::Zeros { .. } => return,
            Item::Gap { zeros: true, .. } if self.is_given_back((offset, len), settled) => return,
            Item::Gap { zeros: true, .. } => fault("zeros between messages".to_owned()),
            Item::Gap { .. } => fault("bytes that are no message".to_owned()),
            Item::Tail { .. } => fault("the end is torn".to_owned()),
            Item::Frame { frame, .. } => {
                self.facts.end = offset + len;
                let message = Some(frame).filter(|frame| frame.kind == KIND_MESSAGE);
                match message.and_then(|frame| Message::decode(frame.body)) {
                    None => fault("a sound frame that is no message".to_owned()),
                    Some(message) if self.last.is_some_and(|(_, last)| message.id <= last) => {
                        fault(format!(
                            "message {} does not follow the ids before it, and is not delivered",
                            message.id
                        ))
                    }
                    Some(message) => {
                        self.note_message(message.id, offset);
                        return;
                    }
                }
            }
        };
        self.findings.push(finding);
    }

    fn note_message(&mut self, id: MessageId, offset: u64) {
        self.facts.messages += 1;
        self.facts.highest = Some(id);
        self.last = Some((offset, id));
        if self.checkpoint_offset == Some(offset) {
            self.facts.at_checkpoint = Some(id);
        }
    }
}

fn place_of(item: &Item<'_>) -> (u64, u64) {
    match item {
        Item::Frame { offset, len, .. }
        | Item::Gap { offset, len, .. }
        | Item::Zeros { offset, len }
        | Item::Tail { offset, len } => (*offset, *len),
    }
}

fn length(file: &dyn DiskFile) -> Result<u64, QueueError> {
    file.len().map_err(|error| QueueError::io("read", file.path(), &error))
}
