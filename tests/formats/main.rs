//! The bytes of every file of a queue, as version 1 writes them and as every later one must read
//! them.
//!
//! Each golden is written out by hand, field by field, in the order of the table in the header of
//! the file that owns the format. The code has to write exactly these bytes, and to read them back
//! as what they mean. A change of a format adds a version and a golden; it never edits one.

mod golden;
mod life;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use nexus::disk::{Disk, Open, RealDisk};
use nexus::queue::{FileKind, dump};

use life::Life;

/// Bytes from hexadecimal digits; white space is skipped.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    assert_eq!(digits.len() % 2, 0, "an odd number of digits");
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Bytes as hexadecimal digits, for a failed comparison.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a file says, one row of JSON each.
fn rows(path: &Path) -> Vec<String> {
    let name = path.file_name().unwrap().to_str().unwrap();
    let disk = RealDisk::new(path.parent().unwrap());
    let file = disk.open(path, Open::Read).unwrap();
    let mut rows = Vec::new();
    dump(file.as_ref(), FileKind::of(name).unwrap(), &mut |row| {
        rows.push(serde_json::to_string(&row).unwrap());
        ControlFlow::Continue(())
    })
    .unwrap();
    rows
}

/// The file has these bytes, and a file of these bytes says this.
#[track_caller]
fn is_golden(path: PathBuf, golden: &str, meaning: &[&str]) {
    let written = fs::read(&path).unwrap();
    let golden = bytes(golden);
    assert_eq!(hex(&written), hex(&golden), "{}", path.display());
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join(path.file_name().unwrap());
    fs::write(&copy, golden).unwrap();
    assert_eq!(rows(&copy), meaning);
}

#[test]
fn messages() {
    let life = Life::new();
    life.append(&[(b"{}", "trace-1"), (b"\"\xc3\xa9\"", "b")]);
    is_golden(life.path("segment.log"), golden::SEGMENT, &golden::SEGMENT_SAYS);
    is_golden(life.path("segment.log.seq"), golden::SEQUENCE, &golden::SEQUENCE_SAYS);
}

#[test]
fn a_replayed_message() {
    let life = Life::with_a_dead_letter();
    life.replay();
    let log = fs::read(life.path("segment.log")).unwrap();
    // Its correlation id is drawn anew; the rest is fixed.
    let lineage = &log[log.len() - golden::REPLAY_LEN..][24..46];
    assert_eq!(hex(lineage), hex(&bytes(golden::REPLAY_FIELDS)));
}

#[test]
fn a_checkpoint() {
    let life = Life::new();
    life.append(&[(b"{}", "trace-1"), (b"{}", "trace-1")]);
    life.acknowledge_one();
    let path = life.path("segment.log.ckpt");
    let zeros = |count: usize| vec![0; count];
    let (first, second) = (bytes(golden::CHECKPOINT), bytes(golden::SECOND_CHECKPOINT));
    let expected = [first.clone(), zeros(4096 - 44), zeros(44)].concat();
    assert_eq!(hex(&fs::read(&path).unwrap()), hex(&expected));
    assert_eq!(rows(&path), golden::CHECKPOINT_SAYS[..1]);
    life.acknowledge_one();
    let expected = [first, zeros(4096 - 44), second].concat();
    assert_eq!(hex(&fs::read(&path).unwrap()), hex(&expected));
    assert_eq!(rows(&path), golden::CHECKPOINT_SAYS);
}

#[test]
fn the_schedule() {
    let life = Life::new();
    life.append(&[(b"{}", "trace-1")]);
    life.fail_one();
    life.crash_in_the_retry();
    life.acknowledge_one();
    is_golden(life.path("segment.log.retry"), golden::RETRY, &golden::RETRY_SAYS);
}

#[test]
fn dead_letters_and_their_marks() {
    let life = Life::with_a_dead_letter();
    is_golden(life.path("dlq.log"), golden::DEAD_LETTER, &golden::DEAD_LETTER_SAYS);
    life.discard();
    is_golden(life.path("dlq.log.acked"), golden::MARK, &golden::MARK_SAYS);
    let wake = life.path("../../wake");
    is_golden(wake, golden::WAKE, &golden::WAKE_SAYS);
}

#[test]
fn a_slot_of_what_is_in_flight() {
    let life = Life::new();
    life.append(&[(b"{}", "trace-1"), (b"{}", "trace-1")]);
    let owner = life.with_two_in_flight();
    let file = fs::read(life.path("worker.lock")).unwrap();
    assert_eq!(file.len(), 64 * 32);
    assert_eq!(hex(&file[..64]), hex(&bytes(golden::SLOTS)));
    assert!(file[64..].iter().all(|byte| *byte == 0));
    assert_eq!(rows(&life.path("worker.lock")), golden::SLOTS_SAY);
    drop(owner);
}

#[test]
fn bytes_that_were_kept_aside() {
    let life = Life::new();
    life.append(&[(b"{}", "trace-1")]);
    life.tear_the_log(b"\xfftorn");
    life.append(&[(b"{}", "trace-1")]);
    is_golden(life.path("segment.log.corrupt"), golden::KEPT, &golden::KEPT_SAYS);
}

#[test]
fn a_queue_of_golden_files_goes_on_where_it_was() {
    let life = Life::new();
    life.put("segment.log", &bytes(golden::SEGMENT));
    life.put("segment.log.seq", &bytes(golden::SEQUENCE));
    life.put("segment.log.ckpt", &bytes(golden::CHECKPOINT));
    life.put("dlq.log", &bytes(golden::DEAD_LETTER));
    // The checkpoint's message begins elsewhere in this log: the id decides. Message 1 is dead.
    assert_eq!(life.deliver_all(), [(2, b"\"\xc3\xa9\"".to_vec(), "b".to_owned())]);
}
