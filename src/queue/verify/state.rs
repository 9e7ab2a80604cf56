//! The small files that say how far a queue is, and whether they agree with one another and with
//! the log.

use std::ops::ControlFlow;

use crate::base::MessageId;
use crate::disk::Open;
use crate::queue::checkpoint::{self, Checkpoint, SlotState};
use crate::queue::dlq::open_existing;
use crate::queue::error::QueueError;
use crate::queue::finding::{Finding, Findings};
use crate::queue::inspect::Worker;
use crate::queue::message::read_message;
use crate::queue::retry::{self, Loaded};
use crate::queue::sequence::Sequence;
use crate::queue::slots::{self, Slot};
use crate::queue::verify::dead_letters::LetterFacts;
use crate::queue::verify::log::LogFacts;
use crate::queue::verify::{ATTEMPTS, Queue, name_of};

/// What the checkpoint and the schedule say.
#[derive(Debug, Default)]
pub(super) struct State {
    checkpoint: Option<Checkpoint>,
    /// The generation of the checkpoint: a worker that writes raises it.
    pub generation: Option<u64>,
    schedule: Loaded,
}

impl State {
    /// Where the checkpoint says that the first unsettled message begins.
    pub(super) fn offset(&self) -> Option<u64> {
        self.checkpoint.map(|checkpoint| checkpoint.offset)
    }
}

impl Queue<'_> {
    pub(super) fn read_state(&self, worker: Worker, findings: &mut Findings) -> State {
        let mut state = State::default();
        match self.read_checkpoint(findings) {
            Ok(Some((generation, checkpoint))) => {
                (state.generation, state.checkpoint) = (Some(generation), Some(checkpoint));
            }
            Ok(None) => {}
            Err(error) => {
                findings.push(Finding::fault(name_of(&self.paths.checkpoint), None, error.text));
            }
        }
        match self.read_schedule(worker, findings) {
            Ok(schedule) => state.schedule = schedule,
            Err(error) => {
                findings.push(Finding::fault(name_of(&self.paths.retry), None, error.text));
            }
        }
        state
    }

    /// The generation of the checkpoint as it is now; `None` also when it cannot be read.
    pub(super) fn generation(&self) -> Option<u64> {
        self.read_checkpoint(&mut Findings::default()).ok().flatten().map(|(number, _)| number)
    }

    /// Where the checkpoint, as it is now, says that the first unsettled message begins.
    pub(super) fn settled_to(&self) -> Option<u64> {
        let read = self.read_checkpoint(&mut Findings::default());
        read.ok().flatten().map(|(_, checkpoint)| checkpoint.offset)
    }

    fn read_checkpoint(
        &self,
        findings: &mut Findings,
    ) -> Result<Option<(u64, Checkpoint)>, QueueError> {
        let path = &self.paths.checkpoint;
        let Some(file) = open_existing(self.disk.as_ref(), path, Open::Read)? else {
            return Ok(None);
        };
        let mut slots = checkpoint::slots(file.as_ref())?;
        for _ in 1..ATTEMPTS {
            // A slot may be read while it is being written.
            if slots.iter().all(|(_, state)| *state != SlotState::Damaged) {
                break;
            }
            slots = checkpoint::slots(file.as_ref())?;
        }
        let mut newest = None;
        for (offset, state) in slots {
            match state {
                SlotState::Empty => {}
                SlotState::Damaged => {
                    let text = "a slot that does not verify";
                    let place = Some((offset, checkpoint::LEN as u64));
                    findings.push(Finding::fault(name_of(path), place, text));
                }
                SlotState::Valid(number, checkpoint) => {
                    if newest.is_none_or(|(other, _)| number > other) {
                        newest = Some((number, checkpoint));
                    }
                }
            }
        }
        Ok(newest)
    }

    fn read_schedule(&self, worker: Worker, findings: &mut Findings) -> Result<Loaded, QueueError> {
        let path = &self.paths.retry;
        let Some(file) = open_existing(self.disk.as_ref(), path, Open::Read)? else {
            return Ok(Loaded::default());
        };
        let loaded = retry::load(file.as_ref())?;
        retry::for_each(file.as_ref(), &mut |(offset, len, record)| {
            let (inside, place) = (offset < loaded.end, Some((offset, len)));
            match record {
                Some(_) => {}
                None if inside => {
                    let text = "a record that does not verify, with others behind it";
                    findings.push(Finding::fault(name_of(path), place, text));
                }
                // A worker that runs has cut what was torn, and may just be writing.
                None if worker == Worker::None => {
                    findings.push(Finding::fault(name_of(path), place, "the end is torn"));
                    return ControlFlow::Break(());
                }
                None => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        })?;
        Ok(loaded)
    }

    /// The slots of `worker.lock`, which a worker that runs may just be writing.
    pub(super) fn read_slots(&self, worker: Worker, findings: &mut Findings) {
        if worker != Worker::None {
            return;
        }
        let path = &self.paths.worker_lock;
        let slots = open_existing(self.disk.as_ref(), path, Open::Read)
            .and_then(|file| file.map(|file| slots::read(file.as_ref())).transpose());
        let slots = match slots {
            Ok(slots) => slots,
            Err(error) => return findings.push(Finding::fault(name_of(path), None, error.text)),
        };
        for (number, slot) in slots.into_iter().flatten().enumerate() {
            let place = Some(slots::place(number));
            match slot {
                Slot::Free => {}
                Slot::Damaged => {
                    let text = "a slot that does not verify and counts as free";
                    findings.push(Finding::fault(name_of(path), place, text));
                }
                Slot::Full { id, .. } => {
                    let text = format!("message {id} was in flight when its process died");
                    findings.push(Finding::note(name_of(path), place, text));
                }
            }
        }
    }

    /// Whether the files agree. What is found may also come of the worker having gone on between
    /// two readings.
    pub(super) fn compare(
        &self,
        state: &State,
        letters: &LetterFacts,
        log: &LogFacts,
        doubts: &mut Findings,
    ) {
        self.compare_checkpoint(state, log, doubts);
        if let Err(error) = self.compare_schedule(state, letters, doubts) {
            doubts.push(Finding::fault(name_of(&self.paths.retry), None, error.text));
        }
        if let Err(error) = self.compare_sequence(state, letters, log, doubts) {
            doubts.push(Finding::fault(name_of(&self.paths.sequence), None, error.text));
        }
    }

    fn compare_checkpoint(&self, state: &State, log: &LogFacts, doubts: &mut Findings) {
        let name = name_of(&self.paths.checkpoint);
        let Some(checkpoint) = state.checkpoint else {
            if log.messages > 0 {
                let text = "no checkpoint: every message in the log counts as not yet processed";
                doubts.push(Finding::note(name, None, text));
            }
            return;
        };
        let Checkpoint { offset, id, retry_len } = checkpoint;
        let found = log.at_checkpoint;
        let text = match found {
            _ if offset > log.end => {
                Some(format!("names offset {offset}, past the end of the log at {}", log.end))
            }
            // The start of the log, and its end, say nothing of a message there.
            _ if offset == 0 || offset == log.end => None,
            None => Some(format!("names offset {offset}, where no message begins")),
            Some(found) if found < id => Some(format!(
                "names offset {offset} for message {id}, and message {found} begins there"
            )),
            Some(_) => None,
        };
        if let Some(text) = text {
            doubts.push(Finding::fault(name, None, text));
        }
        let schedule = &state.schedule;
        if schedule.end < retry_len {
            let text = format!(
                "relies on {retry_len} bytes of the schedule, of which {} can be read",
                schedule.end
            );
            doubts.push(Finding::fault(name, None, text));
        }
    }

    /// Whether what is to be tried again is where the schedule says.
    fn compare_schedule(
        &self,
        state: &State,
        letters: &LetterFacts,
        doubts: &mut Findings,
    ) -> Result<(), QueueError> {
        let log = open_existing(self.disk.as_ref(), &self.paths.segment, Open::Read)?;
        for retry in state.schedule.schedule.values() {
            let there = match &log {
                Some(log) => read_message(log.as_ref(), retry.offset, retry.id)?.is_some(),
                None => false,
            };
            // A dead letter wins over a retry of the same message.
            if !there && !letters.ids.contains(&retry.id) {
                let (id, offset) = (retry.id, retry.offset);
                let text = format!(
                    "the retry of message {id} names offset {offset} of the log, where it is not"
                );
                doubts.push(Finding::fault(name_of(&self.paths.retry), None, text));
            }
        }
        Ok(())
    }

    /// Whether the next id is above every one that was given. `.seq` is written before the frames,
    /// so it is read after them.
    fn compare_sequence(
        &self,
        state: &State,
        letters: &LetterFacts,
        log: &LogFacts,
        doubts: &mut Findings,
    ) -> Result<(), QueueError> {
        let highest: Option<MessageId> = log
            .highest
            .max(state.schedule.highest)
            .max(letters.ids.last().copied())
            .max(letters.highest_mark);
        let name = name_of(&self.paths.sequence);
        let path = &self.paths.sequence;
        let sequence = self.under(&self.paths.append_lock, || {
            let file = open_existing(self.disk.as_ref(), path, Open::Read)?;
            let len = file.as_ref().map_or(Ok(0), |file| file.len());
            let len = len.map_err(|error| QueueError::io("read", path, &error))?;
            let sequence = file.map(|file| Sequence::read(file.as_ref())).transpose()?;
            Ok((len, sequence.flatten()))
        })?;
        let (next_id, synced_end) = match sequence {
            (_, Some(sequence)) => (sequence.next_id, sequence.synced_end),
            (0, None) if highest.is_none() => return Ok(()),
            (len, None) => {
                let text = match len {
                    0 => "is missing or empty; the next id is computed anew",
                    _ => "does not verify; the next id is computed anew",
                };
                doubts.push(Finding::fault(name, None, text));
                return Ok(());
            }
        };
        if let Some(highest) = highest.filter(|highest| *highest >= next_id) {
            let text = format!("the next id is {next_id}, and {highest} has been given already");
            doubts.push(Finding::fault(name, None, text));
        }
        if let Some(checkpoint) = state.checkpoint.filter(|checkpoint| checkpoint.id > next_id) {
            let text =
                format!("the next id is {next_id}, and the checkpoint says {}", checkpoint.id);
            doubts.push(Finding::fault(name, None, text));
        }
        let log = open_existing(self.disk.as_ref(), &self.paths.segment, Open::Read)?;
        let len = log.map_or(Ok(0), |log| log.len());
        let len = len.map_err(|error| QueueError::io("read", &self.paths.segment, &error))?;
        if synced_end > len {
            let text = format!("names offset {synced_end}, past the end of the log at {len}");
            doubts.push(Finding::fault(name, None, text));
        }
        Ok(())
    }
}
