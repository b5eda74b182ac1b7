//! A decision about a consumer group in the making: what it reads, and what it comes to.
//!
//! Nothing changes while it is made. If it comes to an error it is dropped as a whole.

use super::config::ConsumerGroupConfig;
use super::group::ConsumerGroup;
use super::member::ConsumerMember;
use super::partitions::Partitions;
use super::reconcile::Reconciling;
use super::records;
use super::soft::{SoftChange, SoftGroup};
use super::subscription::Subscription;
use super::topics::Topics;
use crate::CoordinatorRecord;
use model::{ErrorCode, Now};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How long the topics of a group are not looked at when nothing has said that they changed.
const REFRESH_INTERVAL_MS: i64 = 60 * 60 * 1000;

/// Why a request is refused, in the words of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The code.
    pub error: ErrorCode,
    /// What is wrong.
    pub message: String,
}

impl Refusal {
    pub(in crate::group) fn new(error: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            error,
            message: message.into(),
        }
    }
}

/// What a decision about a consumer group reads and what it comes to.
#[derive(Debug)]
pub(in crate::group) struct Draft<'a> {
    pub(in crate::group) group_id: &'a str,
    pub(in crate::group) group: &'a ConsumerGroup,
    pub(in crate::group) soft: &'a SoftGroup,
    pub(in crate::group) config: &'a ConsumerGroupConfig,
    /// The most members of a classic group.
    pub(in crate::group) classic_size_max: usize,
    /// The largest batch that the log takes.
    pub(in crate::group) batch_bytes_max: usize,
    pub(in crate::group) topics: &'a mut Topics,
    pub(in crate::group) now: Now,
    pub(in crate::group) records: Vec<CoordinatorRecord>,
    pub(in crate::group) changes: Vec<SoftChange>,
}

/// A member that sends a request, as it was before.
#[derive(Debug, Clone)]
pub(super) struct Before {
    pub(super) member: ConsumerMember,
    /// The id of the static member whose place it takes.
    pub(super) replaced: Option<Arc<str>>,
}

/// What a member's request has changed in its group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Updated {
    pub(super) has_subscription_changed: bool,
    pub(super) group_epoch: i32,
}

/// What became of a member's regular expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegexChange {
    None,
    Changed,
    /// Its topics are known, or there is none any more.
    ChangedAndResolved,
}

impl<'a> Draft<'a> {
    /// What the log has of the member that a request comes from, or of the one it replaces.
    pub(super) fn predecessor(&self, before: &Before) -> Option<&'a ConsumerMember> {
        self.group
            .member(before.replaced.as_ref().unwrap_or(&before.member.id))
    }

    pub(super) fn unknown_member(&self, member_id: &str) -> Refusal {
        let message = format!(
            "Member {member_id} is not a member of group {}.",
            self.group_id
        );
        Refusal::new(ErrorCode::UnknownMemberId, message)
    }

    pub(super) fn check_room(&self, member_id: &str) -> Result<(), Refusal> {
        let size_max = self.config.size_max;
        if self.group.members().len() >= size_max && self.group.member(member_id).is_none() {
            let message = format!(
                "The consumer group has reached its maximum capacity of {size_max} members."
            );
            return Err(Refusal::new(ErrorCode::GroupMaxSizeReached, message));
        }
        Ok(())
    }

    /// The member that sends a request.
    ///
    /// # Errors
    /// A [`Refusal`] when there is no such member and it may not be made.
    pub(super) fn dynamic_member(
        &self,
        member_id: &str,
        may_join: bool,
    ) -> Result<Before, Refusal> {
        let member = match self.group.member(member_id) {
            Some(member) => member.clone(),
            None if may_join => ConsumerMember::new(Arc::from(member_id)),
            None => return Err(self.unknown_member(member_id)),
        };
        Ok(Before {
            member,
            replaced: None,
        })
    }

    /// Writes what has changed of a member, and the group's new epoch if there is to be one.
    pub(super) fn update_member(
        &mut self,
        before: &Before,
        updated: &ConsumerMember,
        waits_for_regex: bool,
    ) -> Updated {
        let mut names_changed = false;
        if *updated != before.member {
            self.records.push(records::member(self.group_id, updated));
            names_changed = updated.subscription.topics != before.member.subscription.topics;
        }
        let regex = self.update_regex(before, updated);
        let has_subscription_changed = names_changed || regex != RegexChange::None;
        let is_resolved = regex == RegexChange::ChangedAndResolved || !waits_for_regex;
        let mut bumps = names_changed || (regex != RegexChange::None && is_resolved);
        let mut group_epoch = self.group.epoch;
        if bumps || self.soft.is_refresh_due(self.group, self.now) {
            let hash = self.hash_after(self.predecessor(before), Some(&updated.subscription));
            bumps |= hash != self.group.metadata_hash;
            if bumps {
                group_epoch += 1;
                self.records
                    .push(records::group_epoch(self.group_id, group_epoch, hash));
            }
            let refresh_at = self.now.monotonic.plus_ms(REFRESH_INTERVAL_MS);
            self.changes
                .push(SoftChange::Refresh(refresh_at, group_epoch));
            if self.group.has_partition_metadata {
                self.records
                    .push(records::partitions_tombstone(self.group_id));
            }
        }
        Updated {
            has_subscription_changed,
            group_epoch,
        }
    }

    fn hash_after(&mut self, gone: Option<&ConsumerMember>, added: Option<&Subscription>) -> i64 {
        let gone: Vec<&ConsumerMember> = gone.into_iter().collect();
        let subscriptions = self.group.subscriptions_after(&gone, added);
        self.hash_of(&subscriptions)
    }

    /// The hash of the topics of some subscriptions.
    pub(super) fn hash_of(&mut self, subscriptions: &BTreeSet<&Subscription>) -> i64 {
        let resolved = self.group.resolved();
        let names = subscriptions.iter().flat_map(|one| one.topics(resolved));
        let names: BTreeSet<&str> = names.map(|name| &**name).collect();
        self.topics.hash_of(&names)
    }

    /// Whether a target is to be computed for an epoch: the last one is of another, and old enough.
    pub(super) fn is_assignment_due(&self, group_epoch: i32) -> bool {
        let own = self.config.of_group(self.group_id);
        let interval_ms = own.assignment_interval_ms;
        let timestamp_ms = self.group.assignment_timestamp_ms;
        let is_young = (0..i64::from(interval_ms)).contains(&self.age_ms(timestamp_ms));
        let is_old = timestamp_ms == 0 || !is_young;
        group_epoch > self.group.assignment_epoch && is_old
    }

    /// How old is what the log has of this time. Less than nothing was written under a clock that
    /// was ahead, nobody knows when: as old as anything, or a group would wait for the clock to get
    /// there again.
    pub(super) const fn age_ms(&self, timestamp_ms: i64) -> i64 {
        self.now.wall_ms.saturating_sub(timestamp_ms)
    }

    /// Moves a member towards its target, and writes where it comes to.
    pub(super) fn reconcile(
        &mut self,
        member: ConsumerMember,
        target: &(i32, Partitions),
        has_subscription_changed: bool,
        owned: Option<&Partitions>,
    ) -> Result<ConsumerMember, Refusal> {
        if !has_subscription_changed && member.is_reconciled_to(target.0) {
            return Ok(member);
        }
        let updated = self.reconciled(&member, target, has_subscription_changed, owned)?;
        if updated != member {
            self.records.push(records::current(self.group_id, &updated));
            self.wait_for_revocation(&updated);
        }
        Ok(updated)
    }

    /// Where a member comes to on its way to its target.
    pub(super) fn reconciled(
        &self,
        member: &ConsumerMember,
        (target_epoch, target): &(i32, Partitions),
        has_subscription_changed: bool,
        owned: Option<&Partitions>,
    ) -> Result<ConsumerMember, Refusal> {
        let reconciling = Reconciling {
            group: self.group,
            topics: self.topics,
            target_epoch: *target_epoch,
            target,
            has_subscription_changed,
            owned,
        };
        reconciling.step(member).map_err(|_| {
            let message = "The consumer group member is in a unknown state. The member must \
                           abandon all its partitions and rejoin.";
            Refusal::new(ErrorCode::FencedMemberEpoch, message)
        })
    }

    fn wait_for_revocation(&mut self, member: &ConsumerMember) {
        if member.uses_classic_protocol() {
            return;
        }
        let id = Arc::clone(&member.id);
        let change = if member.state == super::member::MemberState::UnrevokedPartitions {
            SoftChange::Rebalance(id, member.member_epoch, member.rebalance_timeout_ms)
        } else {
            SoftChange::EndRebalance(id)
        };
        self.changes.push(change);
    }
}
