//! The queue engine on a simulated disk, with simulated clocks: each history in one thread, and
//! replayed by its seed.
//!
//! `cargo test` runs some thousands of random histories; `NEXUS_SIM_SEEDS=100000 cargo test
//! --release --test simulation` runs more (from `NEXUS_SIM_FROM` on, or 0), and
//! `NEXUS_SIM_SEED=123` runs one and prints its history.
//!
//! `disk`, `platter` and `calls` are the disk, `clock` the clocks; `world`, `submissions`,
//! `command_line` and `workload` the histories, `steps` the scripted ones; `oracle` and `aftermath`
//! what is checked. The other files are tests of one kind of claim each.

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
mod repair;
mod retries;
mod rot;
mod steps;
mod submissions;
mod two_processes;
mod workload;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use disk::Sabotage;
use world::World;

/// Histories of a plain `cargo test`.
const SEEDS: u64 = 2000;

/// Threads that share them; each history runs in one.
const WORKERS: usize = 2;

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
    let failed = std::thread::scope(|scope| {
        let run_every = |first: u64| {
            move || {
                let mut seeds = (from + first..from + seeds).step_by(WORKERS);
                seeds.find_map(|seed| run(seed, Sabotage::default()).err().map(|why| (seed, why)))
            }
        };
        let workers: Vec<_> =
            (0..WORKERS).map(|worker| scope.spawn(run_every(worker as u64))).collect();
        workers.into_iter().filter_map(|worker| worker.join().unwrap()).min()
    });
    if let Some((seed, trace)) = failed {
        panic!(
            "seed {seed} broke a promise; run it again with\n  \
             NEXUS_SIM_SEED={seed} cargo test --test simulation no_history\n{trace}"
        );
    }
}
