//! A member of a group by whichever protocol its consumer is set to.

use super::GroupMembershipOperation;
use super::heartbeat_membership::{HeartbeatMembership, Interest, StreamsGroup};
use super::membership::{Event, Membership};
use model::ErrorCode;
use std::collections::BTreeSet;

/// A member of a group.
#[derive(Debug)]
pub(super) enum Member {
    /// By JoinGroup, SyncGroup and Heartbeat.
    Classic(Membership),
    /// By ConsumerGroupHeartbeat.
    Consumer(HeartbeatMembership),
    /// By StreamsGroupHeartbeat.
    Streams(Box<HeartbeatMembership<StreamsGroup>>),
}

/// Calls the same of either.
macro_rules! either {
    ($member:expr, $one:ident => $call:expr) => {
        match $member {
            Member::Classic($one) => $call,
            Member::Consumer($one) => $call,
            Member::Streams($one) => $call,
        }
    };
}

impl Member {
    /// Subscribes to these topics instead of any before.
    pub(super) fn subscribe(&mut self, topics: BTreeSet<String>) {
        match self {
            Self::Classic(member) => member.subscribe(topics),
            Self::Consumer(member) => member.subscribe(Interest::Topics(topics)),
            // Its topology says what it reads.
            Self::Streams(_) => {}
        }
    }

    /// Subscribes to what the coordinator finds to match; only in the consumer protocol.
    pub(super) fn subscribe_pattern(&mut self, pattern: &str) {
        if let Self::Consumer(member) = self {
            member.subscribe(Interest::Pattern(pattern.to_owned()));
        }
    }

    /// Leaves the group; see the memberships.
    pub(super) fn leave(&mut self, operation: GroupMembershipOperation) {
        either!(self, member => member.leave(operation));
    }

    /// The application has polled: it lives. Returns whether the member that had left because it did not
    /// is to join again.
    pub(super) fn handle_application_poll(&mut self, now_ms: i64) -> bool {
        either!(self, member => member.handle_application_poll(now_ms))
    }

    /// Asks all members of a streams group to end.
    pub(super) fn shut_down_application(&mut self) {
        if let Self::Streams(member) = self {
            member.shut_down_application();
        }
    }

    /// Asks for a rebalance, which coordinators that assign decide by themselves.
    pub(super) fn enforce_rebalance(&mut self) {
        if let Self::Classic(member) = self {
            member.enforce_rebalance();
        }
    }

    /// Member id, and generation or epoch; -1 while it is no member.
    pub(super) fn generation(&self) -> (&str, i32) {
        either!(self, member => member.generation())
    }

    /// The error for which the coordinator refused the member for good.
    pub(super) const fn failure(&self) -> Option<ErrorCode> {
        either!(self, member => member.failure())
    }

    /// Whether `take_refusal` has one.
    pub(super) const fn has_refusal(&self) -> bool {
        match self {
            Self::Classic(_) => false,
            Self::Consumer(member) => member.has_refusal(),
            Self::Streams(member) => member.has_refusal(),
        }
    }

    /// Why a heartbeat was refused that is sent again, once.
    pub(super) const fn take_refusal(&mut self) -> Option<ErrorCode> {
        match self {
            Self::Classic(_) => None,
            Self::Consumer(member) => member.take_refusal(),
            Self::Streams(member) => member.take_refusal(),
        }
    }

    /// A commit of this generation or epoch was refused because of the member.
    pub(super) fn handle_commit_error(&mut self, error: ErrorCode, generation_id: i32) {
        either!(self, member => member.handle_commit_error(error, generation_id));
    }

    /// The next thing for the application to deal with.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        either!(self, member => member.poll_event())
    }

    /// Whether the application has something to deal with.
    pub(super) fn has_events(&self) -> bool {
        either!(self, member => member.has_events())
    }

    /// The application has dealt with the event that it took.
    pub(super) fn handle_event_done(&mut self) {
        either!(self, member => member.handle_event_done());
    }

    /// Whether something is to be learned of topics that are assigned.
    pub(super) fn needs_topics(&self) -> bool {
        match self {
            Self::Classic(_) => false,
            Self::Consumer(member) => member.needs_topics(),
            Self::Streams(member) => member.needs_topics(),
        }
    }

    /// When the member has a request without any input.
    pub(super) fn next_deadline(&self) -> Option<i64> {
        either!(self, member => member.next_deadline())
    }

    /// No answer came to the request in flight.
    pub(super) fn handle_failure(&mut self, now_ms: i64) {
        either!(self, member => member.handle_failure(now_ms));
    }

    /// The topics whose changes matter to a leader of the classic protocol, or that active tasks read.
    pub(super) fn watched_topics(&self) -> Vec<String> {
        match self {
            Self::Classic(member) => member.watched_topics().cloned().collect(),
            Self::Consumer(_) => Vec::new(),
            Self::Streams(member) => member.watched_topics().cloned().collect(),
        }
    }
}
