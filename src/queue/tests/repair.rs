//! After a repair nothing is found any more, and no sound message is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use proptest::prelude::*;

use super::sample::{Sample, at};
use crate::disk::{Disk, Open, RealDisk};
use crate::queue::error::FaultKind;
use crate::queue::{Ending, Step, repair};
use crate::store::scan::{Item, Scanner};

/// What was mended, a line each.
#[track_caller]
fn mend(sample: &Sample) -> Vec<String> {
    let mended = repair(&sample.disk, &sample.layout, &sample.queue).unwrap();
    let left: Vec<String> =
        sample.findings().into_iter().filter(|line| !line.starts_with("note ")).collect();
    assert_eq!(left, [""; 0], "after {mended:?}");
    let again = repair(&sample.disk, &sample.layout, &sample.queue).unwrap();
    assert_eq!(again, [], "once is enough");
    mended.into_iter().map(|mended| format!("{}: {}", mended.file, mended.text)).collect()
}

/// The ids that are delivered once everything that is due has succeeded, with their attempts.
fn delivered(sample: &Sample) -> BTreeMap<u64, u32> {
    let mut owner = sample.elect(at(9000));
    let mut seen = BTreeMap::new();
    while let Step::Deliver(delivery) = owner.next(at(9000)).unwrap() {
        let id = delivery.message.id;
        seen.insert(id.get(), delivery.attempt);
        owner.settle(vec![(id, Ending::Acknowledge)], at(9000), &sample.random).unwrap();
    }
    seen
}

/// The bodies of the sound frames of a file.
fn sound_frames(sample: &Sample, file: &str) -> Vec<Vec<u8>> {
    let path = sample.path(file);
    let file = RealDisk::new(sample.layout.state_dir()).open(&path, Open::Read).unwrap();
    let len = file.len().unwrap();
    let mut scanner = Scanner::default();
    let mut found = Vec::new();
    while let Some(item) = scanner.next(file.as_ref(), len).unwrap() {
        if let Item::Frame { frame, .. } = item {
            found.push(frame.body.to_vec());
        }
    }
    found
}

#[test]
fn a_sound_queue_stays_as_it_is() {
    let sample = Sample::full();
    let before: Vec<_> =
        fs::read_dir(sample.path("")).unwrap().map(|e| e.unwrap().path()).collect();
    let bytes = |paths: &[std::path::PathBuf]| -> Vec<Vec<u8>> {
        paths.iter().map(|path| fs::read(path).unwrap()).collect()
    };
    let before_bytes = bytes(&before);
    assert_eq!(mend(&sample), [""; 0]);
    assert_eq!(bytes(&before), before_bytes);
    assert_eq!(fs::read_dir(sample.path("")).unwrap().count(), before.len());
    let due = BTreeMap::from([(2, 2), (3, 2), (7, 1), (8, 1)]);
    assert_eq!(delivered(&sample), due);
}

#[test]
fn a_running_worker_is_named_and_nothing_is_changed() {
    let sample = Sample::full();
    let owner = sample.elect(at(1030));
    sample.change("segment.log", |log| log.push(1));
    let error = repair(&sample.disk, &sample.layout, &sample.queue).unwrap_err();
    assert_eq!(error.kind, FaultKind::Locked);
    assert!(error.text.contains("worker.lock is held by"), "{error}");
    assert!(error.text.contains("stop the server"), "{error}");
    assert_eq!(sample.read("segment.log").last(), Some(&1));
    drop(owner);
}

#[test]
fn a_queue_that_is_not_there_is_not_made() {
    let sample = Sample::new();
    let error = repair(&sample.disk, &sample.layout, &sample.queue).unwrap_err();
    assert!(error.text.contains("there is no such queue"), "{error}");
    assert!(!sample.layout.queues_dir().exists());
}

#[test]
fn a_torn_end_is_kept_aside_and_cut() {
    let sample = Sample::full();
    let len = sample.read("segment.log").len();
    sample.change("segment.log", |log| log.extend_from_slice(b"torn"));
    let expected =
        "segment.log: 4 torn byte(s) at its end cut; they are kept in segment.log.corrupt";
    assert_eq!(mend(&sample), [expected]);
    assert_eq!(sample.read("segment.log").len(), len);
    assert!(sample.read("segment.log.corrupt").ends_with(b"torn"));
}

#[test]
fn a_gap_is_taken_out_and_retries_and_the_checkpoint_follow_the_messages() {
    let sample = Sample::full();
    let frame = sample.read("segment.log").len() / 8;
    sample.change("segment.log", |log| log[20] ^= 1);
    let mended = mend(&sample);
    assert!(mended[0].starts_with("segment.log: 1 range(s) of"), "{mended:?}");
    assert_eq!(sample.read("segment.log").len(), 7 * frame);
    // Nothing but what was due before: the settled ones do not come again.
    assert_eq!(delivered(&sample), BTreeMap::from([(2, 2), (3, 2), (7, 1), (8, 1)]));
}

#[test]
fn zeros_between_messages_are_taken_out_and_not_kept() {
    let sample = Sample::full();
    let frame = sample.read("segment.log").len() / 8;
    sample.change("segment.log", |log| log[5 * frame..6 * frame].fill(0));
    let mended = mend(&sample);
    assert_eq!(mended, [format!("segment.log: {frame} zero byte(s) between messages taken out")]);
    assert!(!sample.path("segment.log.corrupt").exists());
    assert_eq!(delivered(&sample), BTreeMap::from([(2, 2), (3, 2), (7, 1), (8, 1)]));
}

#[test]
fn a_damaged_checkpoint_makes_what_is_neither_done_nor_dead_come_again() {
    let sample = Sample::full();
    sample.change("segment.log.ckpt", |file| {
        let end = file.len().min(44);
        file[8..end].fill(7);
        if file.len() > 4096 {
            file[4096 + 8..].fill(7);
        }
    });
    let mended = mend(&sample);
    assert!(mended[0].contains("segment.log.ckpt.bad-1"), "{mended:?}");
    let all = BTreeMap::from([(1, 1), (2, 2), (3, 2), (6, 1), (7, 1), (8, 1)]);
    assert_eq!(delivered(&sample), all);
}

#[test]
fn a_damaged_schedule_loses_no_message() {
    let sample = Sample::full();
    sample.change("segment.log.retry", |file| file[10] ^= 1);
    mend(&sample);
    let all = BTreeMap::from([(1, 1), (2, 1), (3, 2), (6, 1), (7, 1), (8, 1)]);
    assert_eq!(delivered(&sample), all);

    let sample = Sample::full();
    fs::remove_file(sample.path("segment.log.retry")).unwrap();
    mend(&sample);
    let all = BTreeMap::from([(1, 1), (2, 1), (3, 1), (6, 1), (7, 1), (8, 1)]);
    assert_eq!(delivered(&sample), all);

    let sample = Sample::full();
    sample.change("segment.log.retry", |file| file.extend_from_slice(b"torn"));
    mend(&sample);
    assert_eq!(delivered(&sample), BTreeMap::from([(2, 2), (3, 2), (7, 1), (8, 1)]));
}

#[test]
fn a_retry_that_names_another_place_is_set_to_where_its_message_lies() {
    let sample = Sample::full();
    let frame = sample.read("segment.log").len() / 8;
    // Somebody cut the first message out of the log by hand.
    sample.change("segment.log", |log| drop(log.drain(..frame)));
    let mended = mend(&sample);
    assert!(mended.iter().any(|line| line.contains("2 retry(s) set to where")), "{mended:?}");
    assert_eq!(delivered(&sample), BTreeMap::from([(2, 2), (3, 2), (7, 1), (8, 1)]));
}

#[test]
fn ids_are_never_given_again() {
    for damage in [b"".as_slice(), b"noise", &[0; 28]] {
        let sample = Sample::full();
        fs::write(sample.path("segment.log.seq"), damage).unwrap();
        mend(&sample);
        sample.append(1, at(1040));
        assert!(delivered(&sample).contains_key(&9));
    }
}

#[test]
fn messages_out_of_order_come_again_under_new_ids() {
    let sample = Sample::full();
    let frame = sample.read("segment.log").len() / 8;
    sample.change("segment.log", |log| log.extend_from_within(..frame));
    let mended = mend(&sample);
    assert!(mended.iter().any(|line| line.contains("under new ids from 9")), "{mended:?}");
    assert_eq!(delivered(&sample), BTreeMap::from([(2, 2), (3, 2), (7, 1), (8, 1), (9, 1)]));
}

#[test]
fn damaged_dead_letters_and_marks_are_taken_out_and_a_copy_of_each_file_stays() {
    let sample = Sample::full();
    let as_it_was = {
        sample.change("dlq.log", |file| file[20] ^= 1);
        sample.read("dlq.log")
    };
    let mended = mend(&sample);
    assert_eq!(sample.read("dlq.log.bad-1"), as_it_was);
    assert_eq!(sound_frames(&sample, "dlq.log").len(), 1);
    // The mark was for the letter that is gone.
    assert!(mended[1].starts_with("dlq.log.acked: 1 mark(s)"), "{mended:?}");
    assert_eq!(sample.read("dlq.log.acked"), b"");
}

#[test]
fn slots_of_a_crash_stay_and_leftovers_go() {
    let sample = Sample::full();
    let mut owner = sample.elect(at(1030));
    let Step::Deliver(_) = owner.next(at(1030)).unwrap() else { panic!() };
    drop(owner);
    sample.change("worker.lock", |file| file[64..80].fill(7));
    fs::write(sample.path("dlq.log.tmp"), b"").unwrap();
    let mended = mend(&sample);
    assert_eq!(mended.len(), 2, "{mended:?}");
    assert!(!sample.path("dlq.log.tmp").exists());
    let expected = "note worker.lock 0+32: message 7 was in flight when its process died";
    assert_eq!(sample.findings(), [expected]);
}

#[test]
fn a_file_of_a_newer_version_is_left_as_it_is() {
    let sample = Sample::full();
    let newer = crate::store::record::RecordWriter::new(*b"NXCK", 9).u64(9).u64(0).u64(1).u64(0);
    let newer = newer.finish();
    sample.change("segment.log.ckpt", |file| file[..44].copy_from_slice(&newer));
    let before = sample.read("segment.log.ckpt");
    let error = repair(&sample.disk, &sample.layout, &sample.queue).unwrap_err();
    assert!(error.text.contains("version 9"), "{error}");
    assert_eq!(sample.read("segment.log.ckpt"), before);
}

/// Something that happens to a file.
#[derive(Debug, Clone)]
enum Damage {
    Flip(prop::sample::Index),
    Zero(prop::sample::Index, usize),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
    Remove,
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        4 => at().prop_map(Damage::Flip),
        2 => (at(), 1usize..300).prop_map(|(at, len)| Damage::Zero(at, len)),
        2 => at().prop_map(Damage::Cut),
        2 => (at(), prop::collection::vec(any::<u8>(), 1..200))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => Just(Damage::Remove),
    ]
}

fn apply(sample: &Sample, file: &str, damage: &Damage) {
    if let Damage::Remove = damage {
        let _ = fs::remove_file(sample.path(file));
        return;
    }
    sample.change(file, |bytes| {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match damage {
            Damage::Flip(at) => bytes[at.index(len)] ^= 0x10,
            Damage::Zero(at, zeros) => {
                let at = at.index(len);
                bytes[at..len.min(at + zeros)].fill(0);
            }
            Damage::Cut(at) => bytes.truncate(at.index(len)),
            Damage::Insert(at, more) => {
                let at = at.index(len);
                bytes.splice(at..at, more.iter().copied());
            }
            Damage::Remove => {}
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_damage_every_sound_message_is_still_there_and_nothing_is_found(
        damages in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "segment.log", "segment.log", "segment.log.ckpt", "segment.log.retry",
                    "segment.log.seq", "dlq.log", "dlq.log.acked", "segment.log.corrupt",
                ]),
                damage(),
            ),
            1..4,
        ),
    ) {
        let sample = Sample::full();
        for (file, damage) in &damages {
            apply(&sample, file, damage);
        }
        let exists = |file: &str| sample.path(file).exists();
        let sound = |file| if exists(file) { sound_frames(&sample, file) } else { Vec::new() };
        let (messages, letters) = (sound("segment.log"), sound("dlq.log"));
        // Those that are neither settled nor dead have to be delivered.
        let id = |body: &[u8]| u64::from_le_bytes(body[..8].try_into().unwrap());
        let dead: BTreeSet<u64> = letters.iter().map(|body| id(body)).collect();
        let due: BTreeSet<u64> = messages
            .iter()
            .map(|body| id(body))
            .filter(|id| [2, 3, 7, 8].contains(id) && !dead.contains(id))
            .collect();
        mend(&sample);
        let sound = |file| if exists(file) { sound_frames(&sample, file) } else { Vec::new() };
        prop_assert_eq!(sound("segment.log"), messages);
        prop_assert_eq!(sound("dlq.log"), letters);
        let delivered: BTreeSet<u64> = delivered(&sample).into_keys().collect();
        prop_assert!(delivered.is_superset(&due), "{:?} of {:?}", delivered, due);
    }
}
