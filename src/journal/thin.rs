//! Repeated complaints, thinned: some lines a second for one cause, then none, with the number
//! left out on the first line of the next second.
//!
//! A pure decision over causes (hashes) and times, so that an hour of a dead downstream fills no
//! disk. Not here: what makes two events one cause (`event`).

use std::collections::HashMap;
use std::time::Duration;

use crate::base::limits::{MAX_THINNED_CAUSES, REPEAT_INTERVAL, REPEAT_LINES};

/// What was said when, for each cause.
#[derive(Debug, Default)]
pub struct Thinner {
    said: HashMap<u64, Said>,
}

#[derive(Debug)]
struct Said {
    /// When the first of this second's lines was written.
    since: Duration,
    lines: u32,
    left_out: u64,
}

impl Thinner {
    /// Whether an event of this cause is to be written now; the number is how many were left out
    /// before it. `now` is boot time.
    pub fn admit(&mut self, cause: u64, now: Duration) -> Option<u64> {
        if let Some(said) = self.said.get_mut(&cause) {
            if now.saturating_sub(said.since) >= REPEAT_INTERVAL {
                said.since = now;
                said.lines = 1;
                return Some(std::mem::take(&mut said.left_out));
            }
            if said.lines < REPEAT_LINES {
                said.lines += 1;
                return Some(0);
            }
            said.left_out += 1;
            return None;
        }
        if self.said.len() >= MAX_THINNED_CAUSES {
            self.said.retain(|_, said| now.saturating_sub(said.since) < REPEAT_INTERVAL);
        }
        // More causes than that within one second: each is new, and is written without being
        // remembered.
        if self.said.len() < MAX_THINNED_CAUSES {
            self.said.insert(cause, Said { since: now, lines: 1, left_out: 0 });
        }
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_lines_a_second_for_one_cause_then_the_number_left_out() {
        let mut thinner = Thinner::default();
        let at = |millis| Duration::from_millis(millis);
        for _ in 0..REPEAT_LINES {
            assert_eq!(thinner.admit(1, at(0)), Some(0));
        }
        assert_eq!(thinner.admit(1, at(1)), None);
        assert_eq!(thinner.admit(2, at(2)), Some(0), "another cause has its own second");
        assert_eq!(thinner.admit(1, at(999)), None);
        assert_eq!(thinner.admit(1, at(1000)), Some(2));
        assert_eq!(thinner.admit(1, at(2000)), Some(0));
    }

    #[test]
    fn memory_is_bounded_and_a_new_cause_is_never_held_back() {
        let mut thinner = Thinner::default();
        for cause in 0..(2 * MAX_THINNED_CAUSES as u64) {
            assert_eq!(thinner.admit(cause, Duration::ZERO), Some(0));
        }
        assert_eq!(thinner.said.len(), MAX_THINNED_CAUSES);
        assert_eq!(thinner.admit(u64::MAX, REPEAT_INTERVAL), Some(0));
        assert_eq!(thinner.said.len(), 1, "old causes make room");
    }
}
