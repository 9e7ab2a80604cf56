//! What becomes of a delivery that has ended: a pure decision.
//!
//! Source: the document "Queues, retries and the DLQ", sections "Retry configuration" and "What
//! reaches the dead-letter queue".

use std::sync::Arc;

use crate::base::random::Random;
use crate::base::{RetryPolicy, Timestamp};
use crate::queue::dlq::Reason;
use crate::queue::message::Message;

/// How a delivery ended, as the worker tells it.
#[derive(Debug, Clone)]
pub enum Ending {
    /// Succeeded, fault handled, filtered, or no such flow: the message leaves the queue.
    Acknowledge,
    /// The flow failed.
    Failed {
        /// The text of the error.
        error: String,
        /// The flow's retry policy.
        policy: RetryPolicy,
        /// Whether the failure is final: dead-lettered at once.
        non_retryable: bool,
        /// Not before so many milliseconds from now; the policy's longest delay caps it.
        retry_after_ms: Option<u64>,
    },
    /// The stored flow failed its integrity check: dead-lettered at once.
    CorruptArtifact {
        /// What did not agree.
        error: String,
    },
}

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// It left the queue.
    Acknowledged,
    /// It comes again.
    Rescheduled {
        /// The number of the attempt that is due.
        next_attempt: u32,
        /// When.
        due_at: Timestamp,
        /// The delay that led to it, in milliseconds.
        delay_ms: u64,
        /// Why it failed.
        error: String,
    },
    /// It was dead-lettered.
    DeadLettered {
        /// Why.
        reason: Reason,
        /// The text of the last error.
        error: String,
    },
}

/// A delivery that is settled: on the disk, except for an acknowledgement, which a crash may undo
/// for some milliseconds.
#[derive(Debug, Clone)]
pub struct Settled {
    /// The message.
    pub message: Arc<Message>,
    /// The attempt that ended.
    pub attempt: u32,
    /// What became of it.
    pub what: Settlement,
}

/// Decides what becomes of a delivery whose attempt `attempt` ended so at `now`.
pub(crate) fn decide(
    ending: Ending,
    attempt: u32,
    now: Timestamp,
    random: &dyn Random,
) -> Settlement {
    match ending {
        Ending::Acknowledge => Settlement::Acknowledged,
        Ending::CorruptArtifact { error } => {
            Settlement::DeadLettered { reason: Reason::CorruptArtifact, error }
        }
        Ending::Failed { error, non_retryable: true, .. } => {
            Settlement::DeadLettered { reason: Reason::NonRetryable, error }
        }
        Ending::Failed { error, policy, retry_after_ms, .. } => {
            let Some(delay_ms) = policy.delay_after(attempt, random) else {
                return Settlement::DeadLettered { reason: Reason::MaxAttemptsExceeded, error };
            };
            let asked = retry_after_ms.unwrap_or(0).min(policy.max_delay_ms);
            let delay_ms = delay_ms.max(asked);
            Settlement::Rescheduled {
                next_attempt: attempt.saturating_add(1),
                due_at: now.plus_millis(delay_ms),
                delay_ms,
                error,
            }
        }
    }
}

/// What becomes of a message during whose run the process died so often.
pub(crate) fn crashed(times: u32) -> Settlement {
    let error = format!("the server died {times} times while this message ran");
    Settlement::DeadLettered { reason: Reason::Crashed, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::SeededRandom;

    fn failed(non_retryable: bool, retry_after_ms: Option<u64>) -> Ending {
        let policy = RetryPolicy::default();
        Ending::Failed { error: "no".to_owned(), policy, non_retryable, retry_after_ms }
    }

    fn decided(ending: Ending, attempt: u32) -> Settlement {
        decide(ending, attempt, Timestamp::from_millis(1000), &SeededRandom::new(1))
    }

    fn delay(settlement: &Settlement) -> Option<u64> {
        match settlement {
            Settlement::Rescheduled { delay_ms, due_at, .. } => {
                assert_eq!(due_at.as_millis() as u64, 1000 + delay_ms);
                Some(*delay_ms)
            }
            _ => None,
        }
    }

    fn reason(settlement: &Settlement) -> Option<Reason> {
        match settlement {
            Settlement::DeadLettered { reason, .. } => Some(*reason),
            _ => None,
        }
    }

    #[test]
    fn a_failure_is_retried_until_the_attempt_that_reaches_the_limit() {
        assert_eq!(delay(&decided(failed(false, None), 1)), Some(1000));
        assert_eq!(delay(&decided(failed(false, None), 2)), Some(2000));
        let last = decided(failed(false, None), 3);
        assert_eq!(reason(&last), Some(Reason::MaxAttemptsExceeded));
    }

    #[test]
    fn what_is_final_skips_the_retries() {
        assert_eq!(reason(&decided(failed(true, None), 1)), Some(Reason::NonRetryable));
        let corrupt = Ending::CorruptArtifact { error: "sum".to_owned() };
        assert_eq!(reason(&decided(corrupt, 1)), Some(Reason::CorruptArtifact));
        assert_eq!(reason(&crashed(5)), Some(Reason::Crashed));
    }

    #[test]
    fn retry_after_postpones_up_to_the_longest_delay_and_never_hastens() {
        assert_eq!(delay(&decided(failed(false, Some(30_000)), 1)), Some(30_000));
        assert_eq!(delay(&decided(failed(false, Some(999_999)), 1)), Some(60_000));
        assert_eq!(delay(&decided(failed(false, Some(5)), 1)), Some(1000));
        assert_eq!(reason(&decided(failed(false, Some(5)), 3)), Some(Reason::MaxAttemptsExceeded));
    }
}
