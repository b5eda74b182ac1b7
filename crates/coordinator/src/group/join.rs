//! JoinGroup: how members get into a classic group and stay in it through rebalances.

use super::consumer::group_tombstones;
use super::effects::Effects;
use super::group::Group;
use super::member::Member;
use super::membership::{GroupState, Membership};
use super::records;
use super::request::JoinGroup;
use super::shard::{GroupShard, Outcome};
use crate::group_response::JoinGroupResponse;
use crate::{Decision, Token};
use model::{ErrorCode, Now};
use std::sync::Arc;

impl GroupShard {
    /// A member joins or rejoins its group.
    pub fn join_group(&mut self, request: &JoinGroup<'_>, now: Now) -> Decision<JoinGroupResponse> {
        let refuse = |error| Decision::reply(JoinGroupResponse::error(request.member_id, error));
        if request.group_id.is_empty() {
            return refuse(ErrorCode::InvalidGroupId);
        }
        let timeouts = self.config.session_timeout_min_ms..=self.config.session_timeout_max_ms;
        if !timeouts.contains(&request.session_timeout_ms) {
            return refuse(ErrorCode::InvalidSessionTimeout);
        }
        if new_member_id_length(request) > i16::MAX as usize {
            return refuse(ErrorCode::InvalidRequest);
        }
        if let Some(decision) = self.join_consumer_group(request, now) {
            return decision;
        }
        let mut outcome = Outcome::default();
        let group = self.groups.get(request.group_id);
        if !group.is_some_and(Group::is_classic)
            && let Err(response) = self.create_group(request, now, &mut outcome)
        {
            return Decision::reply(response);
        }
        let token = self.next_token();
        let reply = self
            .act(request.group_id, now, &mut outcome, |group, effects| {
                group.membership.join(request, token, effects)
            })
            .expect("the group exists or was created");
        outcome.into_join_decision(token, reply)
    }

    /// Makes a group for its first member, unless the member cannot be in it. A group of another
    /// type without members gives way.
    fn create_group(
        &mut self,
        request: &JoinGroup<'_>,
        now: Now,
        outcome: &mut Outcome,
    ) -> Result<(), JoinGroupResponse> {
        let group = self.groups.get(request.group_id);
        let consumer = group.and_then(|group| group.consumer.as_deref());
        let modern = group.and_then(|group| group.modern.as_ref());
        if modern.is_some_and(|modern| !modern.gives_way_to_classic()) {
            let error = ErrorCode::InconsistentGroupProtocol;
            return Err(JoinGroupResponse::error("", error));
        }
        if !request.member_id.is_empty() {
            let error = ErrorCode::UnknownMemberId;
            return Err(JoinGroupResponse::error(request.member_id, error));
        }
        let membership = Membership::empty(Some(now.wall_ms));
        if !membership.supports(request.protocol_type, &request.protocols) {
            let error = ErrorCode::InconsistentGroupProtocol;
            return Err(JoinGroupResponse::error("", error));
        }
        if let Some(consumer) = consumer {
            let tombstones = group_tombstones(request.group_id, consumer);
            outcome.records.extend(tombstones);
        }
        if let Some(modern) = modern {
            outcome.records.extend(modern.tombstones());
        }
        outcome
            .records
            .push(records::group_metadata(request.group_id, &membership));
        *self.group_mut(request.group_id).membership = membership;
        Ok(())
    }
}

/// How long the id would be that a new member gets.
fn new_member_id_length(request: &JoinGroup<'_>) -> usize {
    let prefix = request.group_instance_id.unwrap_or(request.client_id);
    prefix.len() + 1 + request.random_uuid.len()
}

impl Membership {
    /// Answers a JoinGroup, or lets it wait under `token`.
    fn join(
        &mut self,
        request: &JoinGroup<'_>,
        token: Token,
        effects: &mut Effects<'_>,
    ) -> Option<JoinGroupResponse> {
        let member_id = request.member_id;
        if !self.has_room_for(member_id, effects.group_size_max) {
            self.remove(member_id, effects);
            self.complete_join_if_all_joined(effects);
            let error = ErrorCode::GroupMaxSizeReached;
            return Some(JoinGroupResponse::error("", error));
        }
        if !self.supports(request.protocol_type, &request.protocols) {
            let error = ErrorCode::InconsistentGroupProtocol;
            return Some(JoinGroupResponse::error(member_id, error));
        }
        if member_id.is_empty() {
            self.join_new(request, token, effects)
        } else if self.pending_joins.contains_key(member_id) && request.group_instance_id.is_none()
        {
            self.forget_pending_join(member_id, effects);
            self.join_with_id(Arc::from(member_id), request, token, effects)
        } else {
            self.rejoin(request, token, effects)
        }
    }

    /// Whether a member may be in the group as far as its size goes. During a rebalance those who
    /// joined first stay: the group may be larger than a limit that was lowered since.
    fn has_room_for(&self, member_id: &str, size_max: usize) -> bool {
        let member = self.members.get(member_id);
        match self.state {
            GroupState::Empty => true,
            GroupState::PreparingRebalance => {
                member.is_some_and(|member| member.join_token.is_some())
                    || self.awaiting_join_count() < size_max
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                member.is_some() || self.members.len() < size_max
            }
        }
    }

    fn join_new(
        &mut self,
        request: &JoinGroup<'_>,
        token: Token,
        effects: &mut Effects<'_>,
    ) -> Option<JoinGroupResponse> {
        let prefix = request.group_instance_id.unwrap_or(request.client_id);
        let id: Arc<str> = Arc::from(format!("{prefix}-{}", request.random_uuid));
        let known = request
            .group_instance_id
            .map(|instance_id| self.static_member_id(instance_id).cloned());
        match known {
            Some(Some(old_id)) => self.rejoin_static(&old_id, id, request, token, effects),
            None if request.requires_known_member_id => {
                let response = JoinGroupResponse {
                    member_id: Arc::clone(&id),
                    ..JoinGroupResponse::error("", ErrorCode::MemberIdRequired)
                };
                self.add_pending_join(id, request.session_timeout_ms, effects);
                Some(response)
            }
            Some(None) | None => self.join_with_id(id, request, token, effects),
        }
    }

    fn join_with_id(
        &mut self,
        id: Arc<str>,
        request: &JoinGroup<'_>,
        token: Token,
        effects: &mut Effects<'_>,
    ) -> Option<JoinGroupResponse> {
        if self.state == GroupState::PreparingRebalance && self.is_initial_rebalance {
            self.new_member_added = true;
        }
        let mut member = Member::of_request(Arc::clone(&id), request);
        member.join_token = Some(token);
        self.add(member, request.protocol_type);
        self.await_new_member(&id, effects);
        self.rebalance_or_complete_join(effects);
        None
    }

    /// A member joins again: the group rebalances, or the member missed an answer.
    fn rejoin(
        &mut self,
        request: &JoinGroup<'_>,
        token: Token,
        effects: &mut Effects<'_>,
    ) -> Option<JoinGroupResponse> {
        let member_id = request.member_id;
        if let Err(error) = self.validate_member(member_id, request.group_instance_id) {
            return Some(JoinGroupResponse::error(member_id, error));
        }
        let member = self.members.get(member_id)?;
        let is_leader = self.is_leader(member_id);
        let is_unchanged = member.supports_just(&request.protocols);
        match self.state {
            // The answer of this generation was lost.
            GroupState::CompletingRebalance if is_unchanged => {
                let members = if is_leader {
                    self.joined_members()
                } else {
                    Vec::new()
                };
                Some(self.join_response(&member.id, members))
            }
            // A follower without news. A leader without news rejoins because what it assigns has
            // changed, such as the partitions of a topic.
            GroupState::Stable if is_unchanged && !is_leader => {
                Some(self.join_response(&member.id, Vec::new()))
            }
            _ => {
                self.update(member_id, request);
                self.park_join(member_id, token, effects);
                self.rebalance_or_complete_join(effects);
                None
            }
        }
    }

    /// A static member comes back without its member id, after a restart.
    fn rejoin_static(
        &mut self,
        old_id: &str,
        id: Arc<str>,
        request: &JoinGroup<'_>,
        token: Token,
        effects: &mut Effects<'_>,
    ) -> Option<JoinGroupResponse> {
        let old_leader = self.leader.clone();
        self.replace_static(old_id, Arc::clone(&id), request, effects);
        self.update(&id, request);
        if self.state == GroupState::Stable && self.select_protocol() == self.protocol {
            // Nothing changes but an id: the member keeps its assignment and the group rests.
            let record = records::group_metadata(&effects.group_id, self);
            if effects.fits(&record) {
                effects.records.push(record);
                return Some(self.static_rejoin_response(&id, old_leader, request));
            }
        }
        self.park_join(&id, token, effects);
        self.rebalance_or_complete_join(effects);
        None
    }

    /// A leader that is back must not assign anew. From version 9 it is told so; before, it is
    /// told the leader's old id, so that it takes itself for a follower.
    fn static_rejoin_response(
        &self,
        id: &Arc<str>,
        old_leader: Option<Arc<str>>,
        request: &JoinGroup<'_>,
    ) -> JoinGroupResponse {
        if !request.supports_skipping_assignment {
            return JoinGroupResponse {
                leader: old_leader.unwrap_or_else(|| Arc::from("")),
                ..self.join_response(id, Vec::new())
            };
        }
        let is_leader = self.is_leader(id);
        let members = if is_leader {
            self.joined_members()
        } else {
            Vec::new()
        };
        JoinGroupResponse {
            skip_assignment: is_leader,
            ..self.join_response(id, members)
        }
    }
}
