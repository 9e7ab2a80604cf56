//! Clients that are slow, silent or deaf. The deadlines are short, and nothing waits for them but
//! the door.

use std::io::Write;
use std::time::Duration;

use super::fakes::{TestDoor, get, post};

const SHORT: Duration = Duration::from_millis(30);

#[test]
fn a_client_that_sends_nothing_or_half_a_head_is_cut() {
    let door = TestDoor::with(|config| config.deadlines.head = SHORT);
    for start in ["", "GET", "GET /health HTTP/1.1\r\nX: y\r\n"] {
        let answers = door.all_answers_to(start);
        assert_eq!(answers.len(), 1, "{start:?}");
        assert_eq!(answers[0].status, 408, "{start:?}");
        assert_eq!(answers[0].header("Connection"), Some("close"));
    }
}

#[test]
fn a_head_that_drips_is_cut_although_it_never_pauses() {
    let door = TestDoor::with(|config| config.deadlines.head = SHORT);
    let mut client = door.connect();
    client.send("GET /health HTTP/1.1\r\nX: ");
    // Until the door has closed and says so; a head that is too long would be refused long before
    // this many.
    let cut = (0..10_000_000).any(|_| client.socket.write_all(b"y").is_err());
    assert!(cut);
    assert!(client.rest().iter().all(|answer| matches!(answer.status, 408 | 431)));
}

#[test]
fn a_second_head_has_its_own_deadline() {
    // Long enough for the first one to come in time on a busy machine.
    let door = TestDoor::with(|config| config.deadlines.head = 20 * SHORT);
    let mut client = door.connect();
    client.send(get("/health") + "GET /hea");
    let statuses: Vec<_> = client.rest().iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [200, 408]);
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let door = TestDoor::with(|config| config.deadlines.idle = SHORT);
    let answers = door.all_answers_to(get("/health"));
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0].status, answers[0].header("Connection")), (200, None));
}

#[test]
fn a_body_that_does_not_come_is_cut_and_nothing_is_stored() {
    let door = TestDoor::with(|config| config.deadlines.transfer = SHORT);
    let whole = post("[1]");
    let chunked = "POST /flows/acme/forward-order/enqueue HTTP/1.1\r\n\
                   Transfer-Encoding: chunked\r\n\r\n3\r\n[1]\r\n";
    for start in [&whole[..whole.len() - 3], &whole[..whole.len() - 1], chunked] {
        let answers = door.all_answers_to(start);
        assert_eq!(answers.len(), 1, "{start:?}");
        assert_eq!(answers[0].status, 408, "{start:?}");
    }
    assert!(door.queues.payloads().is_empty());
}

#[test]
fn a_client_that_never_reads_is_given_up_on() {
    let door = TestDoor::with(|config| config.deadlines.transfer = SHORT);
    let mut deaf = door.connect();
    let body = format!("\"{}\"", "x".repeat(500_000));
    let len = body.len();
    let request = format!("POST /dev/echo HTTP/1.1\r\nContent-Length: {len}\r\n\r\n{body}");
    let cut = (0..200).any(|_| deaf.socket.write_all(request.as_bytes()).is_err());
    assert!(cut, "the door went on reading from a client that takes no answers");
    assert_eq!(door.connect().ask(post("1")).status, 202);
}

#[test]
fn a_client_that_never_reads_its_202s_is_given_up_on() {
    let door = TestDoor::with(|config| config.deadlines.transfer = SHORT);
    let mut deaf = door.connect();
    let requests = post("1").repeat(1000);
    let cut = (0..1000).any(|_| deaf.socket.write_all(requests.as_bytes()).is_err());
    assert!(cut, "the door went on reading from a client that takes no answers");
    assert_eq!(door.connect().ask(post("1")).status, 202);
}
