//! What ends the life of offsets and groups: their age, an administrator, or the end of a topic.

use super::consumer::group_tombstones;
use super::group::Group;
use super::membership::GroupState;
use super::offset_store::CommittedOffset;
use super::opaque_group::GroupType;
use super::records;
use super::request::DeletedTopic;
use super::shard::{GroupShard, Outcome};
use super::timers::Timer;
use crate::{CoordinatorRecord, Decision};
use model::{ErrorCode, Now, ProducerId, RetentionClock};
use std::collections::BTreeSet;

/// From when on the retention of an offset counts.
#[derive(Debug, Clone, Copy)]
enum RetentionStart {
    /// Since this time: the group has had no members since then.
    At(i64),
    /// Since the offset was committed.
    Commit,
}

impl GroupShard {
    /// Deletes empty groups with their offsets; the reply has a code for each.
    pub fn delete_groups(&mut self, group_ids: &[&str], now: Now) -> Decision<Vec<ErrorCode>> {
        let mut outcome = Outcome::default();
        let errors = group_ids
            .iter()
            .map(|group_id| match self.validate_delete(group_id) {
                Ok(()) => {
                    self.delete_group(group_id, now, &mut outcome);
                    ErrorCode::None
                }
                Err(error) => error,
            })
            .collect();
        outcome.into_split_decision(errors)
    }

    fn validate_delete(&self, group_id: &str) -> Result<(), ErrorCode> {
        match self.groups.get(group_id) {
            None => Err(ErrorCode::GroupIdNotFound),
            Some(group) if !group.is_empty() => Err(ErrorCode::NonEmptyGroup),
            Some(_) => Ok(()),
        }
    }

    /// Removes all records of an empty group.
    fn delete_group(&mut self, group_id: &str, now: Now, outcome: &mut Outcome) {
        if let Some(group) = self.groups.get(group_id) {
            let partitions = group.offsets.partitions();
            outcome.records.extend(
                partitions.map(|(topic, partition)| {
                    records::offset_tombstone(group_id, topic, partition)
                }),
            );
            outcome.records.extend(group.tombstones());
        }
        self.act(group_id, now, outcome, |group, effects| {
            group.membership.forget_pending_joins(effects);
        });
    }

    /// Deletes the offsets of topics that the cluster deleted. The metadata are to be those without
    /// the topics, so that no offset of them comes later.
    pub fn delete_topic_offsets(&mut self, topics: &[DeletedTopic<'_>]) -> Decision<()> {
        let mut outcome = Outcome::default();
        for group in self.groups.values() {
            for topic in topics {
                let tombstone =
                    |partition| records::offset_tombstone(&group.id, topic.name, partition);
                let is_of_topic = |offset: &CommittedOffset| {
                    offset.topic_id.is_zero() || offset.topic_id == topic.topic_id
                };
                let partitions = self.partitions_with(group, topic.name, is_of_topic);
                outcome
                    .records
                    .extend(partitions.into_iter().map(tombstone));
            }
        }
        outcome.into_split_decision(())
    }

    /// Deletes the offsets of topics that the cluster does not have: their deletion was not noted
    /// before a crash, or while the log took no records. The metadata must be known.
    pub fn delete_offsets_of_absent_topics(&mut self) -> Decision<()> {
        let mut outcome = Outcome::default();
        for group in self.groups.values() {
            let committed = group.offsets.committed.topics().map(|(name, _)| name);
            let open = group.offsets.open_transactions.topics();
            let names: BTreeSet<_> = committed.chain(open.map(|(name, _)| name)).collect();
            for name in names {
                let topic_id = self.topics.by_name(name).map(|topic| topic.id);
                // What Kafka has written may not say which topic of this name it is about.
                let is_absent = |offset: &CommittedOffset| match topic_id {
                    None => true,
                    Some(topic_id) => !offset.topic_id.is_zero() && offset.topic_id != topic_id,
                };
                let partitions = self.partitions_with(group, name, is_absent).into_iter();
                let tombstone = |index| records::offset_tombstone(&group.id, name, index);
                outcome.records.extend(partitions.map(tombstone));
            }
        }
        outcome.into_split_decision(())
    }

    /// The partitions of a topic of which a group, or a transaction for it, has such an offset.
    fn partitions_with(
        &self,
        group: &Group,
        topic: &str,
        is_meant: impl Fn(&CommittedOffset) -> bool,
    ) -> BTreeSet<i32> {
        let is_pending = |producer_id: ProducerId, partition: i32| {
            self.pending_transactions
                .get(producer_id, &group.id, topic, partition)
                .is_some_and(&is_meant)
        };
        let committed = group.offsets.committed.of_topic(topic);
        let open = group.offsets.open_transactions.of_topic(topic);
        committed
            .filter(|(_, offset)| is_meant(offset))
            .map(|(partition, _)| partition)
            .chain(
                open.filter(|(partition, producers)| {
                    producers
                        .iter()
                        .any(|producer_id| is_pending(*producer_id, *partition))
                })
                .map(|(partition, _)| partition),
            )
            .collect()
    }

    /// Removes offsets that have expired, and groups that are empty and have none left.
    pub(super) fn expire_offsets(&mut self, now: Now, outcome: &mut Outcome) {
        let interval_ms = self.config.offsets_retention_check_interval_ms.max(1);
        self.timers
            .schedule(now.monotonic.plus_ms(interval_ms), Timer::Retention);
        let clock = &mut self.retention_clock;
        let now_ms = clock
            .get_or_insert_with(|| RetentionClock::new(now))
            .wall_ms(now);
        for group in self.groups.values() {
            let expired = group.expired_offsets(now_ms, self.config.offsets_retention_ms);
            let none_left = expired.len() == group.offsets.committed.len()
                && group.offsets.open_transactions.is_empty();
            outcome.records.extend(expired);
            if none_left && group.ends_without_offsets() {
                outcome.records.extend(group.tombstones());
            }
        }
    }
}

impl Group {
    /// Whether the group goes when it has no offsets left.
    fn ends_without_offsets(&self) -> bool {
        let is_share = self
            .modern_type()
            .is_some_and(|modern| modern.group_type == GroupType::Share);
        self.is_empty() && !is_share && self.membership.pending_joins.is_empty()
    }

    /// The records that remove the group itself.
    fn tombstones(&self) -> Vec<CoordinatorRecord> {
        if let Some(consumer) = self.consumer_type() {
            return group_tombstones(&self.id, consumer);
        }
        match self.modern_type() {
            Some(modern) => modern.tombstones().collect(),
            None => vec![records::group_tombstone(&self.id)],
        }
    }

    fn expired_offsets(&self, now_ms: i64, retention_ms: i64) -> Vec<CoordinatorRecord> {
        let Some(start) = self.retention_start() else {
            return Vec::new();
        };
        let is_expired = |offset: &CommittedOffset| match (offset.expire_timestamp_ms, start) {
            (Some(at_ms), _) => now_ms >= at_ms,
            (None, RetentionStart::At(start_ms)) => now_ms.saturating_sub(start_ms) >= retention_ms,
            (None, RetentionStart::Commit) => {
                now_ms.saturating_sub(offset.commit_timestamp_ms) >= retention_ms
            }
        };
        self.offsets
            .committed
            .topics()
            .filter(|(topic, _)| !self.is_subscribed_to(topic))
            .flat_map(|(topic, partitions)| {
                partitions
                    .iter()
                    .filter(|(partition, offset)| {
                        is_expired(offset) && !self.offsets.is_unstable(topic, **partition)
                    })
                    .map(|(partition, _)| records::offset_tombstone(&self.id, topic, *partition))
            })
            .collect()
    }

    /// `None` while no offset of the group may expire.
    fn retention_start(&self) -> Option<RetentionStart> {
        if self.consumer_type().is_some() {
            return Some(RetentionStart::Commit);
        }
        if self.modern_type().is_some() {
            // What members are subscribed to is not known, so their offsets stay.
            return self.is_empty().then_some(RetentionStart::Commit);
        }
        let membership = &self.membership;
        if membership.protocol_type.is_none() {
            return Some(RetentionStart::Commit);
        }
        match membership.state {
            GroupState::Empty => Some(
                membership
                    .state_timestamp_ms
                    .map_or(RetentionStart::Commit, RetentionStart::At),
            ),
            GroupState::Stable
                if membership.uses_consumer_protocol() && membership.knows_subscribed_topics() =>
            {
                Some(RetentionStart::Commit)
            }
            _ => None,
        }
    }
}
