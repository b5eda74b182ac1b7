//! The heartbeats of streams groups (KIP-1071) on the wire.

use crate::Error;
use crate::consumer::coordinator;
use crate::consumer::heartbeat_membership::{
    Heartbeat, HeartbeatAnswer, JOIN_EPOCH, MemberRequest, StreamsGroup, StreamsNews,
};
use crate::consumer::shared::Shared;
use crate::consumer::streams_group::{
    StreamsEndpoint, StreamsMember, StreamsStatus, StreamsStatusCode, StreamsSubtopology,
    StreamsTasks, StreamsTopic, StreamsTopology, TaskSet,
};
use model::{Array, ErrorCode, TopicPartition};
use std::collections::BTreeMap;
use wire::ApiKey;
use wire::messages::streams_group_heartbeat_request::{
    CopartitionGroup, Endpoint, KeyValue, StreamsGroupHeartbeatRequest, Subtopology, TaskIds,
    TopicInfo, Topology,
};
use wire::messages::streams_group_heartbeat_response::{
    EndpointToPartitions, StreamsGroupHeartbeatResponse, TaskIds as AssignedTaskIds,
    TopicPartition as AnsweredPartitions,
};

/// Carries a request to the coordinator, or finds it.
pub(in crate::consumer) async fn send_streams_heartbeat(
    shared: &Shared,
    request: &MemberRequest<StreamsGroup>,
) -> Result<HeartbeatAnswer<StreamsGroup>, Error> {
    match (request, &shared.streams) {
        (MemberRequest::Heartbeat(beat), Some(member)) => heartbeat(shared, member, beat).await,
        _ => {
            let found = coordinator::look_up(shared).await?;
            Ok(HeartbeatAnswer::Coordinator(found))
        }
    }
}

async fn heartbeat(
    shared: &Shared,
    member: &StreamsMember,
    heartbeat: &Heartbeat<StreamsGroup>,
) -> Result<HeartbeatAnswer<StreamsGroup>, Error> {
    let group_id = shared.group_id()?;
    let deadline = shared.request_deadline();
    let connection = coordinator::connect(shared, deadline).await?;
    let versions = connection.versions();
    let Some(version) = versions.highest(ApiKey::StreamsGroupHeartbeat, i16::MAX) else {
        return Ok(HeartbeatAnswer::Refused(ErrorCode::UnsupportedVersion));
    };
    // What a member is it tells when it joins, and never again.
    let is_joining = heartbeat.member_epoch == JOIN_EPOCH;
    let topology = heartbeat.interest.as_ref().filter(|_| is_joining);
    let parts = topology.map(|topology| Parts::of(topology));
    let owned = heartbeat.owned.as_ref().map(Numbers::of);
    let tags: Vec<KeyValue<'_>> = key_values(&member.client_tags);
    let endpoint = member
        .user_endpoint
        .as_ref()
        .map(|(host, port)| Endpoint { host, port: *port });
    let request = StreamsGroupHeartbeatRequest {
        group_id,
        member_id: &heartbeat.member_id,
        member_epoch: heartbeat.member_epoch,
        endpoint_information_epoch: heartbeat.beside.endpoint_information_epoch,
        instance_id: heartbeat.group_instance_id.as_deref(),
        rack_id: heartbeat.rack_id.as_deref().filter(|_| is_joining),
        rebalance_timeout_ms: heartbeat
            .rebalance_timeout_ms
            .filter(|_| is_joining)
            .map_or(-1, |timeout_ms| {
                i32::try_from(timeout_ms).unwrap_or(i32::MAX)
            }),
        topology: topology
            .zip(parts.as_ref())
            .map(|(topology, parts)| Topology {
                epoch: topology.epoch,
                subtopologies: parts.0.iter().map(Part::message).collect(),
            }),
        active_tasks: owned
            .as_ref()
            .map(|owned| owned.active.iter().map(ids).collect()),
        standby_tasks: owned
            .as_ref()
            .map(|owned| owned.standby.iter().map(ids).collect()),
        warmup_tasks: owned
            .as_ref()
            .map(|owned| owned.warmup.iter().map(ids).collect()),
        process_id: is_joining.then_some(member.process_id.as_str()),
        user_endpoint: endpoint.filter(|_| is_joining),
        client_tags: is_joining.then(|| tags.iter().cloned().collect()),
        // Coordinators of this version refuse offsets of tasks.
        task_offsets: None,
        task_end_offsets: None,
        shutdown_application: heartbeat.beside.shuts_down_application,
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: StreamsGroupHeartbeatResponse<'_> = answer.read()?;
    Ok(read(shared, heartbeat, &response))
}

/// What the coordinator says.
fn read(
    shared: &Shared,
    heartbeat: &Heartbeat<StreamsGroup>,
    response: &StreamsGroupHeartbeatResponse<'_>,
) -> HeartbeatAnswer<StreamsGroup> {
    let code = ErrorCode::from_code(response.error_code);
    let said = response.error_message.map(str::to_owned);
    if !code.is_none() {
        tracing::debug!(%code, said, "a heartbeat is refused");
        shared.state.lock().refusal = said;
        return HeartbeatAnswer::Refused(code);
    }
    // All three, or none when nothing has changed.
    let assignment = response.active_tasks.as_ref().map(|active| StreamsTasks {
        active: tasks(active.iter()),
        standby: tasks(response.standby_tasks.iter().flat_map(Array::iter)),
        warmup: tasks(response.warmup_tasks.iter().flat_map(Array::iter)),
    });
    let statuses = response.status.iter().flat_map(Array::iter);
    HeartbeatAnswer::Accepted {
        member_id: (!response.member_id.is_empty() && response.member_id != heartbeat.member_id)
            .then(|| response.member_id.to_owned()),
        member_epoch: response.member_epoch,
        heartbeat_interval_ms: i64::from(response.heartbeat_interval_ms),
        assignment,
        news: StreamsNews {
            statuses: statuses
                .map(|status| StreamsStatus {
                    code: StreamsStatusCode::of(status.status_code),
                    detail: status.status_detail.to_owned(),
                })
                .collect(),
            heartbeat_interval_ms: i64::from(response.heartbeat_interval_ms),
            endpoint_information_epoch: response.endpoint_information_epoch,
            endpoints: response
                .partitions_by_user_endpoint
                .as_ref()
                .map(|told| told.iter().map(|told| endpoint(&told)).collect()),
        },
    }
}

fn endpoint(told: &EndpointToPartitions<'_>) -> StreamsEndpoint {
    let partitions = |told: &Array<'_, AnsweredPartitions<'_>>| {
        let mut partitions = Vec::new();
        for topic in told.iter() {
            let numbers = topic.partitions.iter();
            partitions.extend(numbers.map(|number| TopicPartition::new(topic.topic, number)));
        }
        partitions
    };
    StreamsEndpoint {
        host: told.user_endpoint.host.to_owned(),
        port: told.user_endpoint.port,
        active: partitions(&told.active_partitions),
        standby: partitions(&told.standby_partitions),
    }
}

fn tasks<'a>(told: impl Iterator<Item = AssignedTaskIds<'a>>) -> TaskSet {
    let mut tasks = TaskSet::new();
    for part in told {
        let numbers = tasks.entry(part.subtopology_id.to_owned()).or_default();
        numbers.extend(part.partitions.iter());
    }
    tasks
}

/// What is owned, in the shape of the message.
struct Numbers<'a> {
    active: Vec<(&'a str, Vec<i32>)>,
    standby: Vec<(&'a str, Vec<i32>)>,
    warmup: Vec<(&'a str, Vec<i32>)>,
}

impl<'a> Numbers<'a> {
    fn of(owned: &'a StreamsTasks) -> Self {
        let numbers = |tasks: &'a TaskSet| {
            tasks
                .iter()
                .map(|(id, numbers)| (id.as_str(), numbers.iter().copied().collect()))
                .collect()
        };
        Self {
            active: numbers(&owned.active),
            standby: numbers(&owned.standby),
            warmup: numbers(&owned.warmup),
        }
    }
}

fn ids<'a>((id, numbers): &'a (&'a str, Vec<i32>)) -> TaskIds<'a> {
    TaskIds {
        subtopology_id: id,
        partitions: numbers.into(),
    }
}

/// The parts of a topology, in the shape of the message.
struct Parts<'a>(Vec<Part<'a>>);

/// A sub-topology.
struct Part<'a> {
    told: &'a StreamsSubtopology,
    source_topics: Vec<&'a str>,
    source_topic_patterns: Vec<&'a str>,
    sink_topics: Vec<&'a str>,
    changelogs: Vec<(&'a StreamsTopic, Vec<KeyValue<'a>>)>,
    repartitions: Vec<(&'a StreamsTopic, Vec<KeyValue<'a>>)>,
}

impl<'a> Parts<'a> {
    fn of(topology: &'a StreamsTopology) -> Self {
        Self(topology.subtopologies.iter().map(Part::of).collect())
    }
}

impl<'a> Part<'a> {
    fn of(told: &'a StreamsSubtopology) -> Self {
        let texts = |names: &'a [String]| names.iter().map(String::as_str).collect();
        let topics = |topics: &'a [StreamsTopic]| {
            topics
                .iter()
                .map(|topic| (topic, key_values(&topic.configs)))
                .collect()
        };
        Self {
            told,
            source_topics: texts(&told.source_topics),
            source_topic_patterns: texts(&told.source_topic_patterns),
            sink_topics: texts(&told.sink_topics),
            changelogs: topics(&told.state_changelog_topics),
            repartitions: topics(&told.repartition_source_topics),
        }
    }

    fn message(&self) -> Subtopology<'_> {
        let groups = self.told.copartition_groups.iter();
        Subtopology {
            subtopology_id: &self.told.id,
            source_topics: self.source_topics.iter().copied().collect(),
            source_topic_regex: self.source_topic_patterns.iter().copied().collect(),
            state_changelog_topics: self.changelogs.iter().map(topic).collect(),
            repartition_sink_topics: self.sink_topics.iter().copied().collect(),
            repartition_source_topics: self.repartitions.iter().map(topic).collect(),
            copartition_groups: groups
                .map(|group| CopartitionGroup {
                    source_topics: (&group.source_topics).into(),
                    source_topic_regex: (&group.source_topic_patterns).into(),
                    repartition_source_topics: (&group.repartition_source_topics).into(),
                })
                .collect(),
        }
    }
}

fn topic<'a>((topic, configs): &'a (&'a StreamsTopic, Vec<KeyValue<'a>>)) -> TopicInfo<'a> {
    TopicInfo {
        name: &topic.name,
        partitions: topic.partition_count,
        replication_factor: topic.replication_factor,
        topic_configs: configs.iter().cloned().collect(),
    }
}

fn key_values(pairs: &BTreeMap<String, String>) -> Vec<KeyValue<'_>> {
    let pairs = pairs.iter();
    pairs.map(|(key, value)| KeyValue { key, value }).collect()
}
