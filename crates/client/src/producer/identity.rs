//! Who an idempotent producer is to brokers: its id, and under which epoch its sequence numbers count.
//! The cluster gives the id; the producer, or its coordinator, raises the epoch.

use model::{ProducerEpoch, ProducerId};

/// Who an idempotent producer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The id that the cluster gave it.
    pub(crate) id: ProducerId,
    /// Counts the times that its sequence numbers began anew.
    pub(crate) epoch: ProducerEpoch,
}
