//! How many connections may be open, how many are, and whether others wait.
//!
//! While others wait the pressure is high: idle connections are closed and the deadlines of the
//! others fall (`patience`), so that whoever holds connections open without using them cannot keep
//! out who would. Busy clients give their places up too, one for each that waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The connections of a door.
#[derive(Debug)]
pub(super) struct Capacity {
    max: usize,
    open: Mutex<usize>,
    ended: Condvar,
    high: AtomicBool,
    wanted: AtomicBool,
}

impl Capacity {
    /// Room for this many connections, at least one.
    pub(super) fn new(max: usize) -> Capacity {
        Capacity {
            max: max.max(1),
            open: Mutex::new(0),
            ended: Condvar::new(),
            high: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
        }
    }

    /// How many are open.
    pub(super) fn open(&self) -> usize {
        *self.lock()
    }

    /// Whether no more may be opened.
    pub(super) fn is_full(&self) -> bool {
        self.open() >= self.max
    }

    /// One more is open.
    pub(super) fn take(&self) {
        *self.lock() += 1;
    }

    /// One has ended.
    pub(super) fn release(&self) {
        *self.lock() -= 1;
        self.ended.notify_all();
    }

    /// Ends a wait for room.
    pub(super) fn interrupt(&self) {
        self.ended.notify_all();
    }

    /// Waits until fewer than so many are open or the wait is interrupted, but no longer than this.
    pub(super) fn wait(&self, seen: usize, within: Duration) {
        let open = self.lock();
        if *open >= seen {
            // However it ends, the caller looks at everything again.
            let _open = self.ended.wait_timeout(open, within);
        }
    }

    /// Others wait, and one connection should end for them.
    pub(super) fn press(&self) {
        self.wanted.store(true, Ordering::Relaxed);
        self.high.store(true, Ordering::Relaxed);
    }

    /// Nobody waits.
    pub(super) fn ease(&self) {
        self.high.store(false, Ordering::Relaxed);
        self.wanted.store(false, Ordering::Relaxed);
    }

    /// Whether others wait.
    pub(super) fn is_high(&self) -> bool {
        self.high.load(Ordering::Relaxed)
    }

    /// Whether the caller's connection should end for one that waits. Only one caller is told so
    /// for each.
    pub(super) fn must_yield(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Relaxed)
    }

    // A number is changed whole or not at all.
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_connection_yields_for_one_that_waits() {
        let capacity = Capacity::new(2);
        capacity.take();
        assert!(!capacity.is_full());
        capacity.take();
        assert!(capacity.is_full() && !capacity.is_high() && !capacity.must_yield());
        capacity.press();
        assert!(capacity.is_high());
        assert!(capacity.must_yield());
        assert!(!capacity.must_yield(), "one is enough");
        capacity.release();
        assert_eq!((capacity.open(), capacity.is_full()), (1, false));
        capacity.ease();
        assert!(!capacity.is_high());
    }
}
