//! From a classic group to a consumer group and back, while members are in it.

use super::draft::{Draft, Refusal};
use super::group::ConsumerGroup;
use super::member::{ClassicMember, ConsumerMember};
use super::migration_policy::MigrationPolicy;
use super::partitions::{OwnedPartitions, Partitions};
use super::records;
use super::subscription::Subscription;
use super::topics::Topics;
use crate::CoordinatorRecord;
use crate::decision::fits_batch;
use crate::group::member::{Member, Protocol};
use crate::group::membership::{GroupState, Membership};
use crate::group::records as classic_records;
use crate::group::subscription::read_subscription;
use crate::messages::ConsumerProtocolAssignment;
use model::{ErrorCode, Message, Reader};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Why a group stays as it is whose assignor, the application's own, has left data for members.
const CUSTOM_ASSIGNOR: &str = "an unsupported custom assignor is in use. Please refer to the \
                               documentation or switch to a default assignor before \
                               re-attempting the upgrade";

/// A classic group that a consumer group becomes.
#[derive(Debug)]
pub(in crate::group) struct Downgraded {
    pub(in crate::group) membership: Membership,
    /// All of the one group gone, and the other.
    pub(in crate::group) records: Vec<CoordinatorRecord>,
}

/// A consumer group that comes into being.
#[derive(Debug, Default)]
pub(in crate::group) struct Made {
    pub(in crate::group) group: ConsumerGroup,
    pub(in crate::group) records: Vec<CoordinatorRecord>,
    /// Whether the records must stand in one batch.
    pub(in crate::group) is_indivisible: bool,
}

impl Made {
    /// The consumer group that a classic group with members becomes.
    ///
    /// Each beginning of the records is a group that finds back by itself, should the log end
    /// there. With the records of one batch, the log has all of them or none. Where they do not
    /// fit one, the group gets an epoch that is ahead of its members, and the hash of no topics:
    /// so those whom the log has are told to join, the first that does finds other topics than it
    /// should and has everything assigned anew, and those whom the log lacks are unknown and join
    /// as new members.
    pub(in crate::group) fn from_classic(
        group_id: &str,
        mut group: ConsumerGroup,
        batch_bytes_max: usize,
    ) -> Self {
        let mut records = vec![classic_records::group_tombstone(group_id)];
        records.extend(records::of_group(group_id, &group));
        let is_indivisible = fits_batch(&records, batch_bytes_max);
        if !is_indivisible {
            let epoch = group.epoch.saturating_add(1);
            (group.epoch, group.assignment_epoch, group.metadata_hash) = (epoch, epoch, 0);
            records.truncate(1);
            records.extend(records::of_group_by_member(group_id, &group));
        }
        Self {
            group,
            records,
            is_indivisible,
        }
    }
}

/// The consumer group that a classic group becomes: its members keep what they have, and go on
/// speaking the classic protocol.
///
/// # Errors
/// A [`Refusal`] with the reason why it stays as it is.
pub(in crate::group) fn upgraded(
    group_id: &str,
    classic: &Membership,
    policy: MigrationPolicy,
    size_max: usize,
    topics: &mut Topics,
) -> Result<ConsumerGroup, Refusal> {
    let refuse = |reason: &str| {
        let message =
            format!("Cannot upgrade classic group {group_id} to consumer group because {reason}.");
        Refusal::new(ErrorCode::GroupIdNotFound, message)
    };
    if !policy.allows_upgrade() {
        return Err(refuse("online upgrade is disabled"));
    }
    if !classic.uses_consumer_protocol() {
        return Err(refuse(
            "the group does not use the consumer embedded protocol",
        ));
    }
    if classic.members.len() > size_max {
        return Err(refuse(
            "the group size exceeds the consumer group maximum size",
        ));
    }
    let generation_id = classic.generation_id;
    let mut group = ConsumerGroup::default();
    (group.epoch, group.assignment_epoch) = (generation_id, generation_id);
    for member in classic.members.values() {
        let malformed = |_| refuse("the embedded consumer protocol is malformed");
        let metadata = member.metadata_of(classic.protocol.as_deref());
        let subscription = read_subscription(&metadata).map_err(malformed)?;
        let (assigned, has_user_data) =
            read_assignment(&member.assignment, topics).map_err(malformed)?;
        if has_user_data {
            return Err(refuse(CUSTOM_ASSIGNOR));
        }
        let names = Subscription::new(subscription.topics.iter(), "");
        let protocols = member.protocols.iter();
        let protocols = protocols.map(|one| (Arc::clone(&one.name), Arc::clone(&one.metadata)));
        let owned = assigned
            .iter()
            .map(|(id, index, ())| (id, index, generation_id));
        let upgraded = ConsumerMember {
            instance_id: member.group_instance_id.clone(),
            rack_id: subscription.rack_id.map(Arc::from),
            client_id: Arc::clone(&member.client_id),
            client_host: Arc::clone(&member.client_host),
            subscription: group.share_subscription(names),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            classic: Some(Arc::new(ClassicMember {
                session_timeout_ms: member.session_timeout_ms,
                protocols: protocols.collect(),
            })),
            member_epoch: generation_id,
            previous_member_epoch: generation_id,
            assigned: owned.collect::<OwnedPartitions>(),
            ..ConsumerMember::new(Arc::clone(&member.id))
        };
        group.put_member(upgraded);
        group.put_target(&member.id, assigned);
    }
    let subscriptions = group.subscriptions().keys();
    let names: BTreeSet<&str> = subscriptions
        .flat_map(|one| one.topics.iter())
        .map(|name| &**name)
        .collect();
    group.metadata_hash = topics.hash_of(&names);
    Ok(group)
}

/// The partitions of a classic assignment, and whether an assignor has put data of its own there.
fn read_assignment(
    bytes: &[u8],
    topics: &Topics,
) -> Result<(Partitions, bool), model::DecodeError> {
    if bytes.is_empty() {
        return Ok((Partitions::default(), false));
    }
    let mut reader = Reader::new(bytes);
    let version = reader.i16()?.clamp(
        ConsumerProtocolAssignment::MIN_VERSION,
        ConsumerProtocolAssignment::MAX_VERSION,
    );
    let assignment = ConsumerProtocolAssignment::read(&mut reader, version)?;
    let has_user_data = assignment.user_data.is_some_and(|data| !data.is_empty());
    let mut partitions = Vec::new();
    for assigned in assignment.assigned_partitions.iter() {
        if let Some(topic) = topics.by_name(assigned.topic) {
            partitions.extend(
                assigned
                    .partitions
                    .iter()
                    .map(|index| (topic.id, index, ())),
            );
        }
    }
    Ok((partitions.into_iter().collect(), has_user_data))
}

impl Draft<'_> {
    /// Whether the group is to become a classic one when these members go.
    pub(in crate::group) fn can_downgrade_without(&self, members: &[&ConsumerMember]) -> bool {
        let left = self.group.members().len() - members.len();
        left > 0 && self.group.is_classic_but_for(members) && self.allows_downgrade(left)
    }

    /// Whether the group is to become a classic one when a member that speaks the classic protocol
    /// takes this one's place.
    pub(super) fn can_downgrade_with(&self, replaced: &ConsumerMember) -> bool {
        !replaced.uses_classic_protocol()
            && self.group.is_classic_but_for(&[replaced])
            && self.allows_downgrade(self.group.members().len())
    }

    fn allows_downgrade(&self, size: usize) -> bool {
        self.config.migration_policy.allows_downgrade()
            && size <= self.classic_size_max
            && self.tombstones_may_fit()
    }

    /// Whether a batch may hold the records that remove the members; seen without making them, so
    /// that a large group does not pay for each member that leaves it.
    fn tombstones_may_fit(&self) -> bool {
        let of_member = records::member_tombstones(self.group_id, "");
        let of_member: usize = of_member.iter().map(|record| record.size_in_bytes(0)).sum();
        self.group.members().len().saturating_mul(of_member) <= self.batch_bytes_max
    }

    /// The classic group that the group becomes without some members, or with one that takes the
    /// place of the static member with its instance id. `None` when the log does not take it in
    /// one batch: half of it would leave members out. The group stays what it is then, which
    /// serves its members as well.
    ///
    /// # Errors
    /// The code of the answer when a member's metadata is not what it should be.
    pub(in crate::group) fn downgraded(
        &self,
        gone: &[&ConsumerMember],
        joined: Option<&ConsumerMember>,
    ) -> Result<Option<Downgraded>, ErrorCode> {
        let membership = self.classic_membership(gone, joined)?;
        let mut records = records::group_tombstones(self.group_id, self.group);
        records.push(classic_records::group_metadata(self.group_id, &membership));
        let fits = fits_batch(&records, self.batch_bytes_max);
        Ok(fits.then_some(Downgraded {
            membership,
            records,
        }))
    }

    fn classic_membership(
        &self,
        gone: &[&ConsumerMember],
        joined: Option<&ConsumerMember>,
    ) -> Result<Membership, ErrorCode> {
        let group = self.group;
        let joined_instance = joined.and_then(|joined| joined.instance_id.as_ref());
        let stays = |member: &&ConsumerMember| {
            let is_replaced =
                joined_instance.is_some() && member.instance_id.as_ref() == joined_instance;
            !is_replaced && gone.iter().all(|one| one.id != member.id)
        };
        let members = group.members().values().filter(stays).chain(joined);
        let mut membership = Membership::empty(Some(self.now.wall_ms));
        membership.generation_id = group.epoch;
        for member in members {
            let protocols = member
                .classic
                .iter()
                .flat_map(|classic| classic.protocols.iter());
            let mut converted = Member::new(
                Arc::clone(&member.id),
                member.instance_id.clone(),
                Arc::clone(&member.client_id),
                Arc::clone(&member.client_host),
            );
            converted.session_timeout_ms = member
                .classic
                .as_ref()
                .map_or(0, |one| one.session_timeout_ms);
            converted.rebalance_timeout_ms = member.rebalance_timeout_ms;
            converted.protocols = protocols
                .map(|(name, metadata)| Protocol {
                    name: Arc::clone(name),
                    metadata: Arc::clone(metadata),
                })
                .collect();
            membership.add(converted, "consumer");
        }
        membership.state = GroupState::Stable;
        membership.protocol = membership.select_protocol();
        membership.refresh_subscribed_topics();
        let protocol = membership.protocol.clone();
        for member in membership.members.values_mut() {
            let target = group.target(&member.id, member.group_instance_id.as_deref());
            let metadata = member.metadata_of(protocol.as_deref());
            let partitions = target.iter().map(|(id, index, ())| (id, index));
            member.assignment = self.assignment_bytes(partitions, &metadata)?.into();
        }
        Ok(membership)
    }
}
