//! What a connection's loop and a queue's thread share: the way out, and what is outstanding on it.
//!
//! Waking the loop to write each 202 costs much of the throughput, so the queue's thread writes it
//! itself, without ever blocking (`reply`). What the socket does not take stays here; the loop is
//! told, and writes it when there is room again.
//!
//! Promises: one answer for each submission, and none overtakes another: the loop goes on only when
//! nothing is outstanding ([`Exchange::standing`]). An answer that the loop has given up on is
//! dropped when it comes. The socket is owned by the connection and the answers together, so its
//! descriptor is never another's. The loop is told only when it has asked for it, or must write.

use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::Timestamp;
use crate::base::time::Clock;
use crate::http::mailbox::{Mailbox, Token};
use crate::http::outbound::Outbound;

/// One connection's way out.
pub(super) struct Exchange {
    outbound: Box<dyn Outbound>,
    clock: Arc<dyn Clock>,
    mailbox: Arc<Mailbox>,
    token: Token,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Counts submissions, so that an answer given up on is told from the one after it.
    ticket: u64,
    /// A queue has a submission and has not answered.
    awaiting: bool,
    /// The loop wants to be told when it has.
    wanted: bool,
    /// The socket cannot be written any more.
    broken: bool,
    /// What the socket has not taken yet, but for the first `sent` bytes.
    out: Vec<u8>,
    sent: usize,
}

/// What is outstanding on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing.
    Quiet,
    /// A queue's answer.
    Awaiting,
    /// Bytes that the socket has not taken.
    Unsent,
    /// The client is gone.
    Broken,
}

impl Exchange {
    /// The exchange of a new connection, whose loop has this mailbox and knows it by this token.
    pub(super) fn new(
        outbound: Box<dyn Outbound>,
        clock: Arc<dyn Clock>,
        mailbox: Arc<Mailbox>,
        token: Token,
    ) -> Exchange {
        Exchange { outbound, clock, mailbox, token, state: Mutex::default() }
    }

    /// Begins to await a queue's answer; gives the ticket that the answer must have. Everything
    /// before must be settled.
    pub(super) fn await_answer(&self) -> u64 {
        let mut state = self.lock();
        state.awaiting = true;
        state.wanted = false;
        state.ticket = state.ticket.wrapping_add(1);
        state.ticket
    }

    /// Writes the answer of a queue, unless the loop has given up on it.
    pub(super) fn answer(&self, ticket: u64, text: Vec<u8>) {
        let mut state = self.lock();
        if state.ticket != ticket || !state.awaiting {
            return;
        }
        state.awaiting = false;
        self.push(&mut state, text);
        let tell = state.wanted || state.standing() != Standing::Quiet;
        state.wanted = false;
        drop(state);
        if tell {
            self.mailbox.tell_answered(self.token);
        }
    }

    /// Writes an answer of the loop's own, behind what is unsent. No queue's answer may be awaited.
    pub(super) fn send(&self, text: Vec<u8>) {
        self.push(&mut self.lock(), text);
    }

    /// Gives up on the queue's answer, and writes this instead; nothing is done if it has come
    /// meanwhile.
    pub(super) fn answer_for_queue(&self, text: Vec<u8>) {
        let mut state = self.lock();
        if state.awaiting {
            state.awaiting = false;
            self.push(&mut state, text);
        }
    }

    /// What is outstanding. If it is a queue's answer, the loop is told when it has come.
    pub(super) fn standing(&self) -> Standing {
        let mut state = self.lock();
        let standing = state.standing();
        state.wanted = standing == Standing::Awaiting;
        standing
    }

    /// What is outstanding, without being told later.
    pub(super) fn glance(&self) -> Standing {
        self.lock().standing()
    }

    /// Writes more of what is unsent; gives the number of bytes that the socket took.
    pub(super) fn flush(&self) -> usize {
        let mut state = self.lock();
        let before = state.sent;
        self.write(&mut state);
        let took = state.sent - before;
        state.forget_sent();
        took
    }

    /// Tells the client that nothing more will come.
    pub(super) fn finish(&self) {
        self.outbound.finish();
    }

    /// Ends both directions, whoever else still holds the connection.
    pub(super) fn close(&self) {
        self.outbound.close();
    }

    /// The wall clock.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn push(&self, state: &mut State, text: Vec<u8>) {
        if state.out.is_empty() {
            state.out = text;
        } else {
            state.out.extend_from_slice(&text);
        }
        self.write(state);
        state.forget_sent();
    }

    fn write(&self, state: &mut State) {
        if state.broken || state.sent == state.out.len() {
            return;
        }
        match self.outbound.write_now(&state.out[state.sent..]) {
            Ok(len) => state.sent += len,
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {}
            Err(_) => state.broken = true,
        }
    }

    // A thread that panicked while it held the lock left at worst an answer that is not sent.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn standing(&self) -> Standing {
        if self.broken {
            Standing::Broken
        } else if self.awaiting {
            Standing::Awaiting
        } else if self.sent < self.out.len() {
            Standing::Unsent
        } else {
            Standing::Quiet
        }
    }

    /// Gives the memory back once everything is sent.
    fn forget_sent(&mut self) {
        if self.broken || self.sent == self.out.len() {
            (self.out, self.sent) = (Vec::new(), 0);
        }
    }
}
