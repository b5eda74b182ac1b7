//! The assignors of the broker: which member of a consumer group is to have which partitions.
//!
//! Each gives what Kafka's assignor of the same name gives, member by member, for members and
//! topics that come in the same order. Members whose assignment stays as it was are not copied.

mod range;
mod uniform_heterogeneous;
mod uniform_homogeneous;

#[cfg(test)]
mod tests;

use super::partitions::Partitions;
use model::Uuid;

/// A topic that members subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group) struct AssignableTopic {
    pub(in crate::group) id: Uuid,
    pub(in crate::group) partition_count: usize,
}

/// A member that partitions are assigned to.
#[derive(Debug, Clone)]
pub(in crate::group) struct AssignableMember<'a> {
    pub(in crate::group) id: &'a str,
    pub(in crate::group) instance_id: Option<&'a str>,
    /// Places in the list of topics, ascending.
    pub(in crate::group) subscribed: &'a [usize],
    /// The member's target so far.
    pub(in crate::group) target: Partitions,
}

/// The group to assign partitions in.
#[derive(Debug)]
pub(in crate::group) struct Assigning<'a> {
    pub(in crate::group) topics: &'a [AssignableTopic],
    pub(in crate::group) members: &'a [AssignableMember<'a>],
    /// Whether all members subscribe to the same topics.
    pub(in crate::group) is_homogeneous: bool,
}

/// An assignor that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignor {
    /// Equally many partitions for each member, moving as few as possible.
    Uniform,
    /// The same ranges of all topics for a member.
    Range,
}

impl Assignor {
    /// Every assignor.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    /// Kafka's name of the assignor.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// The assignor of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|assignor| assignor.name() == name)
    }

    /// The new target of each member, in their order; `None` for one that keeps its own.
    pub(in crate::group) fn assign(self, group: &Assigning<'_>) -> Vec<Option<Partitions>> {
        if group.members.is_empty() {
            return Vec::new();
        }
        match self {
            Self::Range => range::assign(group),
            Self::Uniform if group.is_homogeneous => uniform_homogeneous::assign(group),
            Self::Uniform => uniform_heterogeneous::assign(group),
        }
    }
}

impl Assigning<'_> {
    /// For each topic, in order, a place for each partition.
    fn per_partition<T: Clone>(&self, value: T) -> Vec<Vec<T>> {
        let topics = self.topics.iter();
        topics
            .map(|topic| vec![value.clone(); topic.partition_count])
            .collect()
    }

    /// Where the topics are in the list, by id.
    fn places(&self) -> Vec<(Uuid, usize)> {
        let mut places: Vec<_> = self
            .topics
            .iter()
            .enumerate()
            .map(|(at, topic)| (topic.id, at))
            .collect();
        places.sort_unstable();
        places
    }
}

/// The place of a topic.
fn place(places: &[(Uuid, usize)], topic_id: Uuid) -> Option<usize> {
    let at = places.binary_search_by_key(&topic_id, |(id, _)| *id).ok()?;
    Some(places[at].1)
}

/// The partitions that a member keeps and those that it gets.
fn target<'a>(
    topics: &'a [AssignableTopic],
    assigned: impl IntoIterator<Item = (usize, usize)> + 'a,
) -> Partitions {
    let partitions = assigned.into_iter();
    partitions
        .map(|(topic, index)| {
            let index = i32::try_from(index).expect("the number of partitions is an i32");
            (topics[topic].id, index, ())
        })
        .collect()
}
