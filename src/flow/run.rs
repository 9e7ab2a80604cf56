//! Runs a flow on one message.
//!
//! For each step: its effects in the order listed, each on the current document; then its fences in
//! file order. Every wait is bounded by what is left of the flow's own deadline, and no input makes
//! a run panic. What the run does to the outside goes through [`Effects`].

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::base::{Name, Timestamp};
use crate::document::{Number, Object, Value};
use crate::flow::condition;
use crate::flow::current::Current;
use crate::flow::effect::http_call::{CallError, HttpCall};
use crate::flow::effect::http_egress::EgressError;
use crate::flow::effect::{Effects, queue_publish};
use crate::flow::expression::{Reason, Root, Scope, Surroundings};
use crate::flow::fault::StepFailure;
use crate::flow::outcome::{Context, FailureKind, Outcome, error_text};
use crate::flow::program::{Effect, Fence, Flow, Step};
use crate::flow::rule;

impl Flow {
    /// Runs the flow on one message, which is JSON. Never panics on any input; ends within the
    /// flow's `timeout_ms` (each wait inside is bounded by what is left of it).
    pub fn run(&self, message: &[u8], context: &Context, effects: &Effects<'_>) -> Outcome {
        self.run_on(Current::from_text(message, false), context, effects)
    }

    /// As [`Flow::run`], on a message that came as XML and was flattened to this JSON: it keeps the
    /// mark of XML.
    pub fn run_xml(&self, flattened: &[u8], context: &Context, effects: &Effects<'_>) -> Outcome {
        self.run_on(Current::from_text(flattened, true), context, effects)
    }

    fn run_on(&self, message: Current<'_>, context: &Context, effects: &Effects<'_>) -> Outcome {
        let deadline = effects.clock.boot() + Duration::from_millis(self.settings.timeout_ms);
        let message = Rc::new(message);
        let mut run = Run {
            flow: self,
            context,
            effects,
            deadline,
            document: Rc::clone(&message),
            message,
            left: Vec::new(),
            error: None,
        };
        let failure = match run.steps(&self.steps) {
            Ok(Ended::Through) => return Outcome::Succeeded(run.document.text().to_vec()),
            Ok(Ended::Filtered) => return Outcome::Filtered,
            Err(failure) => failure,
        };
        if self.fault.is_empty() {
            return Outcome::Failed(failure.unhandled(self));
        }
        run.document = Rc::clone(&run.message);
        run.error = Some(failure.clone());
        match run.steps(&self.fault) {
            Ok(Ended::Through) => Outcome::FaultHandled(run.document.text().to_vec()),
            Ok(Ended::Filtered) => Outcome::Filtered,
            Err(handler) => Outcome::Failed(failure.while_handled(&handler, self)),
        }
    }
}

/// How a row of steps ended that did not fail.
enum Ended {
    Through,
    Filtered,
}

struct Run<'r, 'm> {
    flow: &'r Flow,
    context: &'r Context,
    effects: &'r Effects<'r>,
    /// On the boot clock.
    deadline: Duration,
    message: Rc<Current<'m>>,
    document: Rc<Current<'m>>,
    /// What each step that has run, and is named later, left as the current document.
    left: Vec<(Name, Rc<Current<'m>>)>,
    /// What the fault handler handles.
    error: Option<StepFailure>,
}

impl<'r, 'm> Run<'r, 'm> {
    fn steps(&mut self, steps: &'r [Step]) -> Result<Ended, StepFailure> {
        for step in steps {
            if let Ended::Filtered = self.step(step)? {
                return Ok(Ended::Filtered);
            }
            if self.flow.kept.contains(step.name.as_str()) {
                self.left.push((step.name.clone(), Rc::clone(&self.document)));
            }
        }
        Ok(Ended::Through)
    }

    fn step(&mut self, step: &'r Step) -> Result<Ended, StepFailure> {
        for effect in &step.effects {
            match effect {
                Effect::HttpEgress(call) => self.call(step, call)?,
                Effect::QueuePublish(target) => {
                    self.time_left(step)?;
                    let correlation_id = &self.context.correlation_id;
                    let queues = self.effects.publish;
                    queue_publish::publish(target, &self.document, correlation_id, queues)
                        .map_err(|text| failed(step, text, FailureKind::Effect))?;
                }
            }
        }
        for fence in &step.fences {
            self.time_left(step)?;
            let view = self.view(step);
            let scope = Scope::new(&view);
            let replaced = match fence {
                Fence::Ntd(template) => template.render(&scope).map_err(|reason| {
                    failed(step, format!("ntd failed: {reason}"), FailureKind::Other)
                })?,
                Fence::Validate(rules) => {
                    rule::check(rules, &scope)
                        .map_err(|text| failed(step, text, FailureKind::Validation))?;
                    continue;
                }
                Fence::Condition(condition) => {
                    let holds = condition::holds(condition, &scope)
                        .map_err(|text| failed(step, text, FailureKind::Other))?;
                    if !holds {
                        return Ok(Ended::Filtered);
                    }
                    continue;
                }
            };
            self.document = Rc::new(Current::from_value(replaced, false));
        }
        Ok(Ended::Through)
    }

    fn call(&mut self, step: &Step, call: &HttpCall) -> Result<(), StepFailure> {
        let left = self.time_left(step)?;
        let view = self.view(step);
        let scope = Scope::new(&view);
        let correlation_id = &self.context.correlation_id;
        let made = call.perform(self.effects.egress, &self.document, &scope, correlation_id, left);
        let answer = made.map_err(|error| {
            let text = view.without_secrets(error.to_string());
            self.call_failure(step, error, text)
        })?;
        if let Some(document) = answer {
            self.document = Rc::new(document);
        }
        Ok(())
    }

    fn call_failure(&self, step: &Step, error: CallError, text: String) -> StepFailure {
        let mut failure = failed(step, text, FailureKind::Effect);
        match error {
            CallError::Egress(EgressError::Status { status, retry_after, .. }) => {
                failure.status = Some(status);
                let asked = retry_after.filter(|_| matches!(status, 429 | 503));
                failure.retry_after =
                    asked.and_then(|text| retry_delay(&text, self.effects.clock.now()));
            }
            CallError::Egress(EgressError::Timeout(_)) => failure.kind = FailureKind::Timeout,
            CallError::Egress(EgressError::Transport(_)) | CallError::Content(_) => {}
        }
        failure
    }

    /// What is left of the flow's deadline: more than nothing.
    fn time_left(&self, step: &Step) -> Result<Duration, StepFailure> {
        let left = self.deadline.saturating_sub(self.effects.clock.boot());
        if left.is_zero() {
            let text = format!(
                "the run has taken longer than the flow's timeout_ms ({})",
                self.flow.settings.timeout_ms
            );
            return Err(failed(step, text, FailureKind::Timeout));
        }
        Ok(left)
    }

    fn view(&self, step: &Step) -> View<'_, 'r, 'm> {
        View { run: self, context: self.context_value(step), secrets: RefCell::new(Vec::new()) }
    }

    /// `ctx` as a value.
    fn context_value(&self, step: &Step) -> Value {
        let context = self.context;
        let text = |text: &str| Value::String(text.to_owned());
        let whole = |value: u64| Value::Number(Number::from_u64(value));
        let of_delivery = |value: Option<Value>| value.unwrap_or(Value::Null);
        let delivery = context.delivery.as_ref();
        let key = delivery.map(|d| text(&format!("{}/{}", context.queue, d.first_id)));
        let mut members = vec![
            ("correlation_id", text(context.correlation_id.as_str())),
            ("message_key", of_delivery(key)),
            ("tenant", text(context.queue.tenant.as_str())),
            ("flow", text(context.queue.flow.as_str())),
            ("version", whole(u64::from(context.version))),
            ("step", text(step.name.as_str())),
            ("attempt", of_delivery(delivery.map(|d| whole(u64::from(d.attempt))))),
            ("message_id", of_delivery(delivery.map(|d| whole(d.message_id.get())))),
            ("enqueued_at", of_delivery(delivery.map(|d| text(&d.enqueued_at.to_millis_text())))),
        ];
        if let Some(error) = &self.error {
            let status = error.status.map(|status| whole(u64::from(status)));
            let of_error = vec![
                ("step", text(error.step.as_str())),
                ("message", Value::String(error_text(&error.text))),
                ("status", of_delivery(status)),
            ];
            members.push(("error", object(of_error)));
        }
        object(members)
    }
}

fn object(members: Vec<(&str, Value)>) -> Value {
    let members = members.into_iter().map(|(key, value)| (key.to_owned(), value));
    Value::Object(Object::from_members(members.collect()))
}

fn failed(step: &Step, text: String, kind: FailureKind) -> StepFailure {
    StepFailure { step: step.name.clone(), text, kind, status: None, retry_after: None }
}

/// What `Retry-After` asks for: seconds, or a date. Seconds that do not fit are the most that fit:
/// a flow's longest delay is far below.
fn retry_delay(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().unwrap_or(u32::MAX);
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let date = Timestamp::from_http_date(text)?;
    Some(Duration::from_millis(date.millis_since(now)))
}

/// What the expressions of a step see.
struct View<'v, 'r, 'm> {
    run: &'v Run<'r, 'm>,
    context: Value,
    /// Values of secrets that were used, so that no error text repeats one.
    secrets: RefCell<Vec<String>>,
}

impl View<'_, '_, '_> {
    fn without_secrets(&self, text: String) -> String {
        let secrets = self.secrets.borrow();
        secrets
            .iter()
            .filter(|secret| !secret.is_empty())
            .fold(text, |text, secret| text.replace(secret.as_str(), "***"))
    }
}

impl Surroundings for View<'_, '_, '_> {
    fn root(&self, root: &Root) -> Result<Option<&Value>, Reason> {
        match root {
            Root::Document => self.run.document.value().map(Some),
            Root::Input => self.run.message.value().map(Some),
            Root::Context => Ok(Some(&self.context)),
            Root::Step(name) => {
                let left = self.run.left.iter().find(|(step, _)| step.as_str() == name);
                left.map(|(_, document)| document.value()).transpose()
            }
        }
    }

    fn secret(&self, name: &str) -> Option<String> {
        let secret = std::env::var(format!("NEXUS_FLOW_SECRET_{name}")).ok()?;
        self.secrets.borrow_mut().push(secret.clone());
        Some(secret)
    }

    fn uuid(&self) -> String {
        self.run.effects.random.uuid_v4()
    }

    fn now(&self) -> String {
        self.run.effects.clock.now().to_millis_text()
    }
}

#[cfg(test)]
pub(crate) mod tests;
