//! ConsumerGroupDescribe: a consumer group with its members.

use super::config::ConsumerGroupConfig;
use super::group::ConsumerGroup;
use super::member::ConsumerMember;
use super::partitions::Partitions;
use super::topics::Topics;
use model::Uuid;
use std::sync::Arc;

/// Partitions of a topic by its id and name.
pub type NamedPartitions = (Uuid, Arc<str>, Vec<i32>);

/// A consumer group as ConsumerGroupDescribe shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConsumerGroup {
    /// Such as `Stable`.
    pub state: &'static str,
    /// The group's epoch.
    pub group_epoch: i32,
    /// The epoch of the target assignment.
    pub assignment_epoch: i32,
    /// The assignor that most members ask for, or the default.
    pub assignor: Arc<str>,
    /// The members in the order of their ids.
    pub members: Vec<DescribedConsumerMember>,
}

/// A member as ConsumerGroupDescribe shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedConsumerMember {
    /// The member's id.
    pub member_id: Arc<str>,
    /// Of static members.
    pub instance_id: Option<Arc<str>>,
    /// `client.rack`.
    pub rack_id: Option<Arc<str>>,
    /// The member's epoch.
    pub member_epoch: i32,
    /// As the member's requests carry it.
    pub client_id: Arc<str>,
    /// As the member's requests came from.
    pub client_host: Arc<str>,
    /// Names subscribed to.
    pub subscribed_topic_names: Vec<Arc<str>>,
    /// The regular expression subscribed to; empty for none.
    pub subscribed_topic_regex: Arc<str>,
    /// What the member has, partitions it has yet to give up included.
    pub assignment: Vec<NamedPartitions>,
    /// What the member is to have.
    pub target_assignment: Vec<NamedPartitions>,
    /// Whether the member speaks the classic protocol.
    pub uses_classic_protocol: bool,
}

impl DescribedConsumerGroup {
    pub(in crate::group) fn of(
        group: &ConsumerGroup,
        config: &ConsumerGroupConfig,
        topics: &Topics,
    ) -> Self {
        let assignor = group.preferred_assignor(None);
        let members = group.members().values();
        Self {
            state: group.state_name(),
            group_epoch: group.epoch,
            assignment_epoch: group.assignment_epoch,
            assignor: assignor.unwrap_or_else(|| Arc::from(config.default_assignor().name())),
            members: members
                .map(|member| described(member, group, topics))
                .collect(),
        }
    }
}

fn described(
    member: &ConsumerMember,
    group: &ConsumerGroup,
    topics: &Topics,
) -> DescribedConsumerMember {
    let owned = member
        .assigned
        .iter()
        .chain(member.pending_revocation.iter());
    let owned: Partitions = owned.map(|(id, index, _)| (id, index, ())).collect();
    DescribedConsumerMember {
        member_id: Arc::clone(&member.id),
        instance_id: member.instance_id.clone(),
        rack_id: member.rack_id.clone(),
        member_epoch: member.member_epoch,
        client_id: Arc::clone(&member.client_id),
        client_host: Arc::clone(&member.client_host),
        subscribed_topic_names: member.subscription.topics.to_vec(),
        subscribed_topic_regex: Arc::clone(&member.subscription.regex),
        assignment: named(&owned, topics),
        target_assignment: named(&group.target(&member.id, None), topics),
        uses_classic_protocol: member.uses_classic_protocol(),
    }
}

/// Topics that are gone are left out.
fn named(partitions: &Partitions, topics: &Topics) -> Vec<NamedPartitions> {
    let existing = partitions.topics().iter().filter_map(|topic| {
        let name = &topics.by_id(topic.topic_id)?.name;
        let indexes = topic.partitions.iter().map(|(index, ())| *index);
        Some((topic.topic_id, Arc::from(&**name), indexes.collect()))
    });
    existing.collect()
}
