//! `GET /health` (the process is alive) and `GET /ready` (it can do its work). Neither needs a key.

use serde::Serialize;

use crate::http::message::{self, Response};

/// What the server knows of its own state.
pub trait Readiness: Send + Sync {
    /// What is not ready now, each named for a person: a poisoned queue, a full disk, a registry
    /// that cannot be read. Empty when all is well.
    fn problems(&self) -> Vec<String>;
}

#[derive(Serialize)]
struct Report<'a> {
    status: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    problems: &'a [String],
}

/// The answer of a process that can answer.
pub(super) fn health() -> Response {
    report(200, "ok", &[])
}

/// 200, or 503 with what is not ready.
pub(super) fn ready(readiness: &dyn Readiness) -> Response {
    let problems = readiness.problems();
    if problems.is_empty() { report(200, "ok", &[]) } else { report(503, "not ready", &problems) }
}

fn report(status_code: u16, status: &'static str, problems: &[String]) -> Response {
    let report = Report { status, version: env!("CARGO_PKG_VERSION"), problems };
    // Strings always have a JSON form.
    message::json(status_code, serde_json::to_vec(&report).unwrap_or_default())
}
