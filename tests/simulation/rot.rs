//! What is made of each file when it is missing, empty, zeroed, torn or altered: the table "What a
//! reader makes of each file". Whatever the damage, the queue starts, never loops, hands out no
//! wrong payload, gives no id twice, and goes on.

use nexus::base::MessageId;
use nexus::base::random::SeededRandom;
use nexus::store::record::RecordWriter;

use crate::command_line::Handling;
use crate::disk::{Sabotage, Survival};
use crate::oracle::Oracle;
use crate::traced;
use crate::world::{Habits, Outcome, World};

/// What was seen after a damage.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// What was handed out, sorted, each as often as it was.
    delivered: Vec<u64>,
    /// The dead letters that were listed after the recovery.
    dead: Vec<u64>,
    /// The files that were called damaged.
    reported: Vec<String>,
}

/// A queue at rest: 1 is acknowledged, 2 waits for its retry, 3 to 5 are dead-lettered, 4 and 5
/// discarded, 6 and 7 not yet delivered. Both slots of the checkpoint are written and synced: the
/// newer says 6.
fn at_rest() -> World {
    let mut world = World::new(7, Sabotage::default());
    world.habits = Habits { failing: 0, batch: 1, padding: 1, concurrency: 1 };
    world.elect(0);
    (0..7).for_each(|_| assert!(world.submit(0)));
    let outcomes = [
        Outcome::Succeeds,
        Outcome::Fails,
        Outcome::FailsForGood,
        Outcome::FailsForGood,
        Outcome::FailsForGood,
    ];
    for outcome in outcomes {
        world.start_one(0);
        world.end_all(0, outcome);
        world.sync_checkpoint(true);
    }
    for id in [4, 5] {
        assert!(world.handle(MessageId::new(id).unwrap(), Handling::Discard));
    }
    world.cut_power(Survival::All);
    (world.deliveries, world.reports) = (Vec::new(), Vec::new());
    world.oracle.damaged = true;
    world
}

/// Does the damage, recovers, works everything off, takes one more message, and recovers again.
fn seen(damage: impl FnOnce(&mut World)) -> Seen {
    let mut world = at_rest();
    let mut dead = Vec::new();
    let outcome = traced(&mut world, |world| {
        damage(world);
        world.recover();
        dead = world.dead();
        world.work_off();
        let _ = world.submit(0);
        world.work_off();
        world.finish();
    });
    if let Err(trace) = outcome {
        panic!("{trace}");
    }
    let mut delivered = world.deliveries;
    delivered.sort_unstable();
    let name = |path: &std::path::Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut reported: Vec<String> = world.reports.iter().map(|r| name(&r.path)).collect();
    reported.sort();
    reported.dedup();
    Seen { delivered, dead, reported }
}

fn after(file: &str, change: impl FnOnce(&mut Vec<u8>)) -> Seen {
    seen(|world| {
        let path = world.layout.queue(&world.queue).dir.join(file);
        world.disk.tamper(&path, change);
    })
}

fn without(file: &str) -> Seen {
    seen(|world| {
        let path = world.layout.queue(&world.queue).dir.join(file);
        world.disk.lose(&path);
    })
}

fn expect(delivered: &[u64], dead: &[u64], reported: &[&str]) -> Seen {
    Seen {
        delivered: delivered.to_vec(),
        dead: dead.to_vec(),
        reported: reported.iter().map(|file| (*file).to_owned()).collect(),
    }
}

/// What an undamaged queue gives.
fn sound() -> Seen {
    expect(&[2, 6, 7, 8], &[3], &[])
}

/// Without a checkpoint that counts: everything that is neither done nor dead comes again.
fn everything_again(reported: &str) -> Seen {
    expect(&[1, 2, 6, 7, 8], &[3], &[reported])
}

fn noise(bytes: &mut [u8]) {
    let random = SeededRandom::new(3);
    bytes.iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
}

type Damage = Box<dyn Fn(&mut [u8])>;

/// Ways to damage one frame among others.
fn frame_damages(len: usize, rest: usize) -> Vec<Damage> {
    let mut damages: Vec<Damage> = vec![
        Box::new(|frame| frame.fill(0)),
        Box::new(noise),
        Box::new(move |frame| frame[len / 2] ^= 1),
        Box::new(|frame| frame[0] = 0),
        Box::new(|frame| frame[13] ^= 0x80),
    ];
    // Lengths: the highest, none, one more than there is, up to the end and one byte past it.
    let body = (len - 16) as u32;
    for length in [u32::MAX, 0, body + 1, body + rest as u32, body + rest as u32 + 1] {
        damages.push(Box::new(move |frame| {
            frame[8..12].copy_from_slice(&length.to_le_bytes());
        }));
    }
    damages
}

fn slot(generation: u64, offset: u64, id: u64, retry_len: u64) -> Vec<u8> {
    RecordWriter::new(*b"NXCK", 1).u64(generation).u64(offset).u64(id).u64(retry_len).finish()
}

/// All frames of the log at rest have this length.
fn frame_len() -> usize {
    at_rest().bytes("segment.log").len() / 7
}

#[test]
fn an_undamaged_queue_loses_and_repeats_nothing() {
    assert_eq!(seen(|_| {}), sound());
}

#[test]
fn a_log_that_is_gone_or_empty_holds_no_messages() {
    // The retry that is left has no message any more, and that is reported.
    let nothing = expect(&[8], &[3], &["segment.log.retry"]);
    assert_eq!(without("segment.log"), nothing);
    assert_eq!(after("segment.log", Vec::clear), nothing);
}

#[test]
fn a_damaged_frame_is_passed_over_and_reported_and_the_others_come() {
    let len = frame_len();
    for (which, damage) in frame_damages(len, len).iter().enumerate() {
        let seen = after("segment.log", |log| damage(&mut log[5 * len..6 * len]));
        assert_eq!(seen, expect(&[2, 7, 8], &[3], &["segment.log"]), "damage {which}");
    }
}

#[test]
fn a_log_that_is_all_zeros_or_noise_gives_nothing_and_says_so() {
    let nothing = expect(&[8], &[3], &["segment.log", "segment.log.retry"]);
    assert_eq!(after("segment.log", |log| log.fill(0)), nothing);
    assert_eq!(after("segment.log", |log| noise(log)), nothing);
}

#[test]
fn a_torn_end_of_the_log_is_cut_and_kept_aside_once() {
    let len = frame_len();
    for cut in 6 * len + 1..7 * len {
        let seen = after("segment.log", |log| log.truncate(cut));
        assert_eq!(seen, expect(&[2, 6, 8], &[3], &["segment.log"]), "cut at {cut}");
    }
    let mut world = at_rest();
    let path = world.layout.queue(&world.queue).segment;
    world.disk.tamper(&path, |log| log.truncate(7 * len - 3));
    world.recover();
    assert_eq!(world.bytes("segment.log").len(), 6 * len);
    let kept = world.bytes("segment.log.corrupt");
    assert!(kept.len() > len);
    world.disk.tamper(&path, |log| log.resize(7 * len - 3, 9));
    world.cut_power(Survival::All);
    world.recover();
    assert!(world.bytes("segment.log.corrupt").len() > kept.len(), "other bytes are kept too");
}

#[test]
fn a_gap_is_kept_aside_once_however_often_it_is_found() {
    let len = frame_len();
    let mut world = at_rest();
    let path = world.layout.queue(&world.queue).segment;
    world.disk.tamper(&path, |log| log[5 * len + 20] ^= 1);
    let mut kept = Vec::new();
    for _ in 0..3 {
        world.recover();
        // The retry that is due, and the message behind the gap.
        world.start_one(0);
        world.start_one(0);
        kept.push(world.bytes("segment.log.corrupt").len());
        world.cut_power(Survival::All);
    }
    assert!(kept[0] > len && kept[1] == kept[0] && kept[2] == kept[0], "{kept:?}");
}

#[test]
fn without_a_checkpoint_everything_that_is_neither_done_nor_dead_comes_again() {
    let again = everything_again("segment.log.ckpt");
    assert_eq!(without("segment.log.ckpt"), again);
    assert_eq!(after("segment.log.ckpt", Vec::clear), again);
    assert_eq!(after("segment.log.ckpt", |bytes| bytes.fill(0)), again);
    assert_eq!(after("segment.log.ckpt", |bytes| noise(bytes)), again);
    let both = |bytes: &mut Vec<u8>| {
        bytes[30] ^= 1;
        bytes[4096 + 30] ^= 1;
    };
    assert_eq!(after("segment.log.ckpt", both), again);
}

#[test]
fn a_damaged_slot_of_the_checkpoint_leaves_the_other() {
    for slot in [0, 4096] {
        for bit in 0..8 * 44 {
            let seen = after("segment.log.ckpt", |bytes| bytes[slot + bit / 8] ^= 1 << (bit % 8));
            assert_eq!(seen, sound(), "slot at {slot}, bit {bit}");
        }
    }
    for cut in [4096, 4100, 4139] {
        assert_eq!(after("segment.log.ckpt", |bytes| bytes.truncate(cut)), sound());
    }
}

#[test]
fn an_offset_of_the_checkpoint_that_is_not_its_message_is_no_hint() {
    let len = frame_len() as u64;
    let right = 5 * len;
    for offset in [right - 1, right + 1, 0, 4 * len, 6 * len, 7 * len, 7 * len + 1, 1 << 40] {
        let change = |bytes: &mut Vec<u8>| {
            bytes[4096..4140].copy_from_slice(&slot(100, offset, 6, 52));
        };
        assert_eq!(after("segment.log.ckpt", change), sound(), "offset {offset}");
    }
}

#[test]
fn a_schedule_shorter_than_the_checkpoint_says_is_not_believed() {
    let again = everything_again("segment.log.retry");
    assert_eq!(without("segment.log.retry"), again);
    assert_eq!(after("segment.log.retry", Vec::clear), again);
    assert_eq!(after("segment.log.retry", |bytes| bytes.fill(0)), again);
    assert_eq!(after("segment.log.retry", |bytes| noise(bytes)), again);
    assert_eq!(after("segment.log.retry", |bytes| bytes.truncate(51)), again);
    for bit in 0..8 * 52 {
        let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(after("segment.log.retry", flip), again, "bit {bit}");
    }
    let longer = |bytes: &mut Vec<u8>| {
        bytes[4096..4140].copy_from_slice(&slot(100, 0, 6, 53));
    };
    assert_eq!(after("segment.log.ckpt", longer), again);
}

#[test]
fn a_damaged_record_in_front_of_sound_ones_makes_everything_come_again() {
    let damage = |bytes: &mut Vec<u8>| {
        let record = bytes.clone();
        bytes[20] ^= 1;
        bytes.extend(record);
    };
    assert_eq!(after("segment.log.retry", damage), everything_again("segment.log.retry"));
}

#[test]
fn what_is_torn_behind_the_schedule_is_cut() {
    for tail in [1, 51, 52, 200] {
        assert_eq!(after("segment.log.retry", |bytes| bytes.resize(52 + tail, 0)), sound());
        let torn = |bytes: &mut Vec<u8>| {
            bytes.resize(52 + tail, 0);
            noise(&mut bytes[52..]);
        };
        assert_eq!(after("segment.log.retry", torn), sound());
    }
}

#[test]
fn the_next_id_is_found_again_without_its_file() {
    assert_eq!(without("segment.log.seq"), sound());
    assert_eq!(after("segment.log.seq", Vec::clear), sound());
    assert_eq!(after("segment.log.seq", |bytes| bytes.fill(0)), sound());
    assert_eq!(after("segment.log.seq", |bytes| noise(bytes)), sound());
    assert_eq!(after("segment.log.seq", |bytes| bytes.truncate(27)), sound());
    for bit in 0..8 * 28 {
        let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(after("segment.log.seq", flip), sound(), "bit {bit}");
    }
}

#[test]
fn the_next_id_is_above_every_one_that_any_file_still_names() {
    let mut lost = vec!["segment.log", "segment.log.seq", "segment.log.ckpt"];
    // The highest dead letter is 5, the highest mark 5, and the only retry is that of 2.
    for (file, next) in [(None, 6), (Some("dlq.log"), 6), (Some("dlq.log.acked"), 3)] {
        lost.extend(file);
        let mut world = at_rest();
        // Ids that no file names any more are given again.
        world.oracle = Oracle::default();
        world.oracle.damaged = true;
        let dir = world.layout.queue(&world.queue).dir;
        lost.iter().for_each(|file| world.disk.lose(&dir.join(file)));
        world.recover();
        assert!(world.submit(0));
        world.work_off();
        assert_eq!(world.deliveries, [next], "without {lost:?}");
    }
}

#[test]
fn dead_letters_that_are_gone_are_no_entries() {
    let none = expect(&[2, 6, 7, 8], &[], &[]);
    assert_eq!(without("dlq.log"), none);
    assert_eq!(after("dlq.log", Vec::clear), none);
    assert_eq!(after("dlq.log", |bytes| bytes.fill(0)), none);
    assert_eq!(after("dlq.log", |bytes| noise(bytes)), none);
}

#[test]
fn a_damaged_dead_letter_is_skipped_and_reported() {
    let len = at_rest().bytes("dlq.log").len() / 3;
    for (which, damage) in frame_damages(len, 2 * len).iter().enumerate() {
        let seen = after("dlq.log", |bytes| damage(&mut bytes[..len]));
        assert_eq!(seen, expect(&[2, 6, 7, 8], &[], &["dlq.log"]), "damage {which}");
    }
}

#[test]
fn a_torn_dead_letter_is_cut_by_the_owner() {
    let whole = at_rest().bytes("dlq.log").len();
    let len = whole / 3;
    for cut in [2 * len + 1, 2 * len + 16, whole - 1] {
        assert_eq!(after("dlq.log", |bytes| bytes.truncate(cut)), sound());
        let mut world = at_rest();
        let path = world.layout.queue(&world.queue).dlq;
        world.disk.tamper(&path, |bytes| bytes.truncate(cut));
        world.recover();
        assert_eq!(world.bytes("dlq.log").len(), 2 * len);
    }
}

#[test]
fn without_marks_the_entries_are_back() {
    let back = expect(&[2, 6, 7, 8], &[3, 4, 5], &[]);
    assert_eq!(without("dlq.log.acked"), back);
    assert_eq!(after("dlq.log.acked", Vec::clear), back);
    assert_eq!(after("dlq.log.acked", |bytes| bytes.fill(0)), back);
    assert_eq!(after("dlq.log.acked", |bytes| noise(bytes)), back);
}

#[test]
fn a_damaged_mark_does_not_count_and_is_reported() {
    for bit in 0..8 * 20 {
        let seen = after("dlq.log.acked", |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        assert_eq!(seen, expect(&[2, 6, 7, 8], &[3, 4], &["dlq.log.acked"]), "bit {bit}");
    }
}

#[test]
fn a_torn_mark_is_cut_before_the_next_is_written() {
    for cut in 21..40 {
        let mut world = at_rest();
        let path = world.layout.queue(&world.queue).acked;
        world.disk.tamper(&path, |bytes| bytes.truncate(cut));
        assert_eq!(world.dead(), [3, 5]);
        assert!(world.handle(MessageId::new(3).unwrap(), Handling::Discard));
        assert_eq!(world.bytes("dlq.log.acked").len(), 40);
        assert_eq!(world.dead(), [5]);
    }
}

#[test]
fn noise_behind_the_marks_is_cut_before_the_next_is_written() {
    let mut world = at_rest();
    let path = world.layout.queue(&world.queue).acked;
    world.disk.tamper(&path, |bytes| bytes.resize(500, 9));
    assert_eq!(world.dead(), [3]);
    assert!(world.handle(MessageId::new(3).unwrap(), Handling::Discard));
    assert_eq!(world.bytes("dlq.log.acked").len(), 60);
    assert!(world.dead().is_empty());
}

#[test]
fn what_was_in_flight_is_only_a_hint() {
    assert_eq!(without("worker.lock"), sound());
    assert_eq!(after("worker.lock", Vec::clear), sound());
    assert_eq!(after("worker.lock", |bytes| noise(bytes)), sound());
}
