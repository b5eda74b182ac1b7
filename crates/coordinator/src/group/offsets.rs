//! OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete.

use super::consumer::MemberCommit;
use super::group::Group;
use super::membership::GroupState;
use super::offset_store::{CommittedOffset, GroupOffsets};
use super::records;
use super::request::{
    FetchedOffset, FetchedTopic, OffsetCommit, OffsetCommitPartition, OffsetCommitTopic,
    OffsetDelete, OffsetFetch, PartitionErrors, TxnOffsetCommit,
};
use super::shard::{GroupShard, Outcome};
use crate::Decision;
use crate::messages::OffsetCommitValue;
use model::{ErrorCode, LeaderEpoch, Now, Offset, Uuid};
use std::sync::Arc;

/// Who commits offsets.
#[derive(Debug, Clone, Copy)]
struct Committer<'a> {
    member_id: &'a str,
    group_instance_id: Option<&'a str>,
    generation_id: i32,
    is_transactional: bool,
    /// Whether the request's version knows of member epochs.
    knows_member_epochs: bool,
    topics: &'a [OffsetCommitTopic<'a>],
}

impl GroupShard {
    /// Stores offsets. An outer error holds for every partition.
    pub fn commit_offsets(
        &mut self,
        request: &OffsetCommit<'_>,
        now: Now,
    ) -> Decision<Result<PartitionErrors, ErrorCode>> {
        let committer = Committer {
            member_id: request.member_id,
            group_instance_id: request.group_instance_id,
            generation_id: request.generation_id,
            is_transactional: false,
            knows_member_epochs: request.reports_group_id_not_found,
            topics: &request.topics,
        };
        let without_group = if request.reports_group_id_not_found {
            ErrorCode::GroupIdNotFound
        } else {
            ErrorCode::IllegalGeneration
        };
        if let Err(error) = self.validate_commit(request.group_id, &committer, without_group) {
            return Decision::reply(Err(error));
        }
        self.renew_session_of_committer(request, now);
        let expire_timestamp_ms = match request.retention_time_ms {
            -1 => -1,
            retention_ms => now.wall_ms.saturating_add(retention_ms),
        };
        self.offsets_decision(request.group_id, &request.topics, now, expire_timestamp_ms)
    }

    /// Stores offsets as part of a transaction: the shell appends the records in a transactional
    /// batch of the producer. An outer error holds for every partition.
    pub fn commit_transactional_offsets(
        &mut self,
        request: &TxnOffsetCommit<'_>,
        now: Now,
    ) -> Decision<Result<PartitionErrors, ErrorCode>> {
        if request.group_id.is_empty() {
            return Decision::reply(Err(ErrorCode::InvalidGroupId));
        }
        let committer = Committer {
            member_id: request.member_id,
            group_instance_id: request.group_instance_id,
            generation_id: request.generation_id,
            is_transactional: true,
            knows_member_epochs: true,
            topics: &request.topics,
        };
        let without_group = ErrorCode::IllegalGeneration;
        if let Err(error) = self.validate_commit(request.group_id, &committer, without_group) {
            return Decision::reply(Err(match error {
                // Producers know generations only.
                ErrorCode::StaleMemberEpoch => ErrorCode::IllegalGeneration,
                error => error,
            }));
        }
        self.offsets_decision(request.group_id, &request.topics, now, -1)
    }

    fn validate_commit(
        &self,
        group_id: &str,
        committer: &Committer<'_>,
        without_group: ErrorCode,
    ) -> Result<(), ErrorCode> {
        match self.groups.get(group_id) {
            Some(group) => group.validate_commit(committer),
            // A consumer without a group in the proper sense: its offsets make one.
            None if committer.generation_id < 0 => Ok(()),
            None => Err(without_group),
        }
    }

    /// A commit of a member shows that it lives.
    fn renew_session_of_committer(&mut self, request: &OffsetCommit<'_>, now: Now) {
        let mut outcome = Outcome::default();
        self.act(request.group_id, now, &mut outcome, |group, effects| {
            if let Some(member) = group.membership.members.get_mut(request.member_id) {
                member.renew_session(effects);
            }
        });
    }

    /// A topic that the newest metadata do not have is gone. Its offsets are deleted with it, and
    /// none may follow.
    fn offsets_decision(
        &self,
        group_id: &str,
        topics: &[OffsetCommitTopic<'_>],
        now: Now,
        expire_timestamp_ms: i64,
    ) -> Decision<Result<PartitionErrors, ErrorCode>> {
        let mut outcome = Outcome::default();
        let length_max = self.config.offset_metadata_length_max;
        let is_gone = |topic: &OffsetCommitTopic<'_>| {
            !topic.topic_id.is_zero() && self.topics.by_id(topic.topic_id).is_none()
        };
        let mut commit = |topic: &OffsetCommitTopic<'_>, partition: &OffsetCommitPartition<'_>| {
            if is_gone(topic) {
                return ErrorCode::UnknownTopicOrPartition;
            }
            let metadata = partition.metadata.unwrap_or_default();
            if is_longer_than(metadata, length_max) {
                return ErrorCode::OffsetMetadataTooLarge;
            }
            let value = OffsetCommitValue {
                offset: partition.offset.0,
                leader_epoch: partition.leader_epoch.0,
                metadata,
                commit_timestamp: now.wall_ms,
                expire_timestamp: expire_timestamp_ms,
                topic_id: topic.topic_id,
            };
            let record = records::offset_commit(group_id, topic.name, partition.index, &value);
            outcome.records.push(record);
            ErrorCode::None
        };
        let reply = topics
            .iter()
            .map(|topic| topic.partitions.iter().map(|p| commit(topic, p)).collect())
            .collect();
        outcome.into_decision(Ok(reply))
    }

    /// Reads offsets. A group that does not exist has none.
    ///
    /// # Errors
    /// The code of the whole group.
    pub fn fetch_offsets(&self, request: &OffsetFetch<'_>) -> Result<Vec<FetchedTopic>, ErrorCode> {
        let group = self.groups.get(request.group_id);
        if let Some(consumer) = group.and_then(Group::consumer_type) {
            consumer.validate_fetch(request.member_id, request.member_epoch)?;
        }
        let offsets = group.map(|group| &group.offsets);
        let Some(topics) = &request.topics else {
            return Ok(offsets.map_or_else(Vec::new, |offsets| {
                self.all_offsets(offsets, request.require_stable)
            }));
        };
        let fetched = |name: &str, topic_id: Uuid, index: i32| {
            let Some(offsets) = offsets else {
                return fetched_offset(index, None);
            };
            if request.require_stable && offsets.is_unstable(name, index) {
                return unstable_offset(index);
            }
            let offset = offsets.committed.get(name, index);
            fetched_offset(index, offset.filter(|offset| is_of(offset, topic_id)))
        };
        Ok(topics
            .iter()
            .map(|topic| FetchedTopic {
                name: Arc::from(topic.name),
                topic_id: topic.topic_id,
                partitions: topic
                    .partitions
                    .iter()
                    .map(|index| fetched(topic.name, topic.topic_id, *index))
                    .collect(),
            })
            .collect())
    }

    /// All offsets but those of an earlier topic that had the name of one that there is.
    fn all_offsets(&self, offsets: &GroupOffsets, require_stable: bool) -> Vec<FetchedTopic> {
        let fetched = |topic: &str, index: i32, offset: &CommittedOffset| {
            if require_stable && offsets.is_unstable(topic, index) {
                unstable_offset(index)
            } else {
                fetched_offset(index, Some(offset))
            }
        };
        let topics = offsets.committed.topics().map(|(name, partitions)| {
            let topic = self.topics.by_name(name);
            let topic_id = topic.map_or(Uuid::ZERO, |topic| topic.id);
            let partitions = partitions.iter();
            let partitions = partitions.filter(|(_, offset)| is_of(offset, topic_id));
            FetchedTopic {
                name: Arc::clone(name),
                topic_id: Uuid::ZERO,
                partitions: partitions
                    .map(|(index, offset)| fetched(name, *index, offset))
                    .collect(),
            }
        });
        topics
            .filter(|topic| !topic.partitions.is_empty())
            .collect()
    }

    /// Deletes offsets that no member is subscribed to. An outer error is that of the response.
    pub fn delete_offsets(
        &mut self,
        request: &OffsetDelete<'_>,
    ) -> Decision<Result<PartitionErrors, ErrorCode>> {
        if request.group_id.is_empty() {
            return Decision::reply(Err(ErrorCode::InvalidGroupId));
        }
        let Some(group) = self.groups.get(request.group_id) else {
            return Decision::reply(Err(ErrorCode::GroupIdNotFound));
        };
        if let Err(error) = group.validate_offset_delete() {
            return Decision::reply(Err(error));
        }
        let mut outcome = Outcome::default();
        let mut delete = |topic: &str, partition: i32| {
            if group.is_subscribed_to(topic) {
                return ErrorCode::GroupSubscribedToTopic;
            }
            if group.offsets.holds(topic, partition) {
                let record = records::offset_tombstone(request.group_id, topic, partition);
                outcome.records.push(record);
            }
            ErrorCode::None
        };
        let reply = request
            .topics
            .iter()
            .map(|topic| {
                topic
                    .partitions
                    .iter()
                    .map(|p| delete(topic.name, *p))
                    .collect()
            })
            .collect();
        outcome.into_split_decision(Ok(reply))
    }
}

impl Group {
    fn validate_commit(&self, committer: &Committer<'_>) -> Result<(), ErrorCode> {
        if let Some(consumer) = self.consumer_type() {
            return consumer.validate_commit(&MemberCommit {
                member_id: committer.member_id,
                group_instance_id: committer.group_instance_id,
                member_epoch: committer.generation_id,
                is_transactional: committer.is_transactional,
                knows_member_epochs: committer.knows_member_epochs,
                topics: committer.topics,
            });
        }
        if let Some(modern) = self.modern_type() {
            // Members of these groups are not served here; their offsets are.
            return if committer.generation_id < 0 && modern.is_empty() {
                Ok(())
            } else {
                Err(ErrorCode::UnknownMemberId)
            };
        }
        let membership = &self.membership;
        if committer.generation_id < 0 && membership.state == GroupState::Empty {
            return Ok(());
        }
        let names_a_member = committer.generation_id >= 0
            || !committer.member_id.is_empty()
            || committer.group_instance_id.is_some();
        if names_a_member {
            membership.validate_member(committer.member_id, committer.group_instance_id)?;
            if committer.generation_id != membership.generation_id {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !committer.is_transactional {
            // Only its members commit offsets of a group that has some. Producers of old do not
            // say which member they act for.
            return Err(ErrorCode::UnknownMemberId);
        }
        // The member knows its generation but not its assignment, so these are offsets of what
        // it was assigned before.
        if !committer.is_transactional && membership.state == GroupState::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    fn validate_offset_delete(&self) -> Result<(), ErrorCode> {
        if self.consumer_type().is_some() {
            return Ok(());
        }
        let is_empty = match self.modern_type() {
            Some(modern) => modern.is_empty(),
            None => {
                self.membership.state == GroupState::Empty
                    || self.membership.uses_consumer_protocol()
            }
        };
        if is_empty {
            Ok(())
        } else {
            Err(ErrorCode::NonEmptyGroup)
        }
    }
}

/// Whether a text has more UTF-16 units than `length_max`, which is how Kafka counts.
fn is_longer_than(text: &str, length_max: usize) -> bool {
    text.len() > length_max && text.encode_utf16().count() > length_max
}

/// Whether an offset may be one of the topic with this id: a topic may have been deleted and
/// created again under the same name.
fn is_of(offset: &CommittedOffset, topic_id: Uuid) -> bool {
    offset.topic_id.is_zero() || topic_id.is_zero() || offset.topic_id == topic_id
}

fn fetched_offset(index: i32, offset: Option<&CommittedOffset>) -> FetchedOffset {
    FetchedOffset {
        index,
        error: ErrorCode::None,
        offset: offset.map_or(Offset::NONE, |offset| offset.offset),
        leader_epoch: offset.map_or(LeaderEpoch::NONE, |offset| offset.leader_epoch),
        metadata: offset.map_or_else(|| Arc::from(""), |offset| Arc::clone(&offset.metadata)),
    }
}

fn unstable_offset(index: i32) -> FetchedOffset {
    FetchedOffset {
        error: ErrorCode::UnstableOffsetCommit,
        ..fetched_offset(index, None)
    }
}
