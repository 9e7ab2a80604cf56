//! A state directory of its own for each test, servers on it, and runs of the command line.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::client::{Client, Response};

/// How long anything may take before a test fails; far more than it ever takes.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Polls a condition until it holds.
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Polls until there is something.
#[track_caller]
pub fn wait_for<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_until(what, || {
        found = find();
        found.is_some()
    });
    found.unwrap()
}

/// A state directory and what can be run on it.
pub struct Site {
    root: tempfile::TempDir,
    state: PathBuf,
}

impl Site {
    pub fn new() -> Site {
        let root = tempfile::tempdir().unwrap();
        let state = root.path().join("state");
        Site { root, state }
    }

    /// A site whose state directory is elsewhere.
    pub fn at(state: &Path) -> Site {
        Site { root: tempfile::tempdir().unwrap(), state: state.to_owned() }
    }

    /// A site with these flows published.
    pub fn with_flows(flows: &[&str]) -> Site {
        let site = Site::new();
        site.publish(flows);
        site
    }

    /// The directory around the state directory.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn registry(&self) -> PathBuf {
        self.state.join("registry.db")
    }

    /// A file of a queue of the tenant `acme`.
    pub fn file(&self, flow: &str, name: &str) -> PathBuf {
        self.queue(flow).join(name)
    }

    /// The directory of a queue of the tenant `acme`.
    pub fn queue(&self, flow: &str) -> PathBuf {
        self.state.join("queues/acme").join(flow)
    }

    /// The program, ready to run, with an environment that has nothing of the caller's.
    pub fn nexus(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nexus"));
        command.env_clear().env("HOME", self.root()).env("NEXUS_DB", self.registry());
        command.current_dir(self.root()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.nexus().args(args).output().unwrap()
    }

    /// The standard output of a command that succeeds without a word on standard error.
    #[track_caller]
    pub fn done(&self, args: &[&str]) -> String {
        done(self.run(args))
    }

    #[track_caller]
    pub fn publish(&self, flows: &[&str]) {
        let mut command = self.nexus();
        command.arg("publish");
        for (n, flow) in flows.iter().enumerate() {
            let path = self.root().join(format!("{n}.md"));
            fs::write(&path, flow).unwrap();
            command.arg(path);
        }
        done(command.output().unwrap());
    }

    /// Handles a dead letter of the tenant `acme`: `replay` or `discard`.
    pub fn handle(&self, verb: &str, flow: &str, id: u64) -> Output {
        let id = id.to_string();
        self.run(&["dlq", verb, "--tenant", "acme", "--flow", flow, "--id", &id])
    }

    /// The dead letters, as `dlq list --json` shows them.
    #[track_caller]
    pub fn dead_letters(&self) -> Vec<Value> {
        let out = self.done(&["dlq", "list", "--json"]);
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    pub fn wait_for_dead_letters(&self, count: usize) -> Vec<Value> {
        wait_for(&format!("{count} dead letters"), || {
            let letters = self.dead_letters();
            (letters.len() >= count).then_some(letters)
        })
    }

    #[track_caller]
    pub fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    #[track_caller]
    pub fn serve_with(&self, args: &[&str]) -> Server {
        let mut command = self.nexus();
        command.args(["serve", "--dev", "--listen", "127.0.0.1:0"]);
        Server::start(command.args(args))
    }

    /// Waits until a queue's log has been emptied.
    #[track_caller]
    pub fn wait_for_drain(&self, flow: &str) {
        let segment = self.file(flow, "segment.log");
        wait_until(&format!("the drain of {flow}"), || len(&segment) == 0);
    }

    /// The files below the state directory that hold these bytes.
    pub fn holding(&self, bytes: &str) -> Vec<PathBuf> {
        let holds = |path: &PathBuf| {
            let content = fs::read(path).unwrap_or_default();
            content.windows(bytes.len()).any(|window| window == bytes.as_bytes())
        };
        everything(self.state()).into_iter().filter(|path| path.is_file()).filter(holds).collect()
    }
}

/// Everything below a directory, sorted.
pub fn everything(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// The length of a file; 0 if there is none.
pub fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |meta| meta.len())
}

/// The standard output of a run that succeeded without a word on standard error.
#[track_caller]
pub fn done(output: Output) -> String {
    let (out, err) = texts(&output);
    assert!(output.status.success() && err.is_empty(), "{:?}: {out}{err}", output.status);
    out
}

/// The standard error of a run that failed with exit status 1 and no other output.
#[track_caller]
pub fn failed(output: &Output) -> String {
    let (out, err) = texts(output);
    assert_eq!((output.status.code(), out.as_str()), (Some(1), ""), "{err}");
    err
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// A running server; killed when this is dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server and waits until it says where it listens.
    #[track_caller]
    pub fn start(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let read = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                read.lock().unwrap().push(line);
            }
        });
        let listening = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Server { child, address: listening, lines };
        server.address = wait_for("the server to listen", || {
            assert!(server.child.try_wait().unwrap().is_none(), "{:?}", server.lines());
            let lines = server.lines();
            let rest = lines.iter().find_map(|line| line.split_once("listening on http://"))?.1;
            rest.split(',').next().unwrap().parse().ok()
        });
        server
    }

    /// What it has written to standard error.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Its log's events with this name.
    pub fn events(&self, name: &str) -> Vec<Value> {
        let lines = self.lines();
        let events = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.filter(|event| event["event"] == name).collect()
    }

    #[track_caller]
    pub fn wait_for_event(&self, name: &str) -> Value {
        wait_for(&format!("the event {name}"), || self.events(name).into_iter().next())
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address).unwrap()
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub fn request(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Response {
        self.client().request(method, path, headers, body).unwrap()
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.request("GET", path, &[], "")
    }

    /// Submits a message to a flow of the tenant `acme`.
    #[track_caller]
    pub fn enqueue(&self, flow: &str, body: &str) -> Response {
        self.client().enqueue(flow, body).unwrap()
    }

    /// As [`Server::enqueue`], and it must be accepted.
    #[track_caller]
    pub fn accept(&self, flow: &str, body: &str) {
        let response = self.enqueue(flow, body);
        assert_eq!(response.status, 202, "{response:?}");
    }

    /// What keeps it from being ready; empty when nothing does.
    #[track_caller]
    pub fn problems(&self) -> String {
        let response = self.get("/ready");
        if response.status == 200 { String::new() } else { response.body }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Ends it as a crash does.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        wait_for("the end of the server", || self.child.try_wait().unwrap())
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Ends it in order.
    #[track_caller]
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.wait();
        assert_eq!(status.code(), Some(0), "{:?}", self.lines());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let lines = self.lines();
            let skipped = lines.len().saturating_sub(60);
            eprintln!("the server's last lines:\n{}", lines[skipped..].join("\n"));
        }
    }
}

/// A flow of the tenant `acme` that sends its messages to `endpoint`, with more front matter.
pub fn forward(flow: &str, endpoint: &str, front_matter: &str) -> String {
    format!(
        "---\nflowmarkdown_version: \"0.1\"\nflow: {flow}\ntenant: acme\neffects: [http_egress]\n\
         {front_matter}\n---\n\n## Step: forward\neffects: [http_egress]\nendpoint: {endpoint}\n\
         headers: {{\"Idempotency-Key\": \"{{{{ ctx.correlation_id }}}}\", \
         \"Message-Key\": \"{{{{ ctx.message_key }}}}\", \"Attempt\": \"{{{{ ctx.attempt }}}}\", \
         \"Message-Id\": \"{{{{ ctx.message_id }}}}\"}}\n"
    )
}

/// Retries without delay until so many attempts.
pub fn attempts(count: u32) -> String {
    format!("queue_max_attempts: {count}\nqueue_initial_delay_ms: 0")
}
