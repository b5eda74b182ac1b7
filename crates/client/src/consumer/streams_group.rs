//! A member of a streams group (KIP-1071): what it tells of its topology, and what it hears of its tasks.
//!
//! The coordinator knows the topology, makes the internal topics and assigns tasks: pairs of a sub-topology and a
//! partition. A consumer that is such a member ([`Consumer::of_streams_group`](super::Consumer::of_streams_group))
//! reads the inputs of the active tasks; its [`StreamsListener`] hears of all tasks, those that stand by too.

use model::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Partitions of tasks by the ids of their sub-topologies.
pub type TaskSet = BTreeMap<String, BTreeSet<i32>>;

/// What the members of a streams group run; all of them tell the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamsTopology {
    /// Which topology of the application it is.
    pub epoch: i32,
    /// Its parts, in the order of their ids as text.
    pub subtopologies: Vec<StreamsSubtopology>,
}

/// A part of a topology whose nodes are connected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamsSubtopology {
    /// Its number, as text.
    pub id: String,
    /// Topics that it reads and the application does not make, sorted.
    pub source_topics: Vec<String>,
    /// Regular expressions (RE2) of such topics.
    pub source_topic_patterns: Vec<String>,
    /// Changelogs of its stores, sorted by name.
    pub state_changelog_topics: Vec<StreamsTopic>,
    /// Topics that it writes, sorted.
    pub sink_topics: Vec<String>,
    /// Topics that it reads and the coordinator makes, sorted by name.
    pub repartition_source_topics: Vec<StreamsTopic>,
    /// Topics that must have as many partitions each.
    pub copartition_groups: Vec<CopartitionGroup>,
}

impl StreamsSubtopology {
    /// All topics that its tasks read.
    fn inputs(&self) -> impl Iterator<Item = &String> {
        let repartitions = self.repartition_source_topics.iter();
        self.source_topics
            .iter()
            .chain(repartitions.map(|topic| &topic.name))
    }
}

/// A topic that the coordinator makes for the application.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamsTopic {
    /// Its name.
    pub name: String,
    /// How many partitions it has; 0 leaves that to the coordinator.
    pub partition_count: i32,
    /// How many replicas; -1 for the broker's default.
    pub replication_factor: i16,
    /// Its configuration.
    pub configs: BTreeMap<String, String>,
}

/// Topics of a sub-topology whose records of one key meet, by their places in its lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopartitionGroup {
    /// Places in [`StreamsSubtopology::source_topics`].
    pub source_topics: Vec<i16>,
    /// Places in [`StreamsSubtopology::source_topic_patterns`].
    pub source_topic_patterns: Vec<i16>,
    /// Places in [`StreamsSubtopology::repartition_source_topics`].
    pub repartition_source_topics: Vec<i16>,
}

/// Tasks of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamsTasks {
    /// Those that process.
    pub active: TaskSet,
    /// Those whose stores follow their changelogs.
    pub standby: TaskSet,
    /// Standby tasks that are to process once they have caught up.
    pub warmup: TaskSet,
}

/// What a status of a group means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamsStatusCode {
    /// The member's topology is older than the group's.
    StaleTopology,
    /// Source topics do not exist.
    MissingSourceTopics,
    /// Topics whose records meet have different numbers of partitions, or internal topics have not the number that
    /// they need.
    IncorrectlyPartitionedTopics,
    /// Internal topics are being made.
    MissingInternalTopics,
    /// A member asks for the end of all.
    ShutdownApplication,
    /// Tasks are assigned later, when more members may have come.
    AssignmentDelayed,
    /// Another one.
    Other(i8),
}

impl StreamsStatusCode {
    pub(super) const fn of(code: i8) -> Self {
        match code {
            0 => Self::StaleTopology,
            1 => Self::MissingSourceTopics,
            2 => Self::IncorrectlyPartitionedTopics,
            3 => Self::MissingInternalTopics,
            4 => Self::ShutdownApplication,
            5 => Self::AssignmentDelayed,
            other => Self::Other(other),
        }
    }
}

/// How the group stands, as its coordinator says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsStatus {
    /// What it means.
    pub code: StreamsStatusCode,
    /// The coordinator's words.
    pub detail: String,
}

/// What members have that tell where they answer: see [`StreamsMember::user_endpoint`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsEndpoint {
    /// Where they answer.
    pub host: String,
    /// Where they answer.
    pub port: u16,
    /// The partitions that their active tasks read.
    pub active: Vec<TopicPartition>,
    /// The partitions that their standby tasks would read.
    pub standby: Vec<TopicPartition>,
}

/// Hears of the tasks of a member, within [`Consumer::poll`](super::Consumer::poll).
pub trait StreamsListener: Send + Sync {
    /// These are its tasks now. Comes after the partitions of active tasks that are no more its own were revoked, and
    /// before those of new ones are assigned.
    fn assigned(&self, tasks: &StreamsTasks);

    /// So stands the group; nothing is wrong when there are none. The coordinator wants to hear of members once in
    /// `heartbeat_interval`.
    fn statuses(&self, statuses: &[StreamsStatus], heartbeat_interval: Duration);

    /// These are all endpoints of the group, as the coordinator knows them now.
    fn endpoints(&self, endpoints: &[StreamsEndpoint]);
}

/// What a member of a streams group is.
#[derive(Clone)]
pub struct StreamsMember {
    /// What it runs.
    pub topology: StreamsTopology,
    /// The process that it is a thread of: a task and its standbys go to different ones.
    pub process_id: String,
    /// Where others reach its state stores: host and port.
    pub user_endpoint: Option<(String, u16)>,
    /// Where it is, for standbys elsewhere.
    pub client_tags: BTreeMap<String, String>,
    /// Hears of its tasks.
    pub listener: Arc<dyn StreamsListener>,
}

impl fmt::Debug for StreamsMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamsMember")
            .field("process_id", &self.process_id)
            .finish_non_exhaustive()
    }
}

impl StreamsMember {
    /// The topics that tasks of these sub-topologies read.
    pub(super) fn inputs<'a>(
        topology: &'a StreamsTopology,
        subtopology: &str,
    ) -> impl Iterator<Item = &'a String> {
        let mut parts = topology.subtopologies.iter();
        parts
            .find(|part| part.id == subtopology)
            .into_iter()
            .flat_map(StreamsSubtopology::inputs)
    }
}
