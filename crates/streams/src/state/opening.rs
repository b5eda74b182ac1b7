//! How a store is opened: its backend, its rows, and the layers over them.

use super::byte_store::ByteStore;
use super::bytes::{Backend, DiskBackend, MemoryBackend};
use super::codec::Codec;
use super::format::RowFormat;
use super::key_value_rows::KeyValueRows;
use super::layers::{
    Adapted, CacheBudget, Cached, Changelog, Changelogged, Logged, Metered, SegmentOrder,
};
use super::segments::{Retention, Segments};
use super::state_store::{ChangelogConfig, StoreBuilding};
use super::suppliers::{StoreType, TimeFirst};
use super::time_first::TimeFirstRows;
use super::window_key::KeyKind;
use super::window_rows::WindowRows;
use crate::error::StreamsError;
use crate::serde::SerdeRef;
use crate::store_fault::StoreFault;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const COMPACT: &str = "compact";
pub(super) const CLEANUP_POLICY: &str = "cleanup.policy";

/// What all builders are told.
pub(super) struct Wishes<K, V> {
    pub(super) key: SerdeRef<K>,
    pub(super) value: SerdeRef<V>,
    pub(super) is_cached: bool,
    /// Configuration of the changelog topic that the application wants; none when changes are not logged.
    pub(super) logging: Option<BTreeMap<String, String>>,
    /// The changelog has headers of the record that is processed even where rows have none.
    pub(super) logs_record_headers: bool,
}

impl<K, V> Wishes<K, V> {
    pub(super) fn new(key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        Self {
            key,
            value,
            is_cached: false,
            logging: Some(BTreeMap::new()),
            logs_record_headers: false,
        }
    }

    pub(super) fn codec(
        &self,
        building: &StoreBuilding,
        store: &str,
        format: RowFormat,
    ) -> Codec<K, V> {
        let topic = match &building.changelog {
            Some((topic, _)) => Arc::clone(topic),
            None => Arc::from(format!("{}-{store}-changelog", building.application_id)),
        };
        Codec {
            topic,
            key: Arc::clone(&self.key),
            value: Arc::clone(&self.value),
            format,
        }
    }

    /// What the changelog needs: the defaults of the store's kind, and what the application wants.
    pub(super) fn changelog(
        &self,
        defaults: &[(&str, String)],
        retention_ms: Option<i64>,
    ) -> Option<ChangelogConfig> {
        let wanted = self.logging.as_ref()?;
        let configs = defaults
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        Some(ChangelogConfig {
            configs,
            overrides: wanted.clone(),
            retention_ms,
        })
    }

    pub(super) fn log(&self, building: &StoreBuilding, store: &Arc<str>) -> Option<Changelog> {
        self.logging.as_ref()?;
        let (topic, partition) = building.changelog.as_ref()?;
        Some(Changelog {
            store: Arc::clone(store),
            topic: Arc::clone(topic),
            partition: *partition,
        })
    }
}

/// What is made with the backend of a store, whichever it is.
pub(super) trait Rows {
    type Made;

    /// How rows are arranged: files of another layout are those of another store.
    fn layout(&self) -> String;

    fn make<B: Backend>(self, backend: B) -> Result<Self::Made, StoreFault>;
}

/// Opens a store's backend, and gives it to `rows`.
pub(super) fn open<R: Rows>(
    building: &StoreBuilding,
    store: &Arc<str>,
    store_type: StoreType,
    format: RowFormat,
    rows: R,
) -> Result<R::Made, StoreFault> {
    let database = match store_type {
        StoreType::InMemory => None,
        StoreType::Persistent => building.storage.database()?,
    };
    match database {
        None => rows.make(MemoryBackend),
        Some(database) => {
            let layout = rows.layout();
            let backend = DiskBackend::open(database, store, format.families(), &layout)?;
            rows.make(backend)
        }
    }
}

/// Puts layers over rows, wherever they are.
pub(super) struct Opening<'a, K, V> {
    pub(super) wishes: &'a Wishes<K, V>,
    pub(super) building: &'a StoreBuilding,
    pub(super) store: &'a Arc<str>,
    pub(super) kind: Kind,
    /// What the builder says stands in rows.
    pub(super) format: RowFormat,
    /// What the supplier's rows have of that.
    pub(super) rows_format: RowFormat,
}

/// How rows are arranged.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    KeyValue,
    Windows {
        keys: KeyKind,
        retention: Retention,
        time_first: TimeFirst,
        retain_duplicates: bool,
    },
}

impl<K, V> Rows for Opening<'_, K, V> {
    type Made = Box<dyn ByteStore>;

    fn layout(&self) -> String {
        match self.kind {
            Kind::KeyValue => "keys and values".to_owned(),
            Kind::Windows {
                keys,
                retention,
                time_first,
                retain_duplicates,
            } => {
                let keys = match keys {
                    KeyKind::Window => "windows",
                    KeyKind::Session => "sessions",
                };
                let order = match time_first {
                    TimeFirst::No => "keys first",
                    TimeFirst::WithoutIndex => "times first",
                    TimeFirst::WithIndex => "times first, with an index",
                };
                let duplicates = if retain_duplicates {
                    ", with duplicates"
                } else {
                    ""
                };
                let interval_ms = retention.interval_ms;
                format!("{keys} in segments of {interval_ms} ms, {order}{duplicates}")
            }
        }
    }

    fn make<B: Backend>(self, backend: B) -> Result<Self::Made, StoreFault> {
        let format = self.rows_format;
        match self.kind {
            Kind::KeyValue => {
                let rows = KeyValueRows::open(backend, format)?;
                Ok(self.layers(rows))
            }
            Kind::Windows {
                keys,
                retention,
                time_first: TimeFirst::No,
                retain_duplicates,
            } => {
                let segments = Segments::open(backend, retention)?;
                let rows = WindowRows::new(segments, keys, format, retain_duplicates);
                Ok(self.layers(rows))
            }
            Kind::Windows {
                keys,
                retention,
                time_first,
                ..
            } => {
                let segments = Segments::open(backend, retention)?;
                let has_index = time_first == TimeFirst::WithIndex;
                let rows = TimeFirstRows::new(segments, keys, format, has_index);
                Ok(self.layers(rows))
            }
        }
    }
}

impl<K, V> Opening<'_, K, V> {
    /// `rows` under the layers that are wanted.
    pub(super) fn layers<S: ByteStore + Send>(self, rows: S) -> Box<dyn ByteStore> {
        match self.format == self.rows_format {
            true => self.wanted_layers(rows),
            false => {
                let rows = Adapted::new(rows, self.format, self.rows_format);
                self.wanted_layers(rows)
            }
        }
    }

    fn wanted_layers<S: ByteStore + Send>(self, rows: S) -> Box<dyn ByteStore> {
        // A global store has its topic for a changelog, and what it holds back no other thread would see.
        if let Some(shared) = self.building.storage.shared() {
            return Box::new(shared.add(self.store, rows));
        }
        let (segments, can_be_cached, retain_duplicates) = match self.kind {
            Kind::KeyValue => (None, true, false),
            Kind::Windows {
                keys,
                retention,
                time_first,
                retain_duplicates,
            } => {
                let order = SegmentOrder {
                    kind: keys,
                    retention,
                    is_by_time: time_first == TimeFirst::WithoutIndex,
                };
                // As in Kafka Streams, results of aligned windows only.
                let can_be_cached = time_first != TimeFirst::WithIndex && !retain_duplicates;
                (Some(order), can_be_cached, retain_duplicates)
            }
        };
        let cache = self.building.storage.cache();
        let is_cached = self.wishes.is_cached && can_be_cached && cache.max_bytes() > 0;
        let cache = is_cached.then(|| cache.clone());
        let Some(changelog) = self.wishes.log(self.building, self.store) else {
            return cached(rows, segments, cache);
        };
        let logged = Logged {
            format: self.format,
            record_headers: self.wishes.logs_record_headers,
        };
        let logged = Changelogged::new(rows, changelog, logged, retain_duplicates);
        cached(logged, segments, cache)
    }

    /// The rows that another thread has opened, if this one may read them only.
    pub(super) fn shared(&self) -> Result<Option<Box<dyn ByteStore>>, StreamsError> {
        let Some(shared) = self.building.storage.shared_by_another() else {
            return Ok(None);
        };
        let reader = shared
            .reader(self.store)
            .map_err(|fault| fault.of(self.store))?;
        Ok(Some(Box::new(reader)))
    }

    pub(super) fn open(self, store_type: StoreType) -> Result<Box<dyn ByteStore>, StreamsError> {
        if let Some(shared) = self.shared()? {
            return Ok(shared);
        }
        let (building, store, format) = (self.building, self.store, self.rows_format);
        let scope = self.scope(store_type);
        let opened = open(building, store, store_type, format, self);
        let opened = opened.map_err(|fault| fault.of(store))?;
        Ok(match building.storage.meter(store, scope) {
            Some(meter) => Box::new(Metered::new(opened, meter)),
            None => opened,
        })
    }

    /// How Kafka Streams' metrics call such a store.
    const fn scope(&self, store_type: StoreType) -> &'static str {
        let is_persistent = matches!(store_type, StoreType::Persistent);
        match self.kind {
            Kind::KeyValue if is_persistent => "rocksdb-state-id",
            Kind::KeyValue => "in-memory-state-id",
            Kind::Windows {
                keys: KeyKind::Window,
                ..
            } if is_persistent => "rocksdb-window-state-id",
            Kind::Windows {
                keys: KeyKind::Window,
                ..
            } => "in-memory-window-state-id",
            Kind::Windows { .. } if is_persistent => "rocksdb-session-state-id",
            Kind::Windows { .. } => "in-memory-session-state-id",
        }
    }
}

fn cached<S: ByteStore>(
    rows: S,
    segments: Option<SegmentOrder>,
    budget: Option<CacheBudget>,
) -> Box<dyn ByteStore> {
    match budget {
        Some(budget) => Box::new(Cached::new(rows, segments, budget)),
        None => Box::new(rows),
    }
}
