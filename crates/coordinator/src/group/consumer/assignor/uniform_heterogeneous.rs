//! The assignor `uniform` for members with different subscriptions: partitions stay where they are
//! as far as the subscribers of each topic end up with about equally many.
//!
//! ```text
//!  partitions ^               ###    give     While the two groups at the ends differ by more than
//!  of each    |          ########             one, a partition of the topic goes from a member of
//!  member     |  take ###########             the right one to a member of the left one; a group
//!             |       ###########             grows towards the middle when its level is reached.
//!             └─────────────────> members
//! ```

use super::{AssignableTopic, Assigning, place, target};
use crate::group::consumer::partitions::Partitions;
use std::cmp::Ordering;

/// How often all topics are gone through at most.
const ROUNDS_MAX: usize = 16;
/// The owner of a partition that nobody has.
const NOBODY: usize = usize::MAX;

pub(super) fn assign(group: &Assigning<'_>) -> Vec<Option<Partitions>> {
    let mut balance = Balance::of(group);
    balance.keep_owners(group);
    let order = balance.topics_by_need(|subscribers| !subscribers.is_empty());
    balance.assign_unowned(&order);
    let order = balance.topics_by_need(|subscribers| subscribers.len() >= 2);
    balance.level(&order);
    balance.into_targets(group)
}

/// Who has what, and how many partitions each member has.
struct Balance<'a> {
    topics: &'a [AssignableTopic],
    /// Members that subscribe to each topic, ascending.
    subscribers: Vec<Vec<usize>>,
    /// The owner of each partition of each topic.
    owners: Vec<Vec<usize>>,
    counts: Vec<usize>,
    has_changed: Vec<bool>,
}

impl<'a> Balance<'a> {
    fn of(group: &Assigning<'a>) -> Self {
        let mut subscribers = vec![Vec::new(); group.topics.len()];
        for (at, member) in group.members.iter().enumerate() {
            for topic in member.subscribed {
                subscribers[*topic].push(at);
            }
        }
        Self {
            topics: group.topics,
            subscribers,
            owners: group.per_partition(NOBODY),
            counts: vec![0; group.members.len()],
            has_changed: vec![false; group.members.len()],
        }
    }

    fn keep_owners(&mut self, group: &Assigning<'_>) {
        let places = group.places();
        for (at, member) in group.members.iter().enumerate() {
            for owned in member.target.topics() {
                let topic = place(&places, owned.topic_id);
                let Some(topic) =
                    topic.filter(|topic| member.subscribed.binary_search(topic).is_ok())
                else {
                    self.has_changed[at] = true;
                    continue;
                };
                for (index, ()) in &owned.partitions {
                    // A damaged log may name partitions that do not exist, or twice.
                    let index = usize::try_from(*index).unwrap_or(usize::MAX);
                    match self.owners[topic].get_mut(index) {
                        Some(owner) if *owner == NOBODY => {
                            *owner = at;
                            self.counts[at] += 1;
                        }
                        _ => self.has_changed[at] = true,
                    }
                }
            }
        }
    }

    /// Topics with many partitions for each subscriber first, those with fewer subscribers before
    /// others, then by id.
    fn topics_by_need(&self, is_wanted: impl Fn(&[usize]) -> bool) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.topics.len())
            .filter(|topic| is_wanted(&self.subscribers[*topic]))
            .collect();
        order.sort_by(|one, other| self.compare_topics(*one, *other));
        order
    }

    fn compare_topics(&self, one: usize, other: usize) -> Ordering {
        let subscribers = |topic: usize| self.subscribers[topic].len();
        let per_subscriber =
            |topic: usize| self.topics[topic].partition_count as f64 / subscribers(topic) as f64;
        per_subscriber(other)
            .total_cmp(&per_subscriber(one))
            .then_with(|| subscribers(one).cmp(&subscribers(other)))
            .then_with(|| signed_id(&self.topics[one]).cmp(&signed_id(&self.topics[other])))
    }

    fn assign_unowned(&mut self, order: &[usize]) {
        for topic in order {
            let unowned: Vec<usize> = (0..self.owners[*topic].len())
                .filter(|index| self.owners[*topic][*index] == NOBODY)
                .collect();
            if unowned.is_empty() {
                continue;
            }
            let mut levels = Levels::of(&self.subscribers[*topic], &self.counts);
            for index in unowned {
                let member = levels.take_lowest(&self.counts);
                self.give(*topic, index, member);
            }
        }
    }

    fn level(&mut self, order: &[usize]) {
        let mut last_changed = None;
        for _ in 0..ROUNDS_MAX {
            for (at, topic) in order.iter().enumerate() {
                if last_changed == Some(at) {
                    return;
                }
                if self.level_topic(*topic) || last_changed.is_none() {
                    last_changed = Some(at);
                }
            }
        }
    }

    /// Moves partitions of a topic until its subscribers are level; says whether any moved.
    fn level_topic(&mut self, topic: usize) -> bool {
        let mut levels = Levels::of(&self.subscribers[topic], &self.counts);
        if levels.spread(&self.counts) <= 1 {
            return false;
        }
        let mut owned: Vec<(usize, usize)> = Vec::with_capacity(self.owners[topic].len());
        owned.extend(
            self.owners[topic]
                .iter()
                .enumerate()
                .map(|(index, owner)| (*owner, index)),
        );
        owned.sort_unstable();
        // Where the partitions of each owner end that it has not given away.
        let start = |member: usize| owned.partition_point(|(owner, _)| *owner < member);
        let mut end_of = std::collections::BTreeMap::<usize, usize>::new();
        for (at, (owner, _)) in owned.iter().enumerate() {
            end_of.insert(*owner, at + 1);
        }
        let mut has_moved = false;
        while !levels.is_level() {
            let giver = loop {
                let Some(member) = levels.take_highest(&self.counts) else {
                    return has_moved;
                };
                match end_of.get_mut(&member) {
                    Some(end) if *end > start(member) => {
                        *end -= 1;
                        break *end;
                    }
                    _ => levels.exclude_highest(),
                }
            };
            let taker = levels.take_lowest(&self.counts);
            if levels.is_level() {
                break;
            }
            self.give(topic, owned[giver].1, taker);
            has_moved = true;
        }
        has_moved
    }

    fn give(&mut self, topic: usize, index: usize, member: usize) {
        let owner = std::mem::replace(&mut self.owners[topic][index], member);
        if owner != NOBODY {
            self.counts[owner] -= 1;
            self.has_changed[owner] = true;
        }
        self.counts[member] += 1;
        self.has_changed[member] = true;
    }

    fn into_targets(self, group: &Assigning<'_>) -> Vec<Option<Partitions>> {
        let mut assigned: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.counts.len()];
        for (topic, owners) in self.owners.iter().enumerate() {
            for (index, owner) in owners.iter().enumerate() {
                if *owner != NOBODY && self.has_changed[*owner] {
                    assigned[*owner].push((topic, index));
                }
            }
        }
        let changed = assigned.into_iter().zip(self.has_changed);
        let targets =
            changed.map(|(assigned, changed)| changed.then(|| target(self.topics, assigned)));
        let with_before = targets.zip(group.members);
        with_before
            .map(|(target, member)| target.filter(|target| *target != member.target))
            .collect()
    }
}

/// Java orders ids as two signed numbers.
fn signed_id(topic: &AssignableTopic) -> (i64, i64) {
    let id = u128::from_be_bytes(topic.id.to_bytes());
    (((id >> 64) as u64).cast_signed(), (id as u64).cast_signed())
}

/// The subscribers of a topic by how many partitions they have, and the two groups at the ends.
struct Levels {
    members: Vec<usize>,
    /// The lowest are `..low_end`; all had `low_count` when the group last grew.
    low_end: usize,
    low_count: i64,
    low_next: usize,
    /// The highest are `high_start..high_end`; beyond are those with nothing to give.
    high_start: usize,
    high_end: usize,
    high_count: i64,
    /// One past the next to take from.
    high_next: usize,
}

impl Levels {
    fn of(subscribers: &[usize], counts: &[usize]) -> Self {
        let mut members = subscribers.to_vec();
        members.sort_unstable_by_key(|member| (counts[*member], *member));
        let count = |member: Option<&usize>| member.map_or(0, |member| counts[*member] as i64);
        Self {
            low_end: 0,
            low_count: count(members.first()) - 1,
            low_next: 0,
            high_start: members.len(),
            high_end: members.len(),
            high_count: count(members.last()) + 1,
            high_next: members.len(),
            members,
        }
    }

    fn spread(&self, counts: &[usize]) -> usize {
        match (self.members.first(), self.members.last()) {
            (Some(first), Some(last)) => counts[*last] - counts[*first],
            _ => 0,
        }
    }

    fn is_level(&self) -> bool {
        self.high_count - self.low_count <= 1
    }

    /// The member that is to get the next partition.
    fn take_lowest(&mut self, counts: &[usize]) -> usize {
        if self.low_next >= self.low_end {
            self.low_count += 1;
            while self
                .members
                .get(self.low_end)
                .is_some_and(|member| counts[*member] as i64 == self.low_count)
            {
                self.low_end += 1;
            }
            self.low_next = 0;
        }
        let member = self.members[self.low_next];
        self.low_next += 1;
        member
    }

    /// The member that is to give the next partition; `None` when nobody has one to give.
    fn take_highest(&mut self, counts: &[usize]) -> Option<usize> {
        let level_of = |members: &[usize], at: usize| counts[members[at]] as i64;
        if self.high_next <= self.high_start {
            if self.high_end <= self.high_start && self.high_start > 0 {
                self.high_count = level_of(&self.members, self.high_start - 1);
            } else {
                self.high_count -= 1;
            }
            while self.high_start > 0
                && level_of(&self.members, self.high_start - 1) == self.high_count
            {
                self.high_start -= 1;
            }
            self.high_next = self.high_end;
        }
        self.high_next = self.high_next.checked_sub(1)?;
        Some(self.members[self.high_next])
    }

    /// The member last taken from has nothing to give.
    fn exclude_highest(&mut self) {
        self.members.swap(self.high_next, self.high_end - 1);
        self.high_end -= 1;
    }
}
