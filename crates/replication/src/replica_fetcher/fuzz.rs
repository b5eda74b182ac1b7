//! Any bytes as the answers of a leader.

use super::{
    FetcherSettings, FetcherVersions, FollowedPartition, ReplicaFetcher, StepAction, StepOutcome,
};
use crate::following::FetchPosition;
use model::{BrokerEpoch, BrokerId, LeaderEpoch, MonotonicTime, Offset, Uuid};

const SETTINGS: FetcherSettings = FetcherSettings {
    replica_id: BrokerId(1),
    replica_epoch: BrokerEpoch(7),
    max_wait_ms: 500,
    min_bytes: 1,
    max_bytes: 10 << 20,
    partition_max_bytes: 1 << 20,
    backoff_ms: 1000,
};
/// Of three partitions in two topics, all of whose ids a search finds easily.
const PARTITIONS: [(u128, i32); 3] = [(0, 0), (0, 1), (1, 0)];
const REQUESTS_MAX: usize = 8;

/// Takes any bytes for the answers of a leader, one after the other, each with its length before it in two bytes.
/// The first byte of all is the version. Whatever they are, records are within their answer, what is known of a
/// log stays as the log says, and the fetcher goes on.
pub fn fuzz_fetch_answers(bytes: &[u8]) {
    let [version, answers @ ..] = bytes else {
        return;
    };
    let mut rest = answers;
    let versions = FetcherVersions {
        fetch: 13 + i16::from(version % 6),
        list_offsets: 4 + i16::from(version % 8),
    };
    let mut fetcher = ReplicaFetcher::new(SETTINGS);
    for (topic, index) in PARTITIONS {
        fetcher.add(FollowedPartition {
            replica: (),
            topic_id: Uuid::from_u128(topic),
            topic: "topic".into(),
            index,
            leader_epoch: LeaderEpoch(3),
            position: FetchPosition {
                fetch_offset: Offset(10),
                last_fetched_epoch: LeaderEpoch(2),
                log_start_offset: Offset::ZERO,
            },
            is_throttled: false,
        });
    }
    let (mut now, mut out) = (MonotonicTime::from_ms(0), Vec::new());
    for _ in 0..REQUESTS_MAX {
        now = now.plus_ms(SETTINGS.backoff_ms);
        out.clear();
        let Some(request) = fetcher.poll_request(now, versions, &mut out) else {
            return;
        };
        let [high, low, after @ ..] = rest else {
            return;
        };
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (body, after) = after.split_at(length);
        rest = after;
        let version = match request {
            super::FetcherRequest::Fetch => versions.fetch,
            super::FetcherRequest::ListOffsets => versions.list_offsets,
        };
        let _ = fetcher.handle_response(body, version, now);
        fetcher.take_steps(body, usize::MAX, now, |step| match step.action {
            StepAction::Append(fetched) => {
                let range = fetched.records.as_ptr_range();
                let all = body.as_ptr_range();
                let is_within = all.start <= range.start && range.end <= all.end;
                assert!(
                    fetched.records.is_empty() || is_within,
                    "records are those of the answer"
                );
                StepOutcome::Done(Some(FetchPosition {
                    fetch_offset: fetched.fetch_offset + 1,
                    last_fetched_epoch: LeaderEpoch(3),
                    log_start_offset: Offset::ZERO,
                }))
            }
            StepAction::TruncateTo { offset, .. } | StepAction::RestartAt { offset, .. } => {
                assert!(offset >= Offset::ZERO, "an offset is one");
                StepOutcome::Delayed(None)
            }
            StepAction::TruncateToLeader { .. } => StepOutcome::Done(None),
        });
        assert_eq!(fetcher.len(), PARTITIONS.len(), "no partition is lost");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Message;
    use proptest::prelude::*;
    use wire::messages::FetchResponse;
    use wire::messages::fetch_response::{EpochEndOffset, FetchableTopicResponse, PartitionData};

    type Told = (u8, i32, i16, i64, i32, usize);

    /// An answer that may be right in part.
    fn answer(version: i16, session_id: i32, told: &[Told]) -> Vec<u8> {
        let topics = told
            .iter()
            .map(|(topic, index, error, offset, epoch, length)| {
                let data = PartitionData {
                    partition_index: *index,
                    error_code: *error,
                    high_watermark: *offset,
                    diverging_epoch: EpochEndOffset {
                        epoch: *epoch,
                        end_offset: *offset,
                    },
                    records: Some(&[7; 50][..*length]),
                    ..PartitionData::default()
                };
                FetchableTopicResponse {
                    topic_id: Uuid::from_u128((*topic).into()),
                    partitions: vec![data].into(),
                    ..FetchableTopicResponse::default()
                }
            });
        let response = FetchResponse {
            session_id,
            responses: topics.collect(),
            ..FetchResponse::default()
        };
        response.to_bytes(version)
    }

    proptest! {
        #![proptest_config(trials::property(300))]
        #[test]
        fn any_answers_are_survived(
            version in 0u8..6,
            answers in prop::collection::vec(
                (0i32..2, prop::collection::vec((0u8..2, 0i32..2, 0i16..2, -1i64..12, -1i32..3, 0usize..50), 0..4)),
                0..6,
            ),
            cut in 0usize..40,
        ) {
            let mut bytes = vec![version];
            for (session_id, told) in &answers {
                let body = answer(13 + i16::from(version), *session_id, told);
                bytes.extend((body.len() as u16).to_be_bytes());
                bytes.extend(body);
            }
            bytes.truncate(bytes.len().saturating_sub(cut / 20 * cut));
            fuzz_fetch_answers(&bytes);
        }
    }
}
