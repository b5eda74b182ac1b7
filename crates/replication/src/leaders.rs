//! What the partitions share that a broker leads with followers: which brokers there are, the time, how late
//! a follower may be, and what the controller is asked.
//!
//! All of it is given by value: whoever publishes metadata sets the cluster before the roles that follow from
//! it, and whoever has a clock tells the time.

use crate::alter_partition::IsrProposals;
use crate::partition_key::PartitionKey;
use metadata::ClusterImage;
use model::{BrokerEpoch, BrokerId, MonotonicTime};
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;

/// Kafka's default of `replica.lag.time.max.ms`.
const REPLICA_LAG_TIME_MAX_MS: i64 = 30_000;

/// What leaders share; see the module.
#[derive(Debug)]
pub struct Leaders {
    cluster: RwLock<ClusterImage>,
    now_ms: AtomicI64,
    lag_max_ms: AtomicI64,
    /// The partitions that are led here and have followers; how often, as the replica that has gone may still be led
    /// when the one that has come back is.
    followed: Mutex<BTreeMap<PartitionKey, u32>>,
    proposals: Mutex<IsrProposals>,
}

impl Default for Leaders {
    fn default() -> Self {
        Self {
            cluster: RwLock::default(),
            now_ms: AtomicI64::new(0),
            lag_max_ms: AtomicI64::new(REPLICA_LAG_TIME_MAX_MS),
            followed: Mutex::default(),
            proposals: Mutex::default(),
        }
    }
}

impl Leaders {
    /// The brokers of the cluster, as the metadata have them that follow.
    pub fn set_cluster(&self, cluster: ClusterImage) {
        *self.cluster.write() = cluster;
    }

    /// The brokers of the cluster.
    pub fn cluster(&self) -> ClusterImage {
        self.cluster.read().clone()
    }

    /// The time, as far as followers are judged by it. A second more or less makes no difference.
    pub fn note_time(&self, now: MonotonicTime) {
        self.now_ms.fetch_max(now.as_ms(), Ordering::Relaxed);
    }

    /// `replica.lag.time.max.ms`: who has not had everything for longer is out of sync.
    pub fn set_lag_max_ms(&self, lag_max_ms: i64) {
        self.lag_max_ms.store(lag_max_ms, Ordering::Relaxed);
    }

    /// The partitions that are led here and have followers.
    pub fn followed(&self) -> Vec<PartitionKey> {
        self.followed.lock().keys().copied().collect()
    }

    /// What the controller is to be asked.
    pub fn with_proposals<R>(&self, call: impl FnOnce(&mut IsrProposals) -> R) -> R {
        call(&mut self.proposals.lock())
    }

    /// The proposals of the next request, once there are some to be sent; see
    /// [`IsrProposals::poll_request`].
    pub fn next_request(
        &self,
        now: impl Fn() -> MonotonicTime + Send,
    ) -> impl Future<Output = Vec<crate::IsrProposal>> + Send {
        std::future::poll_fn(move |context| {
            let mut proposals = self.proposals.lock();
            match proposals.poll_request(now()) {
                Some(request) => Poll::Ready(request),
                None => {
                    proposals.wake_with_next(context.waker());
                    Poll::Pending
                }
            }
        })
    }

    pub(crate) fn note_followed(&self, key: PartitionKey, is_followed: bool) {
        let mut followed = self.followed.lock();
        let count = followed.entry(key).or_default();
        *count = match is_followed {
            true => *count + 1,
            false => count.saturating_sub(1),
        };
        if *count == 0 {
            followed.remove(&key);
        }
    }

    pub(crate) fn now(&self) -> MonotonicTime {
        MonotonicTime::from_ms(self.now_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn lag_max_ms(&self) -> i64 {
        self.lag_max_ms.load(Ordering::Relaxed)
    }

    /// Whether the run of a broker that has fetched under this epoch may become in-sync: it may lead, and is
    /// the one that is registered (KIP-841, KIP-903).
    pub(crate) fn is_eligible(&self, broker_id: BrokerId, fetched_as: Option<BrokerEpoch>) -> bool {
        let cluster = self.cluster.read();
        let (Some(fetched_as), Some(broker)) = (fetched_as, cluster.broker(broker_id)) else {
            return false;
        };
        broker.is_active() && (fetched_as.is_none() || fetched_as == broker.epoch)
    }

    /// Whether a broker has registered again since the run that this epoch is of.
    pub(crate) fn is_stale(&self, broker_id: BrokerId, epoch: BrokerEpoch) -> bool {
        let cluster = self.cluster.read();
        let registered = cluster.broker(broker_id);
        !epoch.is_none() && registered.is_some_and(|broker| epoch < broker.epoch)
    }

    /// Whether a broker is there and not fenced.
    pub(crate) fn is_alive(&self, broker_id: BrokerId) -> bool {
        let cluster = self.cluster.read();
        let broker = cluster.broker(broker_id);
        broker.is_some_and(|broker| !broker.is_fenced)
    }
}
