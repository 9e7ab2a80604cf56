//! An orderly end, and work that hangs.

use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Site, attempts, forward, len, wait_until};
use crate::sink::{Answer, Sink};

fn site(sink: &Sink, front_matter: &str) -> Site {
    Site::with_flows(&[&forward("forward", &sink.url("/"), front_matter)])
}

#[test]
fn a_stop_gives_up_a_hanging_delivery_after_the_grace_without_charging_it() {
    let sink = Sink::new(|_| Answer::Hold);
    let site = site(&sink, &attempts(2));
    let server = site.serve_with(&["--grace", "1"]);
    server.accept("forward", "{}");
    sink.wait_for(1);
    server.stop();
    // More stops than crashes would be allowed.
    for stop in 2..=7 {
        let server = site.serve_with(&["--grace", "0"]);
        sink.wait_for(stop);
        server.stop();
    }
    sink.now(|_| Answer::status(200));
    let _server = site.serve();
    let calls = sink.wait_for(8);
    assert!(calls.iter().all(|call| call.header("attempt") == "1"), "{calls:?}");
    site.wait_for_drain("forward");
    assert_eq!((sink.count(), site.dead_letters().len()), (8, 0));
}

#[test]
fn a_stop_waits_for_what_is_in_flight_and_it_does_not_come_again() {
    let sink = Sink::new(|_| Answer::Hold);
    let site = site(&sink, "");
    let mut server = site.serve();
    server.accept("forward", "1");
    server.accept("forward", "2");
    sink.wait_for(1);
    server.signal(Signal::INT);
    server.wait_for_event("server_stopping");
    assert!(server.is_running());
    sink.release();
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(sink.bodies(), ["1"], "nothing further is started");
    let _server = site.serve();
    sink.wait_for(2);
    site.wait_for_drain("forward");
    assert_eq!(sink.bodies(), ["1", "2"]);
}

#[test]
fn a_second_signal_ends_at_once_and_loses_nothing() {
    let sink = Sink::new(|_| Answer::Hold);
    let site = site(&sink, "");
    let mut server = site.serve_with(&["--grace", "3600"]);
    server.accept("forward", "{}");
    sink.wait_for(1);
    server.signal(Signal::TERM);
    server.wait_for_event("server_stopping");
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(1));
    sink.now(|_| Answer::status(200));
    let _server = site.serve();
    sink.wait_for(2);
    site.wait_for_drain("forward");
}

#[test]
fn idle_connections_and_pending_retries_do_not_hold_up_a_stop() {
    let sink = Sink::always(503);
    let site = site(&sink, "queue_initial_delay_ms: 3600000\nqueue_max_delay_ms: 3600000");
    let server = site.serve_with(&["--grace", "3600"]);
    let mut idle = server.client();
    assert_eq!(idle.enqueue("forward", "{}").unwrap().status, 202);
    let _silent = server.client();
    server.wait_for_event("queue_retry");
    server.stop();
    assert!(idle.receive().is_err());
}

#[test]
fn a_stop_during_a_bodys_upload_gives_no_202_and_stores_nothing() {
    let sink = Sink::always(200);
    let site = site(&sink, "");
    let server = site.serve_with(&["--grace", "1"]);
    let mut client = server.client();
    let head =
        "POST /flows/acme/forward/enqueue HTTP/1.1\r\nHost: nexus\r\nContent-Length: 100\r\n";
    client.send(format!("{head}\r\n{{\"half\":").as_bytes()).unwrap();
    // The server has the head: another request on another connection came later and is answered.
    assert_eq!(server.get("/health").status, 200);
    server.stop();
    if let Ok(response) = client.receive() {
        assert_ne!(response.status, 202);
    }
    assert_eq!(len(&site.file("forward", "segment.log")), 0);
    assert_eq!(sink.count(), 0);
}

#[test]
fn a_downstream_that_hangs_delays_no_other_queue_and_no_202() {
    let sink = Sink::new(|call| match call.path.as_str() {
        "/hang" => Answer::Hold,
        "/drip" => Answer::Drip(Duration::from_millis(20)),
        _ => Answer::status(200),
    });
    let flow = |name: &str| forward(name, &sink.url(&format!("/{name}")), "");
    let site = Site::with_flows(&[&flow("hang"), &flow("drip"), &flow("good")]);
    let server = site.serve();
    for round in 0..50 {
        for name in ["hang", "drip", "good"] {
            server.accept(name, &round.to_string());
        }
    }
    let count = |path: &str| sink.calls().iter().filter(|call| call.path == path).count();
    wait_until("the good queue", || count("/good") == 50);
    assert_eq!((count("/hang"), count("/drip")), (1, 1));
    assert_eq!(server.problems(), "");
}

#[test]
fn calls_that_take_too_long_break_off_or_are_refused_fail_with_the_downstream_named() {
    let sink = Sink::new(|call| match call.path.as_str() {
        "/hang" => Answer::Hold,
        "/drip" => Answer::Drip(Duration::from_millis(20)),
        _ => Answer::Close,
    });
    // A port that was free a moment ago, and that nobody listens on.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let slow = |name: &str, url: &str| forward(name, url, &attempts(1)) + "timeout_ms: 300\n";
    let site = Site::with_flows(&[
        &slow("hang", &sink.url("/hang")),
        &slow("drip", &sink.url("/drip")),
        &slow("close", &sink.url("/close")),
        &slow("nobody", &format!("http://{nobody}/")),
    ]);
    let server = site.serve();
    for name in ["hang", "drip", "close", "nobody"] {
        server.accept(name, "{}");
    }
    for letter in site.wait_for_dead_letters(4) {
        let error = letter["last_error"].as_str().unwrap();
        assert!(error.starts_with("step 'forward': effect handler failed: "), "{error}");
        assert!(error.contains("127.0.0.1:"), "{error}");
    }
}
