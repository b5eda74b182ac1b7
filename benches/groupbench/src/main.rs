//! What coordinators cost: a member of a consumer group, its heartbeat, the assignment of a large
//! group, a regular expression, and loading offsets and transactional ids. Prints a table in Markdown; each part runs
//! once.
//!
//! The shard is driven as the broker drives it, but for the log: records go to memory. Memory is
//! what is allocated and not yet freed.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

mod regexes;
mod transactions;

use anyhow::{Context as _, Result, bail};
use coordinator::group::{
    ConsumerGroupHeartbeat, GroupConfig, GroupShard, OffsetCommit, OffsetCommitPartition,
    OffsetCommitTopic, RecordOrigin,
};
use coordinator::{CoordinatorRecord, Reply};
use metadata::{MetadataImage, MetadataRecord, Partition};
use model::{LeaderEpoch, Now, Offset, ProducerId, Uuid};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MEMBER_COUNT: usize = 100_000;
const PARTITION_COUNT: i32 = 150_000;
const TOPIC_ID: Uuid = Uuid::from_u128(1);
/// Groups and the offsets of each that are loaded.
const OFFSETS: (i32, i32) = (1_000, 1_000);
const HEARTBEAT_ROUNDS: usize = 5;

fn main() -> Result<()> {
    println!("| | |\n|--|--|");
    measure_members()?;
    regexes::measure()?;
    measure_offsets()?;
    transactions::measure()
}

fn row(name: &str, figure: &str) {
    println!("| {name} | {figure} |");
}

fn bytes_in_use() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

fn image() -> Result<Arc<MetadataImage>> {
    let mut image = MetadataImage::default();
    let mut records = vec![MetadataRecord::Topic {
        name: "topic".to_owned(),
        topic_id: TOPIC_ID,
    }];
    records.extend((0..PARTITION_COUNT).map(|index| MetadataRecord::Partition {
        topic_id: TOPIC_ID,
        partition_id: index,
        partition: Partition::default(),
    }));
    for record in &records {
        image.replay(record)?;
    }
    Ok(Arc::new(image))
}

/// A shard with the log that it has written.
struct Driven {
    shard: GroupShard,
    next_offset: i64,
    log: Vec<CoordinatorRecord>,
}

impl Driven {
    fn append(&mut self, records: Vec<CoordinatorRecord>) -> Result<()> {
        for record in records {
            let origin = RecordOrigin {
                offset: Offset(self.next_offset),
                producer_id: ProducerId::NONE,
            };
            self.shard
                .replay(origin, &record.key, record.value.as_deref())?;
            self.next_offset += 1;
            self.log.push(record);
        }
        Ok(())
    }

    /// A heartbeat, and the member's epoch afterwards.
    fn beat(&mut self, member_id: &str, epoch: i32, now_ms: i64, gives_up: bool) -> Result<i32> {
        let joins = epoch == 0;
        let request = ConsumerGroupHeartbeat {
            group_id: "group",
            member_id,
            member_epoch: epoch,
            rebalance_timeout_ms: if joins { 300_000 } else { -1 },
            subscribed_topic_names: joins.then(|| vec!["topic"]),
            // What it is told to give up is gone at once.
            owned_partitions: (joins || gives_up).then(Vec::new),
            client_id: "client",
            client_host: "/127.0.0.1",
            ..ConsumerGroupHeartbeat::default()
        };
        let decision = self
            .shard
            .consumer_group_heartbeat(&request, Now::at_ms(now_ms));
        let Reply::Now(Ok(response)) = decision.reply else {
            bail!("{member_id} is refused");
        };
        self.append(decision.records)?;
        Ok(response.member_epoch)
    }
}

fn measure_members() -> Result<()> {
    let mut shard = GroupShard::new(GroupConfig::default());
    shard.set_metadata(image()?);
    shard.start(Now::at_ms(0));
    let mut driven = Driven {
        shard,
        next_offset: 0,
        log: Vec::new(),
    };
    let ids: Vec<String> = (0..MEMBER_COUNT)
        .map(|at| format!("member-{at:029}"))
        .collect();
    let mut epochs = vec![0; MEMBER_COUNT];
    let before = bytes_in_use();
    let start = Instant::now();
    for (id, epoch) in ids.iter().zip(&mut epochs) {
        *epoch = driven.beat(id, 0, 1, false)?;
    }
    let joined = start.elapsed() / MEMBER_COUNT as u32;
    row(
        "a member joins",
        &format!("{:.1} µs", joined.as_secs_f64() * 1e6),
    );

    let start = Instant::now();
    epochs[0] = driven.beat(&ids[0], epochs[0], 2_000, false)?;
    let name = format!(
        "{MEMBER_COUNT} members are assigned {PARTITION_COUNT} partitions, records included"
    );
    row(
        &name,
        &format!("{:.0} ms", start.elapsed().as_secs_f64() * 1e3),
    );
    // The first member had everything: the others get theirs once it says that it gave it up.
    epochs[0] = driven.beat(&ids[0], epochs[0], 2_000, true)?;
    for round in 0..2 {
        for (id, epoch) in ids.iter().zip(&mut epochs) {
            *epoch = driven.beat(id, *epoch, 2_001 + round, false)?;
        }
    }
    driven.log = Vec::new();
    let in_use = bytes_in_use().saturating_sub(before) / MEMBER_COUNT;
    row("memory of a member", &format!("{in_use} bytes"));

    let start = Instant::now();
    for _ in 0..HEARTBEAT_ROUNDS {
        for (id, epoch) in ids.iter().zip(&mut epochs) {
            *epoch = driven.beat(id, *epoch, 2_100, false)?;
        }
    }
    let beats = u32::try_from(HEARTBEAT_ROUNDS * MEMBER_COUNT).context("a small number")?;
    let beat = start.elapsed() / beats;
    row(
        "a heartbeat without news",
        &format!("{:.2} µs", beat.as_secs_f64() * 1e6),
    );
    Ok(())
}

fn measure_offsets() -> Result<()> {
    let mut driven = Driven {
        shard: GroupShard::new(GroupConfig {
            batch_bytes_max: usize::MAX,
            ..GroupConfig::default()
        }),
        next_offset: 0,
        log: Vec::new(),
    };
    driven.shard.set_metadata(image()?);
    for group in 0..OFFSETS.0 {
        let partitions = (0..OFFSETS.1).map(|index| OffsetCommitPartition {
            index,
            offset: Offset(1_000_000),
            leader_epoch: LeaderEpoch(0),
            metadata: Some(""),
        });
        let request = OffsetCommit {
            group_id: &format!("group-{group:05}"),
            generation_id: -1,
            member_id: "",
            group_instance_id: None,
            retention_time_ms: -1,
            reports_group_id_not_found: true,
            topics: vec![OffsetCommitTopic {
                name: "topic",
                topic_id: TOPIC_ID,
                partitions: partitions.collect(),
            }],
        };
        let decision = driven.shard.commit_offsets(&request, Now::at_ms(1));
        driven.append(decision.records)?;
    }
    let log = driven.log;
    drop(driven.shard);
    let before = bytes_in_use();
    let start = Instant::now();
    let mut loaded = GroupShard::new(GroupConfig::default());
    for (offset, record) in (0..).zip(&log) {
        let origin = RecordOrigin {
            offset: Offset(offset),
            producer_id: ProducerId::NONE,
        };
        loaded.replay(origin, &record.key, record.value.as_deref())?;
    }
    loaded.start(Now::at_ms(1));
    let name = format!("{} offsets are replayed", log.len());
    row(
        &name,
        &format!("{:.0} ms", start.elapsed().as_secs_f64() * 1e3),
    );
    let in_use = bytes_in_use().saturating_sub(before) / log.len();
    row("memory of an offset", &format!("{in_use} bytes"));
    Ok(())
}
