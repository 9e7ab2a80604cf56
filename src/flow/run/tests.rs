//! Runs of whole flows, with a downstream on loopback and queues that only remember.

use std::sync::Mutex;

use super::*;
use crate::base::random::SeededRandom;
use crate::base::time::{Clock, SystemClock};
use crate::base::{CorrelationId, MessageId, QueueName};
use crate::flow::compile::compile;
use crate::flow::effect::downstream::{Downstream, answer, closed_port, json};
use crate::flow::effect::{HttpEgress, Publish, PublishError};
use crate::flow::outcome::{DeliveryContext, Failure};
use proptest::prelude::*;

/// Queues that remember what they were given; the one named `full` refuses.
#[derive(Default)]
struct Queues(Mutex<Vec<(String, String, String)>>);

impl Publish for Queues {
    fn publish(
        &self,
        target: &Name,
        payload: &[u8],
        correlation_id: &CorrelationId,
    ) -> Result<(), PublishError> {
        if target.as_str() == "full" {
            return Err(PublishError("no worker can be started for queue acme/full".to_owned()));
        }
        let payload = String::from_utf8(payload.to_vec()).unwrap();
        let entry = (target.to_string(), payload, correlation_id.to_string());
        self.0.lock().unwrap().push(entry);
        Ok(())
    }
}

/// A clock on which a second passes with every look at it.
struct Hasty(Mutex<u64>);

impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0)
    }
    fn boot(&self) -> Duration {
        let mut seconds = self.0.lock().unwrap();
        *seconds += 1;
        Duration::from_secs(*seconds)
    }
}

fn context() -> Context {
    Context {
        queue: QueueName::parse("acme", "x").unwrap(),
        version: 3,
        correlation_id: CorrelationId::parse(b"trace-1").unwrap(),
        delivery: Some(DeliveryContext {
            attempt: 2,
            message_id: MessageId::new(9).unwrap(),
            first_id: MessageId::new(7).unwrap(),
            enqueued_at: Timestamp::from_millis(1_786_284_131_250),
        }),
    }
}

fn flow(front: &str, body: &str) -> Flow {
    let source =
        format!("---\nflowmarkdown_version: \"0.1\"\ntenant: acme\nflow: x\n{front}\n---\n{body}");
    let compilation = compile(&source);
    compilation.flow.unwrap_or_else(|| panic!("{:?}", compilation.problems))
}

fn run_with(flow: &Flow, message: &str, queues: &Queues, clock: &dyn Clock) -> Outcome {
    let egress = HttpEgress::new();
    let random = SeededRandom::new(1);
    let effects = Effects { egress: &egress, publish: queues, clock, random: &random };
    flow.run(message.as_bytes(), &context(), &effects)
}

pub(crate) fn run(flow: &Flow, message: &str) -> Outcome {
    run_with(flow, message, &Queues::default(), &SystemClock)
}

#[track_caller]
fn succeeded(outcome: Outcome) -> String {
    match outcome {
        Outcome::Succeeded(document) => String::from_utf8(document).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn failed(outcome: Outcome) -> Failure {
    match outcome {
        Outcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

const EGRESS: &str = "effects: [http_egress]";

fn forward(downstream: &Downstream, rest: &str) -> Flow {
    let url = downstream.url("/ingest");
    flow(EGRESS, &format!("## Step: forward\n{EGRESS}\nendpoint: {url}\n{rest}"))
}

#[test]
fn the_message_is_sent_byte_for_byte_with_its_correlation_id() {
    let downstream = Downstream::new([&json("{\"status\":\"ACCEPTED\"}")[..]]);
    let flow = forward(&downstream, "headers: {\"Idempotency-Key\": \"{{ ctx.message_key }}\"}\n");
    let message =
        "{ \"big\": 9007199254740993, \"c\":0.1000, \"d\":1E400, \"e\":-0, \"m\":\"\\/ \\u00e9\" }";
    assert_eq!(succeeded(run(&flow, message)), "{\"status\":\"ACCEPTED\"}");
    let sent = downstream.request();
    assert!(sent.ends_with(&format!("\r\n\r\n{message}")), "{sent}");
    let lower = sent.to_lowercase();
    for header in
        ["x-correlation-id: trace-1", "content-type: application/json", "idempotency-key: acme/x/7"]
    {
        assert!(lower.contains(&format!("{header}\r\n")), "{header}: {sent}");
    }
}

#[test]
fn a_refused_call_fails_with_the_text_of_the_document() {
    let downstream = Downstream::new([&answer("503 x", &["Retry-After: 7"], "secret")[..]]);
    let failure = failed(run(&forward(&downstream, ""), "{}"));
    let expected = Failure {
        error: "step 'forward': effect handler failed: HTTP 503 Service Unavailable".to_owned(),
        kind: FailureKind::Effect,
        non_retryable: false,
        retry_after: None,
    };
    assert_eq!(failure, expected);
}

#[test]
fn the_front_matter_says_what_is_not_retried_and_whether_retry_after_counts() {
    let front = "effects: [http_egress]\nqueue_non_retryable: [\"4xx\"]\nqueue_honor_retry_after: \
     true\nqueue_max_delay_ms: 9000";
    let after = |status: &str, header: &str| {
        let downstream = Downstream::new([&answer(status, &[header], "")[..]]);
        let url = downstream.url("/");
        let flow = flow(front, &format!("## Step: a\n{EGRESS}\nendpoint: {url}\n"));
        let failure = failed(run(&flow, "{}"));
        (failure.non_retryable, failure.retry_after)
    };
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(after("404 x", "X: y"), (true, None));
    assert_eq!(after("503 x", "Retry-After: 7"), (false, seconds(7)));
    assert_eq!(after("429 x", "Retry-After: 3600"), (true, seconds(9)));
    assert_eq!(after("503 x", "Retry-After: 4294967296"), (false, seconds(9)));
    assert_eq!(after("503 x", "Retry-After: 99999999999999999999"), (false, seconds(9)));
    assert_eq!(after("503 x", "Retry-After: -7"), (false, None));
    assert_eq!(after("500 x", "Retry-After: 7"), (false, None));
    assert_eq!(after("503 x", "Retry-After: soon"), (false, None));
    assert_eq!(after("503 x", "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT"), (false, seconds(0)));
}

#[test]
fn an_answer_is_the_current_document_of_what_follows() {
    let rule = "\n## Step: accepted-means-accepted\n```validate\n\
                $.status == \"ACCEPTED\" | \"backend did not accept the message\"\n```\n";
    let downstream = Downstream::new([
        &json("{\"status\":\"ACCEPTED\"}")[..],
        &json("{\"status\":\"REJECTED\"}"),
    ]);
    let flow = forward(&downstream, rule);
    succeeded(run(&flow, "{}"));
    let failure = failed(run(&flow, "{}"));
    assert_eq!(
        failure.error,
        "step 'accepted-means-accepted': validation failed (Semantic): backend did not accept the \
         message"
    );
    assert_eq!(failure.kind, FailureKind::Validation);
}

#[test]
fn all_rules_are_told_and_one_that_cannot_be_evaluated_is_structural() {
    let flow = flow(
        "",
        "## Step: check\n```validate\n# both\n$.total > 0 | \"total must be positive\"\n\
         $.id != \"\" | \"id is empty\"\n```\n",
    );
    assert_eq!(succeeded(run(&flow, "{\"total\":1,\"id\":\"a\"}")), "{\"total\":1,\"id\":\"a\"}");
    let error = |message: &str| failed(run(&flow, message)).error;
    assert_eq!(
        error("{\"total\":0,\"id\":\"a\"}"),
        "step 'check': validation failed (Semantic): total must be positive"
    );
    assert_eq!(
        error("{\"total\":0,\"id\":\"\"}"),
        "step 'check': validation failed (Semantic): total must be positive; id is empty"
    );
    assert_eq!(
        error("{\"total\":\"secret\",\"id\":\"\"}"),
        "step 'check': validation failed (Structural): $.total > 0: a text and a number have no \
         order"
    );
}

#[test]
fn a_condition_that_is_false_filters() {
    let flow =
        flow("", "## Step: big\n```condition\n$.total >= 100\n```\n```ntd\n{\"big\": true}\n```\n");
    assert!(matches!(run(&flow, "{\"total\":99.99}"), Outcome::Filtered));
    assert_eq!(succeeded(run(&flow, "{\"total\":100}")), "{\"big\":true}");
    let failure = failed(run(&flow, "{}"));
    assert_eq!(
        failure.error,
        "step 'big': the condition cannot be evaluated: null and a number have no order"
    );
    assert_eq!(failure.kind, FailureKind::Other);
}

#[test]
fn a_document_is_built_from_the_message_the_context_and_earlier_steps() {
    let flow = flow(
        "",
        "## Step: first\n```ntd\n{ \"n\": {{ $.n }}, \"was\": \"{{ $.n }}\" }\n```\n\
         ## Step: second\n```ntd\n[{{ $.n }}, {{ input.n }}, {{ steps.first.was }}, \"{{ \
         ctx.tenant }}/{{ ctx.flow }}\", \
         {{ ctx.version }}, \"{{ ctx.step }}\", {{ ctx.attempt }}, {{ ctx.message_id }}, \"{{ \
         ctx.enqueued_at }}\"]\n```\n",
    );
    assert_eq!(
        succeeded(run(&flow, "{\"n\":1.10}")),
        "[1.10,1.10,\"1.10\",\"acme/x\",3,\"second\",2,9,\"2026-08-09T14:02:11.250Z\"]"
    );
}

#[test]
fn on_run_what_is_of_a_delivery_is_null() {
    let flow = flow(
        "",
        "## Step: a\n```ntd\n[{{ ctx.attempt }}, {{ ctx.message_id }}, {{ ctx.message_key }}, {{ \
         ctx.enqueued_at }}]\n```\n",
    );
    let queues = Queues::default();
    let egress = HttpEgress::new();
    let random = SeededRandom::new(1);
    let effects =
        Effects { egress: &egress, publish: &queues, clock: &SystemClock, random: &random };
    let outcome = flow.run(b"{}", &Context { delivery: None, ..context() }, &effects);
    assert_eq!(succeeded(outcome), "[null,null,null,null]");
}

#[test]
fn what_the_step_before_left_is_published_with_the_same_correlation_id() {
    let front = "effects: [queue_publish]";
    let body = "## Step: build\n```ntd\n{ \"orderId\": \"{{ $.orderId }}\" }\n```\n\
                ## Step: hand-off\neffects: [queue_publish]\nqueue: TARGET\n";
    let queues = Queues::default();
    let ready = flow(front, &body.replace("TARGET", "order-fulfilment"));
    succeeded(run_with(&ready, "{\"orderId\":\"A-1\"}", &queues, &SystemClock));
    let expected = ("order-fulfilment", "{\"orderId\":\"A-1\"}", "trace-1");
    let published = queues.0.lock().unwrap().clone();
    assert_eq!(published.len(), 1);
    let (target, payload, id) = &published[0];
    assert_eq!((target.as_str(), payload.as_str(), id.as_str()), expected);
    let full = flow(front, &body.replace("TARGET", "full"));
    let failure = failed(run(&full, "{\"orderId\":\"A-1\"}"));
    assert_eq!(
        failure.error,
        "step 'hand-off': effect handler failed: no worker can be started for queue acme/full"
    );
}

#[test]
fn xml_is_read_by_the_same_paths_and_cannot_be_published_until_it_is_rebuilt() {
    let xml = answer("200 OK", &["Content-Type: application/xml"], "<o><id>007</id></o>");
    let front = "effects: [http_egress, queue_publish]";
    let publish = "## Step: hand-off\neffects: [queue_publish]\nqueue: target\n";
    let downstream = Downstream::new([&xml[..], &xml]);
    let call = format!(
        "## Step: fetch\n{EGRESS}\nendpoint: {}\nmethod: GET\n\n```validate\n$.id == \"007\" | \
         \"id\"\n```\n",
        downstream.url("/")
    );
    let failure = failed(run(&flow(front, &format!("{call}{publish}")), "{}"));
    assert_eq!(
        failure.error,
        "step 'hand-off': the document is XML and the queue of 'target' stores JSON; build the \
         message with an ntd first"
    );
    let ntd = "```ntd\n{{ $ }}\n```\n";
    assert_eq!(
        succeeded(run(&flow(front, &format!("{call}\n{ntd}{publish}")), "{}")),
        "{\"id\":\"007\"}"
    );
    let sent = downstream.request();
    assert!(sent.starts_with("GET / ") && sent.ends_with("\r\n\r\n"), "no body: {sent}");
    let only = flow("effects: [queue_publish]", publish);
    let queues = Queues::default();
    let egress = HttpEgress::new();
    let random = SeededRandom::new(1);
    let effects =
        Effects { egress: &egress, publish: &queues, clock: &SystemClock, random: &random };
    assert!(matches!(only.run_xml(b"{}", &context(), &effects), Outcome::Failed(_)));
    assert!(matches!(only.run(b"{}", &context(), &effects), Outcome::Succeeded(_)));
}

#[test]
fn a_fault_handler_answers_with_the_error_at_hand() {
    let handler = "\n## Fault:\n```ntd\n{ \"step\": \"{{ ctx.error.step }}\", \"why\": \"{{ \
     ctx.error.message }}\", \
                   \"status\": {{ ctx.error.status }}, \"id\": \"{{ $.id }}\" }\n```\n";
    let downstream = Downstream::new([&answer("500 x", &[], "")[..]]);
    match run(&forward(&downstream, handler), "{\"id\":\"A-1\"}") {
        Outcome::FaultHandled(document) => assert_eq!(
            String::from_utf8(document).unwrap(),
            "{\"step\":\"forward\",\"why\":\"effect handler failed: HTTP 500 Internal Server \
             Error\",\
             \"status\":500,\"id\":\"A-1\"}"
        ),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_fault_handler_that_fails_leaves_the_delivery_failed_with_both_errors() {
    let handler = "\n## Fault: notify\n```validate\nfalse | \"stays failed\"\n```\n";
    let downstream = Downstream::new([&answer("404 x", &[], "")[..]]);
    let failure = failed(run(&forward(&downstream, handler), "{}"));
    assert_eq!(
        failure.error,
        "step 'notify': validation failed (Semantic): stays failed; while handling: \
         step 'forward': effect handler failed: HTTP 404 Not Found"
    );
    assert_eq!(failure.kind, FailureKind::Validation);
}

#[test]
fn an_endpoint_is_encoded_and_a_header_cannot_be_split() {
    let downstream = Downstream::new([&json("{}")[..]]);
    let url = downstream.url("/orders/{{ $.id }}");
    let body = format!(
        "## Step: a\n{EGRESS}\nendpoint: \"{url}\"\nheaders: {{X-Note: \"{{{{ $.note }}}}\"}}\n"
    );
    let flow = flow(EGRESS, &body);
    succeeded(run(&flow, "{\"id\":\"../a b?\",\"note\":\"é\"}"));
    assert!(downstream.request().starts_with("POST /orders/..%2Fa%20b%3F HTTP/1.1"));
    let error = |message: &str| failed(run(&flow, message)).error;
    assert_eq!(
        error("{\"id\":\"1\",\"note\":\"a\\r\\nX: y\"}"),
        "step 'a': effect handler failed: the header 'X-Note' would have a line break"
    );
    assert_eq!(
        error("{\"note\":\"\"}"),
        "step 'a': effect handler failed: the endpoint: nothing is at $.id"
    );
}

#[test]
fn an_endpoint_that_a_message_gives_is_checked_when_it_is_known() {
    let flow = flow(EGRESS, &format!("## Step: a\n{EGRESS}\nendpoint: \"{{{{ $.url }}}}\"\n"));
    let error = |url: &str| failed(run(&flow, &format!("{{\"url\":\"{url}\"}}"))).error;
    assert_eq!(
        error("ftp://secret/"),
        "step 'a': effect handler failed: the endpoint must begin with http:// or https://"
    );
    let closed = closed_port();
    assert_eq!(
        error(&format!("http://{closed}/secret")),
        format!("step 'a': effect handler failed: {closed}: connection refused")
    );
    assert!(error("http://169.254.169.254/").contains("link-local"));
}

#[test]
fn a_secret_that_is_not_set_fails_the_step_and_names_the_variable() {
    let body = format!(
        "## Step: a\n{EGRESS}\nendpoint: http://127.0.0.1:1/\nheaders: {{Authorization: \"{{{{ \
         secret.NEVER_SET }}}}\"}}\n"
    );
    assert_eq!(
        failed(run(&flow(EGRESS, &body), "{}")).error,
        "step 'a': effect handler failed: the header 'Authorization': the server has no secret \
         NEVER_SET \
         (NEXUS_FLOW_SECRET_NEVER_SET is not set)"
    );
}

#[test]
fn no_error_text_repeats_a_secret() {
    let flow = flow("", "## Step: a\n```ntd\n1\n```\n");
    let (context, queues, egress, random) =
        (context(), Queues::default(), HttpEgress::new(), SeededRandom::new(1));
    let effects =
        Effects { egress: &egress, publish: &queues, clock: &SystemClock, random: &random };
    let message = Rc::new(Current::from_text(&b"{}"[..], false));
    let run = Run {
        flow: &flow,
        context: &context,
        effects: &effects,
        deadline: Duration::MAX,
        document: Rc::clone(&message),
        message,
        left: Vec::new(),
        error: None,
    };
    let view = run.view(&flow.steps[0]);
    view.secrets.borrow_mut().push("hunter2".to_owned());
    let text = view.without_secrets("hunter2.example.com:443: host hunter2".to_owned());
    assert_eq!(text, "***.example.com:443: host ***");
}

#[test]
fn a_run_ends_at_the_flows_own_deadline() {
    let flow = flow("timeout_ms: 1500", "## Step: a\n```ntd\n1\n```\n## Step: b\n```ntd\n2\n```\n");
    let failure = failed(run_with(&flow, "{}", &Queues::default(), &Hasty(Mutex::new(0))));
    assert_eq!(
        failure.error,
        "step 'b': the run has taken longer than the flow's timeout_ms (1500)"
    );
    assert_eq!(failure.kind, FailureKind::Timeout);
}

#[test]
fn a_call_that_takes_too_long_is_a_timeout() {
    let held = Downstream::with_connections(vec![vec![Vec::new(), Vec::new()]]);
    let failure = failed(run(&forward(&held, "timeout_ms: 100\n"), "{}"));
    let text = format!(
        "step 'forward': effect handler failed: {}: no answer within 100 ms",
        held.target()
    );
    assert_eq!((failure.error, failure.kind), (text, FailureKind::Timeout));
}

#[test]
fn a_document_that_is_not_json_fails_where_it_is_read() {
    let flow = flow("", "## Step: a\n```ntd\n{{ $.x }}\n```\n");
    assert_eq!(
        failed(run(&flow, "{\"x\":1,}")).error,
        "step 'a': ntd failed: the document is not JSON: line 1, column 8: expected a key in \
         double quotes"
    );
}

proptest! {
    #[test]
    fn no_message_makes_a_run_panic(message in "[\\[\\]{}\",:0-9.a-e\\\\ ]{0,40}") {
        let flow = flow(
            "",
            "## Step: a\n```condition\ndefault($.a, 1) != \
             $.b\n```\n```validate\nlength(string($)) > 0 | \"m\"\n```\n\
             ```ntd\n{\"a\": {{ default($.a[0], $) }}, \"b\": \"{{ json($) }}\"}\n```\n## \
             Fault:\n```ntd\n\"{{ ctx.error.message }}\"\n```\n",
        );
        let queues = Queues::default();
        if let Outcome::Succeeded(document) = run_with(&flow, &message, &queues, &SystemClock) {
            prop_assert_eq!(crate::document::json::validate(&document), Ok(()));
        }
    }
}
