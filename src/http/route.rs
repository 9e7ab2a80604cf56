//! The table of what there is: which method and path leads to which task.
//!
//! Segments are compared as sent, never percent-decoded: a `%` in a name is a character at fault,
//! found by the gate.

use crate::http::context::{Context, Scene};
use crate::http::correlation::Correlation;
use crate::http::enqueue::{Accepted, Enqueue};
use crate::http::error::HttpError;
use crate::http::head::Head;
use crate::http::message::{Method, Response};
use crate::http::{dev, health};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    Enqueue,
    Health,
    Ready,
    DevEcho,
    DevStatus,
    DevFlaky,
}

struct Route {
    methods: Methods,
    /// Segments in braces match any segment.
    path: &'static str,
    endpoint: Endpoint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Methods {
    Get,
    Post,
    Any,
}

const ROUTES: &[Route] = &[
    route(Methods::Post, "/flows/{tenant}/{flow}/enqueue", Endpoint::Enqueue),
    route(Methods::Get, "/health", Endpoint::Health),
    route(Methods::Get, "/ready", Endpoint::Ready),
];

/// The sample downstream, there with `--dev` only.
const DEV_ROUTES: &[Route] = &[
    route(Methods::Any, "/dev/echo", Endpoint::DevEcho),
    route(Methods::Any, "/dev/status/{code}", Endpoint::DevStatus),
    route(Methods::Any, "/dev/flaky", Endpoint::DevFlaky),
];

const fn route(methods: Methods, path: &'static str, endpoint: Endpoint) -> Route {
    Route { methods, path, endpoint }
}

/// What a request asks for, with all that its head says about that: the body, if it is wanted, is
/// still to come.
#[derive(Debug)]
pub(super) enum Task {
    Enqueue(Enqueue),
    Health,
    Ready,
    Dev(Box<dev::Call>),
}

/// What became of a task.
pub(super) enum Outcome {
    /// This is the answer.
    Answer(Response),
    /// A queue is to have the message, and will answer.
    Submit(Accepted),
}

/// Finds what a request asks for, and whether it may.
///
/// # Errors
/// 404 for an unknown path, 405 for another method of a known one, and what the gate says.
pub(super) fn find_task(head: &Head<'_>, context: &Context) -> Result<Task, HttpError> {
    let (endpoint, [first, second]) = find(&head.method, head.path, context.dev.is_some())?;
    let call = match endpoint {
        Endpoint::Enqueue => {
            return Enqueue::admit(head, (first, second), context).map(Task::Enqueue);
        }
        Endpoint::Health => return Ok(Task::Health),
        Endpoint::Ready => return Ok(Task::Ready),
        Endpoint::DevEcho => dev::Call::echo(head),
        Endpoint::DevStatus => dev::Call::status(head, first),
        Endpoint::DevFlaky => dev::Call::flaky(head),
    };
    Ok(Task::Dev(Box::new(call)))
}

impl Task {
    /// The ceiling on the body, in bytes; `None` when no body is wanted.
    pub(super) fn ceiling(&self, context: &Context) -> Option<u64> {
        match self {
            Task::Enqueue(enqueue) => Some(enqueue.ceiling),
            Task::Health | Task::Ready => None,
            Task::Dev(_) => Some(context.max_message_bytes),
        }
    }

    /// Does what is asked for, with the whole body. Never blocks.
    ///
    /// # Errors
    /// What the body, or the rest of the head, has wrong.
    pub(super) fn carry_out(
        self,
        body: Vec<u8>,
        correlation: &mut Correlation,
        scene: &Scene<'_>,
    ) -> Result<Outcome, HttpError> {
        let response = match self {
            Task::Enqueue(enqueue) => {
                return enqueue.accept(body, correlation).map(Outcome::Submit);
            }
            Task::Health => health::health(),
            Task::Ready => health::ready(&*scene.context.services.readiness),
            Task::Dev(call) => call.answer(body, correlation, scene.context)?,
        };
        Ok(Outcome::Answer(response))
    }
}

/// Up to two segments that stand for parameters.
type Parameters<'p> = [&'p str; 2];

fn find<'p>(
    method: &Method,
    path: &'p str,
    dev: bool,
) -> Result<(Endpoint, Parameters<'p>), HttpError> {
    let dev_routes = if dev { DEV_ROUTES } else { &[] };
    for route in ROUTES.iter().chain(dev_routes) {
        let Some(parameters) = match_path(route.path, path) else { continue };
        if !route.methods.include(method) {
            return Err(HttpError::MethodNotAllowed(route.methods.list().to_owned()));
        }
        return Ok((route.endpoint, parameters));
    }
    Err(HttpError::NotFound)
}

fn match_path<'p>(pattern: &str, path: &'p str) -> Option<Parameters<'p>> {
    let mut parameters = [""; 2];
    let mut filled = 0;
    let mut segments = path.split('/');
    for expected in pattern.split('/') {
        let segment = segments.next()?;
        if expected.starts_with('{') {
            *parameters.get_mut(filled)? = segment;
            filled += 1;
        } else if segment != expected {
            return None;
        }
    }
    segments.next().is_none().then_some(parameters)
}

impl Methods {
    fn include(self, method: &Method) -> bool {
        match self {
            Methods::Get => matches!(method, Method::Get | Method::Head),
            Methods::Post => *method == Method::Post,
            Methods::Any => true,
        }
    }

    fn list(self) -> &'static str {
        match self {
            Methods::Get => "GET, HEAD",
            Methods::Post => "POST",
            Methods::Any => "any",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_their_tasks() {
        let found = find(&Method::Post, "/flows/acme/forward-order/enqueue", false);
        assert_eq!(found, Ok((Endpoint::Enqueue, ["acme", "forward-order"])));
        assert_eq!(find(&Method::Head, "/health", false), Ok((Endpoint::Health, ["", ""])));
        assert_eq!(find(&Method::Patch, "/dev/echo", true), Ok((Endpoint::DevEcho, ["", ""])));
        assert_eq!(
            find(&Method::Get, "/dev/status/503", true),
            Ok((Endpoint::DevStatus, ["503", ""]))
        );
    }

    #[test]
    fn what_is_not_in_the_table_is_not_there() {
        for path in [
            "",
            "/",
            "*",
            "/flows",
            "/flows/a/b",
            "/flows/a/b/enqueue/",
            "/flows/a/b/c/enqueue",
            "//flows/a/b/enqueue",
            "/Health",
            "/health/",
            "/dev/echo",
        ] {
            assert_eq!(find(&Method::Get, path, false), Err(HttpError::NotFound), "{path}");
        }
        let refused = find(&Method::Post, "/health", false);
        assert_eq!(refused, Err(HttpError::MethodNotAllowed("GET, HEAD".into())));
        let refused = find(&Method::Get, "/flows/acme/x/enqueue", false);
        assert_eq!(refused, Err(HttpError::MethodNotAllowed("POST".into())));
    }

    #[test]
    fn segments_are_never_decoded() {
        let found = find(&Method::Post, "/flows/%61cme/..%2fx/enqueue", false);
        assert_eq!(found, Ok((Endpoint::Enqueue, ["%61cme", "..%2fx"])));
    }
}
