//! The queue engine on a simulated disk, with simulated clocks, in one thread, replayed by seed.
//!
//! `cargo test` runs some thousands of random histories; `NEXUS_SIM_SEEDS=100000 cargo test
//! --release --test simulation` runs more, and `NEXUS_SIM_SEED=123` runs one and prints its
//! history.
//!
//! `disk`, `platter` and `calls` are the disk, `clock` the clocks, `world`, `command_line` and
//! `workload` the histories, `oracle` and `aftermath` what is checked. The other files are tests of
//! one kind of claim each.

mod aftermath;
mod calls;
mod clock;
mod command_line;
mod crash_points;
mod disk;
mod fsync;
mod full_disk;
mod oracle;
mod platter;
mod regressions;
mod retries;
mod rot;
mod steps;
mod two_processes;
mod workload;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use disk::Sabotage;
use world::World;

/// Histories of a plain `cargo test`.
const SEEDS: u64 = 2000;

/// Lines of a failed history that are shown.
const SHOWN: usize = 60;

/// Runs one random history.
fn run(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    let mut world = World::new(seed, sabotage);
    traced(&mut world, |world| {
        world.live(seed, World::check);
        world.finish();
    })
}

/// Lets something happen in a world; the end of its trace and the reason when a rule was broken.
fn traced(world: &mut World, happening: impl FnOnce(&mut World)) -> Result<(), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| happening(world)));
    outcome.map_err(|panic| {
        let why = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_default();
        let tail = &world.trace[world.trace.len().saturating_sub(SHOWN)..];
        format!("{}\n=> {why}", tail.join("\n"))
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
    let from = number("NEXUS_SIM_FROM").unwrap_or(0);
    let seeds = number("NEXUS_SIM_SEEDS").unwrap_or(SEEDS);
    for seed in from..from + seeds {
        if let Err(trace) = run(seed, Sabotage::default()) {
            panic!(
                "seed {seed} broke a promise; run it again with\n  \
                 NEXUS_SIM_SEED={seed} cargo test --test simulation no_history\n{trace}"
            );
        }
    }
}
