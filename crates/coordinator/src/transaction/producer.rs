//! Producer ids with their epochs.

use model::{ProducerEpoch, ProducerId};

/// The last epoch that a producer may have. The one after it is left for fencing that producer.
pub(super) const PRODUCER_EPOCH_MAX: ProducerEpoch = ProducerEpoch(i16::MAX - 1);

/// One instance of a producer: a later one with the same id has a higher epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerIdAndEpoch {
    /// The producer's id.
    pub producer_id: ProducerId,
    /// Its epoch.
    pub producer_epoch: ProducerEpoch,
}

/// Whether a producer with this epoch needs another id to go on.
pub(super) const fn is_epoch_exhausted(producer_epoch: ProducerEpoch) -> bool {
    producer_epoch.0 >= PRODUCER_EPOCH_MAX.0
}
