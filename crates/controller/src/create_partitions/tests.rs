use super::*;
use crate::create_topics::{NewTopic, create_topics};
use crate::test_cluster::{TestCluster, wrapped};
use expect_test::{Expect, expect};

/// A cluster of three brokers and the topic `a` with two partitions of two replicas.
fn cluster() -> TestCluster {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1), BrokerId(2), BrokerId(3)]);
    let topic = NewTopic {
        num_partitions: 2,
        replication_factor: 2,
        ..NewTopic::of_defaults("a")
    };
    let created = cluster
        .apply(|image, context, random| create_topics(image, context, &[topic], false, random));
    assert!(created.iter().all(|topic| topic.result.is_ok()));
    cluster
}

/// `name count [b,b/b,b...]`, one topic a line; `∅` for a list without elements.
fn parse(script: &str) -> Vec<GrowingTopic> {
    let ids = |text: &str| {
        let ids = text.split(',').filter(|id| *id != "∅");
        ids.map(|id| id.parse().unwrap()).collect()
    };
    let lines = script.lines().map(str::split_whitespace);
    lines
        .map(|mut words| GrowingTopic {
            name: words.next().unwrap().to_owned(),
            count: words.next().unwrap().parse().unwrap(),
            assignments: words.next().map(|text| text.split('/').map(ids).collect()),
        })
        .collect()
}

fn results_of(cluster: &mut TestCluster, script: &str) -> String {
    let topics = parse(script);
    let results =
        cluster.apply(|image, _, random| create_partitions(image, &topics, false, random));
    let shown = results
        .iter()
        .map(|TopicResult { name, result }| match result {
            Ok(()) => format!("{name}: ok\n"),
            Err(error) => {
                let words = error.message.as_deref().unwrap_or("null");
                format!("{name}: {} {words}\n", error.code.code())
            }
        });
    shown.collect()
}

/// The results, and the new partitions.
fn check_on(cluster: &mut TestCluster, script: &str, expect: &Expect) {
    let mut shown = results_of(cluster, script);
    for (id, partition) in cluster
        .image
        .topics
        .by_name("a")
        .unwrap()
        .partitions
        .iter()
        .skip(2)
    {
        let (replicas, isr) = (&partition.replicas, &partition.isr);
        shown += &format!("  {id} {replicas:?} isr {isr:?}\n");
    }
    expect.assert_eq(&wrapped(&shown));
}

/// Scripts that are refused, each over the same cluster.
#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
fn check_refused(scripts: &[&str], expect: Expect) {
    let mut shown = String::new();
    for script in scripts {
        let mut cluster = cluster();
        let before = cluster.image.topics.clone();
        shown += &results_of(&mut cluster, script);
        assert_eq!(cluster.image.topics, before);
    }
    expect.assert_eq(&wrapped(&shown));
}

#[test]
fn a_topic_grows_with_as_many_replicas() {
    check_on(
        &mut cluster(),
        "a 4",
        &expect![[r#"
        a: ok
          2 [3, 1] isr [3, 1]
          3 [1, 2] isr [1, 2]
    "#]],
    );
    check_on(
        &mut cluster(),
        "a 4 3,1/1,2",
        &expect![[r#"
        a: ok
          2 [3, 1] isr [3, 1]
          3 [1, 2] isr [1, 2]
    "#]],
    );
}

#[test]
fn counts_are_checked() {
    check_refused(
        &[
            "a 2",
            "a 1",
            "a 0",
            "a -1",
            "b 3",
            "a 3\na 4",
            "a 10003",
            "a 2147483647",
        ],
        expect![[r#"
            a: 37 Topic already has 2 partition(s).
            a: 37 The topic a currently has 2 partition(s); 1 would not be an increase.
            a: 37 The topic a currently has 2 partition(s); 0 would not be an increase.
            a: 37 The topic a currently has 2 partition(s); -1 would not be an increase.
            b: 3 null
            a: 42 Duplicate topic name.
            a: 44 Excessively large number of partitions per request.
            a: 44 Excessively large number of partitions per request.
        "#]],
    );
}

#[test]
fn assignments_are_checked() {
    check_refused(
        &[
            "a 4 1,2",
            "a 3 ∅",
            "a 3 1,1",
            "a 3 1,9",
            "a 3 1",
            "a 4 1,2/1,2,3",
        ],
        expect![[r#"
            a: 39 Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.
            a: 39 The manual partition assignment includes an empty replica list.
            a: 39 The manual partition assignment includes the broker 1 more than once.
            a: 39 The manual partition assignment includes broker 9, but no such broker is registered.
            a: 39 The manual partition assignment includes a partition with 1 replica(s), but this is
                not consistent with previous partitions, which have 2 replica(s).
            a: 39 The manual partition assignment includes a partition with 3 replica(s), but this is
                not consistent with previous partitions, which have 2 replica(s).
        "#]],
    );
}

#[test]
fn new_partitions_are_led_by_active_brokers() {
    let mut cluster = cluster();
    cluster.change_broker(BrokerId(2), |broker| broker.is_fenced = true);
    check_on(
        &mut cluster,
        "a 3 2,1",
        &expect![[r#"
            a: ok
              2 [2, 1] isr [1]
        "#]],
    );
    check_on(
        &mut cluster,
        "a 4 2,2",
        &expect![[r#"
            a: 39 The manual partition assignment includes the broker 2 more than once.
              2 [2, 1] isr [1]
        "#]],
    );
    cluster.change_broker(BrokerId(1), |broker| broker.is_fenced = true);
    check_on(
        &mut cluster,
        "a 4 2,1",
        &expect![[r#"
            a: 39 All brokers specified in the manual partition assignment for partition 3 are fenced
                or in controlled shutdown.
              2 [2, 1] isr [1]
        "#]],
    );
    cluster.change_broker(BrokerId(3), |broker| broker.is_fenced = true);
    check_on(
        &mut cluster,
        "a 5",
        &expect![[r#"
            a: 38 All brokers are currently fenced, or have all their log directories cordoned.
              2 [2, 1] isr [1]
        "#]],
    );
}

#[test]
fn validation_alone_changes_nothing() {
    let cluster = cluster();
    let mut drawn = 0;
    let mut random = crate::test_cluster::counting_random(&mut drawn);
    let decision = create_partitions(&cluster.image, &parse("a 3"), true, &mut random);
    assert_eq!(decision.records, []);
    assert_eq!(decision.response[0].result, Ok(()));
}

#[test]
fn a_partition_whose_directory_could_have_no_name_is_refused() {
    let mut cluster = cluster();
    let name = "n".repeat(249);
    let topic = NewTopic {
        num_partitions: 1,
        replication_factor: 1,
        ..NewTopic::of_defaults(&name)
    };
    cluster.apply(|image, context, random| create_topics(image, context, &[topic], false, random));
    let mut grow = |count: i32| results_of(&mut cluster, &format!("{name} {count}"));
    // In steps: a request adds a limited number.
    for count in (10_000..=100_000).step_by(10_000) {
        assert_eq!(grow(count), format!("{name}: ok\n"));
    }
    let refused = grow(100_001);
    let words = "37 A topic with a name of 249 characters cannot have 100001 partitions: the name of \
                 the directory of partition 100000 would be longer than 255 characters.";
    assert_eq!(refused, format!("{name}: {words}\n"));
}
