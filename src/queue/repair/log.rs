//! Mends `segment.log`: torn ends are cut; with damage in the middle the log is written anew from
//! its sound messages, which then lie at other places.
//!
//! A message whose id does not follow the ids before it would never be delivered. It is put at the
//! end under a new id, as a replay is: it may have been delivered already, and is not lost.

use std::collections::HashMap;
use std::io;

use crate::base::MessageId;
use crate::disk::{DiskFile, Open};
use crate::queue::error::QueueError;
use crate::queue::inspect::{Standing, Standings};
use crate::queue::message::read_message;
use crate::queue::message::{KIND_MESSAGE, Message, NewMessage, Origin};
use crate::queue::repair::Repair;
use crate::queue::repair::dead_letters::copy_ranges;
use crate::queue::space::is_given_back;
use crate::queue::{checkpoint, corrupt};
use crate::store::replace::replace;
use crate::store::scan::{Item, Scanner};

/// Where something lies in the log as it is, and where in one without its damage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub old: u64,
    pub new: u64,
}

/// What the log holds.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Ranges of sound messages in the order of their ids; neighbours are one range.
    sound: Vec<(u64, u64)>,
    /// Ranges that are no message, with sound ones behind them.
    bad: Vec<(u64, u64)>,
    /// Bytes of zeros with sound messages behind them: there is nothing of them to keep.
    zeros: u64,
    /// What is torn behind the last message.
    tail: Option<(u64, u64)>,
    /// Messages that do not follow the ids before them.
    displaced: Vec<(u64, MessageId)>,
    last: Option<MessageId>,
    /// The highest id in the log.
    pub highest: Option<MessageId>,
    /// Where the messages lie that are scheduled or have crashed.
    pub places: HashMap<MessageId, Place>,
    /// The lowest id that is not settled.
    lowest_open: Option<MessageId>,
    /// Where the first message lies that is not below the checkpoint.
    pub first_open: Option<Place>,
    /// The message at the place that the checkpoint names.
    pub at_checkpoint: Option<MessageId>,
    /// The end of the last message.
    pub end: Place,
}

impl Survey {
    /// Reads the log.
    pub(super) fn read(
        file: &dyn DiskFile,
        standings: &Standings,
        checkpoint_offset: Option<u64>,
    ) -> Result<Survey, QueueError> {
        let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
        let mut survey = Survey::default();
        let mut scanner = Scanner::default();
        loop {
            let item = scanner.next(file, len);
            match item.map_err(|error| QueueError::scan(file.path(), &error))? {
                None => return Ok(survey),
                Some(Item::Gap { offset, len, zeros: true })
                    if is_given_back((offset, len), checkpoint_offset) => {}
                Some(Item::Gap { len, zeros: true, .. }) => survey.zeros += len,
                Some(Item::Gap { offset, len, .. }) => survey.bad.push((offset, len)),
                // Space that was taken ahead.
                Some(Item::Zeros { .. }) => {}
                Some(Item::Tail { offset, len }) => survey.tail = Some((offset, len)),
                Some(Item::Frame { offset, len, frame }) => {
                    let message = Some(frame).filter(|frame| frame.kind == KIND_MESSAGE);
                    match message.and_then(|frame| Message::decode(frame.body)) {
                        None => survey.bad.push((offset, len)),
                        Some(message) => {
                            survey.note(message.id, (offset, len), standings, checkpoint_offset);
                        }
                    }
                }
            }
        }
    }

    fn note(
        &mut self,
        id: MessageId,
        (offset, len): (u64, u64),
        standings: &Standings,
        checkpoint_offset: Option<u64>,
    ) {
        self.highest = self.highest.max(Some(id));
        if Some(id) <= self.last {
            self.displaced.push((offset, id));
            return;
        }
        self.last = Some(id);
        let place = Place { old: offset, new: self.end.new };
        self.end = Place { old: offset + len, new: place.new + len };
        match self.sound.last_mut() {
            Some((start, total)) if *start + *total == offset => *total += len,
            _ => self.sound.push((offset, len)),
        }
        let loaded = &standings.loaded;
        if loaded.schedule.contains_key(&id) || loaded.crashes.contains_key(&id) {
            self.places.insert(id, place);
        }
        if standings.of(id) != Standing::Settled {
            self.lowest_open.get_or_insert(id);
        }
        if id >= standings.checkpoint.id {
            self.first_open.get_or_insert(place);
        }
        if checkpoint_offset == Some(offset) {
            self.at_checkpoint = Some(id);
        }
    }

    /// Whether the log has to be written anew.
    pub(super) fn needs_rewriting(&self) -> bool {
        !self.bad.is_empty() || self.zeros > 0 || !self.displaced.is_empty()
    }

    /// How many ids are to be given anew.
    pub(super) fn new_ids(&self) -> u64 {
        self.displaced.len() as u64
    }

    /// The first id that is not settled: no checkpoint may pass it.
    pub(super) fn floor(&self, standings: &Standings) -> MessageId {
        let next = self.highest.map_or(MessageId::FIRST, MessageId::next);
        self.lowest_open.unwrap_or(next.max(standings.checkpoint.id))
    }
}

impl Repair<'_> {
    /// Copies everything aside that is to go.
    pub(super) fn keep_damage_of_log(
        &self,
        file: &dyn DiskFile,
        survey: &Survey,
    ) -> Result<(), QueueError> {
        for range in survey.bad.iter().copied().chain(survey.tail) {
            corrupt::keep_all_aside(self.disk, &self.paths.corrupt, file, range)?;
        }
        Ok(())
    }

    /// Cuts what stands behind the last message.
    pub(super) fn cut_log(
        &mut self,
        file: &dyn DiskFile,
        survey: &Survey,
    ) -> Result<(), QueueError> {
        let Some((offset, len)) = survey.tail else { return Ok(()) };
        let path = self.paths.segment.clone();
        file.set_len(offset)
            .and_then(|()| file.sync())
            .map_err(|error| QueueError::io("cut", &path, &error))?;
        self.note(&path, torn(len));
        Ok(())
    }

    /// Writes the log anew. Until the schedule and the checkpoint follow, the checkpoint says what
    /// holds in any case: that nothing from the first open message on is settled.
    pub(super) fn rewrite_log(
        &mut self,
        file: &dyn DiskFile,
        survey: &Survey,
        standings: &Standings,
        next_id: MessageId,
    ) -> Result<(), QueueError> {
        let path = self.paths.segment.clone();
        let id = survey.floor(standings);
        let checkpoint = self
            .disk
            .open(&self.paths.checkpoint, Open::Create)
            .map_err(|error| QueueError::io("open", &self.paths.checkpoint, &error))?;
        let interim = checkpoint::Checkpoint { offset: 0, id, retry_len: 0 };
        checkpoint::write_both(checkpoint.as_ref(), interim)?;
        replace(self.disk, &path, |new| {
            copy_ranges(file, &survey.sound, new)?;
            append_displaced(file, &survey.displaced, new, survey.end.new, next_id)
        })
        .map_err(|error| QueueError::io("rewrite", &path, &error))?;
        if !survey.bad.is_empty() {
            let bytes: u64 = survey.bad.iter().map(|(_, len)| len).sum();
            let text = format!(
                "{} range(s) of {bytes} byte(s) that are no message taken out; \
                 they are kept in segment.log.corrupt",
                survey.bad.len()
            );
            self.note(&path, text);
        }
        if survey.zeros > 0 {
            self.note(&path, format!("{} zero byte(s) between messages taken out", survey.zeros));
        }
        if !survey.displaced.is_empty() {
            let text = format!(
                "{} message(s) that did not follow the ids before them put at the end, \
                 under new ids from {next_id}",
                survey.displaced.len()
            );
            self.note(&path, text);
        }
        if let Some((_, len)) = survey.tail {
            self.note(&path, torn(len));
        }
        Ok(())
    }
}

fn torn(len: u64) -> String {
    format!("{len} torn byte(s) at its end cut; they are kept in segment.log.corrupt")
}

fn append_displaced(
    from: &dyn DiskFile,
    displaced: &[(u64, MessageId)],
    to: &dyn DiskFile,
    mut end: u64,
    mut next_id: MessageId,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (offset, id) in displaced {
        let message = read_message(from, *offset, *id).map_err(io::Error::other)?;
        let gone = || io::Error::other(format!("message {id} can no longer be read"));
        let message = message.ok_or_else(gone)?;
        let again = NewMessage {
            payload: message.payload,
            correlation_id: message.correlation_id,
            origin: Some(Origin { first_id: message.first_id, replays: message.replays }),
        };
        bytes.clear();
        again.encode(next_id, message.enqueued_at, &mut bytes);
        to.write_all_at(&bytes, end)?;
        end += bytes.len() as u64;
        next_id = next_id.next();
    }
    Ok(())
}
