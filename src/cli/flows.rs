//! `nexus flows`: what is published.
//!
//! `list` prints one line for each flow; `show` prints the source of one version, after a line
//! that says which it is.

use serde::Serialize;

use super::args::{FlowsListArgs, FlowsShowArgs};
use super::output::{Failure, Output, escaped, escaped_lines};
use crate::base::QueueName;
use crate::registry::{FlowDetail, FlowSummary, Registry};

/// Lists the latest version of every flow.
pub fn list(args: &FlowsListArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let flows = Registry::open(&args.db.registry()?)
        .and_then(|registry| registry.list())
        .map_err(|error| Failure::new("cannot list the flows", error))?;
    if args.json {
        return flows.iter().try_for_each(|flow| output.json(&SummaryRow::of(flow)));
    }
    if flows.is_empty() {
        return output.line("no flow is published");
    }
    output.text(&table(&flows))
}

/// Prints the source of one version.
pub fn show(args: &FlowsShowArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let queue = args.queue.parse().map_err(|error| Failure::Told(error.to_string()))?;
    let registry = Registry::open(&args.db.registry()?)
        .map_err(|error| Failure::new(format_args!("cannot show {queue}"), error))?;
    let detail = registry
        .show(&queue, args.number)
        .map_err(|error| Failure::new(format_args!("cannot show {queue}"), error))?;
    let Some(detail) = detail else {
        return Err(not_there(&registry, &queue, args.number));
    };
    if args.json {
        return output.json(&DetailRow::of(&detail));
    }
    output.line(header(&detail))?;
    match output.is_terminal() {
        true => output.text(&escaped_lines(&detail.source)),
        false => output.text(&detail.source),
    }
}

fn not_there(registry: &Registry, queue: &QueueName, version: Option<u32>) -> Failure {
    let registry = registry.path().display();
    let why = match version {
        Some(version) => format!("the registry {registry} has no version {version} of it"),
        None => format!("the registry {registry} has no such flow"),
    };
    Failure::new(format_args!("cannot show {queue}"), why)
}

/// Columns that line up; the last is of any width.
fn table(flows: &[FlowSummary]) -> String {
    let names: Vec<String> = flows.iter().map(|flow| flow.queue.to_string()).collect();
    let width = names.iter().map(String::len).chain(["FLOW".len()]).max().unwrap_or(0);
    let mut table = format!("{:width$}  VERSION  {:20}  DESCRIPTION\n", "FLOW", "PUBLISHED");
    for (flow, name) in flows.iter().zip(&names) {
        let description = escaped(flow.description.as_deref().unwrap_or(""));
        let published = flow.published_at.to_seconds_text();
        let line = format!("{name:width$}  {:>7}  {published}  {description}", flow.version);
        table.push_str(line.trim_end());
        table.push('\n');
    }
    table
}

fn header(detail: &FlowDetail) -> String {
    format!(
        "{} version {}, published {}, artifact sha256 {}",
        detail.queue,
        detail.version,
        detail.published_at.to_seconds_text(),
        escaped(&detail.sha256)
    )
}

#[derive(Serialize)]
struct SummaryRow<'a> {
    tenant: &'a str,
    flow: &'a str,
    version: u32,
    published_at: String,
    description: Option<&'a str>,
}

impl<'a> SummaryRow<'a> {
    fn of(flow: &'a FlowSummary) -> SummaryRow<'a> {
        SummaryRow {
            tenant: flow.queue.tenant.as_str(),
            flow: flow.queue.flow.as_str(),
            version: flow.version,
            published_at: flow.published_at.to_millis_text(),
            description: flow.description.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct DetailRow<'a> {
    tenant: &'a str,
    flow: &'a str,
    version: u32,
    published_at: String,
    sha256: &'a str,
    source: &'a str,
}

impl<'a> DetailRow<'a> {
    fn of(detail: &'a FlowDetail) -> DetailRow<'a> {
        DetailRow {
            tenant: detail.queue.tenant.as_str(),
            flow: detail.queue.flow.as_str(),
            version: detail.version,
            published_at: detail.published_at.to_millis_text(),
            sha256: &detail.sha256,
            source: &detail.source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;

    #[test]
    fn the_list_has_columns_that_line_up() {
        let flow = |flow: &str, version, description: Option<&str>| FlowSummary {
            queue: QueueName::parse("acme", flow).unwrap(),
            version,
            published_at: Timestamp::from_millis(1_786_284_131_250),
            description: description.map(str::to_owned),
        };
        let flows =
            [flow("forward-order", 12, Some("Forwards orders\u{1b}[31m")), flow("x", 1, None)];
        assert_eq!(
            table(&flows),
            "FLOW                VERSION  PUBLISHED             DESCRIPTION\n\
             acme/forward-order       12  2026-08-09T14:02:11Z  Forwards orders\\u{1b}[31m\n\
             acme/x                    1  2026-08-09T14:02:11Z\n"
        );
    }

    #[test]
    fn the_header_says_which_version_it_is() {
        let detail = FlowDetail {
            queue: QueueName::parse("acme", "x").unwrap(),
            version: 3,
            published_at: Timestamp::from_millis(1_786_284_131_250),
            sha256: "ab".to_owned(),
            source: String::new(),
        };
        assert_eq!(
            header(&detail),
            "acme/x version 3, published 2026-08-09T14:02:11Z, artifact sha256 ab"
        );
    }
}
