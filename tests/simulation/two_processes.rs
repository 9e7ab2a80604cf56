//! Two servers and a person at the shell on one queue: who delivers, what each sees of the others,
//! and what one does between any two operations of another.

use nexus::base::MessageId;

use crate::command_line::Handling;
use crate::disk::Survival;
use crate::steps::*;
use crate::traced;
use crate::world::{COMMAND_LINE, Outcome, Server, World};

/// Lets something happen in a fresh world for each of so many operations.
fn at_each_operation(operations: u64, happening: impl Fn(&mut World, u64)) {
    for at in 0..operations {
        let mut world = small_world(at);
        let outcome = traced(&mut world, |world| {
            happening(world, at);
            world.finish();
        });
        assert!(outcome.is_ok(), "operation {at}: {}", outcome.unwrap_err());
    }
}

#[test]
fn one_server_owns_the_queue_until_it_dies_or_gives_it_up() {
    let mut world = small_world(1);
    submit(&mut world);
    world.elect(0);
    world.elect(1);
    assert!(matches!(world.servers[1], Server::Appends(_)), "two owners");
    world.kill(0);
    world.elect(1);
    assert_eq!(world.owner(), Some(1));
    world.close();
    world.elect(0);
    assert_eq!(world.owner(), Some(0));
    world.finish();
}

#[test]
fn what_another_server_appended_is_delivered_after_the_next_poll_and_in_order() {
    let mut world = small_world(2);
    world.elect(0);
    for _ in 0..3 {
        submit(&mut world);
        submit_elsewhere(&mut world);
    }
    poll(&mut world);
    (0..6).for_each(|_| succeed(&mut world));
    assert_eq!(world.deliveries, [1, 2, 3, 4, 5, 6]);
    world.finish();
}

#[test]
fn an_id_is_not_given_again_though_the_sequence_is_torn_and_the_log_was_drained_meanwhile() {
    // The other server has seen nothing since its own first message.
    let before = [submit_elsewhere, poll, fail_for_good, submit, succeed, poll, submit, succeed];
    for step in [replay as Step, submit] {
        let before = [&before as &[Step], &[poll]].concat();
        dying_at_each_operation_of(&before, step, &[submit_elsewhere, poll, succeed]);
    }
}

#[test]
fn an_append_between_any_two_operations_of_the_owner_is_kept_or_refused() {
    for step in [submit as Step, fail, fail_for_good, poll, sync_checkpoint] {
        at_each_operation(60, |world, at| {
            submit(world);
            submit(world);
            world.elect(0);
            succeed(world);
            step(world);
            world.submit_in_between(at);
            world.cut_power(Survival::Nothing);
        });
    }
}

#[test]
fn a_dead_letter_handled_between_any_two_operations_of_the_owner_stays_handled() {
    for handling in [Handling::Replay, Handling::Discard] {
        at_each_operation(90, |world, at| {
            (0..3).for_each(|_| submit(world));
            fail_for_good(world);
            fail_for_good(world);
            // The marks of the first are applied while the second is handled.
            discard(world);
            succeed(world);
            world.handle_in_between(handling, at);
            world.cut_power(Survival::Nothing);
        });
    }
}

#[test]
fn a_list_that_is_read_while_the_owner_applies_marks_shows_what_is_not_handled() {
    at_each_operation(30, |world, at| {
        submit(world);
        submit(world);
        fail_for_good(world);
        fail_for_good(world);
        assert!(world.handle(MessageId::FIRST, Handling::Discard));
        let owned = std::mem::replace(&mut world.servers[0], Server::Down);
        let Server::Owns(mut owner, _) = owned else { panic!("not the owner") };
        let now = world.clock.now();
        let drain = move || assert!(owner.poll(now).unwrap());
        world.disk.intrude(COMMAND_LINE, at, Box::new(drain));
        assert_eq!(world.dead(), [2]);
        drop(world.disk.take_intruder());
    });
}

#[test]
fn an_owner_that_dies_with_a_message_in_flight_leaves_it_to_the_next() {
    let mut world = small_world(3);
    submit(&mut world);
    submit(&mut world);
    deliver(&mut world);
    world.kill(0);
    world.elect(1);
    world.start_one(1);
    assert_eq!(world.deliveries, [1, 1], "it comes again, and first");
    world.finish();
}

#[test]
fn a_process_whose_log_was_replaced_under_it_refuses() {
    let mut world = small_world(4);
    submit(&mut world);
    world.elect(0);
    let path = world.layout.queue(&world.queue).segment;
    world.disk.lose(&path);
    world.oracle.damaged = true;
    assert!(!world.submit(0), "it was written into a file that nobody can find");
    assert!(matches!(world.servers[0], Server::Down));
    world.finish();
}

#[test]
fn a_message_is_delivered_though_it_took_the_place_of_one_that_the_owner_had_passed() {
    // The last message is settled and stays in the log, for another waits to be tried again. It
    // rots, and the other server, opening the log, takes it for a torn end.
    let mut world = small_world(3);
    submit(&mut world);
    submit(&mut world);
    deliver(&mut world);
    end_all(&mut world, Outcome::Fails);
    succeed(&mut world);
    assert_eq!(world.deliveries, [1, 2]);
    let log = world.layout.queue(&world.queue).segment;
    world.disk.tamper(&log, |bytes| {
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        bytes[last] ^= 1;
    });
    submit_elsewhere(&mut world);
    poll(&mut world);
    // The first message's retry, then a drain.
    world.clock.pass(2500);
    (0..3).for_each(|_| succeed(&mut world));
    poll(&mut world);
    world.oracle.damaged = true;
    world.finish();
    assert!(world.deliveries.contains(&3), "not delivered: {:?}", world.deliveries);
}
