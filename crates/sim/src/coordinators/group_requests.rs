//! Requests about groups and their offsets.

use super::groups::TransactionalWriter;
use super::{Caller, Halted, Node};
use crate::protocol::{Answer, Ask, Joined};
use coordinator::group::{
    FetchedTopic, Heartbeat, JoinGroup, JoinGroupResponse, JoinProtocol, OffsetCommit,
    OffsetCommitPartition, OffsetCommitTopic, OffsetFetch, OffsetFetchTopic, PartitionErrors,
    SyncAssignment, SyncGroup, SyncGroupResponse, TxnOffsetCommit,
};
use coordinator::{Decision, GroupResponse};
use model::{ErrorCode, LeaderEpoch, Now, ProducerEpoch, ProducerId, Uuid};
use replication::VerificationGuard;

const TIMEOUT_MS: i32 = crate::protocol::SESSION_TIMEOUT_MS;

impl Node {
    pub(super) fn serve_group(&mut self, caller: Caller, ask: Ask, now: Now) -> Result<(), Halted> {
        match &ask {
            Ask::CommitOffset { .. } => self.commit_offset(caller, &ask, now),
            Ask::FetchOffset { .. } => self.fetch_offset(caller, &ask, now),
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
                let decided = self.groups.decide(
                    group,
                    None,
                    (now, caller),
                    |shard, now| Decision::reply(shard.heartbeat(&heartbeat, now)),
                    |alive| Answer::Done {
                        error: alive.err().unwrap_or(ErrorCode::None),
                    },
                )?;
                decided.or_else(|error| self.refuse(caller, &ask, error))
            }
            Ask::Join { group, member_id } => self.join(caller, group, member_id, now),
            _ => self.sync(caller, &ask, now),
        }
    }

    fn join(
        &mut self,
        caller: Caller,
        group: &str,
        member_id: &str,
        now: Now,
    ) -> Result<(), Halted> {
        let uuid = format!("{:032x}", u128::from_be_bytes(self.random.bytes()));
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
            random_uuid: &uuid,
        };
        let decided = self.groups.decide(
            group,
            None,
            (now, caller),
            |shard, now| shard.join_group(&join, now),
            |reply| Answer::Joined(joined(&reply)),
        )?;
        if let Err(error) = decided {
            let refused = JoinGroupResponse::error(member_id, error);
            let answer = Answer::Joined(joined(&refused));
            self.answers.push((caller, answer));
        }
        Ok(())
    }

    fn sync(&mut self, caller: Caller, ask: &Ask, now: Now) -> Result<(), Halted> {
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
        let decided = self.groups.decide(
            group,
            None,
            (now, caller),
            |shard, now| shard.sync_group(&sync, now),
            |reply| synced(&reply),
        )?;
        decided.or_else(|error| self.refuse(caller, ask, error))
    }

    fn commit_offset(&mut self, caller: Caller, ask: &Ask, now: Now) -> Result<(), Halted> {
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
        let Some(topic) = self.image.topics.by_id(*topic_id).cloned() else {
            return self.refuse(caller, ask, ErrorCode::UnknownTopicId);
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
        let decided = self.groups.decide(
            group,
            None,
            (now, caller),
            |shard, now| shard.commit_offsets(&commit, now),
            stored,
        )?;
        decided.or_else(|error| self.refuse(caller, ask, error))
    }

    /// The offset of a transaction, once its coordinator knows of the partition.
    pub(super) fn commit_in_transaction(
        &mut self,
        caller: Caller,
        ask: Ask,
        guard: Option<VerificationGuard>,
        now: Now,
    ) -> Result<(), Halted> {
        let Ask::CommitInTransaction {
            producer,
            group,
            topic,
            partition,
            offset,
            ..
        } = &ask
        else {
            unreachable!("nothing else waits for a verification")
        };
        let Some(topic) = self.image.topics.by_name(topic).cloned() else {
            return self.refuse(caller, &ask, ErrorCode::UnknownTopicOrPartition);
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
        let decided = self.groups.decide(
            group,
            Some(&writer),
            (now, caller),
            |shard, now| shard.commit_transactional_offsets(&commit, now),
            stored,
        )?;
        decided.or_else(|error| self.refuse(caller, &ask, error))
    }

    fn fetch_offset(&mut self, caller: Caller, ask: &Ask, now: Now) -> Result<(), Halted> {
        let Ask::FetchOffset {
            group,
            topic_id,
            partition,
        } = ask
        else {
            unreachable!("the caller has sorted them")
        };
        let Some(topic) = self.image.topics.by_id(*topic_id).cloned() else {
            return self.refuse(caller, ask, ErrorCode::UnknownTopicId);
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
        let decided = self.groups.decide(
            group,
            None,
            (now, caller),
            |shard, _| Decision::reply(shard.fetch_offsets(&fetch)),
            fetched,
        )?;
        decided.or_else(|error| self.refuse(caller, ask, error))
    }
}

/// The answer of a member that has waited for others.
pub(super) fn answer_of(response: GroupResponse) -> Answer {
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
    let first = topics.map(|topics| {
        let first = topics.first().and_then(|topic| topic.partitions.first());
        first.cloned()
    });
    let refused = |error| Answer::Offset { error, offset: -1 };
    match first {
        Ok(Some(found)) => Answer::Offset {
            error: found.error,
            offset: found.offset,
        },
        Ok(None) => refused(ErrorCode::UnknownServerError),
        Err(error) => refused(error),
    }
}

fn committed(name: &str, topic_id: Uuid, index: i32, offset: i64) -> OffsetCommitTopic<'_> {
    OffsetCommitTopic {
        name,
        topic_id,
        partitions: vec![OffsetCommitPartition {
            index,
            offset,
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
