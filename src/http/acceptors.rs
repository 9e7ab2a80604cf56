//! The pool: a fixed number of threads, each of which accepts a connection, serves it to its end,
//! and accepts again.
//!
//! All accept on the one listening socket, so the kernel hands each connection to one that is free,
//! without a thread between. An accept that fails for want of descriptors or memory is logged once
//! a second and waited out. A panic in a handler costs its connection, not the acceptor.

use std::io;
use std::net::TcpListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::base::limits::ACCEPT_RETRY_DELAY;
use crate::http::buffer::Buffer;
use crate::http::connection;
use crate::http::context::Context;
use crate::http::stream;

/// Whether the pool is at its limit.
///
/// While it is, idle connections are closed and the deadlines of the others fall, so that whoever
/// holds connections open without using them cannot keep out who would.
#[derive(Debug)]
pub(super) struct Pressure {
    listener: TcpListener,
    acceptors: usize,
    busy: AtomicUsize,
    /// The last accept failed for want of descriptors or memory.
    starved: AtomicBool,
    logged: Mutex<Option<Duration>>,
}

impl Pressure {
    /// The pressure on this many acceptors of this listener.
    pub(super) fn new(listener: TcpListener, acceptors: usize) -> Pressure {
        Pressure {
            listener,
            acceptors,
            busy: AtomicUsize::new(0),
            starved: AtomicBool::new(false),
            logged: Mutex::new(None),
        }
    }

    /// The socket that connections come from.
    pub(super) fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// Whether every acceptor has a connection.
    pub(super) fn all_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed) >= self.acceptors
    }

    /// Whether others wait for an acceptor, or cannot be accepted, now.
    pub(super) fn is_high(&self) -> bool {
        self.starved.load(Ordering::Relaxed) || (self.all_busy() && self.others_wait())
    }

    fn others_wait(&self) -> bool {
        let mut sockets = [PollFd::new(&self.listener, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut sockets, Some(&at_once)), Ok(1..))
    }
}

/// Accepts and serves until the door stops.
pub(super) fn run(context: &Context) {
    let mut buffer = Buffer::new();
    while !context.is_stopping() {
        match context.pressure.listener.accept() {
            Ok((socket, _)) => {
                context.pressure.starved.store(false, Ordering::Relaxed);
                context.pressure.busy.fetch_add(1, Ordering::Relaxed);
                // The buffer is cleared before it is used again; everything else that the
                // connection touched is gone.
                let served = catch_unwind(AssertUnwindSafe(|| {
                    // A socket that cannot be readied is one whose client has gone.
                    if stream::prepare(&socket, context.deadlines.tick).is_ok() {
                        connection::serve(Box::new(socket), &mut buffer, context);
                    }
                }));
                context.pressure.busy.fetch_sub(1, Ordering::Relaxed);
                if served.is_err() {
                    log::error!("a connection was dropped: its handler panicked");
                }
            }
            Err(_) if context.is_stopping() => return,
            Err(error) => wait_out(&error, context),
        }
    }
}

/// The client's own troubles are passed over; ours are logged once a second and waited out.
fn wait_out(error: &io::Error, context: &Context) {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock) {
        return;
    }
    context.pressure.starved.store(true, Ordering::Relaxed);
    if first_in_a_second(&context.pressure.logged, context.boot()) {
        log::error!("connections cannot be accepted, trying again: {error}");
    }
    std::thread::sleep(ACCEPT_RETRY_DELAY);
}

fn first_in_a_second(logged: &Mutex<Option<Duration>>, now: Duration) -> bool {
    // A moment is stored whole or not at all.
    let mut last = logged.lock().unwrap_or_else(PoisonError::into_inner);
    let due = last.is_none_or(|last| now.saturating_sub(last) >= Duration::from_secs(1));
    if due {
        *last = Some(now);
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_accept_is_logged_once_a_second() {
        let logged = Mutex::new(None);
        let at = |millis| first_in_a_second(&logged, Duration::from_millis(millis));
        assert_eq!([at(0), at(1), at(999), at(1000), at(1500)], [true, false, false, true, false]);
    }
}
