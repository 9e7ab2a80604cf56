//! What other threads tell an event loop, and the bell that wakes it.
//!
//! A queue's thread tells which connection it has answered, but only when the loop has asked for it
//! (`exchange`); the listener hands over connections; a door that stops rings. However much is put
//! in, the bell rings once until the loop has looked, so a busy loop is not woken for each note.

use std::io;
use std::mem;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// Names a connection of one loop. The place of one that has ended is given to another, the token
/// never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    /// The connection's place.
    pub(super) place: u32,
    /// How many connections had this place before.
    pub(super) generation: u32,
}

impl Token {
    /// As the kernel keeps it.
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.place)
    }

    /// From what the kernel kept.
    pub(super) fn from_bits(bits: u64) -> Token {
        // The two halves of it.
        Token { place: (bits & u64::from(u32::MAX)) as u32, generation: (bits >> 32) as u32 }
    }
}

/// One loop's mailbox.
#[derive(Debug)]
pub(super) struct Mailbox {
    bell: OwnedFd,
    inside: Mutex<Inside>,
    /// Connections that the loop has, and those on their way to it.
    load: AtomicUsize,
}

#[derive(Debug, Default)]
struct Inside {
    notes: Notes,
    rung: bool,
    closed: bool,
}

/// What a loop finds in its mailbox.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// New connections.
    pub(super) sockets: Vec<TcpStream>,
    /// Connections whose outstanding answer was given.
    pub(super) answered: Vec<Token>,
    /// Others wait for a connection to end.
    pub(super) make_room: bool,
}

impl Mailbox {
    /// An empty one.
    ///
    /// # Errors
    /// There are no descriptors left.
    pub(super) fn new() -> io::Result<Mailbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { bell, inside: Mutex::default(), load: AtomicUsize::new(0) })
    }

    /// What becomes readable when there is something inside.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Connections that the loop has, and those on their way to it.
    pub(super) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// One of the loop's connections has ended.
    pub(super) fn lighten(&self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }

    /// Hands a connection over; `false` when the loop has ended, and the connection with it.
    pub(super) fn hand_over(&self, socket: TcpStream) -> bool {
        self.load.fetch_add(1, Ordering::Relaxed);
        let taken = self.put(|notes| notes.sockets.push(socket));
        if !taken {
            self.lighten();
        }
        taken
    }

    /// This connection's outstanding answer was given.
    pub(super) fn tell_answered(&self, token: Token) {
        // A loop that has ended has no connections.
        let _taken = self.put(|notes| notes.answered.push(token));
    }

    /// Others wait for a connection to end.
    pub(super) fn ask_for_room(&self) {
        let _taken = self.put(|notes| notes.make_room = true);
    }

    /// Has the loop look at the door's state.
    pub(super) fn ring(&self) {
        let _taken = self.put(|_| {});
    }

    fn put(&self, write: impl FnOnce(&mut Notes)) -> bool {
        let mut inside = self.lock();
        if inside.closed {
            return false;
        }
        write(&mut inside.notes);
        let rung = mem::replace(&mut inside.rung, true);
        drop(inside);
        if !rung {
            // It fails only when it has been rung so often that it rings anyway.
            let _rung = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
        true
    }

    /// Takes everything out.
    pub(super) fn take(&self) -> Notes {
        let mut count = [0; 8];
        // Stilled first: what is put in from here on rings again, or is taken with the rest.
        let _stilled = rustix::io::read(&self.bell, &mut count);
        let mut inside = self.lock();
        inside.rung = false;
        mem::take(&mut inside.notes)
    }

    /// Takes nothing more; what was still inside comes back.
    pub(super) fn close(&self) -> Notes {
        let mut inside = self.lock();
        inside.closed = true;
        mem::take(&mut inside.notes)
    }

    // A note is put in whole or not at all.
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn rings(mailbox: &Mailbox) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut bells = [PollFd::new(&mailbox.bell, PollFlags::IN)];
        poll(&mut bells, Some(&at_once)).unwrap() > 0
    }

    #[test]
    fn the_bell_rings_until_the_loop_has_looked() {
        let mailbox = Mailbox::new().unwrap();
        assert!(!rings(&mailbox));
        let token = |place| Token { place, generation: 9 };
        mailbox.tell_answered(token(1));
        mailbox.tell_answered(token(2));
        assert!(rings(&mailbox));
        assert_eq!(mailbox.take().answered, [token(1), token(2)]);
        assert!(!rings(&mailbox));
        mailbox.ask_for_room();
        assert!(rings(&mailbox));
        assert!(mailbox.take().make_room);
    }

    #[test]
    fn a_closed_mailbox_takes_nothing() {
        let mailbox = Mailbox::new().unwrap();
        mailbox.ask_for_room();
        assert!(mailbox.close().make_room);
        assert!(!mailbox.put(|_| {}));
        assert!(!rings(&mailbox) || !mailbox.take().make_room);
    }

    #[test]
    fn a_token_is_kept_whole() {
        let token = Token { place: 7, generation: u32::MAX };
        assert_eq!(Token::from_bits(token.to_bits()), token);
    }
}
