//! Topics that the cluster keeps its own state in, created when first needed, and topics that are
//! created because a client used them.

use crate::create_topics::{MIN_INSYNC_REPLICAS, NewTopic};
use config::ServerConfig;
use config::server::InternalTopic;

/// Offsets and members of groups.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";
/// States of transactions.
pub const TRANSACTION_STATE: &str = "__transaction_state";
/// Deliveries of share groups.
pub const SHARE_GROUP_STATE: &str = "__share_group_state";

/// Whether clients are told that the topic is internal.
pub fn is_internal(name: &str) -> bool {
    [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE].contains(&name)
}

/// How a topic that does not exist is created by its first use: internal topics as their
/// coordinators need them, others with the broker's defaults.
pub fn topic_for_first_use(name: &str, config: &ServerConfig) -> NewTopic {
    match name {
        CONSUMER_OFFSETS => consumer_offsets(config),
        TRANSACTION_STATE => transaction_state(config),
        SHARE_GROUP_STATE => share_group_state(config),
        _ => NewTopic::of_defaults(name),
    }
}

fn consumer_offsets(config: &ServerConfig) -> NewTopic {
    let values = [
        ("cleanup.policy", "compact"),
        ("compression.type", "producer"),
    ];
    internal(CONSUMER_OFFSETS, &config.groups.offsets.topic, &values)
}

fn transaction_state(config: &ServerConfig) -> NewTopic {
    let values = [
        ("cleanup.policy", "compact"),
        ("compression.type", "uncompressed"),
        ("unclean.leader.election.enable", "false"),
    ];
    internal(TRANSACTION_STATE, &config.transactions.state_topic, &values)
}

fn share_group_state(config: &ServerConfig) -> NewTopic {
    let values = [
        ("cleanup.policy", "delete"),
        ("compression.type", "producer"),
        ("retention.ms", "-1"),
    ];
    let topic = &config.groups.share_coordinator.state_topic;
    internal(SHARE_GROUP_STATE, topic, &values)
}

fn internal(name: &str, topic: &InternalTopic, values: &[(&str, &str)]) -> NewTopic {
    let mut configs: Vec<_> = values
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())))
        .collect();
    let segment_bytes = topic.segment_bytes.to_string();
    configs.push(("segment.bytes".to_owned(), Some(segment_bytes)));
    if let Some(count) = topic.min_insync_replicas {
        configs.push((MIN_INSYNC_REPLICAS.to_owned(), Some(count.to_string())));
    }
    NewTopic {
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        configs,
        ..NewTopic::of_defaults(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create_topics::create_topics;
    use crate::test_cluster::TestCluster;
    use expect_test::expect;
    use model::BrokerId;

    #[test]
    fn topics_of_first_use_have_kafkas_configurations() {
        let mut cluster = TestCluster::new(&[
            ("offsets.topic.num.partitions", "3"),
            ("offsets.topic.replication.factor", "1"),
            ("offsets.topic.segment.bytes", "1048577"),
            ("transaction.state.log.replication.factor", "1"),
            ("share.coordinator.state.topic.replication.factor", "1"),
        ])
        .with_brokers(&[BrokerId(1)]);
        let names = [
            CONSUMER_OFFSETS,
            TRANSACTION_STATE,
            SHARE_GROUP_STATE,
            "other",
        ];
        let topics = names.map(|name| topic_for_first_use(name, &cluster.config));
        cluster
            .apply(|image, context, random| create_topics(image, context, &topics, false, random));
        let mut shown = String::new();
        for name in names {
            let topic = cluster.image.topics.by_name(name).unwrap();
            let count = topic.partition_count();
            shown += &format!("{name} {count} internal {}\n", is_internal(name));
            for (key, value) in cluster
                .image
                .configs
                .of_topic(name)
                .into_iter()
                .flat_map(|c| c.iter())
            {
                shown += &format!("  {key}={value}\n");
            }
        }
        expect![[r#"
            __consumer_offsets 3 internal true
              cleanup.policy=compact
              compression.type=producer
              segment.bytes=1048577
            __transaction_state 50 internal true
              cleanup.policy=compact
              compression.type=uncompressed
              min.insync.replicas=2
              segment.bytes=104857600
              unclean.leader.election.enable=false
            __share_group_state 50 internal true
              cleanup.policy=delete
              compression.type=producer
              min.insync.replicas=2
              retention.ms=-1
              segment.bytes=104857600
            other 1 internal false
        "#]]
        .assert_eq(&shown);
    }
}
