//! ConsumerGroupHeartbeat: v0–1. A member of a consumer group joins, lives, gets partitions and
//! leaves (KIP-848).
//!
//! - Version 1 subscribes by regular expression, and members bring their ids.
//! - While `group.version` is 0, or `group.coordinator.rebalance.protocols` lacks `consumer`, the
//!   answer is UNSUPPORTED_VERSION.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::coordinators::runtime::Borrowed;
use crate::net::{ConnectionContext, ResponseBuffer};
use crate::scheduling::clock::{self, random_uuid};
use crate::scheduling::heavy_work::Lane;
use coordinator::group::{
    ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse, GroupShard, Refusal, TopicRegex,
};
use model::{DecodeError, ErrorCode};
use std::pin::pin;
use wire::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use wire::messages::{
    ConsumerGroupHeartbeatRequest as Message, ConsumerGroupHeartbeatResponse as Response,
};

pub(crate) async fn serve(
    broker: &Broker,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: Message<'_> = request.decode()?;
    let result = heartbeat(broker, context, request, &message).await;
    let response = match &result {
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
            ..Default::default()
        },
        Err(refusal) => Response {
            error_code: refusal.error.code(),
            // Kafka says nothing where there is nothing to add to the code.
            error_message: Some(&*refusal.message).filter(|message| !message.is_empty()),
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

async fn heartbeat(
    broker: &Broker,
    context: &ConnectionContext,
    request: &Request<'_>,
    message: &Message<'_>,
) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
    let refuse = |error: ErrorCode| Refusal {
        error,
        message: error.message().to_owned(),
    };
    if !broker.coordinators.speaks_consumer_protocol() {
        return Err(Refusal {
            error: ErrorCode::UnsupportedVersion,
            message: String::new(),
        });
    }
    let fault = match message.subscribed_topic_regex {
        None | Some("") => None,
        // What it stands for may be large, however short it is.
        Some(text) => {
            let read = pin!(async { TopicRegex::read(text).into_fault() });
            broker.heavy_work.serve(Lane::Small, read).await
        }
    };
    let room = request.room_at(broker, message.group_id).await;
    let room = room.map_err(refuse)?;
    let sender = Sender {
        version: request.version,
        client_id: context.client_id().to_owned(),
        client_host: context.client_host(),
        random_member_id: match message.member_id {
            "" => random_uuid().to_string(),
            _ => String::new(),
        },
        fault,
    };
    let question = Borrowed {
        decide: |shard: &mut GroupShard, now| {
            shard.consumer_group_heartbeat(&sender.heartbeat(message), now)
        },
        keep: || {
            let (kept, sender) = (request.keep(), sender.clone());
            move |shard: &mut GroupShard, now| {
                shard.consumer_group_heartbeat(&sender.heartbeat(&kept.message()), now)
            }
        },
    };
    let (is_plain, now) = (is_plain(message), clock::now());
    let is_quick =
        |shard: &GroupShard| is_plain && shard.is_settled(message.group_id, message.member_id, now);
    let decided = room.decide_quickly(&is_quick, None, question);
    decided.answer().await.map_err(refuse)?
}

/// Who sends a heartbeat, and what is known of it beside the message.
#[derive(Clone)]
struct Sender {
    version: i16,
    client_id: String,
    client_host: String,
    /// For a member that has no id yet.
    random_member_id: String,
    /// What is wrong with the regular expression.
    fault: Option<String>,
}

impl Sender {
    fn heartbeat<'f>(&'f self, message: &Message<'f>) -> ConsumerGroupHeartbeat<'f> {
        let owned = message.topic_partitions.as_ref().map(|topics| {
            let topics = topics.iter();
            topics
                .map(|topic| (topic.topic_id, topic.partitions.iter().collect()))
                .collect()
        });
        let names = message.subscribed_topic_names.as_ref();
        let regex = message.subscribed_topic_regex;
        ConsumerGroupHeartbeat {
            group_id: message.group_id,
            member_id: message.member_id,
            member_epoch: message.member_epoch,
            instance_id: message.instance_id,
            rack_id: message.rack_id,
            rebalance_timeout_ms: message.rebalance_timeout_ms,
            subscribed_topic_names: names.map(|names| names.iter().collect()),
            subscribed_topic_regex: regex.map(|text| TopicRegex::known(text, self.fault.clone())),
            server_assignor: message.server_assignor,
            owned_partitions: owned,
            client_id: &self.client_id,
            client_host: &self.client_host,
            requires_member_id: self.version >= 1,
            random_member_id: &self.random_member_id,
        }
    }
}

/// Whether a member says that it lives, and nothing that its group has to think about.
fn is_plain(message: &Message<'_>) -> bool {
    message.member_epoch > 0
        && message.subscribed_topic_names.is_none()
        && message.subscribed_topic_regex.is_none()
}
