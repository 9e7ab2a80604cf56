//! A common bound on the bodies that are still arriving, over all connections of the door.
//!
//! Each has its own ceiling, and there can be thousands of them. What a body that is not whole yet
//! takes in memory counts against one budget; a body that would exceed it is refused with 503, and
//! gives its share back when it is dropped. Bodies that come in one piece are not counted: there is
//! one of them at a time for each event loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::limits::MAX_ARRIVING_BYTES;
use crate::http::error::HttpError;
use crate::worker::Refusal;

/// The budget of a door.
#[derive(Debug, Clone, Default)]
pub(super) struct Arrivals(Arc<AtomicUsize>);

/// What one body takes of it.
#[derive(Debug)]
pub(super) struct Share {
    of: Arrivals,
    bytes: usize,
}

impl Arrivals {
    /// A share of nothing yet.
    pub(super) fn share(&self) -> Share {
        Share { of: self.clone(), bytes: 0 }
    }
}

impl Share {
    /// Grows to so many bytes.
    ///
    /// # Errors
    /// 503: all bodies together would take more than [`MAX_ARRIVING_BYTES`]. The share is as it
    /// was.
    pub(super) fn grow_to(&mut self, bytes: usize) -> Result<(), HttpError> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let before = self.of.0.fetch_add(more, Ordering::Relaxed);
        if before.saturating_add(more) > MAX_ARRIVING_BYTES {
            self.of.0.fetch_sub(more, Ordering::Relaxed);
            let text = format!(
                "the bodies that are arriving take more than {MAX_ARRIVING_BYTES} bytes together; \
                 nothing of this one was stored"
            );
            return Err(HttpError::Refused(Refusal::Busy(text)));
        }
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_together_and_given_back() {
        let arrivals = Arrivals::default();
        let mut first = arrivals.share();
        first.grow_to(MAX_ARRIVING_BYTES - 10).unwrap();
        first.grow_to(5).unwrap();
        let mut second = arrivals.share();
        second.grow_to(10).unwrap();
        assert!(second.grow_to(11).is_err());
        assert!(second.grow_to(10).is_ok(), "what it has, it keeps");
        drop(first);
        assert!(second.grow_to(1000).is_ok());
        drop(second);
        assert_eq!(arrivals.0.load(Ordering::Relaxed), 0);
    }
}
