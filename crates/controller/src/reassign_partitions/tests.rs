use super::*;
use crate::create_topics::{NewTopic, PartitionAssignment, create_topics};
use crate::test_cluster::{TestCluster, directory, wrapped};
use expect_test::{Expect, expect};
use metadata::{ConfigResource, NO_LEADER, PartitionChange};
use model::LeaderEpoch;

/// A topic `t` of one partition, on a cluster of the brokers 1 to 6.
fn cluster(replicas: &str) -> TestCluster {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[
        BrokerId(1),
        BrokerId(2),
        BrokerId(3),
        BrokerId(4),
        BrokerId(5),
        BrokerId(6),
    ]);
    let topic = NewTopic {
        assignments: vec![PartitionAssignment {
            partition_index: 0,
            broker_ids: ids(replicas),
        }],
        ..NewTopic::of_defaults("t")
    };
    let created = cluster
        .apply(|image, context, random| create_topics(image, context, &[topic], false, random));
    assert!(created[0].result.is_ok(), "{created:?}");
    cluster
}

fn ids(text: &str) -> Vec<BrokerId> {
    let ids = text.split(',').filter(|id| *id != "∅");
    ids.map(|id| id.parse().unwrap()).collect()
}

/// Runs a script over `t-0` with these replicas, one step a line:
///
/// - `move REPLICAS`, `move-as-many REPLICAS`, `back`: the request;
/// - `isr REPLICAS`: what the leader has asked for;
/// - `fence BROKER`, `unclean`: the cluster around it.
#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
fn check(replicas: &str, script: &str, expect: Expect) {
    let mut cluster = cluster(replicas);
    let mut shown = String::new();
    for line in script.lines().map(str::trim) {
        let answer = step(&mut cluster, line);
        let partition = cluster.image.topics.partition("t", 0).unwrap();
        shown += &format!("{line}{answer}\n  {}\n", render(partition));
        let ongoing = list_reassignments(&cluster.image, None);
        assert_eq!(!ongoing.is_empty(), partition.is_reassigning());
    }
    expect.assert_eq(&wrapped(&shown));
}

fn step(cluster: &mut TestCluster, line: &str) -> String {
    let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
    match verb {
        "isr" => {
            let partition = cluster.image.topics.partition("t", 0).unwrap().clone();
            let at = (cluster.image.topics.id_of("t").unwrap(), 0);
            let can_lead = |_| true;
            let image = cluster.image.clone();
            let mut update = PartitionUpdate::new(&image, at, &partition, 1, &can_lead);
            update.isr = ids(rest);
            let change = update.build().unwrap();
            cluster.replay(&[MetadataRecord::PartitionChange(change)]);
        }
        "fence" => cluster.change_broker(rest.parse().unwrap(), |broker| broker.is_fenced = true),
        "unclean" => cluster.replay(&[MetadataRecord::Config {
            resource: ConfigResource::topic("t"),
            name: "unclean.leader.election.enable".to_owned(),
            value: Some("true".to_owned()),
        }]),
        _ => {
            let replicas = (verb != "back").then(|| ids(rest));
            return request(cluster, "t", 0, replicas, verb != "move-as-many");
        }
    }
    String::new()
}

fn request(
    cluster: &mut TestCluster,
    topic: &str,
    id: i32,
    replicas: Option<Vec<BrokerId>>,
    allows_other_counts: bool,
) -> String {
    let wanted = [TopicReassignment {
        topic: topic.to_owned(),
        partitions: vec![(id, replicas)],
    }];
    let results = cluster.apply(|image, context, _| {
        reassign_partitions(image, context, &wanted, allows_other_counts)
    });
    match &results[0].partitions[0].1 {
        Ok(()) => String::new(),
        Err(error) => format!(" -> {error}"),
    }
}

fn render(partition: &Partition) -> String {
    format!(
        "{:?} adding {:?} removing {:?} isr {:?} leader {} epoch {}",
        partition.replicas,
        partition.adding_replicas,
        partition.removing_replicas,
        partition.isr,
        partition.leader,
        partition.leader_epoch
    )
}

#[test]
fn replicas_move_once_the_new_ones_are_in_sync() {
    check(
        "1,2",
        "move 3,2
         isr 1,2,3",
        expect![[r#"
            move 3,2
              [3, 2, 1] adding [3] removing [1] isr [1, 2] leader 1 epoch 0
            isr 1,2,3
              [3, 2] adding [] removing [] isr [2, 3] leader 3 epoch 1
        "#]],
    );
}

#[test]
fn what_needs_no_new_replica_is_done_at_once() {
    check(
        "1,2",
        "move 1,2\nmove 2,1\nmove 2",
        expect![[r#"
        move 1,2
          [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 0
        move 2,1
          [2, 1] adding [] removing [] isr [1, 2] leader 1 epoch 0
        move 2
          [2] adding [] removing [] isr [2] leader 2 epoch 1
    "#]],
    );
}

#[test]
fn fewer_replicas_wait_until_all_that_remain_are_in_sync() {
    check(
        "1,2,3",
        "isr 1,2
         move 2,3
         isr 1,2,3",
        expect![[r#"
            isr 1,2
              [1, 2, 3] adding [] removing [] isr [1, 2] leader 1 epoch 0
            move 2,3
              [2, 3, 1] adding [] removing [1] isr [1, 2] leader 1 epoch 0
            isr 1,2,3
              [2, 3] adding [] removing [] isr [2, 3] leader 2 epoch 1
        "#]],
    );
}

#[test]
fn as_many_replicas_do_not_wait_for_those_that_remain() {
    check(
        "1,2,3",
        "isr 1,2
         move 4,2,3
         isr 1,2,4",
        expect![[r#"
            isr 1,2
              [1, 2, 3] adding [] removing [] isr [1, 2] leader 1 epoch 0
            move 4,2,3
              [4, 2, 3, 1] adding [4] removing [1] isr [1, 2] leader 1 epoch 0
            isr 1,2,4
              [4, 2, 3] adding [] removing [] isr [2, 4] leader 4 epoch 1
        "#]],
    );
}

/// One that had lost its leader before the cluster began to remember leaders.
#[test]
fn no_leader_is_remembered_of_a_partition_without_one() {
    let mut cluster = cluster("1,2");
    cluster.enable_eligible_leader_replicas();
    let at = (cluster.image.topics.id_of("t").unwrap(), 0);
    cluster.replay(&[MetadataRecord::PartitionChange(PartitionChange {
        leader: Some(NO_LEADER),
        ..PartitionChange::of(at.0, at.1)
    })]);
    for id in [1, 2] {
        cluster.change_broker(BrokerId(id), |broker| broker.is_fenced = true);
    }
    for wanted in ["3,1", "1,2"] {
        assert_eq!(request(&mut cluster, "t", 0, Some(ids(wanted)), true), "");
    }
    let partition = cluster.image.topics.partition("t", 0).unwrap();
    assert_eq!(
        (partition.leader, partition.leader_epoch),
        (NO_LEADER, LeaderEpoch(2))
    );
    assert!(partition.last_known_eligible_leader_replicas.is_empty());
}

#[test]
fn a_reassignment_is_taken_back() {
    check(
        "1,2",
        "back
         move 3,4
         isr 1,2,3
         back
         back",
        expect![[r#"
            back -> NO_REASSIGNMENT_IN_PROGRESS: No partition reassignment is in progress.
              [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 0
            move 3,4
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [1, 2] leader 1 epoch 0
            isr 1,2,3
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [1, 2, 3] leader 1 epoch 0
            back
              [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 1
            back -> NO_REASSIGNMENT_IN_PROGRESS: No partition reassignment is in progress.
              [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 1
        "#]],
    );
}

#[test]
fn taking_back_without_an_old_replica_in_sync_is_unclean() {
    check(
        "1,2",
        "move 3,4
         isr 3
         back
         unclean
         back",
        expect![[r#"
            move 3,4
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [1, 2] leader 1 epoch 0
            isr 3
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [3] leader 3 epoch 1
            back -> INVALID_REPLICA_ASSIGNMENT: Unable to revert partition assignment for t:0 because
                it would require an unclean leader election.
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [3] leader 3 epoch 1
            unclean
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [3] leader 3 epoch 1
            back
              [1, 2] adding [] removing [] isr [1] leader 1 epoch 2
        "#]],
    );
}

#[test]
fn a_reassignment_takes_the_place_of_another() {
    check(
        "1,2",
        "move 3,4
         move 3,5
         move 1,2
         move 1,2,3
         move 1,2,3,4
         isr 1,2,4
         move 1,2
         move 6,5
         isr 1,2,5,6",
        expect![[r#"
            move 3,4
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [1, 2] leader 1 epoch 0
            move 3,5
              [3, 5, 1, 2, 4] adding [3, 5] removing [1, 2, 4] isr [1, 2] leader 1 epoch 0
            move 1,2
              [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 1
            move 1,2,3
              [1, 2, 3] adding [3] removing [] isr [1, 2] leader 1 epoch 1
            move 1,2,3,4
              [1, 2, 3, 4] adding [3, 4] removing [] isr [1, 2] leader 1 epoch 1
            isr 1,2,4
              [1, 2, 3, 4] adding [3, 4] removing [] isr [1, 2, 4] leader 1 epoch 1
            move 1,2
              [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 2
            move 6,5
              [6, 5, 1, 2] adding [5, 6] removing [1, 2] isr [1, 2] leader 1 epoch 2
            isr 1,2,5,6
              [6, 5] adding [] removing [] isr [5, 6] leader 6 epoch 3
        "#]],
    );
}

#[test]
fn refused() {
    check(
        "1,2",
        "move ∅
         move 1,9
         move 1,1
         move-as-many 1,2,3
         move-as-many 3,4
         move-as-many 3
         move-as-many 5,6
         fence 4
         move 4",
        expect![[r#"
            move ∅ -> INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes an empty
                replica list.
              [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 0
            move 1,9 -> INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 9,
                but no such broker is registered.
              [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 0
            move 1,1 -> INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes the
                broker 1 more than once.
              [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 0
            move-as-many 1,2,3 -> INVALID_REPLICATION_FACTOR: The replication factor is changed from 2
                to 3
              [1, 2] adding [] removing [] isr [1, 2] leader 1 epoch 0
            move-as-many 3,4
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [1, 2] leader 1 epoch 0
            move-as-many 3 -> INVALID_REPLICATION_FACTOR: The replication factor is changed from 2 to
                1
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [1, 2] leader 1 epoch 0
            move-as-many 5,6
              [5, 6, 1, 2, 3, 4] adding [5, 6] removing [1, 2, 3, 4] isr [1, 2] leader 1 epoch 0
            fence 4
              [5, 6, 1, 2, 3, 4] adding [5, 6] removing [1, 2, 3, 4] isr [1, 2] leader 1 epoch 0
            move 4
              [4, 1, 2, 3, 5, 6] adding [] removing [1, 2, 3, 5, 6] isr [1, 2] leader 1 epoch 0
        "#]],
    );
    let mut cluster = cluster("1");
    let answers = [
        request(&mut cluster, "u", 0, Some(vec![BrokerId(1)]), true),
        request(&mut cluster, "t", 1, None, true),
    ]
    .map(|answer| answer.trim_start().to_owned());
    expect![[r#"
         -> UNKNOWN_TOPIC_OR_PARTITION: Unable to find a topic named u.
         -> UNKNOWN_TOPIC_OR_PARTITION: Unable to find partition t:1."#]]
    .assert_eq(&answers.join("\n"));
}

#[test]
fn listing_keeps_the_order_asked_for_and_leaves_out_the_rest() {
    let mut cluster = cluster("1,2");
    assert_eq!(
        request(&mut cluster, "t", 0, Some(vec![BrokerId(3)]), true),
        ""
    );
    let listed = |topics: Option<&[(&str, Vec<i32>)]>| {
        let ongoing = list_reassignments(&cluster.image, topics);
        let shown = ongoing.iter().map(|one| {
            let ids: Vec<i32> = one.partitions.iter().map(|(id, _)| *id).collect();
            format!("{} {ids:?}", one.topic)
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(listed(None), ["t [0]"]);
    assert_eq!(
        listed(Some(&[("u", vec![0]), ("t", vec![1, 0])])),
        ["t [0]"]
    );
    assert!(listed(Some(&[("t", vec![1])])).is_empty());
}

/// Its log goes with its assignment: were it eligible when it comes back, it would lead with nothing.
#[test]
fn a_replica_that_leaves_the_assignment_is_no_eligible_leader() {
    let mut cluster = cluster("1,2");
    cluster.enable_eligible_leader_replicas();
    cluster.config.topics.min_insync_replicas = 2;
    let at = (cluster.image.topics.id_of("t").unwrap(), 0);
    cluster.replay(&[MetadataRecord::PartitionChange(PartitionChange {
        isr: Some(vec![BrokerId(1)]),
        eligible_leader_replicas: Some(vec![BrokerId(2)]),
        ..PartitionChange::of(at.0, at.1)
    })]);
    assert_eq!(request(&mut cluster, "t", 0, Some(ids("1")), true), "");
    assert_eq!(request(&mut cluster, "t", 0, Some(ids("1,2")), true), "");
    let partition = cluster.image.topics.partition("t", 0).unwrap();
    assert_eq!(partition.isr, [BrokerId(1)]);
    assert_eq!(partition.eligible_leader_replicas, []);
}

/// The replica that would be called in sync may not be able to lead.
#[test]
fn taking_back_finds_any_replica_that_can_lead_where_that_is_allowed() {
    check(
        "1,2",
        "move 3,4
         isr 3
         fence 1
         unclean
         back",
        expect![[r#"
            move 3,4
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [1, 2] leader 1 epoch 0
            isr 3
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [3] leader 3 epoch 1
            fence 1
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [3] leader 3 epoch 1
            unclean
              [3, 4, 1, 2] adding [3, 4] removing [1, 2] isr [3] leader 3 epoch 1
            back
              [1, 2] adding [] removing [] isr [2] leader 2 epoch 2
        "#]],
    );
}

/// Their brokers have one directory each.
#[test]
fn new_replicas_are_in_the_directory_that_their_broker_has() {
    let mut cluster = cluster("1,2");
    assert_eq!(request(&mut cluster, "t", 0, Some(ids("3,2")), true), "");
    let partition = cluster.image.topics.partition("t", 0).unwrap();
    let directories = partition.replicas.iter().map(|id| directory(*id));
    assert_eq!(partition.directories, directories.collect::<Vec<_>>());
}

/// What a request makes of `t-0`, which it names so often.
#[test]
fn the_last_word_that_changes_something_counts() {
    let check = |words: &[&str], expect: &str| {
        let mut cluster = cluster("1,2");
        let words = words.iter().map(|word| match *word {
            "back" => (0, None),
            replicas => (0, Some(ids(replicas))),
        });
        let wanted = [TopicReassignment {
            topic: "t".to_owned(),
            partitions: words.collect(),
        }];
        let results =
            cluster.apply(|image, context, _| reassign_partitions(image, context, &wanted, true));
        let errors = results[0].partitions.iter().filter(|one| one.1.is_err());
        let partition = cluster.image.topics.partition("t", 0).unwrap();
        let Partition {
            replicas,
            adding_replicas,
            removing_replicas,
            ..
        } = partition.as_ref();
        let shown = format!(
            "{replicas:?} adding {adding_replicas:?} removing {removing_replicas:?}, {} refused",
            errors.count()
        );
        assert_eq!(shown, expect);
    };
    check(
        &["3,2", "1,2"],
        "[3, 2, 1] adding [3] removing [1], 0 refused",
    );
    check(&["3,2", "2,1"], "[2, 1] adding [] removing [], 0 refused");
    check(
        &["3,2", "4,2"],
        "[4, 2, 1] adding [4] removing [1], 0 refused",
    );
    check(
        &["2,1", "3,2", "1,2", "9", "back"],
        "[3, 2, 1] adding [3] removing [1], 2 refused",
    );
    check(&["1,2", "1,2"], "[1, 2] adding [] removing [], 0 refused");
}
