//! Consumer groups over real sockets: members come and go, a restart changes nothing, and what no
//! member may ask for is refused.

use crate::configs::{TOPIC, alter, set};
use model::ErrorCode;
use record::Batches;
use std::collections::BTreeSet;
use std::time::Duration;
use testkit::{Client, TestServer};
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::leave_group_request::MemberIdentity;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, DeleteGroupsRequest,
    DeleteGroupsResponse, HeartbeatRequest, HeartbeatResponse, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest, LeaveGroupResponse, ListGroupsRequest, ListGroupsResponse,
    OffsetCommitRequest, OffsetCommitResponse, SyncGroupRequest, SyncGroupResponse,
};

const GROUP: &str = "group";
/// The type of its configuration.
const GROUP_RESOURCE: i8 = 32;
/// Groups that do not wait for more members.
const KEYS: [(&str, &str); 1] = [("group.initial.rebalance.delay.ms", "0")];

/// A member as its last join has left it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    error: ErrorCode,
    id: String,
    generation: i32,
    leader: String,
    /// The members, which only the leader is told.
    members: Vec<String>,
}

fn send_join(client: &mut Client, group: &str, id: &str, instance: Option<&str>) {
    let protocol = JoinGroupRequestProtocol {
        name: "range",
        metadata: b"topics",
    };
    let request = JoinGroupRequest {
        group_id: group,
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        member_id: id,
        group_instance_id: instance,
        protocol_type: "consumer",
        protocols: vec![protocol].into(),
        ..JoinGroupRequest::default()
    };
    client.send(9, &request);
}

fn receive_join(client: &mut Client) -> Member {
    let answer = client.receive();
    let response: JoinGroupResponse<'_> = answer.read();
    let members = response.members.iter();
    Member {
        error: ErrorCode::from_code(response.error_code),
        id: response.member_id.to_owned(),
        generation: response.generation_id,
        leader: response.leader.to_owned(),
        members: members.map(|one| one.member_id.to_owned()).collect(),
    }
}

fn join(client: &mut Client, id: &str, instance: Option<&str>) -> Member {
    send_join(client, GROUP, id, instance);
    receive_join(client)
}

/// Joins a group as a new member, which is told its id first.
#[track_caller]
fn join_anew(client: &mut Client) -> Member {
    let told = join(client, "", None);
    assert_eq!(told.error, ErrorCode::MemberIdRequired);
    join(client, &told.id, None)
}

fn send_sync(client: &mut Client, member: &Member, assignments: &[(&str, &[u8])]) {
    let assignments =
        assignments
            .iter()
            .map(|(member_id, assignment)| SyncGroupRequestAssignment {
                member_id,
                assignment,
            });
    let request = SyncGroupRequest {
        group_id: GROUP,
        generation_id: member.generation,
        member_id: &member.id,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        assignments: assignments.collect(),
        ..SyncGroupRequest::default()
    };
    client.send(5, &request);
}

fn receive_sync(client: &mut Client) -> (ErrorCode, Vec<u8>) {
    let answer = client.receive();
    let response: SyncGroupResponse<'_> = answer.read();
    let error = ErrorCode::from_code(response.error_code);
    (error, response.assignment.to_vec())
}

fn heartbeat(client: &mut Client, generation_id: i32, member_id: &str) -> ErrorCode {
    let request = HeartbeatRequest {
        group_id: GROUP,
        generation_id,
        member_id,
        group_instance_id: None,
    };
    let answer = client.call(4, &request);
    let response: HeartbeatResponse = answer.read();
    ErrorCode::from_code(response.error_code)
}

fn leave(client: &mut Client, member_id: &str) -> ErrorCode {
    let member = MemberIdentity {
        member_id,
        ..MemberIdentity::default()
    };
    let request = LeaveGroupRequest {
        group_id: GROUP,
        members: vec![member].into(),
        ..LeaveGroupRequest::default()
    };
    let answer = client.call(5, &request);
    let response: LeaveGroupResponse<'_> = answer.read();
    let member = response.members.iter().next().expect("one member");
    ErrorCode::from_code(member.error_code)
}

fn delete(client: &mut Client) -> ErrorCode {
    let request = DeleteGroupsRequest {
        groups_names: vec![GROUP].into(),
    };
    let answer = client.call(2, &request);
    let response: DeleteGroupsResponse<'_> = answer.read();
    let result = response.results.iter().next().expect("one group");
    ErrorCode::from_code(result.error_code)
}

#[test]
fn members_come_and_go() {
    let server = TestServer::start(&KEYS);
    let (mut one, mut two) = (server.connect(), server.connect());
    one.wait_for_coordinator(GROUP);
    let first = join_anew(&mut one);
    assert_eq!((first.error, first.generation), (ErrorCode::None, 1));
    assert_eq!(first.members, std::slice::from_ref(&first.id));
    send_sync(&mut one, &first, &[(&first.id, b"everything")]);
    assert_eq!(
        receive_sync(&mut one),
        (ErrorCode::None, b"everything".to_vec())
    );
    assert_eq!(heartbeat(&mut one, 1, &first.id), ErrorCode::None);

    // Another one waits until the first has heard of it and joined again.
    let told = join(&mut two, "", None);
    send_join(&mut two, GROUP, &told.id, None);
    assert!(two.is_silent_for(Duration::from_millis(20)));
    testkit::wait_until("the first member hears of it", || {
        heartbeat(&mut one, 1, &first.id) == ErrorCode::RebalanceInProgress
    });
    let first = join(&mut one, &first.id, None);
    let second = receive_join(&mut two);
    assert_eq!((first.generation, second.generation), (2, 2));
    assert_eq!((&second.leader, second.members.len()), (&first.id, 0));
    assert_eq!(first.members.len(), 2);
    send_sync(&mut two, &second, &[]);
    assert!(two.is_silent_for(Duration::from_millis(20)));
    send_sync(
        &mut one,
        &first,
        &[(&first.id, b"half"), (&second.id, b"the other")],
    );
    assert_eq!(receive_sync(&mut one).1, b"half");
    assert_eq!(
        receive_sync(&mut two),
        (ErrorCode::None, b"the other".to_vec())
    );

    assert_eq!(delete(&mut one), ErrorCode::NonEmptyGroup);
    assert_eq!(leave(&mut one, &first.id), ErrorCode::None);
    assert_eq!(
        heartbeat(&mut two, 2, &second.id),
        ErrorCode::RebalanceInProgress
    );
    assert_eq!(leave(&mut two, &second.id), ErrorCode::None);
    assert_eq!(delete(&mut one), ErrorCode::None);
    assert_eq!(delete(&mut one), ErrorCode::GroupIdNotFound);
    server.assert_serves();
}

#[test]
fn groups_are_listed_by_their_names() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.wait_for_coordinator(GROUP);
    let names: Vec<String> = (0..20).map(|number| format!("group-{number:02}")).collect();
    for name in names.iter().rev() {
        client.wait_for_coordinator(name);
        send_join(&mut client, name, "", Some("instance"));
        assert_eq!(receive_join(&mut client).error, ErrorCode::None);
    }
    let answer = client.call(5, &ListGroupsRequest::default());
    let response: ListGroupsResponse<'_> = answer.read();
    let listed = response
        .groups
        .iter()
        .map(|group| group.group_id.to_owned());
    assert_eq!(listed.collect::<Vec<_>>(), names);
    server.stop();
}

#[test]
fn members_are_members_after_a_restart() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator(GROUP);
    let member = join(&mut client, "", Some("instance"));
    assert_eq!((member.error, member.generation), (ErrorCode::None, 1));
    send_sync(&mut client, &member, &[(&member.id, b"everything")]);
    assert_eq!(receive_sync(&mut client).0, ErrorCode::None);
    drop(client);
    server.stop();
    for is_crash in [false, true] {
        let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
        let mut client = server.connect();
        client.wait_for_coordinator(GROUP);
        assert_eq!(heartbeat(&mut client, 1, &member.id), ErrorCode::None);
        // A static member that comes back has its place, without a rebalance.
        send_sync(&mut client, &member, &[]);
        let expected = (ErrorCode::None, b"everything".to_vec());
        assert_eq!(receive_sync(&mut client), expected, "crash: {is_crash}");
        drop(client);
        match is_crash {
            false => server.crash(),
            true => server.stop(),
        }
    }
}

#[test]
fn what_no_member_may_ask_for_is_refused() {
    let server = TestServer::start(&[KEYS[0], ("group.max.size", "1")]);
    let mut client = server.connect();
    client.wait_for_coordinator(GROUP);
    let member = join_anew(&mut client);
    send_sync(&mut client, &member, &[(&member.id, b"everything")]);
    receive_sync(&mut client);
    for (generation, id, expected) in [
        (1, "nobody", ErrorCode::UnknownMemberId),
        (2, &*member.id, ErrorCode::IllegalGeneration),
        (-1, &member.id, ErrorCode::IllegalGeneration),
        (1, "", ErrorCode::UnknownMemberId),
    ] {
        assert_eq!(
            heartbeat(&mut client, generation, id),
            expected,
            "{generation} {id}"
        );
    }
    assert_eq!(leave(&mut client, "nobody"), ErrorCode::UnknownMemberId);
    let stale = Member {
        generation: 9,
        ..member.clone()
    };
    send_sync(&mut client, &stale, &[]);
    assert_eq!(receive_sync(&mut client).0, ErrorCode::IllegalGeneration);
    let mut other = server.connect();
    send_join(&mut other, "", "", None);
    assert_eq!(receive_join(&mut other).error, ErrorCode::InvalidGroupId);
    let told = join(&mut other, "", None);
    let refused = match told.error {
        ErrorCode::MemberIdRequired => join(&mut other, &told.id, None),
        _ => told,
    };
    assert_eq!(refused.error, ErrorCode::GroupMaxSizeReached);
    // Nothing of this has touched the member.
    assert_eq!(heartbeat(&mut client, 1, &member.id), ErrorCode::None);
    server.assert_serves();
}

/// The keys of a server whose groups are all in one partition.
fn keys_and<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let partition = [("offsets.topic.num.partitions", "1")];
    [&KEYS, &partition, more].concat()
}

fn set_on_offsets_topic(client: &mut Client, key: &str, value: &str) {
    let change = set(TOPIC, "__consumer_offsets", key, value);
    assert_eq!(alter(client, vec![change]), [(0, String::new())]);
}

#[test]
fn the_largest_batch_is_that_of_the_offsets_topic() {
    let server = TestServer::start(&keys_and(&[("message.max.bytes", "1000")]));
    let mut client = server.connect();
    client.wait_for_coordinator(GROUP);
    let assignment = vec![7; 5000];
    let sync = |client: &mut Client| {
        let member = join_anew(client);
        send_sync(client, &member, &[(&member.id, &assignment)]);
        let synced = receive_sync(client);
        assert_eq!(leave(client, &member.id), ErrorCode::None);
        synced
    };
    let (refused, _) = sync(&mut client);
    assert_ne!(refused, ErrorCode::None);
    set_on_offsets_topic(&mut client, "max.message.bytes", "10000");
    assert_eq!(sync(&mut client), (ErrorCode::None, assignment.clone()));
    set_on_offsets_topic(&mut client, "max.message.bytes", "2000");
    assert_eq!(sync(&mut client).0, refused);
}

/// The codes of a commit of so many partitions of topic `t` by group `g`.
fn commit_partitions(client: &mut Client, count: i32) -> BTreeSet<i16> {
    let partitions = (0..count).map(|partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 7,
        committed_metadata: Some(""),
        ..OffsetCommitRequestPartition::default()
    });
    let topic = OffsetCommitRequestTopic {
        name: "t",
        partitions: partitions.collect(),
        ..OffsetCommitRequestTopic::default()
    };
    let request = OffsetCommitRequest {
        group_id: "g",
        generation_id_or_member_epoch: -1,
        topics: vec![topic].into(),
        ..OffsetCommitRequest::default()
    };
    let answer = client.call(8, &request);
    let response: OffsetCommitResponse<'_> = answer.read();
    let mut codes = BTreeSet::new();
    for topic in response.topics.iter() {
        codes.extend(topic.partitions.iter().map(|one| one.error_code));
    }
    codes
}

#[test]
fn offsets_are_committed_as_long_as_one_batch_holds_them() {
    let server = TestServer::start(&KEYS);
    let mut client = server.connect();
    client.create_topic("t", 40, &[]);
    client.wait_for_coordinator("g");
    set_on_offsets_topic(&mut client, "max.message.bytes", "2000");
    let (none, too_many) = (0, ErrorCode::UnknownServerError.code());
    // As many as Apache Kafka takes.
    assert_eq!(commit_partitions(&mut client, 31), BTreeSet::from([none]));
    let refused = BTreeSet::from([too_many]);
    assert_eq!(commit_partitions(&mut client, 32), refused);
    set_on_offsets_topic(&mut client, "compression.type", "gzip");
    assert_eq!(commit_partitions(&mut client, 40), BTreeSet::from([none]));
}

#[test]
fn the_offsets_topic_is_compressed_as_configured() {
    let directory = trials::directory();
    let keys = keys_and(&[("offsets.topic.compression.codec", "1")]);
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    client.wait_for_coordinator(GROUP);
    let mut next_offset = 0;
    let mut codecs_of_a_join = |client: &mut Client| {
        let member = join_anew(client);
        send_sync(client, &member, &[(&member.id, b"everything")]);
        assert_eq!(receive_sync(client).0, ErrorCode::None);
        let fetched = client.fetch("__consumer_offsets", 0, next_offset);
        let batches: Vec<_> = Batches::new(&fetched.records).map(Result::unwrap).collect();
        next_offset = batches.last().unwrap().next_offset().0;
        let codecs: BTreeSet<_> = batches
            .iter()
            .map(|one| one.compression().unwrap().name())
            .collect();
        (member, codecs)
    };
    let (member, codecs) = codecs_of_a_join(&mut client);
    assert_eq!(codecs, BTreeSet::from(["gzip"]));
    // Its departure still is.
    assert_eq!(leave(&mut client, &member.id), ErrorCode::None);
    set_on_offsets_topic(&mut client, "compression.type", "zstd");
    let (member, codecs) = codecs_of_a_join(&mut client);
    assert_eq!(codecs, BTreeSet::from(["gzip", "zstd"]));
    drop(client);
    server.stop();
    let server = TestServer::start_in(directory.path(), &keys).unwrap();
    let mut client = server.connect();
    client.wait_for_coordinator(GROUP);
    let alive = heartbeat(&mut client, member.generation, &member.id);
    assert_eq!(alive, ErrorCode::None);
}

/// Where it is switched off, a consumer learns that it has to speak the classic protocol.
#[test]
fn the_consumer_protocol_can_be_switched_off() {
    for (protocols, is_spoken) in [("classic,consumer", true), ("classic", false)] {
        let mut keys = KEYS.to_vec();
        keys.push(("group.coordinator.rebalance.protocols", protocols));
        let server = TestServer::start(&keys);
        let mut client = server.connect();
        client.create_topic("topic", 1, &[]);
        client.wait_for_coordinator(GROUP);
        for version in [0, 1] {
            let id = format!("member-{version}");
            let request = ConsumerGroupHeartbeatRequest {
                group_id: "another",
                // Members of version 0 have their id from the coordinator.
                member_id: if version == 0 { "" } else { &id },
                rebalance_timeout_ms: 10_000,
                subscribed_topic_names: Some(vec!["topic"].into()),
                topic_partitions: Some(Vec::new().into()),
                ..ConsumerGroupHeartbeatRequest::default()
            };
            let answer = client.call(version, &request);
            let response: ConsumerGroupHeartbeatResponse<'_> = answer.read();
            let error = ErrorCode::from_code(response.error_code);
            if is_spoken {
                assert_eq!(error, ErrorCode::None, "{:?}", response.error_message);
                assert!(response.member_epoch > 0);
                continue;
            }
            assert_eq!(error, ErrorCode::UnsupportedVersion);
            assert_eq!(response.error_message, None);
            assert_eq!((response.member_id, response.member_epoch), (None, 0));
        }
        // The classic protocol is spoken in any case.
        assert_eq!(join_anew(&mut client).error, ErrorCode::None);
    }
}

/// How often a new member of the consumer protocol is to be heard.
fn told_interval_ms(client: &mut Client, member_id: &str) -> i32 {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: GROUP,
        member_id,
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec!["topic"].into()),
        topic_partitions: Some(Vec::new().into()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let answer = client.call(1, &request);
    let response: ConsumerGroupHeartbeatResponse<'_> = answer.read();
    assert_eq!(response.error_code, 0, "{:?}", response.error_message);
    response.heartbeat_interval_ms
}

#[test]
fn what_is_set_for_a_group_holds_from_then_on_and_after_a_restart() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_coordinator(GROUP);
    assert_eq!(told_interval_ms(&mut client, "first"), 5_000);
    let value = set(
        GROUP_RESOURCE,
        GROUP,
        "consumer.heartbeat.interval.ms",
        "6000",
    );
    assert_eq!(alter(&mut client, vec![value]), [(0, String::new())]);
    assert_eq!(told_interval_ms(&mut client, "second"), 6_000);
    drop(client);
    server.stop();
    let server = TestServer::start_in(directory.path(), &KEYS).unwrap();
    let mut client = server.connect();
    client.wait_for_coordinator(GROUP);
    assert_eq!(told_interval_ms(&mut client, "third"), 6_000);
}
