//! What becomes due without a request: transactions out of time are aborted, transactional ids
//! that nobody uses are forgotten.

use crate::Broker;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// Looks for what is due, for ever.
pub(crate) async fn keep_time(broker: Arc<Broker>) {
    let config = broker.config.transactions;
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
            _ = abort.tick() => broker.abort_timed_out().await,
            _ = expire.tick() => broker.transactions.expire_ids(),
        }
    }
}

impl Broker {
    /// Aborts the transactions that have taken longer than they may.
    async fn abort_timed_out(self: &Arc<Self>) {
        let now = crate::clock::monotonic();
        for shard in self.transactions.all_shards() {
            let timed_out = match shard.state.lock().ready() {
                Ok(ready) => ready.timed_out(now),
                Err(_) => continue,
            };
            for id in timed_out {
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
}
