//! `nexus queue verify`: reads every file of every queue and reports what is wrong.
//!
//! For each queue the findings, a line each, or `acme/forward-order: ok`. Notes are no faults. The
//! exit status is 1 if there is any fault.

use serde::Serialize;

use crate::base::QueueName;
use crate::cli::args::QueueVerifyArgs;
use crate::cli::dlq::open;
use crate::cli::filter::Filter;
use crate::cli::output::{Failure, Output, escaped};
use crate::queue::{self, Finding, Severity, Verified};
use crate::registry;

/// Verifies the queues that are named, all of them if none is.
pub fn verify(args: &QueueVerifyArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let filter = Filter::parse(args.tenant.as_deref(), args.flow.as_deref())?;
    let registry = args.db.registry()?;
    let cannot = |why: &dyn std::fmt::Display| Failure::new("cannot verify the queues", why);
    registry::must_exist(&registry).map_err(|error| cannot(&error))?;
    let (disk, layout) = open(&registry);
    if let Some(queue) = filter.one()
        && !queue::exists(&*disk, &layout, &queue).map_err(|error| cannot(&error))?
    {
        let why = "it has no files";
        return Err(Failure::new(format_args!("cannot verify {queue}"), why));
    }
    let queues = filter.queues(&*disk, &layout)?;
    if filter.is_everything() {
        let strays = queue::strays(&*disk, &layout).map_err(|error| cannot(&error))?;
        tell_strays(&strays, args.json, output)?;
        if queues.is_empty() && !args.json {
            output.line("no queue has been used yet")?;
        }
    }
    for queue in &queues {
        let verified = queue::verify(&disk, &layout, queue);
        match args.json {
            true => output.json(&VerifiedRow::of(queue, &verified))?,
            false => tell(queue, &verified, output)?,
        }
        if !verified.findings.are_ok() {
            output.fail();
        }
    }
    Ok(())
}

/// Prints what was found of a queue, and `ok` if there is no fault among it.
pub(super) fn tell(
    queue: &QueueName,
    verified: &Verified,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    for finding in &verified.findings.list {
        output.line(line(queue, finding))?;
    }
    if verified.findings.more_faults > 0 {
        output.line(format_args!("{queue}: and {} more", verified.findings.more_faults))?;
    }
    if verified.findings.are_ok() {
        output.line(format_args!("{queue}: ok"))?;
    }
    Ok(())
}

/// `acme/forward-order: segment.log: 19 byte(s) at offset 38: bytes that are no message`
fn line(queue: &QueueName, finding: &Finding) -> String {
    let note = match finding.severity {
        Severity::Note => "note: ",
        Severity::Fault => "",
    };
    let place = match finding.place {
        Some((offset, len)) => format!(" {len} byte(s) at offset {offset}:"),
        None => String::new(),
    };
    let text = format!("{}:{place} {}", finding.file, finding.text);
    format!("{queue}: {note}{}", escaped(&text))
}

fn tell_strays(strays: &[Finding], json: bool, output: &mut Output<'_>) -> Result<(), Failure> {
    for stray in strays {
        output.fail();
        match json {
            true => output.json(&StrayRow {
                file: format!("queues/{}", stray.file),
                ok: false,
                text: &stray.text,
            })?,
            false => {
                let text = format!("queues/{}: {}", stray.file, stray.text);
                output.line(escaped(&text))?;
            }
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct VerifiedRow<'a> {
    tenant: &'a str,
    flow: &'a str,
    ok: bool,
    messages: u64,
    dead_letters: u64,
    findings: Vec<FindingRow<'a>>,
    more_faults: u64,
}

#[derive(Serialize)]
struct FindingRow<'a> {
    severity: &'static str,
    file: &'a str,
    /// Null where it is about no place of the file.
    offset: Option<u64>,
    length: Option<u64>,
    text: &'a str,
}

#[derive(Serialize)]
struct StrayRow<'a> {
    file: String,
    ok: bool,
    text: &'a str,
}

impl<'a> VerifiedRow<'a> {
    fn of(queue: &'a QueueName, verified: &'a Verified) -> VerifiedRow<'a> {
        let findings = verified.findings.list.iter().map(|finding| FindingRow {
            severity: match finding.severity {
                Severity::Fault => "fault",
                Severity::Note => "note",
            },
            file: &finding.file,
            offset: finding.place.map(|(offset, _)| offset),
            length: finding.place.map(|(_, len)| len),
            text: &finding.text,
        });
        VerifiedRow {
            tenant: queue.tenant.as_str(),
            flow: queue.flow.as_str(),
            ok: verified.findings.are_ok(),
            messages: verified.messages,
            dead_letters: verified.dead_letters,
            findings: findings.collect(),
            more_faults: verified.findings.more_faults,
        }
    }
}
