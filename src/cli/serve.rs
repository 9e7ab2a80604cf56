//! `nexus serve` (placeholder).

use std::process::ExitCode;

use super::args::ServeArgs;
use super::output::{Failure, with_standard_streams};

/// Serves until it is told to stop.
pub fn run(args: ServeArgs) -> ExitCode {
    let _ = args;
    with_standard_streams(|_| Err(Failure::Told("serving is not there yet".to_owned()))).into()
}
