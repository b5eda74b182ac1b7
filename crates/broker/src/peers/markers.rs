//! WriteTxnMarkers to the leaders of partitions on other brokers.
//!
//! - One request to each broker at a time: the markers of all transactions that end meanwhile go in the next one.
//! - A request has one marker of each producer at most, as its answer tells them apart by that alone.
//! - Nothing is sent twice here. The coordinator asks again, of whoever leads the partition by then.

use super::connections::{PeerConnections, Purpose};
use super::endpoints::broker_node;
use super::outbox::{Outbox, Sending};
use crate::coordinators::transaction_peers::{MarkersToWrite, Outcomes};
use crate::scheduling::log_rate_limit::LogRateLimit;
use crate::settings::node::Node;
use connection::Error;
use model::{BrokerId, ErrorCode};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

/// More partitions go in the request after. A transaction with more goes alone.
const PARTITIONS_MAX: usize = 10_000;

/// Markers on their way to other brokers.
#[derive(Debug)]
pub(super) struct Markers {
    node: Arc<Node>,
    connections: Arc<PeerConnections>,
    outbox: Arc<Outbox<Asked>>,
    unsent: LogRateLimit,
}

/// Markers of a transaction, and who waits for what becomes of them.
type Asked = (MarkersToWrite, oneshot::Sender<Vec<ErrorCode>>);

impl Markers {
    pub(super) fn new(node: Arc<Node>, connections: Arc<PeerConnections>) -> Self {
        Self {
            node,
            connections,
            outbox: Arc::default(),
            unsent: LogRateLimit::once_a_minute(),
        }
    }

    /// Sends markers to a broker, with the next request to it.
    pub(super) fn send(self: &Arc<Self>, to: BrokerId, markers: MarkersToWrite) -> Outcomes {
        let (sender, outcomes) = Outcomes::new(markers.partitions.len());
        if let Some(sending) = self.outbox.add(to, (markers, sender)) {
            let markers = self.clone();
            self.node.runtime.spawn(markers.send_all(sending));
        }
        outcomes
    }

    async fn send_all(self: Arc<Self>, mut sending: Sending<Asked>) {
        while let Some(asked) = sending.next(fits) {
            let (markers, senders): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
            let outcomes = match self.call(sending.to(), &markers).await {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    self.report(sending.to(), &error);
                    vec![Vec::new(); markers.len()]
                }
            };
            for (sender, outcomes) in senders.into_iter().zip(outcomes) {
                // Whoever has found that another broker leads waits no more.
                let _ = sender.send(outcomes);
            }
        }
    }

    async fn call(
        &self,
        to: BrokerId,
        markers: &[MarkersToWrite],
    ) -> Result<Vec<Vec<ErrorCode>>, Error> {
        let listener = &self.node.config.listeners.inter_broker;
        let Some(peer) = broker_node(&self.node.image(), to, listener) else {
            return Ok(vec![Vec::new(); markers.len()]);
        };
        let deadline = self.connections.deadline(Purpose::Markers);
        let request = request(markers);
        let called = self
            .connections
            .call(&peer, Purpose::Markers, &request, deadline);
        let response = called.await?;
        let response: WriteTxnMarkersResponse<'_> = response.read()?;
        Ok(outcomes(markers, &response))
    }

    fn report(&self, to: BrokerId, error: &Error) {
        if let Some(not_logged) = self.unsent.due() {
            let broker = to.0;
            tracing::warn!(broker, %error, not_logged, "transaction markers are not written, and are sent again");
        }
    }
}

/// Whether markers go in a request with others.
fn fits(taken: &[Asked], one: &Asked) -> bool {
    let counts = taken.iter().map(|(markers, _)| markers.partitions.len());
    let producer_id = one.0.marker.producer_id;
    let mut producers = taken.iter().map(|(markers, _)| markers.marker.producer_id);
    counts.sum::<usize>() + one.0.partitions.len() <= PARTITIONS_MAX
        && producers.all(|taken| taken != producer_id)
}

fn request(markers: &[MarkersToWrite]) -> WriteTxnMarkersRequest<'_> {
    let markers = markers.iter().map(|one| {
        let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for partition in &one.partitions {
            let indexes = topics.entry(&partition.topic).or_default();
            indexes.push(partition.partition);
        }
        let topics = topics.into_iter();
        let topics = topics.map(|(name, indexes)| WritableTxnMarkerTopic {
            name,
            partition_indexes: indexes.into(),
        });
        WritableTxnMarker {
            producer_id: one.marker.producer_id.0,
            producer_epoch: one.marker.producer_epoch.0,
            transaction_result: one.marker.is_commit,
            topics: topics.collect(),
            coordinator_epoch: one.marker.coordinator_epoch,
            transaction_version: i8::try_from(one.transaction_version).unwrap_or_default(),
        }
    });
    WriteTxnMarkersRequest {
        markers: markers.collect(),
    }
}

/// The outcome of each partition of each transaction. What an answer does not tell is unknown.
fn outcomes(
    markers: &[MarkersToWrite],
    response: &WriteTxnMarkersResponse<'_>,
) -> Vec<Vec<ErrorCode>> {
    let mut told: BTreeMap<(i64, &str, i32), ErrorCode> = BTreeMap::new();
    for marker in response.markers.iter() {
        for topic in marker.topics.iter() {
            for one in topic.partitions.iter() {
                let partition = (marker.producer_id, topic.name, one.partition_index);
                told.insert(partition, ErrorCode::from_code(one.error_code));
            }
        }
    }
    let markers = markers.iter().map(|one| {
        let partitions = one.partitions.iter().map(|partition| {
            let producer_id = one.marker.producer_id.0;
            let of_partition = told.get(&(producer_id, &partition.topic, partition.partition));
            of_partition
                .copied()
                .unwrap_or(ErrorCode::UnknownServerError)
        });
        partitions.collect()
    });
    markers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coordinator::runtime::TransactionMarker;
    use model::{Message, ProducerEpoch, ProducerId, Reader, TopicPartition};
    use wire::messages::write_txn_markers_response::{
        WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    };

    fn markers(producer_id: i64, partitions: &[(&str, i32)]) -> MarkersToWrite {
        let partitions = partitions.iter();
        MarkersToWrite {
            marker: TransactionMarker {
                producer_id: ProducerId(producer_id),
                producer_epoch: ProducerEpoch(3),
                coordinator_epoch: 7,
                is_commit: true,
            },
            transaction_version: 2,
            partitions: partitions
                .map(|(topic, index)| TopicPartition::new(*topic, *index))
                .collect(),
        }
    }

    #[test]
    fn a_request_has_the_markers_of_several_transactions() {
        let asked = [
            markers(5, &[("b", 1), ("a", 0), ("b", 0)]),
            markers(6, &[("a", 0)]),
        ];
        let check = |version: i16, expect: &str| {
            let mut bytes = Vec::new();
            request(&asked).write(version, &mut bytes);
            let mut reader = Reader::new(&bytes);
            let read = WriteTxnMarkersRequest::read(&mut reader, version).unwrap();
            let told = read.markers.iter().map(|one| {
                let topics = one.topics.iter().map(|topic| {
                    let indexes: Vec<i32> = topic.partition_indexes.iter().collect();
                    format!("{}{indexes:?}", topic.name)
                });
                let topics: Vec<_> = topics.collect();
                format!(
                    "{} epoch {} commit {} {} by {} version {}",
                    one.producer_id,
                    one.producer_epoch,
                    one.transaction_result,
                    topics.join(" "),
                    one.coordinator_epoch,
                    one.transaction_version,
                )
            });
            assert_eq!(told.collect::<Vec<_>>().join("; "), expect);
        };
        check(
            2,
            "5 epoch 3 commit true a[0] b[1, 0] by 7 version 2; \
             6 epoch 3 commit true a[0] by 7 version 2",
        );
        check(
            1,
            "5 epoch 3 commit true a[0] b[1, 0] by 7 version 0; \
             6 epoch 3 commit true a[0] by 7 version 0",
        );
    }

    #[test]
    fn an_answer_tells_the_outcome_of_each_and_what_it_does_not_tell_is_unknown() {
        let asked = [markers(5, &[("b", 1), ("a", 0)]), markers(6, &[("a", 0)])];
        let result = |partition_index, error: ErrorCode| WritableTxnMarkerPartitionResult {
            partition_index,
            error_code: error.code(),
        };
        let topic = |name, results: Vec<_>| WritableTxnMarkerTopicResult {
            name,
            partitions: results.into(),
        };
        let of_five = vec![topic("b", vec![result(1, ErrorCode::None)])];
        let of_six = vec![topic("a", vec![result(0, ErrorCode::NotLeaderOrFollower)])];
        let marker = |producer_id, topics: Vec<_>| WritableTxnMarkerResult {
            producer_id,
            topics: topics.into(),
        };
        let response = WriteTxnMarkersResponse {
            markers: vec![marker(5, of_five), marker(6, of_six)].into(),
        };
        let expected = [
            vec![ErrorCode::None, ErrorCode::UnknownServerError],
            vec![ErrorCode::NotLeaderOrFollower],
        ];
        assert_eq!(outcomes(&asked, &response), expected);
    }

    #[test]
    fn a_producer_has_one_marker_in_a_request_and_the_partitions_are_bounded() {
        let asked = |producer_id, count: usize| {
            let partitions = vec![("a", 0); count];
            let (sender, _) = Outcomes::new(count);
            (markers(producer_id, &partitions), sender)
        };
        let taken = [asked(5, 1), asked(6, PARTITIONS_MAX - 2)];
        assert!(fits(&taken, &asked(7, 1)));
        assert!(!fits(&taken, &asked(7, 2)));
        assert!(!fits(&taken, &asked(5, 1)));
    }
}
