//! A short campaign: no promise is broken, each seed has one history, and planted mistakes are found: those that take
//! a few worlds. `cargo run --release -p sim -- --mistakes` finds them all, and `.ci/run` runs thousands of worlds.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use sim::{ClusterSchedule, Planted, PlantedInCluster, Promise, Schedule, Verdict};
use std::fmt::Debug;
use std::sync::Mutex;

/// Two at a time: what follows from a seed does not follow from what else runs.
#[test]
fn every_promise_is_kept_and_each_seed_has_one_history() {
    let left = Mutex::new(trials::seeds(0..4));
    let work = || {
        while let Some(seed) = next_of(&left) {
            let schedule = Schedule::of(seed);
            let outcome = sim::run(&schedule, Planted::Nothing, false);
            assert_eq!(outcome.verdict, None, "seed {seed}");
            let again = sim::run(&schedule, Planted::Nothing, false);
            assert_eq!(outcome, again, "seed {seed}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}

/// The lock is free again while the work is done.
fn next_of<T>(left: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    left.lock().unwrap().next()
}

/// Two at a time: each takes a few worlds, and with other seeds some hundred.
#[test]
fn planted_mistakes_are_found() {
    let seeds = trials::seeds(0..1_000);
    let quick = [
        Planted::SyncsNothing,
        Planted::LoadsTooLittle,
        Planted::KeepsMetadataInMemory,
        Planted::ReadsUncommitted,
        Planted::SkipsMarkers,
        Planted::TearsSnapshots,
    ];
    let hunt = |planted| sim::hunt(seeds.clone(), planted);
    find(quick, hunt, Planted::breaks);
}

/// Each is found, and through a promise that it breaks.
fn find<P: Copy + Debug + Send>(
    planted: impl IntoIterator<Item = P, IntoIter: Send>,
    hunt: impl Fn(P) -> Option<(u64, usize, Verdict)> + Sync,
    breaks: impl Fn(P) -> &'static [Promise] + Sync,
) {
    let left = Mutex::new(planted.into_iter());
    let missed = Mutex::new(Vec::new());
    let work = || {
        while let Some(planted) = next_of(&left) {
            let found = hunt(planted);
            let promise = found.as_ref().map(|(_, _, verdict)| verdict.promise);
            if promise.is_none_or(|promise| !breaks(planted).contains(&promise)) {
                missed
                    .lock()
                    .unwrap()
                    .push(format!("{planted:?}: {found:?}"));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found, or by chance: {missed:?}");
}

/// A member that was away comes back while its group waits for its members to join again. A commit is taken, tells it
/// nothing of that, and saves it from nothing.
#[test]
fn a_member_that_has_only_committed_may_be_left_out() {
    for seed in [108_143, 108_273] {
        let outcome = sim::run(&Schedule::of(seed), Planted::Nothing, false);
        assert_eq!(outcome.verdict, None, "seed {seed}");
    }
}

/// A log that was empty when it was recovered, and was full of records when the machine stopped again.
#[test]
fn no_torn_snapshot_of_no_producers_is_left() {
    let outcome = sim::run(&Schedule::of(113_823), Planted::Nothing, false);
    assert_eq!(outcome.verdict, None);
}

#[test]
fn a_schedule_that_fails_shrinks_and_repeats() {
    let planted = Planted::SyncsNothing;
    let (seed, _, verdict) = sim::hunt(trials::seeds(0..120), planted).unwrap();
    let schedule = planted.schedule_of(seed);
    let least = sim::shrink(&schedule, planted);
    assert!(least.len() < schedule.len() / 2, "{} steps", least.len());
    let outcome = sim::run(&least, planted, false);
    assert_eq!(outcome.verdict.as_ref().unwrap().promise, verdict.promise);
    assert_eq!(outcome, sim::run(&least, planted, false), "bit for bit");
}

/// Worlds of a controller and three brokers.
#[test]
fn every_promise_is_kept_in_clusters_and_each_seed_has_one_history() {
    let left = Mutex::new(trials::seeds(0..2));
    let work = || {
        while let Some(seed) = next_of(&left) {
            let schedule = ClusterSchedule::of(seed);
            let outcome = sim::run_cluster(&schedule, PlantedInCluster::Nothing, false);
            assert_eq!(outcome.verdict, None, "seed {seed}");
            let again = sim::run_cluster(&schedule, PlantedInCluster::Nothing, false);
            assert_eq!(outcome, again, "seed {seed}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
}

/// The log of a broker whose machine stops has several segments, of which an old one has not been synced.
#[test]
fn a_replica_comes_back_without_a_hole() {
    let seed = 38;
    let run = |planted| sim::run_cluster(&ClusterSchedule::of(seed), planted, false);
    assert_eq!(run(PlantedInCluster::Nothing).verdict, None);
    let verdict = run(PlantedInCluster::OverlooksGaps).verdict;
    let promise = verdict.map(|verdict| verdict.promise);
    assert_eq!(promise, Some(Promise::LogMatching));
}

#[test]
fn mistakes_planted_in_clusters_are_found() {
    let seeds = trials::seeds(0..1_000);
    let quick = [
        PlantedInCluster::CutsAtHighWatermark,
        PlantedInCluster::CoordinatorServesOn,
        PlantedInCluster::DeletesAlone,
        PlantedInCluster::TellsLastOffsets,
        PlantedInCluster::LeadsOn,
    ];
    let hunt = |planted| sim::hunt_in_cluster(seeds.clone(), planted);
    find(quick, hunt, PlantedInCluster::breaks);
}
