//! Members of a consumer group that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat and
//! LeaveGroup.
//!
//! To such a member the group looks like a classic one whose generation is the member's epoch. A
//! rebalance is told by its heartbeat; then it joins and syncs, and need not wait for others.

use super::draft::{Draft, Refusal, Updated};
use super::member::{ClassicMember, ConsumerMember, MemberState};
use super::migration::Downgraded;
use super::partitions::Partitions;
use super::soft::SoftChange;
use super::subscription::Subscription;
use crate::group::request::{Heartbeat, JoinGroup, LeavingMember, SyncGroup};
use crate::group::subscription::read_subscription;
use crate::group_response::{JoinGroupResponse, SyncGroupResponse};
use crate::messages::ConsumerProtocolAssignment;
use crate::messages::consumer_protocol_assignment::TopicPartition;
use model::{ErrorCode, Message, Uuid};
use std::sync::Arc;

/// The protocol type of consumers.
const PROTOCOL_TYPE: &str = "consumer";

/// What became of a JoinGroup.
#[derive(Debug)]
pub(in crate::group) struct Joined {
    pub(in crate::group) response: JoinGroupResponse,
    /// The classic group that the group is to become with the member, and whether it is to
    /// rebalance: the last member that spoke the new protocol was the one it replaces.
    pub(in crate::group) downgrade: Option<(Downgraded, bool)>,
}

impl<'a> Draft<'a> {
    /// Decides about a member that joins.
    pub(in crate::group) fn join_classic(
        &mut self,
        request: &JoinGroup<'_>,
    ) -> Result<Joined, ErrorCode> {
        let is_new = request.member_id.is_empty();
        let member_id = if is_new {
            request.random_uuid
        } else {
            request.member_id
        };
        let names: Vec<&str> = request
            .protocols
            .iter()
            .map(|protocol| protocol.name)
            .collect();
        self.check_room(member_id)
            .map_err(|refusal| refusal.error)?;
        if !self.config.migration_policy.allows_any()
            || !self.group.supports_classic(request.protocol_type, &names)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if is_new && request.group_instance_id.is_none() && request.requires_known_member_id {
            let response = JoinGroupResponse {
                member_id: Arc::from(member_id),
                ..JoinGroupResponse::error("", ErrorCode::MemberIdRequired)
            };
            return Ok(Joined {
                response,
                downgrade: None,
            });
        }
        let existing = request
            .group_instance_id
            .and_then(|id| self.group.static_member(id));
        let before = match request.group_instance_id {
            None => self.dynamic_member(member_id, true),
            Some(instance_id) if is_new => self.joining_static_member(member_id, instance_id, true),
            Some(instance_id) => self.static_member(member_id, instance_id),
        };
        let before = before.map_err(|refusal| refusal.error)?;
        let is_downgrade = existing.is_some_and(|existing| self.can_downgrade_with(existing));
        let (updated, owned) = self.with_join(&before.member, request)?;
        let refused = |refusal: Refusal| refusal.error;
        let changes = self.update_member(&before, &updated, false);
        let has_changed = changes.has_subscription_changed;
        if is_downgrade && let Some(joined) = self.downgrade_with(&updated, &changes, &owned)? {
            return Ok(joined);
        }
        let target = self.update_target(&before, &updated, changes.group_epoch);
        let updated = self
            .reconcile(updated, &target, has_changed, Some(&owned))
            .map_err(refused)?;
        let id = || Arc::clone(&updated.id);
        self.changes.extend([
            SoftChange::EndJoin(id()),
            SoftChange::Session(id(), request.session_timeout_ms),
            SoftChange::Sync(id(), request.rebalance_timeout_ms),
        ]);
        Ok(Joined {
            response: join_response(&updated),
            downgrade: None,
        })
    }

    /// The member in the classic group that the group becomes with it; `None` when the group stays
    /// as it is. The generation of the answer is the member's epoch: one that finds the group's
    /// assignment out of date has none yet, and joins again when it asks for its partitions.
    fn downgrade_with(
        &self,
        updated: &ConsumerMember,
        changes: &Updated,
        owned: &Partitions,
    ) -> Result<Option<Joined>, ErrorCode> {
        let group = self.group;
        let rebalances = changes.group_epoch > group.assignment_epoch;
        let joined = if rebalances {
            updated.clone()
        } else {
            let target = group.target(&updated.id, updated.instance_id.as_deref());
            let target = (group.assignment_epoch, target);
            let has_changed = changes.has_subscription_changed;
            self.reconciled(updated, &target, has_changed, Some(owned))
                .map_err(|refusal| refusal.error)?
        };
        let downgraded = self.downgraded(&[], Some(&joined))?;
        Ok(downgraded.map(|downgraded| Joined {
            response: join_response(&joined),
            downgrade: Some((downgraded, rebalances)),
        }))
    }

    /// The member as the request changes it, and what it says it has.
    fn with_join(
        &self,
        member: &ConsumerMember,
        request: &JoinGroup<'_>,
    ) -> Result<(ConsumerMember, Partitions), ErrorCode> {
        let protocol = request
            .protocols
            .first()
            .ok_or(ErrorCode::InconsistentGroupProtocol)?;
        let subscription =
            read_subscription(protocol.metadata).map_err(|_| ErrorCode::UnknownServerError)?;
        let topics = Subscription::new(subscription.topics.iter(), "");
        let owned = subscription.owned_partitions.iter().flat_map(|owned| {
            let topic_id = self.topics.by_name(owned.topic).map(|topic| topic.id);
            let indexes: Vec<i32> = owned.partitions.iter().collect();
            let indexes = indexes
                .into_iter()
                .filter_map(move |index| Some((topic_id?, index, ())));
            indexes.collect::<Vec<_>>()
        });
        let protocols = request.protocols.iter();
        let classic = ClassicMember {
            session_timeout_ms: request.session_timeout_ms,
            protocols: protocols
                .map(|protocol| (Arc::from(protocol.name), Arc::from(protocol.metadata)))
                .collect(),
        };
        let or_before = |new: Option<&str>, before: &Option<Arc<str>>| match new {
            Some(text) => Some(Arc::from(text)),
            None => before.clone(),
        };
        let updated = ConsumerMember {
            instance_id: or_before(request.group_instance_id, &member.instance_id),
            rack_id: or_before(subscription.rack_id, &member.rack_id),
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            subscription: self.group.share_subscription(topics),
            client_id: Arc::from(request.client_id),
            client_host: Arc::from(request.client_host),
            classic: Some(Arc::new(classic)),
            ..member.clone()
        };
        Ok((updated, owned.collect()))
    }

    /// Decides about a member that asks for its assignment.
    pub(in crate::group) fn sync_classic(
        &mut self,
        request: &SyncGroup<'_>,
    ) -> Result<SyncGroupResponse, ErrorCode> {
        let member = self.classic_member(request.member_id, request.group_instance_id)?;
        if request.generation_id != member.member_epoch {
            return Err(ErrorCode::IllegalGeneration);
        }
        let classic = member.classic.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
        let protocol = classic.protocols.first();
        let name = protocol.map(|(name, _)| &**name);
        if request
            .protocol_type
            .is_some_and(|one| one != PROTOCOL_TYPE)
            || (request.protocol_name.is_some() && request.protocol_name != name)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        // A newer epoch of the group alone has nothing for the member yet: it joins once there is
        // an assignment. A member with partitions to give up has joined already: it goes on with
        // that first.
        if self.group.assignment_epoch > member.member_epoch
            && member.state != MemberState::UnrevokedPartitions
        {
            self.await_join(member);
            return Err(ErrorCode::RebalanceInProgress);
        }
        let metadata = protocol.map_or(&[][..], |(_, metadata)| metadata);
        let partitions = member.assigned.iter().map(|(id, index, _)| (id, index));
        let assignment = self.assignment_bytes(partitions, metadata)?;
        let id = || Arc::clone(&member.id);
        self.changes.extend([
            SoftChange::EndSync(id()),
            SoftChange::Session(id(), classic.session_timeout_ms),
        ]);
        Ok(SyncGroupResponse {
            error: ErrorCode::None,
            protocol_type: request.protocol_type.map(Arc::from),
            protocol_name: request.protocol_name.map(Arc::from),
            assignment: assignment.into(),
        })
    }

    /// Decides about a member that says that it lives.
    pub(in crate::group) fn heartbeat_classic(
        &mut self,
        request: &Heartbeat<'_>,
    ) -> Result<(), ErrorCode> {
        let member = self.classic_member(request.member_id, request.group_instance_id)?;
        if request.generation_id != member.member_epoch {
            return Err(ErrorCode::IllegalGeneration);
        }
        let timeout_ms = member
            .classic
            .as_ref()
            .map_or(0, |classic| classic.session_timeout_ms);
        self.changes
            .push(SoftChange::Session(Arc::clone(&member.id), timeout_ms));
        // Where nobody speaks the new protocol, whose heartbeats have partitions assigned, a join
        // must.
        let has_to_assign =
            self.group.is_classic_but_for(&[]) && self.is_assignment_due(self.group.epoch);
        let has_to_join = has_to_assign
            || member.member_epoch < self.group.assignment_epoch
            || member.state == MemberState::UnrevokedPartitions
            || (member.state == MemberState::UnreleasedPartitions
                && !self.waits_for_others(member));
        if has_to_join {
            self.await_join(member);
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// The members that leave, with the code for each of those who are named.
    pub(in crate::group) fn leaving_members(
        &self,
        leaving: &[LeavingMember<'_>],
    ) -> (Vec<ErrorCode>, Vec<&'a ConsumerMember>) {
        let mut members: Vec<&ConsumerMember> = Vec::new();
        let errors = leaving.iter().map(|one| match self.leaving_member(one) {
            Ok(member) => {
                if !members.iter().any(|known| known.id == member.id) {
                    members.push(member);
                }
                ErrorCode::None
            }
            Err(error) => error,
        });
        (errors.collect(), members)
    }

    fn leaving_member(&self, leaving: &LeavingMember<'_>) -> Result<&'a ConsumerMember, ErrorCode> {
        let Some(instance_id) = leaving.group_instance_id else {
            let member = self.group.member(leaving.member_id);
            return member.ok_or(ErrorCode::UnknownMemberId);
        };
        let member = self
            .group
            .static_member(instance_id)
            .ok_or(ErrorCode::UnknownMemberId)?;
        if !leaving.member_id.is_empty() && *member.id != *leaving.member_id {
            return Err(ErrorCode::FencedInstanceId);
        }
        Ok(member)
    }

    fn classic_member(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<&'a ConsumerMember, ErrorCode> {
        let member = match instance_id {
            None => self.group.member(member_id),
            Some(instance_id) => {
                let member = self.group.static_member(instance_id);
                if member.is_some_and(|member| *member.id != *member_id) {
                    return Err(ErrorCode::FencedInstanceId);
                }
                member
            }
        };
        let member = member.filter(|member| member.uses_classic_protocol());
        member.ok_or(ErrorCode::UnknownMemberId)
    }

    /// Whether a partition that the member is to have is still with another.
    fn waits_for_others(&self, member: &ConsumerMember) -> bool {
        let target = self.group.target(&member.id, None);
        target.iter().any(|(topic_id, index, ())| {
            !member.assigned.contains(topic_id, index)
                && self.group.owner_epoch(topic_id, index).is_some()
        })
    }

    fn await_join(&mut self, member: &ConsumerMember) {
        let id = Arc::clone(&member.id);
        self.changes
            .push(SoftChange::Join(id, member.rebalance_timeout_ms));
    }

    /// Partitions as the classic protocol tells them, in the version of the member's own metadata.
    pub(super) fn assignment_bytes(
        &self,
        partitions: impl Iterator<Item = (Uuid, i32)>,
        metadata: &[u8],
    ) -> Result<Vec<u8>, ErrorCode> {
        let version = metadata
            .first_chunk()
            .map(|bytes| i16::from_be_bytes(*bytes));
        let version = version.ok_or(ErrorCode::UnknownServerError)?;
        let mut topics: Vec<(&str, Vec<i32>)> = Vec::new();
        for (topic_id, index) in partitions {
            let Some(topic) = self.topics.by_id(topic_id) else {
                continue;
            };
            match topics.last_mut() {
                Some((name, indexes)) if *name == &*topic.name => indexes.push(index),
                _ => topics.push((&topic.name, vec![index])),
            }
        }
        let assigned = topics.iter().map(|(topic, indexes)| TopicPartition {
            topic,
            partitions: indexes.as_slice().into(),
        });
        let message = ConsumerProtocolAssignment {
            assigned_partitions: assigned.collect(),
            user_data: None,
        };
        let known = version.clamp(
            ConsumerProtocolAssignment::MIN_VERSION,
            ConsumerProtocolAssignment::MAX_VERSION,
        );
        let mut bytes = known.to_be_bytes().to_vec();
        message.write(known, &mut bytes);
        Ok(bytes)
    }
}

fn join_response(member: &ConsumerMember) -> JoinGroupResponse {
    let protocol = member
        .classic
        .as_ref()
        .and_then(|classic| classic.protocols.first());
    JoinGroupResponse {
        error: ErrorCode::None,
        generation_id: member.member_epoch,
        protocol_type: Some(Arc::from(PROTOCOL_TYPE)),
        protocol_name: protocol.map(|(name, _)| Arc::clone(name)),
        leader: Arc::from(""),
        skip_assignment: false,
        member_id: Arc::clone(&member.id),
        members: Vec::new(),
    }
}
