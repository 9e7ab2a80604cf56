//! From a directory to a listening process.
//!
//! In order: the settings, the state directory, the limit on open files, the registry, the worker,
//! and the door last, so that whoever can connect can be served. A part that fails ends the start,
//! with the parts before it stopped.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

use crate::base::limits::{CATALOG_POLL, DESCRIPTORS_PER_QUEUE, FILE_DESCRIPTORS};
use crate::base::random::{Random, SystemRandom};
use crate::base::time::{Clock, SystemClock};
use crate::disk::{Disk, Open, RealDisk};
use crate::flow::effect::HttpEgress;
use crate::http::{Deadlines, Door, DoorConfig, Services};
use crate::journal::{Event, Journal, Kind};
use crate::queue::Layout;
use crate::registry::{Catalog, Registry, state_dir};
use crate::server::config::{ServerConfig, StartError};
use crate::server::readiness::State;
use crate::server::stop::Signals;
use crate::worker::{Janitor, Limits, Roster, Surroundings};

/// A running server.
pub struct Server {
    pub(super) door: Door,
    pub(super) janitor: Janitor,
    pub(super) roster: Arc<Roster>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) journal: Arc<Journal>,
    pub(super) grace: Duration,
}

/// Refuses settings that must not be served, an address that cannot be listened on and a state
/// directory that cannot be written; makes the directory where it is missing. To be called before
/// anything is published into it.
///
/// # Errors
/// A text that names the flag, or the directory with its owner and mode.
pub fn check(config: &ServerConfig) -> Result<(), StartError> {
    config.check()?;
    // Only tried: what another process takes from here on is found when the door opens.
    TcpListener::bind(config.listen).map_err(|why| cannot_listen(config, &why))?;
    let dir = state_dir(&config.registry);
    let disk = RealDisk::new(&dir);
    let probe = dir.join("probe.tmp");
    disk.create_dir_all(&dir)
        .and_then(|()| disk.open(&probe, Open::Create).map(drop))
        .and_then(|()| disk.remove(&probe))
        .map_err(|error| StartError::StateDirectory(unwritable(&dir, &error)))
}

fn cannot_listen(config: &ServerConfig, why: &io::Error) -> StartError {
    let hint = match why.kind() {
        io::ErrorKind::AddrInUse => "; another address is taken with --listen ADDRESS:PORT",
        _ => "",
    };
    StartError::part("listening", format!("{}: {why}{hint}", config.listen))
}

/// Starts a server, serves until a signal says to stop, and stops it.
///
/// # Errors
/// Why it cannot start, or what did not stop in order.
pub fn run(config: &ServerConfig) -> Result<(), StartError> {
    let signals = Signals::watch().map_err(|why| StartError::part("the signal thread", why))?;
    let server = Server::start(config)?;
    greet(config, server.address());
    let signal = signals.wait();
    server.stop(signal)
}

impl Server {
    /// Starts everything; the server accepts when this returns.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(config: &ServerConfig) -> Result<Server, StartError> {
        check(config)?;
        raise_open_files();
        Registry::create(&config.registry).map_err(|why| StartError::part("the registry", why))?;
        let catalog = Catalog::start(&config.registry, CATALOG_POLL)
            .map_err(|why| StartError::part("the registry", why))?;
        let descriptors = Descriptors::of_process(config.max_queues);
        let around = Arc::new(surroundings(config, descriptors));
        let roster = Roster::new(Arc::clone(&around));
        let janitor =
            Janitor::start(Arc::clone(&around), Arc::clone(&roster), config.resume_at_start)
                .map_err(|why| StartError::part("the search for work", why))?;
        let state = Arc::new(State {
            catalog: Arc::new(catalog),
            roster: Arc::clone(&roster),
            state_dir: state_dir(&config.registry),
        });
        let services = Services {
            flows: Arc::clone(&state) as _,
            queues: Arc::clone(&roster) as _,
            readiness: Arc::clone(&state) as _,
            clock: Arc::clone(&around.clock),
            random: Arc::clone(&around.random),
        };
        let door = match Door::start(door_config(config, descriptors), services) {
            Ok(door) => door,
            Err(why) => {
                janitor.stop();
                // What is in flight is given back at once: nothing was promised to anybody yet.
                let _ = roster.close();
                return Err(cannot_listen(config, &why));
            }
        };
        let journal = Arc::clone(&around.journal);
        journal.record(&Event::new(Kind::ServerStarted));
        let catalog = Arc::clone(&state.catalog);
        Ok(Server { door, janitor, roster, catalog, journal, grace: config.grace })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }
}

fn surroundings(config: &ServerConfig, descriptors: Descriptors) -> Surroundings {
    let dir = state_dir(&config.registry);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let random: Arc<dyn Random> = Arc::new(SystemRandom);
    Surroundings {
        disk: Arc::new(RealDisk::new(&dir)),
        layout: Layout::new(&dir),
        registry: config.registry.clone(),
        clock: Arc::clone(&clock),
        random,
        egress: HttpEgress::new(),
        journal: Arc::new(Journal::new(clock)),
        limits: Limits {
            max_queues: descriptors.queues,
            max_waiting: (config.max_connections / 2).max(1),
            max_message_bytes: config.max_message_bytes,
        },
    }
}

fn door_config(config: &ServerConfig, descriptors: Descriptors) -> DoorConfig {
    DoorConfig {
        listen: config.listen,
        acceptors: config.acceptors,
        max_connections: config.max_connections.min(descriptors.connections),
        max_message_bytes: config.max_message_bytes,
        dev: config.dev,
        deadlines: Deadlines::default(),
    }
}

/// Why a directory cannot be written, with what a person needs to mend it.
fn unwritable(dir: &Path, error: &std::io::Error) -> String {
    let user = geteuid().as_raw();
    let dir_text = dir.display();
    let what = format!("cannot write to the state directory {dir_text}: {error}; ");
    match fs::metadata(dir) {
        Ok(meta) => {
            let (owner, mode) = (meta.uid(), meta.mode() & 0o7777);
            what + &format!(
                "this process runs as user {user}, and the directory belongs to user {owner} \
                 with mode {mode:04o}"
            )
        }
        Err(_) => what + &format!("this process runs as user {user}, and cannot make it"),
    }
}

/// Every connection and every active queue needs descriptors: the soft limit is raised as far as it
/// may be.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        log::warn!("the limit on open files stays at {:?}: {error}", limit.current);
    }
}

/// How the descriptors of a process are shared out: active queues get up to half of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Descriptors {
    queues: usize,
    connections: usize,
}

impl Descriptors {
    /// Those of this process, for at most so many active queues.
    fn of_process(max_queues: usize) -> Descriptors {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let shared = Descriptors::share(limit, max_queues);
        if shared.queues < max_queues {
            log::info!(
                "{limit} files can be open at once: at most {} queues are active, not {max_queues}",
                shared.queues
            );
        }
        shared
    }

    fn share(limit: u64, max_queues: usize) -> Descriptors {
        let left = limit - FILE_DESCRIPTORS.min(limit / 4);
        let room = usize::try_from(left / 2 / DESCRIPTORS_PER_QUEUE).unwrap_or(usize::MAX);
        let queues = max_queues.min(room).max(1);
        let taken = (queues as u64).saturating_mul(DESCRIPTORS_PER_QUEUE);
        let connections = usize::try_from(left.saturating_sub(taken)).unwrap_or(usize::MAX);
        Descriptors { queues, connections: connections.max(1) }
    }
}

/// Tells the person who started it where it listens and what to try.
fn greet(config: &ServerConfig, address: SocketAddr) {
    let dir = state_dir(&config.registry);
    eprintln!("nexus: listening on http://{address}, state directory {}", dir.display());
    if config.dev {
        eprintln!(
            "nexus: --dev is on: every caller is an admin of every tenant, only this machine can \
             connect, and /dev/echo, /dev/status/503 and /dev/flaky?fail=2 are a sample downstream"
        );
    }
    let names = Registry::open(&config.registry)
        .and_then(|registry| registry.gates())
        .map(|gates| gates.into_iter().map(|(queue, _)| queue.to_string()).collect())
        .unwrap_or_default();
    eprintln!(
        "nexus: try: curl -i http://{address}/flows/{}/enqueue -d '{{\"orderId\":\"A-1\"}}'",
        example(names)
    );
}

/// The flow to try: the sample that takes any message, if it is there, else the first by name.
fn example(names: Vec<String>) -> String {
    const SAMPLE: &str = "acme/forward-order";
    if names.iter().any(|name| name == SAMPLE) {
        return SAMPLE.to_owned();
    }
    names.into_iter().min().unwrap_or_else(|| "TENANT/FLOW".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn descriptors_are_shared_so_that_neither_queues_nor_connections_run_out_of_them() {
        for limit in [16, 64, 256, 1024, 20_000, 524_288, u64::MAX] {
            for max_queues in [1, 4096, 1 << 20] {
                let shared = Descriptors::share(limit, max_queues);
                assert!(shared.queues >= 1 && shared.queues <= max_queues);
                let queues = shared.queues as u64 * DESCRIPTORS_PER_QUEUE;
                let taken = queues.saturating_add(shared.connections as u64);
                assert!(limit < 64 || taken <= limit, "{limit}: {shared:?}");
            }
        }
        assert_eq!(Descriptors::share(1024, 4096), Descriptors { queues: 32, connections: 384 });
        assert_eq!(Descriptors::share(524_288, 4096).queues, 4096);
    }

    #[test]
    fn the_flow_to_try_takes_any_message_if_the_sample_is_there() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(example(names(&["acme/accepted", "acme/forward-order"])), "acme/forward-order");
        assert_eq!(example(names(&["b/x", "a/y"])), "a/y");
        assert_eq!(example(Vec::new()), "TENANT/FLOW");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named_with_owner_and_mode() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o500)).unwrap();
        let text = unwritable(dir.path(), &io::ErrorKind::PermissionDenied.into());
        let path = dir.path().to_str().unwrap();
        assert!(text.contains(path) && text.contains("mode 0500"), "{text}");
        let missing = dir.path().join("none");
        let text = unwritable(&missing, &io::ErrorKind::PermissionDenied.into());
        assert!(text.contains("cannot make it"), "{text}");
    }
}
