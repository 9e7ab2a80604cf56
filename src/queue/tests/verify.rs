//! Each kind of damage is found, and what is no damage is not called so.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::sample::{Sample, at};
use crate::queue::{Ending, Step, replay, strays};

const FILES: [&str; 7] = [
    "segment.log",
    "segment.log.ckpt",
    "segment.log.retry",
    "segment.log.seq",
    "dlq.log",
    "dlq.log.acked",
    "worker.lock",
];

#[track_caller]
fn finds(sample: &Sample, expected: &[&str]) {
    let found = sample.findings();
    for text in expected {
        assert!(found.iter().any(|line| line.contains(text)), "{text:?} is not in {found:#?}");
    }
    assert!(!sample.verify().findings.are_ok());
}

#[test]
fn a_sound_queue_is_ok_in_every_state_of_its_life() {
    let sample = Sample::new();
    assert_eq!(sample.findings(), [""; 0]);
    sample.append(2, at(1));
    assert!(sample.verify().findings.are_ok(), "{:?}", sample.findings());
    let sample = Sample::full();
    assert_eq!(sample.findings(), [""; 0]);
    let verified = sample.verify();
    assert_eq!((verified.messages, verified.dead_letters), (8, 2));
    replay(&sample.disk, &sample.layout, &sample.queue, 5, at(1010).wall, &sample.random).unwrap();
    assert_eq!(sample.findings(), [""; 0]);
    let mut owner = sample.elect(at(2000));
    while let Step::Deliver(delivery) = owner.next(at(2000)).unwrap() {
        assert!(sample.verify().findings.are_ok(), "{:?}", sample.findings());
        let ended = vec![(delivery.message.id, Ending::Acknowledge)];
        owner.settle(ended, at(2000), &sample.random).unwrap();
        assert_eq!(sample.findings(), [""; 0]);
    }
    assert!(owner.poll(at(2001)).unwrap(), "it was drained");
    assert_eq!(sample.findings(), [""; 0]);
    sample.append(1, at(2002));
    assert_eq!(sample.findings(), [""; 0]);
}

#[test]
fn damage_of_the_log_is_found_at_its_place() {
    let sample = Sample::full();
    let len = sample.read("segment.log").len();
    let frame = len / 8;
    sample.change("segment.log", |log| log[frame + 20] ^= 1);
    finds(&sample, &[&format!("segment.log {frame}+{frame}: bytes that are no message")]);

    let sample = Sample::full();
    sample.change("segment.log", |log| log.truncate(len - 3));
    finds(&sample, &["the end is torn"]);

    let sample = Sample::full();
    sample.change("segment.log", |log| log[frame..2 * frame].fill(0));
    finds(&sample, &["zeros between messages", "the retry of message 2 names offset"]);

    let sample = Sample::full();
    sample.change("segment.log", |log| log.extend_from_within(..frame));
    finds(&sample, &["message 1 does not follow the ids before it"]);

    let sample = Sample::full();
    sample.change("segment.log", |log| crate::store::frame::encode(9, log, |_| {}));
    finds(&sample, &["a sound frame that is no message"]);
}

#[test]
fn zeros_behind_the_log_and_space_that_was_given_back_are_no_damage() {
    let sample = Sample::full();
    sample.change("segment.log", |log| log.extend_from_slice(&[0; 100]));
    assert_eq!(sample.findings(), [""; 0]);
    let sample = Sample::full();
    let frame = sample.read("segment.log").len() / 8;
    sample.change("segment.log", |log| log[..frame].fill(0));
    assert_eq!(sample.findings(), [""; 0]);
}

#[test]
fn damage_of_the_small_files_is_found() {
    let sample = Sample::full();
    sample.change("segment.log.ckpt", |file| file[8] ^= 1);
    finds(&sample, &["segment.log.ckpt 0+44: a slot that does not verify"]);

    let sample = Sample::full();
    sample.change("segment.log.retry", |file| file[10] ^= 1);
    finds(&sample, &["segment.log.retry 0+52: a record that does not verify, with others"]);

    let sample = Sample::full();
    sample.change("segment.log.retry", |file| file.extend_from_slice(b"torn"));
    finds(&sample, &["segment.log.retry 104+4: the end is torn"]);

    let sample = Sample::full();
    sample.change("segment.log.retry", |file| file.truncate(52));
    finds(&sample, &["relies on 104 bytes of the schedule, of which 52 can be read"]);

    let sample = Sample::full();
    sample.change("segment.log.seq", |file| file[9] ^= 1);
    finds(&sample, &["segment.log.seq: does not verify"]);
    fs::remove_file(sample.path("segment.log.seq")).unwrap();
    finds(&sample, &["segment.log.seq: is missing or empty"]);

    let sample = Sample::full();
    sample.change("worker.lock", |file| file[32..40].fill(7));
    finds(&sample, &["worker.lock 32+32: a slot that does not verify"]);
}

#[test]
fn files_that_disagree_are_found() {
    let sample = Sample::full();
    let before = sample.read("segment.log.seq");
    sample.append(1, at(1010));
    sample.change("segment.log.seq", |file| file.copy_from_slice(&before));
    finds(&sample, &["the next id is 9, and 9 has been given already"]);

    let sample = Sample::full();
    sample.change("segment.log", |log| log.clear());
    finds(&sample, &["past the end of the log at 0", "the retry of message 2 names offset"]);

    let sample = Sample::full();
    sample.change("dlq.log", |file| file.clear());
    finds(&sample, &["dlq.log.acked: marks dead letter 4, which is not there"]);
}

#[test]
fn damage_of_the_dead_letters_and_their_marks_is_found() {
    let sample = Sample::full();
    let len = sample.read("dlq.log").len();
    sample.change("dlq.log", |file| file[20] ^= 1);
    finds(&sample, &[&format!("dlq.log 0+{}: bytes that do not verify", len / 2)]);
    let sample = Sample::full();
    sample.change("dlq.log", |file| file.truncate(len - 1));
    finds(&sample, &["the end is torn"]);
    let sample = Sample::full();
    sample.change("dlq.log", |file| file.extend_from_within(..));
    finds(&sample, &["a dead letter whose id came before"]);
    let sample = Sample::full();
    sample.change("dlq.log.acked", |file| file[9] ^= 1);
    finds(&sample, &["dlq.log.acked 0+20: a mark that does not verify"]);
    let sample = Sample::full();
    sample.change("segment.log.corrupt", |file| file.extend_from_slice(b"noise"));
    finds(&sample, &["segment.log.corrupt 0+5: the end is torn"]);
}

#[test]
fn what_a_crash_left_is_found_and_what_was_in_flight_is_a_note() {
    let sample = Sample::full();
    fs::write(sample.path("dlq.log.tmp"), b"").unwrap();
    finds(&sample, &["dlq.log.tmp: was left behind by a crash"]);
    let mut owner = sample.elect(at(1030));
    let Step::Deliver(_) = owner.next(at(1030)).unwrap() else { panic!() };
    assert_eq!(sample.findings(), [""; 0]);
    fs::write(sample.path("dlq.log.tmp"), b"").unwrap();
    assert_eq!(sample.findings(), [""; 0], "a worker may just be writing it");
    fs::remove_file(sample.path("dlq.log.tmp")).unwrap();
    drop(owner);
    let expected = "note worker.lock 0+32: message 7 was in flight when its process died";
    assert_eq!(sample.findings(), [expected]);
}

#[test]
fn a_symbolic_link_or_a_newer_version_is_refused_by_name() {
    for file in FILES.into_iter().chain(["append.lock", "paused", "segment.log.corrupt"]) {
        let sample = Sample::full();
        let _ = fs::rename(sample.path(file), sample.path("elsewhere"));
        symlink(sample.path("elsewhere"), sample.path(file)).unwrap();
        finds(&sample, &[&format!("{file} is a symbolic link")]);
    }
    let newer = crate::store::record::RecordWriter::new(*b"NXSQ", 2).u64(9).u64(0).finish();
    let sample = Sample::full();
    fs::write(sample.path("segment.log.seq"), newer).unwrap();
    finds(&sample, &["segment.log.seq: cannot read", "version 2"]);
}

#[test]
fn what_is_no_queue_is_named() {
    let sample = Sample::full();
    let root = sample.layout.queues_dir();
    let names = || -> Vec<String> {
        let strays = strays(sample.disk.as_ref(), &sample.layout).unwrap();
        strays.iter().map(|stray| format!("{}: {}", stray.file, stray.text)).collect()
    };
    assert_eq!(names(), [""; 0]);
    fs::create_dir(root.join("Upper")).unwrap();
    fs::create_dir(root.join("Upper/a")).unwrap();
    symlink(root.join("acme/a"), root.join("acme/link")).unwrap();
    symlink(root.join("acme"), root.join("other")).unwrap();
    fs::write(root.join("file"), b"").unwrap();
    assert_eq!(
        names(),
        [
            "Upper/a: is no directory of a queue",
            "acme/link: is no directory of a queue",
            "file: is neither a tenant's directory nor the wake file",
            "other: is neither a tenant's directory nor the wake file",
        ]
    );
}

/// Appends, settles in every way, and drains, as a server does, while others look.
fn work(sample: &Sample, rounds: u64) {
    let mut owner = sample.elect(at(1000));
    let mut drained = false;
    for round in 0..rounds {
        let now = at(1000 + round);
        owner.append(&sample.messages(20), now.wall).unwrap();
        while let Step::Deliver(delivery) = owner.next(now).unwrap() {
            let ending = match (delivery.message.id.get() % 5, delivery.attempt) {
                (0, 1) if round % 3 == 0 => Ending::Failed {
                    error: "no".to_owned(),
                    policy: Default::default(),
                    non_retryable: false,
                    retry_after_ms: None,
                },
                (1, _) => Ending::Failed {
                    error: "never".repeat(500),
                    policy: Default::default(),
                    non_retryable: true,
                    retry_after_ms: None,
                },
                _ => Ending::Acknowledge,
            };
            owner.settle(vec![(delivery.message.id, ending)], now, &sample.random).unwrap();
        }
        discard_one(sample, round);
        drained |= owner.poll(at(1000 + round)).unwrap();
    }
    assert!(drained);
    owner.close(at(5000)).unwrap();
}

fn discard_one(sample: &Sample, round: u64) {
    // Not every id is a dead letter.
    let _ = crate::queue::discard(&sample.disk, &sample.layout, &sample.queue, 20 * round + 1);
}

/// Looks again and again while the server works; what that gives is kept until the last look.
fn look_while<T: Send>(sample: &Sample, server: impl FnOnce() -> T + Send) {
    let mut looks = 0;
    std::thread::scope(|scope| {
        let server = scope.spawn(server);
        while !server.is_finished() {
            let verified = sample.verify();
            assert!(verified.findings.are_ok(), "{:#?}", verified.findings);
            looks += 1;
        }
    });
    assert!(looks > 0);
}

#[test]
fn beside_a_working_server_nothing_is_found() {
    let sample = Sample::new();
    look_while(&sample, || work(&sample, 60));
    assert!(sample.verify().findings.are_ok(), "{:#?}", sample.findings());
}

#[test]
fn beside_a_server_that_gives_space_back_nothing_is_found() {
    let sample = Sample::new();
    look_while(&sample, || {
        let mut owner = sample.elect(at(1000));
        owner.set_reclaim_chunk(4096);
        for round in 0..60 {
            let now = at(1000 + round);
            owner.append(&sample.messages(100), now.wall).unwrap();
            while let Step::Deliver(delivery) = owner.next(now).unwrap() {
                let id = delivery.message.id;
                let ending = match id.get() % 300 {
                    7 => Ending::Failed {
                        error: "no".to_owned(),
                        policy: crate::base::RetryPolicy {
                            initial_delay_ms: 3_600_000,
                            max_delay_ms: 3_600_000,
                            ..Default::default()
                        },
                        non_retryable: false,
                        retry_after_ms: None,
                    },
                    _ => Ending::Acknowledge,
                };
                owner.settle(vec![(id, ending)], now, &sample.random).unwrap();
            }
            assert!(!owner.poll(now).unwrap(), "it never drains");
        }
        // Without a worker only holes of the usual size are taken for such.
        owner
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_flipped_bit_of_any_file_is_found(
        file in prop::sample::select(&FILES[..]), bit: prop::sample::Index,
    ) {
        let sample = Sample::full();
        let bits = sample.read(file).len() * 8;
        let bit = bit.index(bits);
        // What lies between the slots belongs to nobody.
        let in_gap = match file {
            "segment.log.ckpt" => (44..4096).contains(&(bit / 8)),
            "worker.lock" => bit / 8 % 32 >= 28,
            _ => false,
        };
        sample.change(file, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
        prop_assert_eq!(sample.verify().findings.are_ok(), in_gap, "{:?}", sample.findings());
    }
}
