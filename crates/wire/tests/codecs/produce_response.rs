//! The produce response written by hand against the generated codec.

use model::{BrokerId, ErrorCode, LeaderEpoch, Message, Uuid};
use wire::messages::ProduceResponse;
use wire::messages::produce_response::LeaderIdAndEpoch;
use wire::messages::produce_response::{
    BatchIndexAndErrorMessage, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use wire::produce_response::*;

#[test]
fn equals_the_generated_codec_in_every_version() {
    for version in 3..=13 {
        let errors = [(3, Some("bad".to_owned())), (4, None)];
        let plain = ProduceResponsePartition {
            index: 0,
            error: ErrorCode::None,
            base_offset: 77,
            log_append_time_ms: -1,
            log_start_offset: 5,
            record_errors: &[],
            error_message: None,
            current_leader: None,
        };
        let failed = ProduceResponsePartition {
            index: 1,
            error: ErrorCode::InvalidRecord,
            record_errors: &errors,
            error_message: Some("no"),
            current_leader: Some((BrokerId(1), LeaderEpoch(2))),
            ..plain
        };
        let mut streamed = Vec::new();
        let writer = ProduceResponseWriter::new(version);
        writer.head(1, &mut streamed);
        writer.topic("topic", Uuid::from_u128(9), 2, &mut streamed);
        writer.partition(&plain, &mut streamed);
        writer.partition(&failed, &mut streamed);
        writer.end_topic(&mut streamed);
        writer.end(3, &[(BrokerId(1), "host", 9092, None)], &mut streamed);
        let partitions = [plain, failed].map(|p| PartitionProduceResponse {
            index: p.index,
            error_code: p.error.code(),
            base_offset: p.base_offset,
            log_append_time_ms: p.log_append_time_ms,
            log_start_offset: p.log_start_offset,
            record_errors: p
                .record_errors
                .iter()
                .map(|(batch_index, message)| BatchIndexAndErrorMessage {
                    batch_index: *batch_index,
                    batch_index_error_message: message.as_deref(),
                })
                .collect(),
            error_message: p.error_message,
            current_leader: p.current_leader.map_or_else(Default::default, |leader| {
                LeaderIdAndEpoch {
                    leader_id: leader.0,
                    leader_epoch: leader.1.0,
                }
            }),
        });
        let topic = TopicProduceResponse {
            name: "topic",
            topic_id: Uuid::from_u128(9),
            partition_responses: partitions[..].into(),
        };
        let endpoint = NodeEndpoint {
            node_id: BrokerId(1),
            host: "host",
            port: 9092,
            rack: None,
        };
        let response = ProduceResponse {
            responses: vec![topic].into(),
            throttle_time_ms: 3,
            node_endpoints: vec![endpoint].into(),
        };
        assert_eq!(streamed, response.to_bytes(version), "version {version}");
    }
}
