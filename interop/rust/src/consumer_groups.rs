//! Members of groups of the consumer protocol (KIP-848).

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use model::TopicPartition;
use riverrun_client::admin::{GroupDescription, GroupKind};
use riverrun_client::consumer::{CommittedOffset, Consumer, Offsets};
use riverrun_client::producer::ProducerRecord;

use crate::groups::members;
use crate::lab::{
    CLOSE, Lab, POLL, ensure_names, is_shared, numbers, partitions, poll_until, read,
};

crate::scenarios! {
    "consumer-group-uniform" => uniform,
    "consumer-group-range" => range,
    "consumer-group-commit" => commit,
    "consumer-group-static" => static_member,
    "consumer-group-pattern" => pattern,
    "consumer-group-described" => described,
    "consumer-group-refusals" => refusals,
    "consumer-group-upgrade" => upgrade,
    "consumer-group-transaction" => transaction,
}

const PROTOCOL: (&str, &str) = ("group.protocol", "consumer");

impl Lab {
    fn member(&self, settings: &[(&str, &str)], topics: &[&str]) -> Result<Consumer> {
        let mut all = vec![PROTOCOL];
        all.extend(settings);
        let mut consumer = self.consumer(&all)?;
        consumer.subscribe(topics.iter().copied())?;
        Ok(consumer)
    }

    async fn describe(&self) -> Result<GroupDescription> {
        let mut described = self.admin()?.describe_groups(&[&self.name]).await;
        Ok(described.remove(&self.name).context("no answer")??)
    }
}

async fn uniform(lab: Lab) -> Result<()> {
    members(lab, &[PROTOCOL, ("group.remote.assignor", "uniform")]).await
}

async fn range(lab: Lab) -> Result<()> {
    members(lab, &[PROTOCOL, ("group.remote.assignor", "range")]).await
}

/// Commits carry the member's epoch; who comes later goes on where the group has committed.
async fn commit(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 2, &[]).await?;
    lab.write(&topic, 2, 0..20).await?;
    let by_hand = [("enable.auto.commit", "false"), ("max.poll.records", "1")];
    let mut first = lab.member(&by_hand, &[&topic])?;
    read(&mut first, 5).await?;
    first.commit().await?;
    let metadata = first.group_metadata()?;
    ensure!(
        metadata.generation_id >= 1 && !metadata.member_id.is_empty(),
        "{metadata:?}"
    );
    read(&mut first, 3).await?;
    first.close(CLOSE).await?;
    let mut second = lab.member(&by_hand, &[&topic])?;
    ensure!(read(&mut second, 15).await?.len() == 15);
    let mut offset = CommittedOffset::new(3);
    offset.metadata = "a note".to_owned();
    let partition = TopicPartition::new(&topic, 1);
    second
        .commit_offsets(Offsets::from([(partition.clone(), offset.clone())]))
        .await?;
    let committed = second.committed(std::slice::from_ref(&partition)).await?;
    ensure!(committed.get(&partition) == Some(&offset), "{committed:?}");
    // The epoch rises with each member that comes; commits go on.
    let mut third = lab.member(&by_hand, &[&topic])?;
    for _ in 0..20 {
        third.poll(Duration::from_millis(50)).await?;
        second.poll(Duration::from_millis(10)).await?;
        second.commit().await?;
    }
    second.close(CLOSE).await?;
    third.close(CLOSE).await?;
    Ok(())
}

/// A static member that comes back has its partitions, and nobody else has had them.
async fn static_member(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 4, &[]).await?;
    let member = |instance: &str| lab.member(&[("group.instance.id", instance)], &[&topic]);
    let mut consumers = vec![member("one")?, member("two")?];
    poll_until(&mut consumers, |assignments| is_shared(assignments, 4)).await?;
    let (owned, kept) = (consumers[0].assignment(), consumers[1].assignment());
    consumers.remove(0).close(CLOSE).await?;
    for _ in 0..10 {
        consumers[0].poll(Duration::from_millis(50)).await?;
    }
    ensure!(
        consumers[0].assignment() == kept,
        "{:?}",
        consumers[0].assignment()
    );
    consumers.insert(0, member("one")?);
    poll_until(&mut consumers, |assignments| !assignments[0].is_empty()).await?;
    ensure!(consumers[0].assignment() == owned && consumers[1].assignment() == kept);
    // While it lives, nobody else can be it.
    let mut twin = member("one")?;
    let error = loop {
        match twin.poll(POLL).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    ensure_names(&error, &[&lab.name, "`group.instance.id`"])?;
    for consumer in consumers {
        consumer.close(CLOSE).await?;
    }
    Ok(())
}

/// The coordinator matches the pattern, and takes in the topics that come later.
async fn pattern(lab: Lab) -> Result<()> {
    let first = lab.topic("in-a", 1, &[]).await?;
    lab.topic("out", 1, &[]).await?;
    let mut consumer = lab.consumer(&[PROTOCOL, ("metadata.max.age.ms", "300")])?;
    consumer.subscribe_pattern(&lab.named("in-.*"))?;
    lab.write(&first, 1, 0..3).await?;
    read(&mut consumer, 3).await?;
    ensure!(consumer.subscription() == BTreeSet::from([first.clone()]));
    consumer.unsubscribe().await?;
    // A topic by its name, and then another one.
    consumer.subscribe([&*first])?;
    lab.write(&first, 1, 3..4).await?;
    read(&mut consumer, 1).await?;
    let second = lab.topic("other", 2, &[]).await?;
    consumer.subscribe([&*first, &*second])?;
    lab.write(&second, 2, 0..4).await?;
    read(&mut consumer, 4).await?;
    ensure!(
        consumer.assignment().len() == 3,
        "{:?}",
        consumer.assignment()
    );
    consumer.close(CLOSE).await?;
    let mut wrong = lab.consumer(&[PROTOCOL])?;
    wrong.subscribe_pattern("[")?;
    let error = loop {
        match wrong.poll(POLL).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    ensure_names(&error, &["INVALID_REGULAR_EXPRESSION", "RE2"])
}

async fn described(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 2, &[]).await?;
    let mut consumer = lab.member(&[("client.rack", "here")], &[&topic])?;
    while consumer.assignment().len() < 2 {
        consumer.poll(POLL).await?;
    }
    // What is assigned is acknowledged by the next heartbeat.
    let group = loop {
        let group = lab.describe().await?;
        if group.state == "Stable" {
            break group;
        }
        consumer.poll(POLL).await?;
    };
    ensure!(
        group.kind == GroupKind::Consumer && group.assignor == "uniform",
        "{group:?}"
    );
    let member = group.members.first().context("no member")?;
    ensure!(member.assignment == consumer.assignment(), "{member:?}");
    ensure!(
        member.target_assignment.as_ref() == Some(&member.assignment),
        "{member:?}"
    );
    ensure!(member.rack.as_deref() == Some("here"), "{member:?}");
    ensure!(member.subscribed_topics == [topic.clone()], "{member:?}");
    ensure!(
        member.id == consumer.group_metadata()?.member_id,
        "{member:?}"
    );
    consumer.close(CLOSE).await?;
    let group = lab.describe().await?;
    ensure!(
        group.state == "Empty" && group.members.is_empty(),
        "{group:?}"
    );
    Ok(())
}

/// What the coordinator does not take is told with the setting to change.
async fn refusals(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    let mut member = lab.member(&[("group.remote.assignor", "none")], &[&topic])?;
    let error = loop {
        match member.poll(POLL).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    ensure_names(&error, &["UNSUPPORTED_ASSIGNOR", "`group.remote.assignor`"])
}

/// A group of the classic protocol goes over to the other while it lives, member by member.
async fn upgrade(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 4, &[]).await?;
    lab.write(&topic, 4, 0..400).await?;
    let classic = || -> Result<Consumer> {
        let mut consumer = lab.consumer(&[])?;
        consumer.subscribe([&*topic])?;
        Ok(consumer)
    };
    let settled = |assignments: &[BTreeSet<TopicPartition>]| is_shared(assignments, 4);
    let mut consumers = vec![classic()?, classic()?];
    let mut records = poll_until(&mut consumers, settled).await?;
    ensure!(lab.describe().await?.kind == GroupKind::Classic);
    consumers.remove(0).close(CLOSE).await?;
    consumers.push(lab.member(&[], &[&topic])?);
    records.extend(poll_until(&mut consumers, settled).await?);
    ensure!(lab.describe().await?.kind == GroupKind::Consumer);
    lab.write(&topic, 4, 400..800).await?;
    consumers.remove(0).close(CLOSE).await?;
    consumers.push(lab.member(&[], &[&topic])?);
    records.extend(poll_until(&mut consumers, settled).await?);
    while records.len() < 800 {
        records.extend(poll_until(&mut consumers, |_| true).await?);
    }
    ensure!(numbers(&records)? == (0..800).collect::<Vec<i32>>());
    for consumer in consumers {
        consumer.close(CLOSE).await?;
    }
    Ok(())
}

/// Offsets of such a member within a transaction.
async fn transaction(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    lab.write(&topic, 1, 0..5).await?;
    let mut consumer = lab.member(&[("enable.auto.commit", "false")], &[&topic])?;
    read(&mut consumer, 5).await?;
    let producer = lab.producer(&[("transactional.id", &lab.name)])?;
    producer.init_transactions().await?;
    producer.begin_transaction()?;
    let record = ProducerRecord::new(&topic).value(b"5");
    drop(producer.send(record).await?);
    let group = consumer.group_metadata()?;
    producer
        .send_offsets_to_transaction(consumer.offsets(), &group)
        .await?;
    producer.commit_transaction().await?;
    let committed = consumer.committed(&partitions(&topic, 1)).await?;
    ensure!(
        committed.values().all(|offset| offset.offset == 5),
        "{committed:?}"
    );
    consumer.close(CLOSE).await?;
    producer.begin_transaction()?;
    let stale = producer
        .send_offsets_to_transaction(committed, &group)
        .await;
    ensure_names(
        &stale.err().context("the member has left")?,
        &["can only be aborted"],
    )?;
    producer.abort_transaction().await?;
    producer.close(CLOSE).await?;
    Ok(())
}
