//! `range`: of each topic a contiguous range to each member, the first members get one more.
//!
//! Where members and replicas name racks (KIP-881), partitions go first to members of a rack that
//! has a replica, as far as the ranges' sizes allow. Topics with the same members and the same
//! number of partitions are matched together, so that equal numbers stay with one member.

use super::problem::{MemberIndex, PartitionIndex, Problem, TopicIndex};
use std::collections::BTreeMap;

pub(super) fn assign(problem: &Problem<'_>) -> Vec<Vec<PartitionIndex>> {
    let order = problem.serving_order();
    let mut states: Vec<TopicState> = (0..problem.topics.len())
        .map(|topic| TopicState::new(problem, topic, &order))
        .collect();
    let mut lists = vec![Vec::new(); problem.members.len()];
    if states.iter().any(|state| state.is_rack_aware) {
        match_racks(problem, &mut states, &mut lists);
    }
    for state in &mut states {
        state.assign_ranges(&mut lists, |_, _| true);
    }
    lists
}

/// A topic while its partitions are given away.
struct TopicState {
    /// In serving order.
    members: Vec<MemberIndex>,
    first: PartitionIndex,
    /// Ascending.
    unassigned: Vec<PartitionIndex>,
    /// How many each of `members` has got.
    counts: Vec<usize>,
    quota: usize,
    /// How many members may still get one more than the quota.
    extra_count: usize,
    is_rack_aware: bool,
    /// Whether any of the members names a rack.
    has_racks: bool,
}

impl TopicState {
    fn new(problem: &Problem<'_>, topic: TopicIndex, order: &[MemberIndex]) -> Self {
        let facts = &problem.topics[topic];
        let subscribed = order.iter().copied();
        let members: Vec<MemberIndex> = subscribed
            .filter(|member| problem.subscribes(*member, topic))
            .collect();
        let count = facts.partitions.len();
        Self {
            first: facts.partitions.start,
            unassigned: facts.partitions.clone().collect(),
            counts: vec![0; members.len()],
            quota: count / members.len(),
            extra_count: count % members.len(),
            is_rack_aware: problem.is_rack_aware(&members, facts.partitions.clone()),
            has_racks: members
                .iter()
                .any(|member| problem.members[*member].rack.is_some()),
            members,
        }
    }

    fn room(&self, place: usize) -> usize {
        (self.quota + usize::from(self.extra_count > 0)).saturating_sub(self.counts[place])
    }

    fn give(&mut self, place: usize, partitions: &[PartitionIndex], lists: &mut [Vec<usize>]) {
        self.counts[place] += partitions.len();
        if self.counts[place] > self.quota {
            self.extra_count -= 1;
        }
        self.unassigned
            .retain(|partition| !partitions.contains(partition));
        lists[self.members[place]].extend_from_slice(partitions);
    }

    fn assign_ranges(
        &mut self,
        lists: &mut [Vec<usize>],
        may_have: impl Fn(MemberIndex, PartitionIndex) -> bool,
    ) {
        for place in 0..self.members.len() {
            let allowed = self.unassigned.iter().copied();
            let allowed = allowed.filter(|partition| may_have(self.members[place], *partition));
            let range: Vec<PartitionIndex> = allowed.take(self.room(place)).collect();
            if !range.is_empty() {
                self.give(place, &range, lists);
            }
        }
    }
}

/// A member without a rack fits everywhere.
fn fits(problem: &Problem<'_>, member: MemberIndex, partition: PartitionIndex) -> bool {
    let rack = problem.members[member].rack;
    rack.is_none_or(|rack| problem.partitions[partition].racks.contains(rack))
}

fn match_racks(problem: &Problem<'_>, states: &mut [TopicState], lists: &mut [Vec<usize>]) {
    let mut alike: BTreeMap<(Vec<MemberIndex>, usize), Vec<TopicIndex>> = BTreeMap::new();
    for (topic, state) in states.iter().enumerate() {
        // Topics whose members have no racks have nothing to match.
        if state.has_racks {
            let key = (state.members.clone(), state.unassigned.len());
            alike.entry(key).or_default().push(topic);
        }
    }
    for ((members, count), topics) in alike {
        if let [topic] = topics[..] {
            if states[topic].is_rack_aware {
                states[topic].assign_ranges(lists, |member, p| fits(problem, member, p));
            }
        } else {
            match_racks_together(problem, states, &topics, (&members, count), lists);
        }
    }
}

/// Gives partition `n` of all `topics` to the first member that fits each of them.
fn match_racks_together(
    problem: &Problem<'_>,
    states: &mut [TopicState],
    topics: &[TopicIndex],
    (members, partition_count): (&[MemberIndex], usize),
    lists: &mut [Vec<usize>],
) {
    for number in 0..partition_count {
        let found = (0..members.len()).find(|place| {
            topics.iter().all(|topic| {
                let state = &states[*topic];
                state.room(*place) > 0 && fits(problem, members[*place], state.first + number)
            })
        });
        let Some(place) = found else { continue };
        for topic in topics {
            let partition = states[*topic].first + number;
            states[*topic].give(place, &[partition], lists);
        }
    }
}
