//! A member by script: each line tells it something, and what it asks and what the application hears is written behind.

use super::super::GroupMembershipOperation;
use super::super::membership::Event;
use super::{
    Heartbeat, HeartbeatAnswer, HeartbeatMembership, HeartbeatSettings, MemberRequest, Protocol,
};
use expect_test::Expect;
use model::{BrokerId, ErrorCode};
use std::fmt::Write as _;

/// What scripts of one kind of group have of their own.
pub(super) trait Scripted: Protocol + Sized {
    /// What an answer tells that has no news.
    fn no_news() -> Self::News;

    /// Carries out a line that not every kind of group has.
    fn play(member: &mut HeartbeatMembership<Self>, words: &[&str], now_ms: i64);

    /// What a heartbeat tells beside the epoch.
    fn heartbeat_text(heartbeat: &Heartbeat<Self>) -> String;

    /// What the application hears.
    fn event_text(event: &Event) -> String;
}

/// Runs lines such as `found`, `ok 1`, `refuse NAME`, `lose`, `poll`, `done`, `wait 100`, and those of the kind of
/// group.
pub(super) fn check<P: Scripted>(
    mut member: HeartbeatMembership<P>,
    script: &str,
    expected: Expect,
) {
    let mut now_ms = 0;
    let mut out = String::new();
    for line in script.trim().lines().map(str::trim) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["found"] => {
                member.handle_answer(HeartbeatAnswer::Coordinator(Ok(BrokerId(1))), now_ms);
            }
            ["ok", epoch] => member.handle_answer(accepted(epoch, None, P::no_news()), now_ms),
            ["refuse", name] => {
                member.handle_answer(HeartbeatAnswer::Refused(error(name)), now_ms);
            }
            ["lose"] => member.handle_failure(now_ms),
            ["done"] => member.handle_event_done(),
            ["poll"] => {
                member.handle_application_poll(now_ms);
            }
            ["leave"] => member.leave(GroupMembershipOperation::Default),
            ["leave", "for-good"] => member.leave(GroupMembershipOperation::LeaveGroup),
            ["remain"] => member.leave(GroupMembershipOperation::RemainInGroup),
            ["wait", ms] => now_ms += ms.parse::<i64>().expect("a number"),
            _ => P::play(&mut member, &words, now_ms),
        }
        out.push_str(line);
        if let Some(refusal) = member.take_refusal() {
            write!(out, " !! {}", refusal.name()).expect("a string takes all");
        }
        match member.poll_request(now_ms) {
            Some(MemberRequest::FindCoordinator) => out.push_str(" -> find"),
            Some(MemberRequest::Heartbeat(beat)) => {
                let (epoch, text) = (beat.member_epoch, P::heartbeat_text(&beat));
                write!(out, " -> epoch {epoch}{text}").expect("a string takes all");
            }
            None => {}
        }
        if let Some(event) = member.poll_event() {
            write!(out, " => {}", P::event_text(&event)).expect("a string takes all");
        }
        if let Some(code) = member.failure() {
            write!(out, " failed: {code}").expect("a string takes all");
        }
        out.push('\n');
    }
    expected.assert_eq(&out);
}

/// The answer to a heartbeat.
pub(super) fn accepted<P: Protocol>(
    epoch: &str,
    assignment: Option<P::Assignment>,
    news: P::News,
) -> HeartbeatAnswer<P> {
    HeartbeatAnswer::Accepted {
        member_id: None,
        member_epoch: epoch.parse().expect("a number"),
        heartbeat_interval_ms: 5_000,
        assignment,
        news,
    }
}

/// The error of this name.
pub(super) fn error(name: &str) -> ErrorCode {
    let code = ErrorCode::ALL.iter().find(|code| code.name() == name);
    *code.expect("an error of Kafka's")
}

/// A dynamic member that asks for nothing in particular.
pub(super) fn settings() -> HeartbeatSettings {
    HeartbeatSettings {
        member_id: "me".to_owned(),
        group_instance_id: None,
        max_poll_interval_ms: 60_000,
        retry_backoff_ms: 100,
        retry_backoff_max_ms: 1_000,
        remote_assignor: None,
        rack_id: None,
    }
}
