//! The `nexus` program: hands the command line to [`nexus::cli`] and exits with what it decides.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nexus::cli::main()
}
