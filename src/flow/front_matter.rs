//! The front matter: who the flow is, how its queue retries, what a run may take. Every key with
//! its range.
//!
//! Source: the document's section "Retry configuration" for the four `queue_` keys that it names;
//! the others are beyond it.

use crate::base::limits::{
    DEFAULT_FLOW_TIMEOUT_MS, MAX_DESCRIPTION_LEN, MAX_FLOW_TIMEOUT_MS, MAX_IN_FLIGHT,
    MAX_MESSAGE_BYTES, MAX_RETRY_DELAY_MS,
};
use crate::base::{Name, QueueName, RetryPolicy};
use crate::flow::fields::{self, Fields};
use crate::flow::problem::Problems;
use crate::flow::program::{Settings, StatusRange};
use crate::flow::source::Excerpt;
use crate::flow::step::EffectName;
use crate::flow::yaml::{self, Entry};

/// The version of the language that is understood.
const VERSION: &str = "0.1";

/// The keys of the front matter.
const KEYS: [&str; 15] = [
    "flowmarkdown_version",
    "tenant",
    "flow",
    "description",
    "effects",
    "queue_max_attempts",
    "queue_initial_delay_ms",
    "queue_backoff_factor",
    "queue_max_delay_ms",
    "queue_jitter_factor",
    "queue_concurrency",
    "queue_non_retryable",
    "queue_honor_retry_after",
    "max_message_bytes",
    "timeout_ms",
];

/// What the front matter says. What is missing or wrong in it has been noted and has its default.
#[derive(Debug)]
pub(crate) struct FrontMatter {
    /// `None` when tenant or flow is missing or breaks the rule for names.
    pub(crate) name: Option<QueueName>,
    pub(crate) description: Option<String>,
    pub(crate) settings: Settings,
    /// The effects that the steps may use, and where each is declared.
    pub(crate) effects: Vec<(EffectName, usize)>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            policy: RetryPolicy::default(),
            concurrency: 1,
            max_message_bytes: None,
            timeout_ms: DEFAULT_FLOW_TIMEOUT_MS,
            non_retryable: Vec::new(),
            honor_retry_after: false,
        }
    }
}

/// Reads the front matter and notes what is wrong with it.
pub(crate) fn read(excerpt: &Excerpt, problems: &mut Problems<'_>) -> FrontMatter {
    let Some(entries) = yaml::read(excerpt, problems) else {
        // Not YAML at all: that its keys are missing would be no news.
        return FrontMatter {
            name: None,
            description: None,
            settings: Settings::default(),
            effects: Vec::new(),
        };
    };
    let mut fields = Fields::new(entries);
    let at = excerpt.place(0);
    version(&mut fields, at, problems);
    let tenant = name(&mut fields, "tenant", at, problems);
    let flow = name(&mut fields, "flow", at, problems);
    let front = FrontMatter {
        name: tenant.zip(flow).map(|(tenant, flow)| QueueName { tenant, flow }),
        description: description(&mut fields, problems),
        settings: settings(&mut fields, problems),
        effects: effects(&mut fields, problems),
    };
    fields.refuse_rest(&KEYS, problems);
    front
}

fn version(fields: &mut Fields, at: usize, problems: &mut Problems<'_>) {
    let Some(entry) = required(fields, "flowmarkdown_version", at, problems) else { return };
    let Some(version) = fields::text(&entry, problems) else { return };
    if version != VERSION {
        problems.error_with_help(
            entry.value.at,
            format!("`flowmarkdown_version` {version:?} is not known"),
            format!("this build reads flowmarkdown_version: \"{VERSION}\""),
        );
    }
}

fn required(
    fields: &mut Fields,
    key: &str,
    at: usize,
    problems: &mut Problems<'_>,
) -> Option<Entry> {
    let entry = fields.take(key);
    if entry.is_none() {
        problems.error(at, format!("the front matter has no `{key}`"));
    }
    entry
}

fn name(fields: &mut Fields, key: &str, at: usize, problems: &mut Problems<'_>) -> Option<Name> {
    let entry = required(fields, key, at, problems)?;
    let text = fields::text(&entry, problems)?;
    match Name::parse(&text) {
        Ok(name) => Some(name),
        Err(fault) => {
            let message =
                format!("the {key} {text:?} is not a name that can become a path: {fault}");
            problems.error(entry.value.at, message);
            None
        }
    }
}

fn description(fields: &mut Fields, problems: &mut Problems<'_>) -> Option<String> {
    let entry = fields.take("description")?;
    let text = fields::text(&entry, problems)?;
    if text.chars().count() > MAX_DESCRIPTION_LEN || text.contains(char::is_control) {
        let message =
            format!("`description` must be one line of at most {MAX_DESCRIPTION_LEN} characters");
        problems.error(entry.value.at, message);
        return None;
    }
    Some(text)
}

fn settings(fields: &mut Fields, problems: &mut Problems<'_>) -> Settings {
    let default = Settings::default();
    let policy = RetryPolicy {
        max_attempts: whole(fields, "queue_max_attempts", 1, u64::from(u32::MAX), "", problems)
            .and_then(|attempts| u32::try_from(attempts).ok())
            .unwrap_or(default.policy.max_attempts),
        initial_delay_ms: delay(fields, "queue_initial_delay_ms", problems)
            .unwrap_or(default.policy.initial_delay_ms),
        backoff_factor: number(fields, "queue_backoff_factor", 1.0, f64::MAX, problems)
            .unwrap_or(default.policy.backoff_factor),
        max_delay_ms: delay(fields, "queue_max_delay_ms", problems)
            .unwrap_or(default.policy.max_delay_ms),
        jitter_factor: number(fields, "queue_jitter_factor", 0.0, 1.0, problems)
            .unwrap_or(default.policy.jitter_factor),
    };
    let in_flight = MAX_IN_FLIGHT as u64;
    Settings {
        policy,
        concurrency: whole(fields, "queue_concurrency", 1, in_flight, "", problems)
            .and_then(|concurrency| usize::try_from(concurrency).ok())
            .unwrap_or(default.concurrency),
        max_message_bytes: whole(
            fields,
            "max_message_bytes",
            1,
            MAX_MESSAGE_BYTES,
            "bytes",
            problems,
        ),
        timeout_ms: whole(fields, "timeout_ms", 1, MAX_FLOW_TIMEOUT_MS, "milliseconds", problems)
            .unwrap_or(default.timeout_ms),
        non_retryable: non_retryable(fields, problems),
        honor_retry_after: fields
            .take("queue_honor_retry_after")
            .and_then(|entry| fields::flag(&entry, problems))
            .unwrap_or(default.honor_retry_after),
    }
}

fn delay(fields: &mut Fields, key: &str, problems: &mut Problems<'_>) -> Option<u64> {
    whole(fields, key, 0, MAX_RETRY_DELAY_MS, "milliseconds", problems)
}

fn whole(
    fields: &mut Fields,
    key: &str,
    from: u64,
    to: u64,
    unit: &str,
    problems: &mut Problems<'_>,
) -> Option<u64> {
    let entry = fields.take(key)?;
    fields::whole(&entry, from..=to, unit, problems)
}

fn number(
    fields: &mut Fields,
    key: &str,
    from: f64,
    to: f64,
    problems: &mut Problems<'_>,
) -> Option<f64> {
    let entry = fields.take(key)?;
    fields::number(&entry, from..=to, problems)
}

fn non_retryable(fields: &mut Fields, problems: &mut Problems<'_>) -> Vec<StatusRange> {
    let Some(entry) = fields.take("queue_non_retryable") else { return Vec::new() };
    let Some(items) = fields::list(&entry, problems) else { return Vec::new() };
    let mut ranges = Vec::new();
    for item in items {
        match fields::scalar(item).and_then(StatusRange::parse) {
            Some(range) => ranges.push(range),
            None => problems.error_with_help(
                item.at,
                "`queue_non_retryable` lists HTTP statuses that fail a step",
                "write statuses from 300 to 599, or \"4xx\" for all of a hundred",
            ),
        }
    }
    ranges
}

fn effects(fields: &mut Fields, problems: &mut Problems<'_>) -> Vec<(EffectName, usize)> {
    let Some(entry) = fields.take("effects") else { return Vec::new() };
    EffectName::read_list(&entry, problems)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read_text(text: &str) -> (FrontMatter, Vec<String>) {
        let mut problems = Problems::new(text);
        let front = read(&Excerpt::contiguous(text, 0), &mut problems);
        let found = problems.into_sorted().into_iter().map(|problem| match &problem.help {
            Some(help) => format!("{problem} ({help})"),
            None => problem.to_string(),
        });
        (front, found.collect())
    }

    fn with(line: &str) -> Vec<String> {
        read_text(&format!("flowmarkdown_version: \"0.1\"\ntenant: acme\nflow: x\n{line}\n")).1
    }

    #[test]
    fn the_documents_front_matter_is_read() {
        let (front, problems) = read_text(
            "flowmarkdown_version: \"0.1\"\nflow: forward-order\ntenant: acme\neffects: \
             [http_egress]\n\
             queue_max_attempts: 5\nqueue_initial_delay_ms: 500\nqueue_backoff_factor: 3.0\n\
             queue_max_delay_ms: 10000\n",
        );
        assert_eq!(problems, [] as [String; 0]);
        assert_eq!(front.name.unwrap().to_string(), "acme/forward-order");
        let expected = RetryPolicy {
            max_attempts: 5,
            initial_delay_ms: 500,
            backoff_factor: 3.0,
            max_delay_ms: 10_000,
            jitter_factor: 0.0,
        };
        assert_eq!(front.settings.policy, expected);
        assert_eq!(front.effects.len(), 1);
    }

    #[test]
    fn every_other_key_is_read_too() {
        let (front, problems) = read_text(
            "flowmarkdown_version: \"0.1\"\nflow: x\ntenant: acme\nqueue_jitter_factor: 0.5\n\
             queue_concurrency: 64\nqueue_non_retryable: [400, \"4xx\", 5xx]\n\
             queue_honor_retry_after: true\nmax_message_bytes: 2048\ntimeout_ms: 1000\n\
             description: One line about it\n",
        );
        assert_eq!(problems, [] as [String; 0]);
        let settings = front.settings;
        assert_eq!(settings.policy.jitter_factor, 0.5);
        assert_eq!((settings.concurrency, settings.timeout_ms), (64, 1000));
        assert_eq!(settings.max_message_bytes, Some(2048));
        let ranges: Vec<_> = settings.non_retryable.iter().map(StatusRange::to_string).collect();
        assert_eq!(ranges, ["400", "4xx", "5xx"]);
        assert!(settings.honor_retry_after);
        assert_eq!(front.description.as_deref(), Some("One line about it"));
    }

    #[test]
    fn strange_numbers_are_refused_naming_key_and_value() {
        let factors = [
            "NaN", ".inf", ".nan", "-.inf", "-1", "0.999", "1e400", "\"2\"", "2,0", "\" 2 \"", "",
            "true", "[2]", "two", "0x2", "1_0", "+2",
        ];
        for factor in factors {
            let problems = with(&format!("queue_backoff_factor: {factor}"));
            assert_eq!(problems.len(), 1, "{factor}: {problems:?}");
            assert!(
                problems[0].starts_with("4:")
                    && problems[0].contains(
                        "`queue_backoff_factor` must be a finite number of at least 1.0, and is "
                    ),
                "{problems:?}"
            );
        }
        for attempts in [
            "0",
            "-1",
            "3.5",
            "1e3",
            "0x3",
            "",
            "\"3\"",
            "4294967296",
            "three",
            "3 3",
            "99999999999999999999999",
        ] {
            let problems = with(&format!("queue_max_attempts: {attempts}"));
            assert_eq!(problems.len(), 1, "{attempts}: {problems:?}");
            assert!(
                problems[0].contains("`queue_max_attempts` must be a whole number"),
                "{problems:?}"
            );
        }
        for delay in ["-1", "0.5", "2592000001", "\"1\"", "1s"] {
            for key in ["queue_initial_delay_ms", "queue_max_delay_ms"] {
                let problems = with(&format!("{key}: {delay}"));
                assert_eq!(problems.len(), 1, "{delay}: {problems:?}");
                assert!(problems[0].contains(key), "{problems:?}");
            }
        }
        assert_eq!(
            with("queue_max_attempts: \"3\"")[0],
            "4:21: error: `queue_max_attempts` must be a whole number from 1 to 4294967295, and \
             is the text \"3\" \
             (a number in quotes is a text; leave the quotes out)"
        );
        for good in [
            "queue_backoff_factor: 1",
            "queue_backoff_factor: 1.0",
            "queue_backoff_factor:  2 ",
            "queue_max_delay_ms: 0",
            "queue_max_delay_ms: 2592000000",
            "queue_max_attempts: 1",
        ] {
            assert_eq!(with(good), [] as [String; 0], "{good}");
        }
    }

    #[test]
    fn unknown_keys_wrong_kinds_and_missing_keys_are_errors() {
        assert_eq!(
            with("queue_max_attempt: 3"),
            ["4:1: error: unknown key `queue_max_attempt` (did you mean `queue_max_attempts`?)"]
        );
        for bad in [
            "queue_concurrency: 0",
            "queue_concurrency: 65",
            "queue_jitter_factor: 1.1",
            "queue_jitter_factor: -0.1",
            "queue_non_retryable: 400",
            "queue_non_retryable: [200]",
            "queue_non_retryable: [x]",
            "queue_honor_retry_after: yes",
            "queue_honor_retry_after: \"true\"",
            "max_message_bytes: 0",
            "max_message_bytes: 1MiB",
            "timeout_ms: 0",
            "effects: http_egress",
            "effects: [htp_egress]",
            "effects: [http_egress, http_egress]",
            "description: [a]",
            "description: \"a\\nb\"",
            "description: 5",
            "<<: {a: 1}",
        ] {
            assert_eq!(with(bad).len(), 1, "{bad}: {:?}", with(bad));
        }
        let problems = read_text("{}\n").1;
        assert_eq!(problems.len(), 3, "{problems:?}");
        let problems = read_text("flowmarkdown_version: 0.1\ntenant: a.b\nflow: 42\nx: 1\n").1;
        assert_eq!(problems.len(), 4, "{problems:?}");
        assert!(problems[0].contains("write it in quotes: flowmarkdown_version: \"0.1\""));
        assert!(problems[1].contains("'.' at position 2"));
        let problems = read_text("flowmarkdown_version: \"0.2\"\ntenant: a\nflow: b\n").1;
        assert!(problems[0].contains("is not known"), "{problems:?}");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            read_text(&text);
        }

        #[test]
        fn no_value_makes_it_panic(
            key in prop::sample::select(&KEYS[..]),
            value in "[ -~é\n]{0,16}",
        ) {
            read_text(&format!("{key}: {value}\n"));
        }
    }
}
