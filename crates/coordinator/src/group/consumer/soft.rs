//! What is known of a consumer group beside its log: until when its members are waited for, and
//! when its topics are looked at again.
//!
//! It may be lost: a coordinator that loads the group gives every member a new session.

use super::group::ConsumerGroup;
use super::member::{ConsumerMember, MemberState};
use crate::group::timers::{Timer, Timers};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Until when a member is waited for.
#[derive(Debug, Default)]
struct Waits {
    /// For any sign of life.
    session_ms: Option<i64>,
    /// For it to leave an epoch in which it has partitions to give up.
    rebalance: Option<(i64, i32)>,
    /// For a member that speaks the classic protocol: to join again, and to sync.
    join_ms: Option<i64>,
    sync_ms: Option<i64>,
    /// When the queue's timer fires: never after the first of these. A heartbeat moves the
    /// session alone and leaves the timer to find that it came too early.
    timer_ms: Option<i64>,
}

impl Waits {
    fn first_ms(&self) -> Option<i64> {
        let rebalance = self.rebalance.map(|(at_ms, _)| at_ms);
        let all = [self.session_ms, rebalance, self.join_ms, self.sync_ms];
        all.into_iter().flatten().min()
    }
}

/// A change of soft state that a decision asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SoftChange {
    Session(Arc<str>, i32),
    /// The member is to leave the epoch within the timeout.
    Rebalance(Arc<str>, i32, i32),
    EndRebalance(Arc<str>),
    /// The member is to join within the timeout, unless it is waited for already.
    Join(Arc<str>, i32),
    EndJoin(Arc<str>),
    Sync(Arc<str>, i32),
    EndSync(Arc<str>),
    Forget(Arc<str>),
    /// The topics need not be looked at before the time, if the group has reached the epoch.
    Refresh(i64, i32),
    /// Regular expressions are to be resolved.
    Resolve,
}

/// The soft state of a consumer group.
#[derive(Debug, Default)]
pub(in crate::group) struct SoftGroup {
    members: BTreeMap<Arc<str>, Waits>,
    refresh_ms: i64,
    refresh_epoch: i32,
    resolve_ms: Option<i64>,
}

impl SoftGroup {
    /// Whether nobody is waited for.
    pub(in crate::group) fn is_void(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether the topics of a group are to be looked at.
    pub(super) fn is_refresh_due(&self, group: &ConsumerGroup, now_ms: i64) -> bool {
        now_ms >= self.refresh_ms || group.epoch < self.refresh_epoch
    }

    pub(super) const fn is_resolving(&self) -> bool {
        self.resolve_ms.is_some()
    }

    /// The topics of the group have changed.
    pub(in crate::group) const fn request_refresh(&mut self) {
        (self.refresh_ms, self.refresh_epoch) = (0, 0);
    }

    /// Regular expressions are being resolved: whether it is this timer that says so.
    pub(super) fn resolve_timer_fired(&mut self, at_ms: i64) -> bool {
        self.resolve_ms
            .take_if(|resolve_ms| *resolve_ms == at_ms)
            .is_some()
    }

    pub(super) fn apply(
        &mut self,
        change: SoftChange,
        group_id: &Arc<str>,
        now_ms: i64,
        timers: &mut Timers,
    ) {
        let after = |timeout_ms: i32| now_ms.saturating_add(i64::from(timeout_ms.max(0)));
        let member_id = match change {
            SoftChange::Session(id, timeout_ms) => {
                self.waits(&id).session_ms = Some(after(timeout_ms));
                id
            }
            SoftChange::Rebalance(id, epoch, timeout_ms) => {
                self.waits(&id).rebalance = Some((after(timeout_ms), epoch));
                id
            }
            SoftChange::Join(id, timeout_ms) => {
                let join_ms = &mut self.waits(&id).join_ms;
                *join_ms = join_ms.or(Some(after(timeout_ms)));
                id
            }
            SoftChange::Sync(id, timeout_ms) => {
                self.waits(&id).sync_ms = Some(after(timeout_ms));
                id
            }
            SoftChange::EndRebalance(id) => return self.end(&id, |waits| waits.rebalance = None),
            SoftChange::EndJoin(id) => return self.end(&id, |waits| waits.join_ms = None),
            SoftChange::EndSync(id) => return self.end(&id, |waits| waits.sync_ms = None),
            SoftChange::Forget(id) => return self.forget(&id, group_id, timers),
            SoftChange::Refresh(at_ms, epoch) => {
                (self.refresh_ms, self.refresh_epoch) = (at_ms, epoch);
                return;
            }
            SoftChange::Resolve => {
                self.resolve_ms = Some(now_ms);
                timers.schedule(now_ms, Timer::Regexes(Arc::clone(group_id)));
                return;
            }
        };
        self.schedule(&member_id, group_id, timers);
    }

    fn waits(&mut self, member_id: &Arc<str>) -> &mut Waits {
        self.members.entry(Arc::clone(member_id)).or_default()
    }

    fn end(&mut self, member_id: &str, end: impl FnOnce(&mut Waits)) {
        if let Some(waits) = self.members.get_mut(member_id) {
            end(waits);
        }
    }

    fn forget(&mut self, member_id: &Arc<str>, group_id: &Arc<str>, timers: &mut Timers) {
        if let Some(at_ms) = self
            .members
            .remove(member_id)
            .and_then(|waits| waits.timer_ms)
        {
            timers.cancel(at_ms, timer(group_id, member_id));
        }
    }

    /// Makes sure that the queue's timer fires in time.
    fn schedule(&mut self, member_id: &Arc<str>, group_id: &Arc<str>, timers: &mut Timers) {
        let waits = self.waits(member_id);
        let Some(first_ms) = waits.first_ms() else {
            return;
        };
        if waits.timer_ms.is_some_and(|at_ms| at_ms <= first_ms) {
            return;
        }
        if let Some(at_ms) = waits.timer_ms.replace(first_ms) {
            timers.cancel(at_ms, timer(group_id, member_id));
        }
        timers.schedule(first_ms, timer(group_id, member_id));
    }

    /// The timer of a member fired: whether the wait for it is over.
    pub(super) fn timer_fired(
        &mut self,
        at_ms: i64,
        member: Option<&ConsumerMember>,
        member_id: &Arc<str>,
        now_ms: i64,
        group_id: &Arc<str>,
        timers: &mut Timers,
    ) -> bool {
        let Some(waits) = self.members.get_mut(member_id) else {
            return false;
        };
        if waits.timer_ms != Some(at_ms) {
            return false;
        }
        waits.timer_ms = None;
        let Some(member) = member else {
            // It never got into the log.
            self.members.remove(member_id);
            return false;
        };
        let is_due = |at_ms: Option<i64>| at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        let rebalance = waits.rebalance.take_if(|(at_ms, _)| *at_ms <= now_ms);
        let is_over = is_due(waits.session_ms)
            || is_due(waits.join_ms)
            || is_due(waits.sync_ms)
            || rebalance.is_some_and(|(_, epoch)| epoch == member.member_epoch);
        if !is_over {
            self.schedule(member_id, group_id, timers);
        }
        is_over
    }

    /// Starts the sessions of all members.
    pub(super) fn resume(
        &mut self,
        group: &ConsumerGroup,
        session_timeout_ms: i32,
        group_id: &Arc<str>,
        now_ms: i64,
        timers: &mut Timers,
    ) {
        for member in group.members().values() {
            let classic = member
                .classic
                .as_ref()
                .map(|classic| classic.session_timeout_ms);
            let timeout_ms = classic.unwrap_or(session_timeout_ms);
            let id = || Arc::clone(&member.id);
            self.apply(
                SoftChange::Session(id(), timeout_ms),
                group_id,
                now_ms,
                timers,
            );
            if member.state == MemberState::UnrevokedPartitions && classic.is_none() {
                let (epoch, timeout_ms) = (member.member_epoch, member.rebalance_timeout_ms);
                let change = SoftChange::Rebalance(id(), epoch, timeout_ms);
                self.apply(change, group_id, now_ms, timers);
            }
        }
    }

    /// Waits for nobody any longer.
    pub(super) fn clear(&mut self, group_id: &Arc<str>, timers: &mut Timers) {
        for (member_id, waits) in std::mem::take(&mut self.members) {
            if let Some(at_ms) = waits.timer_ms {
                timers.cancel(at_ms, timer(group_id, &member_id));
            }
        }
        if let Some(at_ms) = self.resolve_ms.take() {
            timers.cancel(at_ms, Timer::Regexes(Arc::clone(group_id)));
        }
        self.request_refresh();
    }
}

fn timer(group_id: &Arc<str>, member_id: &Arc<str>) -> Timer {
    Timer::ConsumerMember(Arc::clone(group_id), Arc::clone(member_id))
}
