//! The fault handler: what becomes of a run when a step has failed.
//!
//! A handler that succeeds is the run's answer, and the delivery is acknowledged: no retry and no
//! dead letter. One that fails leaves the delivery failed, with both errors. Source: the document's
//! section "Delivery semantics".

use crate::base::Name;
use crate::flow::outcome::{Failure, FailureKind, error_text};
use crate::flow::program::{Flow, Settings};
use std::time::Duration;

/// How one step failed.
#[derive(Debug, Clone)]
pub(crate) struct StepFailure {
    /// The step.
    pub(crate) step: Name,
    /// What happened, without the step's name.
    pub(crate) text: String,
    pub(crate) kind: FailureKind,
    /// The downstream's status, if that is what failed it.
    pub(crate) status: Option<u16>,
    /// What the downstream's `Retry-After` asks for.
    pub(crate) retry_after: Option<Duration>,
}

impl StepFailure {
    fn full_text(&self) -> String {
        format!("step '{}': {}", self.step, self.text)
    }

    /// The run's failure when nothing handled the step's.
    pub(crate) fn unhandled(&self, flow: &Flow) -> Failure {
        self.failure(self.full_text(), self.kind, &flow.settings)
    }

    /// The run's failure when a step of the handler failed too. Whether and when the message is
    /// tried again is decided by what failed first: that is what a retry repeats.
    pub(crate) fn while_handled(&self, handler: &StepFailure, flow: &Flow) -> Failure {
        let text = format!("{}; while handling: {}", handler.full_text(), self.full_text());
        self.failure(text, handler.kind, &flow.settings)
    }

    fn failure(&self, text: String, kind: FailureKind, settings: &Settings) -> Failure {
        let named = |status| settings.non_retryable.iter().any(|range| range.contains(status));
        let most = Duration::from_millis(settings.policy.max_delay_ms);
        Failure {
            error: error_text(&text),
            kind,
            non_retryable: self.status.is_some_and(named),
            retry_after: self
                .retry_after
                .filter(|_| settings.honor_retry_after)
                .map(|delay| delay.min(most)),
        }
    }
}
