//! Who is in a classic group right now: its members, its leader and what they have agreed on.
//!
//! This is soft state. The log holds what was true when the group was last stable or empty; from
//! there members find back by themselves. `rebalance` has the transitions between states.

use super::effects::Effects;
use super::member::{Member, Protocol};
use super::request::{JoinGroup, JoinProtocol};
use super::subscription::subscribed_topics;
use super::timers::Timer;
use super::unallocated::Absent;
use crate::Token;
use crate::group_response::{JoinGroupResponse, JoinedMember, SyncGroupResponse};
use crate::messages::GroupMetadataValue;
use model::{ErrorCode, MonotonicTime};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The protocol type of groups whose members are consumers.
const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

/// Where a classic group is in its life.
///
/// ```text
///   Empty ──join──> PreparingRebalance ──all joined, or time is up──> CompletingRebalance
///     ^               ^    │ nobody left                                │ leader synced
///     └───────────────│────┘                                            v
///                     └───── a member joins, leaves or vanishes ───── Stable
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupState {
    /// No members. Offsets may remain until they expire.
    Empty,
    /// Waits for the members to join.
    PreparingRebalance,
    /// Has a new generation and waits for the leader's assignments.
    CompletingRebalance,
    /// Every member has, or can get, its assignment.
    Stable,
}

impl GroupState {
    /// Kafka's name of the state.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// How long a group waits for its members to join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JoinDeadline {
    pub(super) at: MonotonicTime,
    /// Of a group that was empty: how the wait may be extended.
    pub(super) initial: Option<InitialDelay>,
}

/// The wait of a group that was empty, one step of at most `group.initial.rebalance.delay.ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InitialDelay {
    pub(super) step_ms: i32,
    /// What is left of the rebalance timeout after this step.
    pub(super) remaining_ms: i32,
}

/// The members of a classic group.
///
/// Invariants:
/// - `leader` is a member, and there is one whenever there are members.
/// - `static_members` names exactly the members with an instance id.
/// - `awaiting_join_count` counts the members whose JoinGroup waits; `protocol_counts` counts the
///   members that support each protocol.
/// - A SyncGroup waits only in `CompletingRebalance`, a JoinGroup only in `PreparingRebalance`.
#[derive(Debug)]
pub(super) struct Membership {
    pub(super) state: GroupState,
    /// When the state was entered; unknown in groups stored by old versions.
    pub(super) state_timestamp_ms: Option<i64>,
    pub(super) generation_id: i32,
    pub(super) protocol_type: Option<Arc<str>>,
    pub(super) protocol: Option<Arc<str>>,
    pub(super) leader: Option<Arc<str>>,
    pub(super) members: BTreeMap<Arc<str>, Member>,
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    awaiting_join_count: usize,
    protocol_counts: ProtocolCounts,
    /// Members that were given an id and have not joined, with when they are given up.
    pub(super) pending_joins: BTreeMap<Arc<str>, MonotonicTime>,
    /// Members of the generation that have not asked for their assignment.
    pub(super) pending_syncs: BTreeSet<Arc<str>>,
    /// What the members consume; `None` when it is not known.
    subscribed_topics: Option<BTreeSet<String>>,
    /// Whether a rebalance in preparation began in an empty group.
    pub(super) is_initial_rebalance: bool,
    /// Whether a member came while an empty group waited.
    pub(super) new_member_added: bool,
    pub(super) join_deadline: Option<JoinDeadline>,
    pub(super) sync_deadline: Option<MonotonicTime>,
    /// Whether the members were let go because the group goes over to another type.
    pub(super) is_dissolved: bool,
}

impl Absent for Membership {
    fn absent() -> &'static Self {
        static EMPTY: Membership = Membership::empty(None);
        &EMPTY
    }

    fn new() -> Self {
        Self::empty(None)
    }
}

impl Membership {
    /// A group that nobody has joined yet.
    pub(super) const fn empty(state_timestamp_ms: Option<i64>) -> Self {
        Self {
            state: GroupState::Empty,
            state_timestamp_ms,
            generation_id: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            awaiting_join_count: 0,
            protocol_counts: ProtocolCounts(BTreeMap::new()),
            pending_joins: BTreeMap::new(),
            pending_syncs: BTreeSet::new(),
            subscribed_topics: None,
            is_initial_rebalance: false,
            new_member_added: false,
            join_deadline: None,
            sync_deadline: None,
            is_dissolved: false,
        }
    }

    /// The group as its record has it: stable, or empty without members.
    pub(super) fn restored(value: &GroupMetadataValue<'_>) -> Self {
        let state_timestamp_ms = Some(value.current_state_timestamp).filter(|at_ms| *at_ms != -1);
        let mut group = Self::empty(state_timestamp_ms);
        group.generation_id = value.generation;
        group.protocol = value.protocol.map(Arc::from);
        for stored in value.members.iter() {
            // A damaged log may repeat a member; the last one counts.
            if let Some(repeated) = group.members.remove(stored.member_id) {
                group.protocol_counts.remove(&repeated.protocols);
            }
            group.add(
                Member::restored(&stored, value.protocol),
                value.protocol_type,
            );
        }
        if !value.protocol_type.is_empty() {
            group.protocol_type = Some(Arc::from(value.protocol_type));
        }
        if !group.members.is_empty() {
            group.state = GroupState::Stable;
            if let Some((leader, _)) = value
                .leader
                .and_then(|leader| group.members.get_key_value(leader))
            {
                group.leader = Some(Arc::clone(leader));
            }
        }
        group.refresh_subscribed_topics();
        group
    }

    /// Takes over what the record of an empty group says, if nobody is there to know better: of a
    /// group without members nothing is soft.
    pub(super) fn adopt_empty(&mut self, value: &GroupMetadataValue<'_>) {
        if value.members.is_empty() && self.is_void() && self.generation_id < value.generation {
            *self = Self::restored(value);
        }
    }

    /// Whether there is neither a member nor one about to join.
    pub(super) fn is_void(&self) -> bool {
        self.members.is_empty() && self.pending_joins.is_empty() && self.state == GroupState::Empty
    }

    pub(super) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// The member with an instance id.
    pub(super) fn static_member_id(&self, group_instance_id: &str) -> Option<&Arc<str>> {
        self.static_members.get(group_instance_id)
    }

    pub(super) fn awaiting_join_count(&self) -> usize {
        self.awaiting_join_count
    }

    pub(super) fn has_all_members_joined(&self) -> bool {
        self.awaiting_join_count == self.members.len() && self.pending_joins.is_empty()
    }

    /// The longest rebalance timeout of the members; zero without members.
    pub(super) fn rebalance_timeout_ms(&self) -> i32 {
        let timeouts = self
            .members
            .values()
            .map(|member| member.rebalance_timeout_ms);
        timeouts.max().unwrap_or(0).max(0)
    }

    /// Whether a request comes from a member.
    ///
    /// # Errors
    /// Why it does not.
    pub(super) fn validate_member(
        &self,
        member_id: &str,
        group_instance_id: Option<&str>,
    ) -> Result<(), ErrorCode> {
        if let Some(instance_id) = group_instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(owner) if **owner != *member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }

    /// Whether a member with these protocols can be in the group.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[JoinProtocol<'_>]) -> bool {
        if self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols
                .iter()
                .any(|protocol| self.is_supported_by_all(protocol.name))
    }

    fn is_supported_by_all(&self, protocol: &str) -> bool {
        self.protocol_counts.of(protocol) == self.members.len()
    }

    /// The protocol that most members prefer among those that all support. Of equals, the one that
    /// the leader likes best.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes = BTreeMap::<&str, usize>::new();
        for member in self.members.values() {
            let vote = member
                .protocols
                .iter()
                .find(|protocol| self.is_supported_by_all(&protocol.name));
            if let Some(vote) = vote {
                *votes.entry(&vote.name).or_default() += 1;
            }
        }
        let leader = self.members.get(self.leader.as_deref()?)?;
        let votes_of = |protocol: &&Protocol| votes.get(&*protocol.name).copied();
        // `max_by_key` keeps the last of equals.
        let chosen = leader.protocols.iter().rev().max_by_key(votes_of)?;
        Some(Arc::clone(&chosen.name))
    }

    /// Adds a member. The first one leads.
    pub(super) fn add(&mut self, member: Member, protocol_type: &str) {
        if self.members.is_empty() {
            self.protocol_type = Some(Arc::from(protocol_type));
        }
        if let Some(instance_id) = &member.group_instance_id {
            self.static_members
                .insert(Arc::clone(instance_id), Arc::clone(&member.id));
        }
        if self.leader.is_none() {
            self.leader = Some(Arc::clone(&member.id));
        }
        self.awaiting_join_count += usize::from(member.join_token.is_some());
        self.protocol_counts.add(&member.protocols);
        self.pending_joins.remove(&member.id);
        let replaced = self.members.insert(Arc::clone(&member.id), member);
        debug_assert!(replaced.is_none(), "a member is added once");
    }

    /// Removes a member, or one about to join, with all that waits or is scheduled for it.
    /// Requests of the member that wait are told that it is unknown.
    pub(super) fn remove(&mut self, member_id: &str, effects: &mut Effects<'_>) {
        self.forget_pending_join(member_id, effects);
        self.pending_syncs.remove(member_id);
        let Some(mut member) = self.members.remove(member_id) else {
            return;
        };
        self.awaiting_join_count -= usize::from(member.join_token.is_some());
        self.protocol_counts.remove(&member.protocols);
        if let Some(instance_id) = &member.group_instance_id
            && self.static_member_id(instance_id) == Some(&member.id)
        {
            self.static_members.remove(instance_id);
        }
        if self.is_leader(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        let error = ErrorCode::UnknownMemberId;
        member.release_join(JoinGroupResponse::error("", error), effects);
        member.release_sync(SyncGroupResponse::error(error), effects);
        member.end_session(effects);
    }

    /// Lets another process take the place of a static member under another id. What the old one
    /// waits for is refused.
    pub(super) fn replace_static(
        &mut self,
        old_id: &str,
        new_id: Arc<str>,
        request: &JoinGroup<'_>,
        effects: &mut Effects<'_>,
    ) {
        let mut old = self
            .members
            .remove(old_id)
            .expect("`static_members` names members");
        self.awaiting_join_count -= usize::from(old.join_token.is_some());
        let fenced = ErrorCode::FencedInstanceId;
        let response = JoinGroupResponse {
            protocol_name: None,
            ..JoinGroupResponse::error(&old.id, fenced)
        };
        old.release_join(response, effects);
        old.release_sync(SyncGroupResponse::error(fenced), effects);
        old.end_session(effects);

        let mut member = Member::new(
            Arc::clone(&new_id),
            old.group_instance_id,
            Arc::from(request.client_id),
            Arc::from(request.client_host),
        );
        member.session_timeout_ms = old.session_timeout_ms;
        member.protocols = old.protocols;
        member.assignment = old.assignment;
        if let Some(instance_id) = &member.group_instance_id {
            self.static_members
                .insert(Arc::clone(instance_id), Arc::clone(&new_id));
        }
        if self.is_leader(old_id) {
            self.leader = Some(Arc::clone(&new_id));
        }
        if self.pending_syncs.remove(old_id) {
            self.pending_syncs.insert(Arc::clone(&new_id));
        }
        member.renew_session(effects);
        self.members.insert(new_id, member);
    }

    /// Gives a member the timeouts and protocols of its new JoinGroup.
    pub(super) fn update(&mut self, member_id: &str, request: &JoinGroup<'_>) {
        if let Some(member) = self.members.get_mut(member_id) {
            self.protocol_counts.remove(&member.protocols);
            member.adopt(request);
            self.protocol_counts.add(&member.protocols);
        }
    }

    /// Lets the JoinGroup of a member wait.
    pub(super) fn park_join(&mut self, member_id: &str, token: Token, effects: &mut Effects<'_>) {
        let member = self
            .members
            .get_mut(member_id)
            .expect("who joins is a member");
        self.awaiting_join_count += usize::from(member.join_token.is_none());
        member.park_join(token, effects);
    }

    /// The members whose JoinGroup was answered; all of them.
    pub(super) fn all_joins_were_answered(&mut self) {
        self.awaiting_join_count = 0;
    }

    /// Gives an id to a member that is about to join.
    pub(super) fn add_pending_join(
        &mut self,
        member_id: Arc<str>,
        timeout_ms: i32,
        effects: &mut Effects<'_>,
    ) {
        let at = effects.after(timeout_ms);
        let timer = Timer::Session(Arc::clone(&effects.group_id), Arc::clone(&member_id));
        effects.timers.schedule(at, timer);
        self.pending_joins.insert(member_id, at);
    }

    /// Expects a member that was given an id no longer.
    pub(super) fn forget_pending_join(&mut self, member_id: &str, effects: &mut Effects<'_>) {
        if let Some((id, at)) = self.pending_joins.remove_entry(member_id) {
            let timer = Timer::Session(Arc::clone(&effects.group_id), id);
            effects.timers.cancel(at, timer);
        }
    }

    /// Expects nobody any longer: the group is about to end.
    pub(super) fn forget_pending_joins(&mut self, effects: &mut Effects<'_>) {
        for (id, at) in std::mem::take(&mut self.pending_joins) {
            let timer = Timer::Session(Arc::clone(&effects.group_id), id);
            effects.timers.cancel(at, timer);
        }
    }

    /// All members, for their leader.
    pub(super) fn joined_members(&self) -> Vec<JoinedMember> {
        let joined = |member: &Member| JoinedMember {
            member_id: Arc::clone(&member.id),
            group_instance_id: member.group_instance_id.clone(),
            metadata: member.metadata_of(self.protocol.as_deref()),
        };
        self.members.values().map(joined).collect()
    }

    /// The answer that tells a member of the current generation.
    pub(super) fn join_response(
        &self,
        member_id: &Arc<str>,
        members: Vec<JoinedMember>,
    ) -> JoinGroupResponse {
        JoinGroupResponse {
            error: ErrorCode::None,
            generation_id: self.generation_id,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_else(|| Arc::from("")),
            skip_assignment: false,
            member_id: Arc::clone(member_id),
            members,
        }
    }

    /// The answer that tells a member its assignment.
    pub(super) fn sync_response(&self, assignment: &Arc<[u8]>) -> SyncGroupResponse {
        SyncGroupResponse {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            assignment: Arc::clone(assignment),
        }
    }

    pub(super) fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// Works out what the members consume, from the protocol that the group chose.
    pub(super) fn refresh_subscribed_topics(&mut self) {
        self.subscribed_topics = self.compute_subscribed_topics();
    }

    fn compute_subscribed_topics(&self) -> Option<BTreeSet<String>> {
        if !self.uses_consumer_protocol() {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let metadata = member.metadata_of(Some(self.protocol.as_deref()?));
            subscribed_topics(&metadata, &mut topics).ok()?;
        }
        Some(topics)
    }

    /// Whether it is known what the members consume.
    pub(super) fn knows_subscribed_topics(&self) -> bool {
        self.subscribed_topics.is_some()
    }

    /// Whether a member consumes `topic`, or may do so.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscribed_topics.as_ref().map_or_else(
            || self.uses_consumer_protocol(),
            |topics| topics.contains(topic),
        )
    }
}

/// How many members support each protocol.
#[derive(Debug, Default)]
struct ProtocolCounts(BTreeMap<Arc<str>, usize>);

impl ProtocolCounts {
    fn of(&self, protocol: &str) -> usize {
        self.0.get(protocol).copied().unwrap_or_default()
    }

    fn add(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            match self.0.get_mut(&*protocol.name) {
                Some(count) => *count += 1,
                None => {
                    self.0.insert(Arc::clone(&protocol.name), 1);
                }
            }
        }
    }

    fn remove(&mut self, protocols: &[Protocol]) {
        for protocol in protocols {
            if let Some(count) = self.0.get_mut(&*protocol.name) {
                *count -= 1;
                if *count == 0 {
                    self.0.remove(&*protocol.name);
                }
            }
        }
    }
}
