//! The sample downstream, inside a `--dev` server: something for a first flow to call.
//!
//! `/dev/echo` answers with the body, `/dev/status/{code}` with a status, and `/dev/flaky?fail=N`
//! fails the first N times for each message. Each is logged, so that a newcomer sees the deliveries
//! arrive.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use crate::base::CorrelationId;
use crate::base::limits::MAX_FLAKY_KEYS;
use crate::http::connection::Request;
use crate::http::context::Context;
use crate::http::decode;
use crate::http::error::{HttpError, Interruption};
use crate::http::head::{Field, Head};
use crate::http::message::{self, Response};

/// `/dev/echo`: 200 with the request's JSON, or `null` for a request without a body.
pub(super) fn echo(request: &mut Request<'_>, context: &Context) -> Result<Response, Interruption> {
    let mut body = request.body.read(context.max_message_bytes)?;
    if body.is_empty() {
        body.extend_from_slice(b"null");
    }
    decode::validate_json(&body)?;
    report(request, 200, &format!("{} bytes", body.len()));
    Ok(message::json(200, body))
}

/// `/dev/status/{code}`: that status.
pub(super) fn status(
    request: &mut Request<'_>,
    code: &str,
    context: &Context,
) -> Result<Response, Interruption> {
    request.body.read(context.max_message_bytes)?;
    let code = match code.parse() {
        Ok(number @ 100..=599) if code.len() == 3 => number,
        _ => return Err(HttpError::BadParameter("the status is a number from 100 to 599").into()),
    };
    report(request, code, "as asked");
    Ok(answer(code))
}

/// `/dev/flaky?fail=N`: 503 the first N times for each `Idempotency-Key` or `X-Correlation-ID`,
/// then 200.
pub(super) fn flaky(
    request: &mut Request<'_>,
    flaky: &Flaky,
    context: &Context,
) -> Result<Response, Interruption> {
    request.body.read(context.max_message_bytes)?;
    let failures = failures_asked(request.head.query)?;
    let attempt = flaky.count(key_of(request.head)?);
    let code = if attempt <= failures { 503 } else { 200 };
    report(request, code, &format!("attempt {attempt}, failing the first {failures}"));
    Ok(answer(code))
}

fn answer(code: u16) -> Response {
    match code {
        100..=199 | 204 | 304 => message::empty(code),
        _ => message::json(code, format!("{{\"status\":{code}}}")),
    }
}

fn report(request: &Request<'_>, code: u16, detail: &str) {
    let Head { method, path, .. } = request.head;
    let correlation = request.correlation.as_str();
    log::info!("{method} {path} answered {code} ({detail}), correlation id {correlation}");
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
