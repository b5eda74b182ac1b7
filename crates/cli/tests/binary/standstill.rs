//! A process that does not run for a while, as in a frozen container.

use crate::process::Process;
use model::ErrorCode;
use std::time::{Duration, Instant};
use testkit::{Client, wait_until};
use wire::messages::join_group_request::JoinGroupRequestProtocol;
use wire::messages::sync_group_request::SyncGroupRequestAssignment;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, HeartbeatRequest,
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, SyncGroupRequest, SyncGroupResponse,
};

const SESSION: Duration = Duration::from_secs(5);
/// Both protocols with sessions of [`SESSION`].
const KEYS: [(&str, &str); 6] = [
    ("group.initial.rebalance.delay.ms", "0"),
    ("group.min.session.timeout.ms", "5000"),
    ("group.consumer.session.timeout.ms", "5000"),
    ("group.consumer.min.session.timeout.ms", "5000"),
    ("group.consumer.heartbeat.interval.ms", "1000"),
    ("group.consumer.min.heartbeat.interval.ms", "1000"),
];
/// Enough that the server looks for who is silent before it has read from all of them.
const MEMBERS: usize = 16;

/// A member of the classic protocol, alone in its group.
struct ClassicMember {
    group: String,
    id: String,
    generation: i32,
}

impl ClassicMember {
    fn join(client: &mut Client, group: String) -> Self {
        let protocol = JoinGroupRequestProtocol {
            name: "range",
            metadata: b"topics",
        };
        let request = JoinGroupRequest {
            group_id: &group,
            session_timeout_ms: SESSION.as_millis() as i32,
            rebalance_timeout_ms: 30_000,
            protocol_type: "consumer",
            protocols: vec![protocol].into(),
            ..JoinGroupRequest::default()
        };
        let answer = client.call(3, &request);
        let joined: JoinGroupResponse<'_> = answer.read();
        assert_eq!(joined.error_code, 0);
        let (id, generation) = (joined.member_id.to_owned(), joined.generation_id);
        let assignment = SyncGroupRequestAssignment {
            member_id: &id,
            assignment: b"partitions",
        };
        let request = SyncGroupRequest {
            group_id: &group,
            generation_id: generation,
            member_id: &id,
            assignments: vec![assignment].into(),
            ..SyncGroupRequest::default()
        };
        let answer = client.call(2, &request);
        let synced: SyncGroupResponse<'_> = answer.read();
        assert_eq!(synced.error_code, 0);
        Self {
            group,
            id,
            generation,
        }
    }

    fn heartbeat(&self, client: &mut Client) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: &self.group,
            generation_id: self.generation,
            member_id: &self.id,
            group_instance_id: None,
        };
        let answer = client.call(3, &request);
        let response: HeartbeatResponse = answer.read();
        ErrorCode::from_code(response.error_code)
    }
}

/// A heartbeat of the only member of a group of the consumer protocol, and its epoch then.
fn consumer_heartbeat(client: &mut Client, group: &str, epoch: i32) -> (ErrorCode, i32) {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: group,
        member_id: group,
        member_epoch: epoch,
        rebalance_timeout_ms: 30_000,
        subscribed_topic_names: Some(vec!["topic"].into()),
        topic_partitions: Some(vec![].into()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let answer = client.call(1, &request);
    let response: ConsumerGroupHeartbeatResponse<'_> = answer.read();
    let error = ErrorCode::from_code(response.error_code);
    (error, response.member_epoch)
}

#[test]
fn a_server_that_stood_still_for_longer_than_a_session_expels_nobody() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &KEYS);
    let mut client = process.connect();
    client.wait_for_coordinator("group");
    let names = |kind: &'static str| (0..MEMBERS).map(move |at| format!("{kind}-{at}"));
    let classic = names("classic").map(|group| ClassicMember::join(&mut client, group));
    let classic: Vec<_> = classic.collect();
    let consumers = names("consumer").map(|group| {
        let (error, epoch) = consumer_heartbeat(&mut client, &group, 0);
        assert_eq!(error, ErrorCode::None);
        (group, epoch)
    });
    let consumers: Vec<_> = consumers.collect();
    let heartbeats = |client: &mut Client| {
        for (group, epoch) in &consumers {
            let answered = consumer_heartbeat(client, group, *epoch);
            assert_eq!(answered, (ErrorCode::None, *epoch), "{group}");
        }
        for member in &classic {
            assert_eq!(
                member.heartbeat(client),
                ErrorCode::None,
                "{}",
                member.group
            );
        }
    };
    heartbeats(&mut client);
    process.signal("STOP");
    wait_until("the process stands", || process.state() == 'T');
    let since = Instant::now();
    wait_until("a session has passed", || since.elapsed() > SESSION);
    process.signal("CONT");
    heartbeats(&mut client);
    process.stop();
}
