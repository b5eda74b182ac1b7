use super::*;
use crate::test_cluster::{TestCluster, wrapped};
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
    expect.assert_eq(&wrapped(&render(cluster, &results)));
}

#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
fn check(script: &str, expect: Expect) {
    check_on(
        &mut TestCluster::new(&[]).with_brokers(&[BrokerId(1), BrokerId(2), BrokerId(3)]),
        script,
        &expect,
    );
}

#[test]
fn a_topic_gets_its_partitions_and_configuration() {
    check(
        "a 2 3 retention.ms=5 cleanup.policy=compact
         b
         c 0
         d - - 0=3,1 1=1,2",
        expect![[r#"
            a: 2 partitions, 3 replicas
              0: [2, 3, 1] isr [2, 3, 1] leader 2
              1: [3, 1, 2] isr [3, 1, 2] leader 3
              {"cleanup.policy": "compact", "retention.ms": "5"}
            b: 1 partitions, 1 replicas
              0: [3] isr [3] leader 3
            c: 37 Number of partitions was set to an invalid non-positive value.
            d: 2 partitions, 2 replicas
              0: [3, 1] isr [3, 1] leader 3
              1: [1, 2] isr [1, 2] leader 1
        "#]],
    );
}

#[test]
fn names_are_checked() {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1)]);
    check_on(
        &mut cluster,
        "a.b\nx_y",
        &expect![[r#"
        a.b: 1 partitions, 1 replicas
          0: [1] isr [1] leader 1
        x_y: 1 partitions, 1 replicas
          0: [1] isr [1] leader 1
    "#]],
    );
    check_on(
        &mut cluster,
        "a.b
         a_b
         x.y
         x:.y
         ∅
         .
         b/c
         two 1
         two 2
         __cluster_metadata 1 1
         other.one
         other_one",
        &expect![[r#"
            a.b: 36 Topic 'a.b' already exists.
            a_b: 17 Topic 'a_b' collides with existing topic: a.b
            x.y: 17 Topic 'x.y' collides with existing topic: x_y
            x:.y: 17 Topic name is invalid: 'x:.y' contains one or more characters other than ASCII
                alphanumerics, '.', '_' and '-'
            : 17 Topic name is invalid: the empty string is not allowed
            .: 17 Topic name is invalid: '.' is not allowed
            b/c: 17 Topic name is invalid: 'b/c' contains one or more characters other than ASCII
                alphanumerics, '.', '_' and '-'
            other.one: 1 partitions, 1 replicas
              0: [1] isr [1] leader 1
            other_one: 1 partitions, 1 replicas
              0: [1] isr [1] leader 1
            __cluster_metadata: 42 Creation of internal topic __cluster_metadata is prohibited.
            two: 42 Duplicate topic name.
        "#]],
    );
}

#[test]
fn counts_are_checked() {
    check(
        "a 0 1
         b -2 1
         c 1 0
         d 1 -2
         e 1 4
         f 1 32767",
        expect![[r#"
            a: 37 Number of partitions was set to an invalid non-positive value.
            b: 37 Number of partitions was set to an invalid non-positive value.
            c: 38 Replication factor must be larger than 0, or -1 to use the default value.
            d: 38 Replication factor must be larger than 0, or -1 to use the default value.
            e: 38 Unable to replicate the partition 4 time(s): The target replication factor of 4
                cannot be reached because only 3 broker(s) are registered or some brokers have all
                their log directories cordoned.
            f: 38 Unable to replicate the partition 32767 time(s): The target replication factor of
                32767 cannot be reached because only 3 broker(s) are registered or some brokers have
                all their log directories cordoned.
        "#]],
    );
}

#[test]
fn assignments_are_checked() {
    check(
        "a 1 - 0=1
         b - 1 0=1
         c - - 0=
         d - - 0=1,1
         e - - 0=1 1=1,2
         f - - 0=7
         g - - 0=1 0=2
         h - - 1=1
         i - - 0=1 2=1
         j - - 0=1 -1=1",
        expect![[r#"
            a: 42 A manual partition assignment was specified, but numPartitions was not set to -1.
            b: 42 A manual partition assignment was specified, but replication factor was not set to
                -1.
            c: 39 The manual partition assignment includes an empty replica list.
            d: 39 The manual partition assignment includes the broker 1 more than once.
            e: 39 The manual partition assignment includes a partition with 2 replica(s), but this is
                not consistent with previous partitions, which have 1 replica(s).
            f: 39 The manual partition assignment includes broker 7, but no such broker is registered.
            g: 39 Found multiple manual partition assignments for partition 0
            h: 39 partitions should be a consecutive 0-based integer sequence
            i: 39 partitions should be a consecutive 0-based integer sequence
            j: 39 partitions should be a consecutive 0-based integer sequence
        "#]],
    );
}

#[test]
fn configurations_are_checked() {
    check(
        "a 1 1 segment.ms=null retention.ms=null
         b 1 1 segment.msec=1
         c 1 1 segment.ms=x
         d 1 1 segment.ms=0
         e 1 1 cleanup.policy=compact,delete min.insync.replicas=2",
        expect![[r#"
            a: 40 Null value not supported for topic configs: segment.ms,retention.ms
            b: 40 Unknown topic config name: segment.msec
            c: 40 Invalid value x for configuration segment.ms: Not a number of type LONG
            d: 40 Invalid value 0 for configuration segment.ms: Value must be at least 1
            e: 1 partitions, 1 replicas
              0: [2] isr [2] leader 2
              {"cleanup.policy": "compact,delete", "min.insync.replicas": "2"}
        "#]],
    );
    let topic = NewTopic {
        configs: vec![(
            "follower.replication.throttled.replicas".to_owned(),
            Some(vec!["0:1"; 10_000].join(",")),
        )],
        ..NewTopic::of_defaults("big")
    };
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1)]);
    let results = cluster
        .apply(|image, context, random| create_topics(image, context, &[topic], false, random));
    expect![[r#"
        big: 40 The configuration value cannot be added because it exceeds the maximum value size
            of 32767 bytes.
    "#]]
    .assert_eq(&wrapped(&render(&cluster, &results)));
}

#[test]
fn only_active_brokers_are_in_sync() {
    let mut cluster = TestCluster::new(&[("num.partitions", "2")]).with_brokers(&[
        BrokerId(1),
        BrokerId(2),
        BrokerId(3),
    ]);
    cluster.change_broker(BrokerId(2), |broker| broker.is_fenced = true);
    check_on(
        &mut cluster,
        "a - 3\nb 1 - 0=2\nc - - 0=2,1\nd - - 0=2",
        &expect![[r#"
            a: 2 partitions, 3 replicas
              0: [3, 1, 2] isr [3, 1] leader 3
              1: [1, 3, 2] isr [1, 3] leader 1
            b: 42 A manual partition assignment was specified, but numPartitions was not set to -1.
            c: 1 partitions, 2 replicas
              0: [2, 1] isr [1] leader 1
            d: 39 All brokers specified in the manual partition assignment for partition 0 are fenced
                or in controlled shutdown.
        "#]],
    );
    cluster.change_broker(BrokerId(1), |broker| {
        broker.is_in_controlled_shutdown = true
    });
    check_on(
        &mut cluster,
        "e 1 3\nf 1 2",
        &expect![[r#"
            e: 38 Unable to replicate the partition 3 time(s): The target replication factor of 3
                cannot be reached because only 2 broker(s) are registered or some brokers have all
                their log directories cordoned.
            f: 1 partitions, 2 replicas
              0: [3, 2] isr [3] leader 3
        "#]],
    );
    cluster.change_broker(BrokerId(3), |broker| broker.is_fenced = true);
    check_on(
        &mut cluster,
        "g 1 1",
        &expect![[r#"
            g: 38 Unable to replicate the partition 1 time(s): All brokers are currently fenced, or
                have all their log directories cordoned.
        "#]],
    );
    cluster.change_broker(BrokerId(3), |broker| {
        broker.is_fenced = false;
        broker.cordoned_directories = Some(broker.directories.clone());
    });
    check_on(
        &mut cluster,
        "h 1 1\ni 1 2",
        &expect![[r#"
            h: 38 Unable to replicate the partition 1 time(s): All brokers are currently fenced, or
                have all their log directories cordoned.
            i: 38 Unable to replicate the partition 2 time(s): All brokers are currently fenced, or
                have all their log directories cordoned.
        "#]],
    );
}

#[test]
fn no_brokers_no_topics() {
    let mut cluster = TestCluster::new(&[]);
    check_on(
        &mut cluster,
        "a 1 1\nb - - 0=1",
        &expect![[r#"
            a: 38 Unable to replicate the partition 1 time(s): All brokers are currently fenced, or
                have all their log directories cordoned.
            b: 39 The manual partition assignment includes broker 1, but no such broker is registered.
        "#]],
    );
}

#[test]
fn a_request_creates_ten_thousand_partitions_and_no_more() {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1)]);
    let mut count = |script: &str| {
        let topics = parse(script);
        let results = cluster
            .apply(|image, context, random| create_topics(image, context, &topics, true, random));
        results.iter().filter(|topic| topic.result.is_ok()).count()
    };
    assert_eq!(count("a 9998 1\nb - 1\nc - - 0=1"), 3);
    assert_eq!(count("a 9998 1\nb - 1\nc - - 0=1 1=1"), 0);
    assert_eq!(count("a 2147483647 1\nb 2147483647 1"), 0);
}

#[test]
fn validation_alone_changes_nothing() {
    let cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1)]);
    let topics = parse("a 2 1 retention.ms=7");
    let mut drawn = 0;
    let decision = create_topics(
        &cluster.image,
        &cluster.context(),
        &topics,
        true,
        &mut crate::test_cluster::counting_random(&mut drawn),
    );
    assert_eq!(decision.records, []);
    let created = decision.response[0].result.as_ref().unwrap();
    assert_eq!((created.num_partitions, created.replication_factor), (2, 1));
}

#[test]
fn the_answer_tells_where_values_come_from() {
    let mut cluster =
        TestCluster::new(&[("log.retention.hours", "2")]).with_brokers(&[BrokerId(1)]);
    cluster.replay(&[MetadataRecord::Config {
        resource: ConfigResource::all_brokers(),
        name: "min.insync.replicas".to_owned(),
        value: Some("1".to_owned()),
    }]);
    let topics = parse("a 1 1 retention.bytes=7");
    let results = cluster
        .apply(|image, context, random| create_topics(image, context, &topics, false, random));
    let shown: Vec<_> = results[0]
        .result
        .as_ref()
        .unwrap()
        .configs
        .iter()
        .filter(|entry| entry.source != config::describe::ConfigSource::Default)
        .map(|entry| format!("{}={:?} {:?}", entry.name, entry.value, entry.source))
        .collect();
    expect![[r#"
        min.insync.replicas=Some("1") DynamicDefaultBroker
        retention.bytes=Some("7") Topic
        retention.ms=Some("7200000") StaticBroker
    "#]]
    .assert_eq(&wrapped(&shown.join("\n")));
}

#[test]
fn min_insync_replicas_of_a_new_topic_start_eligible_replicas_over() {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1)]);
    cluster.enable_eligible_leader_replicas();
    let topics = parse("a 1 1 min.insync.replicas=1");
    let mut drawn = 0;
    let decision = create_topics(
        &cluster.image,
        &cluster.context(),
        &topics,
        false,
        &mut crate::test_cluster::counting_random(&mut drawn),
    );
    let kinds: Vec<_> = decision
        .records
        .iter()
        .map(|record| match record {
            MetadataRecord::Topic { .. } => "topic",
            MetadataRecord::Config { .. } => "config",
            MetadataRecord::ClearElr { .. } => "clear elr",
            MetadataRecord::Partition { .. } => "partition",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["topic", "config", "clear elr", "partition"]);
    cluster.replay(&decision.records);
}

/// Each partition starts one rack later. Once every broker had its turn the order is another one, so that what they
/// lead together differs.
#[test]
fn leaders_take_turns_by_rack_in_an_order_that_is_drawn_anew() {
    let ids = [1, 2, 3, 4].map(BrokerId);
    let mut cluster = TestCluster::new(&[]).with_brokers(&ids);
    let rack_of = |id: BrokerId| (if id.0 < 3 { "a" } else { "b" }).to_owned();
    for id in ids {
        cluster.change_broker(id, |broker| broker.rack = Some(rack_of(id)));
    }
    let topic = NewTopic {
        num_partitions: 24,
        replication_factor: 2,
        ..NewTopic::of_defaults("t")
    };
    let results = cluster
        .apply(|image, context, random| create_topics(image, context, &[topic], false, random));
    assert!(results[0].result.is_ok(), "{results:?}");
    let partitions = cluster
        .image
        .topics
        .by_name("t")
        .unwrap()
        .partitions
        .values();
    let replicas: Vec<_> = partitions.map(|one| one.replicas.clone()).collect();
    let mut stripes: Vec<_> = replicas.chunks(4).collect();
    for stripe in &stripes {
        let mut racks: Vec<_> = stripe.iter().map(|replicas| rack_of(replicas[0])).collect();
        assert_ne!(racks[0], racks[1], "{stripe:?}");
        racks.sort();
        assert_eq!(racks, ["a", "a", "b", "b"], "{stripe:?}");
    }
    stripes.dedup();
    assert!(stripes.len() > 1, "{replicas:?}");
}

/// Its shutdown is over: it may come back as any that is fenced.
#[test]
fn a_broker_that_was_fenced_in_its_shutdown_gets_replicas() {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1), BrokerId(2)]);
    let create = |cluster: &mut TestCluster, name: &str| {
        let topic = NewTopic {
            replication_factor: 2,
            ..NewTopic::of_defaults(name)
        };
        let results = cluster
            .apply(|image, context, random| create_topics(image, context, &[topic], false, random));
        results[0].result.is_ok()
    };
    cluster.change_broker(BrokerId(2), |broker| {
        broker.is_in_controlled_shutdown = true
    });
    assert!(!create(&mut cluster, "t"));
    cluster.change_broker(BrokerId(2), |broker| broker.is_fenced = true);
    assert!(create(&mut cluster, "t"));
}
