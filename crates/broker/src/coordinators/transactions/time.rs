//! What becomes due without a request: transactions out of time are aborted, transactional ids
//! that nobody uses are forgotten. Each partition is looked at by itself, so that none waits for the disk of
//! another, and not again before that look has ended.

use super::requests::Authority;
use super::{TransactionSlot, Transactions};
use crate::coordinators::Coordinators;
use crate::coordinators::runtime::{Expiring, Nobody};
use crate::scheduling::clock;
use coordinator::transaction::TransactionShard;
use model::Now;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Looks for what is due, for ever.
pub(crate) async fn keep_time(coordinators: Arc<Coordinators>) {
    let config = coordinators.node.config.transactions;
    let period = |ms: i32| Duration::from_millis(u64::from(ms.max(1).unsigned_abs()));
    let every = |period: Duration| {
        let mut interval = interval_at(Instant::now() + period, period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval
    };
    let mut abort = every(period(config.abort_timed_out_interval_ms));
    let mut expire = every(period(config.remove_expired_interval_ms));
    loop {
        tokio::select! {
            _ = abort.tick() => {
                for (slot, look) in coordinators.transactions.unlooked() {
                    let coordinators = coordinators.clone();
                    tokio::spawn(async move {
                        coordinators.abort_timed_out(&slot).await;
                        drop(look);
                    });
                }
            }
            _ = expire.tick() => {
                for slot in coordinators.transactions.runtime.all_slots() {
                    if slot.noted.is_expiry_asked.swap(true, Ordering::Relaxed) {
                        continue;
                    }
                    slot.push(move |slot, served| {
                        let is_asked = &slot.noted.is_expiry_asked;
                        is_asked.store(false, Ordering::Relaxed);
                        served.hosted.decide::<usize>(Nobody, None, clock::now(), |shard, now| {
                            shard.expire_ids(now).into()
                        });
                    });
                }
            }
        }
    }
}

impl Transactions {
    /// The partitions that nobody looks at.
    fn unlooked(
        &self,
    ) -> impl Iterator<
        Item = (
            Arc<TransactionSlot>,
            Expiring<super::TransactionCoordination>,
        ),
    > {
        let slots = self.runtime.all_slots().into_iter();
        slots.filter_map(|slot| {
            let look = slot.begin_expiry()?;
            Some((slot, look))
        })
    }
}

impl Coordinators {
    /// Begins to abort the transactions that have taken longer than they may. None waits for the markers
    /// of another one, which may be for a disk that is stuck.
    async fn abort_timed_out(self: &Arc<Self>, slot: &Arc<TransactionSlot>) {
        let (asker, timed_out) = slot.own_asker();
        slot.push(move |_, served| {
            let timed_out = |shard: &mut TransactionShard, now: Now| shard.timed_out(now.monotonic);
            served.hosted.read(asker, clock::now(), timed_out);
        });
        for id in timed_out.answer().await.unwrap_or_default() {
            let coordinators = self.clone();
            tokio::spawn(async move { coordinators.abort(&id).await });
        }
    }

    async fn abort(self: &Arc<Self>, id: &Arc<str>) {
        let aborted_id = id.clone();
        let aborted = self.decide_for(Authority::Own, id, move |shard, context| {
            shard.abort_timed_out(&aborted_id, context)
        });
        match aborted.await {
            Ok(true) => {
                tracing::info!(
                    transactional_id = &**id,
                    "a transaction has timed out and is aborted"
                );
            }
            Ok(false) => {}
            // The next look finds it again.
            Err(error) => {
                tracing::warn!(transactional_id = &**id, %error, "a transaction that has timed out cannot be aborted for now");
            }
        }
    }
}
