//! Records of a left or outer stream-stream join that have found no partner yet, and the time that both sides share.
//!
//! They are kept by timestamp, side and key, those of one such key in a list. When their windows have closed they are
//! emitted without a partner.

use crate::dsl::DslStores;
use crate::dsl::JoinWindows;
use crate::dsl::stores::MakeStore;
use crate::dsl::stream_joined::JoinStores;
use crate::error::{BoxError, StreamsError};
use crate::formats::left_or_right_value::LeftOrRightValue;
use crate::formats::list::{read_list, write_list};
use crate::formats::outer_join_key::OuterJoinKey;
use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::record::Data;
use crate::serde::{Serde, SerdeRef};
use crate::state::{
    BuiltStore, ChangelogConfig, DslStoreFormat, KeyValueStore, KeyValueSupplier, StoreBuilder,
    StoreBuilding, Stores,
};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// What the records that wait are kept by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnmatchedKey<K> {
    pub(super) timestamp_ms: i64,
    pub(super) is_left: bool,
    pub(super) key: K,
}

/// A value of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeftOrRight<V1, V2> {
    Left(V1),
    Right(V2),
}

/// The values that wait under one key, oldest first.
type Values<V1, V2> = Vec<LeftOrRight<V1, V2>>;

/// The values of one key, time and side.
pub(super) type Entry<K, V1, V2> = (UnmatchedKey<K>, Values<V1, V2>);

type Rows<K, V1, V2> = KeyValueStore<UnmatchedKey<K>, Values<V1, V2>>;

/// The records that wait, and the time of both sides.
pub(super) struct Unmatched<K, V1, V2> {
    rows: Rc<RefCell<Rows<K, V1, V2>>>,
    /// The largest timestamp that either side has seen; -1 before the first.
    pub(super) stream_time_ms: i64,
    /// No record that waits is older; none when that is not known, or none waits.
    earliest_ms: Option<i64>,
    /// The clock's time from which on the store is looked through again.
    next_emit_ms: i64,
}

impl<K: Data, V1: Data, V2: Data> Unmatched<K, V1, V2> {
    /// A record has come to either side.
    pub(super) fn observe(&mut self, timestamp_ms: i64) {
        self.stream_time_ms = self.stream_time_ms.max(timestamp_ms);
    }

    /// A record waits for a partner.
    pub(super) fn add(
        &mut self,
        context: &mut TaskContext,
        key: &UnmatchedKey<K>,
        value: LeftOrRight<V1, V2>,
    ) -> Result<(), StreamsError> {
        let timestamp_ms = key.timestamp_ms;
        self.earliest_ms = Some(match self.earliest_ms {
            Some(earliest_ms) => earliest_ms.min(timestamp_ms),
            None => timestamp_ms,
        });
        let mut rows = self.rows.borrow_mut();
        let mut values = rows.get(key)?.unwrap_or_default();
        values.push(value);
        rows.put(context, key, Some(&values))
    }

    /// The records of `key` wait no longer.
    pub(super) fn remove(
        &self,
        context: &mut TaskContext,
        key: &UnmatchedKey<K>,
    ) -> Result<(), StreamsError> {
        self.rows.borrow_mut().put(context, key, None)
    }

    /// As `remove`, if there are any.
    pub(super) fn remove_if_present(
        &self,
        context: &mut TaskContext,
        key: &UnmatchedKey<K>,
    ) -> Result<(), StreamsError> {
        let is_present = self.rows.borrow_mut().get(key)?.is_some();
        match is_present {
            true => self.remove(context, key),
            false => Ok(()),
        }
    }

    /// The records whose windows have closed, in the order in which they are emitted; they stay in the store. A record
    /// of a side whose windows reach `after_ms` past it asks. The store is looked through only if something may have
    /// closed, and once in an interval of the clock.
    pub(super) fn closed(
        &mut self,
        context: &TaskContext,
        windows: &JoinWindows,
        after_ms: i64,
    ) -> Result<Vec<Entry<K, V1, V2>>, StreamsError> {
        let stream_time_ms = self.stream_time_ms;
        let is_open = |timestamp_ms: i64, after_ms: i64| {
            let close_ms = timestamp_ms.saturating_add(after_ms);
            close_ms.saturating_add(windows.grace_ms) >= stream_time_ms
        };
        let nothing_closed = self
            .earliest_ms
            .is_some_and(|earliest_ms| is_open(earliest_ms, after_ms));
        if nothing_closed || context.wall_clock_ms < self.next_emit_ms {
            return Ok(Vec::new());
        }
        let interval_ms = context.emit_intervals.outer_join_ms;
        self.next_emit_ms = context.wall_clock_ms.saturating_add(interval_ms);
        self.earliest_ms = None;
        let mut closed = Vec::new();
        let (mut left_is_open, mut right_is_open) = (false, false);
        for row in self.rows.borrow_mut().all()? {
            let (key, values) = row?;
            // The last record that is looked at stands for the earliest one. Those of a side that come after its first
            // open one are looked at until the other side has an open one too, so this may be later than need be; then
            // the next look comes later too, as in Kafka Streams, and the order of results is the same.
            self.earliest_ms = Some(key.timestamp_ms);
            if left_is_open && right_is_open {
                break;
            }
            let (after_ms, side_is_open) = match key.is_left {
                true => (windows.after_ms, &mut left_is_open),
                false => (windows.before_ms, &mut right_is_open),
            };
            match is_open(key.timestamp_ms, after_ms) {
                true => *side_is_open = true,
                false => closed.push((key, values)),
            }
        }
        Ok(closed)
    }
}

/// The store of the records that wait, under `name`.
pub(super) fn unmatched_store<K: Data, V1: Data, V2: Data>(
    name: &Arc<str>,
    stores: &JoinStores,
    (key_serde, left_serde, right_serde): (SerdeRef<K>, SerdeRef<V1>, SerdeRef<V2>),
) -> MakeStore {
    let (name, stores) = (Arc::clone(name), stores.clone());
    let key_serde: SerdeRef<UnmatchedKey<K>> = Arc::new(KeySerde(key_serde));
    let values_serde: SerdeRef<Values<V1, V2>> = Arc::new(ValuesSerde(left_serde, right_serde));
    Arc::new(move |defaults: &DslStores| {
        let store_type = stores.store_type.unwrap_or(defaults.store_type);
        let builder = Stores::key_value_store_builder(
            KeyValueSupplier::new(&name, store_type, DslStoreFormat::Plain),
            Arc::clone(&key_serde),
            Arc::clone(&values_serde),
        );
        let rows = match &stores.logging {
            Some(configs) => builder.with_logging_enabled(configs.clone()),
            None => builder.with_logging_disabled(),
        };
        Arc::new(UnmatchedBuilder::<_, K, V1, V2> {
            rows,
            types: PhantomData,
        })
    })
}

type MakeEntry<K, V1, V2> = fn() -> Entry<K, V1, V2>;

/// Makes the store of the rows, and what both sides share around it.
struct UnmatchedBuilder<B, K, V1, V2> {
    rows: B,
    types: PhantomData<MakeEntry<K, V1, V2>>,
}

impl<B: StoreBuilder, K: Data, V1: Data, V2: Data> StoreBuilder for UnmatchedBuilder<B, K, V1, V2> {
    fn name(&self) -> &Arc<str> {
        self.rows.name()
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        self.rows.changelog()
    }

    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        let built = self.rows.build(building)?;
        let rows = built
            .typed
            .downcast_ref::<Rc<RefCell<Rows<K, V1, V2>>>>()
            .expect("the builder of the rows makes a key-value store of these types");
        let unmatched = Unmatched {
            rows: Rc::clone(rows),
            stream_time_ms: -1,
            earliest_ms: None,
            next_emit_ms: 0,
        };
        Ok(BuiltStore {
            typed: Rc::new(Rc::new(RefCell::new(unmatched))),
            store: built.store,
        })
    }
}

struct KeySerde<K>(SerdeRef<K>);

impl<K> Serde<UnmatchedKey<K>> for KeySerde<K> {
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        key: &UnmatchedKey<K>,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let stored = OuterJoinKey {
            timestamp_ms: key.timestamp_ms,
            is_left: key.is_left,
            key: &[],
        };
        let start = out.len();
        out.extend(stored.to_bytes());
        let is_key = self.0.serialize(topic, headers, &key.key, out)?;
        if !is_key {
            out.truncate(start);
        }
        Ok(is_key)
    }

    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<UnmatchedKey<K>, BoxError> {
        let stored = OuterJoinKey::read(bytes.unwrap_or_default())?;
        Ok(UnmatchedKey {
            timestamp_ms: stored.timestamp_ms,
            is_left: stored.is_left,
            key: self.0.deserialize(topic, headers, Some(stored.key))?,
        })
    }
}

struct ValuesSerde<V1, V2>(SerdeRef<V1>, SerdeRef<V2>);

impl<V1, V2> Serde<Values<V1, V2>> for ValuesSerde<V1, V2> {
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        values: &Values<V1, V2>,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let mut elements: Vec<Vec<u8>> = Vec::with_capacity(values.len());
        for value in values {
            let mut bytes = Vec::new();
            let element = match value {
                LeftOrRight::Left(left) => {
                    self.0.serialize(topic, headers, left, &mut bytes)?;
                    LeftOrRightValue::Left(&bytes)
                }
                LeftOrRight::Right(right) => {
                    self.1.serialize(topic, headers, right, &mut bytes)?;
                    LeftOrRightValue::Right(&bytes)
                }
            };
            elements.push(element.to_bytes());
        }
        let elements = elements.iter().map(|element| Some(element.as_slice()));
        out.extend(write_list(elements));
        Ok(true)
    }

    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<Values<V1, V2>, BoxError> {
        let elements = read_list(bytes.unwrap_or_default(), None)?;
        let read = |element: Option<&[u8]>| {
            Ok(match LeftOrRightValue::read(element.unwrap_or_default())? {
                LeftOrRightValue::Left(left) => {
                    LeftOrRight::Left(self.0.deserialize(topic, headers, Some(left))?)
                }
                LeftOrRightValue::Right(right) => {
                    LeftOrRight::Right(self.1.deserialize(topic, headers, Some(right))?)
                }
            })
        };
        elements.into_iter().map(read).collect()
    }
}
