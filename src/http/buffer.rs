//! A connection's input: the bytes that have arrived and are not used yet.
//!
//! As long as the longest head, and one for each acceptor, used again for each connection. Heads
//! are parsed in it and point into it; what lies behind a request stays in it for the next.

use crate::base::limits::MAX_HEAD_BYTES;

/// What has arrived behind a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// It is what remains of the bytes ahead after so many.
    Ahead(usize),
    /// It is these bytes.
    Bytes(Vec<u8>),
}

impl Rest {
    /// The same rest, counted from the start of the head.
    pub(super) fn after_head(self, head: usize) -> Rest {
        match self {
            Rest::Ahead(body) => Rest::Ahead(head + body),
            bytes => bytes,
        }
    }
}

/// The bytes that have arrived and are not used yet. As long as the longest head, once for each
/// acceptor.
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// An empty one.
    pub(super) fn new() -> Buffer {
        Buffer { bytes: vec![0; MAX_HEAD_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }

    /// What is there.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Nothing is there.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// As much is there as fits.
    pub(super) fn is_full(&self) -> bool {
        self.end - self.start == self.bytes.len()
    }

    /// Where more bytes can go. Empty only when the buffer is full.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }

    /// So many bytes have been put where there was space: they are given back.
    pub(super) fn grow(&mut self, len: usize) -> &[u8] {
        let fresh = self.end..self.end + len;
        self.end = fresh.end;
        &self.bytes[fresh]
    }

    /// Drops everything but what lies behind a request.
    pub(super) fn keep(&mut self, rest: Rest) {
        match rest {
            Rest::Ahead(used) => self.start += used,
            Rest::Bytes(bytes) => {
                // It fits: a decoder's input is at most the bytes of one head, and some of them
                // were the body's.
                let len = bytes.len();
                self.bytes[..len].copy_from_slice(&bytes);
                (self.start, self.end) = (0, len);
            }
        }
        if self.is_empty() {
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(buffer: &mut Buffer, bytes: &[u8]) {
        buffer.space()[..bytes.len()].copy_from_slice(bytes);
        assert_eq!(buffer.grow(bytes.len()), bytes);
    }

    #[test]
    fn what_lies_behind_a_request_stays() {
        let mut buffer = Buffer::new();
        put(&mut buffer, b"HEADbodyHE");
        buffer.keep(Rest::Ahead(4).after_head(4));
        assert_eq!(buffer.unread(), b"HE");
        put(&mut buffer, b"AD");
        assert_eq!(buffer.unread(), b"HEAD");
        buffer.keep(Rest::Bytes(b"X".to_vec()).after_head(4));
        assert_eq!(buffer.unread(), b"X");
        buffer.keep(Rest::Ahead(0).after_head(1));
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_full_buffer_has_no_space_until_something_is_used() {
        let mut buffer = Buffer::new();
        let len = buffer.space().len();
        assert_eq!(len, MAX_HEAD_BYTES);
        buffer.grow(len);
        assert!(buffer.is_full());
        assert!(buffer.space().is_empty());
        buffer.keep(Rest::Ahead(len - 1));
        assert_eq!(buffer.space().len(), len - 1);
    }
}
