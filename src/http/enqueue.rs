//! `POST /flows/{tenant}/{flow}/enqueue`: the order of checks, from the gate to the hand-over.

use crate::http::connection::{Outcome, Request};
use crate::http::context::Context;
use crate::http::error::Interruption;
use crate::http::{decode, gate};
use crate::worker::Submission;

/// Checks a submission and hands it to its queue, whose thread answers it after the sync.
pub(super) fn enqueue(
    request: &mut Request<'_>,
    names: (&str, &str),
    context: &Context,
) -> Result<Outcome, Interruption> {
    let services = &context.services;
    let authorization = request.head.authorization;
    let admitted = gate::admit(context.access, authorization, names, &*services.flows)?;
    let ceiling = admitted.max_message_bytes.unwrap_or(context.max_message_bytes);
    let body = request.body.read(ceiling)?;
    let payload = decode::to_json(request.head, body)?;
    let correlation_id = request.correlation.checked()?;

    request.settle(context)?;
    let submission = Submission { payload, correlation_id };
    let reply = request.exchange.hand_over(&admitted.queue, &submission, request.close);
    services.queues.submit(&admitted.queue, submission, reply);
    Ok(Outcome::HandedOver)
}
