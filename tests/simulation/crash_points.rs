//! Short histories in which every operation in turn fails, is the last before a kill, or is the
//! last before a power cut; then the files are recovered and the history goes on.

use crate::disk::{Fate, Sabotage, Survival};
use crate::steps::*;
use crate::traced;
use crate::world::{Habits, PROCESSES, World};

/// A history: operations are picked from its steps, and not from what comes before them.
struct History {
    before: Vec<Step>,
    steps: Vec<Step>,
    /// Messages of a batch.
    batch: u64,
}

/// What befalls the operation that was picked, and what a power cut then leaves.
type Blow = (Fate, Option<Survival>);

const BLOWS: [Blow; 5] = [
    (Fate::Fails, None),
    (Fate::IsTheLast, None),
    (Fate::IsTheLast, Some(Survival::Any)),
    (Fate::IsTheLast, Some(Survival::All)),
    (Fate::IsTheLast, Some(Survival::Nothing)),
];

/// Plays a history; how many operations its steps took.
fn play(history: &History, blow: Option<(u64, Blow)>, world: &mut World) -> u64 {
    world.habits = Habits { failing: 0, batch: 1, padding: 1, concurrency: history.batch as usize };
    history.before.iter().for_each(|step| step(world));
    let before = world.disk.operations();
    let survival = blow.and_then(|(at, (fate, survival))| {
        world.disk.plan(None, at, fate);
        survival
    });
    for step in &history.steps {
        step(world);
        let died = (0..PROCESSES).find(|process| world.disk.is_dead(*process));
        match (died, survival) {
            (Some(_), Some(survival)) => world.cut_power(survival),
            (Some(process), None) => world.bury(process),
            (None, _) => {}
        }
    }
    let operations = world.disk.operations() - before;
    world.finish();
    operations
}

fn every_operation_of(history: &History) {
    let operations = play(history, None, &mut World::new(1, Sabotage::default()));
    assert!(operations > 10, "the history does nothing");
    for at in 0..operations {
        for blow in BLOWS {
            let mut world = World::new(at, Sabotage::default());
            let outcome = traced(&mut world, |world| {
                play(history, Some((at, blow)), world);
            });
            if let Err(trace) = outcome {
                panic!("operation {at}, {blow:?}:\n{trace}");
            }
        }
    }
}

#[test]
fn at_every_operation_while_messages_are_accepted_delivered_and_drained() {
    every_operation_of(&History {
        before: vec![],
        steps: vec![submit, succeed, submit, sync_checkpoint, succeed, poll, submit, succeed],
        batch: 1,
    });
}

#[test]
fn at_every_operation_from_the_first_failure_to_a_discarded_dead_letter() {
    every_operation_of(&History {
        before: vec![submit, submit, fail],
        steps: vec![fail, sync_checkpoint, fail, discard, submit, succeed, poll, poll],
        batch: 1,
    });
}

#[test]
fn at_every_operation_of_a_replay_and_of_the_drain_that_applies_the_marks() {
    every_operation_of(&History {
        before: vec![submit, submit, fail_for_good, fail_for_good],
        steps: vec![replay, discard, poll, succeed, poll, submit, fail_for_good, poll, replay],
        batch: 1,
    });
}

#[test]
fn at_every_operation_while_two_servers_append_and_the_owner_changes() {
    every_operation_of(&History {
        before: vec![submit],
        steps: vec![submit_elsewhere, poll, succeed, change_owner, submit, succeed, succeed, poll],
        batch: 1,
    });
}

#[test]
fn at_every_operation_around_a_compaction() {
    let mut before: Vec<Step> = vec![submit; 30];
    before.extend([fail as Step, fail]);
    let steps: Vec<Step> = vec![fail_for_good, submit, fail, poll, fail, poll];
    every_operation_of(&History { before, steps, batch: 30 });
}
