//! Damaged files: what a reader makes of each, as the table of `nexus-files(5)` says.
//!
//! Many queues are damaged in many ways while no server runs; then one server is started on all of
//! them. So each kind of damage is seen beside healthy queues, which it must not disturb.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::files::{Frame, edit, frames, scheduled};
use crate::harness::{Server, Site, done, forward, len, wait_for, wait_until};
use crate::sink::{Answer, Sink};

/// Retries are an hour away, and a 400 dead-letters at once.
const FRONT_MATTER: &str = "queue_initial_delay_ms: 3600000\nqueue_max_delay_ms: 3600000\n\
                            queue_non_retryable: [400]";

/// Queues that all look the same, of a server that was killed. Of the messages 1 and 2 are dead
/// letters, 1 is marked; 3 waits for a retry; 4 has been delivered; 5 was in flight; 6 and 7 wait.
struct Queues {
    site: Site,
    sink: Sink,
    names: Vec<String>,
}

const BODIES: [&str; 7] = [
    "\"dead-1\"",
    "\"dead-2\"",
    "\"later-3\"",
    "\"good-4\"",
    "\"held-5\"",
    "\"good-6\"",
    "\"good-7\"",
];

impl Queues {
    fn new(count: usize) -> Queues {
        let sink = Sink::new(|call| match &call.body[..5] {
            "\"dead" => Answer::status(400),
            "\"late" => Answer::status(503),
            "\"held" => Answer::Hold,
            _ => Answer::status(200),
        });
        let names: Vec<String> = (0..count).map(|n| format!("q{n}")).collect();
        let flow = |name: &String| forward(name, &sink.url(&format!("/{name}")), FRONT_MATTER);
        let flows: Vec<String> = names.iter().map(flow).collect();
        let site = Site::with_flows(&flows.iter().map(String::as_str).collect::<Vec<_>>());
        let server = site.serve();
        let mut client = server.client();
        for name in &names {
            for body in BODIES {
                assert_eq!(client.enqueue(name, body).unwrap().status, 202);
            }
        }
        sink.wait_for(5 * count);
        for name in &names {
            done(site.handle("discard", name, 1));
        }
        server.kill();
        sink.now(|_| Answer::status(200));
        Queues { site, sink, names }
    }

    /// What each queue delivers after a start, once it has nothing left but its retries; `None`
    /// while it has.
    fn delivered(&self, name: &str) -> Vec<String> {
        let path = format!("/{name}");
        let calls = self.sink.calls();
        let calls = calls.iter().skip(5 * self.names.len()).filter(|call| call.path == path);
        calls.map(|call| call.body.clone()).collect()
    }

    /// Waits until a message sent now has been delivered, and gives those before it.
    fn settle(&self, server: &Server, name: &str) -> Vec<String> {
        self.settle_with(server, name, "\"last\"")
    }

    fn settle_with(&self, server: &Server, name: &str, last: &str) -> Vec<String> {
        let response = server.enqueue(name, last);
        assert_eq!(response.status, 202, "{name}: {response:?}");
        let mut all = wait_for(&format!("the last message of {name}"), || {
            let delivered = self.delivered(name);
            delivered.last().is_some_and(|body| body == last).then_some(delivered)
        });
        all.pop();
        all
    }

    fn file(&self, name: &str, file: &str) -> std::path::PathBuf {
        self.site.file(name, file)
    }

    fn frames(&self, name: &str) -> Vec<Frame> {
        frames(&self.file(name, "segment.log"))
    }
}

/// The numbers at the ends of bodies.
fn numbers(bodies: &[String]) -> Vec<u32> {
    let digit = |body: &String| body.trim_end_matches('"').chars().last().unwrap().to_digit(10);
    bodies.iter().map(|body| digit(body).unwrap()).collect()
}

/// The reports about a queue.
fn reports(server: &Server, name: &str) -> Vec<Value> {
    let events = server.events("frame_corrupt");
    events.into_iter().filter(|event| event["flow"] == name).collect()
}

#[test]
fn a_tail_torn_at_any_length_loses_that_message_only() {
    let probe = Queues::new(1);
    let last = probe.frames("q0")[6].range.len();
    let queues = Queues::new(last);
    for (cut, name) in (1..=last).zip(&queues.names) {
        edit(&queues.file(name, "segment.log"), |bytes| bytes.truncate(bytes.len() - cut));
    }
    let server = queues.site.serve();
    for name in &queues.names {
        let delivered = queues.settle(&server, name);
        assert_eq!(numbers(&delivered), [5, 6], "{name}");
        let frames = queues.frames(name);
        assert_eq!(frames.last().unwrap().id, 8, "{name}: the id of the torn one is not reused");
        let end = frames.last().unwrap().range.end as u64;
        assert_eq!(end, len(&queues.file(name, "segment.log")), "{name}: the tail was cut");
    }
    assert_eq!(server.problems(), "");
}

/// One way to damage the frame of message 6.
type Damage = fn(&mut [u8], usize);

#[test]
fn a_damaged_frame_is_stepped_over_reported_once_and_kept_aside() {
    let damages: [(&str, Damage); 9] = [
        ("payload bit", |frame, _| *frame.last_mut().unwrap() ^= 1),
        ("id bit", |frame, _| frame[16] ^= 1),
        ("checksum bit", |frame, _| frame[12] ^= 0x80),
        ("magic bit", |frame, _| frame[0] ^= 1),
        ("length all ones", |frame, _| frame[8..12].copy_from_slice(&[0xFF; 4])),
        ("length zero", |frame, _| frame[8..12].copy_from_slice(&[0; 4])),
        ("length to the end and one more", |frame, to_end| {
            let length = u32::try_from(to_end - 16 + 1).unwrap();
            frame[8..12].copy_from_slice(&length.to_le_bytes());
        }),
        ("all zeros", |frame, _| frame.fill(0)),
        ("all noise", |frame, _| {
            for (at, byte) in frame.iter_mut().enumerate() {
                *byte = (at * 151 % 251) as u8;
            }
        }),
    ];
    let queues = Queues::new(damages.len());
    for ((_, damage), name) in damages.iter().zip(&queues.names) {
        let range = queues.frames(name)[5].range.clone();
        edit(&queues.file(name, "segment.log"), |bytes| {
            let to_end = bytes.len() - range.start;
            damage(&mut bytes[range], to_end);
        });
    }
    let server = queues.site.serve();
    for ((what, _), name) in damages.iter().zip(&queues.names) {
        assert_eq!(numbers(&queues.settle(&server, name)), [5, 7], "{what}");
        let reports = wait_for(&format!("the report of {what}"), || {
            let reports = reports(&server, name);
            (!reports.is_empty()).then_some(reports)
        });
        assert_eq!(reports.len(), 1, "{what}: {reports:?}");
        assert!(reports[0]["path"].as_str().unwrap().ends_with("segment.log"), "{what}");
        assert!(len(&queues.file(name, "segment.log.corrupt")) > 50, "{what}");
    }
    assert!(peak_memory_kib(&server) < 400 << 10, "{} KiB", peak_memory_kib(&server));
    server.stop();
    let server = queues.site.serve();
    for name in &queues.names {
        let all = queues.settle_with(&server, name, "\"again\"");
        assert_eq!(all.len(), 3, "nothing comes again after a stop: {all:?}");
    }
}

/// The most memory that a server has used, in KiB.
fn peak_memory_kib(server: &Server) -> u64 {
    let pid = server.pid().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Change {
    Nothing,
    Remove,
    Empty,
    Noise,
    Zeros,
    /// Cut by so many bytes.
    Cut(usize),
    /// So many zeros behind it.
    ZeroTail(usize),
}

fn change(path: &Path, change: Change) {
    match change {
        Change::Nothing => {}
        Change::Remove => fs::remove_file(path).unwrap(),
        Change::Empty => edit(path, Vec::clear),
        Change::Noise => edit(path, |bytes| {
            for (at, byte) in bytes.iter_mut().enumerate() {
                *byte = (at * 151 % 251) as u8;
            }
        }),
        Change::Zeros => edit(path, |bytes| bytes.fill(0)),
        Change::Cut(count) => edit(path, |bytes| bytes.truncate(bytes.len() - count)),
        Change::ZeroTail(count) => edit(path, |bytes| bytes.resize(bytes.len() + count, 0)),
    }
}

const CHECKPOINT: &str = "segment.log.ckpt";
const RETRY: &str = "segment.log.retry";
const SEQUENCE: &str = "segment.log.seq";
const DEAD: &str = "dlq.log";
const MARKS: &str = "dlq.log.acked";

/// What a damaged file may cost.
struct Case {
    file: &'static str,
    change: Change,
    /// What is delivered after the start.
    delivered: &'static [u32],
    /// The dead letters that are listed before and after it.
    listed: &'static [u64],
    /// Whether the damage is reported.
    reported: bool,
}

fn cases() -> Vec<Case> {
    let case = |file, change, delivered, listed, reported| Case {
        file,
        change,
        delivered,
        listed,
        reported,
    };
    let mut cases = vec![case(CHECKPOINT, Change::Nothing, &[5, 6, 7], &[2], false)];
    for lost in [Change::Remove, Change::Empty, Change::Noise, Change::Zeros] {
        cases.push(case(CHECKPOINT, lost, &[4, 5, 6, 7], &[2], true));
        cases.push(case(RETRY, lost, &[3, 4, 5, 6, 7], &[2], true));
        cases.push(case(SEQUENCE, lost, &[5, 6, 7], &[2], false));
        // The only mark is the last, and what does not verify at the end is torn.
        cases.push(case(MARKS, lost, &[5, 6, 7], &[1, 2], false));
    }
    for lost in [Change::Remove, Change::Empty] {
        cases.push(case(DEAD, lost, &[5, 6, 7], &[], false));
    }
    cases.push(case(RETRY, Change::Cut(1), &[3, 4, 5, 6, 7], &[2], true));
    cases.push(case(MARKS, Change::Cut(1), &[5, 6, 7], &[1, 2], false));
    cases.push(case(SEQUENCE, Change::Cut(1), &[5, 6, 7], &[2], false));
    cases.push(case(DEAD, Change::Cut(1), &[5, 6, 7], &[], false));
    for file in [CHECKPOINT, RETRY, SEQUENCE, DEAD, MARKS, "segment.log"] {
        cases.push(case(file, Change::ZeroTail(64 << 10), &[5, 6, 7], &[2], false));
        cases.push(case(file, Change::ZeroTail(1), &[5, 6, 7], &[2], false));
    }
    cases
}

/// The unhandled dead letters of each queue.
fn listed(site: &Site, name: &str) -> Vec<u64> {
    let output = site.run(&["dlq", "list", "--json", "--tenant", "acme", "--flow", name]);
    let out = String::from_utf8(output.stdout).unwrap();
    let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap();
    out.lines().map(id).collect()
}

#[test]
fn each_state_file_lost_damaged_cut_or_with_zeros_behind_it_costs_what_the_table_says() {
    let cases = cases();
    let queues = Queues::new(cases.len());
    for (case, name) in cases.iter().zip(&queues.names) {
        change(&queues.file(name, case.file), case.change);
    }
    let mut faults = Vec::new();
    let mut expect = |fine: bool, what: String| {
        if !fine {
            faults.push(what);
        }
    };
    for (case, name) in cases.iter().zip(&queues.names) {
        let found = listed(&queues.site, name);
        let what = format!("{} {:?}: listed {found:?} before the start", case.file, case.change);
        expect(found == case.listed, what);
    }
    let server = queues.site.serve();
    for (case, name) in cases.iter().zip(&queues.names) {
        let what = format!("{} {:?}", case.file, case.change);
        let delivered = numbers(&queues.settle(&server, name));
        expect(delivered == case.delivered, format!("{what}: delivered {delivered:?}"));
        let found = listed(&queues.site, name);
        expect(found == case.listed, format!("{what}: listed {found:?}"));
        let reports = reports(&server, name);
        expect(reports.is_empty() != case.reported, format!("{what}: reports {reports:?}"));
        let retries = scheduled(&queues.file(name, RETRY));
        let kept = retries.iter().any(|retry| retry.id == 3 && retry.attempt == 2);
        expect(kept != case.delivered.contains(&3), format!("{what}: retries {retries:?}"));
        let ids: BTreeSet<u64> = queues.frames(name).iter().map(|frame| frame.id).collect();
        expect(ids.last() == Some(&8), format!("{what}: ids {ids:?}"));
    }
    expect(server.problems().is_empty(), server.problems());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_mark_behind_a_torn_one_counts() {
    let queues = Queues::new(1);
    change(&queues.file("q0", MARKS), Change::Cut(1));
    done(queues.site.handle("discard", "q0", 2));
    assert_eq!(listed(&queues.site, "q0"), [1]);
    done(queues.site.handle("discard", "q0", 1));
    assert_eq!(queues.site.done(&["dlq", "list"]), "DLQ is empty\n");
}

#[test]
fn a_damaged_mark_in_front_of_others_does_not_count_and_is_reported() {
    let queues = Queues::new(1);
    done(queues.site.handle("discard", "q0", 2));
    edit(&queues.file("q0", MARKS), |bytes| bytes[10] ^= 1);
    assert_eq!(listed(&queues.site, "q0"), [1]);
    let server = queues.site.serve();
    assert_eq!(numbers(&queues.settle(&server, "q0")), [5, 6, 7]);
    let report = server.wait_for_event("frame_corrupt");
    assert!(report["path"].as_str().unwrap().ends_with(MARKS), "{report}");
}

#[test]
fn a_damaged_dead_letter_hides_no_other_and_makes_the_list_fail() {
    let queues = Queues::new(1);
    edit(&queues.file("q0", DEAD), |bytes| bytes[20] ^= 1);
    let output = queues.site.run(&["dlq", "list"]);
    assert_eq!(output.status.code(), Some(1));
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.starts_with("DLQ: 1 pending message(s)\n\n  id=2 "), "{out}");
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("dlq.log") && err.contains("offset 0"), "{err}");
    let server = queues.site.serve();
    assert_eq!(numbers(&queues.settle(&server, "q0")), [5, 6, 7]);
}

#[test]
fn a_log_cut_to_a_few_bytes_beside_its_checkpoint_takes_new_messages() {
    let queues = Queues::new(5);
    for (length, name) in [0, 1, 3, 16, 40].into_iter().zip(&queues.names) {
        edit(&queues.file(name, "segment.log"), |bytes| bytes.truncate(length));
    }
    let server = queues.site.serve();
    for name in &queues.names {
        assert_eq!(queues.settle(&server, name), [] as [String; 0], "{name}");
        assert_eq!(queues.frames(name)[0].id, 8, "{name}");
    }
}

#[test]
fn a_log_that_was_deleted_is_a_clean_start_without_a_loop() {
    let queues = Queues::new(2);
    for name in &queues.names {
        change(&queues.file(name, "segment.log"), Change::Remove);
    }
    change(&queues.file("q1", RETRY), Change::Remove);
    let server = queues.site.serve();
    for name in &queues.names {
        assert_eq!(queues.settle(&server, name), [] as [String; 0], "{name}");
        queues.site.wait_for_drain(name);
    }
    assert!(server.lines().len() < 30, "{:?}", server.lines());
}

#[test]
fn a_checkpoint_between_two_frames_is_no_place_to_start_from() {
    let queues = Queues::new(3);
    for (by, name) in [-1, 1, 1_000_000].into_iter().zip(&queues.names) {
        edit(&queues.file(name, CHECKPOINT), |bytes| {
            for slot in [0, 4096] {
                let Some(record) = bytes.get_mut(slot..slot + 44) else { continue };
                let offset: [u8; 8] = record[16..24].try_into().unwrap();
                let offset = i64::from_le_bytes(offset) + by;
                record[16..24].copy_from_slice(&offset.to_le_bytes());
                let sum = crc32fast::hash(&record[..40]);
                record[40..44].copy_from_slice(&sum.to_le_bytes());
            }
        });
    }
    let server = queues.site.serve();
    for name in &queues.names {
        assert_eq!(numbers(&queues.settle(&server, name)), [5, 6, 7], "{name}");
    }
}

#[test]
fn a_file_of_a_newer_version_is_refused_by_name_and_left_as_it_is() {
    let queues = Queues::new(4);
    let files = ["segment.log", CHECKPOINT, RETRY];
    for (file, name) in files.into_iter().zip(&queues.names) {
        let sixth = queues.frames(name)[5].range.clone();
        edit(&queues.file(name, file), |bytes| match file {
            "segment.log" => {
                let frame = &mut bytes[sixth.clone()];
                frame[4] = 9;
                let sum = crc32fast::hash(&[&frame[..12], &frame[16..]].concat());
                frame[12..16].copy_from_slice(&sum.to_le_bytes());
            }
            CHECKPOINT => [0, 4096].into_iter().for_each(|slot| {
                if let Some(record) = bytes.get_mut(slot..slot + 44) {
                    newer(record);
                }
            }),
            _ => newer(&mut bytes[..52]),
        });
    }
    let before: Vec<Vec<u8>> = files
        .iter()
        .zip(&queues.names)
        .map(|(file, name)| fs::read(queues.file(name, file)).unwrap())
        .collect();
    let server = queues.site.serve();
    assert_eq!(numbers(&queues.settle(&server, "q3")), [5, 6, 7], "a healthy queue goes on");
    for ((file, name), before) in files.into_iter().zip(&queues.names).zip(before) {
        let named = |text: &str| text.contains(file) && text.contains("version 9");
        wait_until(&format!("{file} to be named"), || named(&server.problems()));
        let response = server.enqueue(name, "\"last\"");
        let after = fs::read(queues.file(name, file)).unwrap();
        if file == "segment.log" {
            // What can be read is delivered; behind it can be appended, and nothing is changed.
            assert_eq!(response.status, 202);
            assert_eq!(numbers(&queues.delivered(name)), [5]);
            assert_eq!(after[..before.len()], before);
        } else {
            assert_eq!(response.status, 503, "{file}: {response:?}");
            assert!(named(&response.error()), "{response:?}");
            assert_eq!(queues.delivered(name), [] as [String; 0]);
            assert_eq!(after, before, "{file}");
        }
    }
}

/// Makes a record one of version 9.
fn newer(record: &mut [u8]) {
    record[4] = 9;
    let (fields, sum) = record.split_last_chunk_mut::<4>().unwrap();
    *sum = crc32fast::hash(fields).to_le_bytes();
}
