//! `bench latency`: from when a record is due to when it is received.

use super::produce::wait_until_due;
use super::report::{Report, Timeline, latencies, record};
use super::{CLOSE_TIMEOUT, LoadArguments, progress};
use crate::commands::places::{partitions_of, resolve};
use crate::connect::{ConnectionArguments, Failure};
use crate::place::Place;
use riverrun_client::Error;
use riverrun_client::consumer::{Consumer, ConsumerConfig};
use riverrun_client::producer::{Header, Producer, ProducerConfig, ProducerRecord};
use std::time::{Duration, Instant};

/// Records a second of a run without a rate.
const RATE: u64 = 1000;
/// How long a run without a count is, in seconds.
const SECONDS: u64 = 10;
/// The header that says when a record was due: nanoseconds since the start of the run.
const DUE: &str = "due";

/// Writes at a rate and reads back.
pub(super) async fn run(
    load: &LoadArguments,
    connection: &ConnectionArguments,
) -> Result<Report, Failure> {
    let admin = connection.admin_beside()?;
    load.prepare(&admin).await?;
    let partitions = partitions_of(&admin, &load.topic, &[]).await?;
    let ends = resolve(&admin, &partitions, Place::End).await?;
    let rate = load.rate.unwrap_or(RATE);
    let record_count = load.records.unwrap_or(rate * SECONDS);
    // A record waits for no other one, unless that is asked for.
    let hurried = ProducerConfig {
        linger_ms: 0,
        ..ProducerConfig::default()
    };
    let config = connection.config_beside(hurried, &["max.block.ms"])?;
    let producer = Producer::new(load.config(config)?)?;
    producer.partitions_for(&load.topic).await?;
    let timeouts = ["default.api.timeout.ms"];
    let config = connection.config_beside(ConsumerConfig::default(), &timeouts)?;
    let mut consumer = Consumer::new(config)?;
    consumer.assign(partitions)?;
    for (partition, offset) in &ends {
        consumer.seek(partition, *offset)?;
    }
    let start = Instant::now();
    let bar = progress(record_count, "latency");
    let write = write(&producer, load, start, record_count, rate);
    let read = read(&mut consumer, start, record_count, &bar);
    let ((), (latencies, timeline)) = tokio::try_join!(write, read)?;
    bar.finish_and_clear();
    producer.close(CLOSE_TIMEOUT).await?;
    consumer.close(CLOSE_TIMEOUT).await?;
    Ok(Report {
        name: "latency",
        topic: load.topic.clone(),
        record_count,
        bytes: record_count * load.size as u64,
        elapsed: timeline.elapsed(),
        latency_of: "end to end",
        latencies,
        bytes_by_second: timeline.bytes_by_second(),
    })
}

async fn write(
    producer: &Producer,
    load: &LoadArguments,
    start: Instant,
    record_count: u64,
    rate: u64,
) -> Result<(), Error> {
    let value = load.value();
    let mut last = None;
    for number in 0..record_count {
        let due = wait_until_due(start, number, rate).await;
        let nanoseconds = due.duration_since(start).as_nanos() as u64;
        let stamp = nanoseconds.to_be_bytes();
        let headers = [Header {
            key: DUE.as_bytes(),
            value: Some(&stamp),
        }];
        let sent = ProducerRecord::new(&load.topic)
            .value(&value)
            .headers(&headers);
        last = Some(producer.send(sent).await?);
    }
    match last {
        // What could not be written ends the run rather than to be waited for.
        Some(delivery) => delivery.await.map(|_| ()),
        None => Ok(()),
    }
}

async fn read(
    consumer: &mut Consumer,
    start: Instant,
    record_count: u64,
    bar: &indicatif::ProgressBar,
) -> Result<(hdrhistogram::Histogram<u64>, Timeline), Error> {
    let mut latencies = latencies();
    let mut timeline = Timeline::start();
    let mut count = 0;
    while count < record_count {
        let mut records = consumer.poll(Duration::from_secs(1)).await?;
        while let Some(received) = records.next()? {
            let stamp = received
                .headers
                .iter()
                .find(|header| header.key == DUE.as_bytes())
                .and_then(|header| header.value?.try_into().ok());
            // Somebody else's record.
            let Some(stamp) = stamp else { continue };
            let due = start + Duration::from_nanos(u64::from_be_bytes(stamp));
            record(&mut latencies, due.elapsed());
            timeline.add(received.value.map_or(0, <[u8]>::len) as u64);
            count += 1;
        }
        bar.set_position(count);
    }
    Ok((latencies, timeline))
}
