//! Members of groups: every assignor, commits, static members, patterns.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use model::TopicPartition;
use riverrun_client::admin::GroupKind;
use riverrun_client::consumer::{CommittedOffset, Consumer, Offsets};

use crate::lab::{CLOSE, Lab, POLL, is_shared, numbers, partitions, poll_until, read};

crate::scenarios! {
    "group-range" => range,
    "group-round-robin" => round_robin,
    "group-sticky" => sticky,
    "group-cooperative" => cooperative,
    "group-commit" => commit,
    "group-static" => static_member,
    "group-pattern" => pattern,
    "group-described" => described,
}

/// Members come and go while records arrive; everything is read, and once but for what a member
/// that left had not committed.
pub(crate) async fn members(lab: Lab, settings: &[(&str, &str)]) -> Result<()> {
    let topic = lab.topic("t", 6, &[]).await?;
    lab.write(&topic, 6, 0..600).await?;
    let member = || -> Result<Consumer> {
        let mut consumer = lab.consumer(settings)?;
        consumer.subscribe([&*topic])?;
        Ok(consumer)
    };
    let settled = |assignments: &[BTreeSet<TopicPartition>]| is_shared(assignments, 6);
    let mut consumers = vec![member()?];
    let mut records = poll_until(&mut consumers, settled).await?;
    consumers.push(member()?);
    records.extend(poll_until(&mut consumers, settled).await?);
    lab.write(&topic, 6, 600..1_200).await?;
    consumers.push(member()?);
    records.extend(poll_until(&mut consumers, settled).await?);
    consumers.remove(0).close(CLOSE).await?;
    lab.write(&topic, 6, 1_200..1_800).await?;
    records.extend(poll_until(&mut consumers, settled).await?);
    let expected: Vec<i32> = (0..1_800).collect();
    while records.len() < expected.len() {
        records.extend(poll_until(&mut consumers, |_| true).await?);
    }
    ensure!(numbers(&records)? == expected, "{} records", records.len());
    for consumer in consumers {
        consumer.close(CLOSE).await?;
    }
    Ok(())
}

async fn range(lab: Lab) -> Result<()> {
    members(lab, &[("partition.assignment.strategy", "range")]).await
}

async fn round_robin(lab: Lab) -> Result<()> {
    members(lab, &[("partition.assignment.strategy", "roundrobin")]).await
}

async fn sticky(lab: Lab) -> Result<()> {
    members(lab, &[("partition.assignment.strategy", "sticky")]).await
}

async fn cooperative(lab: Lab) -> Result<()> {
    members(
        lab,
        &[("partition.assignment.strategy", "cooperative-sticky")],
    )
    .await
}

/// Who comes later goes on where the group has committed.
async fn commit(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 2, &[]).await?;
    lab.write(&topic, 2, 0..20).await?;
    let by_hand = [("enable.auto.commit", "false"), ("max.poll.records", "1")];
    let mut first = lab.consumer(&by_hand)?;
    first.subscribe([&*topic])?;
    read(&mut first, 5).await?;
    first.commit().await?;
    let committed = first.committed(&partitions(&topic, 2)).await?;
    let sum: i64 = committed.values().map(|offset| offset.offset).sum();
    ensure!(sum == 5, "{committed:?}");
    read(&mut first, 3).await?;
    first.close(CLOSE).await?;
    let mut second = lab.consumer(&by_hand)?;
    second.subscribe([&*topic])?;
    ensure!(read(&mut second, 15).await?.len() == 15);
    let mut offset = CommittedOffset::new(3);
    offset.metadata = "a note".to_owned();
    let partition = TopicPartition::new(&topic, 1);
    let offsets = Offsets::from([(partition.clone(), offset.clone())]);
    second.commit_offsets(offsets).await?;
    let committed = second.committed(std::slice::from_ref(&partition)).await?;
    ensure!(committed.get(&partition) == Some(&offset), "{committed:?}");
    second.close(CLOSE).await?;
    Ok(())
}

/// A static member that comes back has its partitions without a rebalance.
async fn static_member(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 4, &[]).await?;
    let member = |instance: &str| -> Result<Consumer> {
        let settings = [
            ("group.instance.id", instance),
            ("session.timeout.ms", "30000"),
        ];
        let mut consumer = lab.consumer(&settings)?;
        consumer.subscribe([&*topic])?;
        Ok(consumer)
    };
    let mut consumers = vec![member("one")?, member("two")?];
    poll_until(&mut consumers, |assignments| is_shared(assignments, 4)).await?;
    let kept = consumers[1].assignment();
    let owned = consumers[0].assignment();
    consumers.remove(0).close(CLOSE).await?;
    consumers.insert(0, member("one")?);
    poll_until(&mut consumers, |assignments| !assignments[0].is_empty()).await?;
    ensure!(consumers[0].assignment() == owned && consumers[1].assignment() == kept);
    for consumer in consumers {
        consumer.close(CLOSE).await?;
    }
    let removal = riverrun_client::admin::MembersToRemove::All;
    let removed = lab.admin()?.remove_members(&lab.name, &removal).await?;
    ensure!(
        removed.len() == 2 && removed.values().all(Result::is_ok),
        "{removed:?}"
    );
    Ok(())
}

/// A pattern takes in the topics that come later.
async fn pattern(lab: Lab) -> Result<()> {
    let first = lab.topic("in-a", 1, &[]).await?;
    lab.topic("out", 1, &[]).await?;
    let mut consumer = lab.consumer(&[("metadata.max.age.ms", "300")])?;
    consumer.subscribe_pattern(&lab.named("in-.*"))?;
    lab.write(&first, 1, 0..3).await?;
    read(&mut consumer, 3).await?;
    let second = lab.topic("in-b", 2, &[]).await?;
    lab.write(&second, 2, 0..4).await?;
    read(&mut consumer, 4).await?;
    ensure!(
        consumer.assignment().len() == 3,
        "{:?}",
        consumer.assignment()
    );
    consumer.close(CLOSE).await?;
    Ok(())
}

/// The group as the admin sees it, from its first member to its deletion.
async fn described(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 2, &[]).await?;
    let admin = lab.admin()?;
    let describe = || async {
        let mut described = admin.describe_groups(&[&lab.name]).await;
        Ok::<_, anyhow::Error>(described.remove(&lab.name).context("no answer")??)
    };
    let mut consumer = lab.consumer(&[])?;
    consumer.subscribe([&*topic])?;
    while consumer.assignment().len() < 2 {
        consumer.poll(POLL).await?;
    }
    let group = describe().await?;
    ensure!(
        group.state == "Stable" && group.kind == GroupKind::Classic,
        "{group:?}"
    );
    ensure!(
        group.assignor == "range" && group.members.len() == 1,
        "{group:?}"
    );
    let member = &group.members[0];
    ensure!(member.assignment == consumer.assignment(), "{member:?}");
    ensure!(member.subscribed_topics == [topic.clone()], "{member:?}");
    consumer.close(CLOSE).await?;
    let listed = admin
        .list_groups(&riverrun_client::admin::GroupFilter::default())
        .await?;
    ensure!(
        listed.iter().any(|group| group.id == lab.name),
        "{listed:?}"
    );
    // Nothing tells when the coordinator is done with the last member: each answer leads to the
    // next question.
    while describe().await?.state != "Empty" {}
    let offsets = admin.list_group_offsets(&lab.name, None, false).await?;
    ensure!(offsets.len() == 2, "{offsets:?}");
    for (group, deleted) in admin.delete_groups(&[&lab.name]).await {
        deleted.with_context(|| group)?;
    }
    let gone = admin.describe_groups(&[&lab.name]).await;
    ensure!(gone.values().all(Result::is_err), "{gone:?}");
    Ok(())
}
