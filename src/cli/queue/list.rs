//! `nexus queue list`: how much every queue holds, a line each, by tenant and flow.
//!
//! A queue that cannot be read hides no other: it is reported after the list, and the exit status
//! is 1.

use super::row::QueueRow;
use crate::base::time::{Clock, SystemClock};
use crate::base::{QueueName, Timestamp};
use crate::cli::args::QueueListArgs;
use crate::cli::dlq::open;
use crate::cli::output::{Failure, Output};
use crate::queue::{self, Overview, Worker};
use crate::registry;

/// The columns, as `--json` names them.
const COLUMNS: [&str; 11] = [
    "TENANT",
    "FLOW",
    "WAITING",
    "IN_FLIGHT",
    "RETRYING",
    "DEAD_LETTERS",
    "TOTAL",
    "PROCESSED",
    "OLDEST_DUE_SECONDS",
    "PAUSED",
    "WORKER",
];

/// Lists every queue that has files.
pub fn list(args: &QueueListArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let registry = args.db.registry()?;
    let cannot = |why: &dyn std::fmt::Display| Failure::new("cannot list the queues", why);
    registry::must_exist(&registry).map_err(|error| cannot(&error))?;
    let (disk, layout) = open(&registry);
    let queues = queue::list_queues(&*disk, &layout).map_err(|error| cannot(&error))?;
    let now = SystemClock.now();
    let mut seen = Vec::new();
    let mut faults = Vec::new();
    for queue in &queues {
        match queue::overview(&*disk, &layout, queue, now) {
            Ok(overview) if args.json => output.json(&QueueRow::of(queue, &overview, now))?,
            Ok(overview) => seen.push((queue, overview)),
            Err(error) => faults.push(format!("cannot look at {queue}: {error}")),
        }
    }
    if !args.json && queues.is_empty() {
        output.line("no queue has been used yet")?;
    }
    if !seen.is_empty() {
        output.text(&table(&seen, now))?;
    }
    for fault in faults {
        output.report(fault);
    }
    Ok(())
}

/// Columns that line up: the two names to the left, numbers to the right.
fn table(seen: &[(&QueueName, Overview)], now: Timestamp) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(seen.iter().map(|(queue, overview)| cells(queue, overview, now)));
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    let mut table = String::new();
    for row in &rows {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column < 2 {
                true => format!("{cell:width$}"),
                false => format!("{cell:>width$}"),
            });
        table.push_str(&cells.collect::<Vec<_>>().join("  "));
        table.push('\n');
    }
    table
}

fn cells(queue: &QueueName, seen: &Overview, now: Timestamp) -> [String; 11] {
    let none = || "-".to_owned();
    [
        queue.tenant.to_string(),
        queue.flow.to_string(),
        seen.waiting.to_string(),
        seen.in_flight.to_string(),
        seen.retrying.to_string(),
        seen.dead_letters.to_string(),
        seen.total.to_string(),
        seen.processed.to_string(),
        seen.oldest_due_seconds(now).map_or_else(none, |seconds| seconds.to_string()),
        if seen.paused { "yes" } else { "no" }.to_owned(),
        match seen.worker {
            Worker::None => none(),
            Worker::Running(Some(process)) => process.to_string(),
            Worker::Running(None) => "yes".to_owned(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_columns_that_line_up() {
        let now = Timestamp::from_millis(90_000);
        let names = [("acme", "forward-order"), ("b", "x")];
        let queues = names.map(|(tenant, flow)| QueueName::parse(tenant, flow).unwrap());
        let busy = Overview {
            waiting: 12_345,
            in_flight: 1,
            retrying: 2,
            dead_letters: 3,
            total: 20_000,
            processed: 7_652,
            oldest_due: Some(Timestamp::from_millis(500)),
            next_due: None,
            paused: false,
            worker: Worker::Running(Some(4711)),
        };
        let idle = Overview {
            waiting: 0,
            in_flight: 0,
            retrying: 0,
            dead_letters: 0,
            total: 0,
            processed: 0,
            oldest_due: None,
            next_due: None,
            paused: true,
            worker: Worker::None,
        };
        let expected = [
            "TENANT  FLOW           WAITING  IN_FLIGHT  RETRYING  DEAD_LETTERS  TOTAL  PROCESSED  OLDEST_DUE_SECONDS  PAUSED  WORKER",
            "acme    forward-order    12345          1         2             3  20000       7652                  89      no    4711",
            "b       x                    0          0         0             0      0          0                   -     yes       -",
            "",
        ];
        let shown = table(&[(&queues[0], busy), (&queues[1], idle)], now);
        assert_eq!(shown, expected.join("\n"));
    }
}
