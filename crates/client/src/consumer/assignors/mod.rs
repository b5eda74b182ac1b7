//! Who of a classic group reads which partition: the leader's decision, in the four ways that
//! Apache Kafka's own clients have, with the same results.
//!
//! ```text
//!   topics, members ──> Problem (indexes) ──> range | round_robin | sticky ──> partitions a member
//! ```
//!
//! Where the Java client's result depends on the order of a hash map, members count in the order
//! of their ids. The lists that come out are sorted by topic and partition.

mod problem;
pub(crate) mod protocol;
mod range;
mod round_robin;
mod sticky;

use model::TopicPartition;
use problem::Problem;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// How the leader of a classic group spreads partitions (`partition.assignment.strategy`).
#[derive(Debug, Clone)]
pub enum Assignor {
    /// A contiguous range of each topic's partitions to each member; the same numbers of all
    /// topics to the same member. Rack-aware (KIP-881).
    Range,
    /// One partition after the other, one member after the other.
    RoundRobin,
    /// Even, and as few moves as possible; members give up everything while they rejoin.
    Sticky,
    /// As sticky, but members keep what does not move while they rejoin (KIP-429).
    CooperativeSticky,
    /// The application's own.
    Other(Arc<dyn PartitionAssignor>),
}

/// An assignor of the application, which every member of its group must have.
pub trait PartitionAssignor: fmt::Debug + Send + Sync {
    /// Its name in the protocol; none of this crate's assignors may have it.
    fn name(&self) -> &str;

    /// Whether members may keep their partitions while they rejoin (KIP-429).
    fn is_cooperative(&self) -> bool;

    /// What a member that has `owned` tells the leader besides its topics.
    fn user_data(&self, owned: &[TopicPartition]) -> Option<Vec<u8>>;

    /// Of the leader: an assignment for each member, in their order. A topic that is not in `topics` has no partitions.
    fn assign(&self, topics: &Topics, members: &[Member]) -> Vec<Assignment>;

    /// Of each member: what the leader has given it, before it hears of partitions that come and go. A true answer asks
    /// for another rebalance at once.
    fn assigned(&self, assignment: &Assignment) -> bool;
}

/// What the leader gives to a member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    /// Its partitions.
    pub partitions: Vec<TopicPartition>,
    /// Whatever the assignor adds.
    pub user_data: Option<Vec<u8>>,
}

impl From<Vec<TopicPartition>> for Assignment {
    fn from(partitions: Vec<TopicPartition>) -> Self {
        Self {
            partitions,
            user_data: None,
        }
    }
}

impl PartialEq for Assignor {
    /// Assignors are known by their names, as in the protocol.
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Assignor {}

impl Assignor {
    /// Every assignor of this crate.
    pub const ALL: [Self; 4] = [
        Self::Range,
        Self::RoundRobin,
        Self::Sticky,
        Self::CooperativeSticky,
    ];

    /// The name in the protocol.
    pub fn name(&self) -> &str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
            Self::Other(assignor) => assignor.name(),
        }
    }

    /// The assignor of a name in the protocol, or of the Java class that has it.
    pub fn from_name(name: &str) -> Option<Self> {
        let class = name.strip_prefix("org.apache.kafka.clients.consumer.");
        Self::ALL.into_iter().find(|assignor| {
            assignor.name() == name
                || class
                    == Some(match assignor {
                        Self::Range => "RangeAssignor",
                        Self::RoundRobin => "RoundRobinAssignor",
                        Self::Sticky => "StickyAssignor",
                        Self::CooperativeSticky => "CooperativeStickyAssignor",
                        Self::Other(_) => return false,
                    })
        })
    }

    /// Whether members that use it may keep their partitions while they rejoin.
    pub fn is_cooperative(&self) -> bool {
        match self {
            Self::CooperativeSticky => true,
            Self::Range | Self::RoundRobin | Self::Sticky => false,
            Self::Other(assignor) => assignor.is_cooperative(),
        }
    }

    /// What the member tells its leader besides its topics: the sticky assignors remember.
    pub fn user_data(&self, assigned: &[TopicPartition], generation_id: i32) -> Option<Vec<u8>> {
        match self {
            Self::Range | Self::RoundRobin => None,
            Self::Sticky => (generation_id >= 0)
                .then(|| protocol::encode_sticky_user_data(assigned, generation_id)),
            Self::CooperativeSticky => Some(generation_id.to_be_bytes().to_vec()),
            Self::Other(assignor) => assignor.user_data(assigned),
        }
    }

    /// Assigns the partitions of `topics` to `members`: one sorted list for each member, in their
    /// order. A topic that a member subscribes to and that is not in `topics` is passed over.
    pub fn assign(&self, topics: &Topics, members: &[Member]) -> Vec<Assignment> {
        if let Self::Other(assignor) = self {
            return assignor.assign(topics, members);
        }
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|index| &members[*index].member_id);
        let sorted: Vec<&Member> = order.iter().map(|index| &members[*index]).collect();
        let problem = Problem::new(topics, &sorted);
        let lists = match self {
            Self::Range => range::assign(&problem),
            Self::RoundRobin => round_robin::assign(&problem),
            Self::Sticky | Self::CooperativeSticky | Self::Other(_) => {
                sticky::assign(&problem, self)
            }
        };
        let mut assignment = vec![Assignment::default(); members.len()];
        for (index, mut list) in order.into_iter().zip(lists) {
            list.sort_unstable();
            assignment[index].partitions = list.into_iter().map(|p| problem.name(p)).collect();
        }
        assignment
    }
}

impl fmt::Display for Assignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The partitions of each topic by index, each with the racks that have a replica of it.
pub type Topics = BTreeMap<String, Vec<Vec<String>>>;

/// A member as the leader knows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// The coordinator's name for it.
    pub member_id: String,
    /// The name that a static member gave itself.
    pub group_instance_id: Option<String>,
    /// What it asks for.
    pub subscription: Subscription,
}

/// What a member tells about itself when it joins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subscription {
    /// Topics by name.
    pub topics: Vec<String>,
    /// Whatever the assignor adds.
    pub user_data: Option<Vec<u8>>,
    /// What a cooperative member has kept (since version 1).
    pub owned_partitions: Vec<TopicPartition>,
    /// The generation of those (since version 2); -1 for none.
    pub generation_id: i32,
    /// `client.rack` (since version 3).
    pub rack_id: Option<String>,
}

#[cfg(test)]
mod tests;
