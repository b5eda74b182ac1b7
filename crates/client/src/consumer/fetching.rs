//! The task that reads ahead: carries the fetcher's requests to the brokers, each in a task of its
//! own, and their answers back.

use super::fetcher::{
    EpochEnd, EpochQuery, FetchAnswer, FetchPlan, FetchedPartition, FetcherRequest, ListedOffset,
    OffsetQuery, Position, SlotId, scan,
};
use super::offsets;
use super::shared::Shared;
use super::unresponsive_brokers::Source;
use crate::Error;
use crate::cluster::{Broker, Lane, Leader, Response};
use crate::config::Endpoint;
use model::{Array, BrokerId, ErrorCode, LeaderEpoch, ProducerId, TopicPartition, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use wire::ApiKey;
use wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use wire::messages::fetch_response::{FetchResponse, PartitionData};
use wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use wire::messages::offset_for_leader_epoch_response::OffsetForLeaderEpochResponse;

/// The highest version that is a consumer's; later ones are the followers'.
const FETCH_VERSION_MAX: i16 = 17;
/// The highest version that names topics.
const FETCH_VERSION_BY_NAME_MAX: i16 = 12;

/// Serves the fetcher until it is aborted; then its requests end too.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut requests = JoinSet::new();
    let mut metadata = shared.brokers.subscribe();
    shared.spread_metadata();
    loop {
        let woken = shared.fetching.notified();
        while let Some(request) = next_request(&shared) {
            requests.spawn(send_request(shared.clone(), request));
        }
        if let Some(wanted) = take_unpositioned(&shared) {
            requests.spawn(position(shared.clone(), wanted));
        }
        let deadline_ms = {
            let state = shared.state.lock();
            state.fetcher.next_deadline(shared.now_ms())
        };
        let sleep = async {
            match deadline_ms {
                Some(at_ms) => tokio::time::sleep_until(shared.instant(at_ms)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            changed = metadata.changed() => {
                if changed.is_err() {
                    return;
                }
                shared.spread_metadata();
            }
            Some(_) = requests.join_next() => {}
            () = woken => {}
            () = sleep => {}
        }
    }
}

fn next_request(shared: &Shared) -> Option<FetcherRequest> {
    let mut state = shared.state.lock();
    if state.fetcher.take_metadata_need() {
        shared.brokers.request_refresh();
    }
    state.fetcher.poll_request(shared.now_ms())
}

/// The partitions whose committed offsets are to be asked for; without a group they start where
/// the policy says.
fn take_unpositioned(shared: &Shared) -> Option<Vec<(SlotId, TopicPartition)>> {
    let mut state = shared.state.lock();
    if state.asks_committed {
        return None;
    }
    let waiting = state.fetcher.unpositioned();
    if waiting.is_empty() {
        return None;
    }
    if shared.config.group_id.is_none() {
        for (slot, _) in waiting {
            state
                .fetcher
                .handle_committed(slot, None, now_on_the_wall_ms());
        }
        shared.application.notify_one();
        shared.fetching.notify_one();
        return None;
    }
    state.asks_committed = true;
    let waiting = waiting.into_iter();
    Some(
        waiting
            .map(|(slot, name)| (slot, (*name).clone()))
            .collect(),
    )
}

/// The time of day, which timestamps of records are compared with.
fn now_on_the_wall_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    })
}

/// Starts partitions at their committed offsets.
async fn position(shared: Arc<Shared>, wanted: Vec<(SlotId, TopicPartition)>) {
    let names: Vec<TopicPartition> = wanted.iter().map(|(_, name)| name.clone()).collect();
    let committed = offsets::committed(&shared, &names, shared.api_deadline()).await;
    if let Err(error) = &committed {
        shared.state.lock().error = Some(error.clone());
        shared.application.notify_one();
        // An error that comes at once would come as often as it can.
        let delay_ms = shared.brokers.retry_delay_ms(1);
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    }
    let mut state = shared.state.lock();
    state.asks_committed = false;
    if let Ok(committed) = committed {
        for (slot, name) in &wanted {
            let found = committed.get(name).map(|offset| Position {
                offset: offset.offset,
                leader_epoch: LeaderEpoch(offset.leader_epoch),
            });
            state
                .fetcher
                .handle_committed(*slot, found, now_on_the_wall_ms());
        }
    }
    drop(state);
    shared.application.notify_one();
    shared.fetching.notify_one();
}

async fn send_request(shared: Arc<Shared>, request: FetcherRequest) {
    let asked_at_ms = shared.now_ms();
    match request {
        FetcherRequest::Fetch(plan) => {
            let answer = fetch(&shared, &plan).await;
            shared.note(Source::Broker(plan.node), asked_at_ms, &answer);
            let mut state = shared.state.lock();
            let now_ms = shared.now_ms();
            match answer {
                Ok(answer) => state.fetcher.handle_fetch(plan.node, answer, now_ms),
                Err(error) => {
                    tracing::debug!(%error, node = %plan.node, "nothing fetched");
                    state.fetcher.handle_fetch_failure(plan.node, now_ms);
                }
            }
        }
        FetcherRequest::Offsets(node, queries) => {
            let listed = list_offsets(&shared, node, &queries).await;
            shared.note(Source::Broker(node), asked_at_ms, &listed);
            let mut state = shared.state.lock();
            let now_ms = shared.now_ms();
            for query in &queries {
                if let Some(found) = listed.as_ref().ok().and_then(|l| l.get(&*query.name)) {
                    state.fetcher.handle_offset(query, *found, now_ms);
                }
            }
            let asked = queries.iter().map(|query| (query.slot, query.era));
            state.fetcher.handle_unanswered(asked, now_ms);
        }
        FetcherRequest::Epochs(node, queries) => {
            let ends = epoch_ends(&shared, node, &queries).await;
            shared.note(Source::Broker(node), asked_at_ms, &ends);
            let mut state = shared.state.lock();
            let now_ms = shared.now_ms();
            for query in &queries {
                if let Some(end) = ends.as_ref().ok().and_then(|ends| ends.get(&*query.name)) {
                    state.fetcher.handle_epoch_end(query, *end, now_ms);
                }
            }
            let asked = queries.iter().map(|query| (query.slot, query.era));
            state.fetcher.handle_unanswered(asked, now_ms);
        }
    }
    if shared.state.lock().fetcher.has_ready() {
        shared.application.notify_one();
    }
}

async fn fetch(shared: &Shared, plan: &FetchPlan) -> Result<FetchAnswer, Error> {
    let deadline = shared.request_deadline();
    let connection = shared
        .brokers
        .connection(plan.node, Lane::Fetch, deadline)
        .await?;
    let is_named = |id: &Uuid| id.is_zero();
    let by_name = plan.partitions.iter().any(|p| is_named(&p.topic_id))
        || plan.forgotten.iter().any(|(_, id)| is_named(id));
    let version_max = if by_name {
        FETCH_VERSION_BY_NAME_MAX
    } else {
        FETCH_VERSION_MAX
    };
    let version = connection.version_up_to(ApiKey::Fetch, version_max)?;
    let mut topics: BTreeMap<(&str, Uuid), Vec<FetchPartition>> = BTreeMap::new();
    for partition in &plan.partitions {
        let topic = topics
            .entry((&partition.name.topic, partition.topic_id))
            .or_default();
        topic.push(FetchPartition {
            partition: partition.name.partition,
            current_leader_epoch: partition.leader_epoch.0,
            fetch_offset: partition.offset,
            partition_max_bytes: clamp(plan.partition_max_bytes),
            ..FetchPartition::default()
        });
    }
    let mut forgotten: BTreeMap<(&str, Uuid), Vec<i32>> = BTreeMap::new();
    for (name, topic_id) in &plan.forgotten {
        let topic = forgotten.entry((&name.topic, *topic_id)).or_default();
        topic.push(name.partition);
    }
    let topics = topics
        .iter()
        .map(|((topic, topic_id), partitions)| FetchTopic {
            topic,
            topic_id: *topic_id,
            partitions: partitions.into(),
        });
    let forgotten = forgotten
        .iter()
        .map(|((topic, topic_id), partitions)| ForgottenTopic {
            topic,
            topic_id: *topic_id,
            partitions: partitions.into(),
        });
    let config = &shared.config;
    let request = FetchRequest {
        max_wait_ms: i32::try_from(config.fetch_max_wait_ms).unwrap_or(i32::MAX),
        min_bytes: config.fetch_min_bytes,
        max_bytes: clamp(plan.max_bytes),
        isolation_level: config.isolation_level.code(),
        session_id: plan.session_id,
        session_epoch: plan.session_epoch,
        topics: topics.collect(),
        forgotten_topics_data: forgotten.collect(),
        rack_id: &config.client.client_rack,
        ..FetchRequest::default()
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    read_fetch(shared, &answer)
}

/// Scans the records of an answer, and passes on what it tells of leaders.
fn read_fetch(shared: &Shared, answer: &Response) -> Result<FetchAnswer, Error> {
    let response: FetchResponse<'_> = answer.read()?;
    let rules = shared.state.lock().fetcher.rules();
    let mut partitions = Vec::new();
    for topic in response.responses.iter() {
        for data in topic.partitions.iter() {
            let leader = leader_told(&data);
            if let Some(leader) = leader {
                tell_leader(
                    shared,
                    &response,
                    (topic.topic, topic.topic_id),
                    &data,
                    leader,
                );
            }
            let aborted = data.aborted_transactions.iter().flat_map(Array::iter);
            let aborted: Vec<(ProducerId, i64)> = aborted
                .map(|txn| (ProducerId(txn.producer_id), txn.first_offset))
                .collect();
            let records = answer.slice_of(data.records.unwrap_or_default());
            let mut scanned = scan(&records, &aborted, rules);
            if let Some(fault) = &mut scanned.fault {
                *fault = format!("{fault}, as {} sends it", answer.address());
            }
            partitions.push(FetchedPartition {
                topic: topic.topic.to_owned(),
                topic_id: topic.topic_id,
                partition: data.partition_index,
                error: ErrorCode::from_code(data.error_code),
                high_watermark: data.high_watermark,
                last_stable_offset: data.last_stable_offset,
                log_start_offset: data.log_start_offset,
                leader,
                preferred_read_replica: Some(data.preferred_read_replica)
                    .filter(|id| !id.is_none()),
                scanned,
            });
        }
    }
    Ok(FetchAnswer {
        error: ErrorCode::from_code(response.error_code),
        session_id: response.session_id,
        partitions,
    })
}

/// The leader that a refusal tells of (KIP-951).
fn leader_told(data: &PartitionData<'_>) -> Option<Leader> {
    let told = &data.current_leader;
    (data.error_code != 0 && !told.leader_id.is_none() && told.leader_epoch >= 0).then_some(
        Leader {
            id: told.leader_id,
            epoch: LeaderEpoch(told.leader_epoch),
        },
    )
}

fn tell_leader(
    shared: &Shared,
    response: &FetchResponse<'_>,
    (topic, topic_id): (&str, Uuid),
    data: &PartitionData<'_>,
    leader: Leader,
) {
    let metadata = shared.brokers.metadata();
    let known = metadata.topic_by_id(topic_id);
    let topic = known.map_or(topic, |topic| &topic.name);
    let of = (topic, topic_id);
    let endpoint = response
        .node_endpoints
        .iter()
        .find(|node| node.node_id == leader.id);
    let broker = endpoint.and_then(|node| {
        Some(Broker {
            id: node.node_id,
            endpoint: Endpoint::new(node.host, u16::try_from(node.port).ok()?),
            rack: node.rack.map(Into::into),
        })
    });
    shared
        .brokers
        .update_leader(of, data.partition_index, leader, broker);
}

async fn list_offsets(
    shared: &Shared,
    node: BrokerId,
    queries: &[OffsetQuery],
) -> Result<BTreeMap<TopicPartition, ListedOffset>, Error> {
    let queries: Vec<_> = queries
        .iter()
        .map(|query| ((*query.name).clone(), query.leader_epoch, query.timestamp))
        .collect();
    let listed = offsets::list_from(shared, node, &queries, shared.request_deadline()).await?;
    Ok(listed
        .into_iter()
        .map(|(name, (listed, _))| (name, listed))
        .collect())
}

async fn epoch_ends(
    shared: &Shared,
    node: BrokerId,
    queries: &[EpochQuery],
) -> Result<BTreeMap<TopicPartition, EpochEnd>, Error> {
    let deadline = shared.request_deadline();
    let connection = shared
        .brokers
        .connection(node, Lane::Main, deadline)
        .await?;
    let mut topics: BTreeMap<&str, Vec<OffsetForLeaderPartition>> = BTreeMap::new();
    for query in queries {
        let topic = topics.entry(&query.name.topic).or_default();
        topic.push(OffsetForLeaderPartition {
            partition: query.name.partition,
            current_leader_epoch: query.leader_epoch.0,
            leader_epoch: query.epoch.0,
        });
    }
    let topics = topics
        .iter()
        .map(|(topic, partitions)| OffsetForLeaderTopic {
            topic,
            partitions: partitions.into(),
        });
    let request = OffsetForLeaderEpochRequest {
        replica_id: BrokerId::NONE,
        topics: topics.collect(),
    };
    let mut ends = BTreeMap::new();
    let answer = match connection.call(&request, deadline).await {
        Ok(answer) => answer,
        Err(Error::Unsupported { .. }) => {
            for query in queries {
                let end = EpochEnd {
                    error: ErrorCode::UnsupportedVersion,
                    epoch: LeaderEpoch::NONE,
                    end_offset: -1,
                };
                ends.insert((*query.name).clone(), end);
            }
            return Ok(ends);
        }
        Err(error) => return Err(error),
    };
    let response: OffsetForLeaderEpochResponse<'_> = answer.read()?;
    for topic in response.topics.iter() {
        for end in topic.partitions.iter() {
            ends.insert(
                TopicPartition::new(topic.topic, end.partition),
                EpochEnd {
                    error: ErrorCode::from_code(end.error_code),
                    epoch: LeaderEpoch(end.leader_epoch),
                    end_offset: end.end_offset,
                },
            );
        }
    }
    Ok(ends)
}

fn clamp(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
