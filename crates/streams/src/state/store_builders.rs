//! The builders of stores: from a supplier, serdes and wishes about cache and changelog to a store of a task.

use super::base::Base;
use super::bytes::Backend;
use super::format::RowFormat;
use super::key_value::KeyValueStore;
use super::lru_rows::LruRows;
use super::opening::{CLEANUP_POLICY, COMPACT, Kind, Opening, Rows, Wishes, open};
use super::segments::Retention;
use super::session::SessionStore;
use super::state_store::{BuiltStore, ChangelogConfig, StoreBuilder, StoreBuilding};
use super::suppliers::{
    DslStoreFormat, KeyValueSupplier, SessionSupplier, StoreType, TimeFirst, VersionedSupplier,
    WindowSupplier,
};
use super::versioned::VersionedKeyValueStore;
use super::versioned_rows::{VersionedBytes, VersionedRows};
use super::window::{RangesByTime, WindowStore};
use super::window_key::KeyKind;
use crate::error::StreamsError;
use crate::serde::SerdeRef;
use crate::store_fault::StoreFault;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// `min.compaction.lag.ms` of a versioned store's changelog is its history retention and this.
const ADDITIONAL_COMPACTION_LAG_MS: i64 = 24 * 60 * 60 * 1000;

/// What stands in rows as the builder says, and what of that the supplier's rows have.
struct Formats {
    built: DslStoreFormat,
    rows: DslStoreFormat,
}

impl Formats {
    /// A supplier of plain rows in memory leaves the format to the builder; else rows are as the supplier says, and
    /// a builder that says more gets along with less.
    fn of(store_type: StoreType, supplied: DslStoreFormat, wanted: DslStoreFormat) -> Self {
        let built = supplied.max(wanted);
        let rows = match (store_type, supplied) {
            (StoreType::InMemory, DslStoreFormat::Plain) => built,
            _ => supplied,
        };
        Self { built, rows }
    }
}

const fn row_format(format: DslStoreFormat) -> RowFormat {
    match format {
        DslStoreFormat::Plain => RowFormat::Plain,
        DslStoreFormat::Timestamped => RowFormat::Timestamped,
        DslStoreFormat::Headers => RowFormat::Headers,
    }
}

/// Sessions have no timestamp beside their end.
const fn session_format(format: DslStoreFormat) -> RowFormat {
    match format {
        DslStoreFormat::Plain | DslStoreFormat::Timestamped => RowFormat::Plain,
        DslStoreFormat::Headers => RowFormat::Aggregation,
    }
}

macro_rules! builder {
    ($(#[$doc:meta])* $Builder:ident, $Supplier:ident $(, $formats:ident)?) => {
        $(#[$doc])*
        pub struct $Builder<K, V> {
            supplier: $Supplier,
            $($formats: Formats,)?
            wishes: Wishes<K, V>,
        }

        impl<K, V> fmt::Debug for $Builder<K, V> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($Builder))
                    .field("supplier", &self.supplier)
                    .field("is_cached", &self.wishes.is_cached)
                    .field("logging", &self.wishes.logging)
                    .finish_non_exhaustive()
            }
        }

        impl<K, V> $Builder<K, V> {
            /// Many writes of a key become one, until the cache is full or a commit comes. Stores that keep
            /// duplicates, that are in the order of time or that are versioned are never cached.
            #[must_use]
            pub const fn with_caching_enabled(mut self) -> Self {
                self.wishes.is_cached = true;
                self
            }

            /// Every write goes to the store at once. This is the default.
            #[must_use]
            pub const fn with_caching_disabled(mut self) -> Self {
                self.wishes.is_cached = false;
                self
            }

            /// Changes are logged, to a topic of this configuration beside what the store needs. Logging is on by
            /// default.
            #[must_use]
            pub fn with_logging_enabled(mut self, configs: BTreeMap<String, String>) -> Self {
                self.wishes.logging = Some(configs);
                self
            }

            /// Changes are not logged: what the store has is lost with its disk or its process.
            #[must_use]
            pub fn with_logging_disabled(mut self) -> Self {
                self.wishes.logging = None;
                self
            }
        }
    };
}

builder!(
    /// Makes key-value stores.
    KeyValueStoreBuilder,
    KeyValueSupplier,
    formats
);
builder!(
    /// Makes window stores.
    WindowStoreBuilder,
    WindowSupplier,
    formats
);
builder!(
    /// Makes session stores.
    SessionStoreBuilder,
    SessionSupplier,
    formats
);
builder!(
    /// Makes versioned stores.
    VersionedStoreBuilder,
    VersionedSupplier
);

impl<K: 'static, V: 'static> KeyValueStoreBuilder<K, V> {
    /// The changelog has the headers of the record that is processed even where rows have none.
    #[must_use]
    pub(crate) const fn logging_record_headers(mut self) -> Self {
        self.wishes.logs_record_headers = true;
        self
    }

    pub(crate) fn new(
        supplier: KeyValueSupplier,
        format: DslStoreFormat,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> Self {
        Self {
            formats: Formats::of(supplier.store_type, supplier.format, format),
            supplier,
            wishes: Wishes::new(key, value),
        }
    }
}

impl<K: 'static, V: 'static> StoreBuilder for KeyValueStoreBuilder<K, V> {
    fn name(&self) -> &Arc<str> {
        &self.supplier.name
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        let defaults = [(CLEANUP_POLICY, COMPACT.to_owned())];
        self.wishes.changelog(&defaults, None)
    }

    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        let KeyValueSupplier {
            name,
            store_type,
            max_entries,
            ..
        } = &self.supplier;
        let format = row_format(self.formats.built);
        let rows_format = row_format(self.formats.rows);
        let opening = Opening {
            wishes: &self.wishes,
            building,
            store: name,
            kind: Kind::KeyValue,
            format,
            rows_format,
        };
        let bytes = match (max_entries, opening.shared()?) {
            (Some(max_entries), None) => opening.layers(LruRows::new(*max_entries, rows_format)),
            (None, None) => opening.open(*store_type)?,
            (_, Some(shared)) => shared,
        };
        let codec = self.wishes.codec(building, name, format);
        Ok(BuiltStore::new(KeyValueStore::new(Base::new(
            name, codec, bytes,
        ))))
    }
}

impl<K: 'static, V: 'static> WindowStoreBuilder<K, V> {
    /// The changelog has the headers of the record that is processed even where rows have none.
    #[must_use]
    pub(crate) const fn logging_record_headers(mut self) -> Self {
        self.wishes.logs_record_headers = true;
        self
    }

    pub(crate) fn new(
        supplier: WindowSupplier,
        format: DslStoreFormat,
        key: SerdeRef<K>,
        value: SerdeRef<V>,
    ) -> Self {
        Self {
            formats: Formats::of(supplier.store_type, supplier.format, format),
            supplier,
            wishes: Wishes::new(key, value),
        }
    }
}

impl<K: 'static, V: 'static> StoreBuilder for WindowStoreBuilder<K, V> {
    fn name(&self) -> &Arc<str> {
        &self.supplier.name
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        // Every row of duplicates has a key of its own, which compaction could not help.
        let policy = match self.supplier.retain_duplicates {
            true => "delete",
            false => "compact,delete",
        };
        let defaults = [(CLEANUP_POLICY, policy.to_owned())];
        self.wishes
            .changelog(&defaults, Some(self.supplier.retention_ms))
    }

    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        let supplier = &self.supplier;
        let retention = Retention::with_interval(
            supplier.retention_ms,
            supplier.segment_interval_ms.max(1),
            supplier.store_type,
        );
        let retention = match supplier.time_first {
            TimeFirst::No => retention,
            TimeFirst::WithIndex | TimeFirst::WithoutIndex => retention.of_closing_windows(),
        };
        let format = row_format(self.formats.built);
        let opening = Opening {
            wishes: &self.wishes,
            building,
            store: &supplier.name,
            kind: Kind::Windows {
                keys: KeyKind::Window,
                retention,
                time_first: supplier.time_first,
                retain_duplicates: supplier.retain_duplicates,
            },
            format,
            rows_format: row_format(self.formats.rows),
        };
        let bytes = opening.open(supplier.store_type)?;
        let codec = self.wishes.codec(building, &supplier.name, format);
        Ok(BuiltStore::new(WindowStore::new(
            Base::new(&supplier.name, codec, bytes),
            supplier.window_size_ms,
            ranges_by_time(supplier.store_type, supplier.time_first),
        )))
    }
}

impl<K: 'static, A: 'static> SessionStoreBuilder<K, A> {
    pub(crate) fn new(
        supplier: SessionSupplier,
        format: DslStoreFormat,
        key: SerdeRef<K>,
        aggregation: SerdeRef<A>,
    ) -> Self {
        Self {
            formats: Formats::of(supplier.store_type, supplier.format, format),
            supplier,
            wishes: Wishes::new(key, aggregation),
        }
    }
}

impl<K: 'static, A: 'static> StoreBuilder for SessionStoreBuilder<K, A> {
    fn name(&self) -> &Arc<str> {
        &self.supplier.name
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        let defaults = [(CLEANUP_POLICY, "compact,delete".to_owned())];
        self.wishes
            .changelog(&defaults, Some(self.supplier.retention_ms))
    }

    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        let supplier = &self.supplier;
        let retention = Retention::of(supplier.retention_ms, supplier.store_type);
        let format = session_format(self.formats.built);
        let time_first = match supplier.is_time_first {
            true => TimeFirst::WithIndex,
            false => TimeFirst::No,
        };
        let opening = Opening {
            wishes: &self.wishes,
            building,
            store: &supplier.name,
            kind: Kind::Windows {
                keys: KeyKind::Session,
                retention,
                time_first,
                retain_duplicates: false,
            },
            format,
            rows_format: session_format(self.formats.rows),
        };
        let bytes = opening.open(supplier.store_type)?;
        let codec = self.wishes.codec(building, &supplier.name, format);
        let base = Base::new(&supplier.name, codec, bytes);
        let latest_starts_first = supplier.store_type == StoreType::InMemory
            && !supplier.is_time_first
            && !self.wishes.is_cached;
        Ok(BuiltStore::new(SessionStore::new(
            base,
            ranges_by_time(supplier.store_type, time_first),
            latest_starts_first,
        )))
    }
}

const fn ranges_by_time(store_type: StoreType, time_first: TimeFirst) -> RangesByTime {
    match (store_type, time_first) {
        (StoreType::InMemory, _) => RangesByTime::Always,
        (StoreType::Persistent, TimeFirst::No) => RangesByTime::Never,
        (StoreType::Persistent, _) => RangesByTime::OfAllKeys,
    }
}

impl<K: 'static, V: 'static> VersionedStoreBuilder<K, V> {
    pub(crate) fn new(supplier: VersionedSupplier, key: SerdeRef<K>, value: SerdeRef<V>) -> Self {
        Self {
            supplier,
            wishes: Wishes::new(key, value),
        }
    }
}

struct Versions {
    history_retention_ms: i64,
    segment_interval_ms: i64,
}

impl Rows for Versions {
    type Made = Box<dyn VersionedBytes>;

    fn layout(&self) -> String {
        format!("versions in segments of {} ms", self.segment_interval_ms)
    }

    fn make<B: Backend>(self, backend: B) -> Result<Self::Made, StoreFault> {
        let (retention_ms, interval_ms) = (self.history_retention_ms, self.segment_interval_ms);
        let rows = VersionedRows::open(backend, retention_ms, interval_ms)?;
        Ok(Box::new(rows))
    }
}

impl<K: 'static, V: 'static> StoreBuilder for VersionedStoreBuilder<K, V> {
    fn name(&self) -> &Arc<str> {
        &self.supplier.name
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        let history_ms = self.supplier.history_retention_ms;
        let lag_ms = history_ms.saturating_add(ADDITIONAL_COMPACTION_LAG_MS);
        let defaults = [
            (CLEANUP_POLICY, COMPACT.to_owned()),
            ("min.compaction.lag.ms", lag_ms.to_string()),
        ];
        self.wishes.changelog(&defaults, None)
    }

    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        let VersionedSupplier {
            name,
            store_type,
            history_retention_ms,
            segment_interval_ms,
        } = &self.supplier;
        let versions = Versions {
            history_retention_ms: *history_retention_ms,
            segment_interval_ms: (*segment_interval_ms).max(1),
        };
        let format = RowFormat::Plain;
        let rows =
            open(building, name, *store_type, format, versions).map_err(|fault| fault.of(name))?;
        let codec = self.wishes.codec(building, name, format);
        let changelog = self.wishes.log(building, name);
        Ok(BuiltStore::new(VersionedKeyValueStore::new(
            name, codec, rows, changelog,
        )))
    }
}
