//! A cluster in the test's own process: brokers that speak Kafka's protocol over pipes in memory, by
//! rules that are models, on a clock that only goes when everybody waits.
//!
//! ```text
//!   Producer, Consumer ── frames ──> Cluster: logs, a group's coordinator, transactions
//!   script ── Fault, cut, move_leader, recreate ──┘
//! ```
//!
//! One thread, a paused clock and one seed: a run is a function of its seed. So what the shells do
//! around the pure cores (tasks, locks, futures that are dropped) is tested as the cores are.

mod cluster;
mod groups;
mod logs;
mod network;
mod transactions;

mod group_life;
mod producer_life;
mod scripts_of_consumer_protocol;
mod scripts_of_consumers;
mod scripts_of_ends;
mod scripts_of_producers;

use cluster::{Cluster, Fault};
pub(crate) use network::{connector_of, seed};

use std::future::Future;
use std::time::Duration;

/// In the time of the simulation: longer than any call may take.
const LIMIT: Duration = Duration::from_secs(3_600);

/// Runs `test` against a cluster of this many nodes; all that is random comes of `seed`.
fn run<T, F>(seed: u64, nodes: i32, test: impl FnOnce(Cluster) -> F) -> T
where
    F: Future<Output = T>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let cluster = Cluster::start(seed, nodes);
        let ended = tokio::time::timeout(LIMIT, test(cluster)).await;
        ended.expect("every call ends in its time")
    })
}

/// Polls `future` so many times, then drops it; what it returned, if it had ended by then.
async fn cancelled_after<T>(polls: u64, future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut left = polls;
    std::future::poll_fn(move |context| {
        use std::task::Poll;
        match future.as_mut().poll(context) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => {
                left -= 1;
                Poll::Pending
            }
        }
    })
    .await
}

/// Runs `test` for each seed, or for those of a hunt. One that fails is named.
fn for_each_seed(seeds: std::ops::Range<u64>, mut test: impl FnMut(u64)) {
    for seed in trials::seeds(seeds) {
        let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(seed)));
        if let Err(panic) = lived {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("seed {seed}: {text}");
        }
    }
}

/// A configuration's pairs.
fn set_all<E: std::fmt::Debug>(
    pairs: &[(&str, &str)],
    mut set: impl FnMut(&str, &str) -> Result<(), E>,
) {
    for (key, value) in pairs {
        set(key, value).expect("a setting");
    }
}
