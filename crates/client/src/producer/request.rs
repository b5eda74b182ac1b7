//! Produce on the wire: versions 3 to 13, written around the batches and read into their answers.
//!
//! - 9: flexible; 10: the answer may name the new leader (KIP-951); 13: topics by id (KIP-516).
//!
//! A batch is a slice of the request, so it goes from its buffer to the socket without a copy.

use model::{ErrorCode, LeaderEpoch, Message as _, Uuid, Writer};
use wire::messages::produce_response::PartitionProduceResponse;
use wire::messages::{ProduceRequest, ProduceResponse};

use super::batch::Batch;
use super::sender::PartitionAnswer;
use crate::cluster::{Leader, Request};

/// The first version whose requests name topics by id.
pub(crate) const TOPIC_IDS_FROM: i16 = 13;
/// The first version that carries Zstandard (KIP-110).
pub(crate) const ZSTD_FROM: i16 = 7;

/// Writes the body of a request of a producer with or without `transactional.id`. `batches` are in the
/// order of their topics; `topic_ids` are the ids of those, which only version 13 names.
pub(crate) fn write_produce(
    request: &mut Request,
    transactional_id: Option<&str>,
    acks: i16,
    timeout_ms: i32,
    batches: &[Batch],
    topic_ids: &[Uuid],
) {
    let version = ProduceRequest::layout(request.version());
    let flexible = version.flexible;
    let topics =
        || batches.chunk_by(|one, other| one.outcome().name().0 == other.outcome().name().0);
    let out = request.body();
    Writer::string(transactional_id, flexible, out);
    out.extend_from_slice(&acks.to_be_bytes());
    out.extend_from_slice(&timeout_ms.to_be_bytes());
    Writer::length(Some(topics().count()), flexible, out);
    let mut ids = topic_ids.iter();
    for batches in topics() {
        let out = request.body();
        let (topic, _) = batches[0].outcome().name();
        if version.number >= TOPIC_IDS_FROM {
            let topic_id = ids.nth(batches.len() - 1).expect("each batch has an id");
            out.extend_from_slice(&topic_id.to_bytes());
        } else {
            Writer::string(Some(topic), flexible, out);
        }
        Writer::length(Some(batches.len()), flexible, out);
        for batch in batches {
            let (_, index) = batch.outcome().name();
            let out = request.body();
            out.extend_from_slice(&index.to_be_bytes());
            Writer::length(Some(batch.bytes().len()), flexible, out);
            request.append_slice(batch.bytes().clone());
            end_of_struct(request, flexible);
        }
        end_of_struct(request, flexible);
    }
    end_of_struct(request, flexible);
}

fn end_of_struct(request: &mut Request, flexible: bool) {
    if flexible {
        request.body().push(0);
    }
}

/// The answers for `batches`, in their order; `None` for those that the response leaves out.
/// `topic_ids` are those that the request named; none when it named the topics.
pub(crate) fn read_answers(
    response: &ProduceResponse<'_>,
    batches: &[Batch],
    topic_ids: &[Uuid],
) -> Vec<Option<PartitionAnswer>> {
    let mut answers = vec![None; batches.len()];
    // Brokers answer in the order of the request, or nearly so.
    let mut next = 0;
    for topic in response.responses.iter() {
        for partition in topic.partition_responses.iter() {
            let is_it = |at: &usize| {
                let (name, index) = batches[*at].outcome().name();
                index == partition.index
                    && match topic_ids.get(*at) {
                        Some(topic_id) => *topic_id == topic.topic_id,
                        None => name == topic.name,
                    }
            };
            let found = (next..batches.len()).chain(0..next).find(is_it);
            if let Some(at) = found {
                let topic_id = topic_ids.get(at).copied().unwrap_or(Uuid::ZERO);
                answers[at] = Some(answer(&partition, topic_id));
                next = at + 1;
            }
        }
    }
    answers
}

fn answer(partition: &PartitionProduceResponse<'_>, topic_id: Uuid) -> PartitionAnswer {
    let leader = &partition.current_leader;
    let record_errors = partition.record_errors.iter().map(|error| {
        let message = error.batch_index_error_message;
        (error.batch_index, message.map(str::to_owned))
    });
    PartitionAnswer {
        error: ErrorCode::from_code(partition.error_code),
        base_offset: partition.base_offset,
        log_append_time_ms: partition.log_append_time_ms,
        record_errors: record_errors.collect(),
        message: partition.error_message.map(str::to_owned),
        topic_id,
        leader: (!leader.leader_id.is_none()).then_some(Leader {
            id: leader.leader_id,
            epoch: LeaderEpoch(leader.leader_epoch),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::producer::delivery::Outcome;
    use crate::producer::record::{Listener, ProducerRecord};
    use model::BrokerId;
    use record::{Compression, Compressor};
    use std::time::Instant;
    use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
    use wire::messages::produce_response::{LeaderIdAndEpoch, TopicProduceResponse};

    const ID: Uuid = Uuid::from_u128(7);

    fn batches() -> Vec<Batch> {
        let names = [("a", 0), ("a", 2), ("b", 1)];
        let batches = names.into_iter().map(|(topic, index)| {
            let outcome = Outcome::new(topic.into(), index);
            let mut batch = Batch::open(0, outcome, Vec::new(), Instant::now(), 0);
            let record = ProducerRecord::new("").value(topic.as_bytes());
            drop(batch.append(usize::MAX, &record, 1, &mut Listener::Nobody));
            batch.seal(
                Compression::None.into(),
                &mut Compressor::new(),
                &mut Vec::new(),
            );
            batch
        });
        batches.collect()
    }

    #[test]
    fn requests_equal_the_generated_codec_in_every_version() {
        let batches = batches();
        let partition = |at: usize, index: i32| PartitionProduceData {
            index,
            records: Some(batches[at].bytes()),
        };
        fn topic<'a>(name: &'a str, data: Vec<PartitionProduceData<'a>>) -> TopicProduceData<'a> {
            TopicProduceData {
                name,
                topic_id: ID,
                partition_data: data.into(),
            }
        }
        let expected = ProduceRequest {
            transactional_id: Some("me"),
            acks: -1,
            timeout_ms: 30,
            topic_data: vec![
                topic("a", vec![partition(0, 0), partition(1, 2)]),
                topic("b", vec![partition(2, 1)]),
            ]
            .into(),
        };
        for version in 3..=13 {
            let mut request = Request::begin(wire::ApiKey::Produce, version, "", Vec::new());
            write_produce(&mut request, Some("me"), -1, 30, &batches, &[ID; 3]);
            assert_eq!(
                request.body_bytes(),
                expected.to_bytes(version),
                "version {version}"
            );
        }
    }

    #[test]
    fn answers_are_found_in_any_order() {
        let batches = batches();
        let partition = |index: i32, base_offset: i64| PartitionProduceResponse {
            index,
            base_offset,
            current_leader: LeaderIdAndEpoch {
                leader_id: BrokerId(index - 1),
                leader_epoch: 5,
            },
            ..PartitionProduceResponse::default()
        };
        let topic = |name: &'static str, partitions: Vec<PartitionProduceResponse<'static>>| {
            TopicProduceResponse {
                name,
                topic_id: ID,
                partition_responses: partitions.into(),
            }
        };
        let response = ProduceResponse {
            responses: vec![
                topic("b", vec![partition(1, 30)]),
                topic("a", vec![partition(2, 20), partition(9, 90)]),
                topic("c", vec![partition(0, 40)]),
            ]
            .into(),
            ..ProduceResponse::default()
        };
        let answers = read_answers(&response, &batches, &[]);
        let offsets: Vec<Option<i64>> = answers
            .iter()
            .map(|answer| answer.as_ref().map(|answer| answer.base_offset))
            .collect();
        assert_eq!(offsets, [None, Some(20), Some(30)]);
        let leader = answers[1].as_ref().and_then(|answer| answer.leader);
        assert_eq!(
            leader,
            Some(Leader {
                id: BrokerId(1),
                epoch: LeaderEpoch(5)
            })
        );
    }

    #[test]
    fn answers_by_id_are_of_the_ids_that_were_named() {
        let batches = batches();
        let id = |n: u128| Uuid::from_u128(n);
        let topic = |topic_id: Uuid, index: i32, base_offset: i64| TopicProduceResponse {
            topic_id,
            partition_responses: vec![PartitionProduceResponse {
                index,
                base_offset,
                ..PartitionProduceResponse::default()
            }]
            .into(),
            ..TopicProduceResponse::default()
        };
        let response = ProduceResponse {
            responses: vec![
                topic(id(2), 1, 30),
                topic(id(1), 2, 20),
                topic(id(9), 0, 90),
            ]
            .into(),
            ..ProduceResponse::default()
        };
        let answers = read_answers(&response, &batches, &[id(1), id(1), id(2)]);
        let offsets = answers.iter().map(|one| Some(one.as_ref()?.base_offset));
        assert!(offsets.eq([None, Some(20), Some(30)]));
    }
}
