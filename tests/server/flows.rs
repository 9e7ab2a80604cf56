//! Flows as they run behind the queue: publishing, filters, rules, fault handlers, and what the
//! registry can do to a message.

use std::fs;

use rusqlite::Connection;

use crate::harness::{Server, Site, attempts, forward, len, wait_until};
use crate::sink::{Answer, Sink};

/// A flow of the tenant `acme` with these steps.
fn flow(name: &str, front_matter: &str, steps: &str) -> String {
    format!(
        "---\nflowmarkdown_version: \"0.1\"\nflow: {name}\ntenant: acme\n{front_matter}\n---\n\n\
         {steps}"
    )
}

fn serve(flows: &[&str]) -> (Site, Server) {
    let site = Site::with_flows(flows);
    let server = site.serve();
    (site, server)
}

const BUILD_TASK: &str = "\
## Step: build-task
```ntd
{ \"orderId\": \"{{ $.orderId }}\", \"requestedBy\": \"{{ ctx.correlation_id }}\" }
```

## Step: hand-off
effects: [queue_publish]
queue: order-fulfilment
";

#[test]
fn a_flow_publishes_its_previous_steps_output_to_another_queue_in_the_same_trace() {
    let sink = Sink::always(200);
    let front_matter = format!("effects: [queue_publish]\n{}", attempts(1));
    let (site, server) = serve(&[
        &flow("build-task", &front_matter, BUILD_TASK),
        &forward("order-fulfilment", &sink.url("/"), ""),
    ]);
    let path = "/flows/acme/build-task/enqueue";
    let response =
        server.request("POST", path, &["X-Correlation-ID: trace-1"], r#"{"orderId":"A-1"}"#);
    assert_eq!(response.status, 202);
    let call = sink.wait_for(1).remove(0);
    let document: serde_json::Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!(document, serde_json::json!({"orderId": "A-1", "requestedBy": "trace-1"}));
    assert_eq!(call.header("idempotency-key"), "trace-1");
    assert_eq!(call.header("message-key"), "acme/order-fulfilment/1");
    site.wait_for_drain("build-task");
    site.wait_for_drain("order-fulfilment");
    assert_eq!(sink.count(), 1);
}

#[test]
fn publishing_to_a_flow_that_is_not_there_fails_the_step_before_anything_is_written() {
    let front_matter = format!("effects: [queue_publish]\n{}", attempts(2));
    let (site, server) = serve(&[&flow("build-task", &front_matter, BUILD_TASK)]);
    server.accept("build-task", r#"{"orderId":"A-1"}"#);
    let letter = site.wait_for_dead_letters(1).remove(0);
    let error = letter["last_error"].as_str().unwrap();
    assert!(error.starts_with("step 'hand-off': "), "{error}");
    assert!(error.contains("order-fulfilment"), "{error}");
    assert!(!site.queue("order-fulfilment").exists());
}

#[test]
fn publishing_is_refused_above_the_servers_ceiling_whatever_the_flow_allows() {
    let front_matter = format!("effects: [queue_publish]\n{}", attempts(1));
    for own in ["", "max_message_bytes: 5000"] {
        let site = Site::with_flows(&[
            &flow("build-task", &front_matter, BUILD_TASK),
            &forward("order-fulfilment", "http://127.0.0.1:1/", own),
        ]);
        let server = site.serve_with(&["--max-message-bytes", "100"]);
        server.accept("build-task", &format!("{{\"orderId\":\"{}\"}}", "A".repeat(80)));
        let letter = site.wait_for_dead_letters(1).remove(0);
        let error = letter["last_error"].as_str().unwrap();
        assert!(error.contains("its ceiling is 100 (max_message_bytes)"), "{error}");
        assert_eq!(len(&site.file("order-fulfilment", "segment.log")), 0);
        let response = server.enqueue("order-fulfilment", &" ".repeat(101));
        assert_eq!(response.status, 413, "{response:?}");
    }
}

#[test]
fn publishing_is_refused_without_a_place_for_the_target_queue() {
    let sink = Sink::always(200);
    let front_matter = format!("effects: [queue_publish]\n{}", attempts(1));
    let site = Site::with_flows(&[
        &flow("build-task", &front_matter, BUILD_TASK),
        &forward("order-fulfilment", &sink.url("/"), ""),
    ]);
    let server = site.serve_with(&["--max-queues", "1"]);
    server.accept("build-task", r#"{"orderId":"A-1"}"#);
    let letter = site.wait_for_dead_letters(1).remove(0);
    let error = letter["last_error"].as_str().unwrap();
    assert!(error.starts_with("step 'hand-off': ") && error.contains("--max-queues"), "{error}");
    assert_eq!(len(&site.file("order-fulfilment", "segment.log")), 0);
    let response = server.enqueue("order-fulfilment", "{}");
    assert_eq!((response.status, response.header("retry-after")), (503, "1"), "{response:?}");
    assert!(response.error().contains("--max-queues"), "{response:?}");
}

#[test]
fn a_condition_that_is_false_drops_the_message_without_a_retry_or_a_dead_letter() {
    let sink = Sink::always(200);
    let steps = format!(
        "## Step: big\n```condition\n$.total >= 100\n```\n\n\
         ## Step: forward\neffects: [http_egress]\nendpoint: {}\n",
        sink.url("/")
    );
    let (site, server) = serve(&[&flow("big", "effects: [http_egress]", &steps)]);
    for total in [99, 100, 1, 250] {
        server.accept("big", &format!("{{\"total\":{total}}}"));
    }
    site.wait_for_drain("big");
    assert_eq!(sink.bodies(), [r#"{"total":100}"#, r#"{"total":250}"#]);
    wait_until("the events", || server.events("queue_filtered").len() == 2);
    assert_eq!(site.done(&["dlq", "list"]), "DLQ is empty\n");
    assert!(server.events("queue_retry").is_empty());
}

#[test]
fn a_message_is_delivered_only_when_the_backend_says_so() {
    let sink = Sink::new(|call| {
        let accepted = call.body.contains("good") && call.nth == 3;
        let status = if accepted { "ACCEPTED" } else { "REJECTED" };
        Answer::Status(200, format!("{{\"status\":\"{status}\"}}"))
    });
    let steps = format!(
        "## Step: forward\neffects: [http_egress]\nendpoint: {}\n\n\
         ## Step: accepted-means-accepted\n```validate\n$.status == \"ACCEPTED\" \
         | \"backend did not accept the message\"\n```\n",
        sink.url("/")
    );
    let front_matter = format!("effects: [http_egress]\n{}", attempts(3));
    let (site, server) = serve(&[&flow("orders", &front_matter, &steps)]);
    server.accept("orders", r#"{"order":"good"}"#);
    site.wait_for_drain("orders");
    assert_eq!(sink.count(), 3);
    server.accept("orders", r#"{"order":"bad"}"#);
    let letter = site.wait_for_dead_letters(1).remove(0);
    assert_eq!(
        (&letter["id"], letter["last_error"].as_str().unwrap()),
        (
            &2.into(),
            "step 'accepted-means-accepted': validation failed (Semantic): \
             backend did not accept the message"
        )
    );
    assert_eq!(sink.count(), 6);
}

fn with_fault(forward: &str, notify: &str) -> String {
    let steps = format!(
        "## Step: forward\neffects: [http_egress]\nendpoint: {forward}\n\n\
         ## Fault: notify\n```ntd\n\
         {{\"lost\": \"{{{{ $.id }}}}\", \"why\": \"{{{{ ctx.error.message }}}}\"}}\n```\n\n\
         ## Fault: send\neffects: [http_egress]\nendpoint: {notify}\n"
    );
    flow("orders", &format!("effects: [http_egress]\n{}", attempts(3)), &steps)
}

#[test]
fn a_fault_handler_that_succeeds_lets_the_message_go() {
    let sink = Sink::new(|call| Answer::status(if call.path == "/notify" { 200 } else { 503 }));
    let (site, server) = serve(&[&with_fault(&sink.url("/ingest"), &sink.url("/notify"))]);
    server.accept("orders", r#"{"id":"A-1"}"#);
    site.wait_for_drain("orders");
    let calls = sink.calls();
    let paths: Vec<&str> = calls.iter().map(|call| call.path.as_str()).collect();
    assert_eq!(paths, ["/ingest", "/notify"]);
    assert!(calls[1].body.contains("A-1") && calls[1].body.contains("503"), "{}", calls[1].body);
    assert_eq!(server.wait_for_event("queue_processed")["outcome"], "fault_handled");
    assert_eq!(site.done(&["dlq", "list"]), "DLQ is empty\n");
}

#[test]
fn a_fault_handler_that_fails_leaves_the_delivery_failed() {
    let sink = Sink::always(503);
    let (site, server) = serve(&[&with_fault(&sink.url("/ingest"), &sink.url("/notify"))]);
    server.accept("orders", r#"{"id":"A-1"}"#);
    let letter = site.wait_for_dead_letters(1).remove(0);
    assert_eq!((&letter["attempts"], sink.count()), (&3.into(), 6));
    let error = letter["last_error"].as_str().unwrap();
    assert!(error.contains("step 'send'") && error.contains("step 'forward'"), "{error}");
}

#[test]
fn xml_is_flattened_and_json_arrives_byte_for_byte() {
    let sink = Sink::always(200);
    let (_site, server) = serve(&[&forward("forward", &sink.url("/"), "")]);
    let path = "/flows/acme/forward/enqueue";
    let xml = "<order><id>A-1</id></order>";
    assert_eq!(server.request("POST", path, &["Content-Type: application/xml"], xml).status, 202);
    let json = r#"{ "b":1E400, "a" : -0, "n":0.1000, "big":12345678901234567890, "e":"\u00e9" }"#;
    server.accept("forward", json);
    sink.wait_for(2);
    assert_eq!(sink.bodies(), [r#"{"id":"A-1"}"#, json]);
}

#[test]
fn the_answer_is_the_documents_and_its_offset_is_where_the_message_lies() {
    let sink = Sink::new(|_| Answer::Hold);
    let (site, server) = serve(&[&forward("forward", &sink.url("/"), "")]);
    let first = server.enqueue("forward", "{}");
    assert_eq!(first.header("content-type"), "application/json");
    assert_eq!(first.body, r#"{"queued":true,"offset":0,"tenant":"acme","flow":"forward"}"#);
    let end = len(&site.file("forward", "segment.log"));
    let second = server.enqueue("forward", "{}");
    assert_eq!(second.json()["offset"], end);
}

/// A queue whose first message is held by the sink, with `count` more behind it.
fn held(count: usize) -> (Site, Server, Sink) {
    let sink = Sink::new(|call| match call.nth {
        1 => Answer::Hold,
        _ => Answer::status(200),
    });
    let (site, server) = serve(&[&forward("forward", &sink.url("/v1"), &attempts(2))]);
    server.accept("forward", "0");
    sink.wait_for(1);
    for n in 1..=count {
        server.accept("forward", &n.to_string());
    }
    (site, server, sink)
}

fn registry(site: &Site) -> Connection {
    Connection::open(site.registry()).unwrap()
}

#[test]
fn a_message_is_run_by_the_version_that_is_live_when_its_turn_comes() {
    let (site, _server, sink) = held(1);
    site.publish(&[&forward("forward", &sink.url("/v2"), "")]);
    sink.release();
    let calls = sink.wait_for(2);
    assert_eq!((calls[0].path.as_str(), calls[1].path.as_str()), ("/v1", "/v2"));
}

#[test]
fn messages_of_a_flow_that_left_the_registry_are_dropped_with_an_error_in_the_log() {
    let (site, server, sink) = held(3);
    registry(&site).execute("DELETE FROM flows", []).unwrap();
    sink.release();
    site.wait_for_drain("forward");
    wait_until("the events", || !server.events("queue_dropped").is_empty());
    assert_eq!(server.events("queue_dropped")[0]["level"], "error");
    assert_eq!(sink.count(), 1);
    assert_eq!(site.done(&["dlq", "list"]), "DLQ is empty\n");
}

#[test]
fn a_corrupt_artifact_dead_letters_at_the_first_attempt() {
    let (site, server, sink) = held(2);
    let registry = registry(&site);
    let artifact: Vec<u8> =
        registry.query_row("SELECT artifact FROM flows", [], |row| row.get(0)).unwrap();
    for at in [0, artifact.len() / 2, artifact.len() - 1] {
        let mut damaged = artifact.clone();
        damaged[at] ^= 1;
        registry.execute("UPDATE flows SET artifact = ?1", [damaged]).unwrap();
        sink.release();
        let letters = site.wait_for_dead_letters(if at == 0 { 2 } else { 1 });
        for letter in letters {
            assert_eq!(
                (&letter["reason"], &letter["attempts"]),
                (&"corrupt_artifact".into(), &1.into())
            );
            let id = letter["id"].as_u64().unwrap();
            crate::harness::done(site.handle("discard", "forward", id));
        }
        server.accept("forward", "{}");
    }
    site.wait_for_dead_letters(1);
    assert_eq!(sink.count(), 1);
    registry.execute("UPDATE flows SET artifact = ?1", [artifact]).unwrap();
    server.accept("forward", "{}");
    sink.wait_for(2);
}

/// Takes the registry away while messages wait, and puts it back.
fn without_a_registry(break_it: impl Fn(&Site)) {
    let (site, server, sink) = held(3);
    let kept = site.root().join("kept.db");
    fs::copy(site.registry(), &kept).unwrap();
    break_it(&site);
    sink.release();
    server.wait_for_event("registry_unavailable");
    wait_until("the server to be not ready", || server.problems().contains("registry"));
    wait_until("the door to refuse", || server.enqueue("forward", "9").status == 503);
    assert_eq!(sink.count(), 1);
    for file in ["registry.db-wal", "registry.db-shm"] {
        let _ = fs::remove_file(site.state().join(file));
    }
    fs::rename(&kept, site.registry()).unwrap();
    let calls = sink.wait_for(4);
    // Behind them may come some that the door accepted before it had noticed.
    for (n, call) in calls[..4].iter().enumerate() {
        assert_eq!((call.body.as_str(), call.header("attempt")), (n.to_string().as_str(), "1"));
    }
    wait_until("the server to be ready", || server.problems().is_empty());
    server.accept("forward", "4");
    site.wait_for_drain("forward");
    assert_eq!(sink.bodies().last().unwrap(), "4");
    assert!(sink.calls().iter().all(|call| call.header("attempt") == "1"));
    assert_eq!(site.done(&["dlq", "list"]), "DLQ is empty\n");
}

#[test]
fn a_registry_that_is_gone_for_a_while_loses_nothing_and_charges_nothing() {
    without_a_registry(|site| {
        registry(site).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        fs::rename(site.registry(), site.root().join("away.db")).unwrap();
    });
}

#[test]
fn a_registry_that_is_garbage_for_a_while_loses_nothing_and_charges_nothing() {
    without_a_registry(|site| {
        let garbage = site.root().join("garbage");
        fs::write(&garbage, "no database\n".repeat(4096)).unwrap();
        fs::rename(garbage, site.registry()).unwrap();
    });
}
