//! Mends the small files that say how far a queue is: they are set to what the sound rest implies.

use std::path::Path;

use crate::base::MessageId;
use crate::disk::{DiskFile, Open};
use crate::queue::checkpoint::{self, Checkpoint, SlotState};
use crate::queue::error::QueueError;
use crate::queue::inspect::{Standings, Worker};
use crate::queue::repair::Repair;
use crate::queue::repair::log::Survey;
use crate::queue::retry::{Crashed, Record, Scheduled};
use crate::queue::sequence::Sequence;
use crate::queue::slots::{self, Slot};
use crate::queue::{acked, dlq};
use crate::store::replace::replace;

/// What is wrong with the schedule.
#[derive(Debug, Default)]
struct ScheduleFaults {
    /// Records do not verify.
    damaged: bool,
    /// Retries whose message lies elsewhere in the log.
    moved: usize,
    /// Retries whose message is not in the log.
    lost: usize,
}

impl Repair<'_> {
    /// The log, and what refers to places in it.
    pub(super) fn mend_log_and_state(&mut self) -> Result<(), QueueError> {
        let standings = Standings::read_with(self.disk, &self.paths, Worker::None)?;
        let (slots, checkpoint) = self.read_checkpoint()?;
        let log = self.open(&self.paths.segment)?;
        let offset = checkpoint.map(|checkpoint| checkpoint.offset);
        let survey = match &log {
            Some(file) => Survey::read(file.as_ref(), &standings, offset)?,
            None => Survey::default(),
        };
        let rewritten = survey.needs_rewriting();
        if let Some(file) = &log {
            self.keep_damage_of_log(file.as_ref(), &survey)?;
        }
        let next_id = self.mend_sequence(&survey, &standings)?;
        match &log {
            Some(file) if rewritten => {
                self.rewrite_log(file.as_ref(), &survey, &standings, next_id)?;
            }
            Some(file) => self.cut_log(file.as_ref(), &survey)?,
            None => {}
        }
        let schedule_len = self.mend_schedule(&survey, &standings)?;
        let place = survey.first_open.unwrap_or(survey.end);
        let mended = Checkpoint {
            offset: if rewritten { place.new } else { place.old },
            id: standings.checkpoint.id,
            retry_len: schedule_len,
        };
        let is_wrong = checkpoint.is_some_and(|found| is_wrong(found, &survey, &standings));
        let damaged = slots.contains(&SlotState::Damaged);
        let schedule_replaced = schedule_len != standings.loaded.end;
        if damaged || is_wrong || rewritten || schedule_replaced {
            self.mend_checkpoint(mended, damaged, is_wrong)?;
        }
        Ok(())
    }

    fn read_checkpoint(&self) -> Result<([SlotState; 2], Option<Checkpoint>), QueueError> {
        let Some(file) = self.open(&self.paths.checkpoint)? else {
            return Ok(([SlotState::Empty; 2], None));
        };
        let states = checkpoint::slots(file.as_ref())?.map(|(_, state)| state);
        Ok((states, checkpoint::read(file.as_ref())?))
    }

    fn mend_checkpoint(
        &mut self,
        mended: Checkpoint,
        damaged: bool,
        is_wrong: bool,
    ) -> Result<(), QueueError> {
        let path = self.paths.checkpoint.clone();
        let file = self.create(&path)?;
        let copy = if damaged { Some(self.copy_aside(file.as_ref())?) } else { None };
        checkpoint::write_both(file.as_ref(), mended)?;
        let now = format!("set to offset {} and message {}", mended.offset, mended.id);
        match copy {
            Some(copy) => {
                self.note(&path, format!("was damaged, {now}; the file as it was is {copy}"));
            }
            None if is_wrong => self.note(&path, format!("disagreed with the rest, {now}")),
            None => {}
        }
        Ok(())
    }

    /// Replaces the schedule by its sound records, each with the place where its message lies now.
    /// Gives its length in bytes.
    fn mend_schedule(&mut self, survey: &Survey, standings: &Standings) -> Result<u64, QueueError> {
        let path = self.paths.retry.clone();
        let rewritten = survey.needs_rewriting();
        let file = self.open(&path)?;
        let len = match &file {
            Some(file) => file.len().map_err(|error| QueueError::io("read", &path, &error))?,
            None => 0,
        };
        let loaded = &standings.loaded;
        let mut faults = ScheduleFaults {
            damaged: loaded.damaged_at.is_some() || len > loaded.end,
            ..ScheduleFaults::default()
        };
        let records = live_records(survey, standings, &mut faults);
        let is_wrong = faults.damaged || faults.moved + faults.lost > 0;
        let all_moves = rewritten && len > 0;
        if !is_wrong && !all_moves {
            return Ok(loaded.end);
        }
        let copy = match &file {
            Some(file) if faults.damaged => Some(self.copy_aside(file.as_ref())?),
            _ => None,
        };
        // The checkpoint that there is may rely on a length that the new file will not have.
        if !rewritten {
            let checkpoint = self.create(&self.paths.checkpoint)?;
            let interim = Checkpoint { retry_len: 0, ..standings.checkpoint };
            checkpoint::write_both(checkpoint.as_ref(), interim)?;
        }
        replace(self.disk, &path, |new| new.write_all_at(&records, 0))
            .map_err(|error| QueueError::io("rewrite", &path, &error))?;
        if let Some(copy) = copy {
            let text =
                format!("records that do not verify taken out; the file as it was is {copy}");
            self.note(&path, text);
        }
        if faults.moved > 0 && !rewritten {
            self.note(&path, format!("{} retry(s) set to where the message lies", faults.moved));
        }
        if faults.lost > 0 {
            let text = format!("{} retry(s) of messages that are not there taken out", faults.lost);
            self.note(&path, text);
        }
        Ok(records.len() as u64)
    }

    /// Sees to it that the next id is above every one that was ever given. Gives the first id for
    /// messages that get a new one.
    fn mend_sequence(
        &mut self,
        survey: &Survey,
        standings: &Standings,
    ) -> Result<MessageId, QueueError> {
        let path = self.paths.sequence.clone();
        let file = self.open(&path)?;
        let len = match &file {
            Some(file) => file.len().map_err(|error| QueueError::io("read", &path, &error))?,
            None => 0,
        };
        let found = match &file {
            Some(file) => Sequence::read(file.as_ref())?,
            None => None,
        };
        let highest = self.highest_id(survey, standings)?;
        let lowest_next = highest.map_or(MessageId::FIRST, MessageId::next);
        let lowest_next = lowest_next.max(standings.checkpoint.id);
        let wrong = match found {
            Some(found) => found.next_id < lowest_next || found.synced_end > survey.end.old,
            None => len > 0 || highest.is_some(),
        };
        let first_new = found.map_or(lowest_next, |found| found.next_id.max(lowest_next));
        if !wrong && !survey.needs_rewriting() {
            return Ok(first_new);
        }
        let file = self.create(&path)?;
        if found.is_none() && len > 0 {
            let copy = self.copy_aside(file.as_ref())?;
            self.note(&path, format!("was damaged; the file as it was is {copy}"));
        }
        let next_id = first_new.plus(survey.new_ids());
        Sequence { next_id, synced_end: 0 }.write(file.as_ref())?;
        file.sync().map_err(|error| QueueError::io("sync", &path, &error))?;
        if wrong {
            self.note(&path, format!("the next id set to {next_id}"));
        }
        Ok(first_new)
    }

    /// The highest id in any file.
    fn highest_id(
        &self,
        survey: &Survey,
        standings: &Standings,
    ) -> Result<Option<MessageId>, QueueError> {
        let mut highest = survey.highest.max(standings.loaded.highest);
        if let Some(file) = self.open(&self.paths.dlq)? {
            let index = dlq::index(file.as_ref())?;
            highest = highest.max(index.places.iter().map(|place| place.id).max());
        }
        if let Some(file) = self.open(&self.paths.acked)? {
            highest = highest.max(acked::read(file.as_ref())?.ids.into_iter().max());
        }
        Ok(highest)
    }

    /// Frees the slots that do not verify. The full ones stay: each is a crash that is still to be
    /// counted.
    pub(super) fn mend_slots(&mut self) -> Result<(), QueueError> {
        let file = self.worker.file();
        let path = file.path().to_path_buf();
        let states = slots::read(file)?;
        let damaged: Vec<usize> =
            (0..states.len()).filter(|number| states[*number] == Slot::Damaged).collect();
        if damaged.is_empty() {
            return Ok(());
        }
        let copy = self.copy_aside(file)?;
        for number in &damaged {
            let (offset, len) = slots::place(*number);
            file.write_all_at(&vec![0; len as usize], offset)
                .map_err(|error| QueueError::io("write", &path, &error))?;
        }
        file.sync().map_err(|error| QueueError::io("sync", &path, &error))?;
        let text = format!(
            "{} slot(s) that do not verify freed; the file as it was is {copy}",
            damaged.len()
        );
        self.note(&path, text);
        Ok(())
    }

    fn create(&self, path: &Path) -> Result<Box<dyn DiskFile>, QueueError> {
        self.disk.open(path, Open::Create).map_err(|error| QueueError::io("open", path, &error))
    }
}

/// Whether a checkpoint disagrees with the log or the schedule.
fn is_wrong(found: Checkpoint, survey: &Survey, standings: &Standings) -> bool {
    let points_at_message = survey.at_checkpoint.is_some_and(|id| id >= found.id);
    let hint_holds = found.offset == 0 || found.offset == survey.end.old || points_at_message;
    !hint_holds || standings.doubt.is_some()
}

/// The records that still say something, as `drain` keeps them.
fn live_records(survey: &Survey, standings: &Standings, faults: &mut ScheduleFaults) -> Vec<u8> {
    let rewritten = survey.needs_rewriting();
    let place_of = |id: &MessageId| {
        survey.places.get(id).map(|place| if rewritten { place.new } else { place.old })
    };
    let mut bytes = Vec::new();
    for retry in standings.loaded.schedule.values() {
        // A dead letter wins over a retry of the same message.
        if standings.dead.contains(&retry.id) {
            continue;
        }
        let Some(offset) = place_of(&retry.id) else {
            faults.lost += 1;
            continue;
        };
        faults.moved += usize::from(offset != retry.offset);
        Record::Scheduled(Scheduled { offset, ..*retry }).encode(&mut bytes);
    }
    for crashed in standings.loaded.crashes.values() {
        if let Some(offset) = place_of(&crashed.id) {
            Record::Crashed(Crashed { offset, ..*crashed }).encode(&mut bytes);
        }
    }
    for id in standings.loaded.done.range(standings.checkpoint.id..) {
        Record::Done(*id).encode(&mut bytes);
    }
    bytes
}
