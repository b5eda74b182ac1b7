//! What a group keeps in memory that has nothing but an offset. One test alone in its program: the
//! allocator counts for all threads.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use coordinator::Reply;
use coordinator::group::{
    GroupConfig, GroupShard, OffsetCommit, OffsetCommitPartition, OffsetCommitTopic, RecordOrigin,
};
use model::{LeaderEpoch, Now, Offset, ProducerId, Uuid};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const GROUP_COUNT: usize = 10_000;
/// Its id and place, the topic's name, and the offset.
const BYTES_MAX: isize = 550;

#[test]
fn a_group_of_an_offset_keeps_few_bytes() {
    let mut shard = GroupShard::new(GroupConfig::default());
    shard.start(Now::at_ms(1));
    let region = Region::new(ALLOCATOR);
    for at in 0..GROUP_COUNT {
        // In no order, as ids are.
        let salt = at * 7919 % GROUP_COUNT;
        let request = OffsetCommit {
            group_id: &format!("group-{salt:08}"),
            generation_id: -1,
            member_id: "",
            group_instance_id: None,
            retention_time_ms: -1,
            reports_group_id_not_found: true,
            topics: vec![OffsetCommitTopic {
                name: "topic",
                topic_id: Uuid::ZERO,
                partitions: vec![OffsetCommitPartition {
                    index: 0,
                    offset: Offset(1_000_000),
                    leader_epoch: LeaderEpoch(0),
                    metadata: Some(""),
                }],
            }],
        };
        let decision = shard.commit_offsets(&request, Now::at_ms(1));
        assert!(matches!(decision.reply, Reply::Now(_)));
        for record in decision.records {
            let origin = RecordOrigin {
                offset: Offset(at as i64),
                producer_id: ProducerId::NONE,
            };
            let value = record.value.as_deref();
            shard.replay(origin, &record.key, value).unwrap();
        }
    }
    let change = region.change();
    // What grows where it is counts as reallocated, not as allocated.
    let kept = change.bytes_allocated as isize - change.bytes_deallocated as isize;
    let of_group = kept / GROUP_COUNT as isize;
    assert!(of_group > 100, "{of_group} bytes: nothing was kept");
    assert!(of_group <= BYTES_MAX, "{of_group} bytes a group");
}
