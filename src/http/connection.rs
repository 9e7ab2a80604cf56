//! One connection: request after request, in order, until one side ends it.
//!
//! Heads are waited for here, with their deadlines, and everything that ends a connection is
//! decided here. A read waits one tick at most; at each tick the connection looks whether an answer
//! was left to finish, whether the door is closing, whether others wait for its acceptor, and
//! whether its client is late.
//!
//! A request whose body was not read is answered with `Connection: close`, and never followed by
//! another: what comes behind it is thrown away (64 KiB or one second of it, so that the client can
//! read its answer), never parsed.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use crate::base::limits::LINGER_BYTES;
use crate::http::body::Body;
use crate::http::buffer::{Buffer, Rest};
use crate::http::context::Context;
use crate::http::correlation::Correlation;
use crate::http::error::{HttpError, Interruption};
use crate::http::head::{self, Head};
use crate::http::message::{self, Envelope, Method, Response};
use crate::http::reply::{Exchange, Gone};
use crate::http::route;
use crate::http::stream::{Stream, is_tick};

/// A request, as a handler sees it.
pub(super) struct Request<'r> {
    pub(super) head: &'r Head<'r>,
    pub(super) body: Body<'r>,
    pub(super) correlation: Correlation,
    /// Where its answer goes.
    pub(super) exchange: &'r Arc<Exchange>,
    /// The connection ends after the answer.
    pub(super) close: bool,
}

impl Request<'_> {
    /// Waits until everything before this request's answer has been said. A door that has begun to
    /// close meanwhile makes the answer the connection's last.
    pub(super) fn settle(&mut self, context: &Context) -> Result<(), Gone> {
        self.exchange.settle(context)?;
        self.close |= context.is_stopping();
        Ok(())
    }
}

/// What a handler made of a request.
pub(super) enum Outcome {
    /// This is the answer.
    Answer(Response),
    /// A queue has the message and will answer.
    HandedOver,
}

/// How a connection ends.
#[derive(Debug)]
enum End {
    /// After what is outstanding.
    Close,
    /// Likewise; what the client still sends is thrown away first.
    Linger,
    /// The same for a client that was too slow, but only if nobody waits for its acceptor.
    LingerUnpressed,
    /// With this error.
    Refuse(HttpError),
    /// The client is gone.
    Gone,
}

impl From<Gone> for End {
    fn from(_: Gone) -> End {
        End::Gone
    }
}

/// Serves a connection to its end. The buffer's memory is the acceptor's.
pub(super) fn serve(stream: Box<dyn Stream>, buffer: &mut Buffer, context: &Context) {
    buffer.clear();
    let opened = context.boot();
    let exchange = Arc::new(Exchange::new(stream, Arc::clone(&context.services.clock)));
    let mut connection = Connection {
        exchange,
        buffer,
        context,
        head_since: Some(opened),
        idle_since: None,
        looked_at: Cell::new(opened),
    };
    let end = connection.run();
    connection.end(end);
}

struct Connection<'c> {
    exchange: Arc<Exchange>,
    buffer: &'c mut Buffer,
    context: &'c Context,
    /// Since when a head has been waited for: the first from the accept, the others from their
    /// first byte.
    head_since: Option<Duration>,
    /// Since when the connection has been seen idle.
    idle_since: Option<Duration>,
    /// When it was last looked whether others wait for this acceptor.
    looked_at: Cell<Duration>,
}

impl Connection<'_> {
    fn run(&mut self) -> End {
        loop {
            let (rest, end) = match head::parse(self.buffer.unread()) {
                Ok(Some((head, len))) => {
                    self.head_since = None;
                    self.idle_since = None;
                    let (rest, end) = self.respond(&head, &self.buffer.unread()[len..]);
                    (rest.after_head(len), end)
                }
                Ok(None) => match self.read_head() {
                    Ok(()) => continue,
                    Err(end) => return end,
                },
                Err(error) => return End::Refuse(error),
            };
            self.buffer.keep(rest);
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Answers one request, or hands it over; says what lies behind it, and whether the connection
    /// ends.
    fn respond(&self, head: &Head<'_>, ahead: &[u8]) -> (Rest, Option<End>) {
        let context = self.context;
        let mut request = Request {
            head,
            body: Body::new(head, ahead, &self.exchange, context),
            correlation: Correlation::of(head, &*context.services.random),
            exchange: &self.exchange,
            close: head.close || self.must_yield(),
        };
        let outcome = route::dispatch(&mut request, context);
        let unread = request.body.is_unread();
        let late = matches!(outcome, Err(Interruption::Error(HttpError::BodyTimeout)));
        let response = match outcome {
            Ok(Outcome::HandedOver) => None,
            Ok(Outcome::Answer(response)) => Some(response),
            Err(Interruption::Error(error)) => Some(error.response(context.now())),
            Err(Interruption::Gone) => return (Rest::Ahead(0), Some(End::Gone)),
        };
        if let Some(response) = response
            && let Err(Gone) = self.say(response, &mut request)
        {
            return (Rest::Ahead(0), Some(End::Gone));
        }
        let end = match (late, unread) {
            (true, _) => Some(End::LingerUnpressed),
            (false, true) => Some(End::Linger),
            (false, false) => request.close.then_some(End::Close),
        };
        (request.body.into_rest(), end)
    }

    /// Answers a request, when everything before it is settled.
    fn say(&self, response: Response, request: &mut Request<'_>) -> Result<(), Gone> {
        request.settle(self.context)?;
        let interim = response.status_code().0 < 200;
        request.close |= interim || request.body.is_unread();
        let envelope = Envelope {
            correlation: request.correlation.as_str(),
            now: self.context.now(),
            close: request.close,
            head_only: request.head.method == Method::Head,
        };
        self.exchange.write(&message::print(response, envelope), self.context)
    }

    /// Whether this connection has had its turn: all acceptors are busy, others wait, and a second
    /// has passed since that was last asked. So the next client waits no longer than a busy one
    /// stays.
    fn must_yield(&self) -> bool {
        if !self.context.pressure.all_busy() {
            return false;
        }
        let now = self.context.boot();
        if now.saturating_sub(self.looked_at.get()) < self.context.deadlines.pressed {
            return false;
        }
        self.looked_at.set(now);
        self.context.pressure.is_high()
    }

    /// Reads until it is worth parsing again: something has come where there was nothing, or a line
    /// has ended. A client that sends one byte at a time so costs one parsing for each line.
    fn read_head(&mut self) -> Result<(), End> {
        loop {
            let first = self.buffer.is_empty();
            if !first {
                self.check_head_deadline()?;
            }
            match self.exchange.stream().read(self.buffer.space()) {
                Ok(0) => return Err(self.ended()),
                Ok(len) => {
                    let line_ended = self.buffer.grow(len).contains(&b'\n');
                    if first || line_ended || self.buffer.is_full() {
                        return Ok(());
                    }
                }
                Err(error) if is_tick(&error) => self.tick()?,
                Err(_) => return Err(End::Gone),
            }
        }
    }

    /// How a connection ends whose client sends no more. Empty lines are no request (old clients
    /// end bodies with one).
    fn ended(&self) -> End {
        if self.buffer.unread().iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
            return End::Close;
        }
        End::Refuse(HttpError::BadHead("it ended before it was whole"))
    }

    fn tick(&mut self) -> Result<(), End> {
        if self.exchange.look(self.context)? {
            return Ok(());
        }
        if self.context.is_stopping() {
            return Err(End::Close);
        }
        if self.head_since.is_some() {
            return self.check_head_deadline();
        }
        let now = self.context.boot();
        let since = *self.idle_since.get_or_insert(now);
        let expired = now.saturating_sub(since) >= self.context.deadlines.idle;
        if expired || self.context.pressure.is_high() { Err(End::Close) } else { Ok(()) }
    }

    fn check_head_deadline(&mut self) -> Result<(), End> {
        let now = self.context.boot();
        let since = *self.head_since.get_or_insert(now);
        let waited = now.saturating_sub(since);
        let deadlines = &self.context.deadlines;
        let late = waited >= deadlines.head
            || (waited >= deadlines.pressed && self.context.pressure.is_high());
        if late { Err(End::Refuse(HttpError::HeadTimeout)) } else { Ok(()) }
    }

    fn end(mut self, end: End) {
        match end {
            End::Gone => {}
            End::Close => {
                let settled = self.exchange.settle(self.context);
                if settled.is_ok() && !self.buffer.is_empty() {
                    self.linger();
                }
            }
            End::Linger => self.linger(),
            End::LingerUnpressed => self.linger_unpressed(),
            End::Refuse(error) => {
                let late = error == HttpError::HeadTimeout;
                match (self.refuse(&error), late) {
                    (Ok(()), false) => self.linger(),
                    (Ok(()), true) => self.linger_unpressed(),
                    (Err(Gone), _) => {}
                }
            }
        }
        // A queue that was given up on may hold its share of the socket for long; the client must
        // not.
        if Arc::strong_count(&self.exchange) > 1 {
            self.exchange.stream().close();
        }
    }

    /// Answers what is no request.
    fn refuse(&self, error: &HttpError) -> Result<(), Gone> {
        self.exchange.settle(self.context)?;
        let now = self.context.now();
        let correlation = Correlation::fresh(&*self.context.services.random);
        let envelope =
            Envelope { correlation: correlation.as_str(), now, close: true, head_only: false };
        self.exchange.write(&message::print(error.response(now), envelope), self.context)
    }

    fn linger_unpressed(&mut self) {
        if !self.context.pressure.is_high() {
            self.linger();
        }
    }

    /// Throws away what the client still sends. Closing with bytes unread would reset the
    /// connection, and the client might lose its answer.
    fn linger(&mut self) {
        let stream = self.exchange.stream();
        stream.finish();
        self.buffer.clear();
        let began = self.context.boot();
        let mut left = LINGER_BYTES;
        while left > 0 {
            match stream.read(self.buffer.space()) {
                Ok(0) => return,
                Ok(len) => left = left.saturating_sub(len),
                Err(error) if is_tick(&error) => {
                    if self.context.is_stopping() || self.context.pressure.is_high() {
                        return;
                    }
                }
                Err(_) => return,
            }
            if self.context.boot().saturating_sub(began) >= self.context.deadlines.linger {
                return;
            }
        }
    }
}
