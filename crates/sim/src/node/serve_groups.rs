//! Requests about groups and their offsets.

use super::groups::TransactionalWriter;
use super::{Caller, Halted, Node, SimPartition, Then};
use crate::protocol::{Answer, Ask, Joined};
use coordinator::GroupResponse;
use coordinator::group::{
    Heartbeat, JoinGroup, JoinGroupResponse, JoinProtocol, OffsetCommit, OffsetCommitPartition,
    OffsetCommitTopic, OffsetFetch, OffsetFetchTopic, PartitionErrors, SyncAssignment, SyncGroup,
    SyncGroupResponse, TxnOffsetCommit,
};
use model::{ErrorCode, Now, Uuid};
use replication::VerificationGuard;
use std::sync::Arc;

const TIMEOUT_MS: i32 = crate::protocol::SESSION_TIMEOUT_MS;

impl Node {
    pub(super) fn serve_group(&mut self, caller: Caller, ask: Ask, now: Now) -> Result<(), Halted> {
        match &ask {
            Ask::CommitOffset { .. } => self.commit_offset(caller, &ask, now),
            Ask::FetchOffset {
                group,
                topic_id,
                partition,
            } => {
                let (answer, until) = self.fetch_offset(group, *topic_id, *partition);
                self.wait(until, Then::Answer(caller, answer));
                Ok(())
            }
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
                let read = self
                    .groups
                    .read(group, |shard| shard.heartbeat(&heartbeat, now));
                let error = read.and_then(|alive| alive).err();
                let error = error.unwrap_or(ErrorCode::None);
                self.answers.push((caller, Answer::Done { error }));
                Ok(())
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
        let decided = self
            .groups
            .decide(group, None, (now, caller), |shard, now| {
                shard.join_group(&join, now)
            })?;
        match decided {
            Ok(decided) => {
                let until: Vec<_> = decided.until.into_iter().collect();
                self.release(decided.released, until.clone());
                if let Some(reply) = decided.reply {
                    let answer = Answer::Joined(joined(&reply));
                    self.wait(until, Then::Answer(caller, answer));
                }
            }
            Err(error) => {
                let refused = JoinGroupResponse::error(member_id, error);
                let answer = Answer::Joined(joined(&refused));
                self.answers.push((caller, answer));
            }
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
        let decided = self
            .groups
            .decide(group, None, (now, caller), |shard, now| {
                shard.sync_group(&sync, now)
            })?;
        match decided {
            Ok(decided) => {
                let until: Vec<_> = decided.until.into_iter().collect();
                self.release(decided.released, until.clone());
                if let Some(reply) = decided.reply {
                    self.wait(until, Then::Answer(caller, synced(&reply)));
                }
                Ok(())
            }
            Err(error) => self.refuse(caller, ask, error),
        }
    }

    /// Answers those whom a decision releases, once it is durable.
    pub(super) fn release(
        &mut self,
        released: Vec<(Caller, GroupResponse)>,
        until: Vec<(Arc<SimPartition>, i64)>,
    ) {
        for (caller, response) in released {
            let answer = match response {
                GroupResponse::Join(response) => Answer::Joined(joined(&response)),
                GroupResponse::Sync(response) => synced(&response),
            };
            self.wait(until.clone(), Then::Answer(caller, answer));
        }
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
        let decided = self
            .groups
            .decide(group, None, (now, caller), |shard, now| {
                shard.commit_offsets(&commit, now)
            })?;
        self.answer_commit(caller, ask, decided)
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
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            verification: guard,
        };
        let decided = self
            .groups
            .decide(group, Some(&writer), (now, caller), |shard, now| {
                shard.commit_transactional_offsets(&commit, now)
            })?;
        self.answer_commit(caller, &ask, decided)
    }

    fn answer_commit(
        &mut self,
        caller: Caller,
        ask: &Ask,
        decided: Result<super::groups::Decided<Result<PartitionErrors, ErrorCode>>, ErrorCode>,
    ) -> Result<(), Halted> {
        let decided = match decided {
            Ok(decided) => decided,
            Err(error) => return self.refuse(caller, ask, error),
        };
        let until: Vec<_> = decided.until.into_iter().collect();
        self.release(decided.released, until.clone());
        let error = match decided.reply {
            Some(Ok(errors)) => errors.into_iter().flatten().next(),
            Some(Err(error)) => Some(error),
            None => Some(ErrorCode::NotCoordinator),
        };
        let error = error.unwrap_or(ErrorCode::UnknownServerError);
        self.wait(until, Then::Answer(caller, Answer::Done { error }));
        Ok(())
    }

    fn fetch_offset(
        &mut self,
        group: &str,
        topic_id: Uuid,
        index: i32,
    ) -> (Answer, Vec<(Arc<SimPartition>, i64)>) {
        let refused = |error| (Answer::Offset { error, offset: -1 }, Vec::new());
        let Some(topic) = self.image.topics.by_id(topic_id).cloned() else {
            return refused(ErrorCode::UnknownTopicId);
        };
        let partition = match self.groups.partition_of(group) {
            Ok(partition) => partition,
            Err(error) => return refused(error),
        };
        let fetch = OffsetFetch {
            group_id: group,
            member_id: None,
            member_epoch: -1,
            require_stable: true,
            topics: Some(vec![OffsetFetchTopic {
                name: &topic.name,
                topic_id,
                partitions: vec![index],
            }]),
        };
        let fetched = self.groups.read(group, |shard| shard.fetch_offsets(&fetch));
        let fetched = match fetched.and_then(|fetched| fetched) {
            Ok(fetched) => fetched,
            Err(error) => return refused(error),
        };
        let first = fetched.first().and_then(|topic| topic.partitions.first());
        let answer = match first {
            Some(found) => Answer::Offset {
                error: found.error,
                offset: found.offset,
            },
            None => return refused(ErrorCode::UnknownServerError),
        };
        // What is not durable yet could be taken back by a crash.
        let end = partition.offsets().log_end_offset;
        (answer, vec![(partition, end)])
    }
}

fn committed(name: &str, topic_id: Uuid, index: i32, offset: i64) -> OffsetCommitTopic<'_> {
    OffsetCommitTopic {
        name,
        topic_id,
        partitions: vec![OffsetCommitPartition {
            index,
            offset,
            leader_epoch: -1,
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
