//! The admin: topics, settings, partitions, records, the cluster.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use model::{BrokerId, TopicPartition};
use riverrun_client::admin::{
    AlterOperation, ConfigResource, ConfigSource, DescribeConfigsOptions, IsolationLevel,
    NewPartitions, NewTopic, OffsetSpec,
};

use crate::lab::{Lab, ensure_names};

crate::scenarios! {
    "admin-topics" => topics,
    "admin-configs" => configs,
    "admin-records" => records,
    "admin-cluster" => cluster,
}

async fn topics(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 2, &[("retention.ms", "12345")]).await?;
    let admin = lab.admin()?;
    let again = admin.create_topics(&[NewTopic::new(&topic)]).await;
    let error = again[&topic].as_ref().err().context("it is there")?;
    ensure_names(error, &[&topic, "TOPIC_ALREADY_EXISTS"])?;
    let bad = admin
        .create_topics(&[NewTopic::new("no/name").partitions(1)])
        .await;
    ensure_names(
        bad["no/name"].as_ref().err().context("bad")?,
        &["INVALID_TOPIC"],
    )?;
    let more = NewPartitions {
        total_count: 3,
        assignments: Vec::new(),
    };
    let grown = admin
        .create_partitions(&BTreeMap::from([(topic.clone(), more)]))
        .await;
    ensure!(grown[&topic].is_ok(), "{grown:?}");
    let described = admin.describe_topics(&[&topic, "missing"]).await;
    let partitions = &described[&topic].as_ref().map_err(Clone::clone)?.partitions;
    ensure!(partitions.len() == 3, "{partitions:?}");
    ensure!(
        partitions
            .iter()
            .all(|partition| partition.leader == Some(BrokerId(1))),
        "{partitions:?}"
    );
    let error = described["missing"]
        .as_ref()
        .err()
        .context("no such topic")?;
    ensure_names(error, &["missing", "UNKNOWN_TOPIC_OR_PARTITION"])?;
    ensure!(
        admin
            .list_topics()
            .await?
            .iter()
            .any(|listed| listed.name == topic)
    );
    ensure!(admin.delete_topics(&[&topic]).await[&topic].is_ok());
    // Apache Kafka's brokers hear of a deletion after the controller has answered.
    let deadline = Instant::now() + Duration::from_secs(10);
    while admin
        .list_topics()
        .await?
        .iter()
        .any(|listed| listed.name == topic)
    {
        ensure!(Instant::now() < deadline, "a deleted topic is listed");
    }
    Ok(())
}

async fn configs(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[("retention.ms", "12345")]).await?;
    let admin = lab.admin()?;
    let resource = ConfigResource::topic(&topic);
    let options = DescribeConfigsOptions::default();
    let value = |key: &'static str| {
        let (admin, resource, options) = (&admin, &resource, &options);
        async move {
            let mut found = admin
                .describe_configs(std::slice::from_ref(resource), options)
                .await;
            let entries = found.remove(resource).context("no answer")??;
            let entry = entries.into_iter().find(|entry| entry.name == key);
            let entry = entry.with_context(|| format!("no `{key}`"))?;
            Ok::<_, anyhow::Error>((entry.value.unwrap_or_default(), entry.source))
        }
    };
    let set = (String::from("12345"), ConfigSource::Topic);
    ensure!(
        value("retention.ms").await? == set,
        "{:?}",
        value("retention.ms").await?
    );
    let changes = BTreeMap::from([
        ("retention.ms".to_owned(), AlterOperation::Delete),
        (
            "cleanup.policy".to_owned(),
            AlterOperation::Set("compact".to_owned()),
        ),
        (
            "max.message.bytes".to_owned(),
            AlterOperation::Set("2000".to_owned()),
        ),
    ]);
    let changed = admin
        .alter_configs(&BTreeMap::from([(resource.clone(), changes)]))
        .await;
    ensure!(changed[&resource].is_ok(), "{changed:?}");
    ensure!(value("retention.ms").await?.0 == "604800000");
    ensure!(value("cleanup.policy").await?.0 == "compact");
    ensure!(value("max.message.bytes").await?.0 == "2000");
    let bad = AlterOperation::Set("soon".to_owned());
    let changes = BTreeMap::from([("retention.ms".to_owned(), bad)]);
    let refused = admin
        .alter_configs(&BTreeMap::from([(resource.clone(), changes)]))
        .await;
    let error = refused[&resource].as_ref().err().context("no number")?;
    ensure_names(error, &["INVALID_CONFIG", "retention.ms"])
}

async fn records(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 1, &[]).await?;
    lab.write(&topic, 1, 0..10).await?;
    let admin = lab.admin()?;
    let partition = TopicPartition::new(&topic, 0);
    let offset = |spec: OffsetSpec| {
        let (admin, partition) = (&admin, &partition);
        async move {
            let wanted = BTreeMap::from([(partition.clone(), spec)]);
            let mut listed = admin.list_offsets(&wanted, IsolationLevel::default()).await;
            Ok::<_, anyhow::Error>(listed.remove(partition).context("no answer")??.offset)
        }
    };
    ensure!(offset(OffsetSpec::Earliest).await? == 0);
    ensure!(offset(OffsetSpec::Latest).await? == 10);
    let deleted = admin
        .delete_records(&BTreeMap::from([(partition.clone(), 4)]))
        .await;
    ensure!(deleted[&partition] == Ok(4), "{deleted:?}");
    ensure!(offset(OffsetSpec::Earliest).await? == 4);
    let beyond = admin
        .delete_records(&BTreeMap::from([(partition.clone(), 11)]))
        .await;
    let error = beyond[&partition]
        .as_ref()
        .err()
        .context("beyond the end")?;
    ensure_names(error, &[&partition.to_string(), "OFFSET_OUT_OF_RANGE"])?;
    let producers = admin
        .describe_producers(std::slice::from_ref(&partition))
        .await;
    let producers = producers[&partition].as_ref().map_err(Clone::clone)?;
    ensure!(
        producers.len() == 1 && producers[0].last_sequence == Some(9),
        "{producers:?}"
    );
    Ok(())
}

async fn cluster(lab: Lab) -> Result<()> {
    let topic = lab.topic("t", 2, &[]).await?;
    let admin = lab.admin()?;
    let cluster = admin.describe_cluster().await?;
    ensure!(
        cluster.brokers.len() == 1 && cluster.brokers[0].id == BrokerId(1),
        "{cluster:?}"
    );
    let quorum = admin.describe_quorum().await?;
    ensure!(
        quorum.leader_id == BrokerId(1) && quorum.voters.len() == 1,
        "{quorum:?}"
    );
    let features = admin.describe_features().await?;
    ensure!(
        features.finalized.contains_key("metadata.version"),
        "{features:?}"
    );
    // Brokers make the logs of a new topic after it is there; the scenario's limit ends the wait.
    loop {
        let directories = admin.describe_log_dirs(None).await?;
        let directories = directories[&BrokerId(1)].as_ref().map_err(Clone::clone)?;
        let replicas = directories
            .iter()
            .flat_map(|directory| directory.replicas.keys());
        let count = replicas
            .filter(|partition| partition.topic == topic)
            .count();
        ensure!(count <= 2, "{directories:?}");
        if count == 2 {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}
