//! How a run ends, and what it is told about the delivery that it is part of.

use std::time::Duration;

use crate::base::limits::MAX_ERROR_TEXT;
use crate::base::{CorrelationId, MessageId, QueueName, Timestamp};

/// What `ctx` holds.
#[derive(Debug, Clone)]
pub struct Context {
    /// The tenant and the flow.
    pub queue: QueueName,
    /// The version of the flow that runs.
    pub version: u32,
    /// What ties the message's trace together.
    pub correlation_id: CorrelationId,
    /// Absent on `/run`.
    pub delivery: Option<DeliveryContext>,
}

/// What `ctx` holds of a delivery from a queue.
#[derive(Debug, Clone)]
pub struct DeliveryContext {
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// The message's id in its queue.
    pub message_id: MessageId,
    /// Id of the first submission; `ctx.message_key` is `{tenant}/{flow}/{first_id}`.
    pub first_id: MessageId,
    /// When the message was submitted.
    pub enqueued_at: Timestamp,
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// With the document that the last step left, as JSON text.
    Succeeded(Vec<u8>),
    /// A condition was false: not a failure, and never tried again.
    Filtered,
    /// A step failed and the fault handler succeeded, with the document that it left.
    FaultHandled(Vec<u8>),
    /// A step failed, and nothing handled it.
    Failed(Failure),
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The whole text: `step 'forward': effect handler failed: HTTP 503 Service Unavailable`. At
    /// most [`MAX_ERROR_TEXT`] bytes, control characters escaped.
    pub error: String,
    /// What kind of failure it was.
    pub kind: FailureKind,
    /// The flow's `queue_non_retryable` names the status that failed it.
    pub non_retryable: bool,
    /// From `Retry-After`, when the flow honours it; at most the flow's `queue_max_delay_ms`.
    pub retry_after: Option<Duration>,
}

/// What kind of failure it was, for a door that answers at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A rule of a `validate` fence was false or could not be evaluated.
    Validation,
    /// An effect failed.
    Effect,
    /// An effect or the run took too long.
    Timeout,
    /// Anything else, such as a placeholder without a value.
    Other,
}

/// A text for a log or a dead-letter entry: control characters escaped, and no longer than
/// [`MAX_ERROR_TEXT`].
pub(crate) fn error_text(text: &str) -> String {
    let mut clean = String::with_capacity(text.len().min(MAX_ERROR_TEXT));
    for c in text.chars() {
        let escaped = c.is_control().then(|| c.escape_default().to_string());
        let len = escaped.as_ref().map_or(c.len_utf8(), String::len);
        if clean.len() + len > MAX_ERROR_TEXT - '…'.len_utf8() {
            clean.push('…');
            break;
        }
        match escaped {
            Some(escaped) => clean.push_str(&escaped),
            None => clean.push(c),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_error_text_is_one_line() {
        assert_eq!(error_text("a\r\nb\u{1b}[1m é"), "a\\r\\nb\\u{1b}[1m é");
        assert_eq!(error_text("plain"), "plain");
    }

    proptest! {
        #[test]
        fn an_error_text_is_bounded_and_has_no_control_character(text in "[\\PC\n\r\0]{0,3000}") {
            let clean = error_text(&text);
            prop_assert!(clean.len() <= MAX_ERROR_TEXT);
            prop_assert!(!clean.contains(char::is_control));
        }
    }
}
