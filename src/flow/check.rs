//! What only the whole flow can tell: that names are unique, that what is named exists, that
//! effects are declared.
//!
//! And the warnings: what is accepted and probably not what was meant under at-least-once delivery.

use crate::base::Name;
use crate::base::limits::MAX_FLOW_STEPS;
use crate::flow::expression::Target;
use crate::flow::front_matter::FrontMatter;
use crate::flow::problem::Problems;
use crate::flow::program::Fence;
use crate::flow::step::{Declared, EffectName, Place, Use};
use crate::flow::suggest::did_you_mean;

/// Checks the steps together, and against the front matter.
pub(crate) fn check(
    front: &FrontMatter,
    steps: &[Declared],
    body_at: usize,
    problems: &mut Problems<'_>,
) {
    order(steps, body_at, problems);
    names(steps, problems);
    effects(front, steps, problems);
    for (at, step) in steps.iter().enumerate() {
        for used in &step.uses {
            reference(used, step, &steps[..at], problems);
        }
    }
    repeated_effects(steps, problems);
    late_conditions(steps, problems);
    fault_handler(steps, problems);
}

fn order(steps: &[Declared], body_at: usize, problems: &mut Problems<'_>) {
    if !steps.iter().any(|step| !step.fault) {
        problems.error_with_help(
            body_at,
            "the flow has no step",
            "a step begins with a heading `## Step: NAME`",
        );
    }
    let first_fault = steps.iter().position(|step| step.fault).unwrap_or(steps.len());
    for step in steps[first_fault..].iter().filter(|step| !step.fault) {
        problems.error_with_help(
            step.at,
            format!("the step '{}' comes after a fault section", step.step.name),
            "all `## Fault:` sections come after the last `## Step:`",
        );
    }
    if let Some(step) = steps.get(MAX_FLOW_STEPS) {
        problems.error(step.at, format!("a flow has at most {MAX_FLOW_STEPS} steps"));
    }
}

fn names(steps: &[Declared], problems: &mut Problems<'_>) {
    for (at, step) in steps.iter().enumerate() {
        let name = &step.step.name;
        if steps[..at].iter().any(|before| before.step.name == *name) {
            problems.error(step.at, format!("the name '{name}' is taken by an earlier step"));
        }
    }
}

fn effects(front: &FrontMatter, steps: &[Declared], problems: &mut Problems<'_>) {
    for (effect, at) in steps.iter().flat_map(|step| &step.effects) {
        if !front.effects.iter().any(|(declared, _)| declared == effect) {
            let name = effect.as_str();
            problems.error_with_help(
                *at,
                format!("the effect {name} is not declared"),
                format!("add effects: [{name}] to the front matter"),
            );
        }
    }
    for (effect, at) in &front.effects {
        let used = steps.iter().any(|step| step.effects.iter().any(|(used, _)| used == effect));
        if !used {
            problems.warning(
                *at,
                format!("the effect {} is declared and no step uses it", effect.as_str()),
                "remove it, or add it to the `effects` of a step",
            );
        }
    }
}

fn reference(used: &Use, step: &Declared, before: &[Declared], problems: &mut Problems<'_>) {
    match &used.target {
        Target::Step(name) => step_reference(name, used.at, before, problems),
        Target::Secret(name) if used.place == Place::Fence => problems.error_with_help(
            used.at,
            format!("secret.{name} stands in a fence"),
            "a secret is allowed in `endpoint` and `headers` only",
        ),
        Target::Error if !step.fault => problems.error_with_help(
            used.at,
            "ctx.error is there in fault sections only",
            "a fault section begins with `## Fault:`",
        ),
        Target::Changing(what) if used.place == Place::IdempotencyKey => problems.warning(
            used.at,
            format!("{what} gives another value on every attempt, so the key cannot tell a repeat"),
            "use a value of the message, ctx.message_key or ctx.correlation_id",
        ),
        Target::Secret(_) | Target::Error | Target::Changing(_) => {}
    }
}

fn step_reference(name: &str, at: usize, before: &[Declared], problems: &mut Problems<'_>) {
    let known: Vec<&str> = before.iter().map(|step| step.step.name.as_str()).collect();
    if known.contains(&name) {
        return;
    }
    let help = did_you_mean(name, &known).unwrap_or_else(|| match known.len() {
        0 => "there is no step before this one".to_owned(),
        _ => format!("steps before this one are {}", known.join(", ")),
    });
    problems.error_with_help(at, format!("no earlier step is named {name:?}"), help);
}

fn repeated_effects(steps: &[Declared], problems: &mut Problems<'_>) {
    let egress = steps.iter().filter(|step| !step.fault).flat_map(|step| {
        let calls = step.effects.iter().filter(|(effect, _)| *effect == EffectName::HttpEgress);
        calls.map(|(_, at)| (*at, &step.step.name))
    });
    let egress: Vec<(usize, &Name)> = egress.collect();
    if let [(_, first), (second, _), ..] = egress[..] {
        problems.warning(
            second,
            format!(
                "a second call: when this or a later step fails, the retry repeats the call \
             of '{first}' too"
            ),
            "there are no transactions across steps; hand over with queue_publish, or make both \
             calls safe to repeat",
        );
    }
}

/// A condition in a step that has an effect does not guard the effect.
fn late_conditions(steps: &[Declared], problems: &mut Problems<'_>) {
    for step in steps.iter().filter(|step| !step.fault && !step.effects.is_empty()) {
        let Some(at) = step.condition else { continue };
        problems.warning(
            at,
            format!("the effects of '{}' run before this condition is looked at", step.step.name),
            "to keep messages from them, put the condition into a step of its own before this one",
        );
    }
}

fn fault_handler(steps: &[Declared], problems: &mut Problems<'_>) {
    let handler: Vec<&Declared> = steps.iter().filter(|step| step.fault).collect();
    let Some(first) = handler.first() else { return };
    let can_fail = |step: &Declared| {
        let validates = |fence: &Fence| matches!(fence, Fence::Validate(_));
        !step.effects.is_empty() || step.step.fences.iter().any(validates)
    };
    if !handler.iter().any(|step| can_fail(step)) {
        problems.warning(
            first.at,
            "this fault handler cannot fail, so a failed delivery is always acknowledged: no \
             retry, no dead letter",
            "to keep both, end the handler with a step that fails, such as a validate of `false`",
        );
    }
    for at in handler.iter().filter_map(|step| step.condition) {
        problems.warning(
            at,
            "a condition that is false here drops the failed message: no retry, no dead letter",
            "use validate where the delivery should stay failed",
        );
    }
}
