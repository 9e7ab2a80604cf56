//! Syncs that fail, and syncs that are left out: the first must do no harm, the second must be
//! noticed, or the simulation is blind.

use crate::disk::{Faults, Sabotage, Survival};
use crate::oracle::Oracle;
use crate::run;
use crate::steps::*;
use crate::traced;
use crate::world::{Outcome, World};

/// Histories within which a missing sync must be noticed.
const SEEDS: u64 = 300;

/// Whether a planted bug breaks a promise.
fn is_caught(sabotage: Sabotage) -> bool {
    (0..SEEDS).any(|seed| run(seed, sabotage).is_err())
}

fn is_caught_without_syncs_of(file: &'static str) {
    let sabotage = Sabotage { skip_sync_of: Some(file), ..Sabotage::default() };
    assert!(is_caught(sabotage), "{file} is never synced, and nobody noticed");
}

#[test]
fn a_log_that_is_never_synced_is_noticed() {
    is_caught_without_syncs_of("segment.log");
}

#[test]
fn a_checkpoint_that_is_never_synced_is_noticed() {
    is_caught_without_syncs_of("segment.log.ckpt");
}

#[test]
fn a_schedule_that_is_never_synced_is_noticed() {
    is_caught_without_syncs_of("segment.log.retry");
}

#[test]
fn dead_letters_that_are_never_synced_are_noticed() {
    is_caught_without_syncs_of("dlq.log");
}

#[test]
fn marks_that_are_never_synced_are_noticed() {
    is_caught_without_syncs_of("dlq.log.acked");
}

/// The checkpoint's id says the same as `.seq`: only with both gone is an id given twice.
#[test]
fn a_sequence_that_is_never_synced_is_noticed_once_the_checkpoint_is_lost_too() {
    let without = Sabotage { skip_sync_of: Some("segment.log.seq"), ..Sabotage::default() };
    for (sabotage, next) in [(Sabotage::default(), 2), (without, 1)] {
        let mut world = small_world(7);
        world.disk.set_sabotage(sabotage);
        submit(&mut world);
        world.recover();
        world.work_off();
        world.cut_power(Survival::Nothing);
        world.disk.lose(&world.layout.queue(&world.queue).checkpoint);
        world.oracle = Oracle::default();
        world.oracle.damaged = true;
        submit(&mut world);
        world.finish();
        assert_eq!(world.deliveries, [1, next]);
    }
}

#[test]
fn a_replacement_that_is_not_synced_before_it_is_renamed_is_noticed() {
    is_caught_without_syncs_of(".tmp");
}

#[test]
fn names_that_are_never_synced_are_noticed() {
    let sabotage = Sabotage { skip_dir_sync: true, ..Sabotage::default() };
    assert!(is_caught(sabotage), "directories are never synced, and nobody noticed");
}

/// A world whose every other sync of this file fails.
fn failing(seed: u64, file: &'static str, happening: impl FnOnce(&mut World)) {
    let mut world = small_world(seed);
    let outcome = traced(&mut world, |world| {
        (0..3).for_each(|_| submit(world));
        world.recover();
        world.disk.set_faults(Faults { failing_sync_of: Some(file), ..Faults::default() });
        happening(world);
        world.finish();
    });
    assert!(outcome.is_ok(), "seed {seed}: {}", outcome.unwrap_err());
}

#[test]
fn a_batch_whose_sync_fails_is_undone_and_its_bytes_are_gone() {
    let mut undone = 0;
    for seed in 0..60 {
        failing(seed, "segment.log", |world| {
            let before = world.bytes("segment.log");
            if world.submit(0) {
                return;
            }
            world.disk.heal();
            // Whether it was undone, or poisoned the queue, a power cut brings nothing back.
            let poisoned = !world.submit(0);
            if !poisoned {
                undone += 1;
                let log = world.bytes("segment.log");
                assert!(log.starts_with(&before) && log.len() < 2 * before.len());
            }
            world.cut_power(Survival::Nothing);
        });
    }
    assert!(undone > 5, "{undone}");
}

#[test]
fn nothing_starts_while_an_outcome_cannot_be_synced_and_it_is_settled_once_it_can() {
    let files: [(&str, Step); 3] =
        [("segment.log.retry", fail), ("dlq.log", fail_for_good), ("segment.log.ckpt", succeed)];
    for (file, step) in files {
        let mut stalls = 0;
        for seed in 0..40 {
            failing(seed, file, |world| {
                step(world);
                sync_checkpoint(world);
                stalls += u32::from(world.start_one(0));
                world.disk.heal();
                end_all(world, Outcome::Succeeds);
                assert!(!world.start_one(0), "it does not go on");
                sync_checkpoint(world);
                world.cut_power(Survival::Nothing);
            });
        }
        assert!(stalls > 5, "{file}: {stalls}");
    }
}
