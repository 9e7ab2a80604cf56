//! Stand-ins: queues that answer as told, a registry of four flows, a wall clock that stands still,
//! and a client.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::base::random::SeededRandom;
use crate::base::time::{Clock, SystemClock};
use crate::base::{MessageId, QueueName, Timestamp};
use crate::http::{Deadlines, Door, DoorConfig, Flows, Readiness, Services};
use crate::queue::Receipt;
use crate::registry::FlowGate;
use crate::worker::{Refusal, Reply, Submission, Submit};

/// How long a test waits for what must happen.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// The server's ceiling on one message in these tests, in bytes.
pub(super) const CEILING: u64 = 1 << 20;

/// What the queues do with a submission.
#[derive(Debug, Clone)]
pub(super) enum Mode {
    AnswerAtOnce,
    /// From a thread of its own, as the real ones do.
    AnswerElsewhere,
    /// Not before [`FakeQueues::release`].
    Hold,
    Refuse(Refusal),
    /// As when a queue's thread dies.
    DropReply,
    Panic,
}

pub(super) struct FakeQueues {
    mode: Mutex<Mode>,
    taken: Mutex<Vec<(QueueName, Submission)>>,
    held: Mutex<Vec<(Box<dyn Reply>, Receipt)>>,
    arrived: Condvar,
}

impl FakeQueues {
    fn new() -> FakeQueues {
        FakeQueues {
            mode: Mutex::new(Mode::AnswerAtOnce),
            taken: Mutex::default(),
            held: Mutex::default(),
            arrived: Condvar::new(),
        }
    }

    pub(super) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    /// The payloads taken so far.
    pub(super) fn payloads(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap();
        taken.iter().map(|(_, s)| String::from_utf8(s.payload.clone()).unwrap()).collect()
    }

    pub(super) fn correlation_ids(&self) -> Vec<String> {
        let taken = self.taken.lock().unwrap();
        taken.iter().map(|(_, s)| s.correlation_id.to_string()).collect()
    }

    /// Waits until so many replies are held.
    pub(super) fn wait_for_held(&self, count: usize) {
        let held = self.held.lock().unwrap();
        let (_held, wait) =
            self.arrived.wait_timeout_while(held, PATIENCE, |held| held.len() < count).unwrap();
        assert!(!wait.timed_out(), "no submission came");
    }

    /// Answers everything that is held.
    pub(super) fn release(&self) {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        held.into_iter().for_each(|(reply, receipt)| reply.answer(Ok(receipt)));
    }
}

impl Submit for FakeQueues {
    fn submit(&self, queue: &QueueName, submission: Submission, reply: Box<dyn Reply>) {
        let receipt = {
            let mut taken = self.taken.lock().unwrap();
            taken.push((queue.clone(), submission));
            let count = taken.len() as u64;
            Receipt { id: MessageId::new(count).unwrap(), offset: (count - 1) * 100 }
        };
        let mode = self.mode.lock().unwrap().clone();
        match mode {
            Mode::AnswerAtOnce => reply.answer(Ok(receipt)),
            Mode::AnswerElsewhere => {
                thread::spawn(move || reply.answer(Ok(receipt)));
            }
            Mode::Hold => {
                self.held.lock().unwrap().push((reply, receipt));
                self.arrived.notify_all();
            }
            Mode::Refuse(refusal) => reply.answer(Err(refusal)),
            Mode::DropReply => drop(reply),
            Mode::Panic => panic!("a queue that panics, on purpose"),
        }
    }
}

/// `acme/forward-order`, `acme/small` (at most 8 bytes), `acme/unreadable`, and nothing else.
struct FakeFlows;

impl Flows for FakeFlows {
    fn gate(&self, queue: &QueueName) -> Result<Option<FlowGate>, String> {
        match queue.to_string().as_str() {
            "acme/forward-order" => Ok(Some(FlowGate { version: 1, max_message_bytes: None })),
            "acme/large" => Ok(Some(FlowGate { version: 1, max_message_bytes: Some(1 << 40) })),
            "acme/small" => Ok(Some(FlowGate { version: 1, max_message_bytes: Some(8) })),
            "acme/unreadable" => Err("database is locked".into()),
            _ => Ok(None),
        }
    }
}

/// Says what it is told to say.
#[derive(Default)]
pub(super) struct FakeReadiness(pub(super) Mutex<Vec<String>>);

impl Readiness for FakeReadiness {
    fn problems(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// The wall clock stands at 2026-08-09T14:02:11.250Z; the boot clock runs.
struct StoppedWall;

impl Clock for StoppedWall {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_786_284_131_250)
    }

    fn boot(&self) -> Duration {
        SystemClock.boot()
    }
}

/// An open door with its stand-ins.
pub(super) struct TestDoor {
    pub(super) door: Door,
    pub(super) queues: Arc<FakeQueues>,
    pub(super) readiness: Arc<FakeReadiness>,
}

impl TestDoor {
    /// A `--dev` door with two event loops, whose clients are given all the time they need.
    pub(super) fn open() -> TestDoor {
        TestDoor::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut DoorConfig)) -> TestDoor {
        let deadlines = Deadlines {
            tick: Duration::from_millis(10),
            head: PATIENCE,
            idle: PATIENCE,
            transfer: PATIENCE,
            answer: PATIENCE,
            linger: Duration::from_secs(1),
            pressed: PATIENCE,
        };
        let mut config = DoorConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            acceptors: 2,
            max_connections: 1000,
            max_message_bytes: CEILING,
            dev: true,
            deadlines,
        };
        change(&mut config);
        let (services, queues, readiness) = services();
        TestDoor { door: Door::start(config, services).unwrap(), queues, readiness }
    }

    pub(super) fn connect(&self) -> Client {
        Client::new(TcpStream::connect(self.door.address()).unwrap())
    }

    /// What a client gets that sends these bytes and then only reads, until the door closes.
    pub(super) fn all_answers_to(&self, bytes: impl AsRef<[u8]>) -> Vec<Answer> {
        let mut client = self.connect();
        client.send(bytes);
        client.rest()
    }
}

impl Drop for TestDoor {
    fn drop(&mut self) {
        self.door.stop();
        if !thread::panicking() {
            assert_eq!(self.door.join(PATIENCE), 0, "connections that did not end");
        }
    }
}

pub(super) fn services() -> (Services, Arc<FakeQueues>, Arc<FakeReadiness>) {
    let queues = Arc::new(FakeQueues::new());
    let readiness = Arc::new(FakeReadiness::default());
    let services = Services {
        flows: Arc::new(FakeFlows),
        queues: queues.clone(),
        readiness: readiness.clone(),
        clock: Arc::new(StoppedWall),
        random: Arc::new(SeededRandom::new(7)),
    };
    (services, queues, readiness)
}

/// A submission to `acme/forward-order`, as bytes.
pub(super) fn post(body: &str) -> String {
    post_to("acme/forward-order", "", body)
}

/// A submission to a flow, with more header lines.
pub(super) fn post_to(flow: &str, lines: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "POST /flows/{flow}/enqueue HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: {len}\r\n\r\n{body}"
    )
}

/// A request without a body.
pub(super) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// An answer, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    /// The value of a header, if it is there.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find_map(|(known, value)| known.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Takes the first answer off the bytes, if it is whole.
    pub(super) fn take(bytes: &mut Vec<u8>) -> Option<Answer> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let len: usize = answer.header("Content-Length").map_or(0, |len| len.parse().unwrap());
        if bytes.len() < end + len {
            return None;
        }
        answer.body = String::from_utf8(bytes[end..end + len].to_vec()).unwrap();
        bytes.drain(..end + len);
        Some(answer)
    }
}

/// A client that says what it is told to, byte for byte.
pub(super) struct Client {
    pub(super) socket: TcpStream,
    received: Vec<u8>,
}

impl Client {
    fn new(socket: TcpStream) -> Client {
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Client { socket, received: Vec::new() }
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).unwrap();
    }

    /// Says that nothing more will be sent.
    pub(super) fn finish(&self) {
        self.socket.shutdown(Shutdown::Write).unwrap();
    }

    /// The next answer.
    pub(super) fn answer(&mut self) -> Answer {
        loop {
            if let Some(answer) = Answer::take(&mut self.received) {
                return answer;
            }
            assert!(self.receive(), "closed instead of an answer: {:?}", self.received);
        }
    }

    pub(super) fn ask(&mut self, request: impl AsRef<[u8]>) -> Answer {
        self.send(request);
        self.answer()
    }

    /// All answers until the door closes the connection.
    pub(super) fn rest(&mut self) -> Vec<Answer> {
        while self.receive() {}
        let answers = std::iter::from_fn(|| Answer::take(&mut self.received)).collect();
        assert_eq!(self.received, b"", "bytes that are no answer");
        answers
    }

    /// Receives something; `false` at the end.
    fn receive(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.socket.read(&mut buffer) {
            Ok(len) => {
                self.received.extend(&buffer[..len]);
                len > 0
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no answer: {error}"),
        }
    }
}
