//! Mends `dlq.log` and its marks, and the copies in `segment.log.corrupt`.

use std::collections::HashSet;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::base::MessageId;
use crate::disk::DiskFile;
use crate::queue::error::QueueError;
use crate::queue::repair::Repair;
use crate::queue::{acked, corrupt, dlq};
use crate::store::frame::Frame;
use crate::store::replace::{copy_range, replace};
use crate::store::scan::{Item, Scanner};

/// What of a file of frames stays.
#[derive(Default)]
struct Kept {
    /// Offset and length; neighbours are one range.
    ranges: Vec<(u64, u64)>,
    /// How many frames those are.
    frames: usize,
    /// How many places do not stay.
    dropped: usize,
}

impl Repair<'_> {
    pub(super) fn mend_kept_aside(&mut self) -> Result<(), QueueError> {
        let path = self.paths.corrupt.clone();
        let mut accept = |frame: &Frame<'_>| corrupt::kept(frame).is_some();
        self.mend_frames(&path, "place", &mut accept)
    }

    /// The letters first: a mark counts only for one that is there.
    pub(super) fn mend_dead_letters(&mut self) -> Result<(), QueueError> {
        let mut ids = HashSet::new();
        let path = self.paths.dlq.clone();
        let mut accept =
            |frame: &Frame<'_>| dlq::letter(frame).is_some_and(|letter| ids.insert(letter.id));
        self.mend_frames(&path, "dead letter", &mut accept)?;
        self.mend_marks(&ids)
    }

    /// Rewrites a file of frames without what is not accepted.
    fn mend_frames(
        &mut self,
        path: &Path,
        what: &str,
        accept: &mut dyn FnMut(&Frame<'_>) -> bool,
    ) -> Result<(), QueueError> {
        let Some(file) = self.open(path)? else { return Ok(()) };
        let kept = survey(file.as_ref(), accept)?;
        if kept.dropped == 0 {
            return Ok(());
        }
        let copy = self.copy_aside(file.as_ref())?;
        replace(self.disk, path, |new| copy_ranges(file.as_ref(), &kept.ranges, new))
            .map_err(|error| QueueError::io("rewrite", path, &error))?;
        let text = format!(
            "{} damaged {what}(s) taken out, {} kept; the file as it was is {copy}",
            kept.dropped, kept.frames
        );
        self.note(path, text);
        Ok(())
    }

    /// Rewrites the marks without those that do not verify or mark nothing.
    fn mend_marks(&mut self, letters: &HashSet<MessageId>) -> Result<(), QueueError> {
        let path = self.paths.acked.clone();
        let Some(file) = self.open(&path)? else { return Ok(()) };
        let mut kept = Vec::new();
        let mut dropped = 0_usize;
        acked::for_each(file.as_ref(), &mut |(_, _, id)| {
            match id.filter(|id| letters.contains(id)) {
                Some(id) => kept.extend_from_slice(&acked::encode(id)),
                None => dropped += 1,
            }
            ControlFlow::Continue(())
        })?;
        if dropped == 0 {
            return Ok(());
        }
        let copy = self.copy_aside(file.as_ref())?;
        replace(self.disk, &path, |new| new.write_all_at(&kept, 0))
            .map_err(|error| QueueError::io("rewrite", &path, &error))?;
        let text = format!(
            "{dropped} mark(s) that do not verify or mark nothing taken out; \
             the file as it was is {copy}"
        );
        self.note(&path, text);
        Ok(())
    }
}

fn survey(
    file: &dyn DiskFile,
    accept: &mut dyn FnMut(&Frame<'_>) -> bool,
) -> Result<Kept, QueueError> {
    let len = file.len().map_err(|error| QueueError::io("read", file.path(), &error))?;
    let mut kept = Kept::default();
    let mut scanner = Scanner::default();
    loop {
        let item = scanner.next(file, len);
        match item.map_err(|error| QueueError::scan(file.path(), &error))? {
            None => return Ok(kept),
            Some(Item::Frame { offset, len, frame }) if accept(&frame) => {
                kept.frames += 1;
                match kept.ranges.last_mut() {
                    Some((start, total)) if *start + *total == offset => *total += len,
                    _ => kept.ranges.push((offset, len)),
                }
            }
            Some(_) => kept.dropped += 1,
        }
    }
}

/// Copies ranges of a file one behind the other into a new one.
pub(super) fn copy_ranges(
    from: &dyn DiskFile,
    ranges: &[(u64, u64)],
    to: &dyn DiskFile,
) -> io::Result<()> {
    let mut at = 0;
    for range in ranges {
        at += copy_range(from, *range, to, at)?;
    }
    Ok(())
}
