//! Records of a left or outer stream-stream join that have found no partner yet, and the time that both sides share.
//!
//! They are kept by timestamp, side and key, those of one such key in a list. When their windows have closed they are
//! emitted without a partner.

use crate::dsl::stores::MakeStore;
use crate::dsl::stream_joined::JoinStores;
use crate::dsl::{DslStores, JoinWindows};
use crate::error::StreamsError;
use crate::processor::TaskContext;
use crate::record::Data;
use crate::state::buffer_builders::OuterJoinStoreBuilder;
use crate::state::outer_join::{JoinSerdes, JoinSide, LeftOrRight, OuterJoinStore, Unmatched};
use crate::state::{BuiltStore, ChangelogConfig, StoreBuilder, StoreBuilding};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// The records that wait, and the time of both sides.
pub(super) struct Waiting<K, V1, V2> {
    rows: Rc<RefCell<OuterJoinStore<K, V1, V2>>>,
    /// The largest timestamp that either side has seen; -1 before the first.
    pub(super) stream_time_ms: i64,
    /// No record that waits is older; none when that is not known, or none waits.
    earliest_ms: Option<i64>,
    /// The clock's time from which on the store is looked through again.
    next_emit_ms: i64,
}

impl<K: Data, V1: Data, V2: Data> Waiting<K, V1, V2> {
    /// A record has come to either side.
    pub(super) fn observe(&mut self, timestamp_ms: i64) {
        self.stream_time_ms = self.stream_time_ms.max(timestamp_ms);
    }

    /// A record waits for a partner.
    pub(super) fn add(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
        value: &LeftOrRight<V1, V2>,
    ) -> Result<(), StreamsError> {
        self.earliest_ms = Some(match self.earliest_ms {
            Some(earliest_ms) => earliest_ms.min(timestamp_ms),
            None => timestamp_ms,
        });
        self.rows
            .borrow_mut()
            .add(context, key, timestamp_ms, value)
    }

    /// The records of `key`, time and side wait no longer, if there are any: they have a partner.
    pub(super) fn match_all(
        &self,
        context: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
        side: JoinSide,
    ) -> Result<(), StreamsError> {
        let mut rows = self.rows.borrow_mut();
        rows.remove(context, key, timestamp_ms, side)
    }

    /// What `closed` has found is emitted.
    pub(super) fn emitted(
        &self,
        context: &mut TaskContext,
        entry: &Unmatched<K, V1, V2>,
    ) -> Result<(), StreamsError> {
        let mut rows = self.rows.borrow_mut();
        rows.remove_entry(context, &entry.place)
    }

    /// The records whose windows have closed, in the order in which they are emitted; they stay in the store. A record
    /// of a side whose windows reach `after_ms` past it asks. The store is looked through only if something may have
    /// closed, and once in an interval of the clock.
    pub(super) fn closed(
        &mut self,
        context: &TaskContext,
        windows: &JoinWindows,
        after_ms: i64,
    ) -> Result<Vec<Unmatched<K, V1, V2>>, StreamsError> {
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
        let mut rows = self.rows.borrow_mut();
        let mut next = rows.next_after(None)?;
        while let Some(entry) = next {
            // The last record that is looked at stands for the earliest one. Those of a side that come after its first
            // open one are looked at until the other side has an open one too, so this may be later than need be; then
            // the next look comes later too, as in Kafka Streams, and the order of results is the same.
            self.earliest_ms = Some(entry.timestamp_ms);
            if left_is_open && right_is_open {
                break;
            }
            let (after_ms, side_is_open) = match entry.side {
                JoinSide::Left => (windows.after_ms, &mut left_is_open),
                JoinSide::Right => (windows.before_ms, &mut right_is_open),
            };
            next = rows.next_after(Some(&entry.place))?;
            match is_open(entry.timestamp_ms, after_ms) {
                true => *side_is_open = true,
                false => closed.push(entry),
            }
        }
        Ok(closed)
    }
}

/// The store of the records that wait, under `name`.
pub(super) fn unmatched_store<K: Data, V1: Data, V2: Data>(
    name: &Arc<str>,
    stores: &JoinStores,
    serdes: JoinSerdes<K, V1, V2>,
) -> MakeStore {
    let (name, stores) = (Arc::clone(name), stores.clone());
    Arc::new(move |defaults: &DslStores| {
        let supplied = stores.this.as_ref().map(|supplier| supplier.store_type);
        let store_type = supplied.or(stores.store_type);
        let store_type = store_type.unwrap_or(defaults.store_type);
        let (serdes, logging) = (serdes.clone(), stores.logging.clone());
        let rows = OuterJoinStoreBuilder::new(&name, store_type, serdes, logging);
        Arc::new(UnmatchedBuilder(rows))
    })
}

/// Makes the store, and what both sides share around it.
struct UnmatchedBuilder<K, V1, V2>(OuterJoinStoreBuilder<K, V1, V2>);

impl<K: Data, V1: Data, V2: Data> StoreBuilder for UnmatchedBuilder<K, V1, V2> {
    fn name(&self) -> &Arc<str> {
        self.0.name()
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        self.0.changelog()
    }

    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        let built = self.0.build(building)?;
        let rows = built
            .typed
            .downcast_ref::<Rc<RefCell<OuterJoinStore<K, V1, V2>>>>()
            .expect("the builder makes an outer join store of these types");
        let unmatched = Waiting {
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
