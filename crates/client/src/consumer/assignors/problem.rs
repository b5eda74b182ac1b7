//! An assignment problem by indexes: members and topics sorted by name, partitions numbered
//! through all topics, so that the assignors compare and sort integers.

use super::{Assignor, Member, Topics, protocol};
use model::TopicPartition;
use std::collections::BTreeSet;
use std::ops::Range;

/// Of a member, in the order of ids.
pub(super) type MemberIndex = usize;
/// Of a topic that a member subscribes to, in the order of names.
pub(super) type TopicIndex = usize;
/// Of a partition among those of all topics, by topic and number.
pub(super) type PartitionIndex = usize;

/// Members, topics, partitions and racks.
pub(super) struct Problem<'a> {
    pub(super) members: Vec<ProblemMember<'a>>,
    pub(super) topics: Vec<Topic<'a>>,
    pub(super) partitions: Vec<Partition<'a>>,
}

/// A member.
pub(super) struct ProblemMember<'a> {
    pub(super) facts: &'a Member,
    /// Sorted, without those that do not exist.
    pub(super) topics: Vec<TopicIndex>,
    /// Not empty.
    pub(super) rack: Option<&'a str>,
}

/// A topic.
pub(super) struct Topic<'a> {
    pub(super) name: &'a str,
    pub(super) partitions: Range<PartitionIndex>,
    /// Who subscribes, sorted.
    pub(super) members: Vec<MemberIndex>,
}

/// A partition.
pub(super) struct Partition<'a> {
    pub(super) topic: TopicIndex,
    pub(super) number: i32,
    pub(super) racks: BTreeSet<&'a str>,
}

/// What a member says that it owned, and when.
pub(super) struct Claim {
    pub(super) partitions: Vec<PartitionIndex>,
    pub(super) generation: Option<i32>,
}

impl<'a> Problem<'a> {
    /// The problem of `members`, which are sorted by id.
    pub(super) fn new(topics: &'a Topics, members: &[&'a Member]) -> Self {
        let wanted: BTreeSet<&str> = members
            .iter()
            .flat_map(|member| member.subscription.topics.iter().map(String::as_str))
            .collect();
        let mut problem = Self {
            members: Vec::with_capacity(members.len()),
            topics: Vec::new(),
            partitions: Vec::new(),
        };
        for (name, racks) in topics {
            if wanted.contains(name.as_str()) && !racks.is_empty() {
                problem.add_topic(name, racks);
            }
        }
        for (index, facts) in members.iter().enumerate() {
            let names: BTreeSet<&String> = facts.subscription.topics.iter().collect();
            let subscribed = names.iter().filter_map(|name| problem.find_topic(name));
            let subscribed: Vec<TopicIndex> = subscribed.collect();
            for topic in &subscribed {
                problem.topics[*topic].members.push(index);
            }
            problem.members.push(ProblemMember {
                facts,
                topics: subscribed,
                rack: facts
                    .subscription
                    .rack_id
                    .as_deref()
                    .filter(|r| !r.is_empty()),
            });
        }
        problem
    }

    fn add_topic(&mut self, name: &'a str, racks: &'a [Vec<String>]) {
        let start = self.partitions.len();
        let topic = self.topics.len();
        for (number, racks) in (0..).zip(racks) {
            self.partitions.push(Partition {
                topic,
                number,
                racks: racks.iter().map(String::as_str).collect(),
            });
        }
        self.topics.push(Topic {
            name,
            partitions: start..self.partitions.len(),
            members: Vec::new(),
        });
    }

    fn find_topic(&self, name: &str) -> Option<TopicIndex> {
        self.topics.binary_search_by(|t| t.name.cmp(name)).ok()
    }

    /// The partition by name.
    pub(super) fn name(&self, partition: PartitionIndex) -> TopicPartition {
        let Partition { topic, number, .. } = self.partitions[partition];
        TopicPartition::new(self.topics[topic].name, number)
    }

    /// The partition of a name, if it exists and anyone subscribes to it.
    pub(super) fn find(&self, name: &TopicPartition) -> Option<PartitionIndex> {
        let range = &self.topics[self.find_topic(&name.topic)?].partitions;
        let number = usize::try_from(name.partition).ok()?;
        (number < range.len()).then(|| range.start + number)
    }

    /// Whether the member subscribes to the topic.
    pub(super) fn subscribes(&self, member: MemberIndex, topic: TopicIndex) -> bool {
        self.members[member].topics.binary_search(&topic).is_ok()
    }

    /// Members in the order that range and round-robin serve them: static ones by instance id,
    /// then the others by member id.
    pub(super) fn serving_order(&self) -> Vec<MemberIndex> {
        let mut order: Vec<MemberIndex> = (0..self.members.len()).collect();
        order.sort_by_key(|index| {
            let instance = self.members[*index].facts.group_instance_id.as_deref();
            (instance.is_none(), instance, *index)
        });
        order
    }

    /// Whether it is worth looking at racks: some member and some replica share one, and not every
    /// partition is everywhere.
    pub(super) fn is_rack_aware(
        &self,
        members: &[MemberIndex],
        partitions: Range<PartitionIndex>,
    ) -> bool {
        let partitions = &self.partitions[partitions];
        let replica_racks: BTreeSet<&str> = partitions
            .iter()
            .flat_map(|p| p.racks.iter().copied())
            .collect();
        let shared = members
            .iter()
            .filter_map(|member| self.members[*member].rack)
            .any(|rack| replica_racks.contains(rack));
        shared && partitions.iter().any(|p| p.racks != replica_racks)
    }

    /// What a member says that it owned before, as far as it exists.
    pub(super) fn claim(&self, member: MemberIndex, assignor: &Assignor) -> Claim {
        let subscription = &self.members[member].facts.subscription;
        let generation = (subscription.generation_id >= 0).then_some(subscription.generation_id);
        let user_data = subscription.user_data.as_deref().filter(|d| !d.is_empty());
        let (owned, generation) = match (assignor, user_data) {
            // An eager member has revoked everything before it joins; its user data remember.
            (Assignor::Sticky, None) => (Vec::new(), None),
            (Assignor::Sticky, Some(data)) => {
                protocol::decode_sticky_user_data(data).unwrap_or_else(|_| (Vec::new(), Some(-1)))
            }
            (_, Some(data)) if generation.is_none() => {
                let first = data
                    .first_chunk()
                    .map_or(-1, |bytes| i32::from_be_bytes(*bytes));
                (subscription.owned_partitions.clone(), Some(first))
            }
            _ => (subscription.owned_partitions.clone(), generation),
        };
        Claim {
            partitions: owned.iter().filter_map(|name| self.find(name)).collect(),
            generation,
        }
    }
}
