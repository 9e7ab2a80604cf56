//! Attempts, delays, the dead letter at their end, and what a person does with it.

use std::time::Duration;

use crate::harness::{Server, Site, attempts, done, forward, len, wait_until};
use crate::sink::{Answer, Call, Sink};

/// A site with one flow `forward` to a sink that refuses every call, and a server on it.
fn refusing(front_matter: &str) -> (Site, Sink, Server) {
    let sink = Sink::always(503);
    let site = Site::with_flows(&[&forward("forward", &sink.url("/ingest"), front_matter)]);
    let server = site.serve();
    (site, sink, server)
}

fn gaps(calls: &[Call]) -> Vec<Duration> {
    calls.windows(2).map(|two| two[1].at - two[0].at).collect()
}

#[track_caller]
fn assert_gaps(calls: &[Call], at_least_ms: &[u64]) {
    let gaps = gaps(calls);
    assert_eq!(gaps.len(), at_least_ms.len(), "{gaps:?}");
    for (gap, least) in gaps.iter().zip(at_least_ms) {
        // The sink's clock starts when a call has been read, the delay when its failure is settled.
        assert!(gap.as_millis() as u64 >= *least, "{gaps:?}, and not at least {at_least_ms:?}");
    }
}

#[test]
fn the_worked_example_makes_five_calls_with_four_growing_delays() {
    let (site, sink, server) = refusing(
        "queue_max_attempts: 5\nqueue_initial_delay_ms: 50\nqueue_backoff_factor: 3.0\n\
         queue_max_delay_ms: 1000",
    );
    server.accept("forward", r#"{"orderId":"A-1"}"#);
    site.wait_for_dead_letters(1);
    let calls = sink.calls();
    assert_eq!(calls.len(), 5);
    assert_gaps(&calls, &[50, 150, 450, 1000]);
    for (attempt, call) in (1..).zip(&calls) {
        assert_eq!(call.header("attempt"), attempt.to_string());
        assert_eq!(call.body, r#"{"orderId":"A-1"}"#);
        assert_eq!(call.path, "/ingest");
        for same in ["idempotency-key", "x-correlation-id", "message-key", "message-id"] {
            assert_eq!(call.header(same), calls[0].header(same), "{same}");
        }
    }
    site.wait_for_drain("forward");
    assert_eq!(sink.count(), 5, "a drained queue calls nobody");
}

#[test]
fn an_attempt_count_is_the_number_of_calls() {
    let sink = Sink::always(503);
    let flow = |count: u32| {
        forward(&format!("f{count}"), &sink.url(&format!("/{count}")), &attempts(count))
    };
    let site = Site::with_flows(&[&flow(1), &flow(2), &flow(5)]);
    let server = site.serve();
    for count in [1, 2, 5] {
        server.accept(&format!("f{count}"), "{}");
    }
    let letters = site.wait_for_dead_letters(3);
    for count in [1, 2, 5] {
        let path = format!("/{count}");
        let calls = sink.calls().iter().filter(|call| call.path == path).count();
        assert_eq!(calls, count, "{path}");
        let letter = letters.iter().find(|letter| letter["flow"] == format!("f{count}")).unwrap();
        assert_eq!(letter["attempts"], count);
        assert_eq!(letter["reason"], "max_attempts_exceeded");
    }
}

#[test]
fn the_defaults_are_three_attempts_after_one_and_two_seconds() {
    let (site, sink, server) = refusing("");
    server.accept("forward", "{}");
    let letters = site.wait_for_dead_letters(1);
    assert_eq!(letters[0]["attempts"], 3);
    assert_gaps(&sink.calls(), &[1000, 2000]);
}

#[test]
fn the_first_delay_is_capped_too() {
    let (site, sink, server) =
        refusing("queue_max_attempts: 2\nqueue_initial_delay_ms: 3600000\nqueue_max_delay_ms: 20");
    server.accept("forward", "{}");
    site.wait_for_dead_letters(1);
    assert_gaps(&sink.calls(), &[20]);
}

#[test]
fn a_correlation_id_that_was_given_travels_with_every_attempt() {
    let (site, sink, server) = refusing(&attempts(2));
    let path = "/flows/acme/forward/enqueue";
    let response = server.request("POST", path, &["X-Request-ID: from-the-caller"], "{}");
    assert_eq!((response.status, response.header("x-correlation-id")), (202, "from-the-caller"));
    site.wait_for_dead_letters(1);
    for call in sink.calls() {
        assert_eq!(call.header("idempotency-key"), "from-the-caller");
        assert_eq!(call.header("x-correlation-id"), "from-the-caller");
    }
}

#[test]
fn a_message_that_succeeds_at_the_third_attempt_is_delivered_and_not_dead_lettered() {
    let sink = Sink::new(|call| Answer::status(if call.nth < 3 { 503 } else { 200 }));
    let site = Site::with_flows(&[&forward("forward", &sink.url("/"), &attempts(5))]);
    let server = site.serve();
    server.accept("forward", "{}");
    site.wait_for_drain("forward");
    assert_eq!(sink.count(), 3);
    assert_eq!(site.done(&["dlq", "list"]), "DLQ is empty\n");
    assert_eq!(server.wait_for_event("queue_processed")["outcome"], "succeeded");
}

#[test]
fn a_dead_letter_is_listed_as_the_document_shows() {
    let (site, _sink, server) = refusing(&attempts(3));
    server.accept("forward", r#"{"total":42}"#);
    let letter = site.wait_for_dead_letters(1).remove(0);
    let second = |name: &str| format!("{}Z", &letter[name].as_str().unwrap()[..19]);
    let expected = format!(
        "DLQ: 1 pending message(s)\n\n  id=1 tenant=acme flow=forward\n    \
         enqueued_at: {}\n    failed_at:   {}\n    attempts:    3\n    \
         last_error:  step 'forward': effect handler failed: HTTP 503 Service Unavailable\n",
        second("enqueued_at"),
        second("failed_at"),
    );
    assert_eq!(site.done(&["dlq", "list"]), expected);
    assert_eq!(letter["message_key"], "acme/forward/1");
    let moved = server.wait_for_event("dlq_moved");
    assert!(moved["correlation_id"].as_str().is_some_and(|id| id.len() == 36), "{moved}");
}

#[test]
fn a_replay_is_a_new_message_with_the_old_message_key() {
    let (site, sink, server) = refusing(&attempts(2));
    server.accept("forward", r#"{"n":1}"#);
    site.wait_for_dead_letters(1);
    sink.now(|_| Answer::status(200));
    let replayed = "replayed  id=1 tenant=acme flow=forward\n";
    assert_eq!(done(site.handle("replay", "forward", 1)), replayed);
    assert_eq!(site.done(&["dlq", "list"]), "DLQ is empty\n");
    let calls = sink.wait_for(3);
    assert_eq!(calls[2].body, r#"{"n":1}"#);
    assert_eq!((calls[2].header("attempt"), calls[2].header("message-id")), ("1", "2"));
    assert_ne!(calls[2].header("idempotency-key"), calls[0].header("idempotency-key"));
    assert_eq!(calls[2].header("message-key"), "acme/forward/1");
    assert_eq!(calls[0].header("message-key"), "acme/forward/1");
    site.wait_for_drain("forward");
    wait_until("the entry to leave the disk", || len(&site.file("forward", "dlq.log")) == 0);
    assert_eq!(sink.count(), 3);
}

#[test]
fn a_replay_has_the_full_budget_and_its_dead_letter_an_id_of_its_own() {
    let (site, sink, server) = refusing(&attempts(2));
    server.accept("forward", "{}");
    site.wait_for_dead_letters(1);
    done(site.handle("replay", "forward", 1));
    let letter = site.wait_for_dead_letters(1).remove(0);
    assert_eq!((&letter["id"], &letter["attempts"]), (&2.into(), &2.into()));
    assert_eq!((&letter["message_key"], &letter["replays"]), (&"acme/forward/1".into(), &1.into()));
    assert_eq!(sink.count(), 4);
}

#[test]
fn a_discarded_body_is_gone_from_the_whole_state_directory_after_the_drain() {
    let (site, sink, server) = refusing(&attempts(1));
    server.accept("forward", r#"{"secret":"correct-horse-battery"}"#);
    server.accept("forward", r#"{"other":"stays"}"#);
    site.wait_for_dead_letters(2);
    let discarded = "discarded id=1 tenant=acme flow=forward\n  \
                     the body leaves the disk at this flow's next queue drain; \
                     until then it is only hidden from listings\n";
    assert_eq!(done(site.handle("discard", "forward", 1)), discarded);
    let left = site.dead_letters();
    assert_eq!((left.len(), &left[0]["id"]), (1, &2.into()));
    wait_until("the body to leave the disk", || site.holding("correct-horse-battery").is_empty());
    assert_eq!(site.holding("stays"), [site.file("forward", "dlq.log")]);
    assert_eq!(sink.count(), 2, "nothing was run again");
}

#[test]
fn a_discard_without_a_server_takes_effect_at_the_next_start_without_a_submission() {
    let (site, sink, server) = refusing(&attempts(1));
    server.accept("forward", r#"{"secret":"correct-horse-battery"}"#);
    site.wait_for_dead_letters(1);
    server.stop();
    done(site.handle("discard", "forward", 1));
    assert!(!site.holding("correct-horse-battery").is_empty(), "nobody was there to do it");
    let _server = site.serve();
    wait_until("the body to leave the disk", || site.holding("correct-horse-battery").is_empty());
    assert_eq!(sink.count(), 1);
}
