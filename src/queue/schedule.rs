//! The pending retries in memory, by when they are due.
//!
//! Due times are wall-clock on the disk. While a process runs it waits by the boot clock from the
//! moment of scheduling, so that a step of the wall clock neither freezes nor releases retries, and
//! a suspended machine counts.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::base::{MessageId, Timestamp};
use crate::queue::retry::Scheduled;

/// Both clocks, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// The boot clock.
    pub boot: Duration,
}

impl Moment {
    fn boot_millis(self) -> i64 {
        i64::try_from(self.boot.as_millis()).unwrap_or(i64::MAX)
    }
}

/// The pending retries.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// By boot clock in milliseconds (negative for what was due before the machine started), then
    /// by id.
    by_due: BTreeMap<(i64, MessageId), Scheduled>,
    due_of: HashMap<MessageId, i64>,
}

impl Schedule {
    /// Adds a retry. One whose due time lies further ahead than its own delay is due after that
    /// delay: the wall clock was stepped back since it was scheduled.
    pub(crate) fn insert(&mut self, retry: Scheduled, now: Moment) {
        self.remove(retry.id);
        let ahead = retry.due.as_millis().saturating_sub(now.wall.as_millis());
        let longest = i64::try_from(retry.delay_ms).unwrap_or(i64::MAX);
        let due = now.boot_millis().saturating_add(ahead.min(longest));
        self.due_of.insert(retry.id, due);
        self.by_due.insert((due, retry.id), retry);
    }

    pub(crate) fn remove(&mut self, id: MessageId) -> Option<Scheduled> {
        let due = self.due_of.remove(&id)?;
        self.by_due.remove(&(due, id))
    }

    /// The retry that has been due the longest, left where it is.
    pub(crate) fn first_due(&self, now: Moment) -> Option<Scheduled> {
        let ((due, _), retry) = self.by_due.first_key_value()?;
        (*due <= now.boot_millis()).then_some(*retry)
    }

    /// How long until the next one is due; zero when one is.
    pub(crate) fn until_next(&self, now: Moment) -> Option<Duration> {
        let ((due, _), _) = self.by_due.first_key_value()?;
        let millis = u64::try_from(due.saturating_sub(now.boot_millis())).unwrap_or(0);
        Some(Duration::from_millis(millis))
    }

    pub(crate) fn contains(&self, id: MessageId) -> bool {
        self.due_of.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_due.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_due.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Scheduled> {
        self.by_due.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retry(id: u64, due: i64, delay_ms: u64) -> Scheduled {
        let due = Timestamp::from_millis(due);
        Scheduled { id: MessageId::new(id).unwrap(), offset: 0, attempt: 2, due, delay_ms }
    }

    fn at(wall: i64, boot_ms: u64) -> Moment {
        Moment { wall: Timestamp::from_millis(wall), boot: Duration::from_millis(boot_ms) }
    }

    #[test]
    fn a_step_of_the_wall_clock_moves_nothing() {
        let mut schedule = Schedule::default();
        schedule.insert(retry(1, 11_000, 1000), at(10_000, 50));
        for wall in [0, 10_000, 99_000_000] {
            assert_eq!(schedule.first_due(at(wall, 1049)), None);
            assert_eq!(schedule.until_next(at(wall, 50)), Some(Duration::from_secs(1)));
            assert!(schedule.first_due(at(wall, 1050)).is_some());
        }
    }

    #[test]
    fn overdue_ones_come_at_once_oldest_first_and_a_far_one_is_clamped_to_its_delay() {
        let mut schedule = Schedule::default();
        let start = at(100_000, 5);
        schedule.insert(retry(1, 99_000, 60_000), start);
        schedule.insert(retry(2, 40_000, 60_000), start);
        schedule.insert(retry(3, 999_000_000, 500), start);
        let mut order = Vec::new();
        while let Some(due) = schedule.first_due(at(100_000, 505)) {
            order.push(due.id.get());
            schedule.remove(due.id);
        }
        assert_eq!(order, [2, 1, 3]);
        assert!(schedule.is_empty());
    }

    #[test]
    fn a_retry_that_is_scheduled_again_is_there_once() {
        let mut schedule = Schedule::default();
        schedule.insert(retry(1, 1000, 1000), at(0, 0));
        schedule.insert(retry(1, 5000, 5000), at(0, 0));
        assert_eq!(schedule.len(), 1);
        assert_eq!(schedule.until_next(at(0, 0)), Some(Duration::from_secs(5)));
    }
}
