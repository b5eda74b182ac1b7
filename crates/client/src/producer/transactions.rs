//! Transactions as the application uses them.

use super::Producer;
use super::callbacks::{cannot_wait, is_in_callback};
use super::transaction::{Call, GroupOffsets};
use crate::Error;
use crate::cluster::Deadline;
use crate::consumer::{GroupMetadata, Offsets};

/// Transactions: what is sent between [`begin_transaction`](Producer::begin_transaction) and
/// [`commit_transaction`](Producer::commit_transaction) is read by consumers with `isolation.level` =
/// `read_committed` as a whole or not at all.
///
/// ```no_run
/// use riverrun_client::producer::{Producer, ProducerConfig, ProducerRecord};
///
/// # async fn example() -> Result<(), riverrun_client::Error> {
/// let mut config = ProducerConfig::with_bootstrap_servers("localhost:9092")?;
/// config.set("transactional.id", "billing")?;
/// let producer = Producer::new(config)?;
/// producer.init_transactions().await?;
/// producer.begin_transaction()?;
/// for topic in ["invoices", "ledger"] {
///     producer.send(ProducerRecord::new(topic).value(b"12 EUR")).await?;
/// }
/// match producer.commit_transaction().await {
///     Err(riverrun_client::Error::TransactionFailed(reason)) => {
///         println!("aborted: {reason}");
///         producer.abort_transaction().await?;
///     }
///     ended => ended?,
/// }
/// # Ok(())
/// # }
/// ```
///
/// Each call waits up to `max.block.ms`. One that then fails with [`Error::TimedOut`], or whose future
/// is dropped, goes on in the background: to call it again is to wait again, or to hear how it ended.
/// Until then nothing else is begun.
impl Producer {
    /// Makes this producer the one of its `transactional.id`: any other is fenced, and what it has
    /// left open is aborted. Once, before anything else.
    ///
    /// # Errors
    /// [`Error::ProducerFailed`] when the coordinator refuses, [`Error::TimedOut`] without an answer,
    /// [`Error::Invalid`] without `transactional.id`.
    pub async fn init_transactions(&self) -> Result<(), Error> {
        self.transaction_call(Call::Initialize).await
    }

    /// Begins a transaction, which everything that is sent from here on is part of.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one is open or the producer is not initialized, and
    /// [`Error::TransactionFailed`] when the last one has to be aborted first.
    pub fn begin_transaction(&self) -> Result<(), Error> {
        let mut accumulator = self.shared().accumulator.lock();
        if accumulator.is_closed() {
            return Err(Error::Closed("producer"));
        }
        match accumulator.transaction_mut() {
            Some(transaction) => transaction.begin(),
            None => Err(super::accumulator::no_transactional_id()),
        }
    }

    /// Makes offsets of a group part of the transaction: they are committed with it. `group` is
    /// [`Consumer::group_metadata`](crate::consumer::Consumer::group_metadata) of the consumer that
    /// the transaction's input came from, and the consumer commits nothing by itself.
    ///
    /// # Errors
    /// [`Error::TransactionFailed`] when they cannot be, as when the group has rebalanced;
    /// [`Error::TimedOut`] and [`Error::Invalid`].
    pub async fn send_offsets_to_transaction(
        &self,
        offsets: Offsets,
        group: &GroupMetadata,
    ) -> Result<(), Error> {
        if offsets.is_empty() {
            return Ok(());
        }
        let offsets = GroupOffsets {
            group: group.clone(),
            offsets,
        };
        self.transaction_call(Call::SendOffsets(offsets)).await
    }

    /// Ends the transaction so that all of it counts, after everything that was sent is written.
    ///
    /// # Errors
    /// [`Error::TransactionFailed`] when something of it is lost: abort it then.
    /// [`Error::ProducerFailed`] when another producer has taken over. After [`Error::TimedOut`] it
    /// may be committed or not: call again.
    pub async fn commit_transaction(&self) -> Result<(), Error> {
        self.transaction_call(Call::Commit).await
    }

    /// Ends the transaction so that nothing of it counts. Records that are not sent yet fail with
    /// [`Error::TransactionAborted`].
    ///
    /// # Errors
    /// [`Error::ProducerFailed`], [`Error::TimedOut`] and [`Error::Invalid`].
    pub async fn abort_transaction(&self) -> Result<(), Error> {
        self.transaction_call(Call::Abort).await
    }

    async fn transaction_call(&self, call: Call) -> Result<(), Error> {
        let shared = self.shared();
        let name = call.name();
        let deadline = Deadline::after_ms(shared.config.max_block_ms, "max.block.ms");
        if is_in_callback() {
            return Err(cannot_wait(name));
        }
        let number = shared.accumulator.lock().begin_call(call)?;
        shared.wake.notify_one();
        let mut ended = shared.ended_calls.subscribe();
        let has_ended = ended.wait_for(|ended| *ended >= number);
        if deadline.bound(has_ended).await.is_none() {
            // Why the cluster cannot be reached says more than that time is over.
            let error = shared.brokers.failure_at(name, deadline);
            return Err(match error {
                Error::TimedOut { .. } => Error::of(deadline.error(name, "the coordinator")),
                error => error,
            });
        }
        let mut accumulator = shared.accumulator.lock();
        let transaction = accumulator.transaction_mut();
        let result = transaction.and_then(|transaction| transaction.result(number));
        result.unwrap_or(Err(Error::Closed("producer")))
    }
}
