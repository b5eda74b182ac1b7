//! Transactions, as their coordinators remember them (KIP-664).

use super::fan_out::Route;
use super::{Admin, PerKey, checked};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use model::{BrokerId, TopicPartition};
use std::collections::BTreeSet;
use wire::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, ListTransactionsRequest,
    ListTransactionsResponse,
};

/// A transactional id in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionListing {
    /// The `transactional.id`.
    pub id: String,
    /// The id of its producer.
    pub producer_id: i64,
    /// Its state, such as `Ongoing` or `CompleteCommit`.
    pub state: String,
    /// The broker that coordinates it.
    pub coordinator: BrokerId,
}

/// A transactional id with its latest transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDescription {
    /// Its state, such as `Ongoing` or `CompleteCommit`.
    pub state: String,
    /// The id of its producer.
    pub producer_id: i64,
    /// The epoch of its producer.
    pub producer_epoch: i16,
    /// After how long without an end the transaction is aborted.
    pub timeout_ms: i32,
    /// When the transaction began, in ms since 1970, if one is open.
    pub start_timestamp_ms: Option<i64>,
    /// The partitions that it has written to.
    pub partitions: BTreeSet<TopicPartition>,
}

impl Admin {
    /// The transactional ids of the cluster, by id; only those in these states if any is named.
    ///
    /// # Errors
    /// What one of the brokers says until `default.api.timeout.ms`: without its transactions the
    /// list would be wrong.
    pub async fn list_transactions(
        &self,
        states: &[&str],
    ) -> Result<Vec<TransactionListing>, Error> {
        let ids = self.broker_ids().await?;
        let call = |connection: Connection, ids: Vec<BrokerId>, deadline: Deadline| async move {
            let request = ListTransactionsRequest {
                state_filters: states.into(),
                ..ListTransactionsRequest::default()
            };
            let answer = connection.call(&request, deadline).await?;
            let response: ListTransactionsResponse<'_> = answer.read()?;
            let listed = ids.into_iter().map(|coordinator| {
                let subject = format!("transactions of broker {coordinator}");
                let checked = checked(response.error_code, subject, None);
                let transactions = response.transaction_states.iter();
                let transactions = transactions.map(|transaction| TransactionListing {
                    id: transaction.transactional_id.to_owned(),
                    producer_id: transaction.producer_id,
                    state: transaction.transaction_state.to_owned(),
                    coordinator,
                });
                (
                    coordinator,
                    checked.map(|()| transactions.collect::<Vec<_>>()),
                )
            });
            Ok(listed.collect())
        };
        let mut transactions = Vec::new();
        for (_, listed) in self.fan_out(ids, |id| Route::Broker(*id), call).await {
            transactions.extend(listed?);
        }
        transactions.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(transactions)
    }

    /// Describes transactional ids.
    pub async fn describe_transactions(
        &self,
        ids: &[&str],
    ) -> PerKey<String, TransactionDescription> {
        let ids = ids.iter().map(|id| (*id).to_owned());
        let route = |id: &String| Route::TransactionCoordinator(id.clone());
        let call = |connection: Connection, ids: Vec<String>, deadline: Deadline| async move {
            let request = DescribeTransactionsRequest {
                transactional_ids: ids.iter().map(|id| &**id).collect(),
            };
            let answer = connection.call(&request, deadline).await?;
            let response: DescribeTransactionsResponse<'_> = answer.read()?;
            let mut described = Vec::new();
            for transaction in response.transaction_states.iter() {
                let mut partitions = BTreeSet::new();
                for topic in transaction.topics.iter() {
                    let of_topic = topic.partitions.iter();
                    partitions
                        .extend(of_topic.map(|index| TopicPartition::new(topic.topic, index)));
                }
                let start_ms = transaction.transaction_start_time_ms;
                let description = TransactionDescription {
                    state: transaction.transaction_state.to_owned(),
                    producer_id: transaction.producer_id,
                    producer_epoch: transaction.producer_epoch,
                    timeout_ms: transaction.transaction_timeout_ms,
                    start_timestamp_ms: Some(start_ms).filter(|timestamp| *timestamp >= 0),
                    partitions,
                };
                let id = transaction.transactional_id;
                let subject = format!("transactional id `{id}`");
                let checked = checked(transaction.error_code, subject, None);
                described.push((id.to_owned(), checked.map(|()| description)));
            }
            Ok(described)
        };
        self.fan_out(ids, route, call).await
    }
}
