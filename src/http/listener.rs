//! The thread that accepts connections and gives each to the event loop that has the fewest.
//!
//! It accepts only while there is room. When there is none it asks the loops for some, as often as
//! it takes; an accept that fails for want of descriptors or memory is logged once a second, and
//! waited out in the same way.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SocketFlags, accept_with};

use crate::base::limits::ACCEPT_RETRY_DELAY;
use crate::http::context::Context;
use crate::http::mailbox::Mailbox;

/// What the thread works with.
pub(super) struct Listener {
    pub(super) socket: TcpListener,
    pub(super) loops: Vec<Arc<Mailbox>>,
    pub(super) context: Arc<Context>,
}

impl Listener {
    /// Accepts until the door stops.
    pub(super) fn run(&self) {
        let mut complaints = OnceASecond::default();
        while self.wait_for_client() {
            if self.context.capacity.is_full() {
                self.make_room();
                continue;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match accept_with(&self.socket, flags).map_err(io::Error::from) {
                Ok(socket) => self.place(TcpStream::from(socket)),
                Err(error) if is_clients_own(&error) => {}
                Err(error) => {
                    if complaints.is_due(self.context.boot()) {
                        log::error!("connections cannot be accepted, trying again: {error}");
                    }
                    self.make_room();
                }
            }
        }
    }

    /// Waits until somebody wants to connect; `false` when the door stops.
    fn wait_for_client(&self) -> bool {
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !matches!(poll(&mut sockets, Some(&at_once)), Ok(1..)) {
            self.context.capacity.ease();
            // A signal ends it early, and nothing else than a client or the stop does.
            let _ready = poll(&mut sockets, None);
        }
        !self.context.is_stopping()
    }

    fn make_room(&self) {
        let capacity = &self.context.capacity;
        let open = capacity.open();
        capacity.press();
        self.loops.iter().for_each(|mailbox| mailbox.ask_for_room());
        capacity.wait(open, ACCEPT_RETRY_DELAY);
    }

    fn place(&self, socket: TcpStream) {
        let Some(mailbox) = self.loops.iter().min_by_key(|mailbox| mailbox.load()) else { return };
        self.context.capacity.take();
        if !mailbox.hand_over(socket) {
            self.context.capacity.release();
        }
    }
}

/// Whether an accept failed by the client's doing, or by nobody's.
fn is_clients_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}

/// Lets one through in a second.
#[derive(Debug, Default)]
struct OnceASecond(Option<Duration>);

impl OnceASecond {
    fn is_due(&mut self, now: Duration) -> bool {
        let due = self.0.is_none_or(|last| now.saturating_sub(last) >= Duration::from_secs(1));
        if due {
            self.0 = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_accept_is_logged_once_a_second() {
        let mut complaints = OnceASecond::default();
        let due = [0, 1, 999, 1000, 1500].map(|at| complaints.is_due(Duration::from_millis(at)));
        assert_eq!(due, [true, false, false, true, false]);
    }
}
