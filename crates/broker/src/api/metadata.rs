//! Metadata: v0–13. Brokers, topics, partitions and leaders.
//!
//! - Version 0 asks for all topics with an empty list, later ones with null.
//! - Topic ids in requests are for version 12 and later (KIP-516).
//! - An unknown topic is made when the client allows it and `auto.create.topics.enable` is on; the
//!   answer is UNKNOWN_TOPIC_OR_PARTITION until the client asks again.
//! - A topic that is named twice is described once.
//! - Any live broker is named as the controller, as requests to it may come by each of them.
//! - Fenced brokers are left out. A partition whose leader has no listener of the client's is without a leader:
//!   LISTENER_NOT_FOUND from version 6 on if that broker is registered, LEADER_NOT_AVAILABLE otherwise.
//! - Version 0 leaves out replicas that cannot be reached, and says REPLICA_NOT_AVAILABLE.
//! - Ignored on purpose: throttling, and error 129 (REBOOTSTRAP_REQUIRED), which a broker never sends.

use super::{Request, Served, authorized_operations};
use crate::api::broker::Broker;
use crate::api::endpoints::Endpoints;
use crate::net::{ConnectionContext, ResponseBuffer};
use controller::internal_topics::is_internal;
use metadata::{MetadataImage, NO_LEADER, Partition, Topic};
use model::{Array, BrokerId, DecodeError, ErrorCode, Uuid};
use std::collections::BTreeSet;
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::{MetadataRequest, MetadataResponse};

/// A topic that was asked for and cannot be described.
struct Missing<'f> {
    name: Option<&'f str>,
    id: Uuid,
    error: ErrorCode,
}

pub(crate) async fn serve(
    broker: &Broker,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: MetadataRequest<'_> = request.decode()?;
    let endpoints = Endpoints::new(broker, context);
    let image = &endpoints.image;
    let (found, mut missing) = match asked(&message, request.version) {
        Some(topics) => look_up(image, &topics, request.version),
        None => (
            image.topics.iter().map(|topic| &**topic).collect(),
            Vec::new(),
        ),
    };
    create_missing(broker, request, &message, &mut missing).await;
    let topic_operations = operations(
        message.include_topic_authorized_operations,
        authorized_operations::TOPIC,
    );
    let reach = Reach {
        endpoints: &endpoints,
        version: request.version,
    };
    let described = found
        .into_iter()
        .map(|topic| reach.describe(topic, topic_operations));
    let undescribed = missing.iter().map(|one| MetadataResponseTopic {
        error_code: one.error.code(),
        name: one.name.or((request.version < 12).then_some("")),
        topic_id: one.id,
        is_internal: one.name.is_some_and(is_internal),
        topic_authorized_operations: match one.name {
            Some(_) if one.error != ErrorCode::InvalidRequest => topic_operations,
            _ => i32::MIN,
        },
        ..Default::default()
    });
    let topics: Array<'_, _> = described.chain(undescribed).collect();
    let mut brokers = endpoints.all();
    brokers.retain(|node| !node.is_fenced);
    let brokers = brokers.iter().map(|one| MetadataResponseBroker {
        node_id: one.id,
        host: &one.host,
        port: i32::from(one.port),
        rack: one.rack.as_deref(),
    });
    if missing
        .iter()
        .any(|one| one.error == ErrorCode::InvalidRequest)
    {
        // Kafka answers such a request with its topics and nothing else.
        request.answer(
            &MetadataResponse {
                topics,
                ..Default::default()
            },
            out,
        );
        return Ok(Served::Answered);
    }
    let response = MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(&broker.node.cluster_id),
        controller_id: endpoints.controller(),
        topics,
        cluster_authorized_operations: operations(
            message.include_cluster_authorized_operations,
            authorized_operations::CLUSTER,
        ),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// The bits when they are asked for, and what stands for "not asked for".
const fn operations(included: bool, bits: i32) -> i32 {
    if included { bits } else { i32::MIN }
}

/// The topics that the request names; `None` for all.
fn asked<'f>(
    message: &MetadataRequest<'f>,
    version: i16,
) -> Option<Vec<wire::messages::metadata_request::MetadataRequestTopic<'f>>> {
    let topics = message.topics.as_ref()?;
    if version == 0 && topics.is_empty() {
        None
    } else {
        Some(topics.iter().collect())
    }
}

fn look_up<'i, 'f>(
    image: &'i MetadataImage,
    topics: &[wire::messages::metadata_request::MetadataRequestTopic<'f>],
    version: i16,
) -> (Vec<&'i Topic>, Vec<Missing<'f>>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    let refused = version < 12
        && topics
            .iter()
            .any(|topic| topic.name.is_none() || !topic.topic_id.is_zero());
    let by_id = topics.iter().any(|topic| !topic.topic_id.is_zero());
    let mut looked_up = BTreeSet::new();
    for topic in topics {
        let (name, id) = (topic.name, topic.topic_id);
        let is_first = match by_id {
            true => looked_up.insert((None, id)),
            false => looked_up.insert((name, id)),
        };
        if !is_first && !refused {
            continue;
        }
        if refused {
            missing.push(Missing {
                name,
                id,
                error: ErrorCode::InvalidRequest,
            });
            continue;
        }
        let (topic, missed) = match name {
            Some(name) if !by_id => {
                let error = ErrorCode::UnknownTopicOrPartition;
                (
                    image.topics.by_name(name),
                    Missing {
                        name: Some(name),
                        id: Uuid::ZERO,
                        error,
                    },
                )
            }
            _ if id.is_zero() => continue,
            _ => {
                let error = ErrorCode::UnknownTopicId;
                (
                    image.topics.by_id(id),
                    Missing {
                        name: None,
                        id,
                        error,
                    },
                )
            }
        };
        match topic {
            Some(topic) => found.push(&**topic),
            None => missing.push(missed),
        }
    }
    (found, missing)
}

async fn create_missing(
    broker: &Broker,
    request: &Request<'_>,
    message: &MetadataRequest<'_>,
    missing: &mut [Missing<'_>],
) {
    let allowed = request.version < 4 || message.allow_auto_topic_creation;
    let mut wanted: Vec<(&str, &mut ErrorCode)> = Vec::new();
    for one in missing {
        let Some(name) = one.name else { continue };
        if one.error != ErrorCode::UnknownTopicOrPartition {
            continue;
        }
        if controller::topic_name::check(name).is_err() {
            one.error = ErrorCode::InvalidTopicException;
        } else if allowed && broker.node.config.topics.auto_create_enable {
            wanted.push((name, &mut one.error));
        }
    }
    let names: Vec<&str> = wanted.iter().map(|(name, _)| *name).collect();
    let outcomes = broker.logs.create_missing_topics(&names).await;
    for ((_, code), outcome) in wanted.into_iter().zip(outcomes) {
        // One that was made just now is unknown until the client asks again.
        *code = outcome.map_or_else(|error| error.code, |()| ErrorCode::UnknownTopicOrPartition);
    }
    request.room(broker).await;
}

/// How a client reaches the partitions that are described to it.
struct Reach<'e> {
    endpoints: &'e Endpoints<'e>,
    version: i16,
}

impl Reach<'_> {
    fn describe<'i>(
        &self,
        topic: &'i Topic,
        topic_authorized_operations: i32,
    ) -> MetadataResponseTopic<'i> {
        let partitions = topic.partitions.iter();
        let partitions = partitions.map(|(index, partition)| self.partition(*index, partition));
        MetadataResponseTopic {
            error_code: ErrorCode::None.code(),
            name: Some(&topic.name),
            topic_id: topic.id,
            is_internal: is_internal(&topic.name),
            partitions: partitions.collect(),
            topic_authorized_operations,
        }
    }

    fn partition<'i>(
        &self,
        partition_index: i32,
        partition: &'i Partition,
    ) -> MetadataResponsePartition<'i> {
        let (leader_id, mut error) = self.leader(partition);
        let (mut replica_nodes, mut isr_nodes) = (
            Array::from(&partition.replicas),
            Array::from(&partition.isr),
        );
        if self.version == 0 {
            let reached = |ids: &[BrokerId]| -> Vec<BrokerId> {
                let ids = ids.iter().copied();
                ids.filter(|id| self.endpoints.live(*id).is_some())
                    .collect()
            };
            let (replicas, isr) = (reached(&partition.replicas), reached(&partition.isr));
            let are_all =
                replicas.len() == partition.replicas.len() && isr.len() == partition.isr.len();
            if error.is_none() && !are_all {
                error = ErrorCode::ReplicaNotAvailable;
            }
            (replica_nodes, isr_nodes) = (replicas.into(), isr.into());
        }
        MetadataResponsePartition {
            error_code: error.code(),
            partition_index,
            leader_id,
            leader_epoch: partition.leader_epoch.0,
            replica_nodes,
            isr_nodes,
            offline_replicas: self.endpoints.offline_replicas(partition),
        }
    }

    /// The leader that the client is told, and what is wrong with it.
    fn leader(&self, partition: &Partition) -> (BrokerId, ErrorCode) {
        let leader = partition.leader;
        let is_registered = self.endpoints.image.cluster.broker(leader).is_some();
        match self.endpoints.has(leader) {
            true => (leader, ErrorCode::None),
            false if is_registered && self.version >= 6 => (NO_LEADER, ErrorCode::ListenerNotFound),
            false => (NO_LEADER, ErrorCode::LeaderNotAvailable),
        }
    }
}
