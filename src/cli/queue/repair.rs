//! `nexus queue repair`: mends the files of a queue that nobody delivers, and verifies them then.

use super::target::Target;
use super::verify;
use crate::cli::args::QueueNameArgs;
use crate::cli::output::{Failure, Output, escaped};
use crate::queue;

/// Mends a queue and says what was done.
pub fn repair(args: &QueueNameArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let Target { queue, disk, layout, .. } = Target::parse(&args.queue, &args.db, "repair")?;
    let mended = queue::repair(&disk, &layout, &queue)
        .map_err(|error| Failure::new(format_args!("cannot repair {queue}"), error))?;
    for one in &mended {
        let text = format!("{}: {}", one.file, one.text);
        output.line(format_args!("{queue}: {}", escaped(&text)))?;
    }
    if mended.is_empty() {
        output.line(format_args!("{queue}: nothing to mend"))?;
    }
    let verified = queue::verify(&disk, &layout, &queue);
    if !verified.findings.are_ok() {
        output.fail();
    }
    verify::tell(&queue, &verified, output)
}
