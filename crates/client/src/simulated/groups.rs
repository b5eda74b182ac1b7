//! The group's coordinator: the server's own state machine, behind the protocol.

mod consumer_protocol;

use super::cluster::{Call, Outcome};
use coordinator::group::{
    GroupConfig, GroupShard, Heartbeat, JoinGroup, JoinProtocol, LeaveGroup, LeavingMember,
    OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, OffsetFetch, OffsetFetchTopic,
    RecordOrigin, SyncAssignment, SyncGroup,
};
use coordinator::{CoordinatorRecord, Decision, GroupResponse, Reply, Token};
use model::{ErrorCode, LeaderEpoch, Message as _, Now, Offset, ProducerId, TopicPartition, Uuid};
use std::collections::BTreeMap;
use tokio::sync::oneshot;
use wire::ApiKey;
use wire::messages::join_group_response::JoinGroupResponseMember;
use wire::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};
use wire::messages::{
    HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    LeaveGroupResponse, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest,
    OffsetFetchResponse, SyncGroupRequest, SyncGroupResponse,
};

/// A commit that was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) client_id: String,
    /// -1 for who is no member.
    pub(crate) generation_id: i32,
    pub(crate) offsets: BTreeMap<TopicPartition, i64>,
}

/// A member that left its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) client_id: String,
    pub(crate) member_id: String,
    /// Empty in the consumer protocol, which has none.
    pub(crate) reason: String,
}

/// The answer to a request that waited.
pub(super) struct Later(GroupResponse);

/// The coordinator and what a test wants to know of it.
#[derive(Debug)]
pub(crate) struct Groups {
    shard: GroupShard,
    log_end_offset: i64,
    uuids: u128,
    parked: BTreeMap<Token, oneshot::Sender<Later>>,
    /// Every commit that was stored, in order.
    pub(crate) stored: Vec<Stored>,
    /// The offsets of the one group, as they are.
    pub(crate) committed: BTreeMap<TopicPartition, i64>,
    /// Which members left their group, and why.
    pub(crate) left: Vec<Left>,
    /// The topics that consumer groups see are as of here.
    topics_version: i64,
    /// Commits that were stored of partitions which another member had.
    pub(crate) trespasses: Vec<String>,
}

impl std::fmt::Debug for Later {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Later")
    }
}

impl Groups {
    pub(super) fn new() -> Self {
        let mut shard = GroupShard::new(GroupConfig {
            initial_rebalance_delay_ms: 0,
            session_timeout_min_ms: 0,
            consumer: consumer_protocol::config(),
            ..GroupConfig::default()
        });
        shard.start(Now::at_ms(0));
        Self {
            shard,
            log_end_offset: 0,
            uuids: 1,
            parked: BTreeMap::new(),
            stored: Vec::new(),
            committed: BTreeMap::new(),
            left: Vec::new(),
            topics_version: 0,
            trespasses: Vec::new(),
        }
    }

    pub(super) fn expire(&mut self, now_ms: i64) -> bool {
        let now = Now::at_ms(now_ms);
        let decision = self.shard.expire(now);
        let has_news = !decision.released.is_empty();
        self.append(decision.records);
        self.release(decision.released);
        for mut resolution in self.shard.take_resolutions() {
            while resolution.step() {}
            let resolved = self.shard.regexes_resolved(resolution, now);
            self.append(resolved.records);
        }
        has_news
    }

    fn append(&mut self, records: Vec<CoordinatorRecord>) {
        for record in records {
            let origin = RecordOrigin {
                offset: Offset(self.log_end_offset),
                producer_id: ProducerId::NONE,
            };
            self.log_end_offset += 1;
            let replayed = self
                .shard
                .replay(origin, &record.key, record.value.as_deref());
            replayed.expect("the coordinator's own record");
        }
    }

    fn release(&mut self, released: Vec<(Token, GroupResponse)>) {
        for (token, response) in released {
            if let Some(waiting) = self.parked.remove(&token) {
                let _ = waiting.send(Later(response));
            }
        }
    }

    /// Takes a request that may have to wait for other members.
    pub(super) fn park(&mut self, call: &Call<'_>) -> oneshot::Receiver<Later> {
        let (sender, receiver) = oneshot::channel();
        match call.api {
            ApiKey::JoinGroup => {
                let decision = self.join(call);
                self.settle(decision, sender, GroupResponse::Join);
            }
            _ => {
                let decision = self.sync(call);
                self.settle(decision, sender, GroupResponse::Sync);
            }
        }
        receiver
    }

    fn settle<R>(
        &mut self,
        decision: Decision<R>,
        sender: oneshot::Sender<Later>,
        wrap: impl Fn(R) -> GroupResponse,
    ) {
        self.append(decision.records);
        match decision.reply {
            Reply::Now(response) => {
                let _ = sender.send(Later(wrap(response)));
            }
            Reply::Parked(token) => {
                self.parked.insert(token, sender);
            }
        }
        self.release(decision.released);
    }

    fn join(&mut self, call: &Call<'_>) -> Decision<coordinator::group::JoinGroupResponse> {
        let request: JoinGroupRequest<'_> = call.read();
        self.uuids += 1;
        let uuid = Uuid::from_u128(self.uuids).to_string();
        let protocols = request.protocols.iter().map(|protocol| JoinProtocol {
            name: protocol.name,
            metadata: protocol.metadata,
        });
        let join = JoinGroup {
            group_id: request.group_id,
            member_id: request.member_id,
            group_instance_id: request.group_instance_id,
            client_id: call.client_id,
            client_host: "/simulated",
            session_timeout_ms: request.session_timeout_ms,
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            protocol_type: request.protocol_type,
            protocols: protocols.collect(),
            requires_known_member_id: true,
            supports_skipping_assignment: true,
            random_uuid: &uuid,
        };
        self.shard.join_group(&join, Now::at_ms(call.now_ms))
    }

    fn sync(&mut self, call: &Call<'_>) -> Decision<coordinator::group::SyncGroupResponse> {
        let request: SyncGroupRequest<'_> = call.read();
        let assignments = request.assignments.iter().map(|one| SyncAssignment {
            member_id: one.member_id,
            assignment: one.assignment,
        });
        let sync = SyncGroup {
            group_id: request.group_id,
            generation_id: request.generation_id,
            member_id: request.member_id,
            group_instance_id: request.group_instance_id,
            protocol_type: request.protocol_type,
            protocol_name: request.protocol_name,
            assignments: assignments.collect(),
        };
        self.shard.sync_group(&sync, Now::at_ms(call.now_ms))
    }

    pub(super) fn heartbeat(&mut self, call: &Call<'_>) -> Outcome {
        let request: HeartbeatRequest<'_> = call.read();
        let beat = Heartbeat {
            group_id: request.group_id,
            generation_id: request.generation_id,
            member_id: request.member_id,
            group_instance_id: request.group_instance_id,
        };
        let error = self.shard.heartbeat(&beat, Now::at_ms(call.now_ms)).err();
        call.answer(&HeartbeatResponse {
            error_code: error.map_or(0, ErrorCode::code),
            ..HeartbeatResponse::default()
        })
    }

    pub(super) fn leave(&mut self, call: &Call<'_>) -> Outcome {
        let request: LeaveGroupRequest<'_> = call.read();
        let members: Vec<_> = request.members.iter().collect();
        for member in &members {
            self.left.push(Left {
                client_id: call.client_id.to_owned(),
                member_id: member.member_id.to_owned(),
                reason: member.reason.unwrap_or_default().to_owned(),
            });
        }
        let members = members.iter().map(|member| LeavingMember {
            member_id: member.member_id,
            group_instance_id: member.group_instance_id,
        });
        let leave = LeaveGroup {
            group_id: request.group_id,
            members: members.collect(),
        };
        let decision = self.shard.leave_group(&leave, Now::at_ms(call.now_ms));
        self.append(decision.records);
        self.release(decision.released);
        call.answer(&LeaveGroupResponse::default())
    }

    pub(super) fn commit(&mut self, call: &Call<'_>) -> Outcome {
        let request: OffsetCommitRequest<'_> = call.read();
        let topics: Vec<OffsetCommitTopic<'_>> = request
            .topics
            .iter()
            .map(|topic| OffsetCommitTopic {
                name: topic.name,
                topic_id: Uuid::ZERO,
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
            })
            .collect();
        let commit = OffsetCommit {
            group_id: request.group_id,
            generation_id: request.generation_id_or_member_epoch,
            member_id: request.member_id,
            group_instance_id: request.group_instance_id,
            retention_time_ms: -1,
            reports_group_id_not_found: call.version >= 9,
            topics,
        };
        let refused = match call.refusal {
            Some(code) => Some(code),
            None => self.store(&commit, call),
        };
        let code = refused.map_or(0, ErrorCode::code);
        let answers = commit.topics.iter().map(|topic| OffsetCommitResponseTopic {
            name: topic.name,
            partitions: topic
                .partitions
                .iter()
                .map(|one| OffsetCommitResponsePartition {
                    partition_index: one.index,
                    error_code: code,
                })
                .collect(),
            ..OffsetCommitResponseTopic::default()
        });
        call.answer(&OffsetCommitResponse {
            topics: answers.collect(),
            ..OffsetCommitResponse::default()
        })
    }

    fn store(&mut self, commit: &OffsetCommit<'_>, call: &Call<'_>) -> Option<ErrorCode> {
        let decision = self.shard.commit_offsets(commit, Now::at_ms(call.now_ms));
        self.append(decision.records);
        self.release(decision.released);
        let Reply::Now(result) = decision.reply else {
            unreachable!("a commit does not wait");
        };
        let errors = match result {
            Ok(errors) => errors,
            Err(code) => return Some(code),
        };
        if let Some(code) = errors.into_iter().flatten().find(|code| !code.is_none()) {
            return Some(code);
        }
        let topics = commit.topics.iter();
        let offsets: BTreeMap<TopicPartition, i64> = topics
            .flat_map(|topic| topic.partitions.iter().map(move |one| (topic.name, one)))
            .map(|(name, one)| (TopicPartition::new(name, one.index), one.offset.0))
            .collect();
        self.note_trespass(commit.member_id, &offsets);
        self.committed.extend(offsets.clone());
        self.stored.push(Stored {
            client_id: call.client_id.to_owned(),
            generation_id: commit.generation_id,
            offsets,
        });
        None
    }

    pub(super) fn fetch(&mut self, call: &Call<'_>) -> Outcome {
        let request: OffsetFetchRequest<'_> = call.read();
        let group = request.groups.iter().next().expect("one group");
        let topics = group.topics.as_ref().map(|topics| {
            topics
                .iter()
                .map(|topic| OffsetFetchTopic {
                    name: topic.name,
                    topic_id: Uuid::ZERO,
                    partitions: topic.partition_indexes.iter().collect(),
                })
                .collect()
        });
        let fetch = OffsetFetch {
            group_id: group.group_id,
            member_id: None,
            member_epoch: -1,
            require_stable: request.require_stable,
            topics,
        };
        let found = self.shard.fetch_offsets(&fetch).unwrap_or_default();
        let topics = found.iter().map(|topic| OffsetFetchResponseTopics {
            name: &topic.name,
            partitions: topic
                .partitions
                .iter()
                .map(|one| OffsetFetchResponsePartitions {
                    partition_index: one.index,
                    committed_offset: one.offset.0,
                    committed_leader_epoch: one.leader_epoch.0,
                    metadata: Some(&one.metadata),
                    error_code: one.error.code(),
                })
                .collect(),
            ..OffsetFetchResponseTopics::default()
        });
        let group = OffsetFetchResponseGroup {
            group_id: group.group_id,
            topics: topics.collect(),
            ..OffsetFetchResponseGroup::default()
        };
        call.answer(&OffsetFetchResponse {
            groups: vec![group].into(),
            ..OffsetFetchResponse::default()
        })
    }
}

impl Later {
    pub(super) fn to_bytes(&self, call: &Call<'_>) -> Vec<u8> {
        match &self.0 {
            GroupResponse::Join(join) => {
                let members = join.members.iter().map(|member| JoinGroupResponseMember {
                    member_id: &member.member_id,
                    group_instance_id: member.group_instance_id.as_deref(),
                    metadata: &member.metadata,
                });
                let response = JoinGroupResponse {
                    error_code: join.error.code(),
                    generation_id: join.generation_id,
                    protocol_type: join.protocol_type.as_deref(),
                    protocol_name: join.protocol_name.as_deref(),
                    leader: &join.leader,
                    skip_assignment: join.skip_assignment,
                    member_id: &join.member_id,
                    members: members.collect(),
                    ..JoinGroupResponse::default()
                };
                response.to_bytes(call.version)
            }
            GroupResponse::Sync(sync) => {
                let response = SyncGroupResponse {
                    error_code: sync.error.code(),
                    protocol_type: sync.protocol_type.as_deref(),
                    protocol_name: sync.protocol_name.as_deref(),
                    assignment: &sync.assignment,
                    ..SyncGroupResponse::default()
                };
                response.to_bytes(call.version)
            }
        }
    }
}
