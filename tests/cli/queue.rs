//! `nexus queue` on real queues, made through the queue engine as a worker makes them.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use nexus::base::random::SeededRandom;
use nexus::base::time::{Clock, SystemClock};
use nexus::base::{CorrelationId, QueueName, RetryPolicy, Timestamp};
use nexus::disk::{Disk, RealDisk};
use nexus::queue::{Appender, Election, Ending, Layout, Moment, NewMessage, Owner, Step};
use serde_json::json;

use crate::support::{Home, Run, flow};

const HOUR: u64 = 3_600_000;

/// A queue with three messages: one succeeded, one waits for its retry in an hour, one is dead.
struct Queue {
    home: Home,
    now: Moment,
}

impl Queue {
    fn new(wall: Timestamp) -> Queue {
        let home = Home::new();
        home.write("flow.md", &flow("acme", "forward-order", ""));
        home.run(["publish", "flow.md"]).done();
        let queue = Queue { home, now: Moment { wall, boot: Duration::from_secs(1) } };
        let random = SeededRandom::new(1);
        let mut owner = queue.elect();
        owner.append(&queue.messages(), wall).unwrap();
        for id in 1..=3 {
            let Step::Deliver(delivery) = owner.next(queue.now).unwrap() else { panic!() };
            let ending = match id {
                1 => Ending::Acknowledge,
                _ => Ending::Failed {
                    error: "HTTP 503".to_owned(),
                    policy: RetryPolicy {
                        initial_delay_ms: HOUR,
                        max_delay_ms: HOUR,
                        ..RetryPolicy::default()
                    },
                    non_retryable: id == 3,
                    retry_after_ms: Some(HOUR),
                },
            };
            owner.settle(vec![(delivery.message.id, ending)], queue.now, &random).unwrap();
        }
        owner.close(queue.now).unwrap();
        queue
    }

    fn messages(&self) -> Vec<NewMessage> {
        let message = |payload: &[u8]| NewMessage {
            payload: payload.to_vec(),
            correlation_id: CorrelationId::parse(b"trace-1").unwrap(),
            origin: None,
        };
        vec![message(br#"{"n":"caf\u00e9 "}"#), message(b"\"\xff\""), message(b"3")]
    }

    fn elect(&self) -> Box<Owner> {
        let state = self.home.path().join(".nexus");
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(&state));
        let queue = QueueName::parse("acme", "forward-order").unwrap();
        let appender = Appender::open(disk, &Layout::new(&state), &queue).unwrap();
        match Owner::elect(appender, self.now).unwrap() {
            Election::Won(owner) => owner,
            Election::Lost(_) => panic!("somebody else owns the queue"),
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.home.path().join(".nexus/queues/acme/forward-order").join(file)
    }

    fn change(&self, file: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(file)).unwrap();
        change(&mut bytes);
        fs::write(self.path(file), bytes).unwrap();
    }

    /// Runs a command on the queue.
    fn run(&self, verb: &str, more: &[&str]) -> Run {
        let mut command = self.home.nexus();
        command.args(["queue", verb, "--tenant", "acme", "--flow", "forward-order"]).args(more);
        command.output().unwrap().into()
    }

    fn dump(&self, file: &str) -> Vec<serde_json::Value> {
        let path = self.path(file);
        let out = self.home.run(["queue", "dump", path.to_str().unwrap()]).done();
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn fixed() -> Timestamp {
    Timestamp::from_millis(1_786_284_131_250)
}

#[test]
fn the_list_counts_every_queue() {
    let queue = Queue::new(SystemClock.now());
    let expected = [
        "TENANT  FLOW           WAITING  IN_FLIGHT  RETRYING  DEAD_LETTERS  TOTAL  PROCESSED  OLDEST_DUE_SECONDS  PAUSED  WORKER",
        "acme    forward-order        0          0         1             1      3          2                   -      no       -",
        "",
    ];
    assert_eq!(queue.home.run(["queue", "list"]).done(), expected.join("\n"));
    let out = queue.home.run(["queue", "list", "--json"]).done();
    let expected = r#"{"tenant":"acme","flow":"forward-order","waiting":0,"in_flight":0,"retrying":1,"dead_letters":1,"total":3,"processed":2,"oldest_due_seconds":null,"paused":false,"worker":null}"#;
    assert_eq!(out, format!("{expected}\n"));
}

#[test]
fn a_worker_is_shown_with_its_process_where_that_can_be_told() {
    let queue = Queue::new(SystemClock.now());
    let owner = queue.elect();
    let out = queue.home.run(["queue", "list", "--json"]).done();
    let row: serde_json::Value = serde_json::from_str(&out).unwrap();
    let this = json!(std::process::id());
    assert!(row["worker"] == this || row["worker"] == json!(true), "{row}");
    drop(owner);
    let out = queue.home.run(["queue", "list", "--json"]).done();
    assert!(out.ends_with("\"worker\":null}\n"), "{out}");
}

#[test]
fn without_a_queue_the_list_says_so_and_nothing_is_made() {
    let home = Home::new();
    home.write("flow.md", &flow("acme", "a", ""));
    home.run(["publish", "flow.md"]).done();
    let before = home.everything();
    assert_eq!(home.run(["queue", "list"]).done(), "no queue has been used yet\n");
    assert_eq!(home.run(["queue", "list", "--json"]).done(), "");
    assert_eq!(home.run(["queue", "verify"]).done(), "no queue has been used yet\n");
    let shown = home.run(["queue", "show", "--tenant", "acme", "--flow", "a"]).done();
    assert!(shown.starts_with("acme/a\n  waiting:        0\n"), "{shown}");
    assert_eq!(home.everything(), before);
}

#[test]
fn a_queue_that_cannot_be_read_hides_no_other() {
    let queue = Queue::new(fixed());
    let other = queue.home.path().join(".nexus/queues/acme/b");
    fs::create_dir(&other).unwrap();
    symlink("/dev/null", other.join("segment.log")).unwrap();
    let run = queue.home.run(["queue", "list"]);
    assert_eq!((run.status, run.out.lines().count()), (1, 2));
    assert!(run.err.contains("cannot look at acme/b: ") && run.err.contains("symbolic link"));
}

#[test]
fn one_queue_is_shown_with_its_retries_and_files() {
    let now = SystemClock.now();
    let queue = Queue::new(now);
    let due = now.plus_millis(HOUR);
    let expected = format!(
        "\
acme/forward-order
  waiting:        0
  in flight:      0
  retrying:       1
  dead letters:   1
  total:          3
  processed:      2
  oldest due:     none
  oldest message: id=2 enqueued_at={}
  paused:         no
  worker:         none
  retries:
    id=2 attempt=2 due_at={}
  files:
",
        now.to_seconds_text(),
        due.to_seconds_text()
    );
    let shown = queue.run("show", &[]).done();
    assert!(shown.starts_with(&expected), "{shown}");
    let len = fs::metadata(queue.path("segment.log")).unwrap().len();
    assert!(shown.contains(&format!("    segment.log        {len} bytes\n")), "{shown}");
    let out = queue.run("show", &["--json"]).done();
    let row: serde_json::Value = serde_json::from_str(&out).unwrap();
    let retry = json!([{
        "id": 2, "attempt": 2, "due_at": due.to_millis_text(), "delay_ms": HOUR,
    }]);
    assert_eq!(row["retries"], retry);
    assert_eq!(row["oldest"], json!({"id": 2, "enqueued_at": now.to_millis_text()}));
    assert_eq!((&row["total"], &row["next_due_at"]), (&json!(3), &json!(due.to_millis_text())));
    assert!(
        row["files"].as_array().unwrap().contains(&json!({"name": "segment.log", "bytes": len}))
    );
}

#[test]
fn a_watched_queue_is_shown_again_and_again() {
    let queue = Queue::new(SystemClock.now());
    for (flags, first) in [(vec!["--watch", "--json"], "{\"tenant\""), (vec!["--watch"], "acme/")] {
        let mut command = queue.home.nexus();
        command.args(["queue", "show", "--tenant", "acme", "--flow", "forward-order"]);
        let mut child = command.args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let times = lines.map_while(Result::ok).filter(|line| line.starts_with(first)).take(2);
        assert_eq!(times.count(), 2);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn sound_queues_are_ok_and_damage_is_told_with_its_place() {
    let queue = Queue::new(fixed());
    assert_eq!(queue.home.run(["queue", "verify"]).done(), "acme/forward-order: ok\n");
    assert_eq!(queue.run("verify", &[]).done(), "acme/forward-order: ok\n");
    let expected = r#"{"tenant":"acme","flow":"forward-order","ok":true,"messages":3,"dead_letters":1,"findings":[],"more_faults":0}"#;
    assert_eq!(queue.run("verify", &["--json"]).done(), format!("{expected}\n"));

    queue.change("segment.log", |log| log[20] ^= 1);
    symlink("/", queue.home.path().join(".nexus/queues/link")).unwrap();
    let first = queue.dump("segment.log")[0]["length"].as_u64().unwrap();
    let run = queue.home.run(["queue", "verify"]);
    assert_eq!((run.status, run.err.as_str()), (1, ""));
    let expected = format!(
        "queues/link: is neither a tenant's directory nor the wake file\n\
         acme/forward-order: segment.log: {first} byte(s) at offset 0: bytes that are no message\n"
    );
    assert_eq!(run.out, expected);
    let run = queue.run("verify", &["--json"]);
    assert_eq!(run.status, 1);
    let row: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let finding = json!([{
        "severity": "fault", "file": "segment.log", "offset": 0, "length": first,
        "text": "bytes that are no message",
    }]);
    assert_eq!((&row["ok"], &row["findings"]), (&json!(false), &finding));
}

#[test]
fn a_queue_without_files_cannot_be_verified_or_mended_by_name() {
    let queue = Queue::new(fixed());
    let err = queue.home.run(["queue", "verify", "--tenant", "acme", "--flow", "b"]).failed();
    assert_eq!(err, "nexus: cannot verify acme/b: it has no files\n");
    let err = queue.home.run(["queue", "repair", "--tenant", "acme", "--flow", "b"]).failed();
    assert!(err.contains("cannot repair acme/b: ") && err.contains("no such queue"), "{err}");
    assert!(!queue.home.path().join(".nexus/queues/acme/b").exists());
}

#[test]
fn the_log_is_dumped_with_payloads_as_text_where_they_are() {
    let queue = Queue::new(fixed());
    let path = queue.path("segment.log");
    let out = queue.home.run(["queue", "dump", path.to_str().unwrap()]).done();
    let expected = "\
{\"at\":0,\"length\":71,\"kind\":\"message\",\"id\":1,\"enqueued_at\":\"2026-08-09T14:02:11.250Z\",\"first_id\":1,\"replays\":0,\"correlation_id\":\"trace-1\",\"payload\":\"{\\\"n\\\":\\\"caf\\\\u00e9 \\\"}\"}
{\"at\":71,\"length\":56,\"kind\":\"message\",\"id\":2,\"enqueued_at\":\"2026-08-09T14:02:11.250Z\",\"first_id\":2,\"replays\":0,\"correlation_id\":\"trace-1\",\"payload_base64\":\"Iv8i\"}
{\"at\":127,\"length\":54,\"kind\":\"message\",\"id\":3,\"enqueued_at\":\"2026-08-09T14:02:11.250Z\",\"first_id\":3,\"replays\":0,\"correlation_id\":\"trace-1\",\"payload\":\"3\"}
";
    assert_eq!(out, expected);
    queue.change("segment.log", |log| {
        log[73] ^= 1;
        log.extend_from_slice(b"torn");
    });
    let rows = queue.dump("segment.log");
    assert_eq!(rows[1], json!({"at": 71, "length": 56, "kind": "damaged"}));
    assert_eq!(rows[3], json!({"at": 181, "length": 4, "kind": "torn"}));
}

#[test]
fn every_other_file_is_dumped_too_and_a_copy_as_its_original() {
    let queue = Queue::new(fixed());
    queue.home.run(["dlq", "discard", "--tenant", "acme", "--flow", "forward-order", "--id", "3"]);
    let checkpoints = queue.dump("segment.log.ckpt");
    let newest = checkpoints.iter().max_by_key(|row| row["generation"].as_u64()).unwrap();
    assert_eq!((&newest["offset"], &newest["id"]), (&json!(181), &json!(4)));
    let retry = json!([{
        "at": 0, "length": 52, "kind": "scheduled", "id": 2, "offset": 71, "attempt": 2,
        "due_at": "2026-08-09T15:02:11.250Z", "delay_ms": HOUR,
    }]);
    assert_eq!(json!(queue.dump("segment.log.retry")), retry);
    let sequence =
        json!([{"at": 0, "length": 28, "kind": "sequence", "next_id": 4, "synced_end": 0}]);
    assert_eq!(json!(queue.dump("segment.log.seq")), sequence);
    let letter = &queue.dump("dlq.log")[0];
    assert_eq!(
        (&letter["kind"], &letter["last_error"]),
        (&json!("dead_letter"), &json!("HTTP 503"))
    );
    assert_eq!((&letter["reason"], &letter["payload"]), (&json!("non_retryable"), &json!("3")));
    let handled = json!([{"at": 0, "length": 20, "kind": "handled", "id": 3}]);
    assert_eq!(json!(queue.dump("dlq.log.acked")), handled);
    let wake = queue.dump("../../wake");
    let expected =
        json!({"at": 0, "length": 19, "kind": "wake", "tenant": "acme", "flow": "forward-order"});
    assert_eq!(wake[0], expected);
    assert_eq!(queue.dump("worker.lock"), [json!(null); 0]);
    fs::copy(queue.path("dlq.log.acked"), queue.path("dlq.log.acked.bad-12")).unwrap();
    assert_eq!(json!(queue.dump("dlq.log.acked.bad-12")), handled);
}

#[test]
fn what_is_no_file_of_a_queue_is_not_dumped() {
    let home = Home::new();
    home.write("notes.txt", "");
    let err = home.run(["queue", "dump", "notes.txt"]).failed();
    assert!(err.contains("cannot dump notes.txt: its name is that of no file"), "{err}");
    let err = home.run(["queue", "dump", "segment.log"]).failed();
    assert!(err.starts_with("nexus: cannot dump segment.log: "), "{err}");
    home.write("real", "");
    symlink("real", home.path().join("segment.log")).unwrap();
    assert!(home.run(["queue", "dump", "segment.log"]).failed().contains("symbolic link"));
}

#[test]
fn a_damaged_queue_is_mended_and_says_what_was_done() {
    let queue = Queue::new(fixed());
    assert_eq!(
        queue.run("repair", &[]).done(),
        "acme/forward-order: nothing to mend\nacme/forward-order: ok\n"
    );
    queue.change("segment.log", |log| log.extend_from_slice(b"torn"));
    queue.change("segment.log.seq", |file| file[8] ^= 1);
    let expected = [
        "acme/forward-order: segment.log.seq: was damaged; the file as it was is segment.log.seq.bad-1",
        "acme/forward-order: segment.log.seq: the next id set to 4",
        "acme/forward-order: segment.log: 4 torn byte(s) at its end cut; they are kept in segment.log.corrupt",
        "acme/forward-order: ok",
        "",
    ];
    assert_eq!(queue.run("repair", &[]).done(), expected.join("\n"));
    assert_eq!(queue.home.run(["queue", "verify"]).done(), "acme/forward-order: ok\n");
    let kept = json!([{
        "at": 0, "length": 36, "kind": "kept", "offset": 181, "original_length": 4, "payload": "torn",
    }]);
    assert_eq!(json!(queue.dump("segment.log.corrupt")), kept);
}

#[test]
fn a_queue_that_is_delivered_is_not_mended() {
    let queue = Queue::new(fixed());
    let owner = queue.elect();
    let err = queue.run("repair", &[]).failed();
    assert!(err.contains("worker.lock is held by") && err.contains("stop the server"), "{err}");
    drop(owner);
}

#[test]
fn a_paused_queue_delivers_nothing_until_it_is_resumed() {
    let queue = Queue::new(fixed());
    let mut owner = queue.elect();
    owner.append(&queue.messages(), fixed()).unwrap();
    for _ in 0..2 {
        assert_eq!(queue.run("pause", &[]).done(), "paused acme/forward-order\n");
    }
    owner.poll(queue.now).unwrap();
    assert!(matches!(owner.next(queue.now).unwrap(), Step::Paused));
    let out = queue.home.run(["queue", "list", "--json"]).done();
    assert!(out.contains("\"paused\":true"), "{out}");
    for _ in 0..2 {
        assert_eq!(queue.run("resume", &[]).done(), "resumed acme/forward-order\n");
    }
    owner.poll(queue.now).unwrap();
    assert!(matches!(owner.next(queue.now).unwrap(), Step::Deliver(_)));
    let mut wake = String::new();
    let file = queue.home.path().join(".nexus/queues/wake");
    fs::File::open(file).unwrap().read_to_string(&mut wake).unwrap();
    assert_eq!(wake, "acme/forward-order\n");
}

#[test]
fn a_published_flow_can_be_paused_before_its_first_message_and_no_other_queue_is_made() {
    let home = Home::new();
    home.write("flow.md", &flow("acme", "a", ""));
    home.run(["publish", "flow.md"]).done();
    for verb in ["pause", "resume", "show"] {
        let err = home.run(["queue", verb, "--tenant", "acme", "--flow", "b"]).failed();
        let expected = format!("nexus: cannot {verb} acme/b: it has no files, and the registry ");
        assert!(err.starts_with(&expected), "{err}");
    }
    assert!(!home.path().join(".nexus/queues").exists());
    let paused = home.run(["queue", "pause", "--tenant", "acme", "--flow", "a"]).done();
    assert_eq!(paused, "paused acme/a\n");
    assert!(home.path().join(".nexus/queues/acme/a/paused").exists());
    assert_eq!(home.run(["queue", "verify"]).done(), "acme/a: ok\n");
}
