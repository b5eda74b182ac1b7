//! The immutable image of the cluster's metadata, and replay, the one thing that makes a next one.

use crate::metadata_version::MetadataVersion;
use crate::{
    AclsImage, BrokerRegistrationChange, ClientQuotasImage, ClusterImage, ConfigResource,
    ConfigsImage, DelegationTokensImage, FeaturesImage, KRAFT_VERSION_FEATURE, MetadataRecord,
    Partition, PartitionChange, ScramImage, TopicsImage, client_quotas,
};
use model::{BrokerId, LeaderEpoch, Offset, ProducerId, Uuid};
use std::sync::Arc;

/// How far into the log an image goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provenance {
    /// The offset of the last record in the image, -1 before the first.
    pub last_offset: Offset,
    /// The leader epoch of that record.
    pub last_epoch: LeaderEpoch,
    /// When that record was appended, in milliseconds since the epoch.
    pub last_timestamp_ms: i64,
}

impl Provenance {
    /// That of the empty image.
    pub const EMPTY: Self = Self {
        last_offset: Offset::NONE,
        last_epoch: LeaderEpoch::NONE,
        last_timestamp_ms: -1,
    };
}

/// The metadata of the cluster as of an offset of its log.
///
/// A clone is a handful of pointers; what two images have in common they share. Brokers, the
/// controller and the tools read the same images.
#[derive(Debug, Clone, PartialEq)]
pub struct MetadataImage {
    /// How far into the log the image goes.
    pub provenance: Provenance,
    /// The finalized features.
    pub features: Arc<FeaturesImage>,
    /// The registered brokers and controllers.
    pub cluster: ClusterImage,
    /// The topics and their partitions.
    pub topics: TopicsImage,
    /// The dynamic configurations.
    pub configs: ConfigsImage,
    /// The client quotas.
    pub client_quotas: ClientQuotasImage,
    /// The first producer id that is still free; -1 before any was given out.
    pub next_producer_id: ProducerId,
    /// The access control entries.
    pub acls: AclsImage,
    /// The SCRAM credentials.
    pub scram: ScramImage,
    /// The delegation tokens.
    pub delegation_tokens: DelegationTokensImage,
}

impl Default for MetadataImage {
    fn default() -> Self {
        Self {
            provenance: Provenance::EMPTY,
            features: Arc::default(),
            cluster: ClusterImage::default(),
            topics: TopicsImage::default(),
            configs: ConfigsImage::default(),
            client_quotas: ClientQuotasImage::default(),
            next_producer_id: ProducerId::NONE,
            acls: AclsImage::default(),
            scram: ScramImage::default(),
            delegation_tokens: DelegationTokensImage::default(),
        }
    }
}

/// Why a record does not fit the image that it should change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The topic's name or id is taken.
    #[error("topic `{name}` with id {topic_id} exists already")]
    TopicExists {
        /// The topic's name.
        name: String,
        /// The topic's id.
        topic_id: Uuid,
    },
    /// Nothing can be called so in a log directory, or only the metadata log is.
    #[error("a topic cannot have the name `{name}`")]
    TopicName {
        /// The topic's name.
        name: String,
    },
    /// The index of a partition is negative.
    #[error("topic with id {topic_id} cannot have a partition {partition_id}")]
    PartitionIndex {
        /// The topic's id.
        topic_id: Uuid,
        /// The partition's index.
        partition_id: i32,
    },
    /// There is no topic of this id.
    #[error("there is no topic with id {topic_id}")]
    NoSuchTopic {
        /// The topic's id.
        topic_id: Uuid,
    },
    /// There is no topic of this name.
    #[error("there is no topic `{name}`")]
    NoSuchTopicName {
        /// The topic's name.
        name: String,
    },
    /// The topic has no such partition.
    #[error("topic with id {topic_id} has no partition {partition_id}")]
    NoSuchPartition {
        /// The topic's id.
        topic_id: Uuid,
        /// The partition's index.
        partition_id: i32,
    },
    /// There are not as many directories as replicas.
    #[error("partition {partition_id} of topic {topic_id} has not one directory per replica")]
    DirectoryCount {
        /// The topic's id.
        topic_id: Uuid,
        /// The partition's index.
        partition_id: i32,
    },
    /// The broker is not registered.
    #[error("broker {broker_id} is not registered")]
    NoSuchBroker {
        /// The broker's id.
        broker_id: BrokerId,
    },
    /// The record is about another registration of the broker.
    #[error("broker {broker_id} has epoch {epoch}, not {of_record}")]
    BrokerEpoch {
        /// The broker's id.
        broker_id: BrokerId,
        /// The epoch of the registration.
        epoch: model::BrokerEpoch,
        /// The epoch in the record.
        of_record: model::BrokerEpoch,
    },
    /// There is no access control entry of this id.
    #[error("there is no access control entry with id {id}")]
    NoSuchAcl {
        /// The entry's id.
        id: Uuid,
    },
    /// The cluster has a metadata version that this build does not know.
    #[error("metadata.version level {level} is not between 7 (3.3-IV3) and 30 (4.3-IV0)")]
    MetadataVersion {
        /// The level.
        level: i16,
    },
    /// Transactions are not replayed one record at a time.
    #[error("a metadata transaction begins or ends where none can")]
    Transaction,
}

/// Whether a topic's logs can have this name among the files of a node. No controller gives another one; its length is
/// for the file system to judge.
fn can_be_called(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_reserved = ["", ".", "..", "__cluster_metadata"].contains(&name);
    !is_reserved && name.bytes().all(is_legal)
}

impl MetadataImage {
    /// The metadata version, or the lowest one while none is finalized.
    pub fn metadata_version(&self) -> MetadataVersion {
        self.features
            .metadata_version()
            .unwrap_or(MetadataVersion::MINIMUM)
    }

    /// Whether the log has said nothing yet: no feature is finalized.
    pub fn is_empty(&self) -> bool {
        self.features.metadata_version().is_none()
    }

    /// Changes the image as `record` says. After an error the image is as it was.
    ///
    /// # Errors
    /// A [`ReplayError`] when the record does not fit the image, or is a part of a transaction's
    /// frame: those are for the [`crate::MetadataLoader`].
    pub fn replay(&mut self, record: &MetadataRecord) -> Result<(), ReplayError> {
        use MetadataRecord as Record;
        match record {
            Record::NoOp | Record::ZkMigrationState { .. } => {}
            Record::BeginTransaction { .. }
            | Record::EndTransaction
            | Record::AbortTransaction { .. } => return Err(ReplayError::Transaction),
            Record::FeatureLevel { name, level } => self.replay_feature_level(name, *level)?,
            Record::ProducerIds {
                next_producer_id, ..
            } => self.next_producer_id = *next_producer_id,
            Record::Topic { .. }
            | Record::Partition { .. }
            | Record::PartitionChange(_)
            | Record::RemoveTopic { .. }
            | Record::ClearElr { .. } => self.replay_topic(record)?,
            Record::RegisterBroker(_)
            | Record::UnregisterBroker { .. }
            | Record::FenceBroker { .. }
            | Record::UnfenceBroker { .. }
            | Record::BrokerRegistrationChange(_)
            | Record::RegisterController(_) => self.replay_node(record)?,
            Record::Config {
                resource,
                name,
                value,
            } => self.configs.set(resource, name, value.as_deref()),
            Record::ClientQuota { entity, key, value } => {
                client_quotas::set(&mut self.client_quotas, entity, key, *value);
            }
            Record::AccessControlEntry(_)
            | Record::RemoveAccessControlEntry { .. }
            | Record::UserScramCredential { .. }
            | Record::RemoveUserScramCredential(_)
            | Record::DelegationToken(_)
            | Record::RemoveDelegationToken { .. } => self.replay_security(record)?,
        }
        Ok(())
    }

    fn replay_feature_level(&mut self, name: &str, level: i16) -> Result<(), ReplayError> {
        match name {
            MetadataVersion::FEATURE => {
                let version = MetadataVersion::from_level(level)
                    .ok_or(ReplayError::MetadataVersion { level })?;
                Arc::make_mut(&mut self.features).metadata_version = Some(version);
            }
            // Some releases wrote it here; the control records of the quorum are what counts.
            KRAFT_VERSION_FEATURE => {}
            _ => {
                let features = Arc::make_mut(&mut self.features);
                if level == 0 {
                    features.levels.remove(name);
                } else {
                    features.levels.insert(name.to_owned(), level);
                }
            }
        }
        Ok(())
    }

    fn replay_topic(&mut self, record: &MetadataRecord) -> Result<(), ReplayError> {
        match record {
            MetadataRecord::Topic { name, topic_id } => {
                if !can_be_called(name) {
                    return Err(ReplayError::TopicName { name: name.clone() });
                }
                if !self.topics.create(name, *topic_id) {
                    return Err(ReplayError::TopicExists {
                        name: name.clone(),
                        topic_id: *topic_id,
                    });
                }
            }
            MetadataRecord::Partition {
                topic_id,
                partition_id,
                partition,
            } => self.set_partition(*topic_id, *partition_id, partition.clone())?,
            MetadataRecord::PartitionChange(change) => self.change_partition(change)?,
            MetadataRecord::RemoveTopic { topic_id } => {
                let topic = self
                    .topics
                    .remove(*topic_id)
                    .ok_or(ReplayError::NoSuchTopic {
                        topic_id: *topic_id,
                    })?;
                self.configs.remove(&ConfigResource::topic(&*topic.name));
            }
            MetadataRecord::ClearElr { topic_name } => {
                self.clear_eligible_leader_replicas(topic_name)?;
            }
            other => unreachable!("`replay` sends only topic records here, not {other:?}"),
        }
        Ok(())
    }

    fn set_partition(
        &mut self,
        topic_id: Uuid,
        partition_id: i32,
        partition: Partition,
    ) -> Result<(), ReplayError> {
        if partition_id < 0 {
            return Err(ReplayError::PartitionIndex {
                topic_id,
                partition_id,
            });
        }
        if partition.directories.len() != partition.replicas.len() {
            return Err(ReplayError::DirectoryCount {
                topic_id,
                partition_id,
            });
        }
        let topic = self
            .topics
            .topic_mut(topic_id)
            .ok_or(ReplayError::NoSuchTopic { topic_id })?;
        topic.set_partition(partition_id, partition);
        Ok(())
    }

    fn change_partition(&mut self, change: &PartitionChange) -> Result<(), ReplayError> {
        let (topic_id, partition_id) = (change.topic_id, change.partition_id);
        let topic = self
            .topics
            .by_id(topic_id)
            .ok_or(ReplayError::NoSuchTopic { topic_id })?;
        let partition = topic
            .partition(partition_id)
            .ok_or(ReplayError::NoSuchPartition {
                topic_id,
                partition_id,
            })?;
        let partition = partition.after(change);
        self.set_partition(topic_id, partition_id, partition)
    }

    fn clear_eligible_leader_replicas(&mut self, topic_name: &str) -> Result<(), ReplayError> {
        let topic_ids: Vec<Uuid> = if topic_name.is_empty() {
            self.topics.topics_by_id().keys().copied().collect()
        } else {
            let id = self
                .topics
                .id_of(topic_name)
                .ok_or_else(|| ReplayError::NoSuchTopicName {
                    name: topic_name.to_owned(),
                })?;
            vec![id]
        };
        for topic_id in topic_ids {
            for partition_id in self.partitions_with_eligible_leader_replicas(topic_id) {
                let mut change = PartitionChange::of(topic_id, partition_id);
                change.eligible_leader_replicas = Some(Vec::new());
                change.last_known_eligible_leader_replicas = Some(Vec::new());
                self.change_partition(&change)?;
            }
        }
        Ok(())
    }

    fn partitions_with_eligible_leader_replicas(&self, topic_id: Uuid) -> Vec<i32> {
        let Some(topic) = self.topics.by_id(topic_id) else {
            return Vec::new();
        };
        let partitions = topic.partitions.iter().filter(|(_, partition)| {
            !partition.eligible_leader_replicas.is_empty()
                || !partition.last_known_eligible_leader_replicas.is_empty()
        });
        partitions.map(|(id, _)| *id).collect()
    }

    fn replay_node(&mut self, record: &MetadataRecord) -> Result<(), ReplayError> {
        let fencing = |broker_id, broker_epoch, is_fenced| BrokerRegistrationChange {
            broker_id,
            broker_epoch,
            is_fenced: Some(is_fenced),
            ..BrokerRegistrationChange::default()
        };
        match record {
            MetadataRecord::RegisterBroker(broker) => {
                self.cluster
                    .brokers
                    .insert(broker.id, Arc::new(broker.clone()));
            }
            MetadataRecord::UnregisterBroker { broker_id, .. } => {
                self.cluster.brokers.remove(broker_id);
            }
            MetadataRecord::FenceBroker {
                broker_id,
                broker_epoch,
            } => self.change_broker(&fencing(*broker_id, *broker_epoch, true))?,
            MetadataRecord::UnfenceBroker {
                broker_id,
                broker_epoch,
            } => self.change_broker(&fencing(*broker_id, *broker_epoch, false))?,
            MetadataRecord::BrokerRegistrationChange(change) => self.change_broker(change)?,
            MetadataRecord::RegisterController(controller) => {
                self.cluster
                    .controllers
                    .insert(controller.id, Arc::new(controller.clone()));
            }
            other => unreachable!("`replay` sends only records of nodes here, not {other:?}"),
        }
        Ok(())
    }

    fn change_broker(&mut self, change: &BrokerRegistrationChange) -> Result<(), ReplayError> {
        let broker_id = change.broker_id;
        let broker = self
            .cluster
            .broker(broker_id)
            .ok_or(ReplayError::NoSuchBroker { broker_id })?;
        if broker.epoch != change.broker_epoch {
            return Err(ReplayError::BrokerEpoch {
                broker_id,
                epoch: broker.epoch,
                of_record: change.broker_epoch,
            });
        }
        let mut broker = (**broker).clone();
        broker.is_fenced = change.is_fenced.unwrap_or(broker.is_fenced);
        broker.is_in_controlled_shutdown |= change.enters_controlled_shutdown;
        if let Some(directories) = &change.directories {
            broker.directories.clone_from(directories);
        }
        if let Some(cordoned) = &change.cordoned_directories {
            broker.cordoned_directories = Some(cordoned.clone());
        }
        self.cluster.brokers.insert(broker_id, Arc::new(broker));
        Ok(())
    }

    fn replay_security(&mut self, record: &MetadataRecord) -> Result<(), ReplayError> {
        match record {
            MetadataRecord::AccessControlEntry(entry) => {
                self.acls.insert(entry.id, Arc::new(entry.clone()));
            }
            MetadataRecord::RemoveAccessControlEntry { id } => {
                self.acls
                    .remove(id)
                    .ok_or(ReplayError::NoSuchAcl { id: *id })?;
            }
            MetadataRecord::UserScramCredential { key, credential } => {
                self.scram.insert(key.clone(), Arc::new(credential.clone()));
            }
            MetadataRecord::RemoveUserScramCredential(key) => {
                self.scram.remove(key);
            }
            MetadataRecord::DelegationToken(token) => {
                self.delegation_tokens
                    .insert(token.token_id.clone(), Arc::new(token.clone()));
            }
            MetadataRecord::RemoveDelegationToken { token_id } => {
                self.delegation_tokens.remove(token_id);
            }
            other => unreachable!("`replay` sends only records of security here, not {other:?}"),
        }
        Ok(())
    }
}
