//! `dlq.log` and its marks, and the copies in `segment.log.corrupt`.
//!
//! Read without a lock; if anything is found, read again under the lock of those who write there,
//! and only that second reading counts.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::base::MessageId;
use crate::disk::{DiskFile, Open};
use crate::queue::acked;
use crate::queue::corrupt;
use crate::queue::dlq::{self, open_existing};
use crate::queue::error::QueueError;
use crate::queue::finding::{Finding, Findings};
use crate::queue::verify::{Queue, name_of};
use crate::store::frame::Frame;
use crate::store::scan::{Item, Scanner};

/// What the dead letters and their marks say.
#[derive(Debug, Default)]
pub(super) struct LetterFacts {
    /// The ids of all sound dead letters.
    pub ids: BTreeSet<MessageId>,
    /// The highest id that is marked as handled.
    pub highest_mark: Option<MessageId>,
}

impl Queue<'_> {
    pub(super) fn read_dead_letters(&self, findings: &mut Findings) -> LetterFacts {
        let read = self.letters_once().and_then(|(facts, found)| match found.is_empty() {
            true => Ok((facts, found)),
            false => self.under(&self.paths.dlq_lock, || self.letters_once()),
        });
        match read {
            Ok((facts, found)) => {
                findings.extend(found);
                facts
            }
            Err(error) => {
                findings.push(Finding::fault(name_of(&self.paths.dlq), None, error.text));
                LetterFacts::default()
            }
        }
    }

    fn letters_once(&self) -> Result<(LetterFacts, Findings), QueueError> {
        let mut facts = LetterFacts::default();
        let mut findings = Findings::default();
        // The marks first, as every reader of both does (`dlq`).
        let marks = self.read_marks(&mut findings)?;
        let name = name_of(&self.paths.dlq);
        if let Some(file) = open_existing(self.disk.as_ref(), &self.paths.dlq, Open::Read)? {
            let ids = &mut facts.ids;
            read_frames(file.as_ref(), name, &mut findings, &mut |frame| {
                let letter = dlq::letter(frame).ok_or("a sound frame that is no dead letter")?;
                let fresh = ids.insert(letter.id);
                if fresh { Ok(()) } else { Err("a dead letter whose id came before") }
            })?;
        }
        facts.highest_mark = marks.last().copied();
        let marks_name = name_of(&self.paths.acked);
        for id in marks.difference(&facts.ids) {
            let text = format!("marks dead letter {id}, which is not there");
            findings.push(Finding::fault(marks_name, None, text));
        }
        Ok((facts, findings))
    }

    fn read_marks(&self, findings: &mut Findings) -> Result<BTreeSet<MessageId>, QueueError> {
        let mut marks = BTreeSet::new();
        let path = &self.paths.acked;
        let Some(file) = open_existing(self.disk.as_ref(), path, Open::Read)? else {
            return Ok(marks);
        };
        acked::for_each(file.as_ref(), &mut |(offset, len, id)| {
            match id {
                Some(id) => drop(marks.insert(id)),
                None => {
                    let text = "a mark that does not verify and does not count";
                    findings.push(Finding::fault(name_of(path), Some((offset, len)), text));
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(marks)
    }

    /// `segment.log.corrupt`: written under `append.lock`, read by nobody but a person.
    pub(super) fn read_kept_aside(&self, findings: &mut Findings) {
        let read = self.kept_aside_once().and_then(|found| match found.is_empty() {
            true => Ok(found),
            false => self.under(&self.paths.append_lock, || self.kept_aside_once()),
        });
        match read {
            Ok(found) => findings.extend(found),
            Err(error) => {
                findings.push(Finding::fault(name_of(&self.paths.corrupt), None, error.text));
            }
        }
    }

    fn kept_aside_once(&self) -> Result<Findings, QueueError> {
        let mut findings = Findings::default();
        let path = &self.paths.corrupt;
        if let Some(file) = open_existing(self.disk.as_ref(), path, Open::Read)? {
            read_frames(file.as_ref(), name_of(path), &mut findings, &mut |frame| {
                corrupt::kept(frame).map(|_| ()).ok_or("a sound frame that is no kept gap")
            })?;
        }
        Ok(findings)
    }
}

/// Reads a file of frames and notes what is none, and what `accept` says of those that are.
fn read_frames(
    file: &dyn DiskFile,
    name: &str,
    findings: &mut Findings,
    accept: &mut dyn FnMut(&Frame<'_>) -> Result<(), &'static str>,
) -> Result<(), QueueError> {
    let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
    let mut scanner = Scanner::default();
    loop {
        let item = scanner.next(file, len);
        let finding = match item.map_err(|error| QueueError::scan(file.path(), &error))? {
            None => return Ok(()),
            Some(Item::Frame { offset, len, frame }) => match accept(&frame) {
                Ok(()) => continue,
                Err(text) => Finding::fault(name, Some((offset, len)), text),
            },
            Some(Item::Gap { offset, len, .. }) => {
                Finding::fault(name, Some((offset, len)), "bytes that do not verify")
            }
            Some(Item::Tail { offset, len }) => {
                Finding::fault(name, Some((offset, len)), "the end is torn")
            }
            Some(Item::Zeros { offset, len }) => {
                Finding::note(name, Some((offset, len)), "zeros at the end, which are no data")
            }
        };
        findings.push(finding);
    }
}
