//! Many worlds, one after another; a seed that fails is run with less and less until nothing can be
//! left out.

use crate::cluster::{ClusterSchedule, PlantedInCluster, run_cluster};
use crate::judge::Verdict;
use crate::planted::Planted;
use crate::schedule::Schedule;
use crate::world::{Outcome, World, caught};

/// Runs a schedule.
pub fn run(schedule: &Schedule, planted: Planted, keeps_lines: bool) -> Outcome {
    let world = World::new(schedule.clone(), planted, keeps_lines);
    caught(|| world.run())
}

/// A schedule, from which steps can be left out.
trait Steps: Clone {
    fn len(&self) -> usize;
    fn without(&self, from: usize, to: usize) -> Self;
}

impl Steps for Schedule {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn without(&self, from: usize, to: usize) -> Self {
        Self::without(self, from, to)
    }
}

impl Steps for ClusterSchedule {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn without(&self, from: usize, to: usize) -> Self {
        Self::without(self, from, to)
    }
}

/// A schedule that breaks the same promise with as few steps as could be found.
pub fn shrink(schedule: &Schedule, planted: Planted) -> Schedule {
    shrunk(schedule, |schedule| run(schedule, planted, false))
}

/// The same for the world of a cluster.
pub fn shrink_cluster(schedule: &ClusterSchedule, planted: PlantedInCluster) -> ClusterSchedule {
    shrunk(schedule, |schedule| run_cluster(schedule, planted, false))
}

fn shrunk<S: Steps>(schedule: &S, run: impl Fn(&S) -> Outcome) -> S {
    let promise = |schedule: &S| run(schedule).verdict.map(|verdict| verdict.promise);
    let wanted = promise(schedule);
    let mut least = schedule.clone();
    // What could not be left out at first may be when other steps are gone.
    loop {
        let len_before = least.len();
        let mut width = len_before.div_ceil(2);
        while width > 0 {
            let mut from = 0;
            while from < least.len() {
                let less = least.without(from, from + width);
                match less.len() < least.len() && promise(&less) == wanted {
                    true => least = less,
                    false => from += width,
                }
            }
            width /= 2;
        }
        if least.len() == len_before {
            break;
        }
    }
    least
}

/// The first of these seeds whose world breaks a promise, with the number of worlds it took.
pub fn hunt(seeds: impl Iterator<Item = u64>, planted: Planted) -> Option<(u64, usize, Verdict)> {
    for (at, seed) in seeds.enumerate() {
        let outcome = run(&planted.schedule_of(seed), planted, false);
        if let Some(verdict) = outcome.verdict {
            return Some((seed, at + 1, verdict));
        }
    }
    None
}

/// The same for worlds of clusters.
pub fn hunt_in_cluster(
    seeds: impl Iterator<Item = u64>,
    planted: PlantedInCluster,
) -> Option<(u64, usize, Verdict)> {
    for (at, seed) in seeds.enumerate() {
        let outcome = run_cluster(&ClusterSchedule::of(seed), planted, false);
        if let Some(verdict) = outcome.verdict {
            return Some((seed, at + 1, verdict));
        }
    }
    None
}
