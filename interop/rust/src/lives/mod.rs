//! Lives of clients against a real broker, drawn from seeds: calls that are given up at any moment,
//! connections that break, members that fall silent, callbacks that call back. They are those of
//! `crates/client/src/simulated`, held to the same promises.
//!
//! ```text
//!   group.rs         members of a group of either protocol  ── ledger.rs: what they may do
//!   transactions.rs  transactions, and producers that fence one another
//!   deliveries.rs    records that expire, whose callbacks send others
//!   relay.rs         the connection of each client
//! ```
//!
//! `RIVERRUN_SEED` leads to other seeds, `RIVERRUN_CASES` to so many times as many of them. The
//! time is the real one, so that a seed repeats what the clients do, and not what they meet.

mod deliveries;
mod group;
mod ledger;
mod relay;
mod stored;
mod transactions;

use std::collections::VecDeque;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interpreter::Random;
use riverrun_client::Error;
use tokio::task::JoinSet;

use crate::lab::Lab;
use relay::Relay;

crate::scenarios! {
    "life-groups" => group::live,
    "life-transactions" => transactions::live,
    "life-transactions-protocol-1" => transactions::live_by_protocol_1,
    "life-deliveries" => deliveries::live,
}

/// Lives that go on at a time.
const AT_A_TIME: usize = 6;
/// What a call may take longer than it says, on a machine that is busy.
const SLACK: Duration = Duration::from_secs(15);

/// Random numbers that tasks share.
#[derive(Debug)]
pub(crate) struct Seeded(Mutex<Random>);

impl Seeded {
    pub(crate) const fn new(random: Random) -> Self {
        Self(Mutex::new(random))
    }

    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A time below so many milliseconds.
fn below_ms(random: &mut Random, end_ms: usize) -> Duration {
    Duration::from_millis(random.below(end_ms) as u64)
}

/// How long the scenario of this name may take: longer when more lives are asked for.
pub(crate) fn limit(name: &str, usual: Duration) -> Duration {
    let is_life = SCENARIOS.iter().any(|(life, _)| *life == name);
    let factor = trials::seeds(0..1).count() as u32;
    if is_life { usual * factor } else { usual }
}

/// Lives each seed, some at a time. A life that fails is named.
async fn for_each_seed<F>(seeds: Range<u64>, life: impl Fn(u64) -> F) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let mut waiting: VecDeque<u64> = trials::seeds(seeds).collect();
    eprintln!("seeds {:?} to {:?}", waiting.front(), waiting.back());
    let mut living = JoinSet::new();
    loop {
        while living.len() < AT_A_TIME
            && let Some(seed) = waiting.pop_front()
        {
            let lived = life(seed);
            living.spawn(async move { lived.await.with_context(|| format!("seed {seed}")) });
        }
        match living.join_next().await {
            Some(lived) => lived??,
            None => return Ok(()),
        }
    }
}

/// The scenario's laboratory for one life, whose clients connect by a relay.
async fn relayed(lab: &Lab, seed: u64) -> Result<(Lab, Arc<Relay>)> {
    let relay = Relay::start(&lab.bootstrap, seed).await?;
    let lab = Lab {
        transport: Some(relay.clone()),
        ..lab.clone()
    };
    Ok((lab, relay))
}

/// When a call is given up.
#[derive(Debug, Clone, Copy)]
enum Patience {
    /// Never.
    Endless,
    /// When it has been polled so many times.
    Polls(usize),
    /// After this time.
    Time(Duration),
}

impl Patience {
    /// Endless in two cases of three.
    fn draw(random: &mut Random) -> Self {
        match random.below(6) {
            0 => Self::Polls(random.below(8)),
            1 => Self::Time(below_ms(random, 60)),
            _ => Self::Endless,
        }
    }

    /// What the call returns, unless it is given up before. One that takes much longer than `limit`
    /// fails.
    async fn bound<T>(
        self,
        name: &str,
        limit: Duration,
        call: impl Future<Output = T>,
    ) -> Result<Option<T>> {
        let in_time = async {
            let ended = tokio::time::timeout(limit + SLACK, call).await;
            ended.with_context(|| format!("{name} did not end within {limit:?}"))
        };
        match self {
            Self::Endless => in_time.await.map(Some),
            Self::Polls(count) => polled(count, in_time).await.transpose(),
            Self::Time(time) => match tokio::time::timeout(time, in_time).await {
                Ok(ended) => ended.map(Some),
                Err(_) => Ok(None),
            },
        }
    }
}

/// Polls `future` so many times, then drops it; what it returned, if it had ended by then.
async fn polled<T>(count: usize, future: impl Future<Output = T>) -> Option<T> {
    use std::task::Poll;
    let mut future = std::pin::pin!(future);
    let mut left = count;
    std::future::poll_fn(move |context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            Poll::Pending
        }
    })
    .await
}

/// What a future returns at once.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(result) => Some(result),
        std::task::Poll::Pending => None,
    }
}

/// Fails if a call that only the client itself decides on is not refused.
fn ensure_invalid(name: &str, ended: Option<Result<(), Error>>) -> Result<()> {
    let is_refused = matches!(ended, Some(Err(_)));
    ensure!(is_refused, "{name} within a callback: {ended:?}");
    Ok(())
}
