//! Members subscribe to different topics: partitions go to whoever has least, then move one by one
//! while a member could take one from another that has two more.

use super::{Former, is_mismatch, is_rack_aware};
use crate::consumer::assignors::problem::{MemberIndex, PartitionIndex, Problem, TopicIndex};
use std::collections::{BTreeMap, BTreeSet};

/// The partitions of each member.
pub(super) fn assign(problem: &Problem<'_>, former: &Former) -> Vec<Vec<PartitionIndex>> {
    let mut state = State {
        owners: vec![None; problem.partitions.len()],
        counts: vec![0; problem.members.len()],
        holdings: vec![BTreeMap::new(); problem.topics.len()],
        order: BTreeSet::new(),
    };
    let mut general = General {
        problem,
        former,
        is_rack_aware: is_rack_aware(problem),
        moves: Moves::default(),
        must_revoke: false,
    };
    let unassigned = general.keep(&mut state);
    general.fill(&mut state, unassigned);
    let mut lists = vec![Vec::new(); problem.members.len()];
    for (partition, owner) in state.owners.iter().enumerate() {
        if let Some(member) = owner {
            lists[*member].push(partition);
        }
    }
    lists
}

/// Who has what.
#[derive(Clone)]
struct State {
    owners: Vec<Option<MemberIndex>>,
    /// How many partitions each member has.
    counts: Vec<usize>,
    /// Of each topic, how many partitions each member has; none has zero.
    holdings: Vec<BTreeMap<MemberIndex, usize>>,
    /// The members that take part, those with the least first.
    order: BTreeSet<(usize, MemberIndex)>,
}

impl State {
    fn set_owner(&mut self, topic: TopicIndex, partition: PartitionIndex, member: MemberIndex) {
        if let Some(before) = self.owners[partition].replace(member) {
            self.reorder(before, self.counts[before] - 1);
            let count = self.holdings[topic].entry(before).or_default();
            *count -= 1;
            if *count == 0 {
                self.holdings[topic].remove(&before);
            }
        }
        self.reorder(member, self.counts[member] + 1);
        *self.holdings[topic].entry(member).or_default() += 1;
    }

    fn reorder(&mut self, member: MemberIndex, count: usize) {
        let takes_part = self.order.remove(&(self.counts[member], member));
        self.counts[member] = count;
        if takes_part {
            self.order.insert((count, member));
        }
    }

    /// The sum of the differences between all members that take part: the less, the more even.
    fn unevenness(&self) -> usize {
        // In ascending order each count is subtracted from all that follow it.
        let ascending = self.order.iter().enumerate();
        let (plus, minus) = ascending.fold((0, 0), |(plus, minus), (place, (count, _))| {
            (
                plus + count * place,
                minus + count * (self.order.len() - 1 - place),
            )
        });
        plus - minus
    }
}

struct General<'a> {
    problem: &'a Problem<'a>,
    former: &'a Former,
    is_rack_aware: bool,
    moves: Moves,
    /// Whether someone lost a partition for another reason than balance.
    must_revoke: bool,
}

impl General<'_> {
    fn topic(&self, partition: PartitionIndex) -> TopicIndex {
        self.problem.partitions[partition].topic
    }

    /// All partitions, those of topics with the fewest subscribers first.
    fn partitions_by_rarity(&self) -> Vec<PartitionIndex> {
        let topics = &self.problem.topics;
        let mut order: Vec<TopicIndex> = (0..topics.len()).collect();
        order.sort_by_key(|topic| (topics[*topic].members.len(), *topic));
        order
            .into_iter()
            .flat_map(|topic| topics[topic].partitions.clone())
            .collect()
    }

    /// Leaves to each member what it had and may keep; returns what nobody has.
    fn keep(&mut self, state: &mut State) -> Vec<PartitionIndex> {
        state.order = (0..self.problem.members.len())
            .map(|member| (0, member))
            .collect();
        for (member, owned) in self.former.owned.iter().enumerate() {
            for partition in owned {
                let topic = self.topic(*partition);
                let is_mismatch =
                    self.is_rack_aware && is_mismatch(self.problem, member, *partition);
                if !self.problem.subscribes(member, topic) || is_mismatch {
                    self.must_revoke = true;
                } else {
                    state.set_owner(topic, *partition, member);
                }
            }
        }
        let mut unassigned = self.partitions_by_rarity();
        unassigned.retain(|partition| state.owners[*partition].is_none());
        unassigned
    }

    fn fill(&mut self, state: &mut State, mut unassigned: Vec<PartitionIndex>) {
        let is_initial = state.order.last().is_none_or(|(count, _)| *count == 0);
        if self.is_rack_aware {
            self.give_to_least(state, &unassigned, true);
        }
        self.give_to_least(state, &unassigned, false);
        // Only topics with two subscribers, and only members that could have other partitions
        // than they have, take part in what follows.
        let mut movable = self.partitions_by_rarity();
        movable.retain(|partition| self.is_contested(*partition));
        unassigned.retain(|partition| self.is_contested(*partition));
        let all_members = std::mem::take(&mut state.order);
        let takes_part = |(_, member): &(usize, MemberIndex)| self.takes_part(state, *member);
        let order = all_members.into_iter().filter(takes_part).collect();
        state.order = order;
        let before = state.clone();
        if !self.must_revoke {
            self.balance(state, &unassigned);
        }
        let has_moved = self.balance(state, &movable);
        if !is_initial && has_moved && state.unevenness() >= before.unevenness() {
            *state = before;
        }
    }

    fn is_contested(&self, partition: PartitionIndex) -> bool {
        self.problem.topics[self.topic(partition)].members.len() >= 2
    }

    fn takes_part(&self, state: &State, member: MemberIndex) -> bool {
        let topics = self.problem.members[member].topics.iter();
        let mut topics = topics.map(|topic| &self.problem.topics[*topic]);
        let possible: usize = topics.clone().map(|topic| topic.partitions.len()).sum();
        state.counts[member] < possible || topics.any(|topic| topic.members.len() >= 2)
    }

    /// Gives each partition without an owner to the member with least that may have it.
    fn give_to_least(&self, state: &mut State, partitions: &[PartitionIndex], by_rack: bool) {
        for partition in partitions {
            let topic = self.topic(*partition);
            if state.owners[*partition].is_some() {
                continue;
            }
            let mut members = state.order.iter().map(|(_, member)| *member);
            let least = members.find(|member| {
                self.problem.subscribes(*member, topic)
                    && !(by_rack && is_mismatch(self.problem, *member, *partition))
            });
            if let Some(member) = least {
                state.set_owner(topic, *partition, member);
            }
        }
    }

    /// Moves partitions while that makes things more even; returns whether any moved.
    fn balance(&mut self, state: &mut State, partitions: &[PartitionIndex]) -> bool {
        let mut has_moved = false;
        loop {
            let mut has_moved_in_round = false;
            for partition in partitions {
                if self.is_balanced(state) {
                    break;
                }
                has_moved_in_round |= self.improve(state, *partition);
            }
            has_moved |= has_moved_in_round;
            if !has_moved_in_round {
                return has_moved;
            }
        }
    }

    /// Whether no member could take a partition from one that has at least two more.
    fn is_balanced(&self, state: &State) -> bool {
        let (Some((least, _)), Some((most, _))) = (state.order.first(), state.order.last()) else {
            return true;
        };
        if least + 1 >= *most {
            return true;
        }
        // Of each topic, the most that any of its owners has in all.
        let most: Vec<usize> = state
            .holdings
            .iter()
            .map(|holding| holding.keys().map(|member| state.counts[*member]).max())
            .map(Option::unwrap_or_default)
            .collect();
        state.order.iter().all(|(count, member)| {
            let topics = &self.problem.members[*member].topics;
            topics.iter().all(|topic| most[*topic] <= count + 1)
        })
    }

    /// Moves a partition to a member that has at least two fewer than its owner.
    fn improve(&mut self, state: &mut State, partition: PartitionIndex) -> bool {
        let owner = state.owners[partition].expect("what is contested has an owner");
        let is_uneven = |other: MemberIndex| state.counts[owner] > state.counts[other] + 1;
        if let Some(earlier) = self.former.earlier.get(&partition).copied()
            && is_uneven(earlier)
        {
            self.move_partition(state, partition, earlier);
            return true;
        }
        let topic = self.topic(partition);
        let members = &self.problem.topics[topic].members;
        if !members.iter().any(|other| is_uneven(*other)) {
            return false;
        }
        let mut ordered = state.order.iter().map(|(_, member)| *member);
        let least = ordered.find(|member| self.problem.subscribes(*member, topic));
        self.move_partition(state, partition, least.expect("it has two subscribers"));
        true
    }

    fn move_partition(&mut self, state: &mut State, partition: PartitionIndex, to: MemberIndex) {
        let from = state.owners[partition].expect("what moves has an owner");
        let topic = self.topic(partition);
        let moved = self.moves.substitute(topic, partition, from, to);
        let from = state.owners[moved].expect("what moved before has an owner");
        self.moves.add(topic, moved, from, to);
        state.set_owner(topic, moved, to);
    }
}

/// What has moved from whom to whom, so that no two partitions of a topic change places.
#[derive(Default)]
struct Moves {
    /// The first owner and the last.
    of_partition: BTreeMap<PartitionIndex, (MemberIndex, MemberIndex)>,
    of_topic: BTreeMap<(TopicIndex, MemberIndex, MemberIndex), BTreeSet<PartitionIndex>>,
}

impl Moves {
    /// The partition to move instead: one that came the other way and may go back.
    fn substitute(
        &self,
        topic: TopicIndex,
        partition: PartitionIndex,
        from: MemberIndex,
        to: MemberIndex,
    ) -> PartitionIndex {
        let from = self
            .of_partition
            .get(&partition)
            .map_or(from, |(first, _)| *first);
        let reverse = self
            .of_topic
            .get(&(topic, to, from))
            .and_then(BTreeSet::first);
        reverse.copied().unwrap_or(partition)
    }

    fn add(&mut self, topic: TopicIndex, partition: PartitionIndex, from: usize, to: usize) {
        let before = self.of_partition.remove(&partition);
        let first = before.map_or(from, |(first, _)| first);
        if let Some((first, last)) = before {
            let key = (topic, first, last);
            if let Some(moved) = self.of_topic.get_mut(&key) {
                moved.remove(&partition);
                if moved.is_empty() {
                    self.of_topic.remove(&key);
                }
            }
        }
        if first != to || before.is_none() {
            self.of_partition.insert(partition, (first, to));
            self.of_topic
                .entry((topic, first, to))
                .or_default()
                .insert(partition);
        }
    }
}
