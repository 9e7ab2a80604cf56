//! Group commit: everything that waits becomes one append, and each of it one answer.
//!
//! Not here: the append itself (`queue`), when it is done (`owner`).

use crate::base::QueueName;
use crate::journal::{Event, Journal, Kind};
use crate::queue::{FaultKind, NewMessage, QueueError, Receipt};
use crate::worker::channel::Inbox;
use crate::worker::inbox::{Refusal, Reply, Submission};

/// The submissions that one append stores, each with who waits for it.
#[derive(Default)]
pub(super) struct Batch {
    messages: Vec<NewMessage>,
    replies: Vec<Box<dyn Reply>>,
    bytes: usize,
}

impl Batch {
    /// Adds a submission.
    pub(super) fn push(&mut self, submission: Submission, reply: Box<dyn Reply>) {
        let Submission { payload, correlation_id } = submission;
        self.bytes += payload.len();
        self.messages.push(NewMessage { payload, correlation_id, origin: None });
        self.replies.push(reply);
    }

    /// The messages, in the order in which they came.
    pub(super) fn messages(&self) -> &[NewMessage] {
        &self.messages
    }

    /// Answers all of it with what the append gave, and is empty then.
    pub(super) fn answer(&mut self, stored: &Stored<'_>, result: Result<Vec<Receipt>, Refusal>) {
        // Off the load first: whoever is answered may send the next one at once.
        stored.inbox.release(self.messages.len(), std::mem::take(&mut self.bytes));
        match result {
            Ok(receipts) => {
                for (reply, receipt) in self.replies.drain(..).zip(&receipts) {
                    reply.answer(Ok(*receipt));
                }
                self.report(stored, &receipts);
            }
            Err(refusal) => {
                for reply in self.replies.drain(..) {
                    reply.answer(Err(refusal.clone()));
                }
            }
        }
        self.messages.clear();
    }

    fn report(&self, stored: &Stored<'_>, receipts: &[Receipt]) {
        if !stored.journal.wants(Kind::QueueAccepted) {
            return;
        }
        for (message, receipt) in self.messages.iter().zip(receipts) {
            stored.journal.record(
                &Event::of(Kind::QueueAccepted, stored.queue)
                    .message(receipt.id, receipt.offset)
                    .correlation_id(&message.correlation_id),
            );
        }
    }
}

/// Where a batch was to be stored.
pub(super) struct Stored<'a> {
    pub(super) inbox: &'a Inbox,
    pub(super) journal: &'a Journal,
    pub(super) queue: &'a QueueName,
}

/// What a client is told of an append that failed.
pub(super) fn refusal(queue: &QueueName, error: &QueueError) -> Refusal {
    let text = format!("queue {queue}: {error}");
    match error.kind {
        FaultKind::NoRoom => Refusal::NoRoom(text),
        // The lock comes before the write.
        FaultKind::Locked => Refusal::Busy(text),
        FaultKind::Poisoned | FaultKind::Io => Refusal::Unknown(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_of_an_append_has_its_refusal() {
        let queue = QueueName::parse("acme", "orders").unwrap();
        let told = |kind| refusal(&queue, &QueueError { kind, text: "why".into() });
        assert_eq!(told(FaultKind::NoRoom), Refusal::NoRoom("queue acme/orders: why".into()));
        assert!(matches!(told(FaultKind::Locked), Refusal::Busy(_)));
        assert!(matches!(told(FaultKind::Io), Refusal::Unknown(_)));
        assert!(matches!(told(FaultKind::Poisoned), Refusal::Unknown(_)));
    }
}
