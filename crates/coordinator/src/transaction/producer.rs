//! Producer ids with their epochs.

/// The last epoch that a producer may have. The one after it is left for fencing that producer.
pub(super) const PRODUCER_EPOCH_MAX: i16 = i16::MAX - 1;

/// No producer id.
pub(super) const NO_PRODUCER_ID: i64 = -1;

/// No producer epoch.
pub(super) const NO_PRODUCER_EPOCH: i16 = -1;

/// One instance of a producer: a later one with the same id has a higher epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerIdAndEpoch {
    /// The producer's id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
}

/// Whether a producer with this epoch needs another id to go on.
pub(super) const fn is_epoch_exhausted(producer_epoch: i16) -> bool {
    producer_epoch >= PRODUCER_EPOCH_MAX
}
