//! Giving space back to the file system while a queue never drains.
//!
//! What is settled by the last *synced* checkpoint, and is no message that a retry needs, is
//! punched out of `segment.log`: from the end of one frame to the beginning of another, at least a
//! megabyte at a time, so that a hole reads as zeros between two sound frames. Offsets stay true.
//! The last settled frame always stays, so that whoever opens the log afresh finds a sound frame
//! behind the zeros and does not take them for its end.
//!
//! A hole need not be durable: what a power cut brings back is settled, and its ids say so.

use std::time::Duration;

use crate::base::limits::{RECLAIM_CHUNK, RECLAIM_INTERVAL};
use crate::queue::core::Owner;
use crate::queue::error::{QueueError, Report};
use crate::queue::schedule::Moment;
use crate::store::frame::{self, HEADER_LEN};

/// Whether zeros between frames (offset and length) are space that was given back: at the front of
/// the log, or a chunk and more of them below what is settled.
pub(crate) fn is_given_back((offset, len): (u64, u64), settled: Option<u64>) -> bool {
    let below = settled.is_some_and(|settled| offset.saturating_add(len) <= settled);
    offset == 0 || (len >= RECLAIM_CHUNK && below)
}

/// What has been given back, and when to look again.
#[derive(Debug)]
pub(crate) struct Space {
    /// The least that is given back at once, in bytes.
    pub(crate) chunk: u64,
    /// The limit of the last look.
    looked_to: u64,
    looked_at: Duration,
    /// The holes, by beginning and end.
    holes: Vec<(u64, u64)>,
    /// The file system has no holes.
    unsupported: bool,
}

impl Space {
    pub(crate) fn new(chunk: u64) -> Space {
        Space {
            chunk,
            looked_to: 0,
            looked_at: Duration::ZERO,
            holes: Vec::new(),
            unsupported: false,
        }
    }

    /// The log was emptied: there are no holes.
    pub(crate) fn reset(&mut self) {
        *self = Space { unsupported: self.unsupported, ..Space::new(self.chunk) };
    }

    /// A look costs a sort of the pending retries: it is due once a chunk more is settled, or, when
    /// retries may have let go of some, after a while.
    fn is_due(&self, limit: u64, now: Moment) -> bool {
        !self.unsupported
            && limit >= self.chunk
            && (limit >= self.looked_to + self.chunk
                || now.boot.saturating_sub(self.looked_at) >= RECLAIM_INTERVAL)
    }
}

impl Owner {
    /// Gives back what is settled and needed by no retry.
    ///
    /// # Errors
    /// A file that cannot be read or written. A file system without holes is reported once.
    pub(crate) fn reclaim(&mut self, now: Moment) -> Result<(), QueueError> {
        let limit = self.floor().offset.min(self.last_frame);
        if !self.space.is_due(limit, now) {
            return Ok(());
        }
        self.sync_checkpoint(now, true)?;
        self.space.looked_to = limit;
        self.space.looked_at = now.boot;
        let holes = self.find_holes(limit)?;
        for hole in &holes {
            if self.space.holes.contains(hole) {
                continue;
            }
            if let Err(error) = self.appender.file().punch(hole.0, hole.1 - hole.0) {
                self.note_unsupported(&error);
                return Ok(());
            }
        }
        self.space.holes = holes;
        Ok(())
    }

    /// The parts below `limit`, each a chunk or more, in which no retry has its message.
    fn find_holes(&self, limit: u64) -> Result<Vec<(u64, u64)>, QueueError> {
        let in_flight = self.flights.values().map(|flight| flight.delivery.offset);
        let mut needed: Vec<u64> = self.schedule.iter().map(|retry| retry.offset).collect();
        needed.extend(in_flight);
        needed.retain(|offset| *offset < limit);
        needed.sort_unstable();
        let mut holes = Vec::new();
        let mut from = 0;
        let mut previous = None;
        for next in needed.into_iter().chain([limit]) {
            if next.saturating_sub(from) >= self.space.chunk {
                if let Some(offset) = previous {
                    from = self.frame_end(offset)?;
                }
                if next.saturating_sub(from) >= self.space.chunk {
                    holes.push((from, next));
                }
            }
            from = next;
            previous = Some(next);
        }
        Ok(holes)
    }

    /// Where the frame ends that begins at this offset; it has verified before.
    fn frame_end(&self, offset: u64) -> Result<u64, QueueError> {
        let file = self.appender.file();
        let mut header = [0; HEADER_LEN];
        file.read_full_at(&mut header, offset)
            .map_err(|error| QueueError::io("read", file.path(), &error))?;
        // A header that is damaged by now protects all that could be its frame: nothing is punched
        // up to the next needed one.
        Ok(frame::announced_len(&header).map_or(u64::MAX, |len| offset + len))
    }

    fn note_unsupported(&mut self, error: &std::io::Error) {
        self.space.unsupported = true;
        self.reports.push(Report {
            path: self.appender.paths.segment.clone(),
            offset: 0,
            len: 0,
            text: format!(
                "the file system cannot give settled space back ({error}): the log shrinks only \
                 when the queue is drained"
            ),
        });
    }
}
