//! The access gate: who may submit to which flow. Runs before a byte of the body is read.
//!
//! The order is promised (`nexus-http(7)`), each step only if the one before passed:
//!
//! 1. the key, else 401
//! 2. the names, else 400 naming tenant, flow and the character at fault
//! 3. the key's tenant, else 403
//! 4. the key's flows, else 403 (so a restricted key learns nothing about other flows)
//! 5. the flow in the registry, else 404; a registry that cannot be read, 503
//! 6. the key's rate limit, else 429
//!
//! A decision, and nothing else: no socket, no clock, no body.

use crate::base::QueueName;
use crate::http::error::HttpError;
use crate::http::head::Field;
use crate::registry::FlowGate;

/// The registry as the gate sees it. `server` implements it over its cached connections.
pub trait Flows: Send + Sync {
    /// What the gate needs to know of the newest version of a flow; `None` when there is no such
    /// flow.
    ///
    /// # Errors
    /// The registry cannot be read; the text says why.
    fn gate(&self, queue: &QueueName) -> Result<Option<FlowGate>, String>;
}

/// Whom the server lets in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// `--dev`: every request comes from an admin of every tenant.
    Everyone,
    /// Only who has a key.
    Keys,
}

/// A request that may go on to its body.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) queue: QueueName,
    /// The flow's own ceiling on a message, in bytes, if it has one.
    pub(super) max_message_bytes: Option<u64>,
}

/// Decides whether a request for this tenant and flow may go on.
///
/// # Errors
/// The first step that does not pass, in the order above.
pub(super) fn admit(
    access: Access,
    authorization: Field<'_>,
    (tenant, flow): (&str, &str),
    flows: &dyn Flows,
) -> Result<Admitted, HttpError> {
    authenticate(access, authorization)?;
    let queue = QueueName::parse(tenant, flow)?;
    // An admin of every tenant passes steps 3, 4 and 6.
    let gate = flows.gate(&queue).map_err(HttpError::RegistryUnreadable)?;
    match gate {
        Some(gate) => Ok(Admitted { queue, max_message_bytes: gate.max_message_bytes }),
        None => Err(HttpError::NoSuchFlow(queue)),
    }
}

/// Step 1. No key is known yet, so without `--dev` nobody passes.
fn authenticate(access: Access, authorization: Field<'_>) -> Result<(), HttpError> {
    match (access, authorization) {
        (Access::Everyone, _) => Ok(()),
        (Access::Keys, Field::Absent) => {
            Err(HttpError::Unauthorized("a key is needed: send it as Authorization: Bearer nxk_…"))
        }
        (Access::Keys, _) => Err(HttpError::Unauthorized(
            "the key is not one of this server's; nexus key create makes one",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Registry(Result<Option<FlowGate>, String>);

    impl Flows for Registry {
        fn gate(&self, _: &QueueName) -> Result<Option<FlowGate>, String> {
            self.0.clone()
        }
    }

    fn status(access: Access, names: (&str, &str), registry: &Registry) -> u16 {
        admit(access, Field::Absent, names, registry).map_or_else(|error| error.status(), |_| 202)
    }

    #[test]
    fn the_first_step_that_fails_decides() {
        let known = Registry(Ok(Some(FlowGate { version: 1, max_message_bytes: Some(9) })));
        let unknown = Registry(Ok(None));
        let unreadable = Registry(Err("locked".into()));
        let (good, bad) = (("acme", "forward-order"), ("acme", "../x"));

        assert_eq!(status(Access::Keys, bad, &unreadable), 401);
        assert_eq!(status(Access::Everyone, bad, &unreadable), 400);
        assert_eq!(status(Access::Everyone, good, &unreadable), 503);
        assert_eq!(status(Access::Everyone, good, &unknown), 404);
        assert_eq!(status(Access::Everyone, good, &known), 202);
    }

    #[test]
    fn a_bad_name_is_named_with_its_character() {
        let registry = Registry(Ok(None));
        let refused =
            admit(Access::Everyone, Field::Absent, ("acme", "a%2fb"), &registry).unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("acme") && text.contains("a%2fb") && text.contains("'%'"), "{text}");
    }
}
