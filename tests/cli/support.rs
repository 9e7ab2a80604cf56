//! A home directory of its own for each test, and runs of the program in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A home directory that nothing else uses.
pub struct Home {
    directory: tempfile::TempDir,
}

/// How a run of the program ended.
#[derive(Debug)]
pub struct Run {
    /// Its exit status.
    pub status: i32,
    /// What it wrote to standard output.
    pub out: String,
    /// What it wrote to standard error.
    pub err: String,
}

impl Run {
    /// The output of a run that has succeeded without a word on standard error.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!((self.status, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The errors of a run that has failed without a word on standard output.
    #[track_caller]
    pub fn failed(self) -> String {
        assert_eq!((self.status, self.out.as_str()), (1, ""), "{}", self.err);
        assert!(self.err.starts_with("nexus: "), "{}", self.err);
        self.err
    }

    /// The errors of a run that was refused as a wrong usage.
    #[track_caller]
    pub fn refused(self) -> String {
        assert_eq!((self.status, self.out.as_str()), (2, ""), "{}", self.err);
        assert!(self.err.starts_with("nexus: "), "{}", self.err);
        self.err
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            status: output.status.code().expect("ended by a signal"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Home {
    pub fn new() -> Home {
        Home { directory: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where the registry is unless `--db` says otherwise.
    pub fn registry(&self) -> PathBuf {
        self.path().join(".nexus/registry.db")
    }

    /// The program, ready to run here, with an environment that has nothing of the caller's.
    pub fn nexus(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nexus"));
        command.env_clear().env("HOME", self.path()).current_dir(self.path());
        command.stdin(Stdio::null());
        command
    }

    /// Runs the program with these arguments.
    pub fn run<const N: usize>(&self, args: [&str; N]) -> Run {
        self.nexus().args(args).output().unwrap().into()
    }

    /// Writes a file here and gives its name.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        fs::write(self.path().join(name), content).unwrap();
        PathBuf::from(name)
    }

    /// Everything below the home directory, sorted.
    pub fn everything(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.path().to_path_buf()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path.clone());
                }
                found.push(path);
            }
        }
        found.sort();
        found
    }
}

/// A flow that compiles; `note` makes its source another one.
pub fn flow(tenant: &str, flow: &str, note: &str) -> String {
    format!(
        "---\nflowmarkdown_version: \"0.1\"\ntenant: {tenant}\nflow: {flow}\n---\n\n{note}\n\n\
         ## Step: check\n\n```validate\n$.total > 0 | \"total must be positive\"\n```\n"
    )
}
