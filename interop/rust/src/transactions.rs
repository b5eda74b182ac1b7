//! Transactions: whole or not at all, offsets with them, one producer of each id.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use model::TopicPartition;
use riverrun_client::Error;
use riverrun_client::admin::{FeatureUpdate, OpenTransaction, TransactionFilter, UpgradeKind};
use riverrun_client::consumer::{Consumer, OwnedRecord};
use riverrun_client::producer::{Producer, ProducerRecord};

use crate::lab::{CLOSE, Lab, POLL, ensure_names, number, numbers, partitions, read};

crate::scenarios! {
    "transaction-commit-abort" => commit_abort,
    "transaction-order" => order,
    "transaction-copy" => copy,
    "transaction-fenced" => fenced,
    "transaction-failure" => failure,
    "transaction-timeout" => timeout,
    "transaction-misuse" => misuse,
    "transaction-stale-member" => stale_member,
    "transaction-admin" => admin,
    "transaction-admin-abort" => admin_abort,
    "transaction-protocol-1" => protocol_1,
}

impl Lab {
    /// An initialized producer of the scenario's transactional id.
    async fn transactional(&self, settings: &[(&str, &str)]) -> Result<Producer> {
        let mut all = vec![("transactional.id", &*self.name)];
        all.extend(settings);
        let producer = self.producer(&all)?;
        producer.init_transactions().await?;
        Ok(producer)
    }

    /// A consumer of all partitions of a topic that reads what is committed.
    fn committed(&self, topic: &str, count: i32) -> Result<Consumer> {
        let mut consumer = self.consumer(&[("isolation.level", "read_committed")])?;
        consumer.assign(partitions(topic, count))?;
        Ok(consumer)
    }
}

/// Sends numbers to a topic's partitions by turns.
async fn send(
    producer: &Producer,
    topic: &str,
    partitions: i32,
    numbers: std::ops::Range<i32>,
) -> Result<()> {
    for number in numbers {
        let value = number.to_string();
        let record = ProducerRecord::new(topic)
            .partition(number % partitions)
            .value(value.as_bytes());
        drop(producer.send(record).await?);
    }
    Ok(())
}

/// What is committed is read, what is aborted is not, what is open not yet.
async fn commit_abort(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 3, &[]).await?;
    let producer = lab.transactional(&[]).await?;
    let mut reader = lab.committed(&topic, 3)?;
    for round in 0..6 {
        producer.begin_transaction()?;
        send(&producer, &topic, 3, round * 100..round * 100 + 100).await?;
        producer.flush().await;
        if round == 0 {
            ensure!(
                reader.poll(POLL).await?.is_empty(),
                "an open transaction is read"
            );
        }
        if round % 2 == 0 {
            producer.commit_transaction().await?;
        } else {
            producer.abort_transaction().await?;
        }
    }
    // A transaction in which nothing was sent ends as well.
    producer.begin_transaction()?;
    producer.commit_transaction().await?;
    producer.begin_transaction()?;
    producer.abort_transaction().await?;
    let records = read(&mut reader, 300).await?;
    let expected: Vec<i32> = (0..600).filter(|number| number / 100 % 2 == 0).collect();
    ensure!(numbers(&records)? == expected);
    ensure!(reader.poll(POLL).await?.is_empty());
    let mut all = lab.consumer(&[])?;
    all.assign(partitions(&topic, 3))?;
    ensure!(numbers(&read(&mut all, 600).await?)? == (0..600).collect::<Vec<i32>>());
    producer.close(CLOSE).await?;
    Ok(())
}

/// Many small batches over many transactions keep their order.
async fn order(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 2, &[]).await?;
    let producer = lab
        .transactional(&[("batch.size", "200"), ("linger.ms", "0")])
        .await?;
    for round in 0..20 {
        producer.begin_transaction()?;
        send(&producer, &topic, 2, round * 500..round * 500 + 500).await?;
        producer.commit_transaction().await?;
    }
    producer.close(CLOSE).await?;
    let mut reader = lab.committed(&topic, 2)?;
    let mut next = [0, 1];
    for record in read(&mut reader, 10_000).await? {
        let expected = &mut next[record.partition.partition as usize];
        ensure!(
            number(&record)? == *expected,
            "{record:?} instead of {expected}"
        );
        *expected += 2;
    }
    Ok(())
}

/// One pass of reading, doubling and writing with the offsets; every third is aborted.
async fn copy_once(
    lab: &Lab,
    producer: &Producer,
    consumer: &mut Consumer,
    target: &str,
    pass: i32,
) -> Result<usize> {
    let records = consumer.poll(POLL).await?.into_owned()?;
    if records.is_empty() {
        return Ok(0);
    }
    producer.begin_transaction()?;
    for record in &records {
        let value = (number(record)? * 2).to_string();
        drop(
            producer
                .send(ProducerRecord::new(target).value(value.as_bytes()))
                .await?,
        );
    }
    producer
        .send_offsets_to_transaction(consumer.offsets(), &consumer.group_metadata()?)
        .await?;
    if pass % 3 == 1 {
        producer.abort_transaction().await?;
        // What was read is read again, from the offsets that are committed.
        let assigned: Vec<TopicPartition> = consumer.assignment().into_iter().collect();
        let committed = consumer.committed(&assigned).await?;
        for partition in &assigned {
            let offset = committed.get(partition).map_or(0, |offset| offset.offset);
            consumer.seek(partition, offset)?;
        }
        return Ok(0);
    }
    producer
        .commit_transaction()
        .await
        .with_context(|| lab.name.clone())?;
    Ok(records.len())
}

/// Exactly once from one topic to another, through aborts and another incarnation of the producer.
async fn copy(lab: Lab) -> Result<()> {
    let source = lab.topic("source", 2, &[]).await?;
    let target = lab.topic("target", 2, &[]).await?;
    lab.write(&source, 2, 0..1_000).await?;
    let settings = [("enable.auto.commit", "false"), ("max.poll.records", "60")];
    let mut copied = 0;
    let mut pass = 0;
    while copied < 1_000 {
        let producer = lab.transactional(&[]).await?;
        let mut consumer = lab.consumer(&settings)?;
        consumer.subscribe([&*source])?;
        for _ in 0..12 {
            copied += copy_once(&lab, &producer, &mut consumer, &target, pass).await?;
            pass += 1;
        }
        consumer.close(CLOSE).await?;
        producer.close(CLOSE).await?;
    }
    let mut reader = lab.committed(&target, 2)?;
    let records = read(&mut reader, 1_000).await?;
    let expected: Vec<i32> = (0..1_000).map(|number| number * 2).collect();
    ensure!(numbers(&records)? == expected);
    ensure!(reader.poll(POLL).await?.is_empty());
    let committed = reader.committed(&partitions(&source, 2)).await?;
    ensure!(committed.values().map(|offset| offset.offset).sum::<i64>() == 1_000);
    Ok(())
}

/// A second producer takes over: what the first has left open is aborted, and it can only close.
async fn fenced(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    let first = lab.transactional(&[]).await?;
    first.begin_transaction()?;
    send(&first, &topic, 1, 0..10).await?;
    first.flush().await;
    let second = lab.transactional(&[]).await?;
    second.begin_transaction()?;
    send(&second, &topic, 1, 10..20).await?;
    second.commit_transaction().await?;
    let error = first
        .commit_transaction()
        .await
        .err()
        .context("it is fenced")?;
    ensure!(matches!(error, Error::ProducerFailed(_)), "{error:?}");
    ensure_names(
        &error,
        &["can only be closed", "`transactional.id`", &lab.name],
    )?;
    let again = first.begin_transaction().err().context("it is fenced")?;
    ensure!(again == error, "{again}");
    // A zombie that writes is refused, too.
    let third = lab.transactional(&[]).await?;
    second.begin_transaction()?;
    let lost = second.send(ProducerRecord::new(&topic).value(b"0")).await?;
    ensure!(second.commit_transaction().await.is_err());
    ensure!(lost.await.is_err(), "a zombie has written");
    for producer in [first, second, third] {
        producer.close(CLOSE).await?;
    }
    let mut reader = lab.committed(&topic, 1)?;
    ensure!(numbers(&read(&mut reader, 10).await?)? == (10..20).collect::<Vec<i32>>());
    ensure!(reader.poll(POLL).await?.is_empty());
    Ok(())
}

/// A record that is refused ends the transaction, not the producer.
async fn failure(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[("max.message.bytes", "1000")]).await?;
    let producer = lab.transactional(&[]).await?;
    producer.begin_transaction()?;
    send(&producer, &topic, 1, 0..5).await?;
    let large = vec![b'1'; 2_000];
    let lost = producer
        .send(ProducerRecord::new(&topic).value(&large))
        .await?;
    ensure!(lost.await.is_err());
    let error = producer
        .commit_transaction()
        .await
        .err()
        .context("a record is lost")?;
    ensure!(matches!(error, Error::TransactionFailed(_)), "{error:?}");
    ensure_names(&error, &["can only be aborted", "`max.message.bytes`"])?;
    let error = producer
        .send(ProducerRecord::new(&topic))
        .await
        .err()
        .context("it has failed")?;
    ensure!(matches!(error, Error::TransactionFailed(_)), "{error:?}");
    producer.abort_transaction().await?;
    producer.begin_transaction()?;
    send(&producer, &topic, 1, 5..10).await?;
    producer.commit_transaction().await?;
    // A transaction that is open when the producer is closed is aborted.
    producer.begin_transaction()?;
    send(&producer, &topic, 1, 10..15).await?;
    producer.close(CLOSE).await?;
    let mut reader = lab.committed(&topic, 1)?;
    ensure!(numbers(&read(&mut reader, 5).await?)? == (5..10).collect::<Vec<i32>>());
    lab.transactional(&[]).await?;
    lab.write(&topic, 1, 20..21).await?;
    ensure!(numbers(&read(&mut reader, 1).await?)? == [20]);
    Ok(())
}

/// The coordinator aborts a transaction that takes too long.
async fn timeout(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    let producer = lab
        .transactional(&[("transaction.timeout.ms", "1000")])
        .await?;
    producer.begin_transaction()?;
    send(&producer, &topic, 1, 0..5).await?;
    producer.flush().await;
    lab.write(&topic, 1, 100..101).await?;
    let mut reader = lab.committed(&topic, 1)?;
    ensure!(numbers(&read(&mut reader, 1).await?)? == [100]);
    let error = producer
        .commit_transaction()
        .await
        .err()
        .context("it was aborted")?;
    ensure_names(&error, &["`transaction.timeout.ms`"])?;
    let beyond = [
        ("transactional.id", &*lab.name),
        ("transaction.timeout.ms", "99999999"),
    ];
    let refused = lab.producer(&beyond)?.init_transactions().await;
    ensure_names(
        &refused.err().context("too long")?,
        &["transaction.max.timeout.ms"],
    )
}

/// Calls in the wrong order are refused by what to call instead.
async fn misuse(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    let plain = lab.producer(&[])?;
    ensure_names(
        &plain.begin_transaction().err().context("plain")?,
        &["`transactional.id`"],
    )?;
    let producer = lab.producer(&[("transactional.id", &lab.name)])?;
    let record = ProducerRecord::new(&topic);
    let early = producer.send(record).await.err().context("early")?;
    ensure_names(&early, &["`init_transactions`"])?;
    producer.init_transactions().await?;
    let early = producer.send(record).await.err().context("early")?;
    ensure_names(&early, &["`begin_transaction`"])?;
    let early = producer.commit_transaction().await.err().context("early")?;
    ensure_names(&early, &["`begin_transaction`"])?;
    producer.begin_transaction()?;
    ensure!(producer.begin_transaction().is_err());
    ensure!(producer.init_transactions().await.is_err());
    producer.abort_transaction().await?;
    Ok(())
}

/// Offsets of a member that the group has lost are refused, and the transaction with them.
async fn stale_member(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    lab.write(&topic, 1, 0..3).await?;
    let mut consumer = lab.consumer(&[("enable.auto.commit", "false")])?;
    consumer.subscribe([&*topic])?;
    read(&mut consumer, 3).await?;
    let (offsets, group) = (consumer.offsets(), consumer.group_metadata()?);
    ensure!(
        group.generation_id >= 1 && !group.member_id.is_empty(),
        "{group:?}"
    );
    consumer.close(CLOSE).await?;
    let producer = lab.transactional(&[]).await?;
    producer.begin_transaction()?;
    let sent = producer.send_offsets_to_transaction(offsets, &group).await;
    let error = sent.err().context("the member has left")?;
    ensure!(matches!(error, Error::TransactionFailed(_)), "{error:?}");
    ensure_names(&error, &[&lab.name, "rebalanced"])?;
    producer.abort_transaction().await?;
    Ok(())
}

/// The admin's view of an open transaction.
async fn admin(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    let producer = lab.transactional(&[]).await?;
    producer.begin_transaction()?;
    send(&producer, &topic, 1, 0..5).await?;
    producer.flush().await;
    let admin = lab.admin()?;
    let described = admin.describe_transactions(&[&lab.name]).await;
    let described = described[&lab.name].as_ref().map_err(Clone::clone)?;
    ensure!(
        described.state == "Ongoing" && described.timeout_ms == 60_000,
        "{described:?}"
    );
    let partition = TopicPartition::new(&topic, 0);
    ensure!(described.partitions.contains(&partition), "{described:?}");
    let producers = admin
        .describe_producers(std::slice::from_ref(&partition))
        .await;
    let producers = producers[&partition].as_ref().map_err(Clone::clone)?;
    ensure!(
        producers[0].transaction_start_offset == Some(0),
        "{producers:?}"
    );
    let filter = TransactionFilter {
        states: vec!["Ongoing".to_owned()],
        id_pattern: Some(".*-transaction-admin$".to_owned()),
        ..TransactionFilter::default()
    };
    let listed = admin.list_transactions(&filter).await?;
    ensure!(listed.len() == 1 && listed[0].id == lab.name, "{listed:?}");
    producer.commit_transaction().await?;
    // The records are there once the marker is; the coordinator notes right after that the
    // transaction is complete.
    let records: Vec<OwnedRecord> = read(&mut lab.committed(&topic, 1)?, 5).await?;
    ensure!(numbers(&records)? == [0, 1, 2, 3, 4]);
    let filter = TransactionFilter::default();
    loop {
        let listed = admin.list_transactions(&filter).await?;
        let listed = listed
            .iter()
            .find(|one| one.id == lab.name)
            .context("not listed")?;
        if listed.state == "CompleteCommit" {
            return Ok(());
        }
    }
}

/// A transaction that the admin ends in a partition is read no more, and its producer is fenced.
async fn admin_abort(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    // The epoch of the second one is not the first there is.
    drop(lab.transactional(&[]).await?);
    let producer = lab.transactional(&[]).await?;
    let admin = lab.admin()?;
    let partition = TopicPartition::new(&topic, 0);
    producer.begin_transaction()?;
    send(&producer, &topic, 1, 5..10).await?;
    producer.flush().await;
    let producers = admin
        .describe_producers(std::slice::from_ref(&partition))
        .await;
    let writer = producers[&partition].as_ref().map_err(Clone::clone)?[0];
    let mut open = OpenTransaction {
        partition: partition.clone(),
        producer_id: writer.producer_id,
        producer_epoch: writer.producer_epoch as i16 - 1,
        coordinator_epoch: writer.coordinator_epoch,
    };
    let refused = admin.abort_transaction(&open).await;
    ensure_names(
        &refused.err().context("an older epoch")?,
        &["INVALID_PRODUCER_EPOCH"],
    )?;
    open.producer_epoch += 1;
    admin.abort_transaction(&open).await?;
    let fenced = admin.fence_producers(&[&lab.name]).await;
    ensure!(fenced[&lab.name] == Ok(writer.producer_id), "{fenced:?}");
    let ended = producer.commit_transaction().await;
    ensure!(matches!(ended, Err(Error::ProducerFailed(_))), "{ended:?}");
    lab.write(&topic, 1, 10..11).await?;
    let records = read(&mut lab.committed(&topic, 1)?, 1).await?;
    ensure!(numbers(&records)? == [10]);
    Ok(())
}

/// Sets the level of the feature that says how transactions work, and asks until it holds.
async fn set_level(lab: &Lab, level: i16, kind: UpgradeKind) -> Result<()> {
    const FEATURE: &str = "transaction.version";
    let admin = lab.admin()?;
    let updates = BTreeMap::from([(FEATURE.to_owned(), FeatureUpdate { level, kind })]);
    admin.update_features(&updates, false).await?;
    loop {
        let features = admin.describe_features().await?;
        let now = features
            .finalized
            .get(FEATURE)
            .map_or(0, |levels| levels.max);
        if now == level {
            return Ok(());
        }
    }
}

/// Runs what is to happen in a cluster in which producers enrol partitions by themselves.
pub(crate) async fn at_protocol_1(
    lab: &Lab,
    scenario: impl Future<Output = Result<()>>,
) -> Result<()> {
    set_level(lab, 1, UpgradeKind::SafeDowngrade).await?;
    let outcome = scenario.await;
    set_level(lab, 2, UpgradeKind::Upgrade).await?;
    outcome
}

async fn protocol_1(lab: Lab) -> Result<()> {
    let with = |end: &str| Lab {
        name: lab.named(end),
        ..lab.clone()
    };
    let scenarios = async {
        commit_abort(with("commit")).await?;
        order(with("order")).await?;
        copy(with("copy")).await?;
        fenced(with("fenced")).await?;
        failure(with("failure")).await?;
        stale_member(with("stale")).await
    };
    at_protocol_1(&lab, Box::pin(scenarios)).await
}
