//! WriteTxnMarkers: v1–2. A transaction coordinator, or an administrator who aborts a hanging
//! transaction (KIP-664), ends transactions in partitions.
//!
//! - Version 2 says the transaction's version: from 2 on a marker raises the producer's epoch
//!   (KIP-1228).
//! - An answer comes when the markers are on every in-sync replica, or that takes longer than
//!   `request.timeout.ms`.
//! - Markers of one producer share an entry of the answer; the last word on a partition counts. A
//!   marker without partitions has none.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::net::ResponseBuffer;
use crate::scheduling::turn::Turn;
use coordinator::runtime::TransactionMarker;
use model::{DecodeError, ErrorCode, ProducerEpoch, ProducerId, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use wire::messages::write_txn_markers_request::WritableTxnMarker;
use wire::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

/// The errors of a producer's partitions, by topic.
type Outcomes<'f> = BTreeMap<&'f str, BTreeMap<i32, ErrorCode>>;

/// A partition that a marker is for, and why it cannot be had if it cannot. Its topic's name may be as long as the
/// request, and is not copied for it.
type Named<'f> = (&'f str, i32, Result<(), ErrorCode>);

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: WriteTxnMarkersRequest<'_> = request.decode()?;
    let mut begun = Vec::with_capacity(message.markers.len());
    let mut turn = Turn::begin();
    for asked in message.markers.iter() {
        let marker = TransactionMarker {
            producer_id: ProducerId(asked.producer_id),
            producer_epoch: ProducerEpoch(asked.producer_epoch),
            coordinator_epoch: asked.coordinator_epoch,
            is_commit: asked.transaction_result,
        };
        let named = named_once(broker, &asked, &mut turn).await;
        if named.is_empty() {
            continue;
        }
        let version = i16::from(asked.transaction_version);
        let written = match is_of_a_producer(&marker, version) {
            true => {
                let found = named.iter().filter(|(.., found)| found.is_ok());
                let found = found.map(|(topic, index, _)| TopicPartition::new(*topic, *index));
                let found: Vec<_> = found.collect();
                let coordinators = &broker.coordinators;
                let begun = coordinators.begin_transaction_markers(marker, &found, version);
                Some(begun.await)
            }
            false => None,
        };
        begun.push((asked.producer_id, named, written));
    }
    // All of them are appended before the first is waited for.
    let mut by_producer: BTreeMap<i64, Outcomes<'_>> = BTreeMap::new();
    for (producer_id, named, written) in begun {
        let written = match written {
            Some(written) => Some(broker.coordinators.end_transaction_markers(written).await),
            None => None,
        };
        let mut written = written.map(Vec::into_iter);
        let outcomes = by_producer.entry(producer_id).or_default();
        for (topic, index, found) in named {
            let result = match &mut written {
                Some(written) => found.and_then(|()| {
                    let unknown = Err(ErrorCode::UnknownServerError);
                    written.next().unwrap_or(unknown)
                }),
                None => Err(ErrorCode::UnknownServerError),
            };
            let error = result.err().unwrap_or(ErrorCode::None);
            outcomes.entry(topic).or_default().insert(index, error);
            turn.share().await;
        }
    }
    let markers = by_producer.iter().map(|(producer_id, topics)| {
        let topics = topics
            .iter()
            .map(|(name, partitions)| WritableTxnMarkerTopicResult {
                name,
                partitions: partitions.iter().map(partition_result).collect(),
            });
        WritableTxnMarkerResult {
            producer_id: *producer_id,
            topics: topics.collect(),
        }
    });
    let response = WriteTxnMarkersResponse {
        markers: markers.collect(),
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// The partitions that a marker is for. Named again or not, each gets the marker once.
async fn named_once<'f>(
    broker: &Broker,
    asked: &WritableTxnMarker<'f>,
    turn: &mut Turn,
) -> Vec<Named<'f>> {
    let mut each_once = BTreeSet::new();
    let mut named = Vec::new();
    for topic in asked.topics.iter() {
        for index in topic.partition_indexes.iter() {
            if each_once.insert((topic.name, index)) {
                let found = broker.logs.partitions.find(topic.name, index);
                named.push((topic.name, index, found.map(drop).map_err(ErrorCode::from)));
            }
            turn.share().await;
        }
    }
    named
}

/// Whether there can be such a marker. Apache Kafka fails to write another one, and answers so.
const fn is_of_a_producer(marker: &TransactionMarker, transaction_version: i16) -> bool {
    !marker.producer_id.is_none() && marker.producer_epoch.0 >= 0 && transaction_version >= 0
}

fn partition_result((index, error): (&i32, &ErrorCode)) -> WritableTxnMarkerPartitionResult {
    WritableTxnMarkerPartitionResult {
        partition_index: *index,
        error_code: error.code(),
    }
}
