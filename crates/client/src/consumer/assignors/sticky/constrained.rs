//! All members subscribe to the same topics: everybody gets the least quota, as many as the rest
//! demands get one more, and whoever had partitions keeps them up to that.

use super::{Former, is_mismatch, is_rack_aware};
use crate::consumer::assignors::problem::{MemberIndex, PartitionIndex, Problem};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The partitions of each member, and those that change hands.
pub(super) fn assign(
    problem: &Problem<'_>,
    former: &Former,
) -> (Vec<Vec<PartitionIndex>>, BTreeSet<PartitionIndex>) {
    let member_count = problem.members.len().max(1);
    let mut assignment = Constrained {
        problem,
        former,
        is_rack_aware: is_rack_aware(problem),
        quota: problem.partitions.len() / member_count,
        quota_max: problem.partitions.len().div_ceil(member_count),
        full_count_max: problem.partitions.len() % member_count,
        full_count: 0,
        below: VecDeque::new(),
        at_quota: VecDeque::new(),
        lists: vec![Vec::new(); problem.members.len()],
        given_up: BTreeMap::new(),
        transferred: BTreeSet::new(),
    };
    if !problem.members.is_empty() {
        assignment.run();
    }
    (assignment.lists, assignment.transferred)
}

struct Constrained<'a> {
    problem: &'a Problem<'a>,
    former: &'a Former,
    is_rack_aware: bool,
    /// What everybody gets at least.
    quota: usize,
    /// What anybody gets at most: the quota, or one more.
    quota_max: usize,
    /// How many members get more than the quota.
    full_count_max: usize,
    full_count: usize,
    /// Members with less than the quota.
    below: VecDeque<MemberIndex>,
    /// Members with the quota that may get one more.
    at_quota: VecDeque<MemberIndex>,
    lists: Vec<Vec<PartitionIndex>>,
    /// What its owner may not keep.
    given_up: BTreeMap<PartitionIndex, MemberIndex>,
    transferred: BTreeSet<PartitionIndex>,
}

impl Constrained<'_> {
    fn run(&mut self) {
        for member in 0..self.problem.members.len() {
            self.keep(member);
        }
        let kept: BTreeSet<PartitionIndex> = self.lists.iter().flatten().copied().collect();
        let all = 0..self.problem.partitions.len();
        let mut unassigned: Vec<PartitionIndex> = all.filter(|p| !kept.contains(p)).collect();
        self.at_quota.make_contiguous().sort_unstable();
        if self.is_rack_aware {
            // Partitions that few members can match come first.
            unassigned.sort_by_key(|partition| self.matching_members(*partition));
            self.match_racks(&mut unassigned);
        }
        self.spread(&unassigned);
    }

    fn matching_members(&self, partition: PartitionIndex) -> usize {
        let racks = &self.problem.partitions[partition].racks;
        let members = self.problem.members.iter();
        members
            .filter(|m| m.rack.is_some_and(|rack| racks.contains(rack)))
            .count()
    }

    /// Lets a member keep what it had, up to its share.
    fn keep(&mut self, member: MemberIndex) {
        let mut owned = Vec::new();
        for partition in self.former.owned[member].iter().copied() {
            if self.is_rack_aware && is_mismatch(self.problem, member, partition) {
                self.given_up.insert(partition, member);
            } else if !self.former.disputed.contains(&partition) {
                owned.push(partition);
            }
        }
        owned.sort_unstable_by_key(|p| (self.problem.partitions[*p].number, *p));
        let has_room_above = self.full_count < self.full_count_max;
        let share = if owned.len() < self.quota {
            self.below.push_back(member);
            owned.len()
        } else if owned.len() >= self.quota_max && has_room_above {
            self.full_count += 1;
            if self.full_count == self.full_count_max {
                self.at_quota.clear();
            }
            self.quota_max
        } else {
            if has_room_above {
                self.at_quota.push_back(member);
            }
            self.quota
        };
        for partition in owned.drain(share..) {
            self.given_up.insert(partition, member);
        }
        self.lists[member] = owned;
    }

    /// Gives partitions to members of their racks, in turn, as far as the quotas allow.
    fn match_racks(&mut self, unassigned: &mut Vec<PartitionIndex>) {
        let mut turn = 0;
        unassigned.retain(|partition| {
            if let Some(place) = self.next_match(*partition, &self.below, turn) {
                turn = self.give_below(place, *partition);
                return false;
            }
            let Some(place) = self.next_match(*partition, &self.at_quota, 0) else {
                return true;
            };
            let member = self.at_quota[place];
            if self.lists[member].len() + 1 == self.quota_max {
                self.at_quota.remove(place);
                self.full_count += 1;
                if self.full_count == self.full_count_max {
                    self.at_quota.clear();
                }
            }
            self.give(member, *partition);
            false
        });
    }

    /// Gives to the member at `place` of `below`; returns whose turn is next.
    fn give_below(&mut self, place: usize, partition: PartitionIndex) -> usize {
        let member = self.below[place];
        self.give(member, partition);
        let count = self.lists[member].len();
        let mut next = place + 1;
        if count >= self.quota {
            self.below.remove(place);
            next = place;
            if count < self.quota_max && self.full_count < self.full_count_max {
                self.at_quota.push_back(member);
            }
        }
        if self.below.is_empty() {
            0
        } else {
            next % self.below.len()
        }
    }

    fn next_match(
        &self,
        partition: PartitionIndex,
        members: &VecDeque<MemberIndex>,
        first: usize,
    ) -> Option<usize> {
        let racks = &self.problem.partitions[partition].racks;
        (0..members.len())
            .map(|step| (first + step) % members.len())
            .find(|place| {
                let rack = self.problem.members[members[*place]].rack;
                rack.is_some_and(|rack| racks.contains(rack))
            })
    }

    /// Gives the rest in turn, first up to the quota and then one more.
    fn spread(&mut self, unassigned: &[PartitionIndex]) {
        let mut place = 0;
        for partition in unassigned {
            if place >= self.below.len() {
                place = 0;
            }
            let Some(member) = self.below.get(place).copied() else {
                let member = self.at_quota.pop_front();
                let member = member.expect("the quotas add up to all partitions");
                self.give(member, *partition);
                continue;
            };
            self.give(member, *partition);
            if self.lists[member].len() == self.quota {
                self.below.remove(place);
                self.at_quota.push_back(member);
            } else {
                place += 1;
            }
        }
    }

    fn give(&mut self, member: MemberIndex, partition: PartitionIndex) {
        let is_moved = self
            .given_up
            .get(&partition)
            .is_some_and(|former| *former != member);
        if is_moved || self.former.disputed.contains(&partition) {
            self.transferred.insert(partition);
        }
        self.lists[member].push(partition);
    }
}
