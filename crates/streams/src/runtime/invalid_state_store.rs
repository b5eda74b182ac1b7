//! Why a store cannot be queried.

use super::inbox::MAX_WAITING;
use crate::error::{StreamsError, without_modules};
use std::sync::Arc;

/// Why a store cannot be queried. `Debug` shows the words of `Display`, as that of `StreamsError`.
#[derive(thiserror::Error)]
pub enum InvalidStateStore {
    /// The topology has no such store.
    #[error(
        "the topology has no state store `{0}`; `Materialized::named` names the store of a table"
    )]
    Unknown(Arc<str>),
    /// The instance was not started yet: whoever asks after `KafkaStreams::start` may be answered.
    #[error("state store `{0}` cannot be queried: the instance was not started yet")]
    NotStarted(Arc<str>),
    /// The instance has ended, or is about to: another one has to be asked.
    #[error("state store `{0}` cannot be queried: the instance has ended, or is about to")]
    Stopped(Arc<str>),
    /// No task of this instance has it now.
    #[error(
        "no task of this instance has state store `{0}` now: it is being restored, or it may have migrated to another \
         instance"
    )]
    Migrated(Arc<str>),
    /// It is of another type.
    #[error(
        "state store `{store}` is no `{}`; ask for the type that it was made with",
        without_modules(kind)
    )]
    OtherType {
        /// Its name.
        store: Arc<str>,
        /// The type that was asked for.
        kind: &'static str,
    },
    /// A stream thread of the instance asks, which would wait for itself.
    #[error(
        "state store `{0}` cannot be queried from a stream thread of its own instance, which would wait for itself; a \
         processor reads the stores that it is connected to"
    )]
    OwnThread(Arc<str>),
    /// A thread has not answered in time: it works on a round of records, or waits for a broker.
    #[error("state store `{store}` has not answered within {timeout_ms} ms; ask again later")]
    TimedOut {
        /// Its name.
        store: Arc<str>,
        /// How long was waited.
        timeout_ms: u128,
    },
    /// A thread has not got round to the questions before.
    #[error("{MAX_WAITING} queries wait for a stream thread; ask again later")]
    Busy,
    /// The store or a serde failed.
    #[error("{0}")]
    Failed(#[from] StreamsError),
}

impl std::fmt::Debug for InvalidStateStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
