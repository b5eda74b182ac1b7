//! What is known of a consumer group beside its log: until when its members are waited for, and
//! when its topics are looked at again.
//!
//! It may be lost: a coordinator that loads the group gives every member a new session.

use super::group::ConsumerGroup;
use super::member::{ConsumerMember, MemberState};
use crate::group::timers::{Timer, Timers};
use crate::group::unallocated::Absent;
use model::{MonotonicTime, Now};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Until when a member is waited for.
#[derive(Debug, Default)]
struct Waits {
    /// For any sign of life.
    session_at: Option<MonotonicTime>,
    /// For it to leave an epoch in which it has partitions to give up.
    rebalance: Option<(MonotonicTime, i32)>,
    /// For a member that speaks the classic protocol: to join again, and to sync.
    join_at: Option<MonotonicTime>,
    sync_at: Option<MonotonicTime>,
    /// When the queue's timer fires: never after the first of these. A heartbeat moves the
    /// session alone and leaves the timer to find that it came too early.
    timer_at: Option<MonotonicTime>,
}

impl Waits {
    fn first_at(&self) -> Option<MonotonicTime> {
        let rebalance = self.rebalance.map(|(at, _)| at);
        let all = [self.session_at, rebalance, self.join_at, self.sync_at];
        all.into_iter().flatten().min()
    }
}

/// A change of soft state that a decision asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::group) enum SoftChange {
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
    Refresh(MonotonicTime, i32),
    /// Regular expressions are to be resolved.
    Resolve,
    /// There are none any more.
    EndResolve,
}

/// Regular expressions on their way to be resolved.
#[derive(Debug)]
enum Resolving {
    /// It is to begin at the time.
    Due(MonotonicTime),
    /// Whoever does it holds the other end.
    Begun(Arc<()>),
}

/// The soft state of a consumer group.
#[derive(Debug)]
pub(in crate::group) struct SoftGroup {
    members: BTreeMap<Arc<str>, Waits>,
    /// Until when the topics need not be looked at, and the epoch that the group has by then.
    refresh: Option<(MonotonicTime, i32)>,
    resolving: Option<Resolving>,
}

impl SoftGroup {
    const fn empty() -> Self {
        Self {
            members: BTreeMap::new(),
            refresh: None,
            resolving: None,
        }
    }
}

impl Absent for SoftGroup {
    fn absent() -> &'static Self {
        static EMPTY: SoftGroup = SoftGroup::empty();
        &EMPTY
    }

    fn new() -> Self {
        Self::empty()
    }
}

impl SoftGroup {
    /// Whether nobody is waited for.
    pub(in crate::group) fn is_void(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether the topics of a group are to be looked at.
    pub(in crate::group) fn is_refresh_due(&self, group: &ConsumerGroup, now: Now) -> bool {
        self.refresh
            .is_none_or(|(at, epoch)| now.monotonic >= at || group.epoch < epoch)
    }

    /// Whether the regular expressions are about to be resolved. Whoever was to do it may have given
    /// up.
    pub(in crate::group) fn is_resolving(&self) -> bool {
        match &self.resolving {
            None => false,
            Some(Resolving::Due(_)) => true,
            Some(Resolving::Begun(wanted)) => Arc::weak_count(wanted) > 0,
        }
    }

    /// The topics of the group have changed.
    pub(in crate::group) const fn request_refresh(&mut self) {
        self.refresh = None;
    }

    /// The timer of regular expressions fired: what shows that the group waits for them, if it is
    /// this timer that says so.
    pub(in crate::group) fn resolve_timer_fired(&mut self, at: MonotonicTime) -> Option<Weak<()>> {
        let is_due =
            |resolving: &mut Resolving| matches!(resolving, Resolving::Due(due) if *due == at);
        self.resolving.take_if(is_due)?;
        let wanted = Arc::new(());
        let other = Arc::downgrade(&wanted);
        self.resolving = Some(Resolving::Begun(wanted));
        Some(other)
    }

    /// Regular expressions are resolved: whether the group still waits for it.
    pub(in crate::group) fn resolved(&mut self, other: &Weak<()>) -> bool {
        let is_it = |resolving: &mut Resolving| match resolving {
            Resolving::Due(_) => false,
            Resolving::Begun(wanted) => std::ptr::eq(Arc::as_ptr(wanted), other.as_ptr()),
        };
        self.resolving.take_if(is_it).is_some()
    }

    pub(in crate::group) fn apply(
        &mut self,
        change: SoftChange,
        group_id: &Arc<str>,
        now: Now,
        timers: &mut Timers,
    ) {
        let after = |timeout_ms: i32| now.monotonic.plus_ms(i64::from(timeout_ms.max(0)));
        let member_id = match change {
            SoftChange::Session(id, timeout_ms) => {
                self.waits(&id).session_at = Some(after(timeout_ms));
                id
            }
            SoftChange::Rebalance(id, epoch, timeout_ms) => {
                self.waits(&id).rebalance = Some((after(timeout_ms), epoch));
                id
            }
            SoftChange::Join(id, timeout_ms) => {
                let join_at = &mut self.waits(&id).join_at;
                *join_at = join_at.or(Some(after(timeout_ms)));
                id
            }
            SoftChange::Sync(id, timeout_ms) => {
                self.waits(&id).sync_at = Some(after(timeout_ms));
                id
            }
            SoftChange::EndRebalance(id) => return self.end(&id, |waits| waits.rebalance = None),
            SoftChange::EndJoin(id) => return self.end(&id, |waits| waits.join_at = None),
            SoftChange::EndSync(id) => return self.end(&id, |waits| waits.sync_at = None),
            SoftChange::Forget(id) => return self.forget(&id, group_id, timers),
            SoftChange::Refresh(at, epoch) => {
                self.refresh = Some((at, epoch));
                return;
            }
            SoftChange::Resolve => {
                self.resolving = Some(Resolving::Due(now.monotonic));
                timers.schedule(now.monotonic, Timer::Regexes(Arc::clone(group_id)));
                return;
            }
            SoftChange::EndResolve => return self.end_resolve(group_id, timers),
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
        if let Some(at) = self
            .members
            .remove(member_id)
            .and_then(|waits| waits.timer_at)
        {
            timers.cancel(at, timer(group_id, member_id));
        }
    }

    /// Makes sure that the queue's timer fires in time.
    fn schedule(&mut self, member_id: &Arc<str>, group_id: &Arc<str>, timers: &mut Timers) {
        let waits = self.waits(member_id);
        let Some(first_at) = waits.first_at() else {
            return;
        };
        if waits.timer_at.is_some_and(|at| at <= first_at) {
            return;
        }
        if let Some(at) = waits.timer_at.replace(first_at) {
            timers.cancel(at, timer(group_id, member_id));
        }
        timers.schedule(first_at, timer(group_id, member_id));
    }

    /// The timer of a member fired: whether the wait for it is over.
    pub(in crate::group) fn timer_fired(
        &mut self,
        at: MonotonicTime,
        member: Option<&ConsumerMember>,
        member_id: &Arc<str>,
        now: Now,
        group_id: &Arc<str>,
        timers: &mut Timers,
    ) -> bool {
        let Some(waits) = self.members.get_mut(member_id) else {
            return false;
        };
        if waits.timer_at != Some(at) {
            return false;
        }
        waits.timer_at = None;
        let Some(member) = member else {
            // It never got into the log.
            self.members.remove(member_id);
            return false;
        };
        let is_due = |at: Option<MonotonicTime>| at.is_some_and(|at| at <= now.monotonic);
        let rebalance = waits.rebalance.take_if(|(at, _)| *at <= now.monotonic);
        let is_over = is_due(waits.session_at)
            || is_due(waits.join_at)
            || is_due(waits.sync_at)
            || rebalance.is_some_and(|(_, epoch)| epoch == member.member_epoch);
        if !is_over {
            self.schedule(member_id, group_id, timers);
        }
        is_over
    }

    /// Starts the sessions of all members.
    pub(in crate::group) fn resume(
        &mut self,
        group: &ConsumerGroup,
        session_timeout_ms: i32,
        group_id: &Arc<str>,
        now: Now,
        timers: &mut Timers,
    ) {
        for member in group.members().values() {
            let classic = member
                .classic
                .as_ref()
                .map(|classic| classic.session_timeout_ms);
            let timeout_ms = classic.unwrap_or(session_timeout_ms);
            let id = || Arc::clone(&member.id);
            self.apply(SoftChange::Session(id(), timeout_ms), group_id, now, timers);
            if member.state == MemberState::UnrevokedPartitions && classic.is_none() {
                let (epoch, timeout_ms) = (member.member_epoch, member.rebalance_timeout_ms);
                let change = SoftChange::Rebalance(id(), epoch, timeout_ms);
                self.apply(change, group_id, now, timers);
            }
        }
    }

    /// Waits for nobody any longer.
    pub(in crate::group) fn clear(&mut self, group_id: &Arc<str>, timers: &mut Timers) {
        for (member_id, waits) in std::mem::take(&mut self.members) {
            if let Some(at) = waits.timer_at {
                timers.cancel(at, timer(group_id, &member_id));
            }
        }
        self.end_resolve(group_id, timers);
        self.request_refresh();
    }

    fn end_resolve(&mut self, group_id: &Arc<str>, timers: &mut Timers) {
        if let Some(Resolving::Due(at)) = self.resolving.take() {
            timers.cancel(at, Timer::Regexes(Arc::clone(group_id)));
        }
    }
}

fn timer(group_id: &Arc<str>, member_id: &Arc<str>) -> Timer {
    Timer::ConsumerMember(Arc::clone(group_id), Arc::clone(member_id))
}
