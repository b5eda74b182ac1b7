//! State stores: what nodes remember, by key, by window, by session or by version.
//!
//! ```text
//!   Stores            suppliers and builders, which a topology holds
//!     │ build(StoreBuilding), once a task
//!   KeyValueStore, WindowStore, SessionStore, VersionedKeyValueStore, ...       keys and values of types
//!     │ StateStore: what a task does with any of them       │ rows as bytes
//!   restore, flush, commit, close              byte_store: cache ─> changelog ─> rows ─> bytes
//! ```
//!
//! Invariants:
//! - A store never forwards. A cache keeps what it gives on until the node that owns the store takes it.
//! - A changelog has a record for every row that is put, in the order in which they are put.
//! - On disk, rows are there whenever the offsets are there that were committed after them.
//! - A store of a newer format reads what older formats have left on disk.
//! - What expired is neither read nor restored.

mod base;
pub(crate) mod buffer_builders;
mod buffered;
mod byte_store;
mod bytes;
mod cache_lookups;
mod changelog_record;
mod codec;
mod format;
pub(crate) mod grace_buffer;
mod key_hash;
mod key_value;
mod key_value_rows;
mod layers;
mod lru_rows;
mod opening;
pub(crate) mod outer_join;
mod read_only;
mod segments;
mod sequence;
mod session;
mod shared_rows;
mod state_store;
mod storage;
mod store_builders;
mod stores;
mod suppliers;
pub(crate) mod suppress_buffer;
mod time_first;
mod versioned;
mod versioned_rows;
mod window;
mod window_key;
mod window_rows;

pub use crate::store_fault::StoreFault;
pub use base::{Flushed, Found};
pub use byte_store::Forwarding;
pub use bytes::{Direction, Offsets};
pub(crate) use cache_lookups::CacheLookups;
pub use changelog_record::ChangelogRecord;
pub use codec::{
    AggregationWithHeaders, Plain, Timestamped, ValueTimestampHeaders, View, WithHeaders,
};
pub(crate) use format::borrow;
pub(crate) use key_hash::seed_key_hash;
pub use key_value::{KeyValueStore, TimestampedKeyValueStore, TimestampedKeyValueStoreWithHeaders};
pub use layers::CacheBudget;
pub(crate) use layers::{Operation, StoreMeter, Timed};
pub use read_only::{
    ReadOnly, ReadOnlyKeyValueStore, ReadOnlySessionStore, ReadOnlyVersionedStore,
    ReadOnlyWindowStore,
};
pub use session::{SessionStore, SessionStoreWithHeaders};
pub(crate) use shared_rows::SharedRows;
pub use state_store::{BuiltStore, ChangelogConfig, StateStore, StoreBuilder, StoreBuilding};
pub use storage::TaskStorage;
pub use store_builders::{
    KeyValueStoreBuilder, SessionStoreBuilder, VersionedStoreBuilder, WindowStoreBuilder,
};
pub use stores::Stores;
pub use suppliers::{
    DslStoreFormat, KeyValueSupplier, SessionSupplier, StoreSupplier, StoreType, TimeFirst,
    VersionedSupplier, WindowSupplier,
};
pub use versioned::{VersionedKeyValueStore, VersionedRecord};
pub use versioned_rows::VersionedPut;
pub use window::{TimestampedWindowStore, TimestampedWindowStoreWithHeaders, WindowStore};

#[cfg(test)]
mod tests;
