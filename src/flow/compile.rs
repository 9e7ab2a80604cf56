//! The compiler: a source becomes a flow, or every problem of it in one run.

use crate::base::limits::MAX_FLOW_SOURCE_BYTES;
use crate::flow::problem::{Problem, Problems};
use crate::flow::program::{Flow, Step, named_steps};
use crate::flow::step::Declared;
use crate::flow::{check, front_matter, source, step};

/// What became of a source.
#[derive(Debug)]
pub struct Compilation {
    /// All problems, in the order of the source.
    pub problems: Vec<Problem>,
    /// The flow, when there is no error among them.
    pub flow: Option<Flow>,
}

/// Compiles a source.
pub fn compile(text: &str) -> Compilation {
    let mut problems = Problems::new(text);
    if text.len() > MAX_FLOW_SOURCE_BYTES {
        problems.error(0, format!("a flow has at most {MAX_FLOW_SOURCE_BYTES} bytes"));
        return Compilation { problems: problems.into_sorted(), flow: None };
    }
    let parts = source::read(text, &mut problems);
    let Some(front_matter) = &parts.front_matter else {
        return Compilation { problems: problems.into_sorted(), flow: None };
    };
    let mut front = front_matter::read(front_matter, &mut problems);
    let mut unnamed = 0;
    let mut steps = Vec::new();
    let mut unreadable = 0;
    for section in &parts.sections {
        match step::read(section, &mut unnamed, &mut problems) {
            Some(step) => steps.push(step),
            None => unreadable += 1,
        }
    }
    // A step that could not be named has its error already; that it is missing would be no news.
    if unreadable == 0 {
        check::check(&front, &steps, parts.body_at, &mut problems);
    }
    let flow = match front.name.take() {
        Some(name) if !problems.has_errors() => {
            let (fault, steps) = split(steps);
            Some(Flow {
                kept: named_steps(steps.iter().chain(&fault)),
                name,
                description: front.description,
                settings: front.settings,
                steps,
                fault,
            })
        }
        _ => None,
    };
    Compilation { problems: problems.into_sorted(), flow }
}

/// The fault handler's steps and the flow's.
fn split(steps: Vec<Declared>) -> (Vec<Step>, Vec<Step>) {
    let (fault, flow): (Vec<Declared>, Vec<Declared>) =
        steps.into_iter().partition(|step| step.fault);
    let bare = |steps: Vec<Declared>| steps.into_iter().map(|step| step.step).collect();
    (bare(fault), bare(flow))
}

#[cfg(test)]
mod tests;
