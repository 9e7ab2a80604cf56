//! What clients send: a server appends it, alone or in the middle of what the owner does, and a
//! client that saw no 202 sends the same body again.

use std::sync::{Arc, Mutex};

use nexus::base::CorrelationId;
use nexus::queue::{FaultKind, NewMessage, QueueError, Receipt};

use crate::disk::Process;
use crate::world::{Server, World};

impl World {
    /// A batch is submitted; whether it was acknowledged.
    pub fn submit(&mut self, server: Process) -> bool {
        self.ensure(server);
        let batch = self.new_batch();
        let now = self.clock.now().wall;
        let result = match &mut self.servers[server] {
            Server::Down => return false,
            Server::Appends(appender) => appender.append(&batch, now),
            Server::Owns(owner, _) => owner.append(&batch, now),
        };
        let accepted = result.is_ok();
        self.submitted(server, batch, result);
        accepted
    }

    /// The other server appends in the middle of what the owner does, after so many operations.
    pub fn submit_in_between(&mut self, operations: u64) {
        let Some(owner) = self.owner() else { return };
        let other = 1 - owner;
        self.ensure(other);
        let taken = std::mem::replace(&mut self.servers[other], Server::Down);
        let Server::Appends(mut appender) = taken else {
            self.servers[other] = taken;
            return;
        };
        let batch = self.new_batch();
        let (now, sent) = (self.clock.now().wall, batch.clone());
        let done = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&done);
        let append = move || {
            let result = appender.append(&sent, now);
            *slot.lock().unwrap() = Some((appender, result));
        };
        self.note(format!("server {other} appends while server {owner} goes on"));
        self.disk.intrude(owner, operations, Box::new(append));
        self.drive(1);
        if let Some(late) = self.disk.take_intruder() {
            late();
        }
        let Some((appender, result)) = done.lock().unwrap().take() else { return };
        if !self.disk.is_dead(other) {
            self.servers[other] = Server::Appends(appender);
        }
        self.submitted(other, batch, result);
    }

    fn new_batch(&mut self) -> Vec<NewMessage> {
        let count = 1 + self.roll(self.habits.batch);
        let mut batch = Vec::new();
        for _ in 0..count {
            // A client that saw no 202 sends the same body again.
            let payload = match self.unknown.pop() {
                Some(again) if self.roll(2) == 0 => again,
                _ => {
                    self.next_payload += 1;
                    let pad = "x".repeat(self.roll(self.habits.padding) as usize);
                    format!("{{\"n\":{},\"pad\":\"{pad}\"}}", self.next_payload).into_bytes()
                }
            };
            self.oracle.sent(&payload);
            let correlation_id = CorrelationId::generate(self.random.as_ref());
            batch.push(NewMessage { payload, correlation_id, origin: None });
        }
        batch
    }

    fn submitted(
        &mut self,
        server: Process,
        batch: Vec<NewMessage>,
        result: Result<Vec<Receipt>, QueueError>,
    ) {
        let error = match result {
            Ok(receipts) => {
                for (receipt, message) in receipts.iter().zip(batch) {
                    let (id, offset) = (receipt.id, receipt.offset);
                    self.note(format!("server {server}: 202 id {id} offset {offset}"));
                    self.oracle.acknowledged(id, &message.payload);
                }
                return;
            }
            Err(error) => error,
        };
        self.note(format!("server {server}: append failed: {error}"));
        if error.kind == FaultKind::Poisoned {
            self.servers[server] = Server::Down;
        } else if self.roll(2) == 0 && self.has_undone(server) {
            self.note("it was undone".to_owned());
            batch.iter().for_each(|message| self.oracle.refused(message.payload.clone()));
        }
        self.unknown.extend(batch.into_iter().map(|message| message.payload));
    }

    /// Whether a server that failed to append has undone that: it lives, and is not poisoned.
    fn has_undone(&mut self, server: Process) -> bool {
        let now = self.clock.now().wall;
        let again = match &mut self.servers[server] {
            Server::Down => return false,
            Server::Appends(appender) => appender.append(&[], now),
            Server::Owns(owner, _) => owner.append(&[], now),
        };
        let poisoned = again.is_err_and(|error| error.kind == FaultKind::Poisoned);
        if poisoned {
            self.servers[server] = Server::Down;
        }
        !poisoned && !self.disk.is_dead(server)
    }
}
