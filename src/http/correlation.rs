//! The correlation id of a request: `X-Correlation-ID`, else `X-Request-ID`, else a new UUIDv7.
//!
//! Every answer carries one. A given id that cannot be one is refused with 400, but only when its
//! turn in the order of checks comes (after the body); until then, and in that refusal, a new one
//! stands for it.

use crate::base::CorrelationId;
use crate::base::random::Random;
use crate::http::error::HttpError;
use crate::http::head::{Field, Head};

/// A request's correlation id.
#[derive(Debug)]
pub(super) struct Correlation {
    id: CorrelationId,
    fault: Option<HttpError>,
}

impl Correlation {
    /// The id of the request with this head.
    pub(super) fn of(head: &Head<'_>, random: &dyn Random) -> Correlation {
        match given(head) {
            Ok(Some(id)) => Correlation { id, fault: None },
            Ok(None) => Correlation::fresh(random),
            Err(fault) => Correlation { id: CorrelationId::generate(random), fault: Some(fault) },
        }
    }

    /// A new id.
    pub(super) fn fresh(random: &dyn Random) -> Correlation {
        Correlation { id: CorrelationId::generate(random), fault: None }
    }

    /// The id that answers carry.
    pub(super) fn as_str(&self) -> &str {
        self.id.as_str()
    }

    /// Checks that the id is the one that was given, if one was.
    ///
    /// # Errors
    /// The given id cannot be one, or two were given.
    pub(super) fn check(&mut self) -> Result<(), HttpError> {
        match self.fault.take() {
            None => Ok(()),
            Some(fault) => Err(fault),
        }
    }

    /// The id that the message gets.
    pub(super) fn into_id(self) -> CorrelationId {
        self.id
    }
}

fn given(head: &Head<'_>) -> Result<Option<CorrelationId>, HttpError> {
    let (name, field) = match head.correlation_id {
        Field::Absent => ("X-Request-ID", head.request_id),
        field => ("X-Correlation-ID", field),
    };
    field
        .single(name)?
        .map(CorrelationId::parse)
        .transpose()
        .map_err(|error| HttpError::BadCorrelationId(name, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::SeededRandom;
    use crate::http::head;

    fn of(lines: &str) -> Result<String, u16> {
        let text = format!("GET / HTTP/1.1\r\n{lines}\r\n");
        let (head, _) = head::parse(text.as_bytes()).unwrap().unwrap();
        let mut correlation = Correlation::of(&head, &SeededRandom::new(1));
        correlation.check().map_err(|error| error.status())?;
        Ok(correlation.into_id().to_string())
    }

    #[test]
    fn the_headers_are_asked_in_order() {
        assert_eq!(of("X-Request-ID: r\r\nX-Correlation-ID: c\r\n"), Ok("c".into()));
        assert_eq!(of("X-Request-ID: r\r\n"), Ok("r".into()));
        assert_eq!(of("X-Correlation-ID: c\r\nX-Correlation-ID: c\r\n"), Ok("c".into()));
        assert_eq!(of("").map(|id| id.len()), Ok(36));
    }

    #[test]
    fn an_id_that_cannot_be_one_is_refused() {
        let long = format!("X-Correlation-ID: {}\r\n", "x".repeat(129));
        for lines in [
            "X-Correlation-ID: a\r\nX-Correlation-ID: b\r\n",
            "X-Request-ID: a\r\nX-Request-ID: b\r\n",
            "X-Correlation-ID: a b\r\n",
            "X-Correlation-ID:\r\n",
            "X-Correlation-ID: {{ $.x }}\r\n",
            "X-Correlation-ID: é\r\n",
            &long,
        ] {
            assert_eq!(of(lines), Err(400), "{lines:?}");
        }
    }
}
