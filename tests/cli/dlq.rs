//! `nexus dlq` on real queues: the document's outputs to the letter.
//!
//! The dead letters are made through the queue engine, as a worker makes them, with the times of
//! the document's example.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nexus::base::random::SeededRandom;
use nexus::base::{CorrelationId, QueueName, RetryPolicy, Timestamp};
use nexus::disk::{Disk, RealDisk};
use nexus::queue::{Appender, Election, Ending, Layout, Moment, NewMessage, Owner, Step};

use crate::support::{Home, Run, flow};

const SERVICE_UNAVAILABLE: &str =
    "step 'forward': effect handler failed: HTTP 503 Service Unavailable";
const NOT_POSITIVE: &str = "step 'check': validation failed (Semantic): total must be positive";

fn moment(text: &str) -> Moment {
    // 2026-08-09T00:00:00Z and a time of that day, hh:mm:ss.
    let midnight = 1_786_233_600_000;
    let parts: Vec<i64> = text.split(':').map(|part| part.parse().unwrap()).collect();
    let millis = ((parts[0] * 60 + parts[1]) * 60 + parts[2]) * 1000;
    let boot = Duration::from_millis(u64::try_from(millis).unwrap());
    Moment { wall: Timestamp::from_millis(midnight + millis), boot }
}

impl Home {
    fn publish(&self, flows: &[&str]) {
        for name in flows {
            self.write("flow.md", &flow("acme", name, ""));
            self.run(["publish", "flow.md"]).done();
        }
    }

    /// Submits `count` messages to a queue and dead-letters the last of them after three
    /// attempts; the others succeed.
    fn dead_letter(&self, flow: &str, count: usize, enqueued: &str, failed: &str, error: &str) {
        let queue = QueueName::parse("acme", flow).unwrap();
        let state = self.path().join(".nexus");
        let layout = Layout::new(&state);
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(&state));
        let random = SeededRandom::new(1);
        let (enqueued, failed) = (moment(enqueued), moment(failed));
        let message = |n: usize| NewMessage {
            payload: format!("{{\"total\":{n}}}").into_bytes(),
            correlation_id: CorrelationId::generate(&random),
            origin: None,
        };
        let batch: Vec<NewMessage> = (0..count).map(message).collect();
        let appender = Appender::open(disk, &layout, &queue).unwrap();
        let Election::Won(mut owner) = Owner::elect(appender, enqueued).unwrap() else {
            panic!("somebody else owns {queue}");
        };
        owner.append(&batch, enqueued.wall).unwrap();
        let policy = RetryPolicy { initial_delay_ms: 0, ..RetryPolicy::default() };
        // Each message but the last takes one step, the last three.
        for step in 1..=count + 2 {
            let Step::Deliver(delivery) = owner.next(failed).unwrap() else {
                panic!("nothing to deliver at step {step}");
            };
            let ending = match step < count {
                true => Ending::Acknowledge,
                false => Ending::Failed {
                    error: error.to_owned(),
                    policy,
                    non_retryable: false,
                    retry_after_ms: None,
                },
            };
            owner.settle(vec![(delivery.message.id, ending)], failed, &random).unwrap();
        }
        owner.close(failed).unwrap();
    }

    fn two_dead_letters() -> Home {
        let home = Home::new();
        home.publish(&["forward-order", "sync-invoices"]);
        home.dead_letter("sync-invoices", 2, "09:41:00", "09:41:07", NOT_POSITIVE);
        home.dead_letter("forward-order", 7, "14:02:11", "14:02:14", SERVICE_UNAVAILABLE);
        home
    }
}

#[test]
fn an_empty_dead_letter_queue_says_so() {
    let home = Home::new();
    home.publish(&["a"]);
    let before = home.everything();
    assert_eq!(home.run(["dlq", "list"]).done(), "DLQ is empty\n");
    assert_eq!(home.run(["dlq", "list", "--json"]).done(), "");
    let filtered = home.run(["dlq", "list", "--tenant", "acme", "--flow", "nothing-there"]);
    assert_eq!(filtered.done(), "DLQ is empty\n");
    assert_eq!(home.everything(), before);
}

#[test]
fn the_list_is_the_documents_to_the_letter() {
    let home = Home::two_dead_letters();
    let expected = "\
DLQ: 2 pending message(s)

  id=7 tenant=acme flow=forward-order
    enqueued_at: 2026-08-09T14:02:11Z
    failed_at:   2026-08-09T14:02:14Z
    attempts:    3
    last_error:  step 'forward': effect handler failed: HTTP 503 Service Unavailable

  id=2 tenant=acme flow=sync-invoices
    enqueued_at: 2026-08-09T09:41:00Z
    failed_at:   2026-08-09T09:41:07Z
    attempts:    3
    last_error:  step 'check': validation failed (Semantic): total must be positive
";
    assert_eq!(home.run(["dlq", "list"]).done(), expected);
    assert_eq!(home.run(["dlq", "list", "--tenant", "acme"]).done(), expected);
    let one = home.run(["dlq", "list", "--tenant", "acme", "--flow", "sync-invoices"]).done();
    assert!(one.starts_with("DLQ: 1 pending message(s)\n\n  id=2 tenant=acme"), "{one}");
    let other = home.run(["dlq", "list", "--tenant", "other"]).done();
    assert_eq!(other, "DLQ is empty\n");
}

#[test]
fn json_rows_have_the_names_of_the_interface_and_no_payload() {
    let home = Home::two_dead_letters();
    let out = home.run(["dlq", "list", "--json"]).done();
    let row: serde_json::Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    let expected = serde_json::json!({
        "tenant": "acme",
        "flow": "forward-order",
        "id": 7,
        "enqueued_at": "2026-08-09T14:02:11.000Z",
        "failed_at": "2026-08-09T14:02:14.000Z",
        "attempts": 3,
        "reason": "max_attempts_exceeded",
        "last_error": SERVICE_UNAVAILABLE,
        "message_key": "acme/forward-order/7",
        "replays": 0,
    });
    assert_eq!(row, expected);
    assert_eq!(out.lines().count(), 2);
}

#[test]
fn replay_and_discard_print_what_the_document_says_and_hide_the_entry() {
    let home = Home::two_dead_letters();
    let replay = ["dlq", "replay", "--tenant", "acme", "--flow", "forward-order", "--id", "7"];
    assert_eq!(home.run(replay).done(), "replayed  id=7 tenant=acme flow=forward-order\n");
    let discard = ["dlq", "discard", "--tenant", "acme", "--flow", "sync-invoices", "--id", "2"];
    assert_eq!(
        home.run(discard).done(),
        "discarded id=2 tenant=acme flow=sync-invoices\n  \
         the body leaves the disk at this flow's next queue drain; \
         until then it is only hidden from listings\n"
    );
    assert_eq!(home.run(["dlq", "list"]).done(), "DLQ is empty\n");
    for again in [replay, discard] {
        let err = home.run(again).failed();
        assert!(err.contains("handled already"), "{err}");
    }
}

#[test]
fn an_id_of_another_queue_or_a_flow_that_is_gone_leaves_the_entry_untouched() {
    let home = Home::two_dead_letters();
    home.dead_letter("gone", 1, "10:00:00", "10:00:01", NOT_POSITIVE);
    let before = home.run(["dlq", "list"]).done();
    for (flow, id) in [("forward-order", "2"), ("sync-invoices", "7"), ("gone", "1")] {
        let replay = ["dlq", "replay", "--tenant", "acme", "--flow", flow, "--id", id];
        let err = home.run(replay).failed();
        assert!(err.contains(&format!("cannot replay id={id} tenant=acme flow={flow}: ")), "{err}");
    }
    let other = ["dlq", "discard", "--tenant", "other", "--flow", "forward-order", "--id", "7"];
    home.run(other).failed();
    assert!(!home.path().join(".nexus/queues/other").exists());
    assert_eq!(home.run(["dlq", "list"]).done(), before);
}

#[test]
fn a_damaged_entry_is_reported_after_the_others_and_the_exit_status_is_1() {
    let home = Home::new();
    home.publish(&["a"]);
    for n in 0..5 {
        let error = format!("error {n}");
        home.dead_letter("a", 1, "10:00:00", "10:00:01", &error);
    }
    let file = home.path().join(".nexus/queues/acme/a/dlq.log");
    let mut bytes = fs::read(&file).unwrap();
    let second = bytes.windows(7).position(|window| window == b"error 1").unwrap();
    bytes[second] ^= 1;
    fs::write(&file, bytes).unwrap();
    let run = home.run(["dlq", "list"]);
    assert_eq!(run.status, 1);
    assert!(run.out.starts_with("DLQ: 4 pending message(s)\n"), "{}", run.out);
    let shown: Vec<&str> = run.out.matches("last_error:  error ").collect();
    assert_eq!(shown.len(), 4);
    assert!(run.err.contains("dlq.log") && run.err.contains("offset"), "{}", run.err);
}

#[test]
fn of_twelve_replays_at_once_one_succeeds_and_the_others_are_told() {
    let home = Home::two_dead_letters();
    let replays: Vec<_> = (0..12)
        .map(|_| {
            let mut command = home.nexus();
            command.args(["dlq", "replay", "--tenant", "acme", "--flow", "forward-order"]);
            command.args(["--id", "7"]).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let runs: Vec<Run> =
        replays.into_iter().map(|child| child.wait_with_output().unwrap().into()).collect();
    let (done, refused): (Vec<Run>, Vec<Run>) = runs.into_iter().partition(|run| run.status == 0);
    assert_eq!((done.len(), refused.len()), (1, 11));
    for run in refused {
        assert!(run.failed().contains("handled already"));
    }
}

#[test]
fn a_registry_named_without_a_directory_is_in_the_working_directory() {
    let home = Home::two_dead_letters();
    let mut command = home.nexus();
    command.args(["dlq", "list", "--db", "registry.db"]).current_dir(home.path().join(".nexus"));
    let out = Run::from(command.output().unwrap()).done();
    assert!(out.starts_with("DLQ: 2 pending message(s)\n"), "{out}");
}
