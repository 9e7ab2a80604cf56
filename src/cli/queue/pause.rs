//! `nexus queue pause` and `resume`. What is printed is on the disk.

use super::target::Target;
use crate::cli::args::QueueNameArgs;
use crate::cli::output::{Failure, Output};
use crate::queue;

/// Pauses a queue. One that has no files yet may be paused once its flow is published.
pub fn pause(args: &QueueNameArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let target = Target::parse(&args.queue, &args.db, "pause")?;
    target.must_be_known("pause")?;
    let Target { queue, disk, layout, .. } = target;
    queue::pause(disk.as_ref(), &layout, &queue)
        .map_err(|error| Failure::new(format_args!("cannot pause {queue}"), error))?;
    output.line(format_args!("paused {queue}"))
}

/// Ends a pause.
pub fn resume(args: &QueueNameArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let target = Target::parse(&args.queue, &args.db, "resume")?;
    target.must_be_known("resume")?;
    let Target { queue, disk, layout, .. } = target;
    queue::resume(disk.as_ref(), &layout, &queue)
        .map_err(|error| Failure::new(format_args!("cannot resume {queue}"), error))?;
    output.line(format_args!("resumed {queue}"))
}
