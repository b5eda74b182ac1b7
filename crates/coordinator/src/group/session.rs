//! SyncGroup, Heartbeat and LeaveGroup: what members of a classic group do between joins.

use super::effects::Effects;
use super::membership::{GroupState, Membership};
use super::records;
use super::request::{Heartbeat, LeaveGroup, LeavingMember, SyncGroup};
use super::shard::{GroupShard, Outcome};
use crate::group_response::SyncGroupResponse;
use crate::{Decision, Token};
use model::{ErrorCode, Now};
use std::collections::BTreeMap;
use std::sync::Arc;

impl GroupShard {
    /// A member asks for its assignment.
    pub fn sync_group(&mut self, request: &SyncGroup<'_>, now: Now) -> Decision<SyncGroupResponse> {
        if request.group_id.is_empty() {
            return Decision::reply(SyncGroupResponse::error(ErrorCode::InvalidGroupId));
        }
        if let Some(decision) = self.sync_consumer_group(request, now) {
            return decision;
        }
        let mut outcome = Outcome::default();
        let token = self.next_token();
        let reply = self
            .act(request.group_id, now, &mut outcome, |group, effects| {
                group.membership.sync(request, token, effects)
            })
            .unwrap_or_else(|| Some(SyncGroupResponse::error(ErrorCode::UnknownMemberId)));
        outcome.into_sync_decision(token, reply)
    }

    /// A member says that it lives. May be answered at once.
    ///
    /// # Errors
    /// The code of the response.
    pub fn heartbeat(&mut self, request: &Heartbeat<'_>, now: Now) -> Result<(), ErrorCode> {
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        if let Some(result) = self.heartbeat_in_consumer_group(request, now) {
            return result;
        }
        // A heartbeat has neither records nor answers for others.
        let mut outcome = Outcome::default();
        self.act(request.group_id, now, &mut outcome, |group, effects| {
            group.membership.heartbeat(request, effects)
        })
        .unwrap_or(Err(ErrorCode::UnknownMemberId))
    }

    /// Members leave; the reply has a code for each, in the order of the request. An outer error
    /// is that of the whole response.
    pub fn leave_group(
        &mut self,
        request: &LeaveGroup<'_>,
        now: Now,
    ) -> Decision<Result<Vec<ErrorCode>, ErrorCode>> {
        if request.group_id.is_empty() {
            return Decision::reply(Err(ErrorCode::InvalidGroupId));
        }
        if let Some(decision) = self.leave_consumer_group_as_classic(request, now) {
            return decision;
        }
        let mut outcome = Outcome::default();
        let reply = self
            .act(request.group_id, now, &mut outcome, |group, effects| {
                group.membership.leave(&request.members, effects)
            })
            .unwrap_or_else(|| vec![ErrorCode::UnknownMemberId; request.members.len()]);
        outcome.into_decision(Ok(reply))
    }
}

impl Membership {
    /// Answers a SyncGroup, or lets it wait under `token`.
    fn sync(
        &mut self,
        request: &SyncGroup<'_>,
        token: Token,
        effects: &mut Effects<'_>,
    ) -> Option<SyncGroupResponse> {
        if let Err(error) = self.validate_sync(request) {
            return Some(SyncGroupResponse::error(error));
        }
        let member_id = request.member_id;
        match self.state {
            GroupState::Empty => Some(SyncGroupResponse::error(ErrorCode::UnknownMemberId)),
            GroupState::PreparingRebalance => {
                Some(SyncGroupResponse::error(ErrorCode::RebalanceInProgress))
            }
            GroupState::CompletingRebalance => {
                self.synced(member_id, effects);
                self.members.get_mut(member_id)?.park_sync(token, effects);
                if self.is_leader(member_id) {
                    self.assign(request, effects);
                }
                None
            }
            GroupState::Stable => {
                self.synced(member_id, effects);
                let member = self.members.get(member_id)?;
                Some(self.sync_response(&member.assignment))
            }
        }
    }

    fn validate_sync(&self, request: &SyncGroup<'_>) -> Result<(), ErrorCode> {
        self.validate_member(request.member_id, request.group_instance_id)?;
        if request.generation_id != self.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |asked: Option<&str>, own: Option<&str>| {
            asked.is_some() && own.is_some() && asked != own
        };
        if differs(request.protocol_type, self.protocol_type.as_deref())
            || differs(request.protocol_name, self.protocol.as_deref())
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    /// The leader brings the assignments: they go to the log and then to the members. Members that
    /// it leaves out get none.
    fn assign(&mut self, request: &SyncGroup<'_>, effects: &mut Effects<'_>) {
        let assignments: BTreeMap<&str, &[u8]> = request
            .assignments
            .iter()
            .map(|assigned| (assigned.member_id, assigned.assignment))
            .collect();
        for member in self.members.values_mut() {
            let assignment = assignments.get(&*member.id).copied().unwrap_or_default();
            member.assignment = Arc::from(assignment);
        }
        let record = records::group_metadata(&effects.group_id, self);
        if effects.fits(&record) {
            effects.records.push(record);
            self.become_stable(effects);
        } else {
            self.refuse_syncs(ErrorCode::UnknownServerError, effects);
            self.prepare_rebalance(effects);
        }
    }

    fn heartbeat(
        &mut self,
        request: &Heartbeat<'_>,
        effects: &mut Effects<'_>,
    ) -> Result<(), ErrorCode> {
        self.validate_member(request.member_id, request.group_instance_id)?;
        if request.generation_id != self.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        let member = self
            .members
            .get_mut(request.member_id)
            .ok_or(ErrorCode::UnknownMemberId)?;
        member.renew_session(effects);
        match self.state {
            GroupState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            // A member that was told its generation may send heartbeats before its assignment is
            // there.
            GroupState::CompletingRebalance | GroupState::Stable => Ok(()),
            GroupState::Empty => Err(ErrorCode::UnknownMemberId),
        }
    }

    fn leave(
        &mut self,
        leaving: &[LeavingMember<'_>],
        effects: &mut Effects<'_>,
    ) -> Vec<ErrorCode> {
        let errors: Vec<ErrorCode> = leaving
            .iter()
            .map(|member| match self.leaving_member(member) {
                Ok(member_id) => {
                    self.remove(&member_id, effects);
                    ErrorCode::None
                }
                Err(error) => error,
            })
            .collect();
        if errors.contains(&ErrorCode::None) {
            match self.state {
                GroupState::Stable | GroupState::CompletingRebalance => {
                    self.prepare_rebalance(effects);
                }
                GroupState::PreparingRebalance => self.complete_join_if_all_joined(effects),
                GroupState::Empty => {}
            }
        }
        errors
    }

    /// Who is meant: an administrator knows static members by their instance id alone.
    fn leaving_member(&self, leaving: &LeavingMember<'_>) -> Result<Arc<str>, ErrorCode> {
        if leaving.member_id.is_empty() {
            let instance_id = leaving
                .group_instance_id
                .ok_or(ErrorCode::UnknownMemberId)?;
            let member_id = self.static_member_id(instance_id);
            return member_id.cloned().ok_or(ErrorCode::UnknownMemberId);
        }
        if !self.pending_joins.contains_key(leaving.member_id) {
            self.validate_member(leaving.member_id, leaving.group_instance_id)?;
        }
        Ok(Arc::from(leaving.member_id))
    }
}
