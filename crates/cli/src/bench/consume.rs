//! `bench consume`: everything that a topic has.

use super::report::{Report, Timeline, latencies, record};
use super::{CLOSE_TIMEOUT, progress};
use crate::commands::places::{partitions_of, resolve};
use crate::connect::{ConnectionArguments, Failure};
use crate::place::Place;
use riverrun_client::consumer::{Consumer, ConsumerConfig};
use std::time::{Duration, Instant};

/// How long a poll waits for a record.
const POLL: Duration = Duration::from_secs(1);

/// Reads the topic from its start.
pub(super) async fn run(
    topic: &str,
    records: Option<u64>,
    connection: &ConnectionArguments,
) -> Result<Report, Failure> {
    let admin = connection.admin_beside()?;
    let partitions = partitions_of(&admin, topic, &[]).await?;
    let starts = resolve(&admin, &partitions, Place::Start).await?;
    let ends = resolve(&admin, &partitions, Place::End).await?;
    let held: i64 = ends.values().sum::<i64>() - starts.values().sum::<i64>();
    let wanted = records.unwrap_or(held.unsigned_abs());
    let config: ConsumerConfig = connection.config(&["default.api.timeout.ms"])?;
    let mut consumer = Consumer::new(config)?;
    let bar = progress(wanted, "consume");
    let mut timeline = Timeline::start();
    let mut latencies = latencies();
    consumer.assign(partitions)?;
    for (partition, offset) in &starts {
        consumer.seek(partition, *offset)?;
    }
    let (mut count, mut bytes) = (0u64, 0u64);
    while count < wanted && !is_at_end(&consumer, &ends, records) {
        let polled = Instant::now();
        let mut records = consumer.poll(POLL).await?;
        record(&mut latencies, polled.elapsed());
        let mut batch_bytes = 0;
        while let Some(record) = records.next()? {
            count += 1;
            let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len) as u64;
            batch_bytes += length(record.key) + length(record.value);
        }
        bytes += batch_bytes;
        timeline.add(batch_bytes);
        bar.set_position(count);
    }
    let elapsed = timeline.elapsed();
    bar.finish_and_clear();
    consumer.close(CLOSE_TIMEOUT).await?;
    Ok(Report {
        name: "consume",
        topic: topic.to_owned(),
        record_count: count,
        bytes,
        elapsed,
        latency_of: "poll",
        latencies,
        bytes_by_second: timeline.bytes_by_second(),
    })
}

/// Whether all that the topic had at the start has been read, and no count asks for more.
fn is_at_end(
    consumer: &Consumer,
    ends: &std::collections::BTreeMap<model::TopicPartition, i64>,
    records: Option<u64>,
) -> bool {
    records.is_none()
        && ends
            .iter()
            .all(|(partition, end)| consumer.position(partition).is_some_and(|at| at >= *end))
}
