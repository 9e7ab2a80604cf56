//! A full disk: new messages are refused, nothing is lost or charged, and it heals by itself when
//! there is room again.

use crate::command_line::Handling;
use crate::disk::{Faults, Survival};
use crate::steps::*;
use crate::world::{Outcome, World};

fn full(world: &World) {
    world.disk.set_faults(Faults { full: true, ..Faults::default() });
}

fn with_three_messages() -> World {
    let mut world = small_world(5);
    (0..3).for_each(|_| submit(&mut world));
    world.recover();
    world
}

#[test]
fn new_messages_are_refused_and_taken_again_once_there_is_room() {
    let mut world = with_three_messages();
    let before = world.bytes("segment.log");
    full(&world);
    for _ in 0..5 {
        assert!(!world.submit(0));
        assert_eq!(world.bytes("segment.log"), before, "a part of it was left");
    }
    world.disk.heal();
    assert!(world.submit(0));
    world.cut_power(Survival::Nothing);
    world.finish();
    assert_eq!(world.deliveries.len(), 4);
}

#[test]
fn messages_are_still_delivered_and_acknowledged() {
    let mut world = with_three_messages();
    // Both slots of the checkpoint are there.
    for _ in 0..2 {
        succeed(&mut world);
        sync_checkpoint(&mut world);
    }
    submit(&mut world);
    full(&world);
    (0..2).for_each(|_| succeed(&mut world));
    sync_checkpoint(&mut world);
    assert_eq!(world.deliveries, [1, 2, 3, 4]);
    poll(&mut world);
    assert!(world.bytes("segment.log").is_empty(), "a drain needs no room");
    world.finish();
}

#[test]
fn a_failure_that_cannot_be_written_down_waits_and_is_charged_once() {
    for step in [fail as Step, fail_for_good] {
        let mut world = with_three_messages();
        full(&world);
        step(&mut world);
        for _ in 0..5 {
            end_all(&mut world, Outcome::Succeeds);
            assert!(world.start_one(0), "something starts though an outcome is not on the disk");
        }
        assert_eq!(world.deliveries, [1]);
        world.disk.heal();
        end_all(&mut world, Outcome::Succeeds);
        assert!(!world.start_one(0));
        world.cut_power(Survival::Nothing);
        // The oracle counts the attempts.
        world.finish();
    }
}

#[test]
fn a_dead_letter_that_cannot_be_handled_stays_as_it_is() {
    for handling in [Handling::Replay, Handling::Discard] {
        let mut world = with_three_messages();
        fail_for_good(&mut world);
        full(&world);
        let id = nexus::base::MessageId::FIRST;
        for _ in 0..3 {
            assert!(!world.handle(id, handling));
            assert_eq!(world.dead(), [1]);
        }
        world.disk.heal();
        assert!(world.handle(id, handling));
        assert!(world.dead().is_empty());
        poll(&mut world);
        world.finish();
    }
}

#[test]
fn a_queue_that_is_opened_on_a_full_disk_loses_nothing() {
    let mut world = with_three_messages();
    fail(&mut world);
    world.cut_power(Survival::All);
    full(&world);
    world.elect(0);
    succeed(&mut world);
    world.finish();
}
