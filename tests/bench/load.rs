//! A closed-loop load over HTTP: each connection sends its next request when the last was answered.
//!
//! One thread serves all connections through epoll, so that it leaves the processor to the server.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// What a load measured.
pub struct Figures {
    pub messages: u64,
    pub elapsed: Duration,
    /// Every latency in microseconds, sorted.
    latencies: Vec<u32>,
}

impl Figures {
    pub fn per_second(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64()
    }

    /// A percentile of the latencies, in milliseconds.
    pub fn percentile(&self, percent: usize) -> f64 {
        let at = (self.latencies.len() * percent / 100).min(self.latencies.len().saturating_sub(1));
        self.latencies.get(at).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
    }
}

/// When a load ends.
#[derive(Clone, Copy)]
pub enum Until {
    Elapsed(Duration),
    Sent(u64),
}

struct Connection {
    stream: TcpStream,
    sent_at: Instant,
    received: Vec<u8>,
}

/// Submits `body` to `path` over so many connections.
pub fn run(
    address: SocketAddr,
    path: &str,
    body: &str,
    connections: usize,
    until: Until,
) -> Figures {
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let poll = epoll::create(CreateFlags::CLOEXEC).expect("epoll");
    let mut open: Vec<Connection> = (0..connections)
        .map(|index| {
            let stream = TcpStream::connect(address).expect("the server listens");
            stream.set_nodelay(true).expect("nodelay");
            epoll::add(&poll, &stream, EventData::new_u64(index as u64), EventFlags::IN)
                .expect("epoll");
            Connection { stream, sent_at: Instant::now(), received: Vec::new() }
        })
        .collect();
    let began = Instant::now();
    for connection in &mut open {
        connection.send(&request);
    }
    let mut latencies = Vec::new();
    let mut in_flight = connections;
    let mut sent = connections as u64;
    let mut events = Vec::with_capacity(connections);
    while in_flight > 0 {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None).expect("epoll");
        for event in &events {
            let connection = &mut open[event.data.u64() as usize];
            if !connection.receive() {
                continue;
            }
            latencies.push(connection.sent_at.elapsed().as_micros() as u32);
            let more = match until {
                Until::Elapsed(time) => began.elapsed() < time,
                Until::Sent(limit) => sent < limit,
            };
            if more {
                connection.send(&request);
                sent += 1;
            } else {
                in_flight -= 1;
            }
        }
    }
    let elapsed = began.elapsed();
    latencies.sort_unstable();
    Figures { messages: latencies.len() as u64, elapsed, latencies }
}

impl Connection {
    fn send(&mut self, request: &str) {
        self.sent_at = Instant::now();
        self.stream.write_all(request.as_bytes()).expect("the server reads");
    }

    /// Whether a whole answer has come.
    fn receive(&mut self) -> bool {
        let mut chunk = [0; 4096];
        let read = self.stream.read(&mut chunk).expect("the server answers");
        assert!(read > 0, "the server closed the connection");
        self.received.extend_from_slice(&chunk[..read]);
        let Some(head) = find(&self.received, b"\r\n\r\n") else { return false };
        let text = std::str::from_utf8(&self.received[..head]).expect("a head is text");
        assert!(text.starts_with("HTTP/1.1 202"), "not accepted: {text}");
        let length: usize = text
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .and_then(|length| length.parse().ok())
            .expect("an answer has a length");
        if self.received.len() < head + 4 + length {
            return false;
        }
        self.received.clear();
        true
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
