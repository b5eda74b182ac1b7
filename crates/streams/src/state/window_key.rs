//! Keys of windows and sessions in stores: which time a row has, and where it stands in each order.

use super::bytes::Bounds;
use crate::formats::FormatError;
use crate::formats::key_range::KeyRange;
use crate::formats::session_key::SessionKey;
use crate::formats::window_key::WindowKey;
use crate::store_fault::StoreFault;
use std::cmp::Ordering;
use std::ops::RangeBounds as _;

/// What the keys of a store are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// Key, start of the window, number.
    Window,
    /// Key, end of the session, its start.
    Session,
}

impl KeyKind {
    /// The time that chooses a row's segment: a window's start, or a session's end.
    pub(crate) fn time_ms(self, stored: &[u8]) -> Result<i64, StoreFault> {
        match self {
            Self::Window => WindowKey::read(stored).map(|key| key.window_start_ms),
            Self::Session => SessionKey::read(stored).map(|key| key.end_ms),
        }
        .map_err(damaged)
    }

    /// The time of `time_ms`, and the key without times.
    pub(crate) fn time_and_key(self, stored: &[u8]) -> Result<(i64, &[u8]), StoreFault> {
        match self {
            Self::Window => WindowKey::read(stored).map(|key| (key.window_start_ms, key.key)),
            Self::Session => SessionKey::read(stored).map(|key| (key.end_ms, key.key)),
        }
        .map_err(damaged)
    }

    /// The order of rows by time and then by key. Keys without times, which no store takes, are equal.
    pub(crate) fn compare_times(self, left: &[u8], right: &[u8]) -> Ordering {
        let order = |stored| self.time_and_key(stored).unwrap_or_default();
        order(left).cmp(&order(right)).then_with(|| left.cmp(right))
    }

    /// The key as a time-first store has it.
    pub(crate) fn time_first(self, stored: &[u8]) -> Result<Vec<u8>, StoreFault> {
        match self {
            Self::Window => WindowKey::read(stored).map(|key| key.to_time_first_key()),
            Self::Session => SessionKey::read(stored).map(|key| key.to_time_first_key()),
        }
        .map_err(damaged)
    }

    /// The key as the index of a time-first store has it.
    pub(crate) fn key_first(self, stored: &[u8]) -> Result<Vec<u8>, StoreFault> {
        match self {
            Self::Window => WindowKey::read(stored).map(|key| key.to_key_first_key()),
            Self::Session => SessionKey::read(stored).map(|key| key.to_key_first_key()),
        }
        .map_err(damaged)
    }

    /// The key of a row of a time-first store.
    pub(crate) fn of_time_first(self, stored: &[u8]) -> Result<Vec<u8>, StoreFault> {
        match self {
            Self::Window => WindowKey::read_time_first(stored).map(|key| key.to_store_key()),
            Self::Session => SessionKey::read_time_first(stored).map(|key| key.to_store_key()),
        }
        .map_err(damaged)
    }

    /// The rows of a time-first store from one time to another.
    pub(crate) fn time_first_range(self, times_ms: (i64, i64)) -> KeyRange {
        match self {
            Self::Window => WindowKey::time_first_range(times_ms.0, times_ms.1),
            Self::Session => SessionKey::time_first_range(times_ms.0, times_ms.1),
        }
    }
}

pub(crate) fn damaged(error: FormatError) -> StoreFault {
    StoreFault::Row(error.into())
}

pub(crate) fn bounds(range: &KeyRange) -> Bounds<'_> {
    (range.start_bound(), range.end_bound())
}
