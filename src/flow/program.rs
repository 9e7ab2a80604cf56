//! A compiled flow: what the compiler makes, an artifact stores and a run follows.
//!
//! A value of [`Flow`] has been checked: names are names, numbers are in their ranges, templates
//! and expressions have been read. Not here: making one (`compile`, `artifact`) and following it
//! (`run`).

use std::collections::BTreeSet;

use crate::base::{Name, QueueName, RetryPolicy};
use crate::flow::effect::http_call::HttpCall;
use crate::flow::expression::{Expression, Reference, Target};
use crate::flow::rule::Rule;
use crate::flow::template::Template;

/// A compiled flow, ready to run.
#[derive(Debug, Clone)]
pub struct Flow {
    pub(crate) name: QueueName,
    pub(crate) description: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) steps: Vec<Step>,
    /// The steps of the fault handler.
    pub(crate) fault: Vec<Step>,
    /// The steps whose documents a later expression names: the only ones that a run keeps.
    pub(crate) kept: BTreeSet<String>,
}

/// The steps that are named as `steps.NAME` in any of these.
pub(crate) fn named_steps<'s>(steps: impl Iterator<Item = &'s Step>) -> BTreeSet<String> {
    steps
        .flat_map(Step::references)
        .filter_map(|reference| match &reference.target {
            Target::Step(name) => Some(name.clone()),
            Target::Secret(_) | Target::Error | Target::Changing(_) => None,
        })
        .collect()
}

impl Step {
    /// What its expressions and templates refer to.
    fn references(&self) -> impl Iterator<Item = &Reference> {
        let calls = self.effects.iter().filter_map(|effect| match effect {
            Effect::HttpEgress(call) => Some(call),
            Effect::QueuePublish(_) => None,
        });
        let outgoing = calls.flat_map(|call| {
            let headers = call.headers.iter().flat_map(|(_, value)| value.references());
            call.endpoint.references().iter().chain(headers)
        });
        outgoing.chain(self.fences.iter().flat_map(Fence::references))
    }
}

/// The numbers of a flow's front matter, within the ranges of the page.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// How failed deliveries are tried again.
    pub policy: RetryPolicy,
    /// Deliveries in flight at once, 1 to 64.
    pub concurrency: usize,
    /// Ceiling on a message, in bytes.
    pub max_message_bytes: Option<u64>,
    /// Deadline of one run, in milliseconds.
    pub timeout_ms: u64,
    /// Statuses of a downstream that dead-letter at once.
    pub non_retryable: Vec<StatusRange>,
    /// Whether a `Retry-After` postpones the next attempt.
    pub honor_retry_after: bool,
}

/// Statuses that are meant together: one, or all of a hundred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    /// Reads `404` or `4xx`; 3xx to 5xx are statuses that fail a step.
    pub fn parse(text: &str) -> Option<StatusRange> {
        if let Some(hundreds) = text.strip_suffix("xx") {
            let hundreds: u16 = hundreds.parse().ok().filter(|h| (3..=5).contains(h))?;
            let first = hundreds * 100;
            return (text.len() == 3).then_some(StatusRange { first, last: first + 99 });
        }
        let status = text.parse().ok().filter(|s| (300..=599).contains(s) && text.len() == 3)?;
        Some(StatusRange { first: status, last: status })
    }

    /// Whether a status is meant.
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl std::fmt::Display for StatusRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first);
        }
        write!(f, "{}xx", self.first / 100)
    }
}

/// One step, of the flow or of its fault handler.
#[derive(Debug, Clone)]
pub struct Step {
    /// Its name, unique in the flow.
    pub name: Name,
    /// Its effects, in order.
    pub effects: Vec<Effect>,
    /// Its fences, in order.
    pub fences: Vec<Fence>,
}

/// What a step does to the outside.
#[derive(Debug, Clone)]
pub enum Effect {
    /// `http_egress`
    HttpEgress(Box<HttpCall>),
    /// `queue_publish` to this flow of the same tenant.
    QueuePublish(Name),
}

/// What a step does to the document.
#[derive(Debug, Clone)]
pub enum Fence {
    /// Replaces it.
    Ntd(Template),
    /// Fails unless all rules hold.
    Validate(Vec<Rule>),
    /// Ends the run as filtered unless it holds.
    Condition(Expression),
}

impl Fence {
    fn references(&self) -> Box<dyn Iterator<Item = &Reference> + '_> {
        match self {
            Fence::Ntd(template) => Box::new(template.references().iter()),
            Fence::Condition(expression) => Box::new(expression.references().iter()),
            Fence::Validate(rules) => {
                Box::new(rules.iter().flat_map(|rule| rule.expression.references()))
            }
        }
    }
}

impl Flow {
    /// The queue whose messages the flow is run on.
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// How failed deliveries are tried again.
    pub fn policy(&self) -> RetryPolicy {
        self.settings.policy
    }

    /// Deliveries in flight at once, 1 to 64.
    pub fn concurrency(&self) -> usize {
        self.settings.concurrency
    }

    /// The ceiling of the flow's access points in bytes; `None` for the server's.
    pub fn max_message_bytes(&self) -> Option<u64> {
        self.settings.max_message_bytes
    }

    /// One line about the flow.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_and_the_client_can_be_shared_by_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Flow>();
        shared::<crate::flow::HttpEgress>();
    }

    #[test]
    fn status_ranges_are_one_status_or_a_hundred() {
        for text in ["404", "4xx", "300", "599", "3xx", "5xx"] {
            assert_eq!(StatusRange::parse(text).unwrap().to_string(), text);
        }
        for bad in [
            "200", "2xx", "600", "6xx", "xx", "4x", "40", "4xxx", "0404", "04xx", "+404", "+xx",
            "4XX", "",
        ] {
            assert_eq!(StatusRange::parse(bad), None, "{bad}");
        }
        assert!(StatusRange::parse("4xx").unwrap().contains(499));
        assert!(!StatusRange::parse("4xx").unwrap().contains(500));
    }
}
