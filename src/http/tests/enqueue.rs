//! Submissions: the 202, the order of checks, and whatever a queue may do.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::fakes::{CEILING, Mode, TestDoor, get, post, post_to};
use crate::worker::Refusal;

#[test]
fn a_submission_is_answered_with_exactly_this_202() {
    let door = TestDoor::open();
    let mut client = door.connect();
    client.send(post_to("acme/forward-order", "X-Correlation-ID: t-1\r\n", r#"{"orderId":"A-1"}"#));
    let answer = client.answer();
    assert_eq!(
        answer.head + &answer.body,
        "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\n\
         Date: Sun, 09 Aug 2026 14:02:11 GMT\r\nX-Content-Type-Options: nosniff\r\n\
         X-Correlation-ID: t-1\r\nContent-Length: 65\r\n\r\n\
         {\"queued\":true,\"offset\":0,\"tenant\":\"acme\",\"flow\":\"forward-order\"}"
    );
    assert_eq!(door.queues.correlation_ids(), ["t-1"]);
}

#[test]
fn json_is_kept_byte_for_byte() {
    let door = TestDoor::open();
    let body = "{ \"z\":1.10,  \"a\":9007199254740993,\"m\":\"\\/ \\u00e9 é\" }\n";
    assert_eq!(door.connect().ask(post(body)).status, 202);
    assert_eq!(door.queues.payloads(), [body]);
}

#[test]
fn xml_is_stored_as_flat_json() {
    let door = TestDoor::open();
    let mut client = door.connect();
    for media_type in ["application/xml", "text/xml; charset=utf-8", "application/soap+xml"] {
        let line = format!("Content-Type: {media_type}\r\n");
        let xml = "<order><id>A-1</id></order>";
        assert_eq!(client.ask(post_to("acme/forward-order", &line, xml)).status, 202);
        for bad in ["<order>", "{}", "", "<!DOCTYPE o [<!ENTITY x \"y\">]><o>&x;</o>"] {
            let refused = client.ask(post_to("acme/forward-order", &line, bad));
            assert_eq!(refused.status, 400, "{bad}");
        }
    }
    assert_eq!(door.queues.payloads(), [r#"{"id":"A-1"}"#; 3]);
}

#[test]
fn documents_as_deep_as_allowed_fit_an_acceptor_s_stack() {
    let door = TestDoor::open();
    let mut client = door.connect();
    let json = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let xml = |depth: usize| "<a>".repeat(depth) + &"</a>".repeat(depth);
    let as_xml = "Content-Type: application/xml\r\n";
    assert_eq!(client.ask(post(&json(128))).status, 202);
    assert_eq!(client.ask(post(&json(129))).status, 400);
    assert_eq!(client.ask(post(&json(100_000))).status, 400);
    assert_eq!(client.ask(post_to("acme/forward-order", as_xml, &xml(127))).status, 202);
    assert_eq!(client.ask(post_to("acme/forward-order", as_xml, &xml(1000))).status, 400);
}

#[test]
fn whoever_is_refused_at_the_gate_is_told_so_before_the_body() {
    // None of these sends a byte of the body that it announces.
    let request = |flow: &str, lines: &str| {
        format!(
            "POST /flows/{flow}/enqueue HTTP/1.1\r\n{lines}Content-Length: 1000000000000\r\n\r\n"
        )
    };
    let closed = TestDoor::with(|config| config.dev = false);
    let unknown_key = request("acme/x", "Authorization: Bearer nxk_secret\r\n");
    for refused in [request("%2e/y", ""), request("acme/nothing", ""), unknown_key] {
        let answers = closed.all_answers_to(refused);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].status, 401);
        assert_eq!(answers[0].header("WWW-Authenticate"), Some("Bearer"));
        assert_eq!(answers[0].header("Connection"), Some("close"));
        assert!(!answers[0].body.contains("secret"));
    }
    let door = TestDoor::open();
    for (flow, status) in [
        ("acme/Forward", 400),
        ("acme/a%2fb", 400),
        ("acme/nothing", 404),
        ("acme/unreadable", 503),
        ("acme/forward-order", 413),
        ("acme/small", 413),
    ] {
        let answers = door.all_answers_to(request(flow, "Content-Type: a; charset=x\r\n"));
        assert_eq!(answers.len(), 1, "{flow}");
        assert_eq!(answers[0].status, status, "{flow}");
        assert_eq!(answers[0].header("Connection"), Some("close"), "{flow}");
        assert!(answers[0].header("X-Correlation-ID").is_some(), "{flow}");
        assert!(answers[0].body.starts_with("{\"error\":\""), "{flow}");
        assert!(answers[0].body.ends_with("\",\"timestamp\":\"2026-08-09T14:02:11.250Z\"}"));
    }
    assert!(door.queues.payloads().is_empty());
}

#[test]
fn checks_of_the_content_come_after_the_body_and_keep_the_connection() {
    let door = TestDoor::open();
    let mut client = door.connect();
    let both_bad = "Content-Type: text/plain; charset=utf-16\r\nX-Correlation-ID: a b\r\n";
    assert_eq!(client.ask(post_to("acme/forward-order", both_bad, "{")).status, 415);
    let zipped = "Content-Encoding: gzip\r\n";
    assert_eq!(client.ask(post_to("acme/forward-order", zipped, "{}")).status, 415);
    let bad_id = "X-Correlation-ID: a b\r\n";
    let malformed = client.ask(post_to("acme/forward-order", bad_id, "{"));
    assert_eq!(malformed.status, 400);
    assert!(malformed.body.contains("line 1"), "{}", malformed.body);
    let refused = client.ask(post_to("acme/forward-order", bad_id, "{}"));
    assert_eq!(refused.status, 400);
    assert!(refused.body.contains("X-Correlation-ID"), "{}", refused.body);
    assert!(!refused.body.contains("a b"), "{}", refused.body);
    assert_eq!(client.ask(post("")).status, 400);
    assert!(door.queues.payloads().is_empty());
    assert_eq!(client.ask(post("{}")).status, 202);
}

#[test]
fn the_ceiling_is_the_flows_or_the_servers_and_holds_at_both_edges() {
    let door = TestDoor::open();
    assert_eq!(door.connect().ask(post_to("acme/small", "", "12345678")).status, 202);
    assert_eq!(door.connect().ask(post_to("acme/small", "", "123456789")).status, 413);
    let long = "1".repeat(usize::try_from(CEILING).unwrap());
    assert_eq!(door.connect().ask(post(&long)).status, 202);
    assert_eq!(door.queues.payloads()[1].len(), long.len());
    for flow in ["acme/forward-order", "acme/large"] {
        let too_long = post_to(flow, "", &format!("{long}1"));
        let answer = &door.all_answers_to(&too_long[..200])[0];
        assert_eq!(answer.status, 413, "{flow}");
        assert!(answer.body.contains(&CEILING.to_string()));
    }
}

#[test]
fn each_refusal_has_its_status() {
    let door = TestDoor::open();
    let mut client = door.connect();
    for (mode, status, retry_after) in [
        (Mode::Refuse(Refusal::Busy("the channel is full".into())), 503, Some("1")),
        (Mode::Refuse(Refusal::Unknown("the sync failed".into())), 503, None),
        (Mode::Refuse(Refusal::NoRoom("the device is full".into())), 507, None),
        (Mode::DropReply, 503, None),
        (Mode::AnswerElsewhere, 202, None),
    ] {
        door.queues.set(mode);
        let answer = client.ask(post_to("acme/small", "X-Request-ID: t-9\r\n", "1"));
        assert_eq!((answer.status, answer.header("Retry-After")), (status, retry_after));
        assert_eq!(answer.header("X-Correlation-ID"), Some("t-9"));
    }
}

#[test]
fn a_late_answer_comes_before_the_next_request_s() {
    let door = TestDoor::open();
    door.queues.set(Mode::Hold);
    let mut client = door.connect();
    client.send(post("1") + &get("/health") + &post("2"));
    door.queues.wait_for_held(1);
    assert_eq!(door.queues.payloads(), ["1"]);
    door.queues.release();
    assert_eq!(client.answer().status, 202);
    assert_eq!(client.answer().status, 200);
    door.queues.wait_for_held(1);
    door.queues.release();
    assert_eq!(client.answer().status, 202);
}

#[test]
fn a_queue_that_never_answers_is_answered_for_and_what_it_says_later_is_dropped() {
    let door = TestDoor::with(|config| config.deadlines.answer = Duration::from_millis(30));
    door.queues.set(Mode::Hold);
    let mut client = door.connect();
    let given_up = client.ask(post("1"));
    assert_eq!(given_up.status, 503);
    assert!(given_up.body.contains("unknown"), "{}", given_up.body);
    door.queues.set(Mode::AnswerAtOnce);
    assert!(client.ask(post("2")).body.contains("\"offset\":100,"));
    door.queues.release();
    assert!(client.ask(post("3")).body.contains("\"offset\":200,"));
}

#[test]
fn a_connection_that_must_close_closes_after_the_queue_s_answer() {
    let door = TestDoor::open();
    for mode in [Mode::AnswerAtOnce, Mode::AnswerElsewhere] {
        door.queues.set(mode);
        let one = door.all_answers_to(post_to("acme/small", "Connection: close\r\n", "1"));
        assert_eq!(one.len(), 1);
        assert_eq!((one[0].status, one[0].header("Connection")), (202, Some("close")));
        let old = post("1").replace("HTTP/1.1", "HTTP/1.0");
        let one = door.all_answers_to(old + &get("/health"));
        assert_eq!(one.len(), 1, "what comes behind the last request is not answered");
        assert_eq!((one[0].status, one[0].header("Connection")), (202, Some("close")));
    }
}

#[test]
fn a_client_that_says_it_is_done_still_gets_its_answer() {
    let door = TestDoor::open();
    door.queues.set(Mode::Hold);
    let mut client = door.connect();
    client.send(post("1"));
    client.finish();
    door.queues.wait_for_held(1);
    door.queues.release();
    let answers = client.rest();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].status, 202);
}

#[test]
fn clients_that_go_away_harm_nobody() {
    // A client that has closed may only have said that it is done: its connection waits for the
    // answer.
    let door = TestDoor::with(|config| config.max_connections = 21);
    door.queues.set(Mode::Hold);
    for gone in 1..=20 {
        let mut client = door.connect();
        client.send(post("1"));
        door.queues.wait_for_held(gone);
        if gone % 2 == 0 {
            // Closing then resets the connection.
            socket2::SockRef::from(&client.socket).set_linger(Some(Duration::ZERO)).unwrap();
        }
    }
    door.queues.release();
    door.queues.set(Mode::AnswerElsewhere);
    assert_eq!(door.connect().ask(post("2")).status, 202);
    assert_eq!(door.queues.payloads().len(), 21);
}

#[test]
fn many_clients_at_once_each_get_their_own_answers() {
    let door = Arc::new(TestDoor::with(|config| config.acceptors = 3));
    door.queues.set(Mode::AnswerElsewhere);
    let clients: Vec<_> = (0..8)
        .map(|number| {
            let door = Arc::clone(&door);
            thread::spawn(move || {
                let mut client = door.connect();
                for message in 0..50 {
                    let id = format!("c{number}-{message}");
                    let line = format!("X-Correlation-ID: {id}\r\n");
                    let answer = client.ask(post_to("acme/small", &line, "1"));
                    assert_eq!(answer.header("X-Correlation-ID"), Some(&*id));
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert_eq!(door.queues.payloads().len(), 400);
}
