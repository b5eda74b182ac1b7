//! The heartbeats of groups whose coordinator assigns, on the wire: of the consumer protocol (KIP-848) here, of streams
//! groups (KIP-1071) in `heartbeating/streams`.

mod streams;

pub(super) use streams::send_streams_heartbeat;

use super::coordinator;
use super::heartbeat_membership::{
    Assignment, Heartbeat, HeartbeatAnswer, Interest, JOIN_EPOCH, MemberRequest,
};
use super::shared::Shared;
use crate::Error;
use model::ErrorCode;
use wire::ApiKey;
use wire::messages::consumer_group_heartbeat_request::{
    ConsumerGroupHeartbeatRequest, TopicPartitions,
};
use wire::messages::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;

/// The first version in which a member chooses its id and may send a regular expression.
const OWN_ID_FROM: i16 = 1;

/// Carries a request to the coordinator, or finds it.
pub(super) async fn send_heartbeat(
    shared: &Shared,
    request: &MemberRequest,
) -> Result<HeartbeatAnswer, Error> {
    match request {
        MemberRequest::FindCoordinator => {
            let found = coordinator::look_up(shared).await?;
            Ok(HeartbeatAnswer::Coordinator(found))
        }
        MemberRequest::Heartbeat(beat) => heartbeat(shared, beat).await,
    }
}

async fn heartbeat(shared: &Shared, heartbeat: &Heartbeat) -> Result<HeartbeatAnswer, Error> {
    let group_id = shared.group_id()?;
    let deadline = shared.request_deadline();
    let connection = coordinator::connect(shared, deadline).await?;
    let served = connection
        .versions()
        .highest(ApiKey::ConsumerGroupHeartbeat, i16::MAX);
    let needs = match &heartbeat.interest {
        Some(Interest::Pattern(_)) => OWN_ID_FROM,
        _ => 0,
    };
    let Some(version) = served.filter(|version| *version >= needs) else {
        return Ok(HeartbeatAnswer::Refused(ErrorCode::UnsupportedVersion));
    };
    let asks_for_id = version < OWN_ID_FROM && heartbeat.member_epoch == JOIN_EPOCH;
    let owned = heartbeat.owned.as_ref().map(partitions_by_topic);
    let (topics, pattern) = match &heartbeat.interest {
        Some(Interest::Topics(topics)) => {
            let topics = topics.iter().map(String::as_str).collect();
            (Some(topics), heartbeat.drops_pattern.then_some(""))
        }
        Some(Interest::Pattern(pattern)) => (Some(Default::default()), Some(pattern.as_str())),
        None => (None, None),
    };
    let request = ConsumerGroupHeartbeatRequest {
        group_id,
        member_id: if asks_for_id {
            ""
        } else {
            &heartbeat.member_id
        },
        member_epoch: heartbeat.member_epoch,
        instance_id: heartbeat.group_instance_id.as_deref(),
        rack_id: heartbeat.rack_id.as_deref(),
        rebalance_timeout_ms: heartbeat.rebalance_timeout_ms.map_or(-1, |timeout_ms| {
            i32::try_from(timeout_ms).unwrap_or(i32::MAX)
        }),
        subscribed_topic_names: topics,
        subscribed_topic_regex: pattern,
        server_assignor: heartbeat.remote_assignor.as_deref(),
        topic_partitions: owned.as_ref().map(|owned| {
            let topics = owned.iter().map(|(id, partitions)| TopicPartitions {
                topic_id: *id,
                partitions: partitions.into(),
            });
            topics.collect()
        }),
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: ConsumerGroupHeartbeatResponse<'_> = answer.read()?;
    Ok(read(&response))
}

/// What the coordinator says.
fn read(response: &ConsumerGroupHeartbeatResponse<'_>) -> HeartbeatAnswer {
    let code = ErrorCode::from_code(response.error_code);
    if !code.is_none() {
        if let Some(message) = response.error_message {
            tracing::debug!(%code, message, "a heartbeat is refused");
        }
        return HeartbeatAnswer::Refused(code);
    }
    let assignment = response.assignment.as_ref().map(|assignment| {
        let mut assigned = Assignment::new();
        for topic in assignment.topic_partitions.iter() {
            let partitions = assigned.entry(topic.topic_id).or_default();
            partitions.extend(topic.partitions.iter());
        }
        assigned
    });
    HeartbeatAnswer::Accepted {
        member_id: response
            .member_id
            .filter(|id| !id.is_empty())
            .map(str::to_owned),
        member_epoch: response.member_epoch,
        heartbeat_interval_ms: i64::from(response.heartbeat_interval_ms),
        assignment,
        news: (),
    }
}

fn partitions_by_topic(owned: &Assignment) -> Vec<(model::Uuid, Vec<i32>)> {
    let topics = owned.iter();
    topics
        .map(|(id, partitions)| (*id, partitions.iter().copied().collect()))
        .collect()
}
