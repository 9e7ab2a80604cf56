//! The steps that scripted histories are made of. Server 0 owns the queue unless another was
//! elected.

use crate::command_line::Handling;
use crate::disk::{Fate, Process, Sabotage, Survival};
use crate::traced;
use crate::world::{Habits, Outcome, PROCESSES, World};

pub type Step = fn(&mut World);

pub fn owner(world: &mut World) -> Process {
    if world.owner().is_none() {
        world.elect(0);
    }
    world.owner().unwrap_or(0)
}

pub fn submit(world: &mut World) {
    let _ = world.submit(0);
}

pub fn submit_elsewhere(world: &mut World) {
    let _ = world.submit(1);
}

pub fn deliver(world: &mut World) {
    let owner = owner(world);
    for _ in 0..world.habits.concurrency {
        world.start_one(owner);
    }
}

pub fn end_all(world: &mut World, outcome: Outcome) {
    if let Some(owner) = world.owner() {
        world.end_all(owner, outcome);
    }
}

pub fn succeed(world: &mut World) {
    deliver(world);
    end_all(world, Outcome::Succeeds);
}

pub fn fail(world: &mut World) {
    deliver(world);
    end_all(world, Outcome::Fails);
    world.clock.pass(2500);
}

pub fn fail_for_good(world: &mut World) {
    deliver(world);
    end_all(world, Outcome::FailsForGood);
}

pub fn poll(world: &mut World) {
    world.clock.pass(500);
    owner(world);
    world.poll();
}

pub fn sync_checkpoint(world: &mut World) {
    world.sync_checkpoint(true);
}

pub fn discard(world: &mut World) {
    world.handle_one(Handling::Discard);
}

pub fn replay(world: &mut World) {
    world.handle_one(Handling::Replay);
}

pub fn change_owner(world: &mut World) {
    world.close();
    world.elect(1);
}

/// A power cut after which nothing is there that was not synced.
pub fn lose_what_is_not_synced(world: &mut World) {
    world.cut_power(Survival::Nothing);
}

/// A world with short messages, one at a time.
pub fn small_world(seed: u64) -> World {
    let mut world = World::new(seed, Sabotage::default());
    world.habits = Habits { failing: 0, batch: 1, padding: 1, concurrency: 1 };
    world
}

/// Lets each operation of a step in turn be the last of the process that does it, and then goes on.
/// Every run ends with everything worked off and counted.
pub fn dying_at_each_operation_of(before: &[Step], step: Step, after: &[Step]) {
    for at in 0.. {
        let mut world = small_world(at);
        let mut died = None;
        let outcome = traced(&mut world, |world| {
            before.iter().for_each(|step| step(world));
            world.disk.plan(None, at, Fate::IsTheLast);
            step(world);
            world.disk.heal();
            died = (0..PROCESSES).find(|process| world.disk.is_dead(*process));
            died.into_iter().for_each(|process| world.bury(process));
            after.iter().for_each(|step| step(world));
            world.finish();
        });
        if let Err(trace) = outcome {
            panic!("died in operation {at}:\n{trace}");
        }
        if died.is_none() {
            assert!(at > 2, "the step does nothing");
            return;
        }
    }
}
