//! Clients played from memory: arbitrary bytes in arbitrary pieces, and a socket that takes only so
//! much.

use std::sync::Arc;

use proptest::prelude::*;

use super::fakes::{Answer, FakeQueues, Mode, get, post, services};
use crate::http::PlayedDoor;

fn door() -> (PlayedDoor, Arc<FakeQueues>) {
    let (services, queues, _) = services();
    (PlayedDoor::new(services, 1000).unwrap(), queues)
}

/// What a client gets that sends these pieces and takes so many bytes at once.
fn play(door: &PlayedDoor, pieces: &[Vec<u8>], at_once: usize) -> Vec<Answer> {
    let mut written = door.play(pieces.iter().map(Vec::as_slice), at_once);
    let answers = std::iter::from_fn(|| Answer::take(&mut written)).collect();
    assert_eq!(written, b"", "bytes that are no answer");
    answers
}

#[test]
fn what_the_socket_does_not_take_is_sent_when_it_takes_more() {
    for at_once in [1, 7, 100] {
        for mode in [Mode::AnswerAtOnce, Mode::AnswerElsewhere] {
            let (door, queues) = door();
            queues.set(mode);
            let requests = (post("1") + &get("/health")).repeat(3).into_bytes();
            let answers = play(&door, &[requests], at_once);
            let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses, [202, 200, 202, 200, 202, 200]);
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
        let (door, queues) = door();
        let answers = play(&door, &pieces, usize::MAX);
        let accepted = answers.iter().filter(|answer| answer.status == 202).count();
        prop_assert_eq!(accepted, queues.payloads().len());
    }

    #[test]
    fn how_bytes_are_split_changes_nothing(
        pieces in fragments(),
        cut in 1..50_usize,
        at_once in 1..500_usize,
    ) {
        let bytes = pieces.concat();
        let whole = play(&door().0, std::slice::from_ref(&bytes), usize::MAX);
        let split: Vec<_> = bytes.chunks(cut).map(<[u8]>::to_vec).collect();
        let split = play(&door().0, &split, at_once);
        let statuses = |answers: &[Answer]| -> Vec<u16> {
            // Whether a client is invited to go on depends on what it has sent already.
            answers.iter().map(|answer| answer.status).filter(|status| *status != 100).collect()
        };
        prop_assert_eq!(statuses(&whole), statuses(&split));
    }
}
