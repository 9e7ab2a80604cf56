//! A door whose clients are played from memory: no socket, no thread of its own. For tests and for
//! the fuzzer.
//!
//! What is played goes through the same state machine as what comes over a socket.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::http::arrivals::Arrivals;
use crate::http::capacity::Capacity;
use crate::http::connection::Connection;
use crate::http::context::{Calendar, Context};
use crate::http::dev::Flaky;
use crate::http::door::{Deadlines, Services};
use crate::http::exchange::Exchange;
use crate::http::gate::Access;
use crate::http::mailbox::{Mailbox, Token};
use crate::http::outbound::Outbound;

/// A `--dev` door without sockets.
pub struct PlayedDoor {
    context: Context,
    mailbox: Arc<Mailbox>,
}

/// Everything that was written to a client, which takes at most so much at once, and nothing at
/// every other call if that is not everything.
struct Written {
    at_once: usize,
    taken: Arc<Mutex<(Vec<u8>, bool)>>,
}

impl Outbound for Written {
    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.1 = !taken.1;
        if self.at_once < bytes.len() && taken.1 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = bytes.len().min(self.at_once);
        taken.0.extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn finish(&self) {}

    fn close(&self) {}
}

impl PlayedDoor {
    /// A door with these services and this ceiling on a message, in bytes.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub fn new(services: Services, max_message_bytes: u64) -> io::Result<PlayedDoor> {
        let context = Context {
            services,
            deadlines: Deadlines::default(),
            max_message_bytes,
            access: Access::Everyone,
            dev: Some(Flaky::default()),
            capacity: Capacity::new(1),
            arrivals: Arrivals::default(),
            stopping: AtomicBool::new(false),
        };
        Ok(PlayedDoor { context, mailbox: Arc::new(Mailbox::new()?) })
    }

    /// Plays a client that sends these pieces, then nothing more, and takes at most so many bytes
    /// at once, at least one. Gives everything that it got.
    pub fn play<'p>(&self, pieces: impl IntoIterator<Item = &'p [u8]>, at_once: usize) -> Vec<u8> {
        let taken = Arc::new(Mutex::default());
        let written = Written { at_once: at_once.max(1), taken: Arc::clone(&taken) };
        let clock = Arc::clone(&self.context.services.clock);
        let token = Token { place: 0, generation: 0 };
        let exchange = Exchange::new(Box::new(written), clock, Arc::clone(&self.mailbox), token);
        let mut connection = Connection::new(Arc::new(exchange), self.context.boot());
        let mut calendar = Calendar::default();
        for piece in pieces {
            let mut rest = piece;
            while !rest.is_empty() && !connection.is_over() {
                let scene = calendar.scene(&self.context);
                let (now, later) = rest.split_at(connection.room().min(rest.len()));
                if now.is_empty() {
                    self.wait(&mut connection, &mut calendar);
                } else {
                    connection.receive(now, &scene);
                }
                rest = later;
            }
        }
        if !connection.is_over() {
            connection.end_input(&calendar.scene(&self.context));
        }
        while !connection.is_over() {
            self.wait(&mut connection, &mut calendar);
        }
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut taken.0)
    }

    /// Waits until the connection can go on: for a queue no longer than its deadline.
    fn wait(&self, connection: &mut Connection, calendar: &mut Calendar) {
        if connection.has_unsent() {
            return connection.flush(&calendar.scene(&self.context));
        }
        let bell = self.mailbox.bell();
        let tick = Timespec { tv_sec: 1, tv_nsec: 0 };
        // However it ends, the connection is looked at.
        let _rung = poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&tick));
        let _answered = self.mailbox.take();
        connection.look(&calendar.scene(&self.context));
    }
}
