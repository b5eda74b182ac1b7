//! `bench produce`: from the call to the acknowledgement.

use super::report::{Report, Timeline, latencies, record};
use super::{CLOSE_TIMEOUT, LoadArguments, progress};
use crate::connect::ConnectionArguments;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use riverrun_client::Error;
use riverrun_client::producer::{Producer, ProducerRecord};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records of a run without a count.
const RECORD_COUNT: u64 = 1_000_000;

/// What acknowledgements add up to.
#[derive(Debug)]
struct Outcome {
    latencies: Histogram<u64>,
    timeline: Timeline,
    error: Option<Error>,
}

/// Writes all records.
pub(super) async fn run(
    load: &LoadArguments,
    connection: &ConnectionArguments,
) -> Result<Report, Error> {
    load.prepare(&connection.admin_beside()?).await?;
    let producer = Producer::new(load.config(connection.config(&["max.block.ms"])?)?)?;
    producer.partitions_for(&load.topic).await?;
    let value = load.value();
    let record_count = load.records.unwrap_or(RECORD_COUNT);
    let bar = progress(record_count, "produce");
    let outcome = Arc::new(Mutex::new(Outcome {
        latencies: latencies(),
        timeline: Timeline::start(),
        error: None,
    }));
    let start = Instant::now();
    let size = value.len() as u64;
    for number in 0..record_count {
        let due = match load.rate {
            Some(rate) => wait_until_due(start, number, rate).await,
            None => Instant::now(),
        };
        let counted = outcome.clone();
        let acknowledged = move |result: Result<_, Error>| {
            let mut outcome = counted.lock();
            match result {
                Ok(_) => {
                    record(&mut outcome.latencies, due.elapsed());
                    outcome.timeline.add(size);
                }
                Err(error) => outcome.error = Some(error),
            }
        };
        let sent = ProducerRecord::new(&load.topic).value(&value);
        producer.send_with(sent, acknowledged).await?;
        if number % 1024 == 0 {
            bar.set_position(number);
            if let Some(error) = outcome.lock().error.take() {
                return Err(error);
            }
        }
    }
    producer.flush().await;
    producer.close(CLOSE_TIMEOUT).await?;
    bar.finish_and_clear();
    let mut outcome = outcome.lock();
    if let Some(error) = outcome.error.take() {
        return Err(error);
    }
    let timeline = std::mem::replace(&mut outcome.timeline, Timeline::start());
    Ok(Report {
        name: "produce",
        topic: load.topic.clone(),
        record_count,
        bytes: size * record_count,
        elapsed: timeline.elapsed(),
        latency_of: "acknowledgement",
        latencies: outcome.latencies.clone(),
        bytes_by_second: timeline.bytes_by_second(),
    })
}

/// Waits for the time at which a record is due; returns that time, which may be past.
pub(super) async fn wait_until_due(start: Instant, number: u64, rate: u64) -> Instant {
    let due =
        start + Duration::from_nanos((number as u128 * 1_000_000_000 / u128::from(rate)) as u64);
    if Instant::now() < due {
        tokio::time::sleep_until(due.into()).await;
    }
    due
}
