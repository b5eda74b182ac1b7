//! Reads what partitions hold at a time, and what groups have committed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use model::TopicPartition;
use riverrun_client::admin::{Admin, IsolationLevel, OffsetSpec};
use riverrun_client::consumer::OwnedRecord;
use riverrun_client::producer::Producer;

use super::{POLL_INTERVAL, patient};
use crate::lab::{Lab, POLL};

/// How long markers may take, and a partition to be read.
const LIMIT: Duration = Duration::from_secs(60);

/// Shows each record from `start` to the partition's end as of now; returns that end.
pub(crate) async fn read(
    lab: &Lab,
    place: &TopicPartition,
    start: i64,
    isolation: &str,
    mut visit: impl FnMut(&OwnedRecord) -> Result<()>,
) -> Result<i64> {
    let mut consumer = lab.consumer(&patient(&[
        ("isolation.level", isolation),
        ("enable.auto.commit", "false"),
        ("max.poll.records", "5000"),
    ]))?;
    consumer.assign([place.clone()])?;
    let ends = consumer.end_offsets(std::slice::from_ref(place)).await?;
    let end = *ends.get(place).context("the partition has no end")?;
    ensure!(
        end >= start,
        "{place} ended at {start} or later, and now ends at {end}"
    );
    consumer.seek(place, start)?;
    let deadline = Instant::now() + LIMIT;
    while consumer.position(place).unwrap_or(start) < end {
        ensure!(
            Instant::now() < deadline,
            "{place} ends at {end}, and reading stands at {:?}",
            consumer.position(place)
        );
        for record in consumer.poll(POLL).await?.into_owned()? {
            if record.offset < end {
                visit(&record)?;
            }
        }
    }
    Ok(end)
}

/// Waits until no transaction is open in the partitions.
pub(crate) async fn await_settled(admin: &Admin, places: &[TopicPartition]) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    let wanted: BTreeMap<TopicPartition, OffsetSpec> = places
        .iter()
        .map(|place| (place.clone(), OffsetSpec::Latest))
        .collect();
    loop {
        let ends = admin
            .list_offsets(&wanted, IsolationLevel::ReadUncommitted)
            .await;
        let stable = admin
            .list_offsets(&wanted, IsolationLevel::ReadCommitted)
            .await;
        if stable.values().all(Result::is_ok) && ends == stable {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "a transaction stays open: ends {ends:?}, stable {stable:?}"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until the coordinator has written every marker of a transactional id.
pub(super) async fn await_completed(admin: &Admin, id: &str) -> Result<()> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let described = admin.describe_transactions(&[id]).await;
        let state = described.get(id).context("no answer")?;
        let is_over = |state: &str| ["Empty", "CompleteCommit", "CompleteAbort"].contains(&state);
        if state.as_ref().is_ok_and(|found| is_over(&found.state)) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "{id} stays {state:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The committed offset of each partition, 0 where there is none, once no transaction has any.
pub(crate) async fn committed(
    admin: &Admin,
    group: &str,
    places: &[TopicPartition],
) -> Result<Vec<i64>> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let listed = admin.list_group_offsets(group, Some(places), true).await?;
        let offset_of = |place| match listed.get(place) {
            Some(Ok(Some(committed))) => Ok(committed.offset),
            Some(Ok(None)) => Ok(0),
            Some(Err(error)) => Err(error),
            None => Ok(-1),
        };
        let offsets: Result<Vec<i64>, _> = places.iter().map(offset_of).collect();
        match offsets {
            Ok(offsets) => return Ok(offsets),
            Err(error) => ensure!(
                error.is_retriable() && Instant::now() < deadline,
                "the offsets of {group}: {error}"
            ),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// An initialized producer of a transactional id.
pub(super) async fn transactional(lab: &Lab) -> Result<Producer> {
    let settings = [("transactional.id", &*lab.name), ("linger.ms", "2")];
    let producer = lab.producer(&patient(&settings))?;
    until_settled(|| producer.init_transactions()).await?;
    Ok(producer)
}

/// Calls again for as long as it is not known what became of the call.
pub(super) async fn until_settled<F: Future<Output = Result<(), riverrun_client::Error>>>(
    call: impl Fn() -> F,
) -> Result<(), riverrun_client::Error> {
    loop {
        match call().await {
            Err(error) if error.is_retriable() => eprintln!("again after {error}"),
            result => return result,
        }
    }
}
