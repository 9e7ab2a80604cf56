//! A downstream that does as it is told and remembers every call.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::harness::{DEADLINE, wait_until};

/// One request, as it arrived.
#[derive(Debug, Clone)]
pub struct Call {
    /// Counts the calls of this sink, from 1.
    pub nth: usize,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
    pub at: Instant,
}

impl Call {
    /// The one header of this name.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().unwrap_or_else(|| panic!("no {name} in {self:?}"));
        assert!(found.next().is_none(), "two {name} in {self:?}");
        &value.1
    }
}

/// What the sink does with a call.
#[derive(Debug, Clone)]
pub enum Answer {
    /// This status, with this body.
    Status(u16, String),
    /// Nothing, until the sink is released; then 200.
    Hold,
    /// Closes the connection without a word.
    Close,
    /// 200, byte for byte with this pause, without end.
    Drip(Duration),
}

impl Answer {
    pub fn status(status: u16) -> Answer {
        Answer::Status(status, "{}".into())
    }
}

type Script = dyn Fn(&Call) -> Answer + Send + Sync;

struct Shared {
    calls: Mutex<Vec<Call>>,
    script: Mutex<Arc<Script>>,
    released: Mutex<bool>,
    changed: Condvar,
    over: AtomicBool,
}

/// The running downstream.
pub struct Sink {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Sink {
    /// Answers every call by this script.
    pub fn new(script: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Sink {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            calls: Mutex::default(),
            script: Mutex::new(Arc::new(script)),
            released: Mutex::new(false),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if accepting.over.load(Ordering::SeqCst) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Sink { address, shared }
    }

    /// Answers every call with this status.
    pub fn always(status: u16) -> Sink {
        Sink::new(move |_| Answer::status(status))
    }

    /// Changes what the next calls are answered with.
    pub fn now(&self, script: impl Fn(&Call) -> Answer + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap() = Arc::new(script);
    }

    /// Lets every held call go, those to come too.
    pub fn release(&self) {
        *self.shared.released.lock().unwrap() = true;
        self.shared.changed.notify_all();
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The calls so far, in the order of their arrival.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.shared.calls.lock().unwrap().len()
    }

    /// The bodies so far.
    pub fn bodies(&self) -> Vec<String> {
        self.shared.calls.lock().unwrap().iter().map(|call| call.body.clone()).collect()
    }

    /// Waits for so many calls, and gives all of them.
    #[track_caller]
    pub fn wait_for(&self, count: usize) -> Vec<Call> {
        wait_until(&format!("{count} calls of the sink"), || self.count() >= count);
        self.calls()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.release();
        // Wakes the accepting thread, so that it ends.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let mut reader = BufReader::new(stream);
        while let Ok(Some(call)) = self.read(&mut reader) {
            let script = Arc::clone(&self.script.lock().unwrap());
            if self.answer(reader.get_mut(), script(&call)).is_err() {
                return;
            }
        }
    }

    fn read(&self, reader: &mut BufReader<TcpStream>) -> io::Result<Option<Call>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, value)| value.parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = String::from_utf8(body).unwrap();
        let mut calls = self.calls.lock().unwrap();
        let call = Call { nth: calls.len() + 1, path, headers, body, at: Instant::now() };
        calls.push(call.clone());
        Ok(Some(call))
    }

    fn answer(&self, stream: &mut TcpStream, answer: Answer) -> io::Result<()> {
        match answer {
            Answer::Status(status, body) => respond(stream, status, &body),
            Answer::Close => Err(io::ErrorKind::ConnectionAborted.into()),
            Answer::Hold => {
                let released = self.released.lock().unwrap();
                let wait = self.changed.wait_timeout_while(released, 4 * DEADLINE, |open| !*open);
                drop(wait.unwrap());
                respond(stream, 200, "{}")
            }
            Answer::Drip(pause) => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
                while !self.over.load(Ordering::SeqCst) {
                    stream.write_all(b" ")?;
                    std::thread::sleep(pause);
                }
                Ok(())
            }
        }
    }
}

fn respond(stream: &mut TcpStream, status: u16, body: &str) -> io::Result<()> {
    let reason = match status {
        200 => "OK",
        503 => "Service Unavailable",
        _ => "Whatever",
    };
    let head = "Content-Type: application/json\r\nContent-Length";
    let length = body.len();
    let text = format!("HTTP/1.1 {status} {reason}\r\n{head}: {length}\r\n\r\n{body}");
    stream.write_all(text.as_bytes())
}
