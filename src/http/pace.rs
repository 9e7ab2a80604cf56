//! How slow a transfer may be: a body that comes in, or an answer that goes out.
//!
//! At least 1 KiB/s after the first 10 s. Bytes buy time, but never more than the grace ahead of
//! now: a burst cannot buy a long silence. While other connections wait for an acceptor, a silence
//! of one second ends the transfer, and so does a rate below 1 KiB/s after the first second.

use std::time::Duration;

use crate::base::limits::MIN_TRANSFER_RATE;

/// The measure of one transfer. All moments are of the boot clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    started: Duration,
    last: Duration,
    deadline: Duration,
    bytes: u64,
    grace: Duration,
}

impl Pace {
    /// A transfer that begins now.
    pub(super) fn start(now: Duration, grace: Duration) -> Pace {
        Pace { started: now, last: now, deadline: now + grace, bytes: 0, grace }
    }

    /// So many bytes have moved.
    pub(super) fn moved(&mut self, now: Duration, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes);
        self.last = now;
        self.deadline = (self.deadline + time_for(bytes)).min(now + self.grace);
    }

    /// When it will have fallen behind if nothing moves.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether the transfer has fallen behind. `pressed` is the deadline that holds while others
    /// wait.
    pub(super) fn is_too_slow(&self, now: Duration, pressed: Option<Duration>) -> bool {
        if now > self.deadline {
            return true;
        }
        let Some(limit) = pressed else { return false };
        now.saturating_sub(self.last) >= limit
            || now.saturating_sub(self.started) >= limit + time_for(self.bytes)
    }
}

/// The time that so many bytes are allowed to take.
fn time_for(bytes: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1000) / MIN_TRANSFER_RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);
    const PRESSED: Option<Duration> = Some(Duration::from_secs(1));

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(1000 + seconds)
    }

    #[test]
    fn silence_is_granted_for_the_grace_and_no_longer() {
        let pace = Pace::start(at(0), GRACE);
        assert!(!pace.is_too_slow(at(10), None));
        assert!(pace.is_too_slow(at(11), None));
    }

    #[test]
    fn a_transfer_at_the_lowest_rate_goes_on_for_ever() {
        let mut pace = Pace::start(at(0), GRACE);
        for second in 1..10_000 {
            assert!(!pace.is_too_slow(at(second), None));
            pace.moved(at(second), 1024);
        }
    }

    #[test]
    fn one_byte_at_a_time_is_cut() {
        let mut pace = Pace::start(at(0), GRACE);
        let cut = (1..100).find(|second| {
            pace.moved(at(*second), 1);
            pace.is_too_slow(at(*second), None)
        });
        assert_eq!(cut, Some(11));
    }

    #[test]
    fn a_burst_buys_no_more_than_the_grace() {
        let mut pace = Pace::start(at(0), GRACE);
        pace.moved(at(1), 100 << 20);
        assert!(!pace.is_too_slow(at(11), None));
        assert!(pace.is_too_slow(at(12), None));
    }

    #[test]
    fn while_others_wait_a_second_without_progress_is_enough() {
        let mut pace = Pace::start(at(0), GRACE);
        pace.moved(at(0), 100 << 10);
        assert!(!pace.is_too_slow(at(0), PRESSED));
        assert!(pace.is_too_slow(at(1), PRESSED));

        let mut drip = Pace::start(at(0), GRACE);
        drip.moved(at(1), 1);
        drip.moved(at(2), 1);
        assert!(drip.is_too_slow(at(2), PRESSED), "progress, but below the rate");
    }
}
