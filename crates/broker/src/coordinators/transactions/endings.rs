//! The ends of transactions whose markers are being written, of one partition of `__transaction_state`.
//!
//! A log that is replayed while the partition stays shows ends that are on their way. To write their markers
//! again could end the next transaction of the same producer epoch.

use coordinator::transaction::PreparedTransaction;
use model::{ProducerEpoch, ProducerId};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A transactional id, with the producer id and epoch of the markers.
type Key = (Arc<str>, ProducerId, ProducerEpoch);

/// By key, how many are under way.
#[derive(Debug, Clone, Default)]
pub(super) struct Endings(Arc<Mutex<BTreeMap<Key, usize>>>);

/// An end is under way until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Endings, Key);

impl Endings {
    /// An end has been decided.
    pub(super) fn begin(&self, prepared: &PreparedTransaction) -> UnderWay {
        let key = key(prepared);
        *self.0.lock().entry(key.clone()).or_default() += 1;
        UnderWay(self.clone(), key)
    }

    /// How many are under way.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().values().sum()
    }

    /// Whether somebody sees to an end.
    pub(super) fn have(&self, prepared: &PreparedTransaction) -> bool {
        self.0.lock().contains_key(&key(prepared))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut under_way = self.0.0.lock();
        if let Some(count) = under_way.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.1);
            }
        }
    }
}

fn key(prepared: &PreparedTransaction) -> Key {
    let producer = prepared.producer;
    let id = prepared.transactional_id.clone();
    (id, producer.producer_id, producer.producer_epoch)
}
