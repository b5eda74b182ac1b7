//! DescribeTransactions: v0. How transactional ids stand (KIP-664).
//!
//! - An id that is named again is described once.
//! - The partitions of a transaction are shown until all of them have their markers.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use model::DecodeError;
use wire::messages::describe_transactions_response::{TopicData, TransactionState};
use wire::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeTransactionsRequest<'_> = request.decode()?;
    let mut described = Vec::new();
    for id in super::each_once(message.transactional_ids.iter()) {
        described.push((id, broker.coordinators.transactions.describe(id).await));
    }
    request.room(broker).await;
    let states = described.iter().map(|(id, described)| match described {
        Ok(one) => TransactionState {
            transactional_id: id,
            transaction_state: one.state.name(),
            transaction_timeout_ms: one.timeout_ms,
            transaction_start_time_ms: one.start_timestamp_ms,
            producer_id: one.producer.producer_id.0,
            producer_epoch: one.producer.producer_epoch.0,
            topics: one
                .topics
                .iter()
                .map(|(topic, partitions)| TopicData {
                    topic,
                    partitions: partitions.iter().copied().collect(),
                })
                .collect(),
            ..Default::default()
        },
        Err(error) => TransactionState {
            error_code: error.code(),
            transactional_id: id,
            ..Default::default()
        },
    });
    let response = DescribeTransactionsResponse {
        transaction_states: states.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
