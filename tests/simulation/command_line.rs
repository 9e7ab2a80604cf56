//! The person at the shell: lists, replays and discards dead letters, between what the servers do
//! or in the middle of it.

use std::sync::{Arc, Mutex};

use nexus::base::MessageId;
use nexus::queue::{DeadLetter, HandleError, Receipt, dead_letters, discard, replay};

use crate::disk::Process;
use crate::world::{COMMAND_LINE, World};

/// What a person does with a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    Replay,
    Discard,
}

/// What became of it; the receipt of a replay.
pub type Handled = Result<Option<Receipt>, HandleError>;

impl World {
    /// The dead letters as a process sees them; `None` when they cannot be read.
    pub fn dead_letters(&self, process: Process) -> Option<Vec<DeadLetter>> {
        let disk = self.disk_of(process);
        let mut letters = Vec::new();
        let mut each = |letter| letters.push(letter);
        dead_letters(disk.as_ref(), &self.layout, &self.queue, &mut each).ok()?;
        Some(letters)
    }

    /// The ids of the dead letters that nobody has handled.
    pub fn dead(&self) -> Vec<u64> {
        let letters = self.dead_letters(COMMAND_LINE).unwrap_or_default();
        letters.iter().map(|letter| letter.id.get()).collect()
    }

    /// Handles one dead letter, if there is any.
    pub fn handle_one(&mut self, handling: Handling) {
        if let Some(id) = self.pick_letter() {
            self.handle(id, handling);
        }
    }

    /// Handles this one; whether it is handled now.
    pub fn handle(&mut self, id: MessageId, handling: Handling) -> bool {
        self.oracle.touched(id, handling);
        let handled = self.handling(COMMAND_LINE, id, handling)();
        self.handled(id, handling, handled)
    }

    /// Handles one in the middle of what the owner does, after so many operations.
    pub fn handle_in_between(&mut self, handling: Handling, operations: u64) {
        let (Some(owner), Some(id)) = (self.owner(), self.pick_letter()) else { return };
        self.oracle.touched(id, handling);
        let handle = self.handling(COMMAND_LINE, id, handling);
        let done = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&done);
        let act = move || *slot.lock().unwrap() = Some(handle());
        self.note(format!("{handling:?} of {id} while server {owner} goes on"));
        self.disk.intrude(owner, operations, Box::new(act));
        self.drive(2);
        if let Some(late) = self.disk.take_intruder() {
            late();
        }
        if let Some(handled) = done.lock().unwrap().take() {
            self.handled(id, handling, handled);
        }
    }

    fn pick_letter(&mut self) -> Option<MessageId> {
        self.disk.revive(COMMAND_LINE);
        let letters = self.dead_letters(COMMAND_LINE)?;
        if letters.is_empty() {
            return None;
        }
        self.oracle.listed(&letters, false);
        let id = letters[self.roll(letters.len() as u64) as usize].id;
        Some(id)
    }

    /// What a process is to do with a dead letter.
    pub fn handling(
        &self,
        process: Process,
        id: MessageId,
        handling: Handling,
    ) -> impl FnOnce() -> Handled + Send + use<> {
        let (disk, layout) = (self.disk_of(process), self.layout.clone());
        let (queue, random) = (self.queue.clone(), Arc::clone(&self.random));
        let wall = self.clock.now().wall;
        move || match handling {
            Handling::Discard => discard(&disk, &layout, &queue, id.get()).map(|()| None),
            Handling::Replay => {
                replay(&disk, &layout, &queue, id.get(), wall, random.as_ref()).map(Some)
            }
        }
    }

    /// What came of it; whether it is handled now.
    pub fn handled(&mut self, id: MessageId, handling: Handling, handled: Handled) -> bool {
        match handled {
            Ok(receipt) => {
                self.note(format!("{handling:?} of {id} done: {receipt:?}"));
                self.oracle.handled(id, receipt.map(|receipt| receipt.id));
                self.is_handled_once(id);
                true
            }
            Err(error) => {
                self.note(format!("{handling:?} of {id} failed: {error}"));
                false
            }
        }
    }

    fn is_handled_once(&self, id: MessageId) {
        let again = self.handling(COMMAND_LINE, id, Handling::Replay)();
        let refused = matches!(
            again,
            Err(HandleError::AlreadyHandled { .. }
                | HandleError::NotFound { .. }
                | HandleError::Queue(_))
        );
        assert!(refused, "id {id} was handled twice");
    }
}
