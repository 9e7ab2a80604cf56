//! The sample downstream, inside a `--dev` server: something for a first flow to call.
//!
//! `/dev/echo` answers with the body, `/dev/status/{code}` with a status, and `/dev/flaky?fail=N`
//! fails the first N times for each message. Each is logged, so that a newcomer sees the deliveries
//! arrive.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::base::CorrelationId;
use crate::base::limits::MAX_FLAKY_KEYS;
use crate::http::context::Context;
use crate::http::correlation::Correlation;
use crate::http::decode;
use crate::http::error::HttpError;
use crate::http::head::{Field, Head};
use crate::http::message::{self, Method, Response};

/// A call of the sample downstream. What its head has wrong is told only when the body has come.
#[derive(Debug)]
pub(super) struct Call {
    method: Method,
    path: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Echo,
    Status(Result<u16, HttpError>),
    /// How often to fail, and what tells the message from others.
    Flaky(Result<(u64, String), HttpError>),
}

impl Call {
    /// `/dev/echo`: 200 with the request's JSON, or `null` for a request without a body.
    pub(super) fn echo(head: &Head<'_>) -> Call {
        Call::new(head, What::Echo)
    }

    /// `/dev/status/{code}`: that status.
    pub(super) fn status(head: &Head<'_>, code: &str) -> Call {
        let status = match code.parse() {
            Ok(number @ 100..=599) if code.len() == 3 => Ok(number),
            _ => Err(HttpError::BadParameter("the status is a number from 100 to 599")),
        };
        Call::new(head, What::Status(status))
    }

    /// `/dev/flaky?fail=N`: 503 the first N times for each `Idempotency-Key` or `X-Correlation-ID`,
    /// then 200.
    pub(super) fn flaky(head: &Head<'_>) -> Call {
        let asked = failures_asked(head.query).and_then(|fail| Ok((fail, key_of(head)?)));
        Call::new(head, What::Flaky(asked))
    }

    fn new(head: &Head<'_>, what: What) -> Call {
        Call { method: head.method.clone(), path: head.path.to_owned(), what }
    }

    /// Answers as asked.
    pub(super) fn answer(
        self,
        body: Vec<u8>,
        correlation: &Correlation,
        context: &Context,
    ) -> Result<Response, HttpError> {
        let Call { method, path, what } = self;
        let report = |code: u16, detail: &str| {
            let id = correlation.as_str();
            log::info!("{method} {path} answered {code} ({detail}), correlation id {id}");
        };
        match (what, &context.dev) {
            (What::Echo, _) => echo(body, report),
            (What::Status(code), _) => {
                let code = code?;
                report(code, "as asked");
                Ok(answer(code))
            }
            (What::Flaky(asked), Some(flaky)) => {
                let (failures, key) = asked?;
                let attempt = flaky.count(key);
                let code = if attempt <= failures { 503 } else { 200 };
                report(code, &format!("attempt {attempt}, failing the first {failures}"));
                Ok(answer(code))
            }
            (What::Flaky(_), None) => Err(HttpError::NotFound),
        }
    }
}

fn echo(mut body: Vec<u8>, report: impl Fn(u16, &str)) -> Result<Response, HttpError> {
    if body.is_empty() {
        body.extend_from_slice(b"null");
    }
    decode::validate_json(&body)?;
    report(200, &format!("{} bytes", body.len()));
    Ok(message::json(200, body))
}

fn answer(code: u16) -> Response {
    match code {
        100..=199 | 204 | 304 => message::empty(code),
        _ => message::json(code, format!("{{\"status\":{code}}}")),
    }
}

fn failures_asked(query: &str) -> Result<u64, HttpError> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    match pairs.find(|(name, _)| *name == "fail").map(|(_, value)| value.parse()) {
        Some(Ok(failures)) => Ok(failures),
        _ => Err(HttpError::BadParameter("say how often to fail, as in /dev/flaky?fail=2")),
    }
}

/// What tells one message from another; requests without any share one count.
fn key_of(head: &Head<'_>) -> Result<String, HttpError> {
    let (name, field) = match head.idempotency_key {
        Field::Absent => ("X-Correlation-ID", head.correlation_id),
        field => ("Idempotency-Key", field),
    };
    match field.single(name)? {
        None => Ok(String::new()),
        Some(value) => CorrelationId::parse(value)
            .map(|key| key.to_string())
            .map_err(|error| HttpError::BadCorrelationId(name, error)),
    }
}

/// How often each message has been seen. The oldest are forgotten.
#[derive(Debug, Default)]
pub(super) struct Flaky(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    of: HashMap<String, u64>,
    oldest_first: VecDeque<String>,
}

impl Flaky {
    /// Counts one more time that this message is seen.
    fn count(&self, key: String) -> u64 {
        // Counting cannot leave a count half made.
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.of.get_mut(&key) {
            *count += 1;
            return *count;
        }
        if counts.of.len() == MAX_FLAKY_KEYS
            && let Some(oldest) = counts.oldest_first.pop_front()
        {
            counts.of.remove(&oldest);
        }
        counts.oldest_first.push_back(key.clone());
        counts.of.insert(key, 1);
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_has_its_own_count_and_the_oldest_are_forgotten() {
        let flaky = Flaky::default();
        assert_eq!(flaky.count("a".into()), 1);
        assert_eq!(flaky.count("a".into()), 2);
        assert_eq!(flaky.count("b".into()), 1);
        for other in 0..MAX_FLAKY_KEYS {
            flaky.count(other.to_string());
        }
        assert_eq!(flaky.count("a".into()), 1);
        assert_eq!(flaky.0.lock().unwrap().of.len(), MAX_FLAKY_KEYS);
    }

    #[test]
    fn the_number_of_failures_comes_from_the_query() {
        assert_eq!(failures_asked("fail=2"), Ok(2));
        assert_eq!(failures_asked("x=1&fail=0"), Ok(0));
        for bad in ["", "fail", "fail=", "fail=-1", "fail=x"] {
            assert_eq!(failures_asked(bad).map_err(|error| error.status()), Err(400), "{bad}");
        }
    }
}
