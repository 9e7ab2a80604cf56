//! A `condition` fence: whether the message goes on.
//!
//! False is a filter and no failure: the message is acknowledged and dropped, recorded, and never
//! tried again. Source: the document's section "What reaches the dead-letter queue".

use crate::flow::expression::{Expression, Scope};

/// Whether the condition holds. `Err` has the text of the failure, without the step's name.
pub fn holds(condition: &Expression, scope: &Scope<'_>) -> Result<bool, String> {
    condition.decide(scope).map_err(|reason| format!("the condition cannot be evaluated: {reason}"))
}
