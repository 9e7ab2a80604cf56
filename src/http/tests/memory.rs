//! Clients played from memory: arbitrary bytes in arbitrary pieces, and a socket that takes only so
//! much.

use std::collections::VecDeque;
use std::io;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::fakes::{Answer, FakeQueues, Mode, post, services};
use crate::http::Deadlines;
use crate::http::acceptors::Pressure;
use crate::http::buffer::Buffer;
use crate::http::connection::serve;
use crate::http::context::Context;
use crate::http::dev::Flaky;
use crate::http::gate::Access;
use crate::http::stream::Stream;

/// A client that sends these pieces, then nothing more, and reads everything.
#[derive(Clone, Default)]
struct Played {
    pieces: Arc<Mutex<VecDeque<Vec<u8>>>>,
    written: Arc<Mutex<Vec<u8>>>,
    /// What `write_now` takes at once, in bytes.
    room: usize,
}

impl Played {
    fn new(pieces: impl IntoIterator<Item = Vec<u8>>) -> Played {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        Played { pieces: Arc::new(Mutex::new(pieces)), room: usize::MAX, ..Played::default() }
    }

    fn answers(&self) -> Vec<Answer> {
        let mut written = self.written.lock().unwrap().clone();
        let answers = std::iter::from_fn(|| Answer::take(&mut written)).collect();
        assert_eq!(written, b"", "bytes that are no answer");
        answers
    }
}

impl Stream for Played {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut pieces = self.pieces.lock().unwrap();
        let Some(piece) = pieces.front_mut() else { return Ok(0) };
        let len = piece.len().min(buffer.len());
        buffer[..len].copy_from_slice(&piece[..len]);
        piece.drain(..len);
        if piece.is_empty() {
            pieces.pop_front();
        }
        Ok(len)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(7);
        self.written.lock().unwrap().extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(self.room);
        if len == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.written.lock().unwrap().extend_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn finish(&self) {}

    fn close(&self) {}
}

fn context() -> (Context, Arc<FakeQueues>) {
    let (services, queues, _) = services();
    let context = Context {
        services,
        deadlines: Deadlines::default(),
        max_message_bytes: 1000,
        access: Access::Everyone,
        dev: Some(Flaky::default()),
        pressure: Pressure::new(TcpListener::bind("127.0.0.1:0").unwrap(), 2),
        stopping: AtomicBool::new(false),
    };
    (context, queues)
}

fn play(client: &Played, context: &Context) -> Vec<Answer> {
    serve(Box::new(client.clone()), &mut Buffer::new(), context);
    client.answers()
}

#[test]
fn what_the_socket_does_not_take_from_the_queue_s_thread_is_finished_by_the_connection() {
    for room in [0, 1, 100] {
        for mode in [Mode::AnswerAtOnce, Mode::AnswerElsewhere] {
            let (context, queues) = context();
            queues.set(mode);
            let client = Played { room, ..Played::new([post("1").repeat(3).into_bytes()]) };
            let answers = play(&client, &context);
            assert_eq!(answers.len(), 3);
            assert!(answers.iter().all(|answer| answer.status == 202));
        }
    }
}

/// Pieces of requests that are near to good ones.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "POST /flows/acme/forward-order/enqueue HTTP/1.1\r\n",
        "POST /flows/acme/small/enqueue HTTP/1.0\r\n",
        "GET /health HTTP/1.1\r\n",
        "POST /dev/echo HTTP/1.1\r\n",
        "POST /dev/flaky?fail=1 HTTP/1.1\r\n",
        "GET /dev/status/101 HTTP/1.1\r\n",
        "Content-Length: 3\r\n",
        "Content-Length: 99999999999\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Expect: 100-continue\r\n",
        "Connection: close\r\n",
        "X-Correlation-ID: a\r\n",
        "Content-Type: text/xml\r\n",
        "\r\n",
        "\r\n[1]",
        "\r\n3\r\n[1]\r\n0\r\n\r\n",
        "\n",
        ":",
    ]);
    prop_oneof![
        8 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

fn fragments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(fragment(), 0..30)
}

proptest! {
    #[test]
    fn whatever_is_sent_gets_whole_answers_and_an_end(pieces in fragments()) {
        let (context, queues) = context();
        let answers = play(&Played::new(pieces), &context);
        let accepted = answers.iter().filter(|answer| answer.status == 202).count();
        prop_assert_eq!(accepted, queues.payloads().len());
    }

    #[test]
    fn how_bytes_are_split_changes_nothing(pieces in fragments(), cut in 1..50_usize) {
        let bytes = pieces.concat();
        let whole = play(&Played::new([bytes.clone()]), &context().0);
        let split = play(&Played::new(bytes.chunks(cut).map(<[u8]>::to_vec)), &context().0);
        let statuses = |answers: &[Answer]| -> Vec<u16> {
            // Whether a client is invited to go on depends on what it has sent already.
            answers.iter().map(|answer| answer.status).filter(|status| *status != 100).collect()
        };
        prop_assert_eq!(statuses(&whole), statuses(&split));
    }
}
