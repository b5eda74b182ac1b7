//! How a shard lets its consumer groups decide, and what becomes of their decisions.

use super::consumer::{
    ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse, ConsumerMember, DescribedConsumerGroup,
    Downgraded, Draft, Joined, Made, Refusal, RegexResolution, SoftChange, SoftGroup, upgraded,
};
use super::effects::Effects;
use super::group::Group;
use super::records;
use super::request::{Heartbeat, JoinGroup, LeaveGroup, SyncGroup};
use super::shard::{GroupShard, Outcome};
use super::unallocated::Unallocated;
use crate::group_response::{JoinGroupResponse, SyncGroupResponse};
use crate::{CoordinatorRecord, Decision};
use metadata::MetadataImage;
use model::{ErrorCode, MonotonicTime, Now};
use std::sync::Arc;

/// For how long a group that is settled stays so by itself: more than it takes to decide.
const SETTLED_MS: i64 = 60_000;

/// A decision that came to no error.
struct Drafted {
    records: Vec<CoordinatorRecord>,
    changes: Vec<SoftChange>,
}

impl From<Draft<'_>> for Drafted {
    fn from(draft: Draft<'_>) -> Self {
        Self {
            records: draft.records,
            changes: draft.changes,
        }
    }
}

impl GroupShard {
    /// The cluster's metadata have changed. Groups look at their topics again when they are
    /// concerned.
    pub fn set_metadata(&mut self, image: Arc<MetadataImage>) {
        let changed = self.topics.update(image);
        if changed.is_empty() {
            return;
        }
        for group in self.groups.values_mut() {
            let Some(consumer) = &group.consumer else {
                continue;
            };
            if consumer.is_subscribed_to_any(&changed) {
                group.soft.request_refresh();
            }
        }
    }

    /// A member of a consumer group joins, lives, or leaves.
    pub fn consumer_group_heartbeat(
        &mut self,
        request: &ConsumerGroupHeartbeat<'_>,
        now: Now,
    ) -> Decision<Result<ConsumerGroupHeartbeatResponse, Refusal>> {
        if let Err(refusal) = request.validate(&self.config.consumer) {
            return Decision::reply(Err(refusal));
        }
        let mut outcome = Outcome::default();
        let reply = if request.leaves() {
            self.leave_consumer_group(request, now, &mut outcome)
        } else {
            self.stay_in_consumer_group(request, now, &mut outcome)
        };
        match reply {
            Ok(response) => self.consumer_decision(outcome, Ok(response)),
            Err(refusal) => Decision::reply(Err(refusal)),
        }
    }

    /// Records of a group of usual size stand together. Those of a large one may be split, but for
    /// conversions that fit one batch: each record is true by itself, and the epoch of an
    /// assignment comes after its parts.
    fn consumer_decision<R>(&self, outcome: Outcome, reply: R) -> Decision<R> {
        if self.config.batch_holds(&outcome.records) {
            outcome.into_decision(reply)
        } else {
            outcome.into_split_decision(reply)
        }
    }

    /// Whether nothing but its session is decided by the heartbeat of a member that tells nothing new: the member is
    /// where its group is, nobody computes an assignment or resolves a pattern, and topics are not looked at for
    /// a while.
    pub fn is_settled(&self, group_id: &str, member_id: &str, now: Now) -> bool {
        let Some(group) = self.groups.get(group_id) else {
            return false;
        };
        let now = Now {
            monotonic: now.monotonic.plus_ms(SETTLED_MS),
            ..now
        };
        group.consumer_type().is_some_and(|consumer| {
            let member = consumer.member(member_id);
            consumer.epoch == consumer.assignment_epoch
                && member.is_some_and(|member| member.is_reconciled_to(consumer.assignment_epoch))
                && !consumer.has_regexes()
                && !group.soft.is_refresh_due(consumer, now)
        })
    }

    /// The consumer group of a request that may not make one.
    fn draft(&mut self, group_id: &str, now: Now) -> Option<Draft<'_>> {
        let group = self.groups.get(group_id)?;
        let consumer = group.consumer_type()?;
        Some(Draft {
            group_id: &group.id,
            group: consumer,
            soft: &group.soft,
            config: &self.config.consumer,
            classic_size_max: self.config.group_size_max,
            batch_bytes_max: self.config.batch_bytes_max,
            topics: &mut self.topics,
            now,
            records: Vec::new(),
            changes: Vec::new(),
        })
    }

    fn not_a_consumer_group(&self, group_id: &str) -> Refusal {
        let message = if self.groups.contains_key(group_id) {
            format!("Group {group_id} is not a consumer group.")
        } else {
            format!("Consumer group {group_id} not found.")
        };
        Refusal::new(ErrorCode::GroupIdNotFound, message)
    }

    fn stay_in_consumer_group(
        &mut self,
        request: &ConsumerGroupHeartbeat<'_>,
        now: Now,
        outcome: &mut Outcome,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let group_id = request.group_id;
        if let Some(mut draft) = self.draft(group_id, now) {
            let response = draft.heartbeat(request)?;
            let drafted = Drafted::from(draft);
            self.take(group_id, drafted, now, outcome);
            return Ok(response);
        }
        if !request.joins() {
            return Err(self.not_a_consumer_group(group_id));
        }
        let made = self.new_consumer_group(group_id)?;
        let none = Unallocated::<SoftGroup>::default();
        if made.is_indivisible {
            outcome.indivisible.push(0..made.records.len());
        }
        let mut draft = Draft {
            group_id,
            group: &made.group,
            soft: &none,
            config: &self.config.consumer,
            classic_size_max: self.config.group_size_max,
            batch_bytes_max: self.config.batch_bytes_max,
            topics: &mut self.topics,
            now,
            records: made.records,
            changes: Vec::new(),
        };
        let response = draft.heartbeat(request)?;
        let drafted = Drafted::from(draft);
        self.group_mut(group_id);
        let session_timeout_ms = self.config.consumer.of_group(group_id).session_timeout_ms;
        self.act(group_id, now, outcome, |group, effects| {
            group.membership.dissolve(effects);
            let (id, timers) = (Arc::clone(&effects.group_id), &mut *effects.timers);
            group
                .soft
                .resume(&made.group, session_timeout_ms, &id, now, timers);
            apply(group, drafted, effects);
        });
        Ok(response)
    }

    /// The group that comes into being, with the records that make it: of a classic group with
    /// members, all of the new one, too.
    fn new_consumer_group(&mut self, group_id: &str) -> Result<Made, Refusal> {
        let Some(group) = self.groups.get(group_id) else {
            return Ok(Made::default());
        };
        if !group.is_classic() {
            return Err(self.not_a_consumer_group(group_id));
        }
        if group.is_empty() {
            return Ok(Made {
                records: vec![records::group_tombstone(group_id)],
                ..Made::default()
            });
        }
        let (policy, size_max) = (
            self.config.consumer.migration_policy,
            self.config.consumer.size_max,
        );
        let upgraded = upgraded(
            group_id,
            &group.membership,
            policy,
            size_max,
            &mut self.topics,
        )?;
        Ok(Made::from_classic(
            group_id,
            upgraded,
            self.config.batch_bytes_max,
        ))
    }

    fn leave_consumer_group(
        &mut self,
        request: &ConsumerGroupHeartbeat<'_>,
        now: Now,
        outcome: &mut Outcome,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let group_id = request.group_id;
        let Some(mut draft) = self.draft(group_id, now) else {
            return Err(self.not_a_consumer_group(group_id));
        };
        let (response, gone) = draft.leave(request)?;
        let gone: Vec<Arc<str>> = gone
            .map(|member| Arc::clone(&member.id))
            .into_iter()
            .collect();
        let drafted = Drafted::from(draft);
        self.take(group_id, drafted, now, outcome);
        self.remove_consumers(group_id, &gone, now, outcome);
        Ok(response)
    }

    /// Removes members for good.
    fn remove_consumers(
        &mut self,
        group_id: &str,
        gone: &[Arc<str>],
        now: Now,
        outcome: &mut Outcome,
    ) {
        let Some(mut draft) = self.draft(group_id, now) else {
            return;
        };
        let group = draft.group;
        let members: Vec<&ConsumerMember> = gone.iter().filter_map(|id| group.member(id)).collect();
        if draft.can_downgrade_without(&members)
            && let Ok(Some(downgraded)) = draft.downgraded(&members, None)
        {
            return self.become_classic(group_id, downgraded, true, now, outcome);
        }
        draft.remove(&members);
        let drafted = Drafted::from(draft);
        self.take(group_id, drafted, now, outcome);
    }

    /// Takes over what a draft has come to.
    fn take(&mut self, group_id: &str, drafted: Drafted, now: Now, outcome: &mut Outcome) {
        self.act(group_id, now, outcome, |group, effects| {
            apply(group, drafted, effects)
        });
    }

    /// Makes a consumer group a classic one with these members.
    fn become_classic(
        &mut self,
        group_id: &str,
        downgraded: Downgraded,
        rebalances: bool,
        now: Now,
        outcome: &mut Outcome,
    ) {
        let start = outcome.records.len();
        outcome.records.extend(downgraded.records);
        outcome.indivisible.push(start..outcome.records.len());
        self.act(group_id, now, outcome, |group, effects| {
            let id = Arc::clone(&effects.group_id);
            group.soft.clear(&id, effects.timers);
            *group.membership = downgraded.membership;
            group.membership.resume(effects);
            if rebalances {
                group.membership.prepare_rebalance(effects);
            }
        });
    }

    /// A member that speaks the classic protocol joins a consumer group; `None` when the group is
    /// none, or has no members and gives way to a classic one.
    pub(super) fn join_consumer_group(
        &mut self,
        request: &JoinGroup<'_>,
        now: Now,
    ) -> Option<Decision<JoinGroupResponse>> {
        let group_id = request.group_id;
        let mut draft = self.draft(group_id, now)?;
        if draft.group.members().is_empty() {
            return None;
        }
        let joined = draft.join_classic(request);
        let mut outcome = Outcome::default();
        let response = match joined {
            Err(error) => {
                let member_id = if error == ErrorCode::InconsistentGroupProtocol {
                    ""
                } else {
                    request.member_id
                };
                JoinGroupResponse::error(member_id, error)
            }
            Ok(Joined {
                response,
                downgrade: None,
            }) => {
                let drafted = Drafted::from(draft);
                self.take(group_id, drafted, now, &mut outcome);
                response
            }
            // The group is written anew as a whole: what else the draft came to does not count.
            Ok(Joined {
                response,
                downgrade: Some((downgraded, rebalances)),
            }) => {
                self.become_classic(group_id, downgraded, rebalances, now, &mut outcome);
                response
            }
        };
        Some(self.consumer_decision(outcome, response))
    }

    /// A member that speaks the classic protocol asks for its assignment; `None` when its group is
    /// no consumer group.
    pub(super) fn sync_consumer_group(
        &mut self,
        request: &SyncGroup<'_>,
        now: Now,
    ) -> Option<Decision<SyncGroupResponse>> {
        let mut draft = self.draft(request.group_id, now)?;
        let response = draft
            .sync_classic(request)
            .unwrap_or_else(SyncGroupResponse::error);
        let drafted = Drafted::from(draft);
        let mut outcome = Outcome::default();
        self.take(request.group_id, drafted, now, &mut outcome);
        Some(outcome.into_decision(response))
    }

    /// A member that speaks the classic protocol says that it lives; `None` when its group is no
    /// consumer group.
    pub(super) fn heartbeat_in_consumer_group(
        &mut self,
        request: &Heartbeat<'_>,
        now: Now,
    ) -> Option<Result<(), ErrorCode>> {
        let mut draft = self.draft(request.group_id, now)?;
        let result = draft.heartbeat_classic(request);
        let drafted = Drafted::from(draft);
        let mut outcome = Outcome::default();
        self.take(request.group_id, drafted, now, &mut outcome);
        Some(result)
    }

    /// Members leave by LeaveGroup; `None` when their group is no consumer group.
    pub(super) fn leave_consumer_group_as_classic(
        &mut self,
        request: &LeaveGroup<'_>,
        now: Now,
    ) -> Option<Decision<Result<Vec<ErrorCode>, ErrorCode>>> {
        let draft = self.draft(request.group_id, now)?;
        let (errors, members) = draft.leaving_members(&request.members);
        let gone: Vec<Arc<str>> = members
            .iter()
            .map(|member| Arc::clone(&member.id))
            .collect();
        let mut outcome = Outcome::default();
        self.remove_consumers(request.group_id, &gone, now, &mut outcome);
        Some(self.consumer_decision(outcome, Ok(errors)))
    }

    /// A consumer group with its members.
    ///
    /// # Errors
    /// Why there is no such consumer group: the message of `GroupIdNotFound`.
    pub fn describe_consumer_group(
        &self,
        group_id: &str,
    ) -> Result<DescribedConsumerGroup, String> {
        let group = self.groups.get(group_id);
        let group = group.ok_or_else(|| format!("Group {group_id} not found."))?;
        let consumer = group.consumer_type();
        let consumer =
            consumer.ok_or_else(|| format!("Group {group_id} is not a consumer group."))?;
        Ok(DescribedConsumerGroup::of(
            consumer,
            &self.config.consumer,
            &self.topics,
        ))
    }

    /// The timer of a member fired.
    pub(super) fn consumer_timer_fired(
        &mut self,
        at: MonotonicTime,
        group_id: &Arc<str>,
        member_id: &Arc<str>,
        now: Now,
        outcome: &mut Outcome,
    ) {
        let is_over = self.act(group_id, now, outcome, |group, effects| {
            let member = group
                .consumer
                .as_ref()
                .and_then(|consumer| consumer.member(member_id));
            let timers = &mut *effects.timers;
            group
                .soft
                .timer_fired(at, member, member_id, now, group_id, timers)
        });
        if is_over == Some(true) {
            let gone = [Arc::clone(member_id)];
            self.remove_consumers(group_id, &gone, now, outcome);
        }
    }

    /// The regular expressions of a group are to be resolved.
    pub(super) fn regex_timer_fired(
        &mut self,
        at: MonotonicTime,
        group_id: &Arc<str>,
        now: Now,
        outcome: &mut Outcome,
    ) {
        let wanted = self.act(group_id, now, outcome, |group, _| {
            group.soft.resolve_timer_fired(at)
        });
        let Some(wanted) = wanted.flatten() else {
            return;
        };
        if let Some(mut draft) = self.draft(group_id, now) {
            let resolution = draft.resolution(Arc::clone(group_id), wanted);
            self.resolutions.push(resolution);
        }
    }

    /// The regular expressions that are to be resolved since the last call: after every
    /// [`GroupShard::expire`].
    pub fn take_resolutions(&mut self) -> Vec<RegexResolution> {
        std::mem::take(&mut self.resolutions)
    }

    /// The regular expressions of a group are resolved. That nobody waits for any more changes
    /// nothing.
    pub fn regexes_resolved(&mut self, resolution: RegexResolution, now: Now) -> Decision<()> {
        let group_id = Arc::clone(&resolution.group_id);
        let mut outcome = Outcome::default();
        let is_awaited = self.act(&group_id, now, &mut outcome, |group, _| {
            group.soft.resolved(&resolution.wanted)
        });
        if is_awaited == Some(true)
            && let Some(mut draft) = self.draft(&group_id, now)
        {
            draft.take_resolved(resolution.into_found());
            let drafted = Drafted::from(draft);
            self.take(&group_id, drafted, now, &mut outcome);
        }
        outcome.into_split_decision(())
    }

    /// Gives the members of a group new sessions if it is a consumer group; otherwise waits for
    /// none.
    pub(super) fn resume_consumer_group(
        &mut self,
        group_id: &str,
        now: Now,
        outcome: &mut Outcome,
    ) {
        let timeout_ms = self.config.consumer.of_group(group_id).session_timeout_ms;
        self.act(group_id, now, outcome, |group, effects| {
            let id = Arc::clone(&effects.group_id);
            group.soft.clear(&id, effects.timers);
            let is_classic = group.metadata.is_some() || !group.membership.is_void();
            if let Some(consumer) = group.consumer.as_ref().filter(|_| !is_classic) {
                group
                    .soft
                    .resume(consumer, timeout_ms, &id, now, effects.timers);
            }
        });
    }
}

fn apply(group: &mut Group, drafted: Drafted, effects: &mut Effects<'_>) {
    effects.records.extend(drafted.records);
    let id = Arc::clone(&effects.group_id);
    for change in drafted.changes {
        group.soft.apply(change, &id, effects.now, effects.timers);
    }
}
