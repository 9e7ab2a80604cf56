//! `nexus publish`: compiles flows and stores them as their next versions, all or none.
//!
//! Every file is read and compiled before the registry is opened, so a faulty one leaves no trace
//! of the others, nor a new registry. `nexus serve FILE…` publishes in the same way.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::args::PublishArgs;
use super::output::{Failure, Output};
use super::source;
use crate::base::time::{Clock, SystemClock};
use crate::registry::{NewVersion, Registry};

/// Publishes the files into the registry at `--db`, which is made where it is missing.
pub fn run(args: &PublishArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    publish_files(&args.db.registry()?, &args.files, &SystemClock, output)
}

/// Publishes files and prints one line for each: `published acme/forward-order version 3`.
///
/// # Errors
/// A file that cannot be read or has errors, two files of one flow, a registry that cannot be
/// written. Nothing is published then.
pub fn publish_files(
    registry: &Path,
    files: &[PathBuf],
    clock: &dyn Clock,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let versions = compile(files, output)?;
    let published = Registry::create(registry)
        .and_then(|mut registry| registry.publish(&versions, clock.now()))
        .map_err(|error| Failure::new("nothing was published", error))?;
    for one in published {
        let what = if one.unchanged { "unchanged" } else { "published" };
        output.line(format_args!("{what} {} version {}", one.queue, one.version))?;
    }
    Ok(())
}

fn compile(files: &[PathBuf], output: &mut Output<'_>) -> Result<Vec<NewVersion>, Failure> {
    let mut versions: Vec<NewVersion> = Vec::new();
    let mut file_of: HashMap<_, String> = HashMap::new();
    for (checked, flow) in source::check_all(files.iter().map(PathBuf::as_path), output)? {
        let queue = flow.name().clone();
        if let Some(other) = file_of.insert(queue.clone(), checked.name.clone()) {
            let why = format!("{other} and {} are both the flow {queue}", checked.name);
            return Err(Failure::new("nothing was published", why));
        }
        versions.push(NewVersion {
            queue,
            artifact: flow.to_artifact(),
            max_message_bytes: flow.max_message_bytes(),
            description: flow.description().map(str::to_owned),
            source: checked.source,
        });
    }
    Ok(versions)
}
