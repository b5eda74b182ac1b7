//! WriteTxnMarkers to the leaders of partitions on other brokers.
//!
//! A request has one marker of each producer at most, as its answer tells them apart by that alone. The
//! coordinator asks again, of whoever leads a partition by then.

use super::connections::{PeerConnections, Purpose};
use super::endpoints::PeerNode;
use super::questions::{AllOutcomes, AnsweredErrors, Question, by_topic};
use connection::Error;
use coordinator::transaction::MarkersToWrite;
use model::{BrokerId, ErrorCode, ProducerId, TopicPartition};
use wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use wire::messages::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

impl Question for MarkersToWrite {
    type Key = ProducerId;

    const WITHOUT_BROKER: Option<ErrorCode> = None;

    fn partitions(&self) -> &[TopicPartition] {
        &self.partitions
    }

    fn key(&self) -> ProducerId {
        self.answer_key()
    }

    async fn call(
        connections: &PeerConnections,
        broker: &PeerNode,
        questions: &[Self],
    ) -> Result<AllOutcomes, Error> {
        let (purpose, request) = (Purpose::Markers, request(questions));
        let deadline = connections.deadline(purpose);
        let called = connections.call(broker, purpose, &request, deadline);
        let response = called.await?;
        let response: WriteTxnMarkersResponse<'_> = response.read()?;
        Ok(outcomes(questions, &response))
    }

    fn log_unanswered(broker: BrokerId, error: &Error, not_logged: u64) {
        let broker = broker.0;
        tracing::warn!(broker, %error, not_logged, "transaction markers are not written, and are sent again");
    }
}

fn request(markers: &[MarkersToWrite]) -> WriteTxnMarkersRequest<'_> {
    let markers = markers.iter().map(|one| {
        let topics = by_topic(&one.partitions).into_iter();
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
fn outcomes(markers: &[MarkersToWrite], response: &WriteTxnMarkersResponse<'_>) -> AllOutcomes {
    let mut told = AnsweredErrors::default();
    for marker in response.markers.iter() {
        for topic in marker.topics.iter() {
            for one in topic.partitions.iter() {
                told.add(
                    marker.producer_id,
                    topic.name,
                    one.partition_index,
                    one.error_code,
                );
            }
        }
    }
    told.outcomes(markers, |one| one.marker.producer_id.0)
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
    fn a_producer_has_one_marker_in_a_request() {
        let of = |producer_id| markers(producer_id, &[("a", 0)]);
        assert_eq!(of(5).key(), of(5).key());
        assert_ne!(of(5).key(), of(6).key());
    }
}
