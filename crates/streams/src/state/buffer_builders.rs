//! The builders of what the DSL keeps beside tables: outer join stores, suppress buffers, grace buffers.

use super::codec::Codec;
use super::format::RowFormat;
use super::grace_buffer::GraceBuffer;
use super::opening::{CLEANUP_POLICY, COMPACT, Kind, Opening, Wishes};
use super::outer_join::{JoinSerdes, OuterJoinStore};
use super::state_store::{BuiltStore, ChangelogConfig, StoreBuilder, StoreBuilding};
use super::suppliers::StoreType;
use super::suppress_buffer::SuppressBuffer;
use crate::error::StreamsError;
use crate::serde::SerdeRef;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Configuration of a changelog; none when changes are not logged.
type Logging = Option<BTreeMap<String, String>>;

fn compacted<K, V>(wishes: &Wishes<K, V>) -> Option<ChangelogConfig> {
    wishes.changelog(&[(CLEANUP_POLICY, COMPACT.to_owned())], None)
}

fn logging<K, V>(mut wishes: Wishes<K, V>, logging: Logging) -> Wishes<K, V> {
    wishes.logging = logging;
    wishes
}

/// Makes the stores of outer stream-stream joins.
pub(crate) struct OuterJoinStoreBuilder<K, L, R> {
    name: Arc<str>,
    store_type: StoreType,
    serdes: JoinSerdes<K, L, R>,
    wishes: Wishes<K, L>,
}

impl<K, L, R> OuterJoinStoreBuilder<K, L, R> {
    pub(crate) fn new(
        name: &str,
        store_type: StoreType,
        serdes: JoinSerdes<K, L, R>,
        changelog: Logging,
    ) -> Self {
        let wishes = Wishes::new(Arc::clone(&serdes.key), Arc::clone(&serdes.left));
        Self {
            name: Arc::from(name),
            store_type,
            serdes,
            wishes: logging(wishes, changelog),
        }
    }
}

impl<K: 'static, L: 'static, R: 'static> StoreBuilder for OuterJoinStoreBuilder<K, L, R> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        compacted(&self.wishes)
    }

    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        let opening = Opening {
            wishes: &self.wishes,
            building,
            store: &self.name,
            kind: Kind::KeyValue,
            format: RowFormat::Plain,
            rows_format: RowFormat::Plain,
        };
        let bytes = opening.open(self.store_type)?;
        let Codec { topic, .. } = self.wishes.codec(building, &self.name, RowFormat::Plain);
        Ok(BuiltStore::new(OuterJoinStore::new(
            &self.name,
            topic,
            self.serdes.clone(),
            bytes,
        )))
    }
}

/// Makes the buffers of suppress.
pub(crate) struct SuppressBufferBuilder<K, V> {
    name: Arc<str>,
    wishes: Wishes<K, V>,
}

impl<K, V> SuppressBufferBuilder<K, V> {
    pub(crate) fn new(
        name: &str,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
        changelog: Logging,
    ) -> Self {
        Self {
            name: Arc::from(name),
            wishes: logging(Wishes::new(key, value), changelog),
        }
    }
}

impl<K: 'static, V: 'static> StoreBuilder for SuppressBufferBuilder<K, V> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        compacted(&self.wishes)
    }

    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        let codec = self.wishes.codec(building, &self.name, RowFormat::Plain);
        let changelog = self.wishes.log(building, &self.name);
        Ok(BuiltStore::new(SuppressBuffer::new(
            &self.name, codec, changelog,
        )))
    }
}

/// Makes the buffers of stream-table joins with grace.
pub(crate) struct GraceBufferBuilder<K, V> {
    name: Arc<str>,
    store_type: StoreType,
    grace_ms: i64,
    wishes: Wishes<K, V>,
}

impl<K, V> GraceBufferBuilder<K, V> {
    pub(crate) fn new(
        name: &str,
        store_type: StoreType,
        grace_ms: i64,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
        changelog: Logging,
    ) -> Self {
        Self {
            name: Arc::from(name),
            store_type,
            grace_ms,
            wishes: logging(Wishes::new(key, value), changelog),
        }
    }
}

impl<K: 'static, V: 'static> StoreBuilder for GraceBufferBuilder<K, V> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        compacted(&self.wishes)
    }

    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        // The buffer writes its changelog itself, whose values have a time behind what a row has.
        let silent = logging(
            Wishes::new(Arc::clone(&self.wishes.key), Arc::clone(&self.wishes.value)),
            None,
        );
        let opening = Opening {
            wishes: &silent,
            building,
            store: &self.name,
            kind: Kind::KeyValue,
            format: RowFormat::Plain,
            rows_format: RowFormat::Plain,
        };
        let rows = opening.open(self.store_type)?;
        let codec = self.wishes.codec(building, &self.name, RowFormat::Plain);
        let changelog = self.wishes.log(building, &self.name);
        Ok(BuiltStore::new(GraceBuffer::new(
            &self.name,
            codec,
            rows,
            changelog,
            self.grace_ms,
        )))
    }
}
