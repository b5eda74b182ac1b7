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

/// How the leader of a classic group spreads partitions (`partition.assignment.strategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
}

impl Assignor {
    /// Every assignor.
    pub const ALL: [Self; 4] = [
        Self::Range,
        Self::RoundRobin,
        Self::Sticky,
        Self::CooperativeSticky,
    ];

    /// The name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
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
                    })
        })
    }

    /// Whether members that use it may keep their partitions while they rejoin.
    pub const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// What the member tells its leader besides its topics: the sticky assignors remember.
    pub fn user_data(self, assigned: &[TopicPartition], generation_id: i32) -> Option<Vec<u8>> {
        match self {
            Self::Range | Self::RoundRobin => None,
            Self::Sticky => (generation_id >= 0)
                .then(|| protocol::encode_sticky_user_data(assigned, generation_id)),
            Self::CooperativeSticky => Some(generation_id.to_be_bytes().to_vec()),
        }
    }

    /// Assigns the partitions of `topics` to `members`: one sorted list for each member, in their
    /// order. A topic that a member subscribes to and that is not in `topics` is passed over.
    pub fn assign(self, topics: &Topics, members: &[Member]) -> Vec<Vec<TopicPartition>> {
        let mut order: Vec<usize> = (0..members.len()).collect();
        order.sort_by_key(|index| &members[*index].member_id);
        let sorted: Vec<&Member> = order.iter().map(|index| &members[*index]).collect();
        let problem = Problem::new(topics, &sorted);
        let lists = match self {
            Self::Range => range::assign(&problem),
            Self::RoundRobin => round_robin::assign(&problem),
            Self::Sticky | Self::CooperativeSticky => sticky::assign(&problem, self),
        };
        let mut assignment = vec![Vec::new(); members.len()];
        for (index, mut list) in order.into_iter().zip(lists) {
            list.sort_unstable();
            assignment[index] = list.into_iter().map(|p| problem.name(p)).collect();
        }
        assignment
    }
}

impl std::fmt::Display for Assignor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
