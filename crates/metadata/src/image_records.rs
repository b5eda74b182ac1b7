//! An image as records: those that make the same image out of nothing.
//!
//! The order is Kafka's: features (the metadata version first, for it rules how the others are
//! written), nodes, topics with their partitions, configurations, quotas, producer ids, access
//! control entries, credentials, tokens. What the metadata version does not know is left out.

use crate::image::MetadataImage;
use crate::metadata_version::MetadataVersion;
use crate::record::MetadataRecord as Record;
use model::{BrokerEpoch, BrokerId};

/// Receives the records one by one.
type Push<'p, E> = &'p mut dyn FnMut(&Record) -> Result<(), E>;

impl MetadataImage {
    /// Calls `push` with the records that make this image.
    ///
    /// # Errors
    /// What `push` fails with; it is not called again.
    pub fn records<E>(&self, push: Push<'_, E>) -> Result<(), E> {
        self.feature_records(push)?;
        self.node_records(push)?;
        self.topic_records(push)?;
        self.config_records(push)?;
        self.security_records(push)
    }

    fn feature_records<E>(&self, push: Push<'_, E>) -> Result<(), E> {
        if let Some(version) = self.features.metadata_version() {
            push(&Record::FeatureLevel {
                name: MetadataVersion::FEATURE.to_owned(),
                level: version.level(),
            })?;
        }
        for (name, level) in self.features.levels() {
            push(&Record::FeatureLevel {
                name: name.clone(),
                level: *level,
            })?;
        }
        Ok(())
    }

    fn node_records<E>(&self, push: Push<'_, E>) -> Result<(), E> {
        for broker in self.cluster.brokers().values() {
            push(&Record::RegisterBroker((**broker).clone()))?;
        }
        if self.metadata_version().supports_controller_registration() {
            for controller in self.cluster.controllers().values() {
                push(&Record::RegisterController((**controller).clone()))?;
            }
        }
        Ok(())
    }

    fn topic_records<E>(&self, push: Push<'_, E>) -> Result<(), E> {
        for (topic_id, topic) in self.topics.topics_by_id() {
            push(&Record::Topic {
                name: topic.name.to_string(),
                topic_id: *topic_id,
            })?;
            for (partition_id, partition) in &topic.partitions {
                push(&Record::Partition {
                    topic_id: *topic_id,
                    partition_id: *partition_id,
                    partition: (**partition).clone(),
                })?;
            }
        }
        Ok(())
    }

    fn config_records<E>(&self, push: Push<'_, E>) -> Result<(), E> {
        for (resource, config) in self.configs.by_resource() {
            for (name, value) in &**config {
                push(&Record::Config {
                    resource: resource.clone(),
                    name: name.clone(),
                    value: Some(value.clone()),
                })?;
            }
        }
        for (entity, quotas) in &self.client_quotas {
            for (key, value) in &**quotas {
                push(&Record::ClientQuota {
                    entity: entity.clone(),
                    key: key.clone(),
                    value: Some(*value),
                })?;
            }
        }
        if !self.next_producer_id.is_none() {
            push(&Record::ProducerIds {
                broker_id: BrokerId::NONE,
                broker_epoch: BrokerEpoch::NONE,
                next_producer_id: self.next_producer_id,
            })?;
        }
        Ok(())
    }

    fn security_records<E>(&self, push: Push<'_, E>) -> Result<(), E> {
        for entry in self.acls.values() {
            push(&Record::AccessControlEntry((**entry).clone()))?;
        }
        let version = self.metadata_version();
        if version.supports_scram() {
            for (key, credential) in &self.scram {
                push(&Record::UserScramCredential {
                    key: key.clone(),
                    credential: (**credential).clone(),
                })?;
            }
        }
        if version.supports_delegation_tokens() {
            for token in self.delegation_tokens.values() {
                push(&Record::DelegationToken((**token).clone()))?;
            }
        }
        Ok(())
    }
}
