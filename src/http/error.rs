//! Everything that the door answers with an error, each with its status and its text.
//!
//! The texts are for a person: they name what was wrong and what is allowed, and never hold a key,
//! a secret or a body. This is the only table from errors to statuses.

use crate::base::id::CorrelationIdError;
use crate::base::limits::{ANSWER_DEADLINE, MAX_HEAD_BYTES, MAX_HEADERS};
use crate::base::name::NameError;
use crate::base::{QueueName, Timestamp};
use crate::http::message::{self, Response};
use crate::worker::Refusal;

/// An error that is told to the client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The head is not HTTP/1.1 or HTTP/1.0, or could be read in two ways.
    #[error("the request's head is malformed: {0}")]
    BadHead(&'static str),
    /// The head is longer than it may be.
    #[error("the request's head is longer than the {MAX_HEAD_BYTES} bytes allowed")]
    HeadTooLong,
    /// The head has more header lines than it may have.
    #[error("the request has more than the {MAX_HEADERS} header lines allowed")]
    TooManyHeaders,
    /// The head did not come in time.
    #[error("the request's head was not complete in time")]
    HeadTimeout,
    /// There is nothing at this path.
    #[error(
        "there is nothing at this path; messages go to POST /flows/{{tenant}}/{{flow}}/enqueue"
    )]
    NotFound,
    /// The path is known, and the method is not among its methods (listed).
    #[error("this path does not have this method; allowed: {0}")]
    MethodNotAllowed(String),
    /// No key, or not one that is known here.
    #[error("{0}")]
    Unauthorized(&'static str),
    /// The tenant or the flow cannot become a path.
    #[error(transparent)]
    BadName(#[from] NameError),
    /// The registry has no such flow.
    #[error("tenant {:?} has no flow {:?} in the registry", .0.tenant, .0.flow)]
    NoSuchFlow(QueueName),
    /// The registry cannot be read; nothing was stored.
    #[error("the registry cannot be read, nothing was stored, try again: {0}")]
    RegistryUnreadable(String),
    /// The body is longer than this access point takes, in bytes.
    #[error("the body is longer than the {0} bytes allowed here")]
    BodyTooLong(u64),
    /// The body came too slowly.
    #[error("the body came too slowly: at least 1 KiB/s is expected after the first 10 s")]
    BodyTimeout,
    /// The body's framing is broken.
    #[error("the body's framing is malformed: {0}")]
    BadBody(&'static str),
    /// The content type or coding is not one that is read here.
    #[error("{0}")]
    UnsupportedMedia(&'static str),
    /// The body is not the document that it should be.
    #[error("{0}")]
    Malformed(String),
    /// The given correlation id cannot be one.
    #[error("{0}: {1}")]
    BadCorrelationId(&'static str, CorrelationIdError),
    /// Two headers that differ, where one is expected.
    #[error("{0} is given twice with different values")]
    Differing(&'static str),
    /// A parameter of the path or the query is not what it must be.
    #[error("{0}")]
    BadParameter(&'static str),
    /// The queue refused the message.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The queue did not say in time what became of the message.
    #[error(
        "the queue has not answered within {} s: whether the message is stored is unknown, \
         and it may be sent again",
        ANSWER_DEADLINE.as_secs()
    )]
    NoAnswer,
}

impl HttpError {
    /// The status that goes with the error.
    pub fn status(&self) -> u16 {
        match self {
            HttpError::BadHead(_)
            | HttpError::BadName(_)
            | HttpError::BadBody(_)
            | HttpError::Malformed(_)
            | HttpError::BadCorrelationId(..)
            | HttpError::Differing(_)
            | HttpError::BadParameter(_) => 400,
            HttpError::Unauthorized(_) => 401,
            HttpError::NotFound | HttpError::NoSuchFlow(_) => 404,
            HttpError::MethodNotAllowed(_) => 405,
            HttpError::HeadTimeout | HttpError::BodyTimeout => 408,
            HttpError::BodyTooLong(_) => 413,
            HttpError::UnsupportedMedia(_) => 415,
            HttpError::HeadTooLong | HttpError::TooManyHeaders => 431,
            HttpError::RegistryUnreadable(_)
            | HttpError::NoAnswer
            | HttpError::Refused(Refusal::Busy(_) | Refusal::Unknown(_)) => 503,
            HttpError::Refused(Refusal::NoRoom(_)) => 507,
        }
    }

    /// The header that goes with the error, if one does.
    fn header(&self) -> Option<(&'static str, &str)> {
        match self {
            HttpError::MethodNotAllowed(allowed) => Some(("Allow", allowed)),
            HttpError::Unauthorized(_) => Some(("WWW-Authenticate", "Bearer")),
            HttpError::RegistryUnreadable(_) | HttpError::Refused(Refusal::Busy(_)) => {
                Some(("Retry-After", "1"))
            }
            _ => None,
        }
    }

    /// The answer: `{"error":"…","timestamp":"…Z"}`.
    pub(super) fn response(&self, now: Timestamp) -> Response {
        #[derive(serde::Serialize)]
        struct Body {
            error: String,
            timestamp: String,
        }
        let body = Body { error: self.to_string(), timestamp: now.to_millis_text() };
        // Two strings always have a JSON form.
        let response = message::json(self.status(), serde_json::to_vec(&body).unwrap_or_default());
        match self.header() {
            Some((name, value)) => message::with(response, name, value),
            None => response,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn an_error_is_json_with_its_text_and_its_moment() {
        let mut body = String::new();
        HttpError::BodyTooLong(8)
            .response(Timestamp::from_millis(1_786_284_131_250))
            .into_reader()
            .read_to_string(&mut body)
            .unwrap();
        assert_eq!(
            body,
            r#"{"error":"the body is longer than the 8 bytes allowed here","timestamp":"2026-08-09T14:02:11.250Z"}"#
        );
    }

    #[test]
    fn only_what_was_certainly_not_stored_invites_to_try_again_soon() {
        let retry = |refusal| HttpError::Refused(refusal).header().is_some();
        assert!(retry(Refusal::Busy("full".into())));
        assert!(!retry(Refusal::Unknown("sync failed".into())));
        assert!(!retry(Refusal::NoRoom("full disk".into())));
    }
}
