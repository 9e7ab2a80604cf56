//! `cargo bench`: what this machine does with `nexus`, beside what it does without.
//!
//! Everything is real: the HTTP door on a loopback port, the queue's files in a temporary directory
//! (`TMPDIR` chooses the disk), every sync. Client and server share the processor. Figures are of
//! one run each; compare within a run, not across machines. `NEXUS_BENCH_SECONDS` sets how long
//! each row is measured (default 2).

mod disk;
mod load;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus::base::random::SystemRandom;
use nexus::base::time::{Clock, SystemClock};
use nexus::base::{MessageId, QueueName};
use nexus::disk::{Disk, Open, RealDisk};
use nexus::flow::{HttpEgress, compile};
use nexus::http::{Deadlines, Door, DoorConfig, Flows, Readiness, Services};
use nexus::journal::Journal;
use nexus::queue::{Layout, Receipt, pause, resume};
use nexus::registry::{FlowGate, NewVersion, Registry};
use nexus::worker::{Limits, Reply, Roster, Submission, Submit, Surroundings};

use disk::CountingDisk;
use load::{Figures, Until};

const CONNECTIONS: [usize; 4] = [1, 16, 64, 256];
const PATH: &str = "/flows/acme/bench/enqueue";
const BACKLOG: u64 = 200_000;

/// A hundred bytes of JSON.
const BODY: &str = concat!(
    r#"{"orderId":"A-1000001","total":42.50,"currency":"EUR","note":"leave at the door, please","#,
    r#""vip":false}"#
);

const FLOW: &str = "---\nflowmarkdown_version: \"0.1\"\nflow: bench\ntenant: acme\n---\n\n\
                    ## Step: nothing\n```ntd\n{}\n```\n";

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` only want to know that it is there.
    if std::env::args().any(|arg| arg == "--list" || arg == "--test") {
        return;
    }
    let seconds = std::env::var("NEXUS_BENCH_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs_f64(seconds.unwrap_or(2.0));
    bare_syncs(time);
    submissions("HTTP door, no queue behind it", None, time);
    let site = Site::new();
    submissions("durable submissions (queue paused)", Some(&site), time);
    waiting_and_draining();
}

/// A directory with the flow published, and everything between the door and the disk.
struct Site {
    dir: tempfile::TempDir,
    disk: Arc<CountingDisk>,
    roster: Arc<Roster>,
}

fn bench_queue() -> QueueName {
    QueueName::parse("acme", "bench").expect("a name")
}

impl Site {
    fn new() -> Site {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let state = dir.path().join("state");
        let registry = state.join("registry.db");
        let flow = compile(FLOW).flow.expect("the flow compiles");
        let version = NewVersion {
            queue: bench_queue(),
            source: FLOW.to_owned(),
            artifact: flow.to_artifact(),
            max_message_bytes: None,
            description: None,
        };
        let mut store = Registry::create(&registry).expect("a registry");
        store.publish(&[version], SystemClock.now()).expect("published");
        let disk = Arc::new(CountingDisk::new(&state));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let around = Surroundings {
            disk: Arc::clone(&disk) as _,
            layout: Layout::new(&state),
            registry,
            clock: Arc::clone(&clock),
            random: Arc::new(SystemRandom),
            egress: HttpEgress::new(),
            journal: Arc::new(Journal::new(clock)),
            limits: Limits { max_queues: 16, max_waiting: 4096, max_message_bytes: 1 << 20 },
        };
        let site = Site { dir, disk, roster: Roster::new(Arc::new(around)) };
        pause(site.disk.as_ref(), &site.layout(), &bench_queue()).expect("paused");
        site
    }

    fn layout(&self) -> Layout {
        Layout::new(&self.dir.path().join("state"))
    }
}

/// The flow is always there, and all is well.
struct Always;

impl Flows for Always {
    fn gate(&self, _queue: &QueueName) -> Result<Option<FlowGate>, String> {
        Ok(Some(FlowGate { version: 1, max_message_bytes: None }))
    }
}

impl Readiness for Always {
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }
}

/// No queue: every message is answered at once.
impl Submit for Always {
    fn submit(&self, _queue: &QueueName, _submission: Submission, reply: Box<dyn Reply>) {
        reply.answer(Ok(Receipt { id: MessageId::FIRST, offset: 0 }));
    }
}

fn open_door(site: Option<&Site>) -> Door {
    let queues: Arc<dyn Submit> = match site {
        Some(site) => Arc::clone(&site.roster) as _,
        None => Arc::new(Always),
    };
    let config = DoorConfig {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        acceptors: std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)),
        max_connections: 1024,
        max_message_bytes: 1 << 20,
        dev: true,
        deadlines: Deadlines::default(),
    };
    let services = Services {
        flows: Arc::new(Always),
        queues,
        readiness: Arc::new(Always),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
    };
    Door::start(config, services).expect("the door opens")
}

/// One frame's worth of bytes, written and synced one after the other.
fn bare_syncs(time: Duration) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let disk = RealDisk::new(dir.path());
    let file = disk.open(&dir.path().join("log"), Open::Create).expect("a file");
    let frame = [b'x'; 256];
    let began = Instant::now();
    let mut done = 0;
    while began.elapsed() < time {
        file.write_all_at(&frame, done * frame.len() as u64).expect("written");
        file.sync().expect("synced");
        done += 1;
    }
    let rate = done as f64 / began.elapsed().as_secs_f64();
    println!("bare fdatasync of 256 appended bytes: {rate:.0} a second\n");
}

fn submissions(title: &str, site: Option<&Site>, time: Duration) {
    println!("{title}");
    println!("  clients  messages/s  x of 1  p50 ms  p99 ms  syncs/s  messages/sync");
    let door = open_door(site);
    let mut single = None;
    for connections in CONNECTIONS {
        let syncs = site.map_or(0, |site| site.disk.syncs());
        let figures = load::run(door.address(), PATH, BODY, connections, Until::Elapsed(time));
        let syncs = site.map_or(0, |site| site.disk.syncs()) - syncs;
        let rate = figures.per_second();
        let factor = rate / *single.get_or_insert(rate);
        println!(
            "  {connections:>7}  {rate:>10.0}  {factor:>6.1}  {:>6.2}  {:>6.2}  {}",
            figures.percentile(50),
            figures.percentile(99),
            sync_columns(syncs, &figures)
        );
    }
    println!();
    door.stop();
    door.join(Duration::from_secs(5));
}

fn sync_columns(syncs: u64, figures: &Figures) -> String {
    if syncs == 0 {
        return "      -              -".to_owned();
    }
    let rate = syncs as f64 / figures.elapsed.as_secs_f64();
    format!("{rate:>7.0}  {:>13.1}", figures.messages as f64 / syncs as f64)
}

/// What waiting messages cost in memory, and how fast they are delivered to a flow that does
/// nothing.
fn waiting_and_draining() {
    let site = Site::new();
    let door = open_door(Some(&site));
    load::run(door.address(), PATH, BODY, 64, Until::Sent(1000));
    let before = resident_kib();
    load::run(door.address(), PATH, BODY, 64, Until::Sent(BACKLOG));
    let after = resident_kib();
    println!(
        "{BACKLOG} waiting messages: {before} KiB resident before, {after} KiB after \
         (latencies of the client, 4 bytes a message, included)"
    );
    let log = site.layout().queue(&bench_queue()).segment;
    let began = Instant::now();
    resume(site.disk.as_ref(), &site.layout(), &bench_queue()).expect("resumed");
    wait_for_drain(&log);
    let elapsed = began.elapsed().as_secs_f64();
    println!(
        "delivered to a flow that does nothing, one at a time, and drained: {:.0} a second \
         ({elapsed:.1} s, up to 1 s of it waiting for the polls)",
        BACKLOG as f64 / elapsed
    );
    door.stop();
    door.join(Duration::from_secs(5));
}

fn wait_for_drain(log: &Path) {
    let deadline = Instant::now() + Duration::from_secs(300);
    while std::fs::metadata(log).expect("a log").len() > 0 {
        assert!(Instant::now() < deadline, "not drained within five minutes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Resident memory of this process.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}
