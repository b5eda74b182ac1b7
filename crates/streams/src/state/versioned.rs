//! Versioned key-value stores (KIP-889).

use super::codec::Codec;
use super::layers::Changelog;
use super::versioned_rows::{StoredVersion, VersionedBytes, VersionedPut};
use super::{ChangelogRecord, Offsets, StateStore};
use crate::error::StreamsError;
use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::store_fault::StoreFault;
use std::fmt;
use std::sync::Arc;

/// Values by key and time: what a key had at any time within the history retention.
pub struct VersionedKeyValueStore<K, V> {
    name: Arc<str>,
    codec: Codec<K, V>,
    rows: Box<dyn VersionedBytes>,
    changelog: Option<Changelog>,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// What a key had for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedRecord<V> {
    /// The value.
    pub value: V,
    /// From when on.
    pub timestamp_ms: i64,
    /// Until before when; none for the latest version.
    pub valid_to_ms: Option<i64>,
}

impl<K, V> fmt::Debug for VersionedKeyValueStore<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionedKeyValueStore")
            .field("name", &self.name)
            .field("codec", &self.codec)
            .finish_non_exhaustive()
    }
}

impl<K, V> VersionedKeyValueStore<K, V> {
    pub(crate) fn new(
        name: &Arc<str>,
        codec: Codec<K, V>,
        rows: Box<dyn VersionedBytes>,
        changelog: Option<Changelog>,
    ) -> Self {
        Self {
            name: Arc::clone(name),
            codec,
            rows,
            changelog,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    fn named<T>(&self, result: Result<T, StoreFault>) -> Result<T, StreamsError> {
        result.map_err(|fault| fault.of(&self.name))
    }

    /// Puts the value that `key` has from `timestamp_ms` on; none says that it has none. What is older than the history
    /// retention is not put, although the changelog has it.
    ///
    /// # Errors
    /// The store or a serde failed.
    pub fn put(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: Option<&V>,
        timestamp_ms: i64,
    ) -> Result<VersionedPut, StreamsError> {
        let put = self.put_bytes(context, key, value, timestamp_ms);
        self.named(put)
    }

    fn put_bytes(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        value: Option<&V>,
        timestamp_ms: i64,
    ) -> Result<VersionedPut, StoreFault> {
        self.codec.write_key(key, &mut self.key)?;
        let is_value = match value {
            Some(value) => {
                let headers = &Headers::EMPTY;
                self.codec
                    .write_row(value, timestamp_ms, headers, &mut self.value)?
            }
            None => false,
        };
        let value = is_value.then_some(self.value.as_slice());
        let put = self.rows.put(&self.key, value, timestamp_ms)?;
        if put == VersionedPut::NotPut {
            context.drop_record();
        }
        if let Some(changelog) = &self.changelog {
            let headers = Headers::new();
            changelog.log(context, &self.key, value, Some(timestamp_ms), headers);
        }
        Ok(put)
    }

    /// The latest version of `key`.
    ///
    /// # Errors
    /// As `put`.
    pub fn get(&mut self, key: &K) -> Result<Option<VersionedRecord<V>>, StreamsError> {
        self.get_as_of(key, None)
    }

    /// The version of `key` that is valid at `timestamp_ms`.
    ///
    /// # Errors
    /// As `put`.
    pub fn get_at(
        &mut self,
        key: &K,
        timestamp_ms: i64,
    ) -> Result<Option<VersionedRecord<V>>, StreamsError> {
        self.get_as_of(key, Some(timestamp_ms))
    }

    fn get_as_of(
        &mut self,
        key: &K,
        as_of_ms: Option<i64>,
    ) -> Result<Option<VersionedRecord<V>>, StreamsError> {
        let record = self
            .codec
            .write_key(key, &mut self.key)
            .and_then(|()| self.rows.get(&self.key, as_of_ms))
            .and_then(|version| version.map(|version| self.read(&version)).transpose());
        self.named(record)
    }

    /// The versions of `key` that were valid at any time from the first to the last, latest first.
    ///
    /// # Errors
    /// As `put`.
    pub fn versions(
        &mut self,
        key: &K,
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<VersionedRecord<V>>, StreamsError> {
        let records = self
            .codec
            .write_key(key, &mut self.key)
            .and_then(|()| self.rows.versions(&self.key, from_ms, to_ms))
            .and_then(|versions| versions.iter().map(|version| self.read(version)).collect());
        self.named(records)
    }

    /// Says that `key` has no value from `timestamp_ms` on; the version that was valid then. None if that time is older
    /// than the history retention, as in `put`.
    ///
    /// # Errors
    /// As `put`.
    pub fn delete(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
    ) -> Result<Option<VersionedRecord<V>>, StreamsError> {
        let old = self.get_at(key, timestamp_ms)?;
        let put = self.put(context, key, None, timestamp_ms)?;
        Ok(old.filter(|_| put != VersionedPut::NotPut))
    }

    fn read(&self, version: &StoredVersion) -> Result<VersionedRecord<V>, StoreFault> {
        Ok(VersionedRecord {
            value: self.codec.read_value(&version.value)?,
            timestamp_ms: version.valid_from_ms,
            valid_to_ms: version.valid_to_ms,
        })
    }
}

impl<K, V> StateStore for VersionedKeyValueStore<K, V> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn is_persistent(&self) -> bool {
        self.rows.is_persistent()
    }

    fn restore(&mut self, records: &[ChangelogRecord]) -> Result<(), StreamsError> {
        let restored = records
            .iter()
            .try_for_each(|record| self.rows.restore(record));
        self.named(restored)
    }

    fn settle(&mut self, _: u64) -> Result<bool, StreamsError> {
        Ok(true)
    }

    fn unsettled_bytes(&self) -> u64 {
        0
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StreamsError> {
        let committed = self.rows.commit(offsets);
        self.named(committed)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StreamsError> {
        self.named(self.rows.committed_offset(topic, partition))
    }

    fn was_left_open(&self) -> bool {
        self.rows.was_left_open()
    }

    fn close(&mut self) -> Result<(), StreamsError> {
        let closed = self.rows.close();
        self.named(closed)
    }
}
