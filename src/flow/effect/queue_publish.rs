//! The effect `queue_publish`: the current document goes to another flow's queue of the same
//! tenant.
//!
//! The queue stores JSON, so a document that came as XML is refused. The correlation id travels
//! with the message. Source: the document's section "Publishing from a flow". How a message is
//! stored is not known here: the worker implements [`Publish`].

use crate::base::{CorrelationId, Name};
use crate::flow::current::Current;

/// Puts a document on another flow's queue of the same tenant. Implemented by the worker.
pub trait Publish: Sync {
    /// Returns once the message is synced in the target's log. All checks come before the write.
    ///
    /// # Errors
    /// [`PublishError`] when the target is not in the registry, cannot be given a worker, or
    /// refuses the message.
    fn publish(
        &self,
        target: &Name,
        payload: &[u8],
        correlation_id: &CorrelationId,
    ) -> Result<(), PublishError>;
}

/// Why a document could not be put on another flow's queue; its text names the target and the
/// reason.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PublishError(pub String);

/// Puts the document on the queue of `target`. `Err` has the text of the failure, without the
/// step's name.
pub(crate) fn publish(
    target: &Name,
    document: &Current<'_>,
    correlation_id: &CorrelationId,
    queues: &dyn Publish,
) -> Result<(), String> {
    if document.is_xml() {
        return Err(format!(
            "the document is XML and the queue of '{target}' stores JSON; build the message with \
             an ntd first"
        ));
    }
    queues
        .publish(target, document.text(), correlation_id)
        .map_err(|error| format!("effect handler failed: {error}"))
}
