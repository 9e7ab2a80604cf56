//! `nexus dlq`: the dead letters, listed, replayed and discarded.
//!
//! Source: the document "Queues, retries and the DLQ", section "Managing the dead-letter queue";
//! what is printed is the document's to the letter, by tenant, flow and id. `--json` and its names
//! go beyond it.
//!
//! Promises: names are checked before anything is opened, and nothing is made for a name that
//! breaks the rule, nor where there is no registry. A damaged entry hides no other: it is reported
//! after the list, and the exit status is 1. "replayed" and "discarded" are printed only when that
//! is on the disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::{DlqEntryArgs, DlqListArgs};
use super::dead_letter::{self, JsonRow, Row};
use super::filter::Filter;
use super::output::{Failure, Output};
use crate::base::QueueName;
use crate::base::random::SystemRandom;
use crate::base::time::{Clock, SystemClock};
use crate::disk::{Disk, RealDisk};
use crate::queue::{self, DeadLetter, Layout, Report};
use crate::registry::{self, Registry, RegistryError};

/// Lists what nobody has handled.
pub fn list(args: &DlqListArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let filter = Filter::parse(args.tenant.as_deref(), args.flow.as_deref())?;
    let registry = args.db.registry()?;
    registry::must_exist(&registry).map_err(|error| Failure::new("cannot list", error))?;
    let (disk, layout) = open(&registry);
    let queues = filter.queues(&*disk, &layout)?;
    match args.json {
        true => list_json(&*disk, &layout, &queues, output),
        false => list_text(&*disk, &layout, &queues, output),
    }
}

/// Submits an entry again.
pub fn replay(args: &DlqEntryArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let target = Target::parse(args)?;
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::new(format_args!("cannot replay {}", target.entry), why)
    };
    let published = Registry::open(&target.registry)
        .and_then(|registry| registry.gate(&target.queue))
        .map_err(|error: RegistryError| cannot(&error))?;
    if published.is_none() {
        let registry = target.registry.display();
        return Err(cannot(&format_args!(
            "the flow is not in the registry {registry}; publish it first (the entry is untouched)"
        )));
    }
    let (disk, layout) = open(&target.registry);
    let now = SystemClock.now();
    queue::replay(&disk, &layout, &target.queue, args.id.get(), now, &SystemRandom)
        .map_err(|error| cannot(&error))?;
    output.line(format_args!("replayed  {}", target.entry))
}

/// Marks an entry handled.
pub fn discard(args: &DlqEntryArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let target = Target::parse(args)?;
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::new(format_args!("cannot discard {}", target.entry), why)
    };
    registry::must_exist(&target.registry).map_err(|error| cannot(&error))?;
    let (disk, layout) = open(&target.registry);
    queue::discard(&disk, &layout, &target.queue, args.id.get()).map_err(|error| cannot(&error))?;
    output.line(format_args!("discarded {}", target.entry))?;
    output.line(
        "  the body leaves the disk at this flow's next queue drain; \
         until then it is only hidden from listings",
    )
}

/// The dead letter that a command is about.
struct Target {
    queue: QueueName,
    registry: PathBuf,
    /// `id=7 tenant=acme flow=forward-order`
    entry: String,
}

impl Target {
    fn parse(args: &DlqEntryArgs) -> Result<Target, Failure> {
        let queue = args.queue.parse().map_err(|error| Failure::Told(error.to_string()))?;
        let entry = dead_letter::entry_name(&queue, args.id);
        Ok(Target { registry: args.db.registry()?, queue, entry })
    }
}

/// The disk and the state directory of a registry.
pub(super) fn open(registry: &Path) -> (Arc<dyn Disk>, Layout) {
    let state = registry::state_dir(registry);
    (Arc::new(RealDisk::new(&state)), Layout::new(&state))
}

/// What was wrong on the way, told after everything that could be read.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    /// Reads one queue's dead letters and keeps what was wrong.
    fn read(
        &mut self,
        disk: &dyn Disk,
        layout: &Layout,
        queue: &QueueName,
        each: &mut dyn FnMut(DeadLetter),
    ) {
        match queue::dead_letters(disk, layout, queue, each) {
            Ok(reports) => self.0.extend(reports.iter().map(|report| damage(queue, report))),
            Err(error) => self.0.push(format!("cannot read the dead letters of {queue}: {error}")),
        }
    }

    fn tell(self, output: &mut Output<'_>) {
        for fault in self.0 {
            output.report(fault);
        }
    }
}

fn damage(queue: &QueueName, report: &Report) -> String {
    let Report { path, offset, len, text } = report;
    format!("{}: {len} byte(s) at offset {offset} of {queue} are skipped: {text}", path.display())
}

fn list_text(
    disk: &dyn Disk,
    layout: &Layout,
    queues: &[QueueName],
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut faults = Faults::default();
    let mut lists: Vec<(&QueueName, Vec<Row>)> = Vec::new();
    for queue in queues {
        let mut rows = Vec::new();
        faults.read(disk, layout, queue, &mut |letter| rows.push(Row::from(letter)));
        lists.push((queue, rows));
    }
    let count = lists.iter().map(|(_, rows)| rows.len()).sum();
    // With entries that cannot be read, nobody can say that it is empty.
    match count == 0 && faults.0.is_empty() {
        true => output.line(dead_letter::EMPTY)?,
        false => output.line(dead_letter::heading(count))?,
    }
    for (queue, rows) in &lists {
        for row in rows {
            output.text(&dead_letter::text(queue, row))?;
        }
    }
    faults.tell(output);
    Ok(())
}

fn list_json(
    disk: &dyn Disk,
    layout: &Layout,
    queues: &[QueueName],
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let mut faults = Faults::default();
    for queue in queues {
        let mut written = Ok(());
        faults.read(disk, layout, queue, &mut |letter| {
            if written.is_ok() {
                written = output.json(&JsonRow::of(queue, &Row::from(letter)));
            }
        });
        written?;
    }
    faults.tell(output);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_told_with_its_file_and_offset() {
        let report = Report {
            path: PathBuf::from("/s/queues/acme/x/dlq.log"),
            offset: 120,
            len: 60,
            text: "the checksum is wrong".to_owned(),
        };
        assert_eq!(
            damage(&QueueName::parse("acme", "x").unwrap(), &report),
            "/s/queues/acme/x/dlq.log: 60 byte(s) at offset 120 of acme/x are skipped: \
             the checksum is wrong"
        );
    }
}
