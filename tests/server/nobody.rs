//! Runs of the program as a user that is not the superuser.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::{Command, Stdio};

use rustix::process::geteuid;

use crate::harness::{Site, everything};

/// The user that owns nothing, where the test runs as the superuser.
pub const NOBODY: u32 = 65534;

/// The number of the user that [`nexus`] runs as.
pub fn user() -> u32 {
    if geteuid().is_root() { NOBODY } else { geteuid().as_raw() }
}

/// The program, ready to run as that user: as it is, unless the test runs as the superuser.
pub fn nexus(site: &Site) -> Command {
    if !geteuid().is_root() {
        return site.nexus();
    }
    // Where the test's program lies may be closed to others.
    let program = site.root().join("nexus");
    fs::copy(env!("CARGO_BIN_EXE_nexus"), &program).unwrap();
    fs::set_permissions(site.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]).arg("--clear-groups");
    command.arg(program).env_clear().env("NEXUS_DB", site.registry());
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").stdin(Stdio::null());
    command
}

/// Gives the state directory and everything in it to that user.
pub fn give(site: &Site) {
    for path in everything(site.state()).iter().map(|path| &**path).chain([site.state()]) {
        chown(path, Some(user()), None).unwrap();
    }
}
