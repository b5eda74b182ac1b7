//! Transactions, as their coordinators remember them (KIP-664).

use super::fan_out::Route;
use super::partitions::version_from;
use super::{Admin, PerKey, checked};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use model::{BrokerId, TopicPartition};
use std::collections::BTreeSet;
use wire::ApiKey;
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, InitProducerIdRequest,
    InitProducerIdResponse, ListTransactionsRequest, ListTransactionsResponse,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
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

/// Which transactional ids to list; what is empty or `None` leaves none out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransactionFilter {
    /// Only in these states, such as `Ongoing`.
    pub states: Vec<String>,
    /// Only of these producers.
    pub producer_ids: Vec<i64>,
    /// Only those whose transaction has been open for longer (KIP-994).
    pub older_than_ms: Option<i64>,
    /// Only ids that match this regular expression, as the broker understands it (KIP-1152).
    pub id_pattern: Option<String>,
}

/// An open transaction in a partition, as [`Admin::describe_producers`] tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The partition that it hangs in.
    pub partition: TopicPartition,
    /// The id of its producer.
    pub producer_id: i64,
    /// The epoch of its producer.
    pub producer_epoch: i16,
    /// The epoch of the coordinator that last ended one for this producer; `None` without any.
    pub coordinator_epoch: Option<i32>,
}

impl Admin {
    /// The transactional ids of the cluster, by id.
    ///
    /// # Errors
    /// What one of the brokers says until `default.api.timeout.ms`: without its transactions the
    /// list would be wrong.
    pub async fn list_transactions(
        &self,
        filter: &TransactionFilter,
    ) -> Result<Vec<TransactionListing>, Error> {
        let ids = self.broker_ids().await?;
        let call = |connection: Connection, ids: Vec<BrokerId>, deadline: Deadline| async move {
            let request = ListTransactionsRequest {
                state_filters: filter.states.iter().map(|state| &**state).collect(),
                producer_id_filters: (&filter.producer_ids).into(),
                duration_filter: filter.older_than_ms.unwrap_or(-1),
                transactional_id_pattern: filter.id_pattern.as_deref(),
            };
            let first = match (&filter.id_pattern, filter.older_than_ms) {
                (Some(_), _) => 2,
                (None, Some(_)) => 1,
                (None, None) => 0,
            };
            let version = version_from(&connection, ApiKey::ListTransactions, first)?;
            let answer = connection.call_version(version, &request, deadline).await?;
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

    /// Ends a transaction that hangs in a partition, so that nothing of it counts: its coordinator
    /// does not know of it any more, and readers of committed records wait for it. One that its
    /// coordinator knows must not be ended so; it ends by itself, at the latest after its timeout.
    ///
    /// # Errors
    /// What the partition's leader says, such as `INVALID_PRODUCER_EPOCH` for another epoch.
    pub async fn abort_transaction(&self, open: &OpenTransaction) -> Result<(), Error> {
        let route = Route::Leader(open.partition.clone());
        self.ask(route, |connection, deadline| async move {
            abort(&connection, open, deadline).await
        })
        .await
    }

    /// Makes the producers of transactional ids older than any that comes later: what they have open
    /// is aborted, and they can only be closed. Returns the ids of the producers that come after them.
    pub async fn fence_producers(&self, ids: &[&str]) -> PerKey<String, i64> {
        let ids = ids.iter().map(|id| (*id).to_owned());
        let route = |id: &String| Route::TransactionCoordinator(id.clone());
        let call = |connection: Connection, ids: Vec<String>, deadline: Deadline| async move {
            let mut fenced = Vec::new();
            for id in ids {
                let producer_id = fence(&connection, &id, deadline).await?;
                fenced.push((id, producer_id));
            }
            Ok(fenced)
        };
        self.fan_out(ids, route, call).await
    }
}

async fn abort(
    connection: &Connection,
    open: &OpenTransaction,
    deadline: Deadline,
) -> Result<(), Error> {
    /// The last version in which a marker need not raise the producer's epoch.
    const VERSION_MAX: i16 = 1;
    let indexes = [open.partition.partition];
    let topics = [WritableTxnMarkerTopic {
        name: &open.partition.topic,
        partition_indexes: indexes[..].into(),
    }];
    let markers = [WritableTxnMarker {
        producer_id: open.producer_id,
        producer_epoch: open.producer_epoch,
        transaction_result: false,
        topics: topics[..].into(),
        coordinator_epoch: open.coordinator_epoch.unwrap_or(0),
        ..WritableTxnMarker::default()
    }];
    let request = WriteTxnMarkersRequest {
        markers: markers[..].into(),
    };
    let version = connection.version_up_to(ApiKey::WriteTxnMarkers, VERSION_MAX)?;
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: WriteTxnMarkersResponse<'_> = answer.read()?;
    let markers = response.markers.iter();
    let partitions = markers.flat_map(|marker| {
        let topics = marker.topics.iter();
        let codes = topics.flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions
                .map(|partition| partition.error_code)
                .collect::<Vec<_>>()
        });
        codes.collect::<Vec<_>>()
    });
    for code in partitions {
        let subject = format!(
            "transaction of producer {} in `{}`",
            open.producer_id, open.partition
        );
        checked(code, subject, None)?;
    }
    Ok(())
}

/// The outcome for one id; an error of the connection is one of all.
async fn fence(
    connection: &Connection,
    id: &str,
    deadline: Deadline,
) -> Result<Result<i64, Error>, Error> {
    /// Nothing is begun with it, so that it need not be long.
    const TIMEOUT_MS: i32 = 1;
    let request = InitProducerIdRequest {
        transactional_id: Some(id),
        transaction_timeout_ms: TIMEOUT_MS,
        ..InitProducerIdRequest::default()
    };
    let answer = connection.call(&request, deadline).await?;
    let response: InitProducerIdResponse = answer.read()?;
    let subject = format!("transactional id `{id}`");
    let checked = checked(response.error_code, subject, None);
    Ok(checked.map(|()| response.producer_id))
}
