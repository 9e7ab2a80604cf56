//! The shortest histories that broke earlier drafts of the file protocol, one test each, numbered
//! as in the collection of traces. Where a history needs a part that is not in this layer (deleting
//! the files of an idle queue, giving back space, real processes), the test says which half of it
//! is here.

use nexus::base::MessageId;
use nexus::disk::{DiskFile, Open};
use nexus::queue::{FaultKind, NewMessage};

use crate::command_line::Handling;
use crate::disk::{Fate, Faults, Survival};
use crate::steps::*;
use crate::traced;
use crate::world::{COMMAND_LINE, Outcome, Server, World};

fn id(n: u64) -> MessageId {
    MessageId::new(n).unwrap()
}

/// The other server takes over, and its checkpoint is on the disk.
fn taken_over_and_synced(world: &mut World) {
    world.kill(0);
    world.elect(1);
    for _ in 0..4 {
        world.start_one(1);
        world.end_all(1, Outcome::Succeeds);
        world.clock.pass(2500);
    }
    world.sync_checkpoint(true);
}

fn times(world: &World, id: u64) -> usize {
    world.deliveries.iter().filter(|delivered| **delivered == id).count()
}

#[test]
fn t01_a_checkpoint_older_than_the_drain_does_not_hide_new_messages() {
    let mut world = small_world(1);
    submit(&mut world);
    succeed(&mut world);
    sync_checkpoint(&mut world);
    let (path, old) =
        (world.layout.queue(&world.queue).checkpoint, world.bytes("segment.log.ckpt"));
    poll(&mut world);
    submit(&mut world);
    let len = world.bytes("segment.log").len();
    world.disk.tamper(&path, |bytes| *bytes = old);
    world.cut_power(Survival::All);
    world.recover();
    assert_eq!(world.bytes("segment.log").len(), len, "the second frame lies where the first lay");
    world.work_off();
    assert_eq!(world.deliveries, [1, 2]);
    world.finish();
}

#[test]
fn t02_what_a_dead_owner_left_unsynced_is_synced_before_it_is_relied_on() {
    for step in [fail_for_good as Step, fail] {
        let after = [taken_over_and_synced, lose_what_is_not_synced];
        dying_at_each_operation_of(&[submit, submit], step, &after);
    }
}

#[test]
fn t03_a_frame_that_its_writer_never_synced_is_synced_before_it_is_delivered() {
    let after = [poll, succeed, succeed, sync_checkpoint, lose_what_is_not_synced, submit];
    dying_at_each_operation_of(&[submit, succeed], submit_elsewhere, &after);
}

#[test]
fn t04_after_a_failed_sync_only_writing_again_helps() {
    fn fails_and_dies(world: &mut World) {
        world.disk.set_faults(Faults { failing_sync_of: Some("segment.log"), ..Faults::default() });
        let _ = world.submit(1);
        world.disk.heal();
        world.kill(1);
    }
    for seed in 0..60 {
        let mut world = small_world(seed);
        let outcome = traced(&mut world, |world| {
            let steps: [Step; 7] = [
                submit,
                succeed,
                fails_and_dies,
                poll,
                submit,
                lose_what_is_not_synced,
                submit_elsewhere,
            ];
            steps.iter().for_each(|step| step(world));
            world.finish();
        });
        assert!(outcome.is_ok(), "seed {seed}: {}", outcome.unwrap_err());
    }
}

#[test]
fn t04_a_checkpoint_that_a_dead_owner_could_not_sync_is_written_again_before_the_other_slot() {
    // Rare: the failed sync must have carried nothing over, and the cut must tear the next slot.
    for seed in 0..500 {
        let mut world = small_world(seed);
        let outcome = traced(&mut world, |world| {
            (0..4).for_each(|_| submit(world));
            succeed(world);
            sync_checkpoint(world);
            let failing_sync_of = Some("segment.log.ckpt");
            world.disk.set_faults(Faults { failing_sync_of, ..Faults::default() });
            succeed(world);
            sync_checkpoint(world);
            world.disk.heal();
            change_owner_by_a_kill(world);
            succeed(world);
            world.cut_power(Survival::Any);
            // The oracle holds it against the engine if no slot is left.
            world.finish();
        });
        assert!(outcome.is_ok(), "seed {seed}: {}", outcome.unwrap_err());
    }
}

fn change_owner_by_a_kill(world: &mut World) {
    world.kill(0);
    world.elect(1);
}

#[test]
fn t05_a_file_made_by_a_process_that_died_has_a_durable_name_before_the_first_202() {
    dying_at_each_operation_of(&[], submit_elsewhere, &[submit, lose_what_is_not_synced]);
}

#[test]
fn t06_a_cached_next_id_is_not_used_after_a_drain_that_led_to_the_same_length() {
    let mut world = small_world(6);
    submit(&mut world);
    world.elect(1);
    world.start_one(1);
    world.end_all(1, Outcome::Succeeds);
    poll(&mut world);
    assert!(world.bytes("segment.log").is_empty());
    submit_elsewhere(&mut world);
    submit(&mut world);
    poll(&mut world);
    world.finish();
    assert_eq!(world.deliveries, [1, 2, 3]);
}

/// Deleting the checkpoint is done here by hand.
#[test]
fn t07_ids_survive_a_lost_sequence_a_drain_and_a_lost_checkpoint() {
    let mut world = small_world(7);
    submit(&mut world);
    submit(&mut world);
    let paths = world.layout.queue(&world.queue);
    world.disk.lose(&paths.sequence);
    world.cut_power(Survival::Nothing);
    world.recover();
    world.work_off();
    world.cut_power(Survival::Nothing);
    world.disk.lose(&paths.checkpoint);
    world.oracle.damaged = true;
    submit(&mut world);
    world.finish();
    assert_eq!(world.deliveries, [1, 2, 3]);
}

/// Giving back space is done here by hand.
#[test]
fn t08_space_that_was_given_back_in_front_is_no_damage_and_no_torn_tail() {
    let mut world = small_world(8);
    (0..3).for_each(|_| submit(&mut world));
    succeed(&mut world);
    succeed(&mut world);
    sync_checkpoint(&mut world);
    world.reports.clear();
    let (path, log) = (world.layout.queue(&world.queue).segment, world.bytes("segment.log"));
    world.disk.tamper(&path, |bytes| bytes[..log.len() / 3].fill(0));
    submit_elsewhere(&mut world);
    assert!(world.bytes("segment.log").len() > log.len(), "appended behind what was there");
    world.cut_power(Survival::All);
    world.finish();
    assert_eq!(world.deliveries, [1, 2, 3, 4]);
    assert_eq!(world.reports, []);
}

#[test]
fn t09_a_retry_that_the_checkpoint_does_not_know_yet_is_no_damage() {
    dying_at_each_operation_of(&[submit, submit, succeed, sync_checkpoint], fail, &[succeed]);
}

#[test]
fn t10_two_checkpoints_between_two_syncs_do_not_tear_both_slots() {
    for seed in 0..100 {
        let mut world = small_world(seed);
        let outcome = traced(&mut world, |world| {
            (0..4).for_each(|_| submit(world));
            succeed(world);
            sync_checkpoint(world);
            succeed(world);
            succeed(world);
            world.cut_power(Survival::Any);
            // The oracle holds it against the engine if the first comes again.
            world.finish();
        });
        assert!(outcome.is_ok(), "seed {seed}: {}", outcome.unwrap_err());
    }
}

#[test]
fn t11_a_checkpoint_whose_sync_failed_is_written_again() {
    for seed in 0..100 {
        let mut world = small_world(seed);
        let outcome = traced(&mut world, |world| {
            (0..4).for_each(|_| submit(world));
            succeed(world);
            let end = Some("segment.log.ckpt");
            world.disk.set_faults(Faults { failing_sync_of: end, ..Faults::default() });
            (0..5).for_each(|_| sync_checkpoint(world));
            world.disk.heal();
            sync_checkpoint(world);
            world.cut_power(Survival::Nothing);
            world.finish();
            assert_eq!(times(world, 1), 1);
        });
        assert!(outcome.is_ok(), "seed {seed}: {}", outcome.unwrap_err());
    }
}

#[test]
fn t12_a_dead_letter_is_synced_before_a_person_acts_on_it() {
    for step in [discard as Step, replay] {
        let after = [step, lose_what_is_not_synced, poll];
        dying_at_each_operation_of(&[submit, submit], fail_for_good, &after);
    }
}

#[test]
fn t13_a_dead_letter_wins_over_a_retry_whose_end_was_lost() {
    for survival in [lose_what_is_not_synced as Step, |world| world.cut_power(Survival::Any)] {
        let after = [survival, poll, discard, poll];
        dying_at_each_operation_of(&[submit, submit, fail, succeed], fail_for_good, &after);
    }
}

#[test]
fn t14_marks_are_applied_only_when_the_log_is_empty() {
    let mut world = small_world(14);
    submit(&mut world);
    submit(&mut world);
    fail_for_good(&mut world);
    discard(&mut world);
    poll(&mut world);
    assert!(!world.bytes("dlq.log").is_empty(), "the message still stands in the log");
    world.cut_power(Survival::Nothing);
    succeed(&mut world);
    poll(&mut world);
    assert!(world.bytes("dlq.log").is_empty() && world.bytes("dlq.log.acked").is_empty());
    world.finish();
    assert_eq!(times(&world, 1), 1);
}

#[test]
fn t15_a_retry_that_succeeds_before_the_scan_reaches_its_frame_is_done() {
    let mut world = small_world(15);
    submit(&mut world);
    submit(&mut world);
    succeed(&mut world);
    fail(&mut world);
    sync_checkpoint(&mut world);
    world.disk.lose(&world.layout.queue(&world.queue).checkpoint);
    world.cut_power(Survival::All);
    world.oracle.damaged = true;
    world.deliveries.clear();
    succeed(&mut world);
    assert_eq!(world.deliveries, [2], "the retry comes first");
    world.work_off();
    assert_eq!(world.deliveries, [2, 1]);
}

#[test]
fn t16_a_torn_record_is_cut_before_more_are_written_behind_it() {
    let mut world = small_world(16);
    (0..3).for_each(|_| submit(&mut world));
    fail(&mut world);
    let path = world.layout.queue(&world.queue).retry;
    world.disk.tamper(&path, |bytes| bytes.extend([7; 20]));
    world.cut_power(Survival::All);
    world.recover();
    world.reports.clear();
    fail(&mut world);
    fail(&mut world);
    sync_checkpoint(&mut world);
    world.cut_power(Survival::Nothing);
    world.recover();
    let Server::Owns(owner, _) = &world.servers[0] else { panic!("not the owner") };
    assert_eq!(owner.counts().retrying, 2);
    assert_eq!(world.reports, []);
    world.finish();
}

#[test]
fn t17_a_message_that_comes_in_the_middle_of_a_drain_is_kept() {
    let mut accepted = 0;
    for at in 0..80 {
        let mut world = small_world(at);
        let outcome = traced(&mut world, |world| {
            submit(world);
            world.ensure(1);
            succeed(world);
            // In the middle of the poll that drains, or of the one after it.
            world.submit_in_between(at);
            poll(world);
            world.cut_power(Survival::Nothing);
            world.finish();
        });
        assert!(outcome.is_ok(), "operation {at}: {}", outcome.unwrap_err());
        // While the drain holds the lock it is refused.
        accepted += times(&world, 2);
    }
    assert!(accepted > 20, "{accepted}");
}

/// Here one replay comes at each operation of another; twelve real processes are a test of the
/// program.
#[test]
fn t18_of_two_replays_at_once_one_wins() {
    for at in 0..60 {
        let mut world = small_world(at);
        let outcome = traced(&mut world, |world| {
            submit(world);
            fail_for_good(world);
            let handle = world.handling(1, id(1), Handling::Replay);
            let other = std::sync::Arc::new(std::sync::Mutex::new(None));
            let slot = std::sync::Arc::clone(&other);
            let act = move || *slot.lock().unwrap() = Some(handle());
            world.disk.intrude(COMMAND_LINE, at, Box::new(act));
            let first = world.handling(COMMAND_LINE, id(1), Handling::Replay)();
            if let Some(late) = world.disk.take_intruder() {
                late();
            }
            let second = other.lock().unwrap().take().unwrap();
            assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
            poll(world);
            world.oracle.touched(id(1), Handling::Replay);
            let won = if first.is_ok() { first } else { second };
            world.handled(id(1), Handling::Replay, won);
            world.finish();
            assert_eq!(world.deliveries, [1, 2]);
        });
        assert!(outcome.is_ok(), "operation {at}: {}", outcome.unwrap_err());
    }
}

/// Here the lock is merely held; a stopped process is a test of the program.
#[test]
fn t19_a_lock_that_does_not_come_free_refuses_and_writes_nothing() {
    let mut world = small_world(19);
    submit(&mut world);
    let before = world.bytes("segment.log");
    let path = world.layout.queue(&world.queue).append_lock;
    let held: Box<dyn DiskFile> = world.disk_of(COMMAND_LINE).open(&path, Open::Write).unwrap();
    assert!(held.lock(std::time::Duration::ZERO).unwrap());
    let Server::Appends(appender) = &mut world.servers[0] else { panic!("not an appender") };
    let error = appender.append(&[] as &[NewMessage], world.clock.now().wall).unwrap_err();
    assert_eq!(error.kind, FaultKind::Locked);
    assert!(error.text.contains("append.lock"), "{error}");
    assert_eq!(world.bytes("segment.log"), before);
    drop(held);
    submit(&mut world);
    world.finish();
    assert_eq!(world.deliveries, [1, 2]);
}

#[test]
fn t20_a_queue_is_named_in_the_wake_file_before_the_dead_letter_is_marked() {
    for at in 0.. {
        let mut world = small_world(at);
        submit(&mut world);
        fail_for_good(&mut world);
        let wake = world.layout.wake_file();
        world.disk.plan(Some(COMMAND_LINE), at, Fate::IsTheLast);
        let done = world.handle(id(1), Handling::Replay);
        world.disk.heal();
        world.disk.revive(COMMAND_LINE);
        let named = world.disk.bytes(&wake).is_some_and(|line| line == b"acme/forward-order\n");
        assert!(named || world.dead() == [1], "marked, and nobody is told: operation {at}");
        world.finish();
        if done {
            assert!(at > 10);
            return;
        }
    }
}
