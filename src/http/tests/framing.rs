//! What belongs to which request: keep-alive, pipelining, chunks, refused bodies, malformed heads.

use super::fakes::{Answer, TestDoor, get, post};

fn statuses(answers: &[Answer]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

/// A chunked submission.
fn chunked(chunks: &str) -> String {
    format!(
        "POST /flows/acme/forward-order/enqueue HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
    )
}

#[test]
fn a_connection_serves_request_after_request() {
    let door = TestDoor::open();
    let mut client = door.connect();
    for message in 0..10 {
        assert_eq!(client.ask(post(&message.to_string())).status, 202);
        assert_eq!(client.ask(get("/health")).status, 200);
    }
    assert_eq!(door.queues.payloads().len(), 10);
}

#[test]
fn fifty_requests_in_one_segment_are_answered_in_order() {
    let door = TestDoor::open();
    let mut client = door.connect();
    let requests: String = (0..50).map(|message| post(&message.to_string())).collect();
    client.send(requests);
    for message in 0..50 {
        assert!(client.answer().body.contains(&format!("\"offset\":{},", message * 100)));
    }
    let expected: Vec<_> = (0..50).map(|message| message.to_string()).collect();
    assert_eq!(door.queues.payloads(), expected);
}

#[test]
fn good_and_bad_requests_in_one_segment_are_answered_in_order() {
    let door = TestDoor::open();
    let mixture = post("1")
        + &get("/nothing")
        + &post("{")
        + &get("/health")
        + &post("2")
        + "bad\r\n\r\n"
        + &post("3");
    assert_eq!(statuses(&door.all_answers_to(mixture)), [202, 404, 400, 200, 202, 400]);
    assert_eq!(door.queues.payloads(), ["1", "2"]);
}

#[test]
fn requests_split_at_any_byte_are_the_same_requests() {
    let door = TestDoor::open();
    let requests = post("[1]") + &chunked("2\r\n[2\r\n1\r\n]\r\n0\r\n\r\n") + &get("/health");
    for at in 1..requests.len() {
        let mut client = door.connect();
        client.send(&requests[..at]);
        client.send(&requests[at..]);
        let answers = [client.answer(), client.answer(), client.answer()];
        assert_eq!(statuses(&answers), [202, 202, 200], "{at}");
    }
}

#[test]
fn requests_one_byte_at_a_time_are_the_same_requests() {
    let door = TestDoor::open();
    let mut client = door.connect();
    for byte in (post("[1]") + &chunked("3\r\n[2]\r\n0\r\nX: y\r\n\r\n")).bytes() {
        client.send([byte]);
    }
    assert_eq!(statuses(&[client.answer(), client.answer()]), [202, 202]);
    assert_eq!(door.queues.payloads(), ["[1]", "[2]"]);
}

#[test]
fn malformed_heads_are_refused_and_the_connection_closed() {
    let door = TestDoor::open();
    let head =
        |lines: &str| format!("POST /flows/acme/forward-order/enqueue HTTP/1.1\r\n{lines}\r\n1");
    let bad = [
        head("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
        head("Transfer-Encoding: chunked\r\nContent-Length: 1\r\n"),
        head("Content-Length: 1\r\nContent-Length: 2\r\n"),
        head("Content-Length: +1\r\n"),
        head("Content-Length: -1\r\n"),
        head("Content-Length: 1,1\r\n"),
        head("Content-Length: 0x1\r\n"),
        head("Transfer-Encoding: xchunked\r\n"),
        head("Transfer-Encoding: gzip, chunked\r\n"),
        head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        head("Content-Length : 1\r\n"),
        head("Content-Length: 1\r\n folded\r\n"),
        head("Content-Length: 1\nX: y\r\n"),
        head("Content-Length: 1\r\nX: a\0b\r\n"),
        head("Content-Length: 1\r\nX: a\rb\r\n"),
        head("Content-Length: 1\r\nX y: z\r\n"),
        head("Transfer-Encoding: chunked\r\n").replace("HTTP/1.1", "HTTP/1.0"),
        "\x16\x03\x01\x02\x00\x01\x00\x01".into(),
        "GET / HTTP/3.0\r\n\r\n".into(),
    ];
    for request in bad {
        let answers = door.all_answers_to(request.clone() + &get("/health"));
        assert_eq!(statuses(&answers), [400], "{request:?}");
        assert_eq!(answers[0].header("Connection"), Some("close"));
        assert!(answers[0].header("X-Correlation-ID").is_some());
    }
    assert!(door.queues.payloads().is_empty());
}

#[test]
fn a_head_that_ends_early_is_refused_and_empty_lines_are_no_head() {
    let door = TestDoor::open();
    for (sent, expected) in [
        ("G\x7f", vec![400]),
        ("GET /health HT", vec![400]),
        ("GET /health HTTP/1.1\r\n\r\n\r\n", vec![200]),
        ("\r\n\r\n", vec![]),
    ] {
        let mut client = door.connect();
        sent.bytes().for_each(|byte| client.send([byte]));
        client.finish();
        assert_eq!(statuses(&client.rest()), expected, "{sent:?}");
    }
}

#[test]
fn heads_beyond_their_bounds_are_refused() {
    let door = TestDoor::open();
    let many = "A: b\r\n".repeat(10_000);
    let long = format!("A: {}\r\n", "b".repeat(1 << 20));
    for lines in [many, long] {
        let mut client = door.connect();
        // The door may close before it has all of it, and then the rest cannot be sent.
        let request = format!("GET /health HTTP/1.1\r\n{lines}\r\n");
        let _sent = std::io::Write::write_all(&mut client.socket, &request.as_bytes()[..50_000]);
        assert_eq!(statuses(&client.rest()), [431]);
    }
}

#[test]
fn a_refused_body_that_looks_like_a_request_is_never_one() {
    let door = TestDoor::open();
    let inner = post("\"smuggled\"");
    let len = inner.len();
    let path = "POST /flows/acme/nothing/enqueue HTTP/1.1\r\n";
    for refused in [
        format!("{path}Content-Length: {len}\r\n\r\n{inner}"),
        format!("{path}Transfer-Encoding: chunked\r\n\r\n{len:x}\r\n{inner}\r\n0\r\n\r\n"),
        format!("POST /nothing HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{inner}"),
        format!("GET /health HTTP/1.1\r\nContent-Length: {len}\r\n\r\n{inner}"),
    ] {
        assert_eq!(door.all_answers_to(&refused).len(), 1, "{refused}");
    }
    assert!(door.queues.payloads().is_empty());
}

#[test]
fn chunked_bodies_are_decoded_and_what_follows_is_the_next_request() {
    let door = TestDoor::open();
    let mut client = door.connect();
    client.send(chunked("3;x=y\r\n{\"a\r\n4\r\n\":1}\r\n0\r\nX: y\r\n\r\n") + &post("2"));
    assert_eq!(statuses(&[client.answer(), client.answer()]), [202, 202]);
    assert_eq!(door.queues.payloads(), ["{\"a\":1}", "2"]);
}

#[test]
fn chunked_bodies_that_are_broken_or_too_long_are_refused() {
    let door = TestDoor::open();
    let flood = format!("0\r\n{}", "X: y\r\n".repeat(10_000));
    let extension = format!("1;{}", "x".repeat(50_000));
    for (chunks, status) in [
        ("FFFFFFFFFFFFFFFF\r\n", 413),
        ("100001\r\n", 413),
        ("-1\r\n", 400),
        ("1\r\n12\r\n0\r\n\r\n", 400),
        ("1\n1\n0\n\n", 400),
        ("00000000000000001\r\n1\r\n0\r\n\r\n", 400),
        (&extension, 400),
        (&flood, 400),
    ] {
        let answers = door.all_answers_to(chunked(chunks));
        assert_eq!(statuses(&answers), [status], "{:?}", &chunks[..chunks.len().min(30)]);
    }
    assert!(door.queues.payloads().is_empty());
}

#[test]
fn an_unfinished_body_is_never_taken_as_whole() {
    let door = TestDoor::open();
    let fixed = post("[1]");
    let in_chunks = chunked("3\r\n[1]\r\n0\r\n\r\n");
    for unfinished in [
        &fixed[..fixed.len() - 1],
        &in_chunks[..in_chunks.len() - 1],
        &in_chunks[..in_chunks.len() - 5],
        &in_chunks[..in_chunks.len() - 7],
    ] {
        let mut client = door.connect();
        client.send(unfinished);
        client.finish();
        assert_eq!(statuses(&client.rest()), [400], "{unfinished:?}");
    }
    assert!(door.queues.payloads().is_empty());
}

#[test]
fn a_client_that_waits_for_our_word_gets_it_only_when_its_body_is_wanted() {
    let door = TestDoor::open();
    let request = |flow: &str, len: usize| {
        format!(
            "POST /flows/{flow}/enqueue HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: {len}\r\n\r\n"
        )
    };
    let mut client = door.connect();
    assert_eq!(client.ask(request("acme/forward-order", 3)).status, 100);
    assert_eq!(client.ask("[1]").status, 202);
    assert_eq!(statuses(&door.all_answers_to(request("acme/nothing", 3))), [404]);
    assert_eq!(statuses(&door.all_answers_to(request("acme/small", 9))), [413]);
    // The body came without waiting: nothing is left to invite.
    let mut client = door.connect();
    assert_eq!(client.ask(request("acme/forward-order", 3) + "[2]").status, 202);
    assert_eq!(door.queues.payloads(), ["[1]", "[2]"]);
}

#[test]
fn the_other_entries_of_the_table_answer() {
    let door = TestDoor::open();
    let mut client = door.connect();
    let health = client.ask(get("/health"));
    assert_eq!(health.body, r#"{"status":"ok","version":"0.1.0"}"#);
    assert_eq!(client.ask(get("/ready")).status, 200);
    door.readiness.0.lock().unwrap().push("queue acme/x is poisoned".into());
    let ready = client.ask(get("/ready"));
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("queue acme/x is poisoned"), "{}", ready.body);
    assert_eq!(client.ask(get("/health")).status, 200);

    let refused = client.ask(get("/flows/acme/forward-order/enqueue"));
    assert_eq!((refused.status, refused.header("Allow")), (405, Some("POST")));
    client.send("HEAD /health HTTP/1.1\r\n\r\n");
    client.finish();
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut client.socket, &mut answer).unwrap();
    assert!(answer.ends_with(b"Content-Length: 33\r\n\r\n"), "a HEAD has no body");
}

#[test]
fn the_sample_downstream_answers_as_asked() {
    let door = TestDoor::open();
    let mut client = door.connect();
    let request = |method: &str, path: &str, lines: &str, body: &str| {
        let len = body.len();
        format!("{method} {path} HTTP/1.1\r\n{lines}Content-Length: {len}\r\n\r\n{body}")
    };
    let echo = client.ask(request("PUT", "/dev/echo", "", r#"{"a": 1}"#));
    assert_eq!((echo.status, &*echo.body), (200, r#"{"a": 1}"#));
    assert_eq!(client.ask(get("/dev/echo")).body, "null");
    assert_eq!(client.ask(request("POST", "/dev/echo", "", "{")).status, 400);
    let status = client.ask(request("POST", "/dev/status/503", "", "{}"));
    assert_eq!((status.status, &*status.body), (503, r#"{"status":503}"#));
    assert_eq!(client.ask(get("/dev/status/204")).body, "");
    for bad in ["99", "600", "+99", "x", "0200"] {
        assert_eq!(client.ask(get(&format!("/dev/status/{bad}"))).status, 400, "{bad}");
    }
    let flaky = |key: &str| request("POST", "/dev/flaky?fail=2", key, "{}");
    let one = flaky("X-Correlation-ID: one\r\n");
    let other = flaky("Idempotency-Key: two\r\nX-Correlation-ID: one\r\n");
    let expected = [503, 503, 200, 200];
    assert_eq!(expected.map(|_| client.ask(&one).status), expected);
    assert_eq!(expected.map(|_| client.ask(&other).status), expected);
    let closed = TestDoor::with(|config| config.dev = false);
    assert_eq!(closed.connect().ask(get("/dev/echo")).status, 404);
}
