//! The consumer protocol (KIP-848) of the coordinator, and who has which partitions by it.

use super::{Groups, Left};
use crate::simulated::cluster::{Call, Outcome};
use crate::simulated::logs::Logs;
use coordinator::Reply;
use coordinator::group::{
    ConsumerGroupConfig, ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse,
    ConsumerGroupTimes, DescribedConsumerMember, Refusal, TopicRegex,
};
use model::{Now, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use wire::messages::{
    ConsumerGroupHeartbeatRequest as Request, ConsumerGroupHeartbeatResponse as Response,
};

/// The one group of a test.
const GROUP: &str = "g";

/// The times of consumer groups, as short as those of the classic members of tests.
pub(super) fn config() -> ConsumerGroupConfig {
    ConsumerGroupConfig {
        times: ConsumerGroupTimes {
            session_timeout_ms: 1_000,
            heartbeat_interval_ms: 100,
            assignment_interval_ms: 0,
        },
        ..ConsumerGroupConfig::default()
    }
}

impl Groups {
    pub(in crate::simulated) fn consumer_heartbeat(
        &mut self,
        call: &Call<'_>,
        logs: &Logs,
    ) -> Outcome {
        let request: Request<'_> = call.read();
        if request.member_epoch < 0 {
            self.left.push(Left {
                client_id: call.client_id.to_owned(),
                member_id: request.member_id.to_owned(),
                reason: String::new(),
            });
        }
        if self.topics_version < logs.version() {
            self.topics_version = logs.version();
            self.shard.set_metadata(Arc::new(logs.image()));
        }
        let decided = match call.refusal {
            Some(code) => Err(code),
            None => self.beat(call, &request).map_err(|refusal| refusal.error),
        };
        let answer = match &decided {
            Ok(answer) => Response {
                member_id: Some(&answer.member_id),
                member_epoch: answer.member_epoch,
                heartbeat_interval_ms: answer.heartbeat_interval_ms,
                assignment: answer.assignment.as_ref().map(|topics| Assignment {
                    topic_partitions: topics
                        .iter()
                        .map(|(topic_id, partitions)| TopicPartitions {
                            topic_id: *topic_id,
                            partitions: partitions.into(),
                        })
                        .collect(),
                }),
                ..Response::default()
            },
            Err(code) => Response {
                error_code: code.code(),
                ..Response::default()
            },
        };
        call.answer(&answer)
    }

    fn beat(
        &mut self,
        call: &Call<'_>,
        request: &Request<'_>,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let owned = request.topic_partitions.as_ref().map(|topics| {
            let topics = topics.iter();
            topics
                .map(|topic| (topic.topic_id, topic.partitions.iter().collect()))
                .collect()
        });
        let names = request.subscribed_topic_names.as_ref();
        self.decide(
            &ConsumerGroupHeartbeat {
                group_id: request.group_id,
                member_id: request.member_id,
                member_epoch: request.member_epoch,
                instance_id: request.instance_id,
                rack_id: request.rack_id,
                rebalance_timeout_ms: request.rebalance_timeout_ms,
                subscribed_topic_names: names.map(|names| names.iter().collect()),
                subscribed_topic_regex: request.subscribed_topic_regex.map(TopicRegex::read),
                server_assignor: request.server_assignor,
                owned_partitions: owned,
                client_id: call.client_id,
                client_host: "/simulated",
                ..ConsumerGroupHeartbeat::default()
            },
            call.now_ms,
        )
    }

    fn decide(
        &mut self,
        heartbeat: &ConsumerGroupHeartbeat<'_>,
        now_ms: i64,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let decision = self
            .shard
            .consumer_group_heartbeat(heartbeat, Now::at_ms(now_ms));
        self.append(decision.records);
        self.release(decision.released);
        match decision.reply {
            Reply::Now(reply) => reply,
            Reply::Parked(_) => unreachable!("a heartbeat does not wait"),
        }
    }

    /// Takes a member for dead, whether it lives or not.
    pub(crate) fn expel(&mut self, member_id: &str, now_ms: i64) {
        let leaving = ConsumerGroupHeartbeat {
            group_id: GROUP,
            member_id,
            member_epoch: -1,
            ..ConsumerGroupHeartbeat::default()
        };
        // Who is none already stays none.
        let _ = self.decide(&leaving, now_ms);
    }

    /// The members of the consumer protocol, by their ids, with what each has.
    pub(crate) fn members(&self) -> BTreeMap<String, Vec<TopicPartition>> {
        let described = self.shard.describe_consumer_group(GROUP);
        let members = described.map_or_else(|_| Vec::new(), |group| group.members);
        members
            .iter()
            .map(|member| (member.member_id.to_string(), partitions_of(member)))
            .collect()
    }

    /// Notes a commit of partitions that another member has.
    pub(super) fn note_trespass(&mut self, author: &str, offsets: &BTreeMap<TopicPartition, i64>) {
        for (member_id, partitions) in self.members() {
            let foreign = partitions.iter().find(|name| offsets.contains_key(name));
            if let Some(name) = foreign.filter(|_| member_id != author) {
                let trespass = format!("{author} commits `{name}`, which {member_id} has");
                self.trespasses.push(trespass);
            }
        }
    }
}

fn partitions_of(member: &DescribedConsumerMember) -> Vec<TopicPartition> {
    let topics = member.assignment.iter();
    topics
        .flat_map(|(_, name, indexes)| {
            let indexes = indexes.iter();
            indexes.map(|index| TopicPartition::new(&**name, *index))
        })
        .collect()
}
