//! Stores that can only be read: for queries, and for nodes that read what others write.

use super::base::Found;
use super::bytes::Direction;
use super::codec::View;
use super::key_value::KeyValueStore;
use super::session::SessionStore;
use super::versioned::{VersionedKeyValueStore, VersionedRecord};
use super::window::WindowStore;
use crate::error::StreamsError;
use crate::serde::{Serde, Windowed};
use std::ops::RangeInclusive;

/// A store of type `S` that can only be read, until this is dropped.
#[derive(Debug)]
pub struct ReadOnly<'a, S>(&'a mut S);

/// A key-value store that can only be read.
pub type ReadOnlyKeyValueStore<'a, K, V> = ReadOnly<'a, KeyValueStore<K, V>>;

/// A window store that can only be read.
pub type ReadOnlyWindowStore<'a, K, V> = ReadOnly<'a, WindowStore<K, V>>;

/// A session store that can only be read.
pub type ReadOnlySessionStore<'a, K, A> = ReadOnly<'a, SessionStore<K, A>>;

/// A versioned store that can only be read.
pub type ReadOnlyVersionedStore<'a, K, V> = ReadOnly<'a, VersionedKeyValueStore<K, V>>;

impl<'a, S> ReadOnly<'a, S> {
    /// `store`, to be read.
    pub const fn new(store: &'a mut S) -> Self {
        Self(store)
    }
}

impl<K, V> ReadOnlyKeyValueStore<'_, K, V> {
    /// See [`KeyValueStore::get_as`].
    ///
    /// # Errors
    /// The store or a serde failed.
    pub fn get_as<F: View>(&mut self, key: &K) -> Result<Option<F::Of<V>>, StreamsError> {
        self.0.get_as::<F>(key)
    }

    /// See [`KeyValueStore::range_as`].
    ///
    /// # Errors
    /// As `get_as`.
    pub fn range_as<F: View>(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<K, F::Of<V>>> + '_, StreamsError> {
        self.0.range_as::<F>(from, to, direction)
    }

    /// See [`KeyValueStore::prefix_scan_as`].
    ///
    /// # Errors
    /// As `get_as`.
    pub fn prefix_scan_as<F: View, P>(
        &mut self,
        prefix: &P,
        serde: &dyn Serde<P>,
    ) -> Result<impl Iterator<Item = Found<K, F::Of<V>>> + '_, StreamsError> {
        self.0.prefix_scan_as::<F, P>(prefix, serde)
    }

    /// Whether the store keeps the timestamps of values.
    pub fn has_timestamps(&self) -> bool {
        self.0.base.codec.format.has_timestamp()
    }

    /// See [`KeyValueStore::approximate_num_entries`].
    pub fn approximate_num_entries(&self) -> u64 {
        self.0.approximate_num_entries()
    }
}

impl<K, V> ReadOnlyWindowStore<'_, K, V> {
    /// See [`WindowStore::fetch_one_as`].
    ///
    /// # Errors
    /// The store or a serde failed.
    pub fn fetch_one_as<F: View>(
        &mut self,
        key: &K,
        window_start_ms: i64,
    ) -> Result<Option<F::Of<V>>, StreamsError> {
        self.0.fetch_one_as::<F>(key, window_start_ms)
    }

    /// See [`WindowStore::fetch_as`].
    ///
    /// # Errors
    /// As `fetch_one_as`.
    pub fn fetch_as<F: View>(
        &mut self,
        key: &K,
        times_ms: RangeInclusive<i64>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<i64, F::Of<V>>> + '_, StreamsError> {
        self.0.fetch_as::<F>(key, times_ms, direction)
    }

    /// See [`WindowStore::fetch_keys_as`].
    ///
    /// # Errors
    /// As `fetch_one_as`.
    pub fn fetch_keys_as<F: View>(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        times_ms: RangeInclusive<i64>,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, F::Of<V>>> + '_, StreamsError> {
        self.0.fetch_keys_as::<F>(from, to, times_ms, direction)
    }
}

impl<K, A> ReadOnlySessionStore<'_, K, A> {
    /// See [`SessionStore::fetch_session`].
    ///
    /// # Errors
    /// The store or a serde failed.
    pub fn fetch_session(
        &mut self,
        key: &K,
        start_ms: i64,
        end_ms: i64,
    ) -> Result<Option<A>, StreamsError> {
        self.0.fetch_session(key, start_ms, end_ms)
    }

    /// See [`SessionStore::find_sessions_as`].
    ///
    /// # Errors
    /// As `fetch_session`.
    pub fn find_sessions_as<F: View>(
        &mut self,
        key: &K,
        earliest_end_ms: i64,
        latest_start_ms: i64,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, F::Of<A>>> + '_, StreamsError> {
        self.0
            .find_sessions_as::<F>(key, earliest_end_ms, latest_start_ms, direction)
    }

    /// See [`SessionStore::find_sessions_of_keys`].
    ///
    /// # Errors
    /// As `fetch_session`.
    pub fn find_sessions_of_keys(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        earliest_end_ms: i64,
        latest_start_ms: i64,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, A>> + '_, StreamsError> {
        self.0
            .find_sessions_of_keys(from, to, earliest_end_ms, latest_start_ms, direction)
    }

    /// See [`SessionStore::find_sessions_of_keys_as`].
    ///
    /// # Errors
    /// As `fetch_session`.
    pub fn find_sessions_of_keys_as<F: View>(
        &mut self,
        from: Option<&K>,
        to: Option<&K>,
        earliest_end_ms: i64,
        latest_start_ms: i64,
        direction: Direction,
    ) -> Result<impl Iterator<Item = Found<Windowed<K>, F::Of<A>>> + '_, StreamsError> {
        self.0
            .find_sessions_of_keys_as::<F>(from, to, earliest_end_ms, latest_start_ms, direction)
    }
}

impl<K, V> ReadOnlyVersionedStore<'_, K, V> {
    /// See [`VersionedKeyValueStore::get`].
    ///
    /// # Errors
    /// The store or a serde failed.
    pub fn get(&mut self, key: &K) -> Result<Option<VersionedRecord<V>>, StreamsError> {
        self.0.get(key)
    }

    /// See [`VersionedKeyValueStore::get_at`].
    ///
    /// # Errors
    /// As `get`.
    pub fn get_at(
        &mut self,
        key: &K,
        timestamp_ms: i64,
    ) -> Result<Option<VersionedRecord<V>>, StreamsError> {
        self.0.get_at(key, timestamp_ms)
    }

    /// See [`VersionedKeyValueStore::versions`].
    ///
    /// # Errors
    /// As `get`.
    pub fn versions(
        &mut self,
        key: &K,
        from_ms: i64,
        to_ms: i64,
    ) -> Result<Vec<VersionedRecord<V>>, StreamsError> {
        self.0.versions(key, from_ms, to_ms)
    }
}
