//! A member of a classic group, as long as it is in the group.

use super::effects::Effects;
use super::request::{JoinGroup, JoinProtocol};
use super::timers::Timer;
use crate::group_response::{JoinGroupResponse, SyncGroupResponse};
use crate::messages::group_metadata_value::MemberMetadata;
use crate::{GroupResponse, Token};
use model::{ErrorCode, MonotonicTime};
use std::collections::BTreeSet;
use std::sync::Arc;

/// An assignor that a member supports, with what the leader's assignor gets to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Protocol {
    pub(super) name: Arc<str>,
    pub(super) metadata: Arc<[u8]>,
}

impl Protocol {
    fn of_request(protocol: &JoinProtocol<'_>) -> Self {
        Self {
            name: Arc::from(protocol.name),
            metadata: Arc::from(protocol.metadata),
        }
    }
}

/// A member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: Arc<str>,
    pub(super) group_instance_id: Option<Arc<str>>,
    pub(super) client_id: Arc<str>,
    pub(super) client_host: Arc<str>,
    pub(super) session_timeout_ms: i32,
    pub(super) rebalance_timeout_ms: i32,
    /// Best first, each name once. After loading only the one that the group chose is known.
    pub(super) protocols: Vec<Protocol>,
    pub(super) assignment: Arc<[u8]>,
    /// Whether no JoinGroup of the member was answered yet.
    pub(super) is_new: bool,
    /// Set while its JoinGroup waits.
    pub(super) join_token: Option<Token>,
    /// Set while its SyncGroup waits.
    pub(super) sync_token: Option<Token>,
    /// When the member counts as gone.
    session_deadline: MonotonicTime,
    /// When the queue's timer fires: never after the deadline. A heartbeat moves the deadline
    /// alone and leaves the timer to find that it came too early.
    session_timer_at: Option<MonotonicTime>,
}

impl Member {
    /// A member that has no session yet.
    pub(super) fn new(
        id: Arc<str>,
        group_instance_id: Option<Arc<str>>,
        client_id: Arc<str>,
        client_host: Arc<str>,
    ) -> Self {
        Self {
            id,
            group_instance_id,
            client_id,
            client_host,
            session_timeout_ms: 0,
            rebalance_timeout_ms: 0,
            protocols: Vec::new(),
            assignment: Arc::from([]),
            is_new: false,
            join_token: None,
            sync_token: None,
            session_deadline: MonotonicTime::MIN,
            session_timer_at: None,
        }
    }

    /// The member that sends `request` and is to be known as `id`.
    pub(super) fn of_request(id: Arc<str>, request: &JoinGroup<'_>) -> Self {
        let mut member = Self::new(
            id,
            request.group_instance_id.map(Arc::from),
            Arc::from(request.client_id),
            Arc::from(request.client_host),
        );
        member.is_new = true;
        member.adopt(request);
        member
    }

    /// The member as the group's record has it. Groups stored by old versions have no rebalance
    /// timeout.
    pub(super) fn restored(stored: &MemberMetadata<'_>, protocol: Option<&str>) -> Self {
        let mut member = Self::new(
            Arc::from(stored.member_id),
            stored.group_instance_id.map(Arc::from),
            Arc::from(stored.client_id),
            Arc::from(stored.client_host),
        );
        member.session_timeout_ms = stored.session_timeout;
        member.rebalance_timeout_ms = match stored.rebalance_timeout {
            -1 => stored.session_timeout,
            timeout_ms => timeout_ms,
        };
        member.protocols = vec![Protocol {
            name: Arc::from(protocol.unwrap_or_default()),
            metadata: Arc::from(stored.subscription),
        }];
        member.assignment = Arc::from(stored.assignment);
        member
    }

    /// Takes the timeouts and protocols of a request.
    pub(super) fn adopt(&mut self, request: &JoinGroup<'_>) {
        self.session_timeout_ms = request.session_timeout_ms;
        self.rebalance_timeout_ms = request.rebalance_timeout_ms;
        if !self.supports_just(&request.protocols) {
            let mut names = BTreeSet::new();
            let unique = request
                .protocols
                .iter()
                .filter(|protocol| names.insert(protocol.name));
            self.protocols = unique.map(Protocol::of_request).collect();
        }
    }

    /// Whether the member's protocols are those of a request, in the same order and with the same
    /// metadata.
    pub(super) fn supports_just(&self, protocols: &[JoinProtocol<'_>]) -> bool {
        self.protocols.len() == protocols.len()
            && self
                .protocols
                .iter()
                .zip(protocols)
                .all(|(mine, other)| *mine.name == *other.name && *mine.metadata == *other.metadata)
    }

    /// The metadata of a protocol; empty when the member does not support it.
    pub(super) fn metadata_of(&self, protocol: Option<&str>) -> Arc<[u8]> {
        self.protocols
            .iter()
            .find(|candidate| Some(&*candidate.name) == protocol)
            .map_or_else(|| Arc::from([]), |found| Arc::clone(&found.metadata))
    }

    /// Parks the member's JoinGroup. One that it sent before gives way: the member asks again.
    pub(super) fn park_join(&mut self, token: Token, effects: &mut Effects<'_>) {
        let response = JoinGroupResponse::error(&self.id, ErrorCode::RebalanceInProgress);
        self.release_join(response, effects);
        self.join_token = Some(token);
    }

    /// Parks the member's SyncGroup. One that it sent before gives way: the member joins again.
    pub(super) fn park_sync(&mut self, token: Token, effects: &mut Effects<'_>) {
        self.release_sync(
            SyncGroupResponse::error(ErrorCode::RebalanceInProgress),
            effects,
        );
        self.sync_token = Some(token);
    }

    /// Answers the member's JoinGroup if it waits.
    pub(super) fn release_join(&mut self, response: JoinGroupResponse, effects: &mut Effects<'_>) {
        if let Some(token) = self.join_token.take() {
            effects
                .released
                .push((token, GroupResponse::Join(response)));
        }
    }

    /// Answers the member's SyncGroup if it waits, and says whether it did.
    pub(super) fn release_sync(
        &mut self,
        response: SyncGroupResponse,
        effects: &mut Effects<'_>,
    ) -> bool {
        let Some(token) = self.sync_token.take() else {
            return false;
        };
        effects
            .released
            .push((token, GroupResponse::Sync(response)));
        true
    }

    /// Lets the member live for another session timeout.
    pub(super) fn renew_session(&mut self, effects: &mut Effects<'_>) {
        self.renew_session_for(self.session_timeout_ms, effects);
    }

    /// Lets the member live for `timeout_ms`.
    pub(super) fn renew_session_for(&mut self, timeout_ms: i32, effects: &mut Effects<'_>) {
        self.session_deadline = effects.after(timeout_ms);
        if self
            .session_timer_at
            .is_none_or(|at| at > self.session_deadline)
        {
            self.end_session(effects);
            self.schedule_session(effects);
        }
    }

    /// Forgets the member's timer.
    pub(super) fn end_session(&mut self, effects: &mut Effects<'_>) {
        if let Some(at) = self.session_timer_at.take() {
            effects.timers.cancel(at, self.session_timer(effects));
        }
    }

    /// The timer of `at` fired: whether the member is gone.
    pub(super) fn session_has_expired(
        &mut self,
        at: MonotonicTime,
        effects: &mut Effects<'_>,
    ) -> bool {
        if self.session_timer_at != Some(at) {
            return false;
        }
        self.session_timer_at = None;
        if self.session_deadline > effects.now.monotonic {
            self.schedule_session(effects);
            return false;
        }
        // Whoever waits for an answer cannot send heartbeats; the answer renews the session. A new
        // member is another matter: its client does not know its id and retries with another one,
        // so it must not wait for ever.
        self.is_new || (self.join_token.is_none() && self.sync_token.is_none())
    }

    fn schedule_session(&mut self, effects: &mut Effects<'_>) {
        self.session_timer_at = Some(self.session_deadline);
        let timer = self.session_timer(effects);
        effects.timers.schedule(self.session_deadline, timer);
    }

    fn session_timer(&self, effects: &Effects<'_>) -> Timer {
        Timer::Session(Arc::clone(&effects.group_id), Arc::clone(&self.id))
    }
}
