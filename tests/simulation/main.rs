//! The queue engine on a simulated disk, with simulated clocks, in one thread, replayed by seed.
//!
//! `cargo test` runs some thousands of random histories; `NEXUS_SIM_SEEDS=100000 cargo test
//! --release --test simulation` runs more, and `NEXUS_SIM_SEED=123` runs one and prints its
//! history.

mod disk;
mod repair;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use disk::Sabotage;
use world::World;

const STEPS: u64 = 120;

/// Runs one history; its trace when a rule was broken.
fn run(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    let mut world = World::new(seed, sabotage);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        for _ in 0..STEPS {
            world.step();
        }
        world.finish();
    }));
    outcome.map_err(|panic| {
        let why = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        format!("{}\n=> {why}", world.trace.join("\n"))
    })
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_history_of_crashes_and_faults_breaks_a_promise() {
    if let Some(seed) = number("NEXUS_SIM_SEED") {
        if let Err(trace) = run(seed, Sabotage::default()) {
            panic!("seed {seed}:\n{trace}");
        }
        return;
    }
    let seeds = number("NEXUS_SIM_SEEDS").unwrap_or(3000);
    for seed in 0..seeds {
        if let Err(trace) = run(seed, Sabotage::default()) {
            let tail: Vec<&str> = trace.lines().rev().take(40).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            panic!(
                "seed {seed} broke a promise; run it again with\n  \
                 NEXUS_SIM_SEED={seed} cargo test --test simulation\n{}",
                tail.join("\n")
            );
        }
    }
}

/// The seed, of so many, at which a planted bug first breaks a promise.
fn caught_at(sabotage: Sabotage, seeds: u64) -> Option<u64> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = (0..seeds).find(|seed| run(*seed, sabotage).is_err());
    std::panic::set_hook(hook);
    found
}

#[test]
fn a_disk_that_skips_a_sync_is_caught() {
    let skipped: [&[&str]; 6] = [
        &["segment.log"],
        &["segment.log.retry"],
        &["dlq.log"],
        &["dlq.log.acked"],
        &["segment.log.ckpt"],
        &["segment.log.seq", "segment.log.ckpt"],
    ];
    for skip_sync_of in skipped {
        let sabotage = Sabotage { skip_sync_of, ..Sabotage::default() };
        let c = caught_at(sabotage, 2000);
        println!("{skip_sync_of:?} {c:?}");
    }
    let sabotage = Sabotage { skip_dir_sync: true, ..Sabotage::default() };
    assert!(caught_at(sabotage, 2000).is_some(), "nobody noticed: syncs of directories");
}
