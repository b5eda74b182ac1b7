//! Requests about groups and their offsets.

use super::{CoordinatorCaller, Groups, TransactionalWriter};
use crate::halted::Halted;
use crate::protocol::{Answer, Ask, Joined};
use coordinator::group::{
    FetchedTopic, Heartbeat, JoinGroup, JoinGroupResponse, JoinProtocol, OffsetCommit,
    OffsetCommitPartition, OffsetCommitTopic, OffsetFetch, OffsetFetchTopic, PartitionErrors,
    SyncAssignment, SyncGroup, SyncGroupResponse, TxnOffsetCommit,
};
use coordinator::{Decision, GroupResponse};
use metadata::MetadataImage;
use model::{ErrorCode, LeaderEpoch, Now, Offset, ProducerEpoch, ProducerId, Uuid};
use replication::VerificationGuard;

const TIMEOUT_MS: i32 = crate::protocol::SESSION_TIMEOUT_MS;

/// Served, or why it is not.
type Served = Result<Result<(), ErrorCode>, Halted>;

impl<C: CoordinatorCaller> Groups<C> {
    /// Serves a request of a group's member, or about offsets outside of transactions. The caller is answered when
    /// that may be; the inner error is to be told at once.
    pub(crate) fn serve(
        &mut self,
        caller: C,
        ask: &Ask,
        (image, random_uuid): (&MetadataImage, &str),
        now: Now,
    ) -> Served {
        match ask {
            Ask::CommitOffset { .. } => self.commit_offset(caller, ask, image, now),
            Ask::FetchOffset { .. } => self.fetch_offset(caller, ask, image, now),
            Ask::Heartbeat {
                group,
                generation,
                member_id,
            } => {
                let heartbeat = Heartbeat {
                    group_id: group,
                    generation_id: *generation,
                    member_id,
                    group_instance_id: None,
                };
                self.decide(
                    group,
                    None,
                    (now, caller),
                    |shard, now| Decision::reply(shard.heartbeat(&heartbeat, now)),
                    |alive| Answer::Done {
                        error: alive.err().unwrap_or(ErrorCode::None),
                    },
                )
            }
            Ask::Join { group, member_id } => {
                self.join(caller, group, (member_id, random_uuid), now)
            }
            _ => self.sync(caller, ask, now),
        }
    }

    fn join(
        &mut self,
        caller: C,
        group: &str,
        (member_id, random_uuid): (&str, &str),
        now: Now,
    ) -> Served {
        let join = JoinGroup {
            group_id: group,
            member_id,
            group_instance_id: None,
            client_id: "sim",
            client_host: "/127.0.0.1",
            session_timeout_ms: TIMEOUT_MS,
            rebalance_timeout_ms: TIMEOUT_MS,
            protocol_type: "consumer",
            protocols: vec![JoinProtocol {
                name: "range",
                metadata: &[],
            }],
            requires_known_member_id: true,
            supports_skipping_assignment: true,
            random_uuid,
        };
        self.decide(
            group,
            None,
            (now, caller),
            |shard, now| shard.join_group(&join, now),
            |reply| Answer::Joined(joined(&reply)),
        )
    }

    fn sync(&mut self, caller: C, ask: &Ask, now: Now) -> Served {
        let Ask::Sync {
            group,
            generation,
            member_id,
            assignments,
        } = ask
        else {
            unreachable!("the caller has sorted them")
        };
        let assignments = assignments.iter();
        let sync = SyncGroup {
            group_id: group,
            generation_id: *generation,
            member_id,
            group_instance_id: None,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignments: assignments
                .map(|(member_id, assignment)| SyncAssignment {
                    member_id,
                    assignment,
                })
                .collect(),
        };
        self.decide(
            group,
            None,
            (now, caller),
            |shard, now| shard.sync_group(&sync, now),
            |reply| synced(&reply),
        )
    }

    fn commit_offset(&mut self, caller: C, ask: &Ask, image: &MetadataImage, now: Now) -> Served {
        let Ask::CommitOffset {
            group,
            generation,
            member_id,
            topic_id,
            partition,
            offset,
        } = ask
        else {
            unreachable!("the caller has sorted them")
        };
        let Some(topic) = image.topics.by_id(*topic_id) else {
            return Ok(Err(ErrorCode::UnknownTopicId));
        };
        let commit = OffsetCommit {
            group_id: group,
            generation_id: *generation,
            member_id,
            group_instance_id: None,
            retention_time_ms: -1,
            reports_group_id_not_found: true,
            topics: vec![committed(&topic.name, topic.id, *partition, *offset)],
        };
        self.decide(
            group,
            None,
            (now, caller),
            |shard, now| shard.commit_offsets(&commit, now),
            stored,
        )
    }

    /// The offset that a group has committed, if it is coordinated here; -1 for none.
    pub(crate) fn committed_offset(&mut self, group: &str, topic: &str, index: i32) -> Option<i64> {
        let fetch = OffsetFetch {
            group_id: group,
            member_id: None,
            member_epoch: -1,
            require_stable: true,
            topics: Some(vec![OffsetFetchTopic {
                name: topic,
                topic_id: Uuid::ZERO,
                partitions: vec![index],
            }]),
        };
        let fetched = self.shard_of(group)?.fetch_offsets(&fetch);
        match fetched_offset(fetched) {
            (ErrorCode::None, offset) => Some(offset.0),
            _ => None,
        }
    }

    /// The offset of a transaction, once its coordinator knows of the partition.
    pub(crate) fn commit_in_transaction(
        &mut self,
        caller: C,
        ask: &Ask,
        (image, guard): (&MetadataImage, Option<VerificationGuard>),
        now: Now,
    ) -> Served {
        let Ask::CommitInTransaction {
            producer,
            group,
            topic,
            partition,
            offset,
            ..
        } = ask
        else {
            unreachable!("nothing else waits for a verification")
        };
        let Some(topic) = image.topics.by_name(topic) else {
            return Ok(Err(ErrorCode::UnknownTopicOrPartition));
        };
        let commit = TxnOffsetCommit {
            group_id: group,
            generation_id: -1,
            member_id: "",
            group_instance_id: None,
            topics: vec![committed(&topic.name, topic.id, *partition, *offset)],
        };
        let writer = TransactionalWriter {
            producer_id: ProducerId(producer.id),
            producer_epoch: ProducerEpoch(producer.epoch),
            verification: guard,
        };
        self.decide(
            group,
            Some(&writer),
            (now, caller),
            |shard, now| shard.commit_transactional_offsets(&commit, now),
            stored,
        )
    }

    fn fetch_offset(&mut self, caller: C, ask: &Ask, image: &MetadataImage, now: Now) -> Served {
        let Ask::FetchOffset {
            group,
            topic_id,
            partition,
        } = ask
        else {
            unreachable!("the caller has sorted them")
        };
        let Some(topic) = image.topics.by_id(*topic_id) else {
            return Ok(Err(ErrorCode::UnknownTopicId));
        };
        let fetch = OffsetFetch {
            group_id: group,
            member_id: None,
            member_epoch: -1,
            require_stable: true,
            topics: Some(vec![OffsetFetchTopic {
                name: &topic.name,
                topic_id: *topic_id,
                partitions: vec![*partition],
            }]),
        };
        self.decide(
            group,
            None,
            (now, caller),
            |shard, _| Decision::reply(shard.fetch_offsets(&fetch)),
            fetched,
        )
    }
}

/// The answer of a member that has waited for others.
pub(crate) fn answer_of(response: GroupResponse) -> Answer {
    match response {
        GroupResponse::Join(response) => Answer::Joined(joined(&response)),
        GroupResponse::Sync(response) => synced(&response),
    }
}

fn stored(errors: Result<PartitionErrors, ErrorCode>) -> Answer {
    let error = match errors {
        Ok(errors) => errors.into_iter().flatten().next(),
        Err(error) => Some(error),
    };
    let error = error.unwrap_or(ErrorCode::UnknownServerError);
    Answer::Done { error }
}

fn fetched(topics: Result<Vec<FetchedTopic>, ErrorCode>) -> Answer {
    let (error, offset) = fetched_offset(topics);
    Answer::Offset {
        error,
        offset: offset.0,
    }
}

fn fetched_offset(topics: Result<Vec<FetchedTopic>, ErrorCode>) -> (ErrorCode, Offset) {
    let first = topics.map(|topics| {
        let first = topics.first().and_then(|topic| topic.partitions.first());
        first.map(|found| (found.error, found.offset))
    });
    match first {
        Ok(found) => found.unwrap_or((ErrorCode::UnknownServerError, Offset::NONE)),
        Err(error) => (error, Offset::NONE),
    }
}

fn committed(name: &str, topic_id: Uuid, index: i32, offset: i64) -> OffsetCommitTopic<'_> {
    OffsetCommitTopic {
        name,
        topic_id,
        partitions: vec![OffsetCommitPartition {
            index,
            offset: Offset(offset),
            leader_epoch: LeaderEpoch::NONE,
            metadata: None,
        }],
    }
}

fn joined(response: &JoinGroupResponse) -> Joined {
    let members = response.members.iter();
    Joined {
        error: response.error,
        generation: response.generation_id,
        leader: response.leader.to_string(),
        member_id: response.member_id.to_string(),
        members: members.map(|one| one.member_id.to_string()).collect(),
    }
}

fn synced(response: &SyncGroupResponse) -> Answer {
    Answer::Synced {
        error: response.error,
        assignment: response.assignment.to_vec(),
    }
}
