//! The exit statuses of `nexus`.

use std::process::ExitCode;

/// How the program ends, as its caller sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: what was asked for is done.
    Done,
    /// 1: it could not be done, or not all of it; standard error says why.
    Failed,
    /// 2: the command line is wrong; nothing was tried.
    Usage,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        match exit {
            Exit::Done => ExitCode::SUCCESS,
            Exit::Failed => ExitCode::from(1),
            Exit::Usage => ExitCode::from(2),
        }
    }
}
