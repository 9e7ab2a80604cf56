//! The body of a request: read only when a handler asks for it, and only under the ceiling that it
//! names.
//!
//! Promises: a length above the ceiling is refused unread; memory grows with what has arrived, not
//! with what was announced; a body that ends early is never taken as whole; `100 Continue` goes out
//! only when the body is wanted. What has arrived behind the body belongs to the next request and
//! is given back.

use crate::base::limits::{BODY_STEP, MAX_CHUNK_LINE, MAX_HEAD_BYTES, MAX_TRAILER_BYTES};
use crate::http::buffer::Rest;
use crate::http::chunked::Decoder;
use crate::http::context::Context;
use crate::http::error::{HttpError, Interruption};
use crate::http::head::{Framing, Head};
use crate::http::pace::Pace;
use crate::http::reply::Exchange;
use crate::http::stream::is_tick;

/// The body of the request in hand.
pub(super) struct Body<'r> {
    framing: Framing,
    expects_continue: bool,
    /// What has arrived behind the head already.
    ahead: &'r [u8],
    exchange: &'r Exchange,
    context: &'r Context,
    rest: Rest,
    whole: bool,
}

impl<'r> Body<'r> {
    /// The body behind a head, of which `ahead` has arrived.
    pub(super) fn new(
        head: &Head<'_>,
        ahead: &'r [u8],
        exchange: &'r Exchange,
        context: &'r Context,
    ) -> Body<'r> {
        Body {
            framing: head.framing,
            expects_continue: head.expects_continue,
            ahead,
            exchange,
            context,
            rest: Rest::Ahead(0),
            whole: head.framing == Framing::Length(0),
        }
    }

    /// Reads the whole body, of at most `ceiling` bytes.
    ///
    /// # Errors
    /// 413, 408 or 400; after any of them the connection must be closed, for the body's end is not
    /// known.
    pub(super) fn read(&mut self, ceiling: u64) -> Result<Vec<u8>, Interruption> {
        if self.whole {
            return Ok(Vec::new());
        }
        let body = match self.framing {
            Framing::Length(len) if len > ceiling => {
                return Err(HttpError::BodyTooLong(ceiling).into());
            }
            Framing::Length(len) => self.read_fixed(len),
            Framing::Chunked => self.read_chunked(ceiling),
        }?;
        self.whole = true;
        Ok(body)
    }

    /// Whether the body, or a part of it, is still to come.
    pub(super) fn is_unread(&self) -> bool {
        !self.whole
    }

    /// What has arrived behind the request.
    pub(super) fn into_rest(self) -> Rest {
        self.rest
    }

    fn read_fixed(&mut self, len: u64) -> Result<Vec<u8>, Interruption> {
        // The ceiling was checked: it fits in memory.
        let len = usize::try_from(len).map_err(|_| HttpError::BodyTooLong(len))?;
        let here = self.ahead.len().min(len);
        let mut body = Vec::with_capacity(len.min(here + BODY_STEP));
        body.extend_from_slice(&self.ahead[..here]);
        self.rest = Rest::Ahead(here);
        if here == len {
            return Ok(body);
        }
        let mut inflow = self.begin()?;
        while body.len() < len {
            let start = body.len();
            body.resize(len.min(start + BODY_STEP), 0);
            let arrived = inflow.read(&mut body[start..])?;
            body.truncate(start + arrived);
        }
        Ok(body)
    }

    fn read_chunked(&mut self, ceiling: u64) -> Result<Vec<u8>, Interruption> {
        let mut decoder = Decoder::new(ceiling);
        let mut body = Vec::new();
        let mut input = self.ahead.to_vec();
        let mut inflow = None;
        loop {
            let progress = decoder.decode(&input, &mut body)?;
            input.drain(..progress.used);
            if progress.done {
                self.rest = Rest::Bytes(input);
                return Ok(body);
            }
            let inflow = match &mut inflow {
                Some(inflow) => inflow,
                none => none.insert(self.begin()?),
            };
            // What the decoder leaves unused is at most a line, which it bounds.
            let start = input.len();
            input.resize(start + CHUNK_READ, 0);
            let arrived = inflow.read(&mut input[start..])?;
            input.truncate(start + arrived);
        }
    }

    /// Begins to wait for the client. One that waits for our word gets it now.
    fn begin(&self) -> Result<Inflow<'r>, Interruption> {
        if self.expects_continue && self.ahead.is_empty() {
            self.exchange.settle(self.context)?;
            self.exchange.write(b"HTTP/1.1 100 Continue\r\n\r\n", self.context)?;
        }
        let pace = Pace::start(self.context.boot(), self.context.deadlines.transfer);
        Ok(Inflow { exchange: self.exchange, context: self.context, pace })
    }
}

/// Bytes of a chunked body that are read at once.
const CHUNK_READ: usize = 8 << 10;

// A decoder leaves unused at most a line, so its input is never longer than the buffer that takes
// what is left over.
const _: () = assert!(CHUNK_READ + MAX_TRAILER_BYTES <= MAX_HEAD_BYTES);
const _: () = assert!(CHUNK_READ + MAX_CHUNK_LINE <= MAX_HEAD_BYTES);

/// Bytes coming in, at no less than the lowest pace.
struct Inflow<'r> {
    exchange: &'r Exchange,
    context: &'r Context,
    pace: Pace,
}

impl Inflow<'_> {
    /// Reads at least one byte.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Interruption> {
        loop {
            let arrived = match self.exchange.stream().read(buffer) {
                Ok(0) => return Err(HttpError::BadBody("it ended before it was whole").into()),
                Ok(len) => len,
                Err(error) if is_tick(&error) => 0,
                Err(_) => return Err(Interruption::Gone),
            };
            let now = self.context.boot();
            if arrived > 0 {
                self.pace.moved(now, arrived);
            }
            if self.pace.is_too_slow(now, self.context.pressed_deadline()) {
                return Err(HttpError::BodyTimeout.into());
            }
            if arrived > 0 {
                return Ok(arrived);
            }
        }
    }
}
