//! The `queue_publish` effect: a running flow's document put on another queue of the same tenant.
//!
//! All checks come before the write: the target is in the registry, the document fits under its
//! ceiling, and the queue can have a worker. A message in a queue that nobody drains would be a
//! loss that looks like success. The tenant is the running flow's, and nothing can set it.
//!
//! The runner thread waits here for the receipt, with a deadline. It can wait for its own queue
//! too: an owner never waits for a runner, so no ring of publishing flows comes to a stop.

use crossbeam_channel::{RecvTimeoutError, Sender};

use crate::base::limits::PUBLISH_DEADLINE;
use crate::base::{CorrelationId, Name, QueueName};
use crate::flow::{Publish, PublishError};
use crate::queue::Receipt;
use crate::worker::inbox::{Refusal, Reply, Submission, Submit};
use crate::worker::resolve::RegistryReader;

/// What a running flow publishes through.
pub(super) struct QueuePublish<'a> {
    /// The running flow's tenant.
    pub(super) tenant: &'a Name,
    /// The runner's registry.
    pub(super) registry: &'a RegistryReader,
    /// All queues.
    pub(super) queues: &'a dyn Submit,
    /// The server's ceiling on one message, in bytes; a flow's own can only be lower.
    pub(super) max_message_bytes: u64,
}

impl Publish for QueuePublish<'_> {
    fn publish(
        &self,
        target: &Name,
        payload: &[u8],
        correlation_id: &CorrelationId,
    ) -> Result<(), PublishError> {
        let queue = QueueName { tenant: self.tenant.clone(), flow: target.clone() };
        let fail = |why: &str| PublishError(format!("cannot publish to queue {queue}: {why}"));
        match self.registry.gate(&queue) {
            Err(error) => return Err(fail(&format!("the registry cannot be read: {error}"))),
            Ok(None) => return Err(fail("no such flow in the registry")),
            Ok(Some(gate)) => {
                let servers = self.max_message_bytes;
                let ceiling = gate.max_message_bytes.map_or(servers, |flows| flows.min(servers));
                check_size(payload.len(), ceiling).map_err(|why| fail(&why))?;
            }
        }
        store(self.queues, &queue, payload, correlation_id).map_err(|why| fail(&why))
    }
}

fn check_size(len: usize, ceiling: u64) -> Result<(), String> {
    if len as u64 <= ceiling {
        return Ok(());
    }
    Err(format!("the document has {len} bytes, and its ceiling is {ceiling} (max_message_bytes)"))
}

/// Hands the document over and waits until it is synced.
fn store(
    queues: &dyn Submit,
    queue: &QueueName,
    payload: &[u8],
    correlation_id: &CorrelationId,
) -> Result<(), String> {
    let submission =
        Submission { payload: payload.to_vec(), correlation_id: correlation_id.clone() };
    let (sender, receiver) = crossbeam_channel::bounded(1);
    queues.submit(queue, submission, Box::new(Answer(sender)));
    match receiver.recv_timeout(PUBLISH_DEADLINE) {
        Ok(Ok(_receipt)) => Ok(()),
        Ok(Err(refusal)) => Err(refusal.to_string()),
        Err(RecvTimeoutError::Timeout) => {
            Err(format!("it was not stored within {} s", PUBLISH_DEADLINE.as_secs()))
        }
        Err(RecvTimeoutError::Disconnected) => {
            Err("its thread failed, and whether it is stored is unknown".to_owned())
        }
    }
}

/// Carries the answer to the runner that waits.
struct Answer(Sender<Result<Receipt, Refusal>>);

impl Reply for Answer {
    fn answer(self: Box<Self>, outcome: Result<Receipt, Refusal>) {
        // There is room for the one answer; a runner that has stopped waiting does not want it.
        let _ = self.0.try_send(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::MessageId;

    struct Queues(Option<Result<Receipt, Refusal>>);

    impl Submit for Queues {
        fn submit(&self, queue: &QueueName, submission: Submission, reply: Box<dyn Reply>) {
            assert_eq!(queue.to_string(), "acme/next");
            assert_eq!(submission.payload, b"{}");
            if let Some(outcome) = &self.0 {
                reply.answer(outcome.clone());
            }
        }
    }

    fn stored(outcome: Option<Result<Receipt, Refusal>>) -> Result<(), String> {
        let queue = QueueName::parse("acme", "next").unwrap();
        store(&Queues(outcome), &queue, b"{}", &CorrelationId::parse(b"t").unwrap())
    }

    #[test]
    fn a_publish_ends_with_the_receipt_or_with_the_reason() {
        assert_eq!(stored(Some(Ok(Receipt { id: MessageId::FIRST, offset: 0 }))), Ok(()));
        let busy = Refusal::Busy("4096 queues are active (--max-queues)".into());
        assert!(stored(Some(Err(busy))).unwrap_err().contains("--max-queues"));
        assert!(stored(None).unwrap_err().contains("unknown"), "an owner that died");
    }

    #[test]
    fn a_document_above_the_targets_ceiling_is_refused() {
        assert_eq!(check_size(10, 10), Ok(()));
        assert!(check_size(11, 10).unwrap_err().contains("max_message_bytes"));
    }
}
