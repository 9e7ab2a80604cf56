//! Time as an argument: what a moment is, how it is written, and who tells it.
//!
//! A [`Timestamp`] is wall-clock time in milliseconds, and is what goes to the disk. A [`Clock`]
//! also has a boot clock, which no step of the wall clock moves and which goes on counting while
//! the machine is suspended; waits in a running process are measured with it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

/// A moment of the wall clock, in milliseconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The moment so many milliseconds after 1970 UTC.
    pub fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis)
    }

    /// Milliseconds since 1970 UTC.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// This moment and so many milliseconds, kept within what the type holds.
    pub fn plus_millis(self, millis: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(millis).unwrap_or(i64::MAX)))
    }

    /// Milliseconds from `earlier` to this moment; 0 when `earlier` is later.
    pub fn millis_since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// RFC 3339 in UTC with whole seconds: `2026-08-09T14:02:11Z`.
    pub fn to_seconds_text(self) -> String {
        self.text(SecondsFormat::Secs)
    }

    /// RFC 3339 in UTC with milliseconds: `2026-08-09T14:02:11.250Z`.
    pub fn to_millis_text(self) -> String {
        self.text(SecondsFormat::Millis)
    }

    /// The date of an HTTP message (RFC 9110, 5.6.7): `Sun, 09 Aug 2026 14:02:11 GMT`.
    pub fn to_http_date(self) -> String {
        match DateTime::<Utc>::from_timestamp_millis(self.0) {
            Some(time) => time.format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
            None => String::from("Thu, 01 Jan 1970 00:00:00 GMT"),
        }
    }

    /// The moment that an HTTP date such as `Sun, 06 Nov 1994 08:49:37 GMT` names.
    pub fn from_http_date(text: &str) -> Option<Timestamp> {
        let date = DateTime::parse_from_rfc2822(text).ok()?;
        Some(Timestamp(date.timestamp_millis()))
    }

    fn text(self, format: SecondsFormat) -> String {
        match DateTime::<Utc>::from_timestamp_millis(self.0) {
            Some(time) => time.to_rfc3339_opts(format, true),
            None => format!("{} ms after 1970", self.0),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_millis_text())
    }
}

/// Who tells the time.
pub trait Clock: Send + Sync {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// Time since some fixed moment before the process began. Never steps, and counts while the
    /// machine is suspended.
    fn boot(&self) -> Duration;
}

/// The machine's own clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let millis = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
        };
        Timestamp(millis)
    }

    fn boot(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        // The kernel never gives a negative boot time, nor a second or more of nanoseconds.
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_the_document_shows_them() {
        let moment = Timestamp::from_millis(1_786_284_131_250);
        assert_eq!(moment.to_seconds_text(), "2026-08-09T14:02:11Z");
        assert_eq!(moment.to_millis_text(), "2026-08-09T14:02:11.250Z");
        assert_eq!(moment.to_http_date(), "Sun, 09 Aug 2026 14:02:11 GMT");
    }

    #[test]
    fn an_http_date_is_read() {
        let moment = Timestamp::from_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(moment.to_seconds_text(), "1994-11-06T08:49:37Z");
        assert_eq!(Timestamp::from_http_date("soon"), None);
    }

    #[test]
    fn arithmetic_saturates() {
        let last = Timestamp::from_millis(i64::MAX);
        assert_eq!(last.plus_millis(u64::MAX), last);
        assert_eq!(Timestamp::from_millis(5).millis_since(last), 0);
        assert!(last.to_seconds_text().contains("ms after 1970"));
    }

    #[test]
    fn the_boot_clock_goes_forward() {
        let clock = SystemClock;
        let before = clock.boot();
        assert!(clock.boot() >= before);
        assert!(clock.now() > Timestamp::from_millis(0));
    }
}
