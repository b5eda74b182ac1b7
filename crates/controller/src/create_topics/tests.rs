use super::*;
use crate::test_cluster::TestCluster;
use expect_test::{Expect, expect};

/// `name partitions replication [index=b,b]... [key=value]...`, one topic a line; `-` for -1.
fn parse(script: &str) -> Vec<NewTopic> {
    let number = |word: &str| {
        if word == "-" {
            -1
        } else {
            word.parse().unwrap()
        }
    };
    let mut topics = Vec::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let mut words = line.split_whitespace();
        let mut topic = NewTopic::of_defaults(words.next().unwrap().replace('∅', ""));
        topic.num_partitions = number(words.next().unwrap_or("-"));
        topic.replication_factor = number(words.next().unwrap_or("-")) as i16;
        for word in words {
            let (key, value) = word.split_once('=').unwrap();
            if let Ok(partition_index) = key.parse() {
                let brokers = value.split(',').filter(|id| !id.is_empty());
                let broker_ids = brokers.map(|id| id.parse().unwrap()).collect();
                topic.assignments.push(PartitionAssignment {
                    partition_index,
                    broker_ids,
                });
            } else {
                let value = (value != "null").then(|| value.to_owned());
                topic.configs.push((key.to_owned(), value));
            }
        }
        topics.push(topic);
    }
    topics
}

fn render(cluster: &TestCluster, results: &[TopicResult<CreatedTopic>]) -> String {
    let mut out = String::new();
    for TopicResult { name, result } in results {
        match result {
            Err(error) => {
                let words = error.message.as_deref().unwrap_or("null");
                out += &format!("{name}: {} {words}\n", error.code.code());
            }
            Ok(created) => {
                out += &format!(
                    "{name}: {} partitions, {} replicas\n",
                    created.num_partitions, created.replication_factor
                );
                let Some(topic) = cluster.image.topics.by_name(name) else {
                    continue;
                };
                assert_eq!(topic.id, created.topic_id);
                assert_eq!(topic.partition_count(), created.num_partitions as usize);
                for (id, partition) in topic.partitions.iter() {
                    assert_eq!(
                        partition.replicas.len(),
                        created.replication_factor as usize
                    );
                    let replicas = &partition.replicas;
                    let (isr, leader) = (&partition.isr, partition.leader);
                    out += &format!("  {id}: {replicas:?} isr {isr:?} leader {leader}\n");
                }
                if let Some(config) = cluster.image.configs.of_topic(name) {
                    out += &format!("  {config:?}\n");
                }
            }
        }
    }
    out
}

fn check_on(cluster: &mut TestCluster, script: &str, expect: &Expect) {
    let topics = parse(script);
    let results = cluster
        .apply(|image, context, random| create_topics(image, context, &topics, false, random));
    expect.assert_eq(&render(cluster, &results));
}

#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
fn check(script: &str, expect: Expect) {
    check_on(
        &mut TestCluster::new(&[]).with_brokers(&[1, 2, 3]),
        script,
        &expect,
    );
}

#[test]
fn a_topic_gets_its_partitions_and_configuration() {
    check(
        "a 2 3 retention.ms=5 cleanup.policy=compact",
        expect![[r#"
            a: 2 partitions, 3 replicas
              0: [2, 3, 1] isr [2, 3, 1] leader 2
              1: [3, 1, 2] isr [3, 1, 2] leader 3
              {"cleanup.policy": "compact", "retention.ms": "5"}
        "#]],
    );
}
