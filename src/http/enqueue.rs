//! `POST /flows/{tenant}/{flow}/enqueue`: the order of checks, from the gate to the hand-over.

use std::sync::Arc;

use crate::base::QueueName;
use crate::http::context::{Context, Scene};
use crate::http::correlation::Correlation;
use crate::http::decode::Format;
use crate::http::error::HttpError;
use crate::http::exchange::Exchange;
use crate::http::gate;
use crate::http::head::Head;
use crate::http::reply::{Answer, Prepared};
use crate::worker::Submission;

/// A submission that the gate has let in, before its body.
#[derive(Debug)]
pub(super) struct Enqueue {
    queue: QueueName,
    /// The ceiling on the body, in bytes.
    pub(super) ceiling: u64,
    /// Told only when the body has come, as the order of checks has it.
    format: Result<Format, HttpError>,
}

/// A message that was checked and is to be stored.
#[derive(Debug)]
pub(super) struct Accepted {
    queue: QueueName,
    payload: Vec<u8>,
}

impl Enqueue {
    /// Asks the gate about a submission to this tenant and flow.
    ///
    /// # Errors
    /// What the gate says.
    pub(super) fn admit(
        head: &Head<'_>,
        names: (&str, &str),
        context: &Context,
    ) -> Result<Enqueue, HttpError> {
        let flows = &*context.services.flows;
        let admitted = gate::admit(context.access, head.authorization, names, flows)?;
        let servers = context.max_message_bytes;
        let ceiling = admitted.max_message_bytes.map_or(servers, |flows| flows.min(servers));
        Ok(Enqueue { queue: admitted.queue, ceiling, format: Format::of(head) })
    }

    /// Checks the body, and then the correlation id.
    ///
    /// # Errors
    /// 415 or 400, in this order.
    pub(super) fn accept(
        self,
        body: Vec<u8>,
        correlation: &mut Correlation,
    ) -> Result<Accepted, HttpError> {
        let payload = self.format?.to_json(body)?;
        correlation.check()?;
        Ok(Accepted { queue: self.queue, payload })
    }
}

impl Accepted {
    /// Hands the message to its queue, whose thread answers it after the sync.
    pub(super) fn hand_over(
        self,
        correlation: Correlation,
        close: bool,
        exchange: &Arc<Exchange>,
        scene: &Scene<'_>,
    ) {
        let prepared = Prepared::new(&self.queue, correlation.as_str(), scene.date, close);
        let answer = Answer::new(exchange, prepared);
        let submission =
            Submission { payload: self.payload, correlation_id: correlation.into_id() };
        scene.context.services.queues.submit(&self.queue, submission, Box::new(answer));
    }
}
