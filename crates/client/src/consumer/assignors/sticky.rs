//! `sticky` and `cooperative-sticky`: even, and members keep what they had.
//!
//! When all members subscribe to the same topics, `constrained` finds the result in one pass;
//! otherwise `general` moves partitions until nothing gets better. A cooperative member gets a
//! partition only once its former owner has given it up, so partitions that change hands are left
//! out and come in the rebalance that follows.

mod constrained;
mod general;

use super::Assignor;
use super::problem::{MemberIndex, PartitionIndex, Problem};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn assign(problem: &Problem<'_>, assignor: &Assignor) -> Vec<Vec<PartitionIndex>> {
    let former = Former::new(problem, assignor);
    // By name: a topic that does not exist also makes members unlike.
    let names = |member: usize| -> BTreeSet<&String> {
        problem.members[member]
            .facts
            .subscription
            .topics
            .iter()
            .collect()
    };
    let alike = (1..problem.members.len()).all(|member| names(member) == names(0));
    let (mut lists, transferred) = if alike {
        constrained::assign(problem, &former)
    } else {
        let lists = general::assign(problem, &former);
        let transferred = transferred(problem, &lists);
        (lists, transferred)
    };
    if assignor.is_cooperative() {
        for list in &mut lists {
            list.retain(|partition| !transferred.contains(partition));
        }
    }
    lists
}

/// Who had what before.
struct Former {
    /// Of each member, what it still has by its own word and that of all others.
    owned: Vec<Vec<PartitionIndex>>,
    /// Two members of the same generation claim these: neither keeps them.
    disputed: BTreeSet<PartitionIndex>,
    /// The last owner of a generation before the greatest, where one is known.
    earlier: BTreeMap<PartitionIndex, MemberIndex>,
}

impl Former {
    fn new(problem: &Problem<'_>, assignor: &Assignor) -> Self {
        let claims: Vec<_> = (0..problem.members.len())
            .map(|member| problem.claim(member, assignor))
            .collect();
        let mut former = Self {
            owned: vec![Vec::new(); claims.len()],
            disputed: BTreeSet::new(),
            earlier: BTreeMap::new(),
        };
        let mut owners: BTreeMap<PartitionIndex, MemberIndex> = BTreeMap::new();
        for (member, claim) in claims.iter().enumerate() {
            let generation = claim.generation.unwrap_or(-1);
            for partition in &claim.partitions {
                let Some(other) = owners.get(partition).copied() else {
                    owners.insert(*partition, member);
                    former.owned[member].push(*partition);
                    continue;
                };
                // The rival's generation is that of its subscription, as in the Java client, also
                // where the claim itself comes from its user data.
                let rival = problem.members[other]
                    .facts
                    .subscription
                    .generation_id
                    .max(-1);
                if generation >= rival {
                    former.owned[other].retain(|owned| owned != partition);
                    owners.insert(*partition, member);
                    if generation == rival {
                        former.disputed.insert(*partition);
                    } else {
                        former.owned[member].push(*partition);
                    }
                }
            }
        }
        former.collect_earlier(problem, &claims);
        former
    }

    fn collect_earlier(&mut self, problem: &Problem<'_>, claims: &[super::problem::Claim]) {
        let generations = claims.iter().filter_map(|claim| claim.generation);
        let newest = generations.max().unwrap_or(-1);
        let mut found: BTreeMap<PartitionIndex, i32> = BTreeMap::new();
        for (member, claim) in claims.iter().enumerate() {
            let generation = claim.generation.unwrap_or(-1);
            if generation >= newest {
                continue;
            }
            for partition in &claim.partitions {
                let topic = problem.partitions[*partition].topic;
                let is_later = found
                    .get(partition)
                    .is_none_or(|before| generation > *before);
                if is_later && problem.subscribes(member, topic) {
                    found.insert(*partition, generation);
                    self.earlier.insert(*partition, member);
                }
            }
        }
    }
}

/// Whether a member of a rack that has no replica of the partition would read it.
fn is_mismatch(problem: &Problem<'_>, member: MemberIndex, partition: PartitionIndex) -> bool {
    let rack = problem.members[member].rack;
    rack.is_some_and(|rack| !problem.partitions[partition].racks.contains(rack))
}

/// Whether racks count for the whole problem.
fn is_rack_aware(problem: &Problem<'_>) -> bool {
    let members: Vec<MemberIndex> = (0..problem.members.len()).collect();
    problem.is_rack_aware(&members, 0..problem.partitions.len())
}

/// What one member gets while another has yet to give it up.
fn transferred(problem: &Problem<'_>, lists: &[Vec<PartitionIndex>]) -> BTreeSet<PartitionIndex> {
    let mut added = BTreeSet::new();
    let mut revoked = BTreeSet::new();
    for (member, list) in problem.members.iter().zip(lists) {
        let owned = member.facts.subscription.owned_partitions.iter();
        let owned: BTreeSet<PartitionIndex> = owned.filter_map(|name| problem.find(name)).collect();
        let assigned: BTreeSet<PartitionIndex> = list.iter().copied().collect();
        added.extend(assigned.difference(&owned).copied());
        revoked.extend(owned.difference(&assigned).copied());
    }
    added.intersection(&revoked).copied().collect()
}
