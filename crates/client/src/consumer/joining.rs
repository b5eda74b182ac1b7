//! The task that keeps a consumer in its group: carries the membership's requests to the
//! coordinator and its answers back.

use super::coordinator;
use super::heartbeat_membership::{HeartbeatAnswer, MemberRequest, StreamsGroup};
use super::heartbeating;
use super::member::Member;
use super::membership::{
    GroupRequest, JoinAnswer, JoinRequest, JoinedMember, Response, SyncRequest,
};
use super::shared::{Shared, topics_of};
use super::unresponsive_brokers::Source;
use crate::Error;
use crate::cluster::Deadline;
use model::ErrorCode;
use std::collections::BTreeSet;
use std::sync::Arc;
use wire::ApiKey;
use wire::messages::heartbeat_request::HeartbeatRequest;
use wire::messages::heartbeat_response::HeartbeatResponse;
use wire::messages::join_group_request::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::messages::join_group_response::JoinGroupResponse;
use wire::messages::leave_group_request::{LeaveGroupRequest, MemberIdentity};
use wire::messages::sync_group_request::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::messages::sync_group_response::SyncGroupResponse;

/// What a rebalance may take beyond the time that members have to rejoin.
const JOIN_GRACE_MS: u64 = 5_000;

/// Serves the membership until it is aborted.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let woken = shared.joining.notified();
        if !step(&shared).await {
            let deadline_ms = {
                let state = shared.state.lock();
                state.membership.as_ref().and_then(|m| m.next_deadline())
            };
            match deadline_ms {
                Some(at_ms) => {
                    let _ = tokio::time::timeout_at(shared.instant(at_ms), woken).await;
                }
                None => woken.await,
            }
        }
    }
}

/// Carries one request, if there is one.
pub(super) async fn step(shared: &Shared) -> bool {
    let Some(request) = next_request(shared) else {
        return false;
    };
    let asked_at_ms = shared.now_ms();
    let answer = match &request {
        Request::Classic(request) => send_request(shared, request).await.map(Reply::Classic),
        Request::Consumer(request) => {
            let answered = heartbeating::send_heartbeat(shared, request).await;
            answered.map(Reply::Consumer)
        }
        Request::Streams(request) => {
            let answered = heartbeating::send_streams_heartbeat(shared, request).await;
            answered.map(Reply::Streams)
        }
    };
    note(shared, asked_at_ms, &answer);
    let mut wants_topics = matches!(answer, Ok(Reply::Classic(Response::Topics(_))));
    let needs_topics = {
        let mut state = shared.state.lock();
        let now_ms = shared.now_ms();
        let Some(member) = state.membership.as_mut() else {
            return false;
        };
        match (&mut *member, answer) {
            (Member::Classic(member), Ok(Reply::Classic(answer))) => {
                member.handle_answer(answer, now_ms);
            }
            (Member::Consumer(member), Ok(Reply::Consumer(answer))) => {
                member.handle_answer(answer, now_ms);
            }
            (Member::Streams(member), Ok(Reply::Streams(answer))) => {
                member.handle_answer(answer, now_ms);
            }
            (member, answer) => {
                let error = answer.err();
                tracing::debug!(?error, ?request, "the coordinator did not answer");
                member.handle_failure(now_ms);
            }
        }
        if member.has_events() || member.has_refusal() || member.failure().is_some() {
            shared.application.notify_one();
        }
        let needs_topics = member.needs_topics();
        wants_topics |= needs_topics && matches!(member, Member::Streams(_));
        state.note_member();
        needs_topics
    };
    if wants_topics {
        shared.want_topics();
    }
    if needs_topics {
        shared.spread_metadata();
    }
    true
}

/// A request of a member of any protocol.
#[derive(Debug)]
enum Request {
    Classic(GroupRequest),
    Consumer(MemberRequest),
    Streams(MemberRequest<StreamsGroup>),
}

/// The answer to it.
enum Reply {
    Classic(Response),
    Consumer(HeartbeatAnswer),
    Streams(HeartbeatAnswer<StreamsGroup>),
}

/// Notes whether the coordinator answers. Who it is and which topics there are, others tell; and who
/// has joined is no member before it is told what it is assigned.
fn note(shared: &Shared, asked_at_ms: i64, answer: &Result<Reply, Error>) {
    let source = Source::Coordinator;
    match answer {
        Ok(
            Reply::Classic(Response::Coordinator(Err(code)))
            | Reply::Consumer(HeartbeatAnswer::Coordinator(Err(code)))
            | Reply::Streams(HeartbeatAnswer::Coordinator(Err(code))),
        ) => {
            let error = shared.refusal(*code);
            shared.note::<()>(source, asked_at_ms, &Err(error));
        }
        Ok(
            Reply::Classic(
                Response::Coordinator(Ok(_))
                | Response::Topics(_)
                | Response::MemberIdRequired(_)
                | Response::Join(_),
            )
            | Reply::Consumer(HeartbeatAnswer::Coordinator(Ok(_)))
            | Reply::Streams(HeartbeatAnswer::Coordinator(Ok(_))),
        ) => {}
        _ => shared.note(source, asked_at_ms, answer),
    }
}

fn next_request(shared: &Shared) -> Option<Request> {
    let mut state = shared.state.lock();
    let now_ms = shared.now_ms();
    match state.membership.as_mut()? {
        Member::Classic(member) => member.poll_request(now_ms).map(Request::Classic),
        Member::Consumer(member) => member.poll_request(now_ms).map(Request::Consumer),
        Member::Streams(member) => member.poll_request(now_ms).map(Request::Streams),
    }
}

async fn send_request(shared: &Shared, request: &GroupRequest) -> Result<Response, Error> {
    match request {
        GroupRequest::FindCoordinator => {
            Ok(Response::Coordinator(coordinator::look_up(shared).await?))
        }
        GroupRequest::Join(join) => self::join(shared, join).await,
        GroupRequest::DescribeTopics(topics) => describe(shared, topics).await,
        GroupRequest::Sync(sync) => self::sync(shared, sync).await,
        GroupRequest::Heartbeat => heartbeat(shared).await,
        GroupRequest::Leave { reason } => leave(shared, reason).await,
    }
}

/// The member as its requests name it.
struct Identity {
    member_id: String,
    generation_id: i32,
    group_instance_id: Option<String>,
}

fn identity(shared: &Shared) -> Identity {
    let state = shared.state.lock();
    let membership = state.membership.as_ref();
    let (member_id, generation_id) = membership.map_or(("", -1), |m| m.generation());
    Identity {
        member_id: member_id.to_owned(),
        generation_id,
        group_instance_id: shared.config.group_instance_id.clone(),
    }
}

/// By when a rebalance has ended: the other members rejoin when their applications poll.
fn rebalance_deadline(shared: &Shared) -> Deadline {
    let within_ms = shared.config.max_poll_interval_ms;
    let within_ms = within_ms.saturating_add(JOIN_GRACE_MS);
    Deadline::after_ms(within_ms, "max.poll.interval.ms")
}

async fn join(shared: &Shared, join: &JoinRequest) -> Result<Response, Error> {
    let group_id = shared.group_id()?;
    let deadline = rebalance_deadline(shared);
    let connection = coordinator::connect(shared, shared.request_deadline()).await?;
    let identity = identity(shared);
    let version = connection.version_of(ApiKey::JoinGroup)?;
    let protocols = join.protocols.iter();
    let request = JoinGroupRequest {
        group_id,
        session_timeout_ms: clamp(join.session_timeout_ms),
        rebalance_timeout_ms: clamp(join.rebalance_timeout_ms),
        member_id: &identity.member_id,
        group_instance_id: identity.group_instance_id.as_deref(),
        protocol_type: "consumer",
        protocols: protocols
            .map(|(name, metadata)| JoinGroupRequestProtocol { name, metadata })
            .collect(),
        reason: Some(join.reason),
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: JoinGroupResponse<'_> = answer.read()?;
    Ok(match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => Response::Join(Ok(joined(&response))),
        ErrorCode::MemberIdRequired => Response::MemberIdRequired(response.member_id.to_owned()),
        error => Response::Join(Err(error)),
    })
}

fn joined(response: &JoinGroupResponse<'_>) -> JoinAnswer {
    let members = response.members.iter().map(|member| JoinedMember {
        member_id: member.member_id.to_owned(),
        group_instance_id: member.group_instance_id.map(str::to_owned),
        metadata: member.metadata.to_vec(),
    });
    JoinAnswer {
        generation_id: response.generation_id,
        protocol_name: response.protocol_name.unwrap_or_default().to_owned(),
        leader: response.leader.to_owned(),
        skips_assignment: response.skip_assignment,
        member_id: response.member_id.to_owned(),
        members: members.collect(),
    }
}

async fn describe(shared: &Shared, wanted: &BTreeSet<String>) -> Result<Response, Error> {
    for topic in wanted {
        shared.brokers.want(topic);
    }
    let metadata = shared.brokers.refreshed(shared.request_deadline()).await?;
    Ok(Response::Topics(topics_of(&metadata, wanted.iter())))
}

async fn sync(shared: &Shared, sync: &SyncRequest) -> Result<Response, Error> {
    let group_id = shared.group_id()?;
    let deadline = rebalance_deadline(shared);
    let connection = coordinator::connect(shared, shared.request_deadline()).await?;
    let identity = identity(shared);
    let version = connection.version_of(ApiKey::SyncGroup)?;
    let assignments = sync.assignments.iter();
    let request = SyncGroupRequest {
        group_id,
        generation_id: identity.generation_id,
        member_id: &identity.member_id,
        group_instance_id: identity.group_instance_id.as_deref(),
        protocol_type: Some("consumer"),
        protocol_name: Some(&sync.protocol_name),
        assignments: assignments
            .map(|(member_id, assignment)| SyncGroupRequestAssignment {
                member_id,
                assignment,
            })
            .collect(),
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: SyncGroupResponse<'_> = answer.read()?;
    Ok(match ErrorCode::from_code(response.error_code) {
        ErrorCode::None => Response::Sync(Ok(response.assignment.to_vec())),
        error => Response::Sync(Err(error)),
    })
}

async fn heartbeat(shared: &Shared) -> Result<Response, Error> {
    let group_id = shared.group_id()?;
    let session = Deadline::after_ms(shared.config.session_timeout_ms, "session.timeout.ms");
    let deadline = session.earlier(shared.request_deadline());
    let connection = coordinator::connect(shared, deadline).await?;
    let identity = identity(shared);
    let request = HeartbeatRequest {
        group_id,
        generation_id: identity.generation_id,
        member_id: &identity.member_id,
        group_instance_id: identity.group_instance_id.as_deref(),
    };
    let answer = connection.call(&request, deadline).await?;
    let response: HeartbeatResponse = answer.read()?;
    Ok(Response::Heartbeat(ErrorCode::from_code(
        response.error_code,
    )))
}

async fn leave(shared: &Shared, reason: &str) -> Result<Response, Error> {
    /// The first version in which several members leave at once.
    const BATCHED_FROM: i16 = 3;
    let group_id = shared.group_id()?;
    let deadline = shared.request_deadline();
    let connection = coordinator::connect(shared, deadline).await?;
    let identity = identity(shared);
    let version = connection.version_of(ApiKey::LeaveGroup)?;
    let members = [MemberIdentity {
        member_id: &identity.member_id,
        group_instance_id: identity.group_instance_id.as_deref(),
        reason: Some(reason),
    }];
    let is_batched = version >= BATCHED_FROM;
    let request = LeaveGroupRequest {
        group_id,
        member_id: if is_batched { "" } else { &identity.member_id },
        members: if is_batched {
            members[..].into()
        } else {
            Default::default()
        },
    };
    connection.call_version(version, &request, deadline).await?;
    Ok(Response::Leave)
}

fn clamp(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}
