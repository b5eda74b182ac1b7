//! Where the keys of an instance's application are, as whoever asks an instance hears it.

use super::KafkaStreams;
use crate::error::StreamsError;
use crate::headers::Headers;
use crate::runtime::invalid_state_store::InvalidStateStore;
use crate::runtime::metadata::{KeyQueryMetadata, Located, StreamsMetadata};
use crate::serde::Serde;
use riverrun_client::producer::partition_of_key;

impl KafkaStreams {
    /// What tells where the keys of a store are.
    fn located_of(&self, store: &str) -> Result<&Located, InvalidStateStore> {
        self.queried(store)?;
        self.located().ok_or_else(|| self.not_running(store))
    }

    /// Which instances have `key` of a store, if its topics are partitioned by the bytes of their keys, as producers do
    /// (murmur2). None while that is not known: the topics were not looked at yet.
    ///
    /// # Errors
    /// The topology has no such store, the instance does not run, or the key cannot be written.
    pub fn query_metadata_for_key<K>(
        &self,
        store: &str,
        key: &K,
        serde: &dyn Serde<K>,
    ) -> Result<Option<KeyQueryMetadata>, InvalidStateStore> {
        self.located_of(store)?.locate(store, |topic, count| {
            let mut bytes = Vec::new();
            let written = serde.serialize(topic, &mut Headers::new(), key, &mut bytes);
            match written {
                Ok(true) => {
                    let count = usize::try_from(count).unwrap_or(0).max(1);
                    let index = partition_of_key(serde.partitioned_bytes(&bytes), count);
                    Ok(i32::try_from(index).unwrap_or(i32::MAX))
                }
                Ok(false) => Err(StreamsError::Other("no store has a null key".to_owned())),
                Err(error) => Err(StreamsError::Other(format!(
                    "the key cannot be written: {error}"
                ))),
            }
        })
    }

    /// As `query_metadata_for_key`, where the application chooses partitions: `partition_of` gets the topic and how
    /// many partitions it has.
    ///
    /// # Errors
    /// The topology has no such store, or the instance does not run.
    pub fn query_metadata_for_partition_of(
        &self,
        store: &str,
        partition_of: impl FnOnce(&str, i32) -> i32,
    ) -> Result<Option<KeyQueryMetadata>, InvalidStateStore> {
        let partition_of = |topic: &str, count| Ok(partition_of(topic, count));
        self.located_of(store)?.locate(store, partition_of)
    }

    /// What each instance has that tells where it answers, as the group's leader has told this one last; nothing
    /// before that, and while the instance does not run.
    pub fn metadata_for_all_streams_clients(&self) -> Vec<StreamsMetadata> {
        self.located().map(Located::all).unwrap_or_default()
    }

    /// As `metadata_for_all_streams_clients`, of those that have a part of a store, or stand by for one.
    ///
    /// # Errors
    /// The topology has no such store, or the instance does not run.
    pub fn streams_metadata_for_store(
        &self,
        store: &str,
    ) -> Result<Vec<StreamsMetadata>, InvalidStateStore> {
        Ok(self.located_of(store)?.those(|one| {
            one.state_store_names.contains(store) || one.standby_state_store_names.contains(store)
        }))
    }
}
