//! Requests of the product's own clients about groups: each is whole what its shard decides about.

use super::frames::{body_of, version_of};
use super::{Caller, Node};
use crate::halted::Halted;
use crate::protocol::Answer;
use coordinator::group::{
    ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse, FetchedTopic, Heartbeat, JoinGroup,
    JoinGroupResponse, JoinProtocol, LeaveGroup, LeavingMember, OffsetCommit,
    OffsetCommitPartition, OffsetCommitTopic, OffsetFetch, OffsetFetchTopic, SyncAssignment,
    SyncGroup, SyncGroupResponse, TopicRegex,
};
use coordinator::{Decision, GroupResponse};
use model::{DecodeError, ErrorCode, LeaderEpoch, Message, Now, Offset, Uuid};
use wire::ApiKey;
use wire::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::messages::leave_group_response::MemberResponse;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse as ConsumerResponse,
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse as JoinResponse,
    LeaveGroupRequest, LeaveGroupResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse as SyncResponse,
};

/// Where every client of a world is.
const CLIENT_HOST: &str = "/127.0.0.1";

impl Node {
    /// Has the shard of a group decide about a request; refuses what is none.
    pub(super) fn serve_frame_of_group(
        &mut self,
        caller: Caller,
        api: ApiKey,
        client_id: &str,
        body: &[u8],
        now: Now,
    ) -> Result<Result<(), DecodeError>, Halted> {
        let version = version_of(api);
        macro_rules! read {
            ($message:ty) => {
                match <$message>::from_bytes(body, version) {
                    Ok(message) => message,
                    Err(error) => return Ok(Err(error)),
                }
            };
        }
        let at = (now, caller);
        match api {
            ApiKey::JoinGroup => self.join_of(&read!(JoinGroupRequest<'_>), client_id, at)?,
            ApiKey::SyncGroup => self.sync_of(&read!(SyncGroupRequest<'_>), at)?,
            ApiKey::Heartbeat => self.heartbeat_of(&read!(HeartbeatRequest<'_>), at)?,
            ApiKey::LeaveGroup => self.leave_of(&read!(LeaveGroupRequest<'_>), at)?,
            ApiKey::OffsetCommit => self.commit_of(&read!(OffsetCommitRequest<'_>), at)?,
            ApiKey::OffsetFetch => self.offsets_of(&read!(OffsetFetchRequest<'_>), at)?,
            _ => {
                let message = read!(ConsumerGroupHeartbeatRequest<'_>);
                self.consumer_heartbeat_of(&message, client_id, at)?;
            }
        }
        Ok(Ok(()))
    }

    /// Answers what the coordinator has refused.
    fn answer_refusal(
        &mut self,
        caller: Caller,
        decided: Result<(), ErrorCode>,
        answer: impl FnOnce(ErrorCode) -> Answer,
    ) {
        if let Err(error) = decided {
            self.answers.push((caller, answer(error)));
        }
    }

    fn join_of(
        &mut self,
        message: &JoinGroupRequest<'_>,
        client_id: &str,
        at: (Now, Caller),
    ) -> Result<(), Halted> {
        let uuid = format!("{:032x}", u128::from_be_bytes(self.random.bytes()));
        let protocols = message.protocols.iter().map(|protocol| JoinProtocol {
            name: protocol.name,
            metadata: protocol.metadata,
        });
        let join = JoinGroup {
            group_id: message.group_id,
            member_id: message.member_id,
            group_instance_id: message.group_instance_id,
            client_id,
            client_host: CLIENT_HOST,
            session_timeout_ms: message.session_timeout_ms,
            rebalance_timeout_ms: message.rebalance_timeout_ms,
            protocol_type: message.protocol_type,
            protocols: protocols.collect(),
            requires_known_member_id: true,
            supports_skipping_assignment: true,
            random_uuid: &uuid,
        };
        let decide = |shard: &mut coordinator::group::GroupShard, now| shard.join_group(&join, now);
        let decided = self
            .groups
            .decide(message.group_id, None, at, decide, |reply| joined(&reply))?;
        self.answer_refusal(at.1, decided, |error| {
            joined(&JoinGroupResponse::error(message.member_id, error))
        });
        Ok(())
    }

    fn sync_of(&mut self, message: &SyncGroupRequest<'_>, at: (Now, Caller)) -> Result<(), Halted> {
        let assignments = message.assignments.iter().map(|one| SyncAssignment {
            member_id: one.member_id,
            assignment: one.assignment,
        });
        let sync = SyncGroup {
            group_id: message.group_id,
            generation_id: message.generation_id,
            member_id: message.member_id,
            group_instance_id: message.group_instance_id,
            protocol_type: message.protocol_type,
            protocol_name: message.protocol_name,
            assignments: assignments.collect(),
        };
        let decide = |shard: &mut coordinator::group::GroupShard, now| shard.sync_group(&sync, now);
        let decided = self
            .groups
            .decide(message.group_id, None, at, decide, |reply| synced(&reply))?;
        self.answer_refusal(at.1, decided, |error| {
            synced(&SyncGroupResponse::error(error))
        });
        Ok(())
    }

    fn heartbeat_of(
        &mut self,
        message: &HeartbeatRequest<'_>,
        at: (Now, Caller),
    ) -> Result<(), Halted> {
        let heartbeat = Heartbeat {
            group_id: message.group_id,
            generation_id: message.generation_id,
            member_id: message.member_id,
            group_instance_id: message.group_instance_id,
        };
        let answer = |error: ErrorCode| {
            let response = HeartbeatResponse {
                error_code: error.code(),
                ..HeartbeatResponse::default()
            };
            body_of(ApiKey::Heartbeat, &response)
        };
        let decided = self.groups.decide(
            message.group_id,
            None,
            at,
            |shard, now| Decision::reply(shard.heartbeat(&heartbeat, now)),
            |alive| answer(alive.err().unwrap_or(ErrorCode::None)),
        )?;
        self.answer_refusal(at.1, decided, answer);
        Ok(())
    }

    fn leave_of(
        &mut self,
        message: &LeaveGroupRequest<'_>,
        at: (Now, Caller),
    ) -> Result<(), Halted> {
        let members = message.members.iter().map(|member| LeavingMember {
            member_id: member.member_id,
            group_instance_id: member.group_instance_id,
        });
        let leave = LeaveGroup {
            group_id: message.group_id,
            members: members.collect(),
        };
        let answer = |result: Result<Vec<ErrorCode>, ErrorCode>| {
            let code = result.as_ref().err().copied().unwrap_or(ErrorCode::None);
            let errors = result.unwrap_or_default();
            let members = leave
                .members
                .iter()
                .zip(errors)
                .map(|(member, error)| MemberResponse {
                    member_id: member.member_id,
                    group_instance_id: member.group_instance_id,
                    error_code: error.code(),
                });
            let response = LeaveGroupResponse {
                error_code: code.code(),
                members: members.collect(),
                ..LeaveGroupResponse::default()
            };
            body_of(ApiKey::LeaveGroup, &response)
        };
        let decided = self.groups.decide(
            message.group_id,
            None,
            at,
            |shard, now| shard.leave_group(&leave, now),
            answer,
        )?;
        self.answer_refusal(at.1, decided, |error| answer(Err(error)));
        Ok(())
    }

    fn commit_of(
        &mut self,
        message: &OffsetCommitRequest<'_>,
        at: (Now, Caller),
    ) -> Result<(), Halted> {
        let image = self.image.clone();
        let topics = message.topics.iter().map(|topic| OffsetCommitTopic {
            name: topic.name,
            topic_id: image.topics.id_of(topic.name).unwrap_or(Uuid::ZERO),
            partitions: topic
                .partitions
                .iter()
                .map(|one| OffsetCommitPartition {
                    index: one.partition_index,
                    offset: Offset(one.committed_offset),
                    leader_epoch: LeaderEpoch(one.committed_leader_epoch),
                    metadata: one.committed_metadata,
                })
                .collect(),
        });
        let commit = OffsetCommit {
            group_id: message.group_id,
            generation_id: message.generation_id_or_member_epoch,
            member_id: message.member_id,
            group_instance_id: message.group_instance_id,
            retention_time_ms: -1,
            reports_group_id_not_found: true,
            topics: topics.collect(),
        };
        let answer = |result: Result<Vec<Vec<ErrorCode>>, ErrorCode>| {
            let topics = commit.topics.iter().enumerate().map(|(at, topic)| {
                let partitions = topic.partitions.iter().enumerate().map(|(place, one)| {
                    let told = result.as_ref().map(|errors| errors[at][place]);
                    OffsetCommitResponsePartition {
                        partition_index: one.index,
                        error_code: told.unwrap_or_else(|error| *error).code(),
                    }
                });
                OffsetCommitResponseTopic {
                    name: topic.name,
                    partitions: partitions.collect(),
                    ..OffsetCommitResponseTopic::default()
                }
            });
            let response = OffsetCommitResponse {
                topics: topics.collect(),
                ..OffsetCommitResponse::default()
            };
            body_of(ApiKey::OffsetCommit, &response)
        };
        let decided = self.groups.decide(
            message.group_id,
            None,
            at,
            |shard, now| shard.commit_offsets(&commit, now),
            answer,
        )?;
        self.answer_refusal(at.1, decided, |error| answer(Err(error)));
        Ok(())
    }

    /// The offsets of one group: the client asks for no more.
    fn offsets_of(
        &mut self,
        message: &OffsetFetchRequest<'_>,
        at: (Now, Caller),
    ) -> Result<(), Halted> {
        let group = message.groups.iter().next().unwrap_or_default();
        let image = self.image.clone();
        let topics = group.topics.as_ref().map(|topics| {
            let topics = topics.iter().map(|topic| OffsetFetchTopic {
                name: topic.name,
                topic_id: image.topics.id_of(topic.name).unwrap_or(Uuid::ZERO),
                partitions: topic.partition_indexes.iter().collect(),
            });
            topics.collect()
        });
        let fetch = OffsetFetch {
            group_id: group.group_id,
            member_id: group.member_id,
            member_epoch: group.member_epoch,
            require_stable: message.require_stable,
            topics,
        };
        let answer = |result: Result<Vec<FetchedTopic>, ErrorCode>| {
            let code = result.as_ref().err().copied().unwrap_or(ErrorCode::None);
            let found = result.unwrap_or_default();
            let topics = found.iter().map(|topic| {
                let partitions = topic.partitions.iter();
                let partitions = partitions.map(|one| OffsetFetchResponsePartitions {
                    partition_index: one.index,
                    committed_offset: one.offset.0,
                    committed_leader_epoch: one.leader_epoch.0,
                    metadata: Some(&one.metadata),
                    error_code: one.error.code(),
                });
                OffsetFetchResponseTopics {
                    name: &topic.name,
                    partitions: partitions.collect(),
                    ..OffsetFetchResponseTopics::default()
                }
            });
            let group = OffsetFetchResponseGroup {
                group_id: group.group_id,
                topics: topics.collect(),
                error_code: code.code(),
            };
            let response = OffsetFetchResponse {
                groups: vec![group].into(),
                ..OffsetFetchResponse::default()
            };
            body_of(ApiKey::OffsetFetch, &response)
        };
        let decided = self.groups.decide(
            group.group_id,
            None,
            at,
            |shard, _| Decision::reply(shard.fetch_offsets(&fetch)),
            answer,
        )?;
        self.answer_refusal(at.1, decided, |error| answer(Err(error)));
        Ok(())
    }

    fn consumer_heartbeat_of(
        &mut self,
        message: &ConsumerGroupHeartbeatRequest<'_>,
        client_id: &str,
        at: (Now, Caller),
    ) -> Result<(), Halted> {
        let owned = message.topic_partitions.as_ref().map(|topics| {
            let topics = topics.iter();
            topics
                .map(|topic| (topic.topic_id, topic.partitions.iter().collect()))
                .collect()
        });
        let names = message.subscribed_topic_names.as_ref();
        let heartbeat = ConsumerGroupHeartbeat {
            group_id: message.group_id,
            member_id: message.member_id,
            member_epoch: message.member_epoch,
            instance_id: message.instance_id,
            rack_id: message.rack_id,
            rebalance_timeout_ms: message.rebalance_timeout_ms,
            subscribed_topic_names: names.map(|names| names.iter().collect()),
            subscribed_topic_regex: message.subscribed_topic_regex.map(TopicRegex::read),
            server_assignor: message.server_assignor,
            owned_partitions: owned,
            client_id,
            client_host: CLIENT_HOST,
            requires_member_id: true,
            random_member_id: "",
        };
        let refused = |error: ErrorCode| {
            let response = ConsumerResponse {
                error_code: error.code(),
                ..ConsumerResponse::default()
            };
            body_of(ApiKey::ConsumerGroupHeartbeat, &response)
        };
        let decided = self.groups.decide(
            message.group_id,
            None,
            at,
            |shard, now| shard.consumer_group_heartbeat(&heartbeat, now),
            |result| match result {
                Ok(alive) => is_alive(&alive),
                Err(refusal) => refused(refusal.error),
            },
        )?;
        self.answer_refusal(at.1, decided, refused);
        Ok(())
    }
}

fn is_alive(answer: &ConsumerGroupHeartbeatResponse) -> Answer {
    let assignment = answer.assignment.as_ref().map(|topics| Assignment {
        topic_partitions: topics
            .iter()
            .map(|(topic_id, partitions)| TopicPartitions {
                topic_id: *topic_id,
                partitions: partitions.into(),
            })
            .collect(),
    });
    let response = ConsumerResponse {
        member_id: Some(&answer.member_id),
        member_epoch: answer.member_epoch,
        heartbeat_interval_ms: answer.heartbeat_interval_ms,
        assignment,
        ..ConsumerResponse::default()
    };
    body_of(ApiKey::ConsumerGroupHeartbeat, &response)
}

/// The answer of a member that has waited for others.
pub(super) fn body_of_released(response: &GroupResponse) -> Answer {
    match response {
        GroupResponse::Join(response) => joined(response),
        GroupResponse::Sync(response) => synced(response),
    }
}

fn joined(response: &JoinGroupResponse) -> Answer {
    let members = response
        .members
        .iter()
        .map(|member| JoinGroupResponseMember {
            member_id: &member.member_id,
            group_instance_id: member.group_instance_id.as_deref(),
            metadata: &member.metadata,
        });
    let message = JoinResponse {
        error_code: response.error.code(),
        generation_id: response.generation_id,
        protocol_type: response.protocol_type.as_deref(),
        protocol_name: response.protocol_name.as_deref(),
        leader: &response.leader,
        skip_assignment: response.skip_assignment,
        member_id: &response.member_id,
        members: members.collect(),
        ..JoinResponse::default()
    };
    body_of(ApiKey::JoinGroup, &message)
}

fn synced(response: &SyncGroupResponse) -> Answer {
    let message = SyncResponse {
        error_code: response.error.code(),
        protocol_type: response.protocol_type.as_deref(),
        protocol_name: response.protocol_name.as_deref(),
        assignment: &response.assignment,
        ..SyncResponse::default()
    };
    body_of(ApiKey::SyncGroup, &message)
}
