//! Interface stub: a compiled flow, and how a run ends.
#![allow(missing_docs, unused_variables)]
use std::time::Duration;

use crate::base::{CorrelationId, MessageId, QueueName, RetryPolicy, Timestamp};
use crate::flow::effect::Effects;

/// A compiled flow, ready to run.
pub struct Flow(QueueName);
impl Flow {
    pub(super) fn stand_in(name: QueueName) -> Flow {
        Flow(name)
    }
    /// Reads an artifact (whose SHA-256 the registry has verified).
    pub fn from_artifact(bytes: &[u8]) -> Result<Flow, ArtifactError> {
        unimplemented!()
    }
    pub fn to_artifact(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }
    pub fn name(&self) -> &QueueName {
        &self.0
    }
    pub fn policy(&self) -> RetryPolicy {
        unimplemented!()
    }
    /// 1 to 64.
    pub fn concurrency(&self) -> usize {
        unimplemented!()
    }
    pub fn max_message_bytes(&self) -> Option<u64> {
        None
    }
    pub fn description(&self) -> Option<&str> {
        None
    }
    /// Runs the flow on one message. Never panics on any input; ends within `timeout_ms` of the
    /// flow (each wait inside is bounded by what is left of it).
    pub fn run(&self, message: &[u8], context: &Context, effects: &Effects<'_>) -> Outcome {
        unimplemented!()
    }
}
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ArtifactError(pub String);

/// What `ctx` holds.
#[derive(Debug, Clone)]
pub struct Context {
    pub queue: QueueName,
    pub version: u32,
    pub correlation_id: CorrelationId,
    /// Absent on `/run`.
    pub delivery: Option<DeliveryContext>,
}
#[derive(Debug, Clone)]
pub struct DeliveryContext {
    pub attempt: u32,
    pub message_id: MessageId,
    /// Id of the first submission; `ctx.message_key` is `{tenant}/{flow}/{first_id}`.
    pub first_id: MessageId,
    pub enqueued_at: Timestamp,
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// With the document that the last step left, as JSON text (or XML mark kept).
    Succeeded(Vec<u8>),
    Filtered,
    FaultHandled(Vec<u8>),
    Failed(Failure),
}
#[derive(Debug, Clone)]
pub struct Failure {
    /// The whole text: `step 'forward': effect handler failed: HTTP 503 Service Unavailable`. At
    /// most `MAX_ERROR_TEXT` bytes, control characters escaped.
    pub error: String,
    pub kind: FailureKind,
    /// The flow's `queue_non_retryable` names the status that failed it.
    pub non_retryable: bool,
    /// From `Retry-After`, when the flow honours it.
    pub retry_after: Option<Duration>,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    Validation,
    Effect,
    Timeout,
    Other,
}
