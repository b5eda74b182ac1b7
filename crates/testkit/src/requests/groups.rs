//! Offsets of consumer groups.

use crate::{Client, wait_until};
use model::ErrorCode;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch_request::OffsetFetchRequestTopic;
use wire::messages::{
    FindCoordinatorRequest, FindCoordinatorResponse, OffsetCommitRequest, OffsetCommitResponse,
    OffsetFetchRequest, OffsetFetchResponse,
};

impl Client {
    /// Waits until the group has a coordinator that works: its topic is made, its log loaded.
    #[track_caller]
    pub fn wait_for_coordinator(&mut self, group: &str) {
        let request = FindCoordinatorRequest {
            key: group,
            ..FindCoordinatorRequest::default()
        };
        wait_until("the group has a coordinator", || {
            let answer = self.call(3, &request);
            let response: FindCoordinatorResponse<'_> = answer.read();
            response.error_code == 0 && self.try_committed_offset(group, "any", 0).is_ok()
        });
    }

    /// Commits an offset as a consumer that is not a member; returns the partition's error.
    #[track_caller]
    pub fn commit_offset(&mut self, group: &str, topic: &str, offset: i64) -> ErrorCode {
        let partition = OffsetCommitRequestPartition {
            committed_offset: offset,
            ..OffsetCommitRequestPartition::default()
        };
        let topic = OffsetCommitRequestTopic {
            name: topic,
            partitions: vec![partition].into(),
            ..OffsetCommitRequestTopic::default()
        };
        let request = OffsetCommitRequest {
            group_id: group,
            generation_id_or_member_epoch: -1,
            topics: vec![topic].into(),
            ..OffsetCommitRequest::default()
        };
        let answer = self.call(8, &request);
        let response: OffsetCommitResponse<'_> = answer.read();
        let topic = response.topics.iter().next().expect("one topic");
        let partition = topic.partitions.iter().next().expect("one partition");
        ErrorCode::from_code(partition.error_code)
    }

    /// The committed offset of a partition, or -1.
    #[track_caller]
    pub fn committed_offset(&mut self, group: &str, topic: &str, index: i32) -> i64 {
        let offset = self.try_committed_offset(group, topic, index);
        offset.unwrap_or_else(|error| panic!("group {group}: {error}"))
    }

    /// The committed offset of a partition, or -1.
    ///
    /// # Errors
    /// Why the coordinator does not tell.
    #[track_caller]
    pub fn try_committed_offset(
        &mut self,
        group: &str,
        topic: &str,
        index: i32,
    ) -> Result<i64, ErrorCode> {
        let topic = OffsetFetchRequestTopic {
            name: topic,
            partition_indexes: vec![index].into(),
        };
        let request = OffsetFetchRequest {
            group_id: group,
            topics: Some(vec![topic].into()),
            ..OffsetFetchRequest::default()
        };
        let answer = self.call(5, &request);
        let response: OffsetFetchResponse<'_> = answer.read();
        match ErrorCode::from_code(response.error_code) {
            ErrorCode::None => {
                let topic = response.topics.iter().next().expect("one topic");
                let partition = topic.partitions.iter().next().expect("one partition");
                Ok(partition.committed_offset)
            }
            error => Err(error),
        }
    }
}
