//! An idempotent producer that never stops: the records of each partition are the numbers from 0 on,
//! so that a record's value is its offset.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use model::TopicPartition;
use riverrun_client::consumer::OwnedRecord;
use riverrun_client::producer::{ProducerRecord, RecordMetadata};

use super::{Control, patient, reading};
use crate::lab::{CLOSE, Lab, partitions};

/// Where the numbers are.
pub(super) const TOPIC: &str = "client-campaign-numbers";
pub(super) const PARTITIONS: usize = 4;
/// Sent to each partition at a time, and the time between.
const BURST: usize = 3;
const PAUSE: Duration = Duration::from_millis(10);
/// The most that may wait for acknowledgement.
const UNACKNOWLEDGED_MAX: i64 = 2_000;
/// Read again at each check.
const OVERLAP: i64 = 200;

#[derive(Debug)]
pub(super) struct Numbers {
    lab: Lab,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: [i64; PARTITIONS],
    acknowledged: [i64; PARTITIONS],
    verified: [i64; PARTITIONS],
    failure: Option<String>,
}

/// The partitions that hold the numbers.
pub(super) fn places() -> Vec<TopicPartition> {
    partitions(TOPIC, PARTITIONS as i32)
}

/// The number that a record stands for.
fn number(record: &OwnedRecord) -> Result<i64> {
    let value = record.value.as_ref().context("a record without a value")?;
    let text = std::str::from_utf8(value)?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

impl Numbers {
    pub(super) fn new(bootstrap: &str) -> Self {
        Self {
            lab: Lab::new(bootstrap, "campaign"),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.state().acknowledged.iter().sum::<i64>() as u64
    }

    pub(super) async fn create(&self) -> Result<()> {
        let configs = [("retention.ms", "-1"), ("segment.ms", "20000")];
        self.lab
            .topic("numbers", PARTITIONS as i32, &configs)
            .await?;
        Ok(())
    }

    pub(super) async fn work(self: Arc<Self>, control: Arc<Control>) -> Result<()> {
        let producer = self.lab.producer(&patient(&[("batch.size", "2000")]))?;
        while !control.ends() {
            for partition in 0..PARTITIONS {
                for _ in 0..BURST {
                    let Some(number) = self.take_next(partition)? else {
                        break;
                    };
                    let value = format!("{number} {:0>80}", number);
                    let record = ProducerRecord::new(TOPIC)
                        .partition(partition as i32)
                        .value(value.as_bytes());
                    let this = self.clone();
                    let told = move |result| this.acknowledge(partition, number, result);
                    producer.send_with(record, told).await?;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        producer.close(CLOSE).await?;
        self.take_next(0).map(drop)
    }

    /// The number to send next, unless too many are under way.
    fn take_next(&self, partition: usize) -> Result<Option<i64>> {
        let mut state = self.state();
        if let Some(failure) = &state.failure {
            bail!("{failure}");
        }
        let number = state.next[partition];
        if number - state.acknowledged[partition] >= UNACKNOWLEDGED_MAX {
            return Ok(None);
        }
        state.next[partition] = number + 1;
        Ok(Some(number))
    }

    fn acknowledge(
        &self,
        partition: usize,
        number: i64,
        result: Result<RecordMetadata, riverrun_client::Error>,
    ) {
        let mut state = self.state();
        let told = match result {
            Err(error) => Some(format!("{number} of partition {partition}: {error}")),
            Ok(written) if written.offset.is_some_and(|offset| offset != number) => {
                Some(format!("{number} was acknowledged as {written:?}"))
            }
            Ok(_) if state.acknowledged[partition] != number => Some(format!(
                "{number} was acknowledged when {} was next",
                state.acknowledged[partition]
            )),
            Ok(_) => {
                state.acknowledged[partition] = number + 1;
                None
            }
        };
        if state.failure.is_none() {
            state.failure = told;
        }
    }

    /// Each partition holds the numbers in order, and all that are acknowledged.
    pub(super) async fn check(&self, is_whole: bool) -> Result<()> {
        let (acknowledged, verified) = {
            let state = self.state();
            (state.acknowledged, state.verified)
        };
        for (index, place) in places().iter().enumerate() {
            let start = match is_whole {
                true => 0,
                false => (verified[index] - OVERLAP).max(0),
            };
            let mut next = start;
            let visit = |record: &OwnedRecord| {
                let found = number(record)?;
                ensure!(
                    record.offset == next && found == next,
                    "{place} has {found} at {} where {next} belongs",
                    record.offset
                );
                next += 1;
                Ok(())
            };
            let end = reading::read(&self.lab, place, start, "read_uncommitted", visit).await?;
            ensure!(next == end, "{place} ends at {end}, and has {next} numbers");
            let least = acknowledged[index].max(verified[index]);
            ensure!(end >= least, "{place} ends at {end}, and had {least}");
            self.state().verified[index] = end;
        }
        Ok(())
    }
}
