//! Creates a topic, shows the cluster, and deletes the topic:
//! `cargo run -p riverrun-client --example admin -- localhost:9092`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use riverrun_client::admin::{
    Admin, AdminConfig, ConfigResource, DescribeConfigsOptions, GroupFilter, IsolationLevel,
    NewTopic, OffsetSpec,
};
use riverrun_client::{Error, TopicPartition};
use std::collections::BTreeMap;

const TOPIC: &str = "riverrun-admin-example";

#[tokio::main]
async fn main() -> Result<(), Error> {
    let servers = std::env::args().nth(1);
    let servers = servers.unwrap_or_else(|| "localhost:9092".to_owned());
    let admin = Admin::new(AdminConfig::with_bootstrap_servers(&servers)?)?;

    let cluster = admin.describe_cluster().await?;
    println!("cluster {}", cluster.cluster_id);
    for broker in &cluster.brokers {
        let endpoint = broker.endpoint.as_ref().map(ToString::to_string);
        println!("  broker {} at {}", broker.id, endpoint.unwrap_or_default());
    }
    let quorum = admin.describe_quorum().await?;
    println!(
        "active controller {}, epoch {}",
        quorum.leader_id, quorum.leader_epoch
    );
    let features = admin.describe_features().await?;
    for (name, levels) in &features.finalized {
        println!("  feature {name} at level {}", levels.max);
    }

    show_topic(&admin).await?;
    for (broker, directories) in admin.describe_log_dirs(None).await? {
        for directory in directories? {
            println!(
                "broker {broker}: {} replicas in {}",
                directory.replicas.len(),
                directory.path
            );
        }
    }
    for group in admin.list_groups(&GroupFilter::default()).await? {
        println!("group {} is {}", group.id, group.state.unwrap_or_default());
    }
    for (name, deleted) in admin.delete_topics(&[TOPIC]).await {
        deleted?;
        println!("deleted {name}");
    }
    Ok(())
}

/// Creates the topic and shows what there is to know of it.
async fn show_topic(admin: &Admin) -> Result<(), Error> {
    let topic = NewTopic::new(TOPIC)
        .partitions(3)
        .config("retention.ms", "3600000");
    for (name, created) in admin.create_topics(&[topic]).await {
        println!(
            "created {name} with {:?} partitions",
            created?.partition_count
        );
    }
    for (name, described) in admin.describe_topics(&[TOPIC]).await {
        for partition in described?.partitions {
            println!(
                "  {name}-{} is led by {:?}",
                partition.index, partition.leader
            );
        }
    }
    let partitions = (0..3).map(|index| (TopicPartition::new(TOPIC, index), OffsetSpec::Latest));
    let partitions: BTreeMap<_, _> = partitions.collect();
    for (partition, listed) in admin
        .list_offsets(&partitions, IsolationLevel::default())
        .await
    {
        println!("  {partition} ends at {}", listed?.offset);
    }
    let options = DescribeConfigsOptions::default();
    for (resource, entries) in admin
        .describe_configs(&[ConfigResource::topic(TOPIC)], &options)
        .await
    {
        println!("{resource} has {} settings", entries?.len());
    }
    Ok(())
}
