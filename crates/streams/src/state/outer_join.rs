//! The store of what an outer stream-stream join has not matched yet.

use super::byte_store::{ByteStore, Scan};
use super::bytes::Direction;
use super::window_key::damaged;
use super::{ChangelogRecord, Offsets, StateStore};
use crate::error::StreamsError;
use crate::formats::left_or_right_value::LeftOrRightValue;
use crate::formats::list::{read_list, write_list};
use crate::formats::outer_join_key::OuterJoinKey;
use crate::headers::Headers;
use crate::processor::TaskContext;
use crate::serde::SerdeRef;
use crate::store_fault::StoreFault;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// A side of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JoinSide {
    Left,
    Right,
}

/// A value of one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeftOrRight<L, R> {
    Left(L),
    Right(R),
}

/// The records of a key, a time and a side that were not matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unmatched<K, L, R> {
    pub(crate) key: K,
    pub(crate) timestamp_ms: i64,
    pub(crate) side: JoinSide,
    /// Oldest first.
    pub(crate) values: Vec<LeftOrRight<L, R>>,
    /// Where they stand, for `next_after` and `remove_entry`.
    pub(crate) place: Vec<u8>,
}

/// Lists of values by time, side and key: of one time the right side first.
pub(crate) struct OuterJoinStore<K, L, R> {
    name: Arc<str>,
    topic: Arc<str>,
    key: SerdeRef<K>,
    left: SerdeRef<L>,
    right: SerdeRef<R>,
    bytes: Box<dyn ByteStore>,
    /// Nothing stands before this place; empty if that is not known. A scan from the first row would pass all rows that
    /// were deleted on a disk.
    pub(super) first_place: Vec<u8>,
    scratch: Vec<u8>,
}

/// Behind the place of every row: a place begins with a time that is not negative.
const BEHIND_ALL: &[u8] = &[0xff];

impl<K, L, R> fmt::Debug for OuterJoinStore<K, L, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OuterJoinStore").field(&self.name).finish()
    }
}

/// The serdes of a join's key and values.
pub(crate) struct JoinSerdes<K, L, R> {
    pub(crate) key: SerdeRef<K>,
    pub(crate) left: SerdeRef<L>,
    pub(crate) right: SerdeRef<R>,
}

impl<K, L, R> Clone for JoinSerdes<K, L, R> {
    fn clone(&self) -> Self {
        Self {
            key: Arc::clone(&self.key),
            left: Arc::clone(&self.left),
            right: Arc::clone(&self.right),
        }
    }
}

impl<K, L, R> OuterJoinStore<K, L, R> {
    pub(crate) fn new(
        name: &Arc<str>,
        topic: Arc<str>,
        serdes: JoinSerdes<K, L, R>,
        bytes: Box<dyn ByteStore>,
    ) -> Self {
        Self {
            name: Arc::clone(name),
            topic,
            key: serdes.key,
            left: serdes.left,
            right: serdes.right,
            bytes,
            first_place: Vec::new(),
            scratch: Vec::new(),
        }
    }

    fn named<T>(&self, result: Result<T, StoreFault>) -> Result<T, StreamsError> {
        result.map_err(|fault| fault.of(&self.name))
    }

    fn place(&mut self, key: &K, timestamp_ms: i64, side: JoinSide) -> Result<Vec<u8>, StoreFault> {
        self.scratch.clear();
        let written = self
            .key
            .serialize(&self.topic, &mut Headers::new(), key, &mut self.scratch);
        match written {
            Ok(true) => {}
            Ok(false) => return Err(StoreFault::NullKey),
            Err(error) => return Err(StoreFault::Key(error)),
        }
        let key = OuterJoinKey {
            timestamp_ms,
            is_left: side == JoinSide::Left,
            key: &self.scratch,
        };
        Ok(key.to_bytes())
    }

    /// Adds a value to the list of its key, time and side. A null value is left out.
    ///
    /// # Errors
    /// The store or a serde failed.
    pub(crate) fn add(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
        value: &LeftOrRight<L, R>,
    ) -> Result<(), StreamsError> {
        let added = self.add_value(context, key, timestamp_ms, value);
        self.named(added)
    }

    fn add_value(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
        value: &LeftOrRight<L, R>,
    ) -> Result<(), StoreFault> {
        let side = match value {
            LeftOrRight::Left(_) => JoinSide::Left,
            LeftOrRight::Right(_) => JoinSide::Right,
        };
        let place = self.place(key, timestamp_ms, side)?;
        self.scratch.clear();
        let (topic, headers, out) = (&self.topic, &mut Headers::new(), &mut self.scratch);
        let written = match value {
            LeftOrRight::Left(value) => self.left.serialize(topic, headers, value, out),
            LeftOrRight::Right(value) => self.right.serialize(topic, headers, value, out),
        };
        if !written.map_err(StoreFault::Value)? {
            return Ok(());
        }
        let element = match side {
            JoinSide::Left => LeftOrRightValue::Left(&self.scratch),
            JoinSide::Right => LeftOrRightValue::Right(&self.scratch),
        }
        .to_bytes();
        let list = match self.bytes.get(&place)? {
            Some(list) => {
                let mut elements = read_list(&list, None).map_err(damaged)?;
                elements.push(Some(&element));
                write_list(elements)
            }
            None => write_list([Some(element.as_slice())]),
        };
        if place < self.first_place {
            self.first_place.clone_from(&place);
        }
        self.bytes.put(context, &place, Some(&list))
    }

    /// Removes the whole list of a key, time and side, which was matched, if there is one.
    ///
    /// # Errors
    /// As `add`.
    pub(crate) fn remove(
        &mut self,
        context: &mut TaskContext,
        key: &K,
        timestamp_ms: i64,
        side: JoinSide,
    ) -> Result<(), StreamsError> {
        let removed = self.place(key, timestamp_ms, side).and_then(|place| {
            if self.bytes.get(&place)?.is_none() {
                return Ok(());
            }
            self.bytes.put(context, &place, None)
        });
        self.named(removed)
    }

    /// Removes what `next_after` has found.
    ///
    /// # Errors
    /// As `add`.
    pub(crate) fn remove_entry(
        &mut self,
        context: &mut TaskContext,
        place: &[u8],
    ) -> Result<(), StreamsError> {
        let removed = self.bytes.put(context, place, None);
        self.named(removed)
    }

    /// The first entry, or the one after another one's place.
    ///
    /// # Errors
    /// As `add`.
    pub(crate) fn next_after(
        &mut self,
        place: Option<&[u8]>,
    ) -> Result<Option<Unmatched<K, L, R>>, StreamsError> {
        let found = self.find_after(place);
        self.named(found)
    }

    fn find_after(
        &mut self,
        place: Option<&[u8]>,
    ) -> Result<Option<Unmatched<K, L, R>>, StoreFault> {
        let from = match place {
            Some(place) => Bound::Excluded(place),
            None => Bound::Included(self.first_place.as_slice()),
        };
        let bounds = (from, Bound::Unbounded);
        let scan = Scan {
            bounds,
            times_ms: (0, i64::MAX),
            direction: Direction::Forward,
            time_first: false,
            shows_expired: false,
        };
        let row = self.bytes.scan(&scan)?.next().transpose()?;
        if place.is_none() {
            let first_place = row.as_ref().map_or(BEHIND_ALL, |(place, _)| place);
            self.first_place = first_place.to_vec();
        }
        let Some((place, list)) = row else {
            return Ok(None);
        };
        let stored = OuterJoinKey::read(&place).map_err(damaged)?;
        let elements = read_list(&list, None).map_err(damaged)?;
        let headers = &Headers::EMPTY;
        let values = elements
            .into_iter()
            .flatten()
            .map(|element| {
                let value = match LeftOrRightValue::read(element).map_err(damaged)? {
                    LeftOrRightValue::Left(value) => {
                        let value = self.left.deserialize(&self.topic, headers, Some(value));
                        value.map(LeftOrRight::Left)
                    }
                    LeftOrRightValue::Right(value) => {
                        let value = self.right.deserialize(&self.topic, headers, Some(value));
                        value.map(LeftOrRight::Right)
                    }
                };
                value.map_err(StoreFault::Value)
            })
            .collect::<Result<_, _>>()?;
        let key = self
            .key
            .deserialize(&self.topic, headers, Some(stored.key))
            .map_err(StoreFault::Key)?;
        Ok(Some(Unmatched {
            key,
            timestamp_ms: stored.timestamp_ms,
            side: match stored.is_left {
                true => JoinSide::Left,
                false => JoinSide::Right,
            },
            values,
            place: place.to_vec(),
        }))
    }
}

impl<K, L, R> StateStore for OuterJoinStore<K, L, R> {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn is_persistent(&self) -> bool {
        self.bytes.is_persistent()
    }

    fn restore(&mut self, records: &[ChangelogRecord]) -> Result<(), StreamsError> {
        self.first_place.clear();
        let restored = records
            .iter()
            .try_for_each(|record| self.bytes.restore(record));
        self.named(restored)
    }

    fn settle(&mut self, most_bytes: u64) -> Result<bool, StreamsError> {
        let settled = self.bytes.settle(most_bytes);
        self.named(settled)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.bytes.unsettled_bytes()
    }

    fn commit(&mut self, offsets: &Offsets) -> Result<(), StreamsError> {
        let committed = self.bytes.commit(offsets);
        self.named(committed)
    }

    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StreamsError> {
        self.named(self.bytes.committed_offset(topic, partition))
    }

    fn was_left_open(&self) -> bool {
        self.bytes.was_left_open()
    }

    fn close(&mut self) -> Result<(), StreamsError> {
        let closed = self.bytes.close();
        self.named(closed)
    }
}
