//! What a restart keeps: the schedule, the order, the ids, and the backlog itself.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::files::{reschedule, scheduled};
use crate::harness::{Server, Site, attempts, forward, len, wait_until};
use crate::sink::{Answer, Sink};

const HOUR_MS: u64 = 3_600_000;

fn now_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// A queue `forward` whose messages 1 to `count` have failed once, with retries in an hour; the
/// server is killed.
fn waiting_for_an_hour(count: usize) -> (Site, Sink) {
    let sink = Sink::always(503);
    let hours = format!("queue_initial_delay_ms: {HOUR_MS}\nqueue_max_delay_ms: {HOUR_MS}");
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), &hours)]);
    let server = site.serve();
    for n in 1..=count {
        server.accept("forward", &format!("{{\"n\":{n}}}"));
    }
    let retry = site.file("forward", "segment.log.retry");
    wait_until("the retries to be scheduled", || scheduled(&retry).len() == count);
    server.kill();
    sink.now(|_| Answer::status(200));
    (site, sink)
}

/// Waits until a server has looked at its queues more than once: another queue has delivered and
/// drained meanwhile.
fn let_it_look_around(server: &Server, site: &Site) {
    let sink = Sink::always(200);
    site.publish(&[&forward("other", &sink.url("/"), "")]);
    wait_until("the other flow", || server.enqueue("other", "{}").status == 202);
    sink.wait_for(1);
    site.wait_for_drain("other");
}

#[test]
fn a_pending_retry_is_due_at_the_same_instant_after_a_restart() {
    let (site, sink) = waiting_for_an_hour(3);
    let retry = site.file("forward", "segment.log.retry");
    let before = scheduled(&retry);
    for scheduled in &before {
        assert_eq!((scheduled.attempt, scheduled.delay), (2, HOUR_MS));
    }
    let server = site.serve();
    let_it_look_around(&server, &site);
    server.stop();
    let server = site.serve();
    let_it_look_around(&server, &site);
    assert_eq!(scheduled(&retry), before);
    assert_eq!(sink.count(), 3, "nothing is called before it is due");
}

#[test]
fn a_short_delay_that_began_before_a_kill_goes_on_after_it() {
    let sink = Sink::new(|call| Answer::status(if call.nth == 1 { 503 } else { 200 }));
    let delay = "queue_initial_delay_ms: 1500";
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), delay)]);
    let server = site.serve();
    server.accept("forward", "{}");
    server.wait_for_event("queue_retry");
    server.kill();
    let _server = site.serve();
    let calls = sink.wait_for(2);
    assert!((calls[1].at - calls[0].at).as_millis() >= 1500);
    assert_eq!(calls[1].header("attempt"), "2");
    assert_eq!(calls[1].header("idempotency-key"), calls[0].header("idempotency-key"));
}

#[test]
fn retries_that_came_due_while_nothing_ran_fire_at_once_and_oldest_first() {
    let (site, sink) = waiting_for_an_hour(4);
    let due = |id: u64| now_ms() - [4000, 1000, 3000, 2000][id as usize - 1];
    reschedule(&site.file("forward", "segment.log.retry"), |retry| retry.due = due(retry.id));
    let _server = site.serve();
    let calls = sink.wait_for(8);
    let ids: Vec<&str> = calls[4..].iter().map(|call| call.header("message-id")).collect();
    assert_eq!(ids, ["1", "3", "4", "2"]);
    assert!(calls[4..].iter().all(|call| call.header("attempt") == "2"));
    site.wait_for_drain("forward");
}

#[test]
fn a_due_time_further_ahead_than_its_own_delay_is_cut_to_that_delay() {
    let (site, sink) = waiting_for_an_hour(1);
    reschedule(&site.file("forward", "segment.log.retry"), |retry| {
        retry.due = now_ms() + 30 * 24 * HOUR_MS as i64;
        retry.delay = 100;
    });
    let _server = site.serve();
    sink.wait_for(2);
}

#[test]
fn first_deliveries_are_in_the_order_of_their_submission_also_across_a_kill() {
    let sink = Sink::new(|call| if call.nth <= 20 { Answer::status(200) } else { Answer::Hold });
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), "")]);
    let server = site.serve();
    let mut client = server.client();
    for n in 1..=60 {
        let response = client.enqueue("forward", &format!("{{\"n\":{n}}}")).unwrap();
        assert_eq!(response.status, 202);
    }
    sink.wait_for(21);
    server.kill();
    sink.now(|_| Answer::status(200));
    let _server = site.serve();
    site.wait_for_drain("forward");
    let mut numbers: Vec<u64> = sink.calls().iter().map(number).collect();
    assert_eq!(numbers[..20], (1..=20).collect::<Vec<_>>());
    // What was delivered just before the kill may come again; nothing overtakes.
    let again = numbers.split_off(21);
    assert_eq!(numbers[20], 21);
    assert!(again[0] <= 21, "{again:?}");
    assert_eq!(again, (again[0]..=60).collect::<Vec<_>>());
}

fn number(call: &crate::sink::Call) -> u64 {
    let body: serde_json::Value = serde_json::from_str(&call.body).unwrap();
    body["n"].as_u64().unwrap()
}

#[test]
fn ids_keep_counting_across_a_drain_and_a_kill() {
    let sink = Sink::always(200);
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), "")]);
    let mut server = site.serve();
    for _ in 0..10 {
        server.accept("forward", "{}");
    }
    site.wait_for_drain("forward");
    for next in 11..=13 {
        server.kill();
        if next == 13 {
            fs::remove_file(site.file("forward", "segment.log.seq")).unwrap();
        }
        server = site.serve();
        server.accept("forward", "{}");
        site.wait_for_drain("forward");
        let calls = sink.wait_for(next);
        assert_eq!(calls.len(), next, "nothing is delivered again after a drain");
        assert_eq!(calls[next - 1].header("message-id"), next.to_string());
    }
}

#[test]
fn no_id_of_a_dead_letter_is_given_again_though_every_counter_is_lost() {
    let sink = Sink::always(503);
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), &attempts(1))]);
    let server = site.serve();
    for _ in 0..7 {
        server.accept("forward", "{}");
    }
    site.wait_for_dead_letters(7);
    site.wait_for_drain("forward");
    server.kill();
    for lost in ["segment.log.seq", "segment.log.ckpt", "segment.log.retry", "segment.log"] {
        fs::remove_file(site.file("forward", lost)).unwrap();
    }
    let server = site.serve();
    server.accept("forward", "{}");
    let letters = site.wait_for_dead_letters(8);
    let ids: Vec<u64> = letters.iter().map(|letter| letter["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// Three queues `a`, `b`, `c` with so many messages each, the first of each in flight at its end.
fn backlog(count: usize) -> (Site, Sink) {
    let sink = Sink::new(|_| Answer::Hold);
    let flow = |name: &str| forward(name, &sink.url(&format!("/{name}")), "");
    let site = Site::with_flows(&[&flow("a"), &flow("b"), &flow("c")]);
    let server = site.serve();
    let mut client = server.client();
    for n in 0..count {
        for name in ["a", "b", "c"] {
            let response = client.enqueue(name, &format!("{{\"n\":{n}}}")).unwrap();
            assert_eq!(response.status, 202);
        }
    }
    sink.wait_for(3);
    server.kill();
    sink.now(|_| Answer::status(200));
    (site, sink)
}

#[test]
fn a_backlog_is_delivered_after_a_restart_without_a_submission() {
    let (site, sink) = backlog(20);
    let server = site.serve();
    sink.wait_for(3 + 60);
    for name in ["a", "b", "c"] {
        site.wait_for_drain(name);
    }
    assert_eq!(sink.count(), 63);
    assert_eq!(server.problems(), "");
}

#[test]
fn with_resume_on_submit_a_backlog_waits_for_a_submission_and_goes_first() {
    let (site, sink) = backlog(3);
    let server = site.serve_with(&["--resume", "on-submit"]);
    let_it_look_around(&server, &site);
    assert_eq!(sink.count(), 3);
    assert!(len(&site.file("a", "segment.log")) > 0);
    server.accept("a", r#"{"n":3}"#);
    let calls = sink.wait_for(3 + 4);
    let later: Vec<(&str, u64)> =
        calls[3..].iter().map(|call| (call.path.as_str(), number(call))).collect();
    assert_eq!(later, [("/a", 0), ("/a", 1), ("/a", 2), ("/a", 3)]);
}
