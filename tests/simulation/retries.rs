//! Retries: due times over restarts and steps of the wall clock, attempts over crashes, and the
//! schedule when it is compacted.

use crate::disk::{Fate, Faults, Survival};
use crate::steps::*;
use crate::world::{Outcome, Server, World};

/// One message whose first attempt has just failed: it is due in 1000 ms.
fn with_a_retry(seed: u64) -> World {
    let mut world = small_world(seed);
    submit(&mut world);
    deliver(&mut world);
    end_all(&mut world, Outcome::Fails);
    world.clock.pass(400);
    world
}

/// Whether the retry comes now.
fn comes(world: &mut World) -> bool {
    let before = world.deliveries.len();
    let owner = world.owner().unwrap();
    world.start_one(owner);
    world.deliveries.len() > before
}

#[test]
fn a_due_time_is_kept_over_a_kill() {
    let mut world = with_a_retry(1);
    world.kill(0);
    world.elect(1);
    assert!(!comes(&mut world));
    world.clock.pass(599);
    assert!(!comes(&mut world));
    world.clock.pass(1);
    assert!(comes(&mut world));
    world.finish();
}

#[test]
fn a_retry_that_is_overdue_after_a_restart_comes_at_once() {
    let mut world = with_a_retry(2);
    world.cut_power(Survival::Nothing);
    world.elect(0);
    assert!(comes(&mut world));
    world.finish();
}

#[test]
fn a_step_of_the_wall_clock_neither_freezes_nor_releases_a_retry() {
    for step in [-7_200_000, 7_200_000] {
        let mut world = with_a_retry(3);
        world.clock.step_wall(step);
        world.clock.pass(599);
        assert!(!comes(&mut world), "released by {step}");
        world.clock.pass(1);
        assert!(comes(&mut world), "frozen by {step}");
        world.finish();
    }
}

#[test]
fn a_retry_that_lies_further_ahead_than_its_delay_after_a_restart_waits_its_delay() {
    let mut world = with_a_retry(4);
    world.clock.step_wall(-7_200_000);
    world.kill(0);
    world.elect(1);
    world.clock.pass(999);
    assert!(!comes(&mut world));
    world.clock.pass(1);
    assert!(comes(&mut world));
    world.finish();
}

#[test]
fn attempts_go_on_where_they_were_and_end_with_the_budget() {
    let mut world = with_a_retry(5);
    for restart in [true, false] {
        world.clock.pass(5000);
        if restart {
            world.cut_power(Survival::Nothing);
        }
        fail(&mut world);
    }
    assert_eq!(world.dead(), [1]);
    assert_eq!(world.deliveries, [1, 1, 1]);
    world.finish();
}

#[test]
fn crashes_are_not_charged_and_the_fifth_makes_it_a_dead_letter() {
    let mut world = small_world(6);
    submit(&mut world);
    for _ in 0..5 {
        assert!(world.dead().is_empty());
        deliver(&mut world);
        world.kill(0);
    }
    deliver(&mut world);
    assert_eq!(world.deliveries, [1; 5]);
    assert_eq!(world.dead(), [1]);
    world.finish();
}

#[test]
fn an_election_that_fails_counts_no_further_crash() {
    for seed in 0..100 {
        let mut world = small_world(seed);
        submit(&mut world);
        deliver(&mut world);
        world.kill(0);
        let failing_sync_of = Some("segment.log.retry");
        world.disk.set_faults(Faults { failing_sync_of, ..Faults::default() });
        for _ in 0..30 {
            if world.owner().is_none() {
                world.elect(0);
            }
        }
        world.disk.heal();
        succeed(&mut world);
        assert_eq!(world.deliveries, [1, 1], "seed {seed}");
        world.finish();
    }
}

#[test]
fn a_shutdown_is_no_crash() {
    let mut world = small_world(7);
    submit(&mut world);
    for _ in 0..10 {
        deliver(&mut world);
        world.close();
    }
    succeed(&mut world);
    assert_eq!(world.deliveries, [1; 11]);
    world.finish();
}

/// Sixty messages, all waiting for a retry, and the schedule long enough to be compacted.
fn with_a_long_schedule(seed: u64) -> World {
    let mut world = small_world(seed);
    world.habits.concurrency = 60;
    (0..60).for_each(|_| submit(&mut world));
    fail(&mut world);
    world
}

#[test]
fn compaction_keeps_what_is_pending_and_what_is_in_flight() {
    let mut world = with_a_long_schedule(8);
    world.habits.concurrency = 58;
    fail_for_good(&mut world);
    world.habits.concurrency = 1;
    deliver(&mut world);
    let before = world.bytes("segment.log.retry").len();
    poll(&mut world);
    let after = world.bytes("segment.log.retry").len();
    assert!(after < before && after >= 2 * 52, "{before} {after}");
    world.cut_power(Survival::Nothing);
    world.elect(0);
    let Server::Owns(owner, _) = &world.servers[0] else { panic!("not the owner") };
    assert_eq!(owner.counts().retrying, 2);
    world.finish();
}

#[test]
fn compaction_keeps_what_is_done_behind_a_message_that_is_not_settled() {
    let mut world = small_world(9);
    world.habits.concurrency = 64;
    (0..61).for_each(|_| submit(&mut world));
    // The first is in flight all the time; the others wait for their retries.
    world.elect(0);
    (0..61).for_each(|_| assert!(!world.start_one(0)));
    world.end_all_but_the_first(0, Outcome::Fails);
    world.kill(0);
    // The next owner reads past the others while they wait, and then they succeed.
    world.elect(0);
    assert!(comes(&mut world));
    assert!(!comes(&mut world));
    world.clock.pass(2000);
    (0..60).for_each(|_| assert!(comes(&mut world)));
    world.end_all_but_the_first(0, Outcome::Succeeds);
    poll(&mut world);
    world.cut_power(Survival::Nothing);
    // The oracle knows that a retry which is done is done for good.
    world.finish();
}

#[test]
fn a_drain_that_fails_at_any_operation_leaves_no_hole_in_the_schedule() {
    for at in 0..120 {
        let mut world = with_a_retry(at);
        world.clock.pass(1000);
        succeed(&mut world);
        world.disk.plan(None, at % 60, Fate::Fails);
        poll(&mut world);
        world.disk.heal();
        submit(&mut world);
        fail(&mut world);
        sync_checkpoint(&mut world);
        world.cut_power(Survival::All);
        world.reports.clear();
        world.recover();
        assert_eq!(world.reports, [], "operation {}", at % 60);
        world.finish();
    }
}
