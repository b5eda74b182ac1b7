//! The transitions of a classic group between its states.
//!
//! Each is a reaction to a member that came, changed or went, or to a deadline. What it causes
//! (answers, records, timers) goes to [`Effects`].

use super::effects::Effects;
use super::membership::{GroupState, InitialDelay, JoinDeadline, Membership};
use super::records;
use super::timers::Timer;
use crate::group_response::{JoinGroupResponse, SyncGroupResponse};
use model::{ErrorCode, MonotonicTime};
use std::sync::Arc;

/// How long the first JoinGroup of a member waits. Its client retries under another id after a
/// timeout of its own, and each try leaves a member behind.
const NEW_MEMBER_JOIN_TIMEOUT_MS: i32 = 5 * 60 * 1000;

impl Membership {
    /// Starts the sessions of a group that was loaded. One that is larger than allowed rebalances,
    /// which lets its members commit their offsets before some have to go.
    pub(super) fn resume(&mut self, effects: &mut Effects<'_>) {
        for member in self.members.values_mut() {
            member.renew_session(effects);
        }
        if self.members.len() > effects.group_size_max {
            self.prepare_rebalance(effects);
        }
    }

    /// Ends the classic group: its members are told to join again, and what they then join is of
    /// another type. Its generation is kept, for when the log does not take the end.
    pub(super) fn dissolve(&mut self, effects: &mut Effects<'_>) {
        let error = ErrorCode::RebalanceInProgress;
        self.refuse_syncs(error, effects);
        for member in self.members.values_mut() {
            let response = JoinGroupResponse::error(&member.id, error);
            member.release_join(response, effects);
            member.end_session(effects);
        }
        self.forget_pending_joins(effects);
        self.cancel_join_deadline(effects);
        self.cancel_sync_deadline(effects);
        let generation_id = self.generation_id;
        *self = Self::empty(None);
        self.generation_id = generation_id;
        self.is_dissolved = true;
    }

    /// Begins a rebalance where the state allows one; otherwise goes on with the one in
    /// preparation if nobody is missing.
    pub(super) fn rebalance_or_complete_join(&mut self, effects: &mut Effects<'_>) {
        if self.state == GroupState::PreparingRebalance {
            self.complete_join_if_all_joined(effects);
        } else {
            self.prepare_rebalance(effects);
        }
    }

    /// Begins a rebalance: members are to join again.
    pub(super) fn prepare_rebalance(&mut self, effects: &mut Effects<'_>) {
        if self.state == GroupState::CompletingRebalance {
            self.refuse_syncs(ErrorCode::RebalanceInProgress, effects);
        }
        self.cancel_sync_deadline(effects);
        self.is_initial_rebalance = self.state == GroupState::Empty;
        self.enter(GroupState::PreparingRebalance, effects);
        if self.is_initial_rebalance {
            let delay_ms = effects.initial_rebalance_delay_ms.max(0);
            let remaining_ms = (self.rebalance_timeout_ms() - delay_ms).max(0);
            let step = InitialDelay {
                step_ms: delay_ms,
                remaining_ms,
            };
            self.await_joins(delay_ms, Some(step), effects);
        } else if self.has_all_members_joined() {
            self.complete_join(effects);
        } else {
            self.await_joins(self.rebalance_timeout_ms(), None, effects);
        }
    }

    /// Ends the wait of a rebalance that did not begin in an empty group once all have joined.
    pub(super) fn complete_join_if_all_joined(&mut self, effects: &mut Effects<'_>) {
        if self.state == GroupState::PreparingRebalance
            && !self.is_initial_rebalance
            && self.has_all_members_joined()
        {
            self.complete_join(effects);
        }
    }

    /// The wait for members to join is over. An empty group that got another member meanwhile
    /// waits on, up to the rebalance timeout.
    pub(super) fn join_deadline_passed(&mut self, at: MonotonicTime, effects: &mut Effects<'_>) {
        let Some(deadline) = self.join_deadline.filter(|deadline| deadline.at == at) else {
            return;
        };
        self.join_deadline = None;
        match deadline.initial {
            Some(step) if self.new_member_added && step.remaining_ms > 0 => {
                self.new_member_added = false;
                let step_ms = effects
                    .initial_rebalance_delay_ms
                    .clamp(0, step.remaining_ms);
                let next = InitialDelay {
                    step_ms,
                    remaining_ms: (step.remaining_ms - step.step_ms).max(0),
                };
                self.await_joins(step_ms, Some(next), effects);
            }
            _ => self.complete_join(effects),
        }
    }

    /// Ends the wait: dynamic members that did not join are out, the others form the next
    /// generation and learn of it.
    pub(super) fn complete_join(&mut self, effects: &mut Effects<'_>) {
        self.cancel_join_deadline(effects);
        let absent: Vec<Arc<str>> = self
            .members
            .values()
            .filter(|member| member.join_token.is_none() && member.group_instance_id.is_none())
            .map(|member| Arc::clone(&member.id))
            .collect();
        for member_id in absent {
            self.remove(&member_id, effects);
        }
        if !self.members.is_empty() && !self.leads_who_joined() {
            // Static members alone are left and none of them joined: wait until one does or its
            // session ends.
            self.await_joins(self.rebalance_timeout_ms().max(1), None, effects);
            return;
        }
        self.generation_id = self.generation_id.checked_add(1).unwrap_or(1);
        self.pending_syncs.clear();
        self.protocol = self.select_protocol();
        self.refresh_subscribed_topics();
        if self.members.is_empty() {
            self.enter(GroupState::Empty, effects);
            let record = records::group_metadata(&effects.group_id, self);
            effects.records.push(record);
        } else {
            self.enter(GroupState::CompletingRebalance, effects);
            self.announce_generation(effects);
        }
    }

    /// Makes sure that the leader is one who joined, if anyone did.
    fn leads_who_joined(&mut self) -> bool {
        let leader = self.leader.as_deref().and_then(|id| self.members.get(id));
        if leader.is_some_and(|leader| leader.join_token.is_some()) {
            return true;
        }
        let joined = self
            .members
            .values()
            .find(|member| member.join_token.is_some());
        match joined {
            Some(member) => {
                self.leader = Some(Arc::clone(&member.id));
                true
            }
            None => false,
        }
    }

    /// Answers all who joined and gives the members time to sync.
    fn announce_generation(&mut self, effects: &mut Effects<'_>) {
        let follower = self.join_response(&Arc::from(""), Vec::new());
        let mut for_leader = Some(self.joined_members());
        for member in self.members.values_mut() {
            let mut response = follower.clone();
            response.member_id = Arc::clone(&member.id);
            if member.id == follower.leader {
                response.members = for_leader.take().unwrap_or_default();
            }
            member.release_join(response, effects);
            member.renew_session(effects);
            member.is_new = false;
        }
        self.all_joins_were_answered();
        self.pending_syncs = self.members.keys().cloned().collect();
        let at = effects.after(self.rebalance_timeout_ms());
        self.sync_deadline = Some(at);
        let timer = Timer::Sync(Arc::clone(&effects.group_id));
        effects.timers.schedule(at, timer);
    }

    /// The leader's assignments are in the log: everybody gets theirs.
    pub(super) fn become_stable(&mut self, effects: &mut Effects<'_>) {
        self.enter(GroupState::Stable, effects);
        let response = self.sync_response(&Arc::from([]));
        for member in self.members.values_mut() {
            let assignment = Arc::clone(&member.assignment);
            let response = SyncGroupResponse {
                assignment,
                ..response.clone()
            };
            if member.release_sync(response, effects) {
                member.renew_session(effects);
            }
        }
    }

    /// Takes all assignments back and refuses those who wait for theirs.
    pub(super) fn refuse_syncs(&mut self, error: ErrorCode, effects: &mut Effects<'_>) {
        let none: Arc<[u8]> = Arc::from([]);
        for member in self.members.values_mut() {
            member.assignment = Arc::clone(&none);
            if member.release_sync(SyncGroupResponse::error(error), effects) {
                member.renew_session(effects);
            }
        }
    }

    /// The member has asked for its assignment.
    pub(super) fn synced(&mut self, member_id: &str, effects: &mut Effects<'_>) {
        self.pending_syncs.remove(member_id);
        if self.pending_syncs.is_empty() {
            self.cancel_sync_deadline(effects);
        }
    }

    /// The wait for members to sync is over: those who did not are out.
    pub(super) fn sync_deadline_passed(&mut self, at: MonotonicTime, effects: &mut Effects<'_>) {
        if self.sync_deadline != Some(at) {
            return;
        }
        self.sync_deadline = None;
        let absent = std::mem::take(&mut self.pending_syncs);
        if absent.is_empty() {
            return;
        }
        for member_id in &absent {
            self.remove(member_id, effects);
        }
        self.prepare_rebalance(effects);
    }

    /// The timer of a session fired.
    pub(super) fn session_timer_fired(
        &mut self,
        at: MonotonicTime,
        member_id: &str,
        effects: &mut Effects<'_>,
    ) {
        if self.pending_joins.get(member_id) == Some(&at) {
            self.pending_joins.remove(member_id);
            if self.state == GroupState::PreparingRebalance && self.has_all_members_joined() {
                self.complete_join(effects);
            }
        } else if self
            .members
            .get_mut(member_id)
            .is_some_and(|member| member.session_has_expired(at, effects))
        {
            self.remove(member_id, effects);
            match self.state {
                GroupState::Stable | GroupState::CompletingRebalance => {
                    self.prepare_rebalance(effects);
                }
                GroupState::PreparingRebalance if self.has_all_members_joined() => {
                    self.complete_join(effects);
                }
                GroupState::PreparingRebalance | GroupState::Empty => {}
            }
        }
    }

    /// Starts the session of a member whose first JoinGroup is about to wait.
    pub(super) fn await_new_member(&mut self, member_id: &str, effects: &mut Effects<'_>) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.renew_session_for(NEW_MEMBER_JOIN_TIMEOUT_MS, effects);
        }
    }

    pub(super) fn enter(&mut self, state: GroupState, effects: &Effects<'_>) {
        self.state = state;
        self.state_timestamp_ms = Some(effects.now.wall_ms);
    }

    fn await_joins(
        &mut self,
        timeout_ms: i32,
        initial: Option<InitialDelay>,
        effects: &mut Effects<'_>,
    ) {
        self.cancel_join_deadline(effects);
        let at = effects.after(timeout_ms);
        self.join_deadline = Some(JoinDeadline { at, initial });
        let timer = Timer::Join(Arc::clone(&effects.group_id));
        effects.timers.schedule(at, timer);
    }

    fn cancel_join_deadline(&mut self, effects: &mut Effects<'_>) {
        if let Some(deadline) = self.join_deadline.take() {
            let timer = Timer::Join(Arc::clone(&effects.group_id));
            effects.timers.cancel(deadline.at, timer);
        }
    }

    fn cancel_sync_deadline(&mut self, effects: &mut Effects<'_>) {
        if let Some(at) = self.sync_deadline.take() {
            let timer = Timer::Sync(Arc::clone(&effects.group_id));
            effects.timers.cancel(at, timer);
        }
    }
}
