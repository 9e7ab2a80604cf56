//! Stand-in for the compiler: enough of a flow for the command line's own tests.
use crate::base::QueueName;
use crate::flow::Flow;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The flow cannot be published.
    Error,
    /// It can.
    Warning,
}

/// Something that the compiler found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

/// What the compiler gives.
pub struct Compilation {
    /// All that was found.
    pub problems: Vec<Problem>,
    /// The flow, when there was no error.
    pub flow: Option<Flow>,
}

/// Compiles a source.
pub fn compile(source: &str) -> Compilation {
    let key = |key: &str| source.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let problem = |severity, message: &str| Problem {
        line: 1,
        column: 1,
        severity,
        message: message.to_owned(),
        help: Some("write it in the front matter".to_owned()),
    };
    let Some((tenant, flow)) = key("tenant:").zip(key("flow:")) else {
        let problems = vec![problem(Severity::Error, "the tenant or the flow is missing")];
        return Compilation { problems, flow: None };
    };
    let mut problems = Vec::new();
    if key("effects:").is_some() {
        problems.push(problem(Severity::Warning, "the effect is never used"));
    }
    match QueueName::parse(tenant, flow) {
        Ok(name) => Compilation { problems, flow: Some(Flow::stand_in(name)) },
        Err(error) => {
            problems.push(problem(Severity::Error, &error.to_string()));
            Compilation { problems, flow: None }
        }
    }
}
