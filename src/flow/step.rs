//! A section of the source becomes a step: its properties by effect, and its fences.
//!
//! A key of an effect that the step does not use is an error, and so is a key that is not known.
//! Not here: what only the whole flow can tell, such as whether a step that is named exists
//! (`check`).

use crate::base::Name;
use crate::base::limits::{
    DEFAULT_EGRESS_TIMEOUT_MS, DEFAULT_MAX_RESPONSE_BYTES, MAX_FLOW_TIMEOUT_MS, MAX_MESSAGE_BYTES,
};
use crate::flow::effect::http_call::{self, HttpCall, Method};
use crate::flow::expression::{Expression, ExpressionError, Reference, Target};
use crate::flow::fields::{self, Fields};
use crate::flow::problem::{Problems, Severity};
use crate::flow::program::{Effect, Fence, Step};
use crate::flow::rule::{self, Rule};
use crate::flow::source::{self, Section};
use crate::flow::suggest::{did_you_mean, distance};
use crate::flow::template::{Template, TextTemplate};
use crate::flow::yaml::{self, Entry};

/// The keys of a step, of all effects.
pub(crate) const STEP_KEYS: [&str; 7] =
    ["effects", "endpoint", "method", "headers", "timeout_ms", "max_response_bytes", "queue"];

/// The fences with a meaning.
pub(crate) const FENCES: [&str; 3] = ["ntd", "validate", "condition"];

/// The keys that belong to an effect.
const EFFECT_KEYS: [(&str, EffectName); 6] = [
    ("endpoint", EffectName::HttpEgress),
    ("method", EffectName::HttpEgress),
    ("headers", EffectName::HttpEgress),
    ("timeout_ms", EffectName::HttpEgress),
    ("max_response_bytes", EffectName::HttpEgress),
    ("queue", EffectName::QueuePublish),
];

/// An effect by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EffectName {
    /// `http_egress`
    HttpEgress,
    /// `queue_publish`
    QueuePublish,
}

impl EffectName {
    const ALL: [(&'static str, EffectName); 2] =
        [("http_egress", EffectName::HttpEgress), ("queue_publish", EffectName::QueuePublish)];

    /// The name as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            EffectName::HttpEgress => "http_egress",
            EffectName::QueuePublish => "queue_publish",
        }
    }

    /// Reads the list of an `effects` key, with the place of each.
    pub(crate) fn read_list(
        entry: &Entry,
        problems: &mut Problems<'_>,
    ) -> Vec<(EffectName, usize)> {
        let mut effects: Vec<(EffectName, usize)> = Vec::new();
        for item in fields::list(entry, problems).unwrap_or_default() {
            let text = fields::scalar(item).unwrap_or_default();
            let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, effect)| *effect);
            match found {
                Some(effect) if effects.iter().any(|(known, _)| *known == effect) => {
                    problems.error(item.at, format!("the effect `{text}` is listed twice"));
                }
                Some(effect) => effects.push((effect, item.at)),
                None => {
                    let known = Self::ALL.map(|(name, _)| name);
                    let help = did_you_mean(text, &known)
                        .unwrap_or_else(|| format!("known are {}", known.join(", ")));
                    problems.error_with_help(item.at, format!("unknown effect {text:?}"), help);
                }
            }
        }
        effects
    }
}

/// A step as its section declares it, with what the whole flow must be checked for.
#[derive(Debug)]
pub(crate) struct Declared {
    /// Where its heading is.
    pub(crate) at: usize,
    pub(crate) fault: bool,
    pub(crate) step: Step,
    /// The effects that it uses, and where.
    pub(crate) effects: Vec<(EffectName, usize)>,
    pub(crate) uses: Vec<Use>,
    /// Where its condition is, if it has one.
    pub(crate) condition: Option<usize>,
}

/// Something that is named in the step, with its place in the source.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) at: usize,
    pub(crate) target: Target,
    pub(crate) place: Place,
}

/// Where something is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a fence.
    Fence,
    /// In an endpoint or a header.
    Outgoing,
    /// In a header that a receiver tells repeats by.
    IdempotencyKey,
}

/// Reads a section. `unnamed` counts the fault sections without a name so far.
pub(crate) fn read(
    section: &Section,
    unnamed: &mut usize,
    problems: &mut Problems<'_>,
) -> Option<Declared> {
    let name = step_name(section, unnamed, problems);
    let mut reader = Reader { problems, uses: Vec::new() };
    let (used, effects) = reader.properties(section);
    let (fences, condition) = reader.fences(section);
    let uses = reader.uses;
    let meant = section.fences.iter().any(|fence| FENCES.contains(&fence.info.as_str()));
    if !meant && section.properties.is_none() {
        problems.warning(
            section.at,
            "this step does nothing",
            "give it `effects: [...]`, or an ntd, validate or condition fence",
        );
    }
    let step = Step { name: name?, effects, fences };
    Some(Declared { at: section.at, fault: section.fault, step, effects: used, uses, condition })
}

fn step_name(section: &Section, unnamed: &mut usize, problems: &mut Problems<'_>) -> Option<Name> {
    let mut text = section.name.clone();
    if section.fault && text.is_empty() {
        *unnamed += 1;
        text = if *unnamed == 1 { "fault".to_owned() } else { format!("fault-{unnamed}") };
    }
    match Name::parse(&text) {
        Ok(name) => Some(name),
        Err(fault) => {
            let message = format!("the name of the step {text:?} is not allowed: {fault}");
            problems.error(section.at, message);
            None
        }
    }
}

struct Reader<'p, 's> {
    problems: &'p mut Problems<'s>,
    uses: Vec<Use>,
}

impl Reader<'_, '_> {
    /// The effects with their places, and as they are to be run.
    fn properties(&mut self, section: &Section) -> (Vec<(EffectName, usize)>, Vec<Effect>) {
        let entries = section.properties.as_ref().and_then(|text| yaml::read(text, self.problems));
        let mut fields = Fields::new(entries.unwrap_or_default());
        let used = fields
            .take("effects")
            .map(|entry| EffectName::read_list(&entry, self.problems))
            .unwrap_or_default();
        let mut effects = Vec::new();
        for (effect, at) in &used {
            let read = match effect {
                EffectName::HttpEgress => self.http_call(&mut fields, *at),
                EffectName::QueuePublish => self.queue(&mut fields, *at),
            };
            effects.extend(read);
        }
        for (key, effect) in EFFECT_KEYS {
            if used.iter().any(|(used, _)| *used == effect) {
                continue;
            }
            if let Some(entry) = fields.take(key) {
                let name = effect.as_str();
                self.problems.error_with_help(
                    entry.at,
                    format!("`{key}` belongs to the effect {name}, which this step does not use"),
                    format!("add effects: [{name}], or remove the key"),
                );
            }
        }
        fields.refuse_rest(&STEP_KEYS, self.problems);
        (used, effects)
    }

    fn http_call(&mut self, fields: &mut Fields, at: usize) -> Option<Effect> {
        let endpoint = match fields.take("endpoint") {
            Some(entry) => self.endpoint(&entry),
            None => {
                self.problems.error(at, "a step with http_egress needs an `endpoint`");
                None
            }
        };
        let method = match fields.take("method") {
            Some(entry) => self.method(&entry),
            None => Some(Method::Post),
        };
        let headers = fields.take("headers").map(|entry| self.headers(&entry)).unwrap_or_default();
        let mut whole = |key: &str, to: u64, unit: &str, default: u64| match fields.take(key) {
            Some(entry) => fields::whole(&entry, 1..=to, unit, self.problems),
            None => Some(default),
        };
        let timeout =
            whole("timeout_ms", MAX_FLOW_TIMEOUT_MS, "milliseconds", DEFAULT_EGRESS_TIMEOUT_MS);
        let most =
            whole("max_response_bytes", MAX_MESSAGE_BYTES, "bytes", DEFAULT_MAX_RESPONSE_BYTES);
        Some(Effect::HttpEgress(Box::new(HttpCall {
            endpoint: endpoint?,
            method: method?,
            headers,
            timeout_ms: timeout?,
            max_response_bytes: most?,
        })))
    }

    fn endpoint(&mut self, entry: &Entry) -> Option<TextTemplate> {
        let text = fields::text(entry, self.problems)?;
        let template = self.text_template(&text, entry, Place::Outgoing)?;
        if let Err(reason) = http_call::check_endpoint(&template) {
            self.problems.error_with_help(
                entry.value.at,
                format!("`endpoint` {reason}"),
                "write http://HOST/PATH or https://HOST/PATH",
            );
            return None;
        }
        Some(template)
    }

    fn method(&mut self, entry: &Entry) -> Option<Method> {
        let text = fields::text(entry, self.problems)?;
        let method = Method::parse(&text);
        if method.is_none() {
            self.problems.error_with_help(
                entry.value.at,
                format!("unknown method {text:?}"),
                format!("known are {}", Method::ALL.map(Method::as_str).join(", ")),
            );
        }
        method
    }

    fn headers(&mut self, entry: &Entry) -> Vec<(String, TextTemplate)> {
        let mut headers: Vec<(String, TextTemplate)> = Vec::new();
        for header in fields::map(entry, self.problems).unwrap_or_default() {
            let name = &header.key;
            if let Err(reason) = http_call::check_header_name(name) {
                self.problems.error(header.at, format!("the header {name:?} {reason}"));
                continue;
            }
            if headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                self.problems.error(header.at, format!("the header {name:?} is set twice"));
                continue;
            }
            let Some(text) = fields::scalar(&header.value).filter(|text| !text.is_empty()) else {
                self.problems.error(header.value.at, format!("the header {name:?} needs a text"));
                continue;
            };
            let key = name.to_ascii_lowercase().contains("idempotency");
            let place = if key { Place::IdempotencyKey } else { Place::Outgoing };
            if text.contains(['\r', '\n']) {
                self.problems
                    .error(header.value.at, format!("the header {name:?} has a line break"));
            } else if let Some(template) = self.text_template(text, header, place) {
                headers.push((name.clone(), template));
            }
        }
        headers
    }

    fn text_template(&mut self, text: &str, entry: &Entry, place: Place) -> Option<TextTemplate> {
        match TextTemplate::parse(text) {
            Ok(template) => {
                self.note(template.references(), place, |_| entry.value.at);
                Some(template)
            }
            Err(error) => {
                let message = format!("`{}`: {}", entry.key, error.text);
                self.problems.add(entry.value.at, Severity::Error, message, error.help);
                None
            }
        }
    }

    fn queue(&mut self, fields: &mut Fields, at: usize) -> Option<Effect> {
        let Some(entry) = fields.take("queue") else {
            self.problems.error(at, "a step with queue_publish needs a `queue`");
            return None;
        };
        let text = fields::text(&entry, self.problems)?;
        match Name::parse(&text) {
            Ok(name) => Some(Effect::QueuePublish(name)),
            Err(fault) => {
                let message =
                    format!("the queue {text:?} is not a name that can become a path: {fault}");
                self.problems.error(entry.value.at, message);
                None
            }
        }
    }

    /// The fences with a meaning, and where the condition is.
    fn fences(&mut self, section: &Section) -> (Vec<Fence>, Option<usize>) {
        let mut fences = Vec::new();
        let (mut ntd, mut condition) = (None, None);
        for fence in &section.fences {
            let only = match fence.info.as_str() {
                "ntd" => Some(&mut ntd),
                "condition" => Some(&mut condition),
                _ => None,
            };
            if only.is_some_and(|seen: &mut Option<usize>| seen.replace(fence.at).is_some()) {
                let message = format!("a step has at most one {} fence", fence.info);
                self.problems.error(fence.at, message);
                continue;
            }
            let read = match fence.info.as_str() {
                "ntd" => self.ntd(fence),
                "validate" => self.validate(fence),
                "condition" => self.condition(fence),
                other => {
                    self.warn_if_nearly(other, fence.at);
                    None
                }
            };
            fences.extend(read);
        }
        (fences, condition)
    }

    fn warn_if_nearly(&mut self, info: &str, at: usize) {
        let word = info.split_whitespace().next().unwrap_or_default();
        let meant = FENCES.into_iter().find(|known| {
            let near = usize::from(known.len() > 3) + usize::from(known.len() > 6);
            distance(word, known) <= near
        });
        if let Some(meant) = meant {
            self.problems.warning(
                at,
                format!("a fence {info:?} is prose and is ignored"),
                format!("if the fence is meant, write ```{meant}"),
            );
        }
    }

    fn ntd(&mut self, fence: &source::Fence) -> Option<Fence> {
        match Template::parse(&fence.content.text) {
            Ok(template) => {
                self.note(template.references(), Place::Fence, |at| fence.content.place(at));
                Some(Fence::Ntd(template))
            }
            Err(error) => {
                self.expression_error(fence.content.place(error.at), "this template", error);
                None
            }
        }
    }

    fn validate(&mut self, fence: &source::Fence) -> Option<Fence> {
        let mut rules = Vec::new();
        for (start, line) in rule::lines(&fence.content.text) {
            match Rule::parse(line) {
                Ok(rule) => {
                    let place = |at: usize| fence.content.place(start + at);
                    self.note(rule.expression.references(), Place::Fence, place);
                    rules.push(rule);
                }
                Err(error) => {
                    let at = fence.content.place(start + error.at);
                    self.expression_error(at, "this rule", error);
                }
            }
        }
        if rule::lines(&fence.content.text).next().is_none() {
            self.problems.error(fence.at, "this validate fence has no rule");
        }
        Some(Fence::Validate(rules))
    }

    fn condition(&mut self, fence: &source::Fence) -> Option<Fence> {
        match Expression::parse(&fence.content.text) {
            Ok(expression) => {
                let place = |at: usize| fence.content.place(at);
                self.note(expression.references(), Place::Fence, place);
                Some(Fence::Condition(expression))
            }
            Err(error) => {
                self.expression_error(fence.content.place(error.at), "this condition", error);
                None
            }
        }
    }

    fn expression_error(&mut self, at: usize, what: &str, error: ExpressionError) {
        self.problems.add(at, Severity::Error, format!("{what}: {}", error.text), error.help);
    }

    fn note(&mut self, references: &[Reference], place: Place, at: impl Fn(usize) -> usize) {
        self.uses.extend(references.iter().map(|reference| Use {
            at: at(reference.at),
            target: reference.target.clone(),
            place,
        }));
    }
}
