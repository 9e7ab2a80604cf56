//! `nexus queue dump`: one file, place by place, as JSON lines.
//!
//! The file's name says which format it has. It need not lie in a state directory: a copy can be
//! read as well. A symbolic link is refused, as everywhere.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::cli::args::QueueDumpArgs;
use crate::cli::output::{Failure, Output};
use crate::cli::source::shown;
use crate::disk::{Disk, Open, RealDisk};
use crate::queue::{self, FileKind};

/// Prints a file.
pub fn dump(args: &QueueDumpArgs, output: &mut Output<'_>) -> Result<(), Failure> {
    let path = &args.file;
    let cannot = |why: &dyn std::fmt::Display| {
        Failure::new(format_args!("cannot dump {}", shown(path)), why)
    };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let kind = FileKind::of(name).ok_or_else(|| {
        cannot(
            &"its name is that of no file of a queue; there are segment.log, segment.log.ckpt, \
              segment.log.retry, segment.log.seq, segment.log.corrupt, dlq.log, dlq.log.acked, \
              worker.lock and wake",
        )
    })?;
    let file = RealDisk::new(&directory_of(path))
        .open(path, Open::Read)
        .map_err(|error| cannot(&error))?;
    let mut written = Ok(());
    let dumped = queue::dump(file.as_ref(), kind, &mut |row| {
        written = output.json(&row);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    written?;
    dumped.map_err(|error| cannot(&error))
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
