//! Which brokers are to have which replicas, so that each has as many as the others: a pure function.
//!
//! ```text
//!   where replicas are, who may have some, their racks  ─>  the partitions that change, with their replicas
//! ```
//!
//! A replica moves only if its broker is to have none, if its rack has another one of the partition while
//! some rack has none, or if its broker has at least two more than another. The order of replicas changes
//! where that gives each broker as many preferred leaders as the others: no record moves by that.

use model::{BrokerId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The replicas of each partition, the preferred leader first.
pub(crate) type Assignment = BTreeMap<TopicPartition, Vec<BrokerId>>;

/// The brokers that may have replicas, with their racks.
pub(crate) type Racks = BTreeMap<BrokerId, Option<String>>;

/// A partition that has more replicas than there are brokers for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TooFewBrokers {
    partition: TopicPartition,
    replica_count: usize,
    broker_count: usize,
}

impl fmt::Display for TooFewBrokers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            partition,
            replica_count,
            broker_count,
        } = self;
        let (replicas, brokers) = (
            counted(*replica_count, "replica"),
            counted(*broker_count, "broker"),
        );
        match broker_count {
            0 => write!(
                f,
                "{partition} has {replicas}, and no broker is left: add brokers"
            ),
            _ => write!(
                f,
                "{partition} has {replicas}, and only {brokers} may have them: add brokers, or reduce the replicas with \
                 `riverrun partition reassign`"
            ),
        }
    }
}

fn counted(count: usize, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{ending}")
}

/// What is to change so that these brokers alone have the partitions, each as many as the others.
///
/// # Errors
/// [`TooFewBrokers`].
pub(crate) fn balanced(current: &Assignment, racks: &Racks) -> Result<Assignment, TooFewBrokers> {
    let mut plan = Plan::new(current, racks);
    plan.fill(current.keys())?;
    plan.spread_over_racks();
    plan.even_out();
    plan.even_out_leaders();
    Ok(plan.changes(current))
}

/// What is to change so that a broker that is none of these has nothing; every other replica stays where it is.
///
/// # Errors
/// [`TooFewBrokers`].
pub(crate) fn drained(
    current: &Assignment,
    racks: &Racks,
    broker: BrokerId,
) -> Result<Assignment, TooFewBrokers> {
    let mut plan = Plan::new(current, racks);
    let of_broker = current.iter().filter(|(_, on)| on.contains(&broker));
    plan.fill(of_broker.map(|(partition, _)| partition))?;
    Ok(plan.changes(current))
}

struct Plan<'a> {
    racks: &'a Racks,
    replicas: Assignment,
    /// How many replicas each broker has.
    counts: BTreeMap<BrokerId, usize>,
}

impl<'a> Plan<'a> {
    fn new(current: &Assignment, racks: &'a Racks) -> Self {
        let mut counts: BTreeMap<BrokerId, usize> = racks.keys().map(|id| (*id, 0)).collect();
        for broker in current.values().flatten() {
            if let Some(count) = counts.get_mut(broker) {
                *count += 1;
            }
        }
        Self {
            racks,
            replicas: current.clone(),
            counts,
        }
    }

    fn changes(self, current: &Assignment) -> Assignment {
        let replicas = self.replicas.into_iter();
        replicas
            .filter(|(partition, replicas)| current.get(partition) != Some(replicas))
            .collect()
    }

    /// Gives to others what is on brokers that are to have nothing.
    fn fill<'p>(
        &mut self,
        partitions: impl Iterator<Item = &'p TopicPartition>,
    ) -> Result<(), TooFewBrokers> {
        for partition in partitions {
            let replicas = self.replicas[partition].clone();
            if replicas.len() > self.racks.len() {
                return Err(TooFewBrokers {
                    partition: partition.clone(),
                    replica_count: replicas.len(),
                    broker_count: self.racks.len(),
                });
            }
            for (index, broker) in replicas.iter().enumerate() {
                if self.racks.contains_key(broker) {
                    continue;
                }
                let to = self
                    .best_for(partition, index)
                    .expect("there are enough brokers");
                self.put(partition, index, to);
            }
        }
        Ok(())
    }

    /// The broker that suits best in the place of a replica: of a rack that the others do not use, and with the fewest.
    fn best_for(&self, partition: &TopicPartition, index: usize) -> Option<BrokerId> {
        let replicas = &self.replicas[partition];
        let candidates = self.racks.keys().filter(|id| !replicas.contains(id));
        let cost = |id: &BrokerId| {
            let distinct = self.rack_count(partition, index, *id);
            (std::cmp::Reverse(distinct), self.counts[id], *id)
        };
        candidates.copied().min_by_key(cost)
    }

    /// How many racks a partition is in when this broker has the replica at `index`. A broker without a rack
    /// is one of its own.
    fn rack_count(&self, partition: &TopicPartition, index: usize, broker: BrokerId) -> usize {
        let replicas = self.replicas[partition].iter().enumerate();
        let brokers = replicas.map(|(at, id)| if at == index { broker } else { *id });
        let rack = |id: BrokerId| match self.racks.get(&id) {
            Some(Some(rack)) => Ok(rack),
            _ => Err(id),
        };
        brokers.map(rack).collect::<BTreeSet<_>>().len()
    }

    fn put(&mut self, partition: &TopicPartition, index: usize, broker: BrokerId) {
        let replicas = self.replicas.get_mut(partition).expect("it is planned");
        let before = std::mem::replace(&mut replicas[index], broker);
        if let Some(count) = self.counts.get_mut(&before) {
            *count -= 1;
        }
        *self.counts.entry(broker).or_default() += 1;
    }

    /// Moves replicas that share a rack to racks that have none of their partition.
    fn spread_over_racks(&mut self) {
        let partitions: Vec<TopicPartition> = self.replicas.keys().cloned().collect();
        for partition in &partitions {
            // The last ones first: leaders stay.
            for index in (0..self.replicas[partition].len()).rev() {
                let before = self.rack_count(partition, index, self.replicas[partition][index]);
                let Some(to) = self.best_for(partition, index) else {
                    continue;
                };
                if self.rack_count(partition, index, to) > before {
                    self.put(partition, index, to);
                }
            }
        }
    }

    /// Moves replicas from who has most to who has fewest, until nobody has two more than another or racks forbid it.
    fn even_out(&mut self) {
        while let Some((partition, index, to)) = self.next_move() {
            self.put(&partition, index, to);
        }
    }

    fn next_move(&self) -> Option<(TopicPartition, usize, BrokerId)> {
        let mut by_count: Vec<BrokerId> = self.counts.keys().copied().collect();
        by_count.sort_by_key(|id| (self.counts[id], *id));
        for from in by_count.iter().rev() {
            for to in &by_count {
                if self.counts[from] < self.counts[to] + 2 {
                    break;
                }
                if let Some((partition, index)) = self.movable(*from, *to) {
                    return Some((partition, index, *to));
                }
            }
        }
        None
    }

    /// A replica that can go there, a follower rather than a preferred leader.
    fn movable(&self, from: BrokerId, to: BrokerId) -> Option<(TopicPartition, usize)> {
        let places = self.replicas.iter().filter_map(|(partition, replicas)| {
            let index = replicas.iter().position(|id| *id == from)?;
            let may_go = !replicas.contains(&to)
                && self.rack_count(partition, index, to) >= self.rack_count(partition, index, from);
            may_go.then_some((partition, index))
        });
        let place = places.min_by_key(|(_, index)| *index == 0);
        place.map(|(partition, index)| (partition.clone(), index))
    }

    /// Lets other replicas go first in their partitions, until nobody has two preferred leaders more than another that
    /// could take one.
    fn even_out_leaders(&mut self) {
        let mut leaders: BTreeMap<BrokerId, usize> = self.racks.keys().map(|id| (*id, 0)).collect();
        for replicas in self.replicas.values() {
            if let Some(count) = replicas.first().and_then(|id| leaders.get_mut(id)) {
                *count += 1;
            }
        }
        let mut has_changed = true;
        while has_changed {
            has_changed = false;
            for replicas in self.replicas.values_mut() {
                let Some(first) = replicas.first().copied() else {
                    continue;
                };
                let fewest = (0..replicas.len()).min_by_key(|at| leaders[&replicas[*at]]);
                let fewest = fewest.expect("it has one");
                if leaders[&first] >= leaders[&replicas[fewest]] + 2 {
                    *leaders.entry(first).or_default() -= 1;
                    *leaders.entry(replicas[fewest]).or_default() += 1;
                    replicas.swap(0, fewest);
                    has_changed = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<BrokerId> {
        let ids = text.split(',').map(|id| id.parse().expect("a number"));
        ids.collect()
    }

    /// `1,2 2,3` are the replicas of the first and the second partition.
    fn assignment(text: &str) -> Assignment {
        let replicas = text.split(' ').zip(0..);
        replicas
            .map(|(replicas, index)| (TopicPartition::new("t", index), ids(replicas)))
            .collect()
    }

    /// `1 2/a` are a broker without a rack and one in the rack `a`.
    fn racks(text: &str) -> Racks {
        let brokers = text.split(' ').map(|broker| match broker.split_once('/') {
            Some((id, rack)) => (id.parse().expect("a number"), Some(rack.to_owned())),
            None => (broker.parse().expect("a number"), None),
        });
        brokers.collect()
    }

    fn shown(changes: Result<Assignment, TooFewBrokers>) -> String {
        let changes = match changes {
            Ok(changes) => changes,
            Err(error) => return error.to_string(),
        };
        let changes = changes.iter().map(|(partition, replicas)| {
            let replicas: Vec<String> = replicas.iter().map(ToString::to_string).collect();
            format!("{}:{}", partition.partition, replicas.join(","))
        });
        changes.collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(current: &str, brokers: &str, expected: &str) {
        let changes = balanced(&assignment(current), &racks(brokers));
        assert_eq!(shown(changes), expected);
    }

    #[test]
    fn what_is_even_stays() {
        check("1,2 2,3 3,1", "1 2 3", "");
        check("1,2", "1 2 3", "");
    }

    #[test]
    fn a_new_broker_gets_its_share_and_no_more_moves() {
        check("1,2 2,1 1,2", "1 2 3", "0:3,1 1:2,3");
    }

    #[test]
    fn brokers_that_are_to_have_nothing_have_nothing() {
        check("1,2 2,3 3,1", "1 2", "1:2,1 2:2,1");
    }

    #[test]
    fn replicas_are_in_as_many_racks_as_there_are() {
        check(
            "1,2 2,1 3,4 4,3",
            "1/a 2/a 3/b 4/b",
            "0:1,3 1:2,4 2:3,1 3:4,2",
        );
        // The even share of a lonely broker of its rack is not above the racks.
        check("1,3 2,3", "1/a 2/a 3/b", "");
    }

    #[test]
    fn preferred_leaders_are_even() {
        check("1,2 1,2 1,2 1,2", "1 2", "0:2,1 1:2,1");
    }

    #[test]
    fn too_few_brokers_are_told_of() {
        let told = shown(balanced(&assignment("1,2,3"), &racks("1 2")));
        assert!(
            told.starts_with(
                "t-0 has 3 replicas, and only 2 brokers may have them: add brokers, or"
            ),
            "{told}"
        );
        let told = shown(drained(&assignment("1"), &Racks::new(), BrokerId(1)));
        assert_eq!(
            told,
            "t-0 has 1 replica, and no broker is left: add brokers"
        );
    }

    #[test]
    fn only_what_a_drained_broker_has_moves() {
        let current = assignment("1,2 1,2 1,2 3,1");
        let changes = drained(&current, &racks("1 2 4"), BrokerId(3));
        assert_eq!(shown(changes), "3:4,1");
        let changes = drained(&current, &racks("2 3/a 4/a"), BrokerId(1));
        assert_eq!(shown(changes), "0:4,2 1:3,2 2:4,2 3:3,2");
    }

    /// Whatever there is: as many replicas as before, on brokers that may have them, each once.
    #[test]
    fn every_plan_keeps_the_replication_factor() {
        for brokers in 3..7 {
            let racks: Racks = (1..=brokers)
                .map(|id| (BrokerId(id), (id % 2 == 0).then(|| (id % 3).to_string())))
                .collect();
            let current: Assignment = (0..20)
                .map(|index| {
                    let of = |step: i32| BrokerId((index * step) % 9 + 1 + step * 10);
                    (
                        TopicPartition::new("t", index),
                        vec![of(1), of(2), BrokerId(2)],
                    )
                })
                .collect();
            let changes = balanced(&current, &racks).expect("there are enough");
            assert_eq!(changes.len(), current.len());
            let mut counts: BTreeMap<BrokerId, usize> = BTreeMap::new();
            for replicas in changes.values() {
                let distinct: BTreeSet<_> = replicas.iter().collect();
                assert_eq!(distinct.len(), 3);
                assert!(replicas.iter().all(|id| racks.contains_key(id)));
                for id in replicas {
                    *counts.entry(*id).or_default() += 1;
                }
            }
            assert_eq!(counts.len(), racks.len());
        }
    }
}
