//! The artifact: a compiled flow as the registry stores it.
//!
//! JSON in UTF-8, one object:
//!
//! | key                 | meaning                                                         |
//! |---------------------|-----------------------------------------------------------------|
//! | `format`            | always `nexus flow`                                             |
//! | `format_version`    | 1; a change of anything below is a new version, and old ones    |
//! |                     | stay readable                                                   |
//! | `tenant`, `flow`    | the queue that it belongs to                                    |
//! | `description`       | absent when there is none                                       |
//! | `max_message_bytes` | of the front matter; absent when there is none                  |
//! | `timeout_ms`        | of the front matter                                             |
//! | `queue`             | the retry policy and the other `queue_` keys; factors are texts,|
//! |                     | so that no digit is lost                                        |
//! | `steps`, `fault`    | for each step its name, its effects and its fences, in order    |
//!
//! Expressions, templates and patterns are stored by their text and read again when the artifact is
//! loaded, by the code that read them at publication. A reader refuses what it does not understand:
//! another format, a newer version, an unknown key, a value out of its range. Integrity is not
//! checked here: the registry keeps the SHA-256 and verifies it before the artifact is read.

use serde::{Deserialize, Serialize};

use crate::base::limits::{MAX_FLOW_STEPS, MAX_FLOW_TIMEOUT_MS, MAX_IN_FLIGHT, MAX_RETRY_DELAY_MS};
use crate::base::{Name, QueueName, RetryPolicy};
use crate::flow::effect::http_call::{HttpCall, Method};
use crate::flow::expression::{Expression, ExpressionError};
use crate::flow::program::{Effect, Fence, Flow, Settings, StatusRange, Step, named_steps};
use crate::flow::rule::Rule;
use crate::flow::template::{Template, TextTemplate};

const FORMAT: &str = "nexus flow";
const FORMAT_VERSION: u32 = 1;

/// Why bytes are not an artifact that this build can run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the artifact cannot be run: {0}")]
pub struct ArtifactError(pub String);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: String,
    format_version: u32,
    tenant: Name,
    flow: Name,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_message_bytes: Option<u64>,
    timeout_ms: u64,
    queue: QueueFile,
    steps: Vec<StepFile>,
    fault: Vec<StepFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueFile {
    max_attempts: u32,
    initial_delay_ms: u64,
    backoff_factor: String,
    max_delay_ms: u64,
    jitter_factor: String,
    concurrency: usize,
    non_retryable: Vec<String>,
    honor_retry_after: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepFile {
    name: Name,
    effects: Vec<EffectFile>,
    fences: Vec<FenceFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case", deny_unknown_fields)]
enum EffectFile {
    HttpEgress {
        endpoint: String,
        method: String,
        headers: Vec<(String, String)>,
        timeout_ms: u64,
        max_response_bytes: u64,
    },
    QueuePublish {
        queue: Name,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "fence", rename_all = "snake_case", deny_unknown_fields)]
enum FenceFile {
    Ntd { template: String },
    Validate { rules: Vec<RuleFile> },
    Condition { expression: String },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    expression: String,
    message: String,
}

impl Flow {
    /// Reads an artifact (whose SHA-256 the registry has verified).
    ///
    /// # Errors
    /// [`ArtifactError`] when it is of another format or version, or not as the compiler writes it.
    pub fn from_artifact(bytes: &[u8]) -> Result<Flow, ArtifactError> {
        check_format(bytes)?;
        let file: File = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
        if file.steps.is_empty() || file.steps.len() + file.fault.len() > MAX_FLOW_STEPS {
            return Err(wrong("it has no step, or too many"));
        }
        let (steps, fault) = (steps(file.steps)?, steps(file.fault)?);
        Ok(Flow {
            kept: named_steps(steps.iter().chain(&fault)),
            name: QueueName { tenant: file.tenant, flow: file.flow },
            description: file.description,
            settings: settings(file.queue, file.max_message_bytes, file.timeout_ms)?,
            steps,
            fault,
        })
    }

    /// Writes the artifact. The same flow gives the same bytes.
    pub fn to_artifact(&self) -> Vec<u8> {
        let settings = &self.settings;
        let policy = settings.policy;
        let file = File {
            format: FORMAT.to_owned(),
            format_version: FORMAT_VERSION,
            tenant: self.name.tenant.clone(),
            flow: self.name.flow.clone(),
            description: self.description.clone(),
            max_message_bytes: settings.max_message_bytes,
            timeout_ms: settings.timeout_ms,
            queue: QueueFile {
                max_attempts: policy.max_attempts,
                initial_delay_ms: policy.initial_delay_ms,
                backoff_factor: policy.backoff_factor.to_string(),
                max_delay_ms: policy.max_delay_ms,
                jitter_factor: policy.jitter_factor.to_string(),
                concurrency: settings.concurrency,
                non_retryable: settings.non_retryable.iter().map(ToString::to_string).collect(),
                honor_retry_after: settings.honor_retry_after,
            },
            steps: self.steps.iter().map(step_file).collect(),
            fault: self.fault.iter().map(step_file).collect(),
        };
        // Texts and whole numbers always have a JSON form.
        serde_json::to_vec_pretty(&file).unwrap_or_default()
    }
}

fn wrong(text: impl Into<String>) -> ArtifactError {
    ArtifactError(text.into())
}

/// The format and its version come first, so that a newer artifact is called newer and not broken.
fn check_format(bytes: &[u8]) -> Result<(), ArtifactError> {
    #[derive(Deserialize)]
    struct Head {
        format: String,
        format_version: u32,
    }
    let head: Head = serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))?;
    if head.format != FORMAT {
        return Err(wrong("it is of another format"));
    }
    if head.format_version != FORMAT_VERSION {
        let found = head.format_version;
        return Err(wrong(format!(
            "it is of format version {found}, and this build reads version {FORMAT_VERSION}; \
             publish the flow again"
        )));
    }
    Ok(())
}

fn settings(
    queue: QueueFile,
    max_message_bytes: Option<u64>,
    timeout_ms: u64,
) -> Result<Settings, ArtifactError> {
    let factor = |text: &str, from: f64, to: f64| {
        let value = text.parse::<f64>().ok();
        value
            .filter(|v| v.is_finite() && (from..=to).contains(v))
            .ok_or_else(|| wrong("a factor is out of its range"))
    };
    let non_retryable: Option<Vec<StatusRange>> =
        queue.non_retryable.iter().map(|text| StatusRange::parse(text)).collect();
    let delays = [queue.initial_delay_ms, queue.max_delay_ms];
    if queue.max_attempts == 0
        || !(1..=MAX_IN_FLIGHT).contains(&queue.concurrency)
        || delays.iter().any(|delay| *delay > MAX_RETRY_DELAY_MS)
        || !(1..=MAX_FLOW_TIMEOUT_MS).contains(&timeout_ms)
    {
        return Err(wrong("a number of its front matter is out of its range"));
    }
    Ok(Settings {
        policy: RetryPolicy {
            max_attempts: queue.max_attempts,
            initial_delay_ms: queue.initial_delay_ms,
            backoff_factor: factor(&queue.backoff_factor, 1.0, f64::MAX)?,
            max_delay_ms: queue.max_delay_ms,
            jitter_factor: factor(&queue.jitter_factor, 0.0, 1.0)?,
        },
        concurrency: queue.concurrency,
        max_message_bytes,
        timeout_ms,
        non_retryable: non_retryable.ok_or_else(|| wrong("a status is out of its range"))?,
        honor_retry_after: queue.honor_retry_after,
    })
}

fn steps(files: Vec<StepFile>) -> Result<Vec<Step>, ArtifactError> {
    files.into_iter().map(step).collect()
}

fn step(file: StepFile) -> Result<Step, ArtifactError> {
    let name = file.name;
    let in_step = |error: ExpressionError| wrong(format!("step '{name}': {error}"));
    let mut effects = Vec::with_capacity(file.effects.len());
    for effect in file.effects {
        effects.push(match effect {
            EffectFile::QueuePublish { queue } => Effect::QueuePublish(queue),
            EffectFile::HttpEgress {
                endpoint,
                method,
                headers,
                timeout_ms,
                max_response_bytes,
            } => {
                let headers: Result<Vec<_>, ExpressionError> = headers
                    .into_iter()
                    .map(|(name, value)| Ok((name, TextTemplate::parse(&value)?)))
                    .collect();
                Effect::HttpEgress(Box::new(HttpCall {
                    endpoint: TextTemplate::parse(&endpoint).map_err(in_step)?,
                    method: Method::parse(&method).ok_or_else(|| wrong("unknown method"))?,
                    headers: headers.map_err(in_step)?,
                    timeout_ms,
                    max_response_bytes,
                }))
            }
        });
    }
    let fences: Result<Vec<Fence>, ExpressionError> = file.fences.into_iter().map(fence).collect();
    let fences = fences.map_err(in_step)?;
    Ok(Step { name, effects, fences })
}

fn fence(file: FenceFile) -> Result<Fence, ExpressionError> {
    Ok(match file {
        FenceFile::Ntd { template } => Fence::Ntd(Template::parse(&template)?),
        FenceFile::Condition { expression } => Fence::Condition(Expression::parse(&expression)?),
        FenceFile::Validate { rules } => {
            let rules: Result<Vec<Rule>, ExpressionError> = rules
                .into_iter()
                .map(|rule| {
                    let expression = Expression::parse(&rule.expression)?;
                    Ok(Rule { expression, message: rule.message })
                })
                .collect();
            Fence::Validate(rules?)
        }
    })
}

fn step_file(step: &Step) -> StepFile {
    let effects = step.effects.iter().map(|effect| match effect {
        Effect::QueuePublish(queue) => EffectFile::QueuePublish { queue: queue.clone() },
        Effect::HttpEgress(call) => EffectFile::HttpEgress {
            endpoint: call.endpoint.source().to_owned(),
            method: call.method.as_str().to_owned(),
            headers: call
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), value.source().to_owned()))
                .collect(),
            timeout_ms: call.timeout_ms,
            max_response_bytes: call.max_response_bytes,
        },
    });
    let fences = step.fences.iter().map(|fence| match fence {
        Fence::Ntd(template) => FenceFile::Ntd { template: template.source().to_owned() },
        Fence::Condition(condition) => {
            FenceFile::Condition { expression: condition.source().to_owned() }
        }
        Fence::Validate(rules) => FenceFile::Validate {
            rules: rules
                .iter()
                .map(|rule| RuleFile {
                    expression: rule.expression.source().to_owned(),
                    message: rule.message.clone(),
                })
                .collect(),
        },
    });
    StepFile { name: step.name.clone(), effects: effects.collect(), fences: fences.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::compile::compile;

    fn sample() -> Flow {
        let source = include_str!("artifact/sample.md");
        let compilation = compile(source);
        assert_eq!(compilation.problems, []);
        compilation.flow.unwrap()
    }

    #[test]
    fn the_artifact_of_the_sample_is_what_it_was_and_reads_back() {
        let written = String::from_utf8(sample().to_artifact()).unwrap();
        assert_eq!(written, include_str!("artifact/sample.v1.json").trim_end());
        let read = Flow::from_artifact(written.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(read.to_artifact()).unwrap(), written);
        assert_eq!(read.settings, sample().settings);
    }

    #[test]
    fn an_artifact_that_is_not_understood_is_refused_with_its_reason() {
        let written = String::from_utf8(sample().to_artifact()).unwrap();
        let changed = |from: &str, to: &str| {
            assert!(written.contains(from), "{from}");
            let error = Flow::from_artifact(written.replacen(from, to, 1).as_bytes());
            error.map(|_| ()).unwrap_err().to_string()
        };
        assert!(
            changed("\"format_version\": 1", "\"format_version\": 2").contains("format version 2")
        );
        assert!(changed("nexus flow", "other").contains("another format"));
        assert!(changed("\"max_attempts\": 5", "\"max_attempts\": 0").contains("out of its range"));
        assert!(changed("60000", "86400001").contains("out of its range"));
        assert!(changed("\"3.5\"", "\"0.5\"").contains("out of its range"));
        assert!(changed("\"POST\"", "\"POSTS\"").contains("unknown method"));
        assert!(changed("$.total > 0", "$.total >").contains("step 'check'"));
        assert!(
            changed("\"tenant\": \"acme\"", "\"tenant\": \"../x\"").contains("begins with '.'")
        );
        assert!(
            changed("\"timeout_ms\"", "\"extra\": 1, \"timeout_ms\"").contains("unknown field")
        );
        assert!(Flow::from_artifact(b"").is_err());
        assert!(Flow::from_artifact(&written.as_bytes()[..written.len() / 2]).is_err());
    }
}
