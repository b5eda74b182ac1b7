//! What a regular expression costs: the first look at all topics, and resolving it again when one
//! topic more has come. No other group of the shard waits meanwhile.

use crate::row;
use anyhow::{Context as _, Result, bail};
use coordinator::Reply;
use coordinator::group::{
    ConsumerGroupHeartbeat, GroupConfig, GroupShard, RecordOrigin, TopicRegex,
};
use metadata::{MetadataImage, MetadataRecord};
use model::{Now, Offset, ProducerId, Uuid};
use std::sync::Arc;
use std::time::{Duration, Instant};

const TOPIC_COUNT: u128 = 100_000;

pub(crate) fn measure() -> Result<()> {
    let mut image = MetadataImage::default();
    for number in 1..=TOPIC_COUNT {
        add_topic(&mut image, number)?;
    }
    let mut shard = GroupShard::new(GroupConfig::default());
    shard.set_metadata(Arc::new(image.clone()));
    shard.start(Now::at_ms(0));
    beat(&mut shard, 0, 1)?;
    let first = resolve(&mut shard, 1)?;
    row(
        &format!("a regular expression looks at {TOPIC_COUNT} topics"),
        &format!("{:.1} ms", first.as_secs_f64() * 1e3),
    );
    let epoch = beat(&mut shard, 0, 2)?;
    add_topic(&mut image, TOPIC_COUNT + 1)?;
    image.provenance.last_offset += 1;
    shard.set_metadata(Arc::new(image));
    beat(&mut shard, epoch, 20_000)?;
    let again = resolve(&mut shard, 20_000)?;
    row(
        "it is resolved again, with one topic more",
        &format!("{:.1} ms", again.as_secs_f64() * 1e3),
    );
    Ok(())
}

fn add_topic(image: &mut MetadataImage, number: u128) -> Result<()> {
    let topic = MetadataRecord::Topic {
        // One topic in a thousand matches.
        name: format!("topic-{:03}-{number:06}", number % 1_000),
        topic_id: Uuid::from_u128(number),
    };
    image.replay(&topic)?;
    Ok(())
}

/// A heartbeat of the only member; its epoch.
fn beat(shard: &mut GroupShard, epoch: i32, now_ms: i64) -> Result<i32> {
    let joins = epoch == 0;
    let request = ConsumerGroupHeartbeat {
        group_id: "patterns",
        member_id: "member",
        member_epoch: epoch,
        rebalance_timeout_ms: if joins { 300_000 } else { -1 },
        subscribed_topic_regex: joins.then(|| TopicRegex::read("topic-007-.*")),
        owned_partitions: joins.then(Vec::new),
        client_id: "client",
        client_host: "/127.0.0.1",
        ..ConsumerGroupHeartbeat::default()
    };
    let decision = shard.consumer_group_heartbeat(&request, Now::at_ms(now_ms));
    let Reply::Now(Ok(response)) = decision.reply else {
        bail!("the member is refused");
    };
    replay(shard, &decision.records)?;
    Ok(response.member_epoch)
}

/// The time that the timer takes which the last heartbeat has set.
fn resolve(shard: &mut GroupShard, now_ms: i64) -> Result<Duration> {
    let start = Instant::now();
    let decision = shard.expire(Now::at_ms(now_ms));
    replay(shard, &decision.records)?;
    let resolution = shard.take_resolutions().pop();
    let mut resolution = resolution.context("an expression is to be resolved")?;
    while resolution.step() {}
    let decision = shard.regexes_resolved(resolution, Now::at_ms(now_ms));
    let elapsed = start.elapsed();
    let first = decision.records.first();
    first.context("the expression is resolved")?;
    replay(shard, &decision.records)?;
    Ok(elapsed)
}

fn replay(shard: &mut GroupShard, records: &[coordinator::CoordinatorRecord]) -> Result<()> {
    for record in records {
        let origin = RecordOrigin {
            offset: Offset::ZERO,
            producer_id: ProducerId::NONE,
        };
        shard.replay(origin, &record.key, record.value.as_deref())?;
    }
    Ok(())
}
