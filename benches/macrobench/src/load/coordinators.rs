//! Requests that coordinators answer, as fast as they do: one request in flight on each connection,
//! each of a group or a transactional id of its own.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use model::{ErrorCode, Message};
use serde_json::{Value, json};
use wire::ApiKey;
use wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, EndTxnRequest, EndTxnResponse,
    FindCoordinatorRequest, FindCoordinatorResponse, HeartbeatRequest, HeartbeatResponse,
    InitProducerIdRequest, InitProducerIdResponse, JoinGroupRequest, JoinGroupResponse,
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse,
    SyncGroupRequest, SyncGroupResponse,
};

use super::Target;
use super::client::{Client, body_of, frame};
use super::closed_loop::{self, Cycle};
use super::window::Work;

const COMMIT_VERSION: i16 = 8;
const OFFSET_FETCH_VERSION: i16 = 8;
const JOIN_VERSION: i16 = 5;
const SYNC_VERSION: i16 = 3;
const HEARTBEAT_VERSION: i16 = 3;
const FIND_VERSION: i16 = 3;
const INIT_VERSION: i16 = 3;
const ADD_PARTITIONS_VERSION: i16 = 3;
const END_VERSION: i16 = 3;
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// Partitions of the topic whose offsets are committed and fetched.
const PARTITIONS: i32 = 4;
const ATTEMPTS: usize = 3_000;
const PAUSE: Duration = Duration::from_millis(10);

/// What coordinators are asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Commits,
    Offsets,
    Heartbeats,
    Transactions,
}

impl std::str::FromStr for Question {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "commits" => Self::Commits,
            "offsets" => Self::Offsets,
            "heartbeats" => Self::Heartbeats,
            "transactions" => Self::Transactions,
            _ => bail!("--ask is commits, offsets, heartbeats or transactions"),
        })
    }
}

/// Runs the load and reports on its window.
pub(super) fn run(target: &Target, asked: Question, connections: usize) -> Result<Value> {
    ensure!(connections > 0, "at least one connection");
    // A new group waits for further members, so all of them begin at once.
    let cycles = thread::scope(|scope| {
        let begun = (0..connections).map(|connection| {
            let id = format!("{}-{connection}", target.topic);
            scope.spawn(move || cycle(target, asked, &id))
        });
        let begun: Vec<_> = begun.collect();
        let cycles = begun
            .into_iter()
            .map(|one| Ok((target.address, one.join().expect("it does not panic")?)));
        cycles.collect::<Result<Vec<_>>>()
    })?;
    let mut result = closed_loop::run(target, cycles, 1)?;
    result["load"] = json!("coordinators");
    Ok(result)
}

/// What a connection asks, once its group or transactional id is there.
fn cycle(target: &Target, asked: Question, id: &str) -> Result<Cycle> {
    let mut client = Client::connect(target.address)?;
    match asked {
        Question::Commits => commits(&mut client, target, id),
        Question::Offsets => offsets(&mut client, target, id),
        Question::Heartbeats => heartbeats(&mut client, id),
        Question::Transactions => transactions(&mut client, target, id),
    }
}

const REQUEST: Work = Work {
    requests: 1,
    records: 0,
    bytes: 0,
};

/// One request, again and again.
fn one(frame: Vec<u8>, check: fn(usize, &[u8]) -> Result<bool>) -> Cycle {
    Cycle {
        frames: vec![frame],
        check,
        work: vec![REQUEST],
    }
}

fn none(code: i16) -> Result<bool> {
    match ErrorCode::from_code(code) {
        ErrorCode::None => Ok(true),
        error => bail!("refused: {error}"),
    }
}

/// Asks until the answer is no error that passes.
fn until_answered(what: &str, mut ask: impl FnMut() -> Result<i16>) -> Result<()> {
    for _ in 0..ATTEMPTS {
        match ErrorCode::from_code(ask()?) {
            ErrorCode::None => return Ok(()),
            ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::ConcurrentTransactions => thread::sleep(PAUSE),
            error => bail!("{what}: {error}"),
        }
    }
    bail!("{what}: the coordinator does not answer")
}

fn find(client: &mut Client, key_type: i8, id: &str) -> Result<()> {
    let request = FindCoordinatorRequest {
        key: id,
        key_type,
        ..FindCoordinatorRequest::default()
    };
    let find = frame(ApiKey::FindCoordinator, FIND_VERSION, &request);
    until_answered("FindCoordinator", || {
        let body = client.call(ApiKey::FindCoordinator, FIND_VERSION, &find)?;
        Ok(FindCoordinatorResponse::from_bytes(body, FIND_VERSION)?.error_code)
    })
}

fn committed(body: &[u8]) -> Result<i16> {
    let response = OffsetCommitResponse::from_bytes(body, COMMIT_VERSION)?;
    let topic = response.topics.iter().next().context("no topic answered")?;
    let refused = topic.partitions.iter().find(|one| one.error_code != 0);
    Ok(refused.map_or(0, |one| one.error_code))
}

/// Commits of who is no member.
fn commits(client: &mut Client, target: &Target, group: &str) -> Result<Cycle> {
    find(client, GROUP, group)?;
    let partitions = (0..PARTITIONS).map(|index| OffsetCommitRequestPartition {
        partition_index: index,
        committed_offset: 1,
        ..OffsetCommitRequestPartition::default()
    });
    let topic = OffsetCommitRequestTopic {
        name: &target.topic,
        partitions: partitions.collect(),
        ..OffsetCommitRequestTopic::default()
    };
    let request = OffsetCommitRequest {
        group_id: group,
        generation_id_or_member_epoch: -1,
        topics: vec![topic].into(),
        ..OffsetCommitRequest::default()
    };
    let commit = frame(ApiKey::OffsetCommit, COMMIT_VERSION, &request);
    until_answered("OffsetCommit", || {
        committed(client.call(ApiKey::OffsetCommit, COMMIT_VERSION, &commit)?)
    })?;
    Ok(one(commit, |_, answer| {
        none(committed(body_of(
            answer,
            ApiKey::OffsetCommit,
            COMMIT_VERSION,
        )?)?)
    }))
}

/// Fetches of committed offsets.
fn offsets(client: &mut Client, target: &Target, group: &str) -> Result<Cycle> {
    commits(client, target, group)?;
    let topic = OffsetFetchRequestTopics {
        name: &target.topic,
        partition_indexes: (0..PARTITIONS).collect(),
        ..OffsetFetchRequestTopics::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: group,
        topics: Some(vec![topic].into()),
        ..OffsetFetchRequestGroup::default()
    };
    let request = OffsetFetchRequest {
        groups: vec![group].into(),
        ..OffsetFetchRequest::default()
    };
    let fetch = frame(ApiKey::OffsetFetch, OFFSET_FETCH_VERSION, &request);
    Ok(one(fetch, |_, answer| {
        let body = body_of(answer, ApiKey::OffsetFetch, OFFSET_FETCH_VERSION)?;
        let response = OffsetFetchResponse::from_bytes(body, OFFSET_FETCH_VERSION)?;
        let group = response.groups.iter().next().context("no group answered")?;
        none(group.error_code)?;
        let topic = group.topics.iter().next().context("no topic answered")?;
        let are_there = topic.partitions.iter().all(|one| one.committed_offset == 1);
        ensure!(are_there, "other offsets than those that were committed");
        Ok(true)
    }))
}

/// Heartbeats of a group's only member, by the classic protocol.
fn heartbeats(client: &mut Client, group: &str) -> Result<Cycle> {
    find(client, GROUP, group)?;
    let protocols = || {
        let protocol = JoinGroupRequestProtocol {
            name: "range",
            metadata: &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        };
        vec![protocol].into()
    };
    let mut member = String::new();
    let mut generation = -1;
    until_answered("JoinGroup", || {
        let request = JoinGroupRequest {
            group_id: group,
            session_timeout_ms: 45_000,
            rebalance_timeout_ms: 60_000,
            member_id: &member,
            protocol_type: "consumer",
            protocols: protocols(),
            ..JoinGroupRequest::default()
        };
        let join = frame(ApiKey::JoinGroup, JOIN_VERSION, &request);
        let body = client.call(ApiKey::JoinGroup, JOIN_VERSION, &join)?;
        let response = JoinGroupResponse::from_bytes(body, JOIN_VERSION)?;
        let (error, id) = (response.error_code, response.member_id.to_owned());
        generation = response.generation_id;
        let is_named = ErrorCode::from_code(error) == ErrorCode::MemberIdRequired;
        member = id;
        // It joins again by its name.
        Ok(match is_named {
            true => ErrorCode::CoordinatorLoadInProgress.code(),
            false => error,
        })
    })?;
    let assignment = SyncGroupRequestAssignment {
        member_id: &member,
        assignment: &[],
    };
    let request = SyncGroupRequest {
        group_id: group,
        generation_id: generation,
        member_id: &member,
        assignments: vec![assignment].into(),
        ..SyncGroupRequest::default()
    };
    let sync = frame(ApiKey::SyncGroup, SYNC_VERSION, &request);
    until_answered("SyncGroup", || {
        let body = client.call(ApiKey::SyncGroup, SYNC_VERSION, &sync)?;
        Ok(SyncGroupResponse::from_bytes(body, SYNC_VERSION)?.error_code)
    })?;
    let request = HeartbeatRequest {
        group_id: group,
        generation_id: generation,
        member_id: &member,
        ..HeartbeatRequest::default()
    };
    let heartbeat = frame(ApiKey::Heartbeat, HEARTBEAT_VERSION, &request);
    Ok(one(heartbeat, |_, answer| {
        let body = body_of(answer, ApiKey::Heartbeat, HEARTBEAT_VERSION)?;
        none(HeartbeatResponse::from_bytes(body, HEARTBEAT_VERSION)?.error_code)
    }))
}

/// Transactions of one partition without records: begun, and committed with its marker.
fn transactions(client: &mut Client, target: &Target, id: &str) -> Result<Cycle> {
    find(client, TRANSACTION, id)?;
    let request = InitProducerIdRequest {
        transactional_id: Some(id),
        transaction_timeout_ms: 60_000,
        ..InitProducerIdRequest::default()
    };
    let init = frame(ApiKey::InitProducerId, INIT_VERSION, &request);
    let mut producer = (-1, -1);
    until_answered("InitProducerId", || {
        let body = client.call(ApiKey::InitProducerId, INIT_VERSION, &init)?;
        let response = InitProducerIdResponse::from_bytes(body, INIT_VERSION)?;
        producer = (response.producer_id, response.producer_epoch);
        Ok(response.error_code)
    })?;
    let topic = AddPartitionsToTxnTopic {
        name: &target.topic,
        partitions: vec![0].into(),
    };
    let add = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: id,
        v3_and_below_producer_id: producer.0,
        v3_and_below_producer_epoch: producer.1,
        v3_and_below_topics: vec![topic].into(),
        ..AddPartitionsToTxnRequest::default()
    };
    let end = EndTxnRequest {
        transactional_id: id,
        producer_id: producer.0,
        producer_epoch: producer.1,
        committed: true,
    };
    Ok(Cycle {
        frames: vec![
            frame(ApiKey::AddPartitionsToTxn, ADD_PARTITIONS_VERSION, &add),
            frame(ApiKey::EndTxn, END_VERSION, &end),
        ],
        check: in_transaction,
        work: vec![Work::default(), REQUEST],
    })
}

fn in_transaction(number: usize, answer: &[u8]) -> Result<bool> {
    let error = match number {
        0 => {
            let version = ADD_PARTITIONS_VERSION;
            let body = body_of(answer, ApiKey::AddPartitionsToTxn, version)?;
            let response = AddPartitionsToTxnResponse::from_bytes(body, version)?;
            let topic = response.results_by_topic_v3_and_below.iter().next();
            let topic = topic.context("no topic answered")?;
            let partition = topic.results_by_partition.iter().next();
            let partition = partition.context("no partition answered")?;
            partition.partition_error_code
        }
        _ => {
            let body = body_of(answer, ApiKey::EndTxn, END_VERSION)?;
            EndTxnResponse::from_bytes(body, END_VERSION)?.error_code
        }
    };
    match ErrorCode::from_code(error) {
        // The markers of the transaction before are on their way.
        ErrorCode::ConcurrentTransactions => Ok(false),
        _ => none(error),
    }
}
