//! The partitions that this broker hosts, by topic name and by topic id.
//!
//! Handlers look a topic up once and hold it for the request; a topic that is deleted meanwhile
//! answers as its closed logs do.

use config::TopicSettings;
use config::server::TransactionConfig;
use config::topic_settings::{TimestampType, TopicCompression};
use metadata::NO_LEADER;
use model::{BrokerId, ErrorCode, LeaderEpoch, Uuid};
use parking_lot::RwLock;
use record::{Codec, Compression, TargetCompression, ValidationRules};
use replication::{Partition, PartitionKey, Role, Roles, check_leader_epoch};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use storage::{CleanupPolicy, LogConfig};

/// Decompressed, a batch may be this many times `max.message.bytes`, and no more than the floor
/// below needs: a bomb costs a bounded amount of work.
const EXPANSION_MAX: usize = 1024;
/// What a batch may always expand to.
const EXPANSION_FLOOR_BYTES: usize = 64 * 1024 * 1024;

/// A topic with the partitions of it that are hosted here.
#[derive(Debug)]
pub(crate) struct HostedTopic {
    pub(crate) name: Arc<str>,
    pub(crate) id: Uuid,
    partitions: RwLock<TopicPartitions>,
    settings: RwLock<(Arc<TopicSettings>, ValidationRules)>,
    /// The settings as logs take them, once there is a log.
    log_config: RwLock<Option<Arc<LogConfig>>>,
}

#[derive(Debug, Default)]
struct TopicPartitions {
    /// Those with a log, by index.
    hosted: Vec<Arc<Partition>>,
    /// Those of a log directory that is lost: clients are not let to them, log or not.
    lost: BTreeMap<i32, Unavailable>,
    /// What the metadata have this broker be, log or not.
    roles: BTreeMap<i32, Role>,
}

/// Why a partition cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// There is no topic of this id.
    UnknownTopicId,
    /// There is no topic of this name, or no such partition in it.
    Unknown,
    /// Its log directory could not be used when the server started: this broker does not lead it, whatever
    /// the metadata say.
    NotLed {
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
    },
    /// Its replicas are on other brokers, as far as the metadata say.
    Elsewhere {
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
    },
    /// Its log directory has failed since.
    Offline,
    /// Its log is not made yet, as its disk is late.
    Unmade,
}

impl Unavailable {
    /// That of a partition with a role, which this broker cannot fill.
    pub(crate) fn not_led(role: &Role) -> Self {
        Self::NotLed {
            leader: role.leader(NO_LEADER),
            leader_epoch: role.leader_epoch().unwrap_or(LeaderEpoch::NONE),
        }
    }

    /// What a client is told that knows the leader of `current_leader_epoch`; -1 does not say.
    pub(crate) fn code_for(self, current_leader_epoch: LeaderEpoch) -> ErrorCode {
        match self {
            Self::UnknownTopicId => ErrorCode::UnknownTopicId,
            Self::Unknown => ErrorCode::UnknownTopicOrPartition,
            Self::NotLed { leader_epoch, .. } => {
                let checked = check_leader_epoch(leader_epoch, current_leader_epoch);
                checked.err().unwrap_or(ErrorCode::NotLeaderOrFollower)
            }
            Self::Offline => ErrorCode::KafkaStorageError,
            // As a broker of Kafka says, which looks at no epoch where it has no replica; and which does not know
            // yet what the metadata have.
            Self::Elsewhere { .. } | Self::Unmade => ErrorCode::NotLeaderOrFollower,
        }
    }

    /// The leader, if there is one, and its epoch, where that is known.
    pub(crate) const fn current_leader(self) -> Option<(BrokerId, LeaderEpoch)> {
        match self {
            Self::NotLed {
                leader,
                leader_epoch,
            }
            | Self::Elsewhere {
                leader,
                leader_epoch,
            } => Some((leader, leader_epoch)),
            Self::UnknownTopicId | Self::Unknown | Self::Offline | Self::Unmade => None,
        }
    }

    /// Whether there is no such partition in the cluster.
    pub(crate) const fn is_unknown(self) -> bool {
        matches!(self, Self::UnknownTopicId | Self::Unknown)
    }
}

impl From<Unavailable> for ErrorCode {
    fn from(absence: Unavailable) -> Self {
        absence.code_for(LeaderEpoch::NONE)
    }
}

impl HostedTopic {
    pub(crate) fn new(name: Arc<str>, id: Uuid, settings: TopicSettings) -> Self {
        let rules = rules_of(&settings);
        let settings = RwLock::new((Arc::new(settings), rules));
        Self {
            name,
            id,
            partitions: RwLock::default(),
            settings,
            log_config: RwLock::default(),
        }
    }

    /// The partition of this index, for a client.
    ///
    /// # Errors
    /// Why clients are not let to it.
    pub(crate) fn find(&self, index: i32) -> Result<Arc<Partition>, Unavailable> {
        let partitions = self.partitions.read();
        match partitions.lost.get(&index) {
            Some(absence) => Err(*absence),
            None => partitions.get(index).ok_or(Unavailable::Unknown),
        }
    }

    /// The partition of this index, if it has a log here.
    pub(crate) fn partition(&self, index: i32) -> Option<Arc<Partition>> {
        self.partitions.read().get(index)
    }

    /// Every partition hosted here.
    pub(crate) fn partitions(&self) -> Vec<Arc<Partition>> {
        self.partitions.read().hosted.clone()
    }

    /// The role that the metadata give this broker.
    pub(crate) fn role(&self, index: i32) -> Role {
        let partitions = self.partitions.read();
        partitions.roles.get(&index).cloned().unwrap_or(Role::None)
    }

    /// Keeps in mind which role the metadata give this broker.
    pub(crate) fn set_role(&self, index: i32, role: Role) {
        self.partitions.write().roles.insert(index, role);
    }

    /// Forgets the partitions of these indexes, all at once. Gives those that have a log.
    pub(crate) fn remove_all(&self, indexes: &BTreeSet<i32>) -> Vec<Arc<Partition>> {
        let mut partitions = self.partitions.write();
        for index in indexes {
            partitions.roles.remove(index);
            partitions.lost.remove(index);
        }
        let is_gone = |one: &Arc<Partition>| indexes.contains(&one.index());
        let hosted = std::mem::take(&mut partitions.hosted).into_iter();
        let (gone, kept) = hosted.partition(is_gone);
        partitions.hosted = kept;
        gone
    }

    pub(crate) fn add(&self, partition: Arc<Partition>) {
        let mut partitions = self.partitions.write();
        let index = partition.index();
        let at = partitions.hosted.partition_point(|one| one.index() < index);
        partitions.hosted.insert(at, partition);
    }

    /// Lets no client to a partition any more.
    pub(crate) fn lose(&self, index: i32, absence: Unavailable) {
        self.partitions.write().lost.insert(index, absence);
    }

    /// Lets clients to a partition again.
    pub(crate) fn regain(&self, index: i32) {
        self.partitions.write().lost.remove(&index);
    }

    /// Why clients are not let to a partition that the cluster has.
    pub(crate) fn loss_of(&self, index: i32) -> Option<Unavailable> {
        self.partitions.read().lost.get(&index).copied()
    }

    /// The settings in force.
    pub(crate) fn settings(&self) -> Arc<TopicSettings> {
        self.settings.read().0.clone()
    }

    /// The settings in force as logs take them, the same value for all of them.
    pub(crate) fn log_config(&self, transactions: &TransactionConfig) -> Arc<LogConfig> {
        let mut known = self.log_config.write();
        let made =
            known.get_or_insert_with(|| Arc::new(log_config(&self.settings(), transactions)));
        made.clone()
    }

    /// What a produced batch must obey.
    pub(crate) fn rules(&self) -> ValidationRules {
        self.settings.read().1
    }

    /// Obeys other settings from the next request on; each log is to be told of its own.
    pub(crate) fn set_settings(&self, settings: &TopicSettings, transactions: &TransactionConfig) {
        *self.settings.write() = (Arc::new(settings.clone()), rules_of(settings));
        *self.log_config.write() = Some(Arc::new(log_config(settings, transactions)));
    }
}

impl TopicPartitions {
    fn get(&self, index: i32) -> Option<Arc<Partition>> {
        match self.hosted.get(usize::try_from(index).ok()?) {
            Some(partition) if partition.index() == index => Some(partition.clone()),
            // Only a topic of which some partitions are elsewhere has gaps.
            _ => self.hosted.iter().find(|one| one.index() == index).cloned(),
        }
    }
}

/// The topics of this broker.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    topics: RwLock<Topics>,
}

#[derive(Debug, Default)]
struct Topics {
    by_name: HashMap<Arc<str>, Arc<HostedTopic>>,
    by_id: HashMap<Uuid, Arc<HostedTopic>>,
}

impl Partitions {
    /// The topic of this name.
    pub(crate) fn topic(&self, name: &str) -> Option<Arc<HostedTopic>> {
        self.topics.read().by_name.get(name).cloned()
    }

    /// The topic of this id.
    pub(crate) fn topic_by_id(&self, id: Uuid) -> Option<Arc<HostedTopic>> {
        self.topics.read().by_id.get(&id).cloned()
    }

    /// A partition by topic name and index, for a client.
    ///
    /// # Errors
    /// Why clients are not let to it.
    pub(crate) fn find(&self, name: &str, index: i32) -> Result<Arc<Partition>, Unavailable> {
        self.topic(name).ok_or(Unavailable::Unknown)?.find(index)
    }

    /// Every topic, in the order of their names.
    pub(crate) fn all_topics(&self) -> Vec<Arc<HostedTopic>> {
        let mut topics: Vec<_> = self.topics.read().by_name.values().cloned().collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        topics
    }

    /// A partition by topic id and index, if it has a log here.
    pub(crate) fn by_key(&self, (topic_id, index): PartitionKey) -> Option<Arc<Partition>> {
        self.topic_by_id(topic_id)?.partition(index)
    }

    /// Every partition, in the order of topic names and indexes.
    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<Partition>> + use<> {
        let topics = self.all_topics().into_iter();
        topics.flat_map(|topic| topic.partitions())
    }

    pub(crate) fn insert(&self, topic: Arc<HostedTopic>) {
        let mut topics = self.topics.write();
        topics.by_id.insert(topic.id, topic.clone());
        topics.by_name.insert(topic.name.clone(), topic);
    }

    pub(crate) fn remove(&self, id: Uuid) -> Option<Arc<HostedTopic>> {
        let mut topics = self.topics.write();
        let topic = topics.by_id.remove(&id)?;
        if topics
            .by_name
            .get(&topic.name)
            .is_some_and(|one| one.id == id)
        {
            topics.by_name.remove(&topic.name);
        }
        Some(topic)
    }
}

impl Roles for Partitions {
    fn role(&self, key: PartitionKey) -> Role {
        let topic = self.topic_by_id(key.0);
        topic.map_or(Role::None, |topic| topic.role(key.1))
    }

    fn keys(&self) -> Vec<PartitionKey> {
        let topics = self.topics.read();
        let keys = topics.by_id.iter().flat_map(|(id, topic)| {
            let partitions = topic.partitions.read();
            let indexes: Vec<i32> = partitions.roles.keys().copied().collect();
            indexes.into_iter().map(|index| (*id, index))
        });
        keys.collect()
    }
}

/// The codec that the topic keeps its batches in.
fn target_compression(compression: TopicCompression) -> TargetCompression {
    let codec = |compression, level| TargetCompression::Codec(Codec { compression, level });
    match compression {
        TopicCompression::Producer => TargetCompression::Producer,
        TopicCompression::Uncompressed => TargetCompression::Codec(Compression::None.into()),
        TopicCompression::Gzip(level) => codec(Compression::Gzip, level),
        TopicCompression::Snappy => TargetCompression::Codec(Compression::Snappy.into()),
        TopicCompression::Lz4(level) => codec(Compression::Lz4, level),
        TopicCompression::Zstd(level) => codec(Compression::Zstd, level),
    }
}

fn timestamp_type(of_topic: TimestampType) -> record::TimestampType {
    match of_topic {
        TimestampType::CreateTime => record::TimestampType::CreateTime,
        TimestampType::LogAppendTime => record::TimestampType::LogAppendTime,
    }
}

fn rules_of(settings: &TopicSettings) -> ValidationRules {
    let max_message_bytes = settings.max_message_bytes.max(0) as usize;
    ValidationRules {
        max_message_bytes,
        timestamp_type: timestamp_type(settings.message_timestamp_type),
        timestamp_before_max_ms: settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms: settings.message_timestamp_after_max_ms,
        is_compacted: settings.cleanup_policy.compact,
        compression: target_compression(settings.compression),
        decompressed_max_bytes: max_message_bytes
            .saturating_mul(EXPANSION_MAX)
            .clamp(EXPANSION_FLOOR_BYTES, i32::MAX as usize),
    }
}

/// The settings of a topic, and of the broker's producers, as a log takes them.
pub(crate) fn log_config(settings: &TopicSettings, transactions: &TransactionConfig) -> LogConfig {
    LogConfig {
        segment_bytes: settings.segment_bytes as u32,
        segment_ms: settings.segment_ms,
        segment_jitter_ms: settings.segment_jitter_ms,
        segment_index_bytes: settings.segment_index_bytes as u32,
        index_interval_bytes: settings.index_interval_bytes as u32,
        retention_ms: settings.retention_ms,
        retention_bytes: settings.retention_bytes,
        max_message_bytes: settings.max_message_bytes as u32,
        flush_messages: settings.flush_messages,
        flush_ms: settings.flush_ms,
        file_delete_delay_ms: settings.file_delete_delay_ms,
        cleanup_policy: CleanupPolicy {
            delete: settings.cleanup_policy.delete,
            compact: settings.cleanup_policy.compact,
        },
        timestamp_type: timestamp_type(settings.message_timestamp_type),
        timestamp_before_max_ms: settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms: settings.message_timestamp_after_max_ms,
        compression: match target_compression(settings.compression) {
            TargetCompression::Producer => None,
            TargetCompression::Codec(codec) => Some(codec),
        },
        min_cleanable_dirty_ratio: settings.min_cleanable_dirty_ratio,
        min_compaction_lag_ms: settings.min_compaction_lag_ms,
        max_compaction_lag_ms: settings.max_compaction_lag_ms,
        delete_retention_ms: settings.delete_retention_ms,
        min_insync_replicas: settings.min_insync_replicas.max(1).unsigned_abs(),
        producer_id_expiration_ms: i64::from(transactions.producer_id_expiration_ms),
        verify_transactions: transactions.partition_verification_enable,
    }
}
