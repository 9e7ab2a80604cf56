//! A downstream for tests: on loopback, with prepared answers, and it remembers what it was sent.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Longer than any test takes; only a test that fails waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// A downstream that answers so many requests and then closes.
pub(crate) struct Downstream {
    address: SocketAddr,
    requests: Receiver<String>,
}

impl Downstream {
    /// Answers each connection's requests with the next of its prepared answers, then closes the
    /// connection. One inner list for each connection.
    pub(crate) fn with_connections(connections: Vec<Vec<Vec<u8>>>) -> Downstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for answers in connections {
                let Ok((mut stream, _)) = listener.accept() else { return };
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                for answer in answers {
                    let Some(request) = read_request(&mut stream) else { break };
                    let _ = sender.send(request);
                    let _ = stream.write_all(&answer);
                }
            }
        });
        Downstream { address, requests }
    }

    /// One connection for each answer.
    pub(crate) fn new<const N: usize>(answers: [&str; N]) -> Downstream {
        let one = |answer: &str| vec![answer.as_bytes().to_vec()];
        Downstream::with_connections(answers.into_iter().map(one).collect())
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn target(&self) -> String {
        self.address.to_string()
    }

    /// The next request, as it came.
    pub(crate) fn request(&self) -> String {
        self.requests.recv_timeout(PATIENCE).expect("a request was expected")
    }

    /// How many requests came that were not taken.
    pub(crate) fn further_requests(&self) -> usize {
        self.requests.try_iter().count()
    }
}

/// An answer with these headers and this body, after which the connection is closed.
pub(crate) fn answer(status: &str, headers: &[&str], body: &str) -> String {
    let mut text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n", body.len());
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text + "Connection: close\r\n\r\n" + body
}

/// The answer of a downstream that gives JSON.
pub(crate) fn json(body: &str) -> String {
    answer("200 OK", &["Content-Type: application/json"], body)
}

/// The port of a listener that is gone: nothing answers there.
pub(crate) fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(head) = text.find("\r\n\r\n") {
            let length = text.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok()
            });
            if text.len() >= head + 4 + length.unwrap_or(0) {
                return Some(text);
            }
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
        }
    }
}
