//! The body of a request: collected as it comes, and only under the ceiling of who asked for it.
//!
//! One that comes in pieces is counted among those that are arriving (`arrivals`).
//!
//! Promises: a length above the ceiling is refused unread; memory grows with what has arrived, not
//! with what was announced; a body that ends early is never taken as whole. What has arrived behind
//! the body is not used: it belongs to the next request.

use crate::base::limits::{BODY_STEP, MAX_CHUNK_LINE, MAX_HEAD_BYTES, MAX_TRAILER_BYTES};
use crate::http::arrivals::{Arrivals, Share};
use crate::http::chunked::Decoder;
use crate::http::error::HttpError;
use crate::http::head::Framing;

// A decoder leaves unused at most a line, so that there is always space for more behind it.
const _: () = assert!(MAX_TRAILER_BYTES < MAX_HEAD_BYTES && MAX_CHUNK_LINE < MAX_HEAD_BYTES);

/// A body that is coming.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Vec<u8>,
    form: Form,
    /// Its part of what all arriving bodies may take, once it is known to arrive in pieces.
    share: Option<Share>,
}

#[derive(Debug)]
enum Form {
    /// So many bytes.
    Fixed(usize),
    Chunked(Decoder),
    /// All chunks have come.
    ChunkedWhole,
}

impl Body {
    /// A body of at most `ceiling` bytes, about so many of which are here already.
    ///
    /// # Errors
    /// 413 for a length above the ceiling.
    pub(super) fn begin(framing: Framing, ceiling: u64, here: usize) -> Result<Body, HttpError> {
        let len = match framing {
            Framing::Chunked => {
                let form = Form::Chunked(Decoder::new(ceiling));
                return Ok(Body { bytes: Vec::new(), form, share: None });
            }
            Framing::Length(len) if len > ceiling => return Err(HttpError::BodyTooLong(ceiling)),
            Framing::Length(len) => {
                usize::try_from(len).map_err(|_| HttpError::BodyTooLong(ceiling))?
            }
        };
        let bytes = Vec::with_capacity(len.min(here.saturating_add(BODY_STEP)));
        Ok(Body { bytes, form: Form::Fixed(len), share: None })
    }

    /// Counts it, from here on, among the bodies that are arriving.
    ///
    /// # Errors
    /// 503 when they take too much together.
    pub(super) fn count_in(&mut self, arrivals: &Arrivals) -> Result<(), HttpError> {
        let share = self.share.get_or_insert_with(|| arrivals.share());
        share.grow_to(self.bytes.capacity())
    }

    /// Takes what belongs to it; gives how many bytes that were.
    ///
    /// # Errors
    /// 413 or 400 for chunks that are too long or broken, 503 when all arriving bodies take too
    /// much together. The body's end is not known then.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<usize, HttpError> {
        let taken = self.collect(input)?;
        if let Some(share) = &mut self.share {
            share.grow_to(self.bytes.capacity())?;
        }
        Ok(taken)
    }

    fn collect(&mut self, input: &[u8]) -> Result<usize, HttpError> {
        match &mut self.form {
            Form::Fixed(len) => {
                let here = input.len().min(*len - self.bytes.len());
                let spare = self.bytes.capacity() - self.bytes.len();
                if here > spare {
                    // Doubled as it comes, but never beyond what it will be.
                    let double = here.max(self.bytes.len());
                    self.bytes.reserve_exact(double.min(*len - self.bytes.len()));
                }
                self.bytes.extend_from_slice(&input[..here]);
                Ok(here)
            }
            Form::Chunked(decoder) => {
                let progress = decoder.decode(input, &mut self.bytes)?;
                if progress.done {
                    self.form = Form::ChunkedWhole;
                }
                Ok(progress.used)
            }
            Form::ChunkedWhole => Ok(0),
        }
    }

    /// Whether all of it is here.
    pub(super) fn is_whole(&self) -> bool {
        match self.form {
            Form::Fixed(len) => self.bytes.len() == len,
            Form::Chunked(_) => false,
            Form::ChunkedWhole => true,
        }
    }

    /// Bytes that are still to come, where that is known.
    pub(super) fn missing(&self) -> Option<usize> {
        match self.form {
            Form::Fixed(len) => Some(len - self.bytes.len()),
            Form::Chunked(_) | Form::ChunkedWhole => None,
        }
    }

    /// The body.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_a_body_is_left() {
        let mut body = Body::begin(Framing::Length(4), 4, 0).unwrap();
        assert_eq!(body.take(b"ab"), Ok(2));
        assert_eq!((body.is_whole(), body.missing()), (false, Some(2)));
        assert_eq!(body.take(b"cdGET"), Ok(2));
        assert!(body.is_whole());
        assert_eq!(body.into_bytes(), b"abcd");

        let mut body = Body::begin(Framing::Chunked, 4, 0).unwrap();
        assert_eq!(body.take(b"2\r\nab\r\n0"), Ok(7));
        assert!(!body.is_whole());
        assert_eq!(body.take(b"0\r\n\r\nGET"), Ok(5));
        assert!(body.is_whole());
        assert_eq!(body.into_bytes(), b"ab");
    }

    #[test]
    fn memory_grows_with_what_has_come_and_not_with_what_was_announced() {
        let len = 64 << 20;
        let mut body = Body::begin(Framing::Length(len), len, 0).unwrap();
        assert!(body.bytes.capacity() <= BODY_STEP);
        let chunk = vec![b'x'; 1000];
        for step in 1..=1000 {
            assert_eq!(body.take(&chunk), Ok(1000));
            assert!(body.bytes.capacity() <= BODY_STEP + 2 * 1000 * step);
        }
        assert_eq!(Body::begin(Framing::Length(5), 4, 0).err(), Some(HttpError::BodyTooLong(4)));
    }

    #[test]
    fn no_more_memory_is_taken_than_the_body_needs() {
        let len = 3 * BODY_STEP;
        let mut body = Body::begin(Framing::Length(len as u64), 1 << 20, 0).unwrap();
        for _ in 0..3 {
            body.take(&vec![b'x'; BODY_STEP]).unwrap();
        }
        assert!(body.is_whole());
        assert_eq!(body.bytes.capacity(), len);
    }
}
