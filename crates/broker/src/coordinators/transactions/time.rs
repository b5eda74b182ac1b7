//! What becomes due without a request: transactions out of time are aborted, transactional ids
//! that nobody uses are forgotten. Each shard is looked at by a task of its own, so that none waits for
//! the disk of another.

use super::Shard;
use crate::coordinators::Coordinators;
use crate::runtime::apart::in_steps;
use crate::runtime::disk_watch::DiskUse;
use model::ErrorCode;
use std::sync::Arc;
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
                for (coordinators, shard) in coordinators.shards_on_fast_disks() {
                    tokio::spawn(in_steps(async move { coordinators.abort_timed_out(&shard).await }));
                }
            }
            _ = expire.tick() => {
                for (coordinators, shard) in coordinators.shards_on_fast_disks() {
                    tokio::spawn(in_steps(async move {
                        coordinators.transactions.expire_ids(&shard).await;
                    }));
                }
            }
        }
    }
}

impl Coordinators {
    /// The shards whose log directory is not slow; a later look has the others.
    fn shards_on_fast_disks(self: &Arc<Self>) -> Vec<(Arc<Self>, Arc<Shard>)> {
        let shards = self.transactions.all_shards().into_iter();
        let is_fast = |shard: &Arc<Shard>| {
            let place = shard.partition.place();
            !self.logs.disks.is_slow(place, DiskUse::Write)
        };
        let shards = shards.filter(is_fast);
        shards.map(|shard| (self.clone(), shard)).collect()
    }

    /// Aborts the transactions that have taken longer than they may.
    async fn abort_timed_out(self: &Arc<Self>, shard: &Shard) {
        let now = crate::runtime::clock::monotonic();
        let place = shard.partition.place();
        let disk = self.logs.disks.turn(place, DiskUse::Write).await;
        let timed_out = disk.run(|| Ok(shard.lock().ready()?.timed_out(now)));
        let timed_out: Result<_, ErrorCode> = timed_out;
        for id in timed_out.unwrap_or_default() {
            let aborted = self
                .decide_about(&id, |shard, moment| shard.abort_timed_out(&id, moment))
                .await;
            match aborted {
                Ok(true) => {
                    tracing::info!(transactional_id = &*id, "a transaction is out of time");
                }
                Ok(false) => {}
                // The next look finds it again.
                Err(error) => {
                    tracing::warn!(transactional_id = &*id, %error, "cannot be aborted");
                }
            }
        }
    }
}
