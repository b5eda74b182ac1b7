//! The next step of a member towards its target assignment.
//!
//! ```text
//!            target moved on          gave up what it had to
//!   Stable ──────────────────> Unrevoked ─────────────────> Stable, or Unreleased
//!      │ nothing to give up, but partitions are with others      ^        │ others
//!      └────────────────────> Unreleased ────────────────────────┴────────┘ gave them up
//! ```
//!
//! A member stays in its epoch while it has partitions to give up; so offsets that it commits
//! meanwhile still count. It moves to the epoch of the target once it has given them up.

use super::group::ConsumerGroup;
use super::member::{ConsumerMember, MemberState};
use super::partitions::{OwnedPartitions, Partitions};
use super::topics::Topics;
use model::Uuid;
use std::collections::BTreeSet;

/// What a member is to come to.
#[derive(Debug)]
pub(super) struct Reconciling<'a> {
    pub(super) group: &'a ConsumerGroup,
    pub(super) topics: &'a Topics,
    pub(super) target_epoch: i32,
    pub(super) target: &'a Partitions,
    /// Whether the member has just changed its subscription.
    pub(super) has_subscription_changed: bool,
    /// What the member says it has; `None` when it says nothing.
    pub(super) owned: Option<&'a Partitions>,
}

/// The coordinator that left the member in its state knew more than this one: the member is to
/// join anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnknownState;

impl Reconciling<'_> {
    /// The member after the step; the same when there is none to take.
    pub(super) fn step(&self, member: &ConsumerMember) -> Result<ConsumerMember, UnknownState> {
        match member.state {
            MemberState::Stable if member.member_epoch != self.target_epoch => {
                Ok(self.next(member, member.member_epoch))
            }
            MemberState::UnrevokedPartitions if !self.owns_any(&member.pending_revocation) => {
                Ok(self.next(member, member.member_epoch))
            }
            MemberState::Stable | MemberState::UnrevokedPartitions => {
                Ok(if self.has_subscription_changed {
                    self.without_unsubscribed(member)
                } else {
                    member.clone()
                })
            }
            MemberState::UnreleasedPartitions => Ok(self.next(member, member.member_epoch)),
            MemberState::Unknown if self.owned.is_some_and(Partitions::is_empty) => {
                Ok(self.next(member, self.target_epoch))
            }
            MemberState::Unknown => Err(UnknownState),
        }
    }

    /// Whether the member has any of these partitions; it has if it does not say.
    fn owns_any(&self, partitions: &OwnedPartitions) -> bool {
        self.owned.is_none_or(|owned| {
            let mut owned = owned.iter();
            owned.any(|(topic_id, index, ())| partitions.contains(topic_id, index))
        })
    }

    fn subscribed(&self, member: &ConsumerMember) -> BTreeSet<Uuid> {
        let names = member.subscription.topics(self.group.resolved());
        names
            .filter_map(|name| self.topics.by_name(name).map(|topic| topic.id))
            .collect()
    }

    /// Takes topics back that the member does not subscribe to any more, without a new target.
    fn without_unsubscribed(&self, member: &ConsumerMember) -> ConsumerMember {
        let subscribed = self.subscribed(member);
        let is_kept = |topic_id: &Uuid| subscribed.contains(topic_id);
        if member
            .assigned
            .topics()
            .iter()
            .all(|topic| is_kept(&topic.topic_id))
        {
            return member.clone();
        }
        let all = || {
            member
                .assigned
                .iter()
                .map(|(id, index, epoch)| (id, index, *epoch))
        };
        let assigned = all().filter(|(id, ..)| is_kept(id)).collect();
        let pending = member.pending_revocation.iter();
        let pending = pending.map(|(id, index, epoch)| (id, index, *epoch));
        let pending: OwnedPartitions = all()
            .filter(|(id, ..)| !is_kept(id))
            .chain(pending)
            .collect();
        let shrunk = ConsumerMember {
            assigned,
            ..member.in_epoch(member.member_epoch)
        };
        if self.owns_any(&pending) {
            return ConsumerMember {
                state: MemberState::UnrevokedPartitions,
                pending_revocation: pending,
                ..shrunk
            };
        }
        shrunk
    }

    /// Moves the member as near to the target as the owners of partitions allow.
    fn next(&self, member: &ConsumerMember, epoch: i32) -> ConsumerMember {
        let subscribed = self.subscribed(member);
        let is_target =
            |id: Uuid, index: i32| subscribed.contains(&id) && self.target.contains(id, index);
        let (mut kept, mut revoked) = (Vec::new(), Vec::new());
        for (topic_id, index, epoch) in member.assigned.iter() {
            let partition = (topic_id, index, *epoch);
            if is_target(topic_id, index) {
                kept.push(partition);
            } else {
                revoked.push(partition);
            }
        }
        let revoked: OwnedPartitions = revoked.into_iter().collect();
        if !revoked.is_empty() && self.owns_any(&revoked) {
            return ConsumerMember {
                state: MemberState::UnrevokedPartitions,
                assigned: kept.into_iter().collect(),
                pending_revocation: revoked,
                ..member.in_epoch(epoch)
            };
        }
        let mut has_unreleased = false;
        for (topic_id, index, ()) in self.target.iter() {
            if !subscribed.contains(&topic_id) || member.assigned.contains(topic_id, index) {
                continue;
            }
            // One that this member has yet to give up is nobody else's.
            let is_free = self.group.owner_epoch(topic_id, index).is_none()
                || member.pending_revocation.contains(topic_id, index);
            if is_free {
                kept.push((topic_id, index, self.target_epoch));
            } else {
                has_unreleased = true;
            }
        }
        ConsumerMember {
            state: if has_unreleased {
                MemberState::UnreleasedPartitions
            } else {
                MemberState::Stable
            },
            assigned: kept.into_iter().collect(),
            pending_revocation: OwnedPartitions::default(),
            ..member.in_epoch(self.target_epoch)
        }
    }
}
