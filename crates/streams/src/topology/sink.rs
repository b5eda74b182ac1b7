//! Sinks: nodes that write records to topics.

use crate::error::{BoxError, Failure};
use crate::headers::Headers;
use crate::processor::{Origin, Partitioning, ProducedRecord, TaskContext};
use crate::record::{Data, Record, RecordContext};
use crate::serde::{DefaultSerde, SerdeRef};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// Chooses partitions of a topic for a key and a value, given how many there are. None leaves the choice to the
/// producer; no partition drops the record; several get a copy each.
pub type StreamPartitioner<K, V> = Arc<dyn Fn(&str, &K, &V, i32) -> Option<Vec<i32>> + Send + Sync>;

/// Chooses the topic of each record.
pub type TopicNameExtractor<K, V> = Arc<dyn Fn(&K, &V, &RecordContext) -> String + Send + Sync>;

/// How a topic is written.
pub struct Produced<K, V> {
    pub(crate) key_serde: SerdeRef<K>,
    pub(crate) value_serde: SerdeRef<V>,
    pub(crate) partitioner: Option<StreamPartitioner<K, V>>,
    pub(crate) name: Option<String>,
}

impl<K, V> Clone for Produced<K, V> {
    fn clone(&self) -> Self {
        Self {
            key_serde: Arc::clone(&self.key_serde),
            value_serde: Arc::clone(&self.value_serde),
            partitioner: self.partitioner.clone(),
            name: self.name.clone(),
        }
    }
}

impl<K, V> fmt::Debug for Produced<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Produced")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K: DefaultSerde, V: DefaultSerde> Default for Produced<K, V> {
    fn default() -> Self {
        Self::with(K::serde(), V::serde())
    }
}

impl<K, V> Produced<K, V> {
    /// Keys and values are written by these serdes.
    pub fn with(key_serde: SerdeRef<K>, value_serde: SerdeRef<V>) -> Self {
        Self {
            key_serde,
            value_serde,
            partitioner: None,
            name: None,
        }
    }

    /// Names the sink.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Chooses the partitions.
    #[must_use]
    pub fn with_stream_partitioner(mut self, partitioner: StreamPartitioner<K, V>) -> Self {
        self.partitioner = Some(partitioner);
        self
    }
}

/// Serializes records and gives them to the collector.
pub(crate) struct Sink<K, V> {
    pub(crate) produced: Produced<K, V>,
    pub(crate) topic: SinkTarget<K, V>,
}

/// The topic of a sink of a task.
pub(crate) enum SinkTarget<K, V> {
    Topic(Arc<str>),
    Extracted(TopicNameExtractor<K, V>),
}

impl<K: Data, V: Data> Sink<K, V> {
    pub(crate) fn write(
        &self,
        context: &mut TaskContext,
        record: Record<K, V>,
    ) -> Result<(), Failure> {
        let topic = match &self.topic {
            SinkTarget::Topic(topic) => Arc::clone(topic),
            SinkTarget::Extracted(extract) => {
                Arc::from(extract(&record.key, &record.value, &context.record))
            }
        };
        let mut headers = record.headers;
        let key = serialized(
            context,
            &self.produced.key_serde,
            &topic,
            &mut headers,
            &record.key,
        );
        let key = match key {
            Ok(key) => key,
            Err(error) => return context.handle_serialization_error(&topic, error),
        };
        let value = serialized(
            context,
            &self.produced.value_serde,
            &topic,
            &mut headers,
            &record.value,
        );
        let value = match value {
            Ok(value) => value,
            Err(error) => return context.handle_serialization_error(&topic, error),
        };
        let produced = ProducedRecord {
            partitioning: self.partitioning(key.as_ref()),
            topic,
            key,
            value,
            timestamp_ms: Some(record.timestamp_ms),
            headers,
            origin: Origin::Node(Arc::clone(context.node())),
            cause: context.record.clone(),
        };
        let Some(partitioner) = &self.produced.partitioner else {
            context.collector.push(produced);
            return Ok(());
        };
        let topic = Arc::clone(&produced.topic);
        let (key, value) = (record.key, record.value);
        let Some(count) = context.partition_counts.get(&topic).copied() else {
            let partitioner = Arc::clone(partitioner);
            let choice = move |count| partitioner(&topic, &key, &value, count);
            context.collector.push_undecided(produced, choice);
            return Ok(());
        };
        let chosen = partitioner(&topic, &key, &value, count);
        if !context.collector.push_to(produced, chosen) {
            context.drop_record();
        }
        Ok(())
    }

    fn partitioning(&self, key: Option<&Bytes>) -> Partitioning {
        let Some(key) = key else {
            return Partitioning::ByKey;
        };
        let partitioned = self.produced.key_serde.partitioned_bytes(key);
        match partitioned.len() == key.len() {
            true => Partitioning::ByKey,
            false => Partitioning::ByBytes(key.slice_ref(partitioned)),
        }
    }
}

/// The bytes of `value`; none when it is null.
pub(crate) fn serialized<T>(
    context: &mut TaskContext,
    serde: &SerdeRef<T>,
    topic: &str,
    headers: &mut Headers,
    value: &T,
) -> Result<Option<Bytes>, BoxError> {
    let mut scratch = context.take_scratch();
    let written = serde.serialize(topic, headers, value, &mut scratch);
    let bytes = match written {
        Ok(true) => Ok(Some(Bytes::copy_from_slice(&scratch))),
        Ok(false) => Ok(None),
        Err(error) => Err(error),
    };
    context.give_back(scratch);
    bytes
}
