use super::*;
use crate::create_topics::{NewTopic, PartitionAssignment, create_topics};
use crate::directories::{DirectoryAssignment, assign_replicas_to_directories, change_directories};
use crate::elect_leaders::{
    ElectionType, TopicElection, balance_leaders, elect_leaders, elect_unclean_leaders,
};
use crate::test_cluster::{TestCluster, directory, wrapped};
use expect_test::{Expect, expect};
use metadata::{ConfigResource, LeaderRecoveryState, PartitionChange};

/// Runs a script, one step a line, and shows what each step answers and changes.
#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
fn check(script: &str, expect: Expect) {
    let mut cluster = TestCluster::new(&[]);
    let mut shown = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let before = cluster.image.clone();
        shown += &format!("{line}{}\n", step(&mut cluster, line));
        shown += &changes(&before, &cluster.image);
    }
    expect.assert_eq(&wrapped(&shown));
}

fn step(cluster: &mut TestCluster, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |index: usize| words[index].parse::<i32>().unwrap();
    match words[0] {
        "elr" => cluster.enable_eligible_leader_replicas(),
        "metadata-version" => cluster.replay(&[MetadataRecord::FeatureLevel {
            name: MetadataVersion::FEATURE.to_owned(),
            level: words[1].parse().unwrap(),
        }]),
        "brokers" => {
            for id in &words[1..] {
                step(cluster, &format!("register {id}"));
                step(cluster, &format!("unfence {id}"));
            }
        }
        "topic" => create_topic(cluster, &words[1..]),
        "config" => {
            let (name, value) = words[2].split_once('=').unwrap();
            cluster.replay(&[MetadataRecord::Config {
                resource: ConfigResource::topic(words[1]),
                name: name.to_owned(),
                value: Some(value.to_owned()),
            }]);
        }
        "isr" => {
            let (topic, partition) = words[1].rsplit_once('-').unwrap();
            let topic_id = cluster.image.topics.id_of(topic).unwrap();
            let isr = words[2].split(',').map(|id| id.parse().unwrap());
            let mut change = PartitionChange::of(topic_id, partition.parse().unwrap());
            change.isr = Some(isr.collect());
            cluster.replay(&[MetadataRecord::PartitionChange(change)]);
        }
        "elect" | "balance" | "elect-unclean" => return election(cluster, &words),
        "offline" | "cordon" | "assign" => return directory_step(cluster, &words),
        _ => return broker_step(cluster, words[0], number(1), &words[2..]),
    }
    String::new()
}

/// The last registration of the broker, or epoch -1.
fn epoch_of(cluster: &TestCluster, id: BrokerId) -> i64 {
    cluster.image.cluster.broker(id).map_or(-1, |b| b.epoch)
}

fn broker_step(cluster: &mut TestCluster, verb: &str, id: BrokerId, options: &[&str]) -> String {
    let epoch = epoch_of(cluster, id);
    let next_offset = cluster.image.provenance.last_offset + 1;
    let has = |option: &str| options.contains(&option);
    let context = cluster.context();
    let image = &cluster.image;
    let decision = match verb {
        "register" => {
            let mut registration = registration(id);
            registration.previous_broker_epoch = if has("crashed") { -1 } else { epoch };
            registration.incarnation_id = match image.cluster.broker(id) {
                Some(broker) if has("again") => broker.incarnation_id,
                _ => Uuid::from_u128(next_offset.unsigned_abs().into()),
            };
            let state = RegistrationState {
                next_offset,
                has_live_session: has("live"),
                detects_clean_shutdown: !has("old"),
            };
            register_broker(image, &context, &registration, state).map(|decision| Decision {
                records: decision.records,
                is_atomic: decision.is_atomic,
                response: (),
            })
        }
        "unfence" => unfence_broker(image, &context, id, epoch),
        "fence" => fence_broker(image, &context, id, epoch),
        "shutdown" => begin_controlled_shutdown(image, &context, id, epoch),
        "unregister" => unregister_broker(image, &context, id),
        other => unreachable!("no step {other}"),
    };
    match decision {
        Err(error) => format!(" -> {error}"),
        Ok(decision) => {
            cluster.replay(&decision.records);
            String::new()
        }
    }
}

fn registration(broker_id: BrokerId) -> NewRegistration {
    NewRegistration {
        broker_id,
        incarnation_id: Uuid::ZERO,
        endpoints: Vec::new(),
        features: crate::SUPPORTED_FEATURES
            .iter()
            .map(|feature| (feature.name.to_owned(), feature.versions))
            .collect(),
        rack: None,
        directories: vec![directory(broker_id), directory(broker_id + 100)],
        previous_broker_epoch: -1,
        is_migrating_zk_broker: false,
    }
}

/// `name replicas replicas ...`, replicas in the first directory of their broker.
fn create_topic(cluster: &mut TestCluster, words: &[&str]) {
    let assignments = (0..).zip(&words[1..]).map(|(partition_index, replicas)| {
        let ids = replicas.split(',').map(|id| id.parse().unwrap());
        PartitionAssignment {
            partition_index,
            broker_ids: ids.collect(),
        }
    });
    let topic = NewTopic {
        assignments: assignments.collect(),
        ..NewTopic::of_defaults(words[0])
    };
    let results = cluster
        .apply(|image, context, random| create_topics(image, context, &[topic], false, random));
    assert!(results[0].result.is_ok(), "{results:?}");
}

fn election(cluster: &mut TestCluster, words: &[&str]) -> String {
    match words[0] {
        "balance" => {
            let count_max = words[1].parse().unwrap();
            let more =
                cluster.apply(|image, context, _| balance_leaders(image, context, count_max));
            return format!(" -> {more}");
        }
        "elect-unclean" => {
            let more = cluster.apply(|image, context, _| elect_unclean_leaders(image, context, 9));
            return format!(" -> {more}");
        }
        _ => {}
    }
    let election = match words[1] {
        "preferred" => ElectionType::Preferred,
        _ => ElectionType::Unclean,
    };
    let topics: Vec<_> = words[2..]
        .iter()
        .map(|word| {
            let (topic, partition) = word.rsplit_once('-').unwrap();
            TopicElection {
                topic: topic.to_owned(),
                partitions: vec![partition.parse().unwrap()],
            }
        })
        .collect();
    let topics = (!topics.is_empty()).then_some(&*topics);
    let results =
        cluster.apply(|image, context, _| elect_leaders(image, context, election, topics));
    let mut shown = String::new();
    for topic in results {
        for (id, result) in topic.partitions {
            shown += &match result {
                Ok(()) => format!("\n  {}-{id}: ok", topic.topic),
                Err(error) => format!("\n  {}-{id}: {error}", topic.topic),
            };
        }
    }
    shown
}

/// `offline|cordon broker directory`, `assign broker directory topic-partition`.
fn directory_step(cluster: &mut TestCluster, words: &[&str]) -> String {
    let id = words[1].parse().unwrap();
    let dir = match words[2] {
        "lost" => LOST_DIRECTORY,
        number => directory(number.parse().unwrap()),
    };
    let at = (id, epoch_of(cluster, id));
    let context = cluster.context();
    let image = &cluster.image;
    let records = match words[0] {
        "offline" => {
            change_directories(image, &context, at, &[dir], None)
                .unwrap()
                .records
        }
        "cordon" => {
            change_directories(image, &context, at, &[], Some(&[dir]))
                .unwrap()
                .records
        }
        _ => {
            let (topic, partition) = words[3].rsplit_once('-').unwrap();
            let assignment = DirectoryAssignment {
                directory: dir,
                topic_id: image.topics.id_of(topic).unwrap_or(Uuid::from_u128(7)),
                partition_id: partition.parse().unwrap(),
            };
            match assign_replicas_to_directories(image, &context, at, &[assignment]) {
                Err(error) => return format!(" -> {error}"),
                Ok(decision) => {
                    let result = decision.response[0];
                    cluster.replay(&decision.records);
                    return format!(" -> {}", result.name());
                }
            }
        }
    };
    cluster.replay(&records);
    String::new()
}

/// Brokers and partitions that differ.
fn changes(before: &MetadataImage, after: &MetadataImage) -> String {
    let mut out = String::new();
    for broker in after.cluster.brokers().values() {
        if before.cluster.broker(broker.id) != Some(broker) {
            out += &render_broker(broker);
        }
    }
    for topic in after.topics.iter() {
        for (id, partition) in topic.partitions.iter() {
            if before.topics.partition(&topic.name, *id) != Some(partition) {
                out += &format!("  {}-{id} {}\n", topic.name, render(partition));
            }
        }
    }
    out
}

fn render_broker(broker: &BrokerRegistration) -> String {
    let mut out = format!("  broker {} epoch {}", broker.id, broker.epoch);
    for (is_set, word) in [
        (broker.is_fenced, " fenced"),
        (broker.is_in_controlled_shutdown, " shutting down"),
    ] {
        out += if is_set { word } else { "" };
    }
    let name = |id: &Uuid| u128::from_be_bytes(id.to_bytes()) - 1000;
    let names = |ids: &[Uuid]| ids.iter().map(name).collect::<Vec<_>>();
    out += &format!(" directories {:?}", names(&broker.directories));
    if let Some(cordoned) = &broker.cordoned_directories {
        out += &format!(" cordoned {:?}", names(cordoned));
    }
    out + "\n"
}

fn render(partition: &Partition) -> String {
    let mut out = format!(
        "leader {} epoch {}.{} isr {:?}",
        partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr
    );
    for (ids, word) in [
        (&partition.eligible_leader_replicas, "elr"),
        (&partition.last_known_eligible_leader_replicas, "last known"),
    ] {
        if !ids.is_empty() {
            out += &format!(" {word} {ids:?}");
        }
    }
    if partition.leader_recovery_state == LeaderRecoveryState::Recovering {
        out += " recovering";
    }
    out
}

#[test]
fn a_single_node_restarts_cleanly() {
    check(
        "elr
         brokers 1
         topic t 1
         shutdown 1
         fence 1
         register 1
         unfence 1
         unfence 1",
        expect![[r#"
            elr
            brokers 1
              broker 1 epoch 2 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            shutdown 1
              broker 1 epoch 2 shutting down directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [] elr [1] last known [1]
            fence 1
              broker 1 epoch 2 fenced shutting down directories [1, 101]
            register 1
              broker 1 epoch 9 fenced directories [1, 101]
            unfence 1
              broker 1 epoch 9 directories [1, 101]
              t-0 leader 1 epoch 2.2 isr [1]
            unfence 1
        "#]],
    );
}

#[test]
fn a_single_node_restarts_after_a_crash() {
    check(
        "elr
         brokers 1
         topic t 1
         register 1 crashed
         unfence 1",
        expect![[r#"
            elr
            brokers 1
              broker 1 epoch 2 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            register 1 crashed
              broker 1 epoch 6 fenced directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [] last known [1]
            unfence 1
              broker 1 epoch 6 directories [1, 101]
              t-0 leader 1 epoch 2.2 isr [1] recovering
        "#]],
    );
}

#[test]
fn a_single_node_restarts_without_eligible_leader_replicas() {
    check(
        "brokers 1
         topic t 1
         register 1 crashed
         unfence 1",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            register 1 crashed
              broker 1 epoch 5 fenced directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [1]
            unfence 1
              broker 1 epoch 5 directories [1, 101]
              t-0 leader 1 epoch 2.2 isr [1]
        "#]],
    );
}

#[test]
fn leadership_moves_when_brokers_come_and_go() {
    check(
        "brokers 1 2 3
         topic t 1,2,3 2,3,1
         fence 1
         fence 2
         fence 3
         unfence 2
         unfence 3
         unfence 1",
        expect![[r#"
            brokers 1 2 3
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
              broker 3 epoch 5 directories [3, 103]
            topic t 1,2,3 2,3,1
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
              t-1 leader 2 epoch 0.0 isr [2, 3, 1]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2, 3]
              t-1 leader 2 epoch 0.1 isr [2, 3]
            fence 2
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 leader 3 epoch 2.2 isr [3]
              t-1 leader 3 epoch 1.2 isr [3]
            fence 3
              broker 3 epoch 5 fenced directories [3, 103]
              t-0 leader -1 epoch 3.3 isr [3]
              t-1 leader -1 epoch 2.3 isr [3]
            unfence 2
              broker 2 epoch 3 directories [2, 102]
            unfence 3
              broker 3 epoch 5 directories [3, 103]
              t-0 leader 3 epoch 4.4 isr [3]
              t-1 leader 3 epoch 3.4 isr [3]
            unfence 1
              broker 1 epoch 1 directories [1, 101]
        "#]],
    );
}

#[test]
fn replicas_that_leave_a_small_isr_stay_eligible() {
    check(
        "elr
         brokers 1 2 3
         topic t 1,2,3
         config t min.insync.replicas=2
         fence 3
         fence 2
         fence 1
         unfence 2
         unfence 1",
        expect![[r#"
            elr
            brokers 1 2 3
              broker 1 epoch 2 directories [1, 101]
              broker 2 epoch 4 directories [2, 102]
              broker 3 epoch 6 directories [3, 103]
            topic t 1,2,3
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            config t min.insync.replicas=2
            fence 3
              broker 3 epoch 6 fenced directories [3, 103]
              t-0 leader 1 epoch 0.1 isr [1, 2]
            fence 2
              broker 2 epoch 4 fenced directories [2, 102]
              t-0 leader 1 epoch 0.2 isr [1] elr [2]
            fence 1
              broker 1 epoch 2 fenced directories [1, 101]
              t-0 leader -1 epoch 1.3 isr [] elr [1, 2] last known [1]
            unfence 2
              broker 2 epoch 4 directories [2, 102]
              t-0 leader 2 epoch 2.4 isr [2] elr [1]
            unfence 1
              broker 1 epoch 2 directories [1, 101]
        "#]],
    );
}

#[test]
fn a_crash_takes_the_eligibility() {
    check(
        "elr
         brokers 1 2 3
         topic t 1,2,3
         config t min.insync.replicas=3
         fence 3
         register 3 crashed
         fence 2
         fence 1
         register 1 crashed
         unfence 1
         unfence 2",
        expect![[r#"
            elr
            brokers 1 2 3
              broker 1 epoch 2 directories [1, 101]
              broker 2 epoch 4 directories [2, 102]
              broker 3 epoch 6 directories [3, 103]
            topic t 1,2,3
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            config t min.insync.replicas=3
            fence 3
              broker 3 epoch 6 fenced directories [3, 103]
              t-0 leader 1 epoch 0.1 isr [1, 2] elr [3]
            register 3 crashed
              broker 3 epoch 13 fenced directories [3, 103]
              t-0 leader 1 epoch 0.2 isr [1, 2]
            fence 2
              broker 2 epoch 4 fenced directories [2, 102]
              t-0 leader 1 epoch 0.3 isr [1] elr [2]
            fence 1
              broker 1 epoch 2 fenced directories [1, 101]
              t-0 leader -1 epoch 1.4 isr [] elr [1, 2] last known [1]
            register 1 crashed
              broker 1 epoch 19 fenced directories [1, 101]
              t-0 leader -1 epoch 1.5 isr [] elr [2] last known [1]
            unfence 1
              broker 1 epoch 19 directories [1, 101]
            unfence 2
              broker 2 epoch 4 directories [2, 102]
              t-0 leader 2 epoch 2.6 isr [2]
        "#]],
    );
}

#[test]
fn topics_may_prefer_availability() {
    check(
        "brokers 1 2
         topic t 1,2
         config t unclean.leader.election.enable=true
         fence 2
         unfence 2
         fence 1
         unfence 1",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            config t unclean.leader.election.enable=true
            fence 2
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 leader 1 epoch 0.1 isr [1]
            unfence 2
              broker 2 epoch 3 directories [2, 102]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.2 isr [2] recovering
            unfence 1
              broker 1 epoch 1 directories [1, 101]
        "#]],
    );
}

#[test]
fn unclean_elections_wait_for_the_topic_or_for_a_request() {
    check(
        "brokers 1 2
         topic t 1,2 1,2
         topic u 1
         fence 2
         unfence 2
         fence 1
         elect-unclean
         elect preferred t-0
         elect unclean t-0 u-0
         config t unclean.leader.election.enable=true
         elect-unclean
         elect unclean",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 2]
            topic u 1
              u-0 leader 1 epoch 0.0 isr [1]
            fence 2
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 leader 1 epoch 0.1 isr [1]
              t-1 leader 1 epoch 0.1 isr [1]
            unfence 2
              broker 2 epoch 3 directories [2, 102]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader -1 epoch 1.2 isr [1]
              t-1 leader -1 epoch 1.2 isr [1]
              u-0 leader -1 epoch 1.1 isr [1]
            elect-unclean -> false
            elect preferred t-0
              t-0: PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available.
            elect unclean t-0 u-0
              t-0: ok
              u-0: ELIGIBLE_LEADERS_NOT_AVAILABLE: Eligible topic partition leaders are not available.
              t-0 leader 2 epoch 2.3 isr [2] recovering
            config t unclean.leader.election.enable=true
            elect-unclean -> false
              t-1 leader 2 epoch 2.3 isr [2] recovering
            elect unclean
              u-0: ELIGIBLE_LEADERS_NOT_AVAILABLE: Eligible topic partition leaders are not available.
        "#]],
    );
}

#[test]
fn preferred_leaders_are_elected() {
    check(
        "brokers 1 2
         topic t 1,2 2,1 1,2
         elect preferred t-0 t-3 u-0
         fence 1
         unfence 1
         elect preferred
         elect preferred t-0",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 2,1 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 2 epoch 0.0 isr [2, 1]
              t-2 leader 1 epoch 0.0 isr [1, 2]
            elect preferred t-0 t-3 u-0
              t-0: ELECTION_NOT_NEEDED: Leader election not needed for topic partition.
              t-3: UNKNOWN_TOPIC_OR_PARTITION: No such partition as t-3
              u-0: UNKNOWN_TOPIC_OR_PARTITION: No such topic as u
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              t-1 leader 2 epoch 0.1 isr [2]
              t-2 leader 2 epoch 1.1 isr [2]
            unfence 1
              broker 1 epoch 1 directories [1, 101]
            elect preferred
              t-0: PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available.
              t-2: PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available.
            elect preferred t-0
              t-0: PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available.
        "#]],
    );
    check(
        "brokers 1 2
         topic t 1,2 1,2 1,2 2,1
         fence 1
         unfence 1
         isr t-0 2,1
         isr t-1 2,1
         isr t-2 2,1
         balance 2
         balance 2",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 1,2 1,2 2,1
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 2]
              t-2 leader 1 epoch 0.0 isr [1, 2]
              t-3 leader 2 epoch 0.0 isr [2, 1]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              t-1 leader 2 epoch 1.1 isr [2]
              t-2 leader 2 epoch 1.1 isr [2]
              t-3 leader 2 epoch 0.1 isr [2]
            unfence 1
              broker 1 epoch 1 directories [1, 101]
            isr t-0 2,1
              t-0 leader 2 epoch 1.2 isr [2, 1]
            isr t-1 2,1
              t-1 leader 2 epoch 1.2 isr [2, 1]
            isr t-2 2,1
              t-2 leader 2 epoch 1.2 isr [2, 1]
            balance 2 -> true
              t-0 leader 1 epoch 2.3 isr [2, 1]
              t-1 leader 1 epoch 2.3 isr [2, 1]
            balance 2 -> false
              t-2 leader 1 epoch 2.3 isr [2, 1]
        "#]],
    );
}

#[test]
fn shutdown_gives_leaderships_away() {
    check(
        "brokers 1 2
         topic t 1,2 2,1
         shutdown 1
         shutdown 1
         fence 1
         register 1
         unfence 1",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 2,1
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 2 epoch 0.0 isr [2, 1]
            shutdown 1
              broker 1 epoch 1 shutting down directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              t-1 leader 2 epoch 0.1 isr [2]
            shutdown 1
            fence 1
              broker 1 epoch 1 fenced shutting down directories [1, 101]
            register 1
              broker 1 epoch 12 fenced directories [1, 101]
            unfence 1
              broker 1 epoch 12 directories [1, 101]
        "#]],
    );
}

#[test]
fn a_broker_that_shuts_down_leads_nothing_before_it_registers_again() {
    check(
        "brokers 1
         topic t 1
         fence 1
         shutdown 1
         unfence 1
         register 1
         unfence 1",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [1]
            shutdown 1
              broker 1 epoch 1 fenced shutting down directories [1, 101]
            unfence 1
              broker 1 epoch 1 shutting down directories [1, 101]
            register 1
              broker 1 epoch 9 fenced directories [1, 101]
            unfence 1
              broker 1 epoch 9 directories [1, 101]
              t-0 leader 1 epoch 2.2 isr [1]
        "#]],
    );
}

#[test]
fn brokers_are_unregistered() {
    check(
        "elr
         brokers 1 2
         topic t 1,2
         config t min.insync.replicas=2
         fence 1
         unregister 1
         unregister 1
         fence 1
         unfence 1
         shutdown 1",
        expect![[r#"
            elr
            brokers 1 2
              broker 1 epoch 2 directories [1, 101]
              broker 2 epoch 4 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            config t min.insync.replicas=2
            fence 1
              broker 1 epoch 2 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2] elr [1]
            unregister 1
            unregister 1 -> BROKER_ID_NOT_REGISTERED: Broker ID 1 is not currently registered
            fence 1 -> STALE_BROKER_EPOCH: No broker registration found for broker id 1
            unfence 1 -> STALE_BROKER_EPOCH: No broker registration found for broker id 1
            shutdown 1 -> STALE_BROKER_EPOCH: No broker registration found for broker id 1
        "#]],
    );
}

#[test]
fn the_same_incarnation_keeps_its_epoch() {
    check(
        "brokers 1
         topic t 1
         register 1 again live
         register 1 live
         register 1",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            register 1 again live
            register 1 live -> DUPLICATE_BROKER_REGISTRATION: Another broker is registered with that
                broker id. If the broker was recently restarted this should self-resolve once the
                heartbeat manager expires the broker's session.
            register 1
              broker 1 epoch 6 fenced directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [1]
        "#]],
    );
}

#[test]
fn directories_go_offline() {
    check(
        "brokers 1 2
         topic t 1,2 1,2
         assign 1 1 t-0
         assign 1 101 t-1
         assign 2 2 t-0
         assign 2 2 t-2
         assign 2 2 u-0
         offline 1 1
         offline 1 1
         offline 1 101
         assign 1 lost t-1
         assign 1 1 t-1
         cordon 1 101
         cordon 1 101",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 2]
            assign 1 1 t-0 -> NONE
              t-0 leader 1 epoch 0.1 isr [1, 2]
            assign 1 101 t-1 -> NONE
              t-1 leader 1 epoch 0.1 isr [1, 2]
            assign 2 2 t-0 -> NONE
              t-0 leader 1 epoch 0.2 isr [1, 2]
            assign 2 2 t-2 -> UNKNOWN_TOPIC_OR_PARTITION
            assign 2 2 u-0 -> UNKNOWN_TOPIC_ID
            offline 1 1
              broker 1 epoch 1 directories [101]
              t-0 leader 2 epoch 1.3 isr [2]
            offline 1 1
            offline 1 101
              t-1 leader 2 epoch 1.2 isr [2]
            assign 1 lost t-1 -> NONE
              t-1 leader 2 epoch 1.3 isr [2]
            assign 1 1 t-1 -> NONE
              t-1 leader 2 epoch 1.4 isr [2]
            cordon 1 101
              broker 1 epoch 1 directories [101] cordoned [101]
            cordon 1 101
        "#]],
    );
}

#[test]
fn old_metadata_versions_know_no_directories() {
    check(
        "metadata-version 16
         brokers 1
         topic t 1
         assign 1 1 t-0
         offline 1 1
         cordon 1 1",
        expect![[r#"
            metadata-version 16
            brokers 1
              broker 1 epoch 2 directories []
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            assign 1 1 t-0 -> UNSUPPORTED_VERSION: Directory assignment is not supported yet.
            offline 1 1
            cordon 1 1
        "#]],
    );
    check(
        "metadata-version 11
         brokers 1 2
         topic t 1,2
         fence 2",
        expect![[r#"
            metadata-version 11
            brokers 1 2
              broker 1 epoch 2 directories []
              broker 2 epoch 4 directories []
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            fence 2
              broker 2 epoch 4 fenced directories []
              t-0 leader 1 epoch 1.1 isr [1]
        "#]],
    );
}

#[test]
fn registrations_are_checked() {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[2]);
    cluster.enable_eligible_leader_replicas();
    let state = RegistrationState {
        next_offset: 10,
        has_live_session: false,
        detects_clean_shutdown: true,
    };
    let mut shown = String::new();
    let mut refuse = |change: &dyn Fn(&mut NewRegistration)| {
        let mut registration = registration(1);
        change(&mut registration);
        let error =
            register_broker(&cluster.image, &cluster.context(), &registration, state).unwrap_err();
        shown += &format!("{error}\n");
    };
    refuse(&|new| new.directories.clear());
    refuse(&|new| new.directories.push(LOST_DIRECTORY));
    refuse(&|new| new.directories.push(new.directories[0]));
    refuse(&|new| new.directories.push(directory(2)));
    refuse(&|new| new.is_migrating_zk_broker = true);
    refuse(&|new| {
        new.features.remove(MetadataVersion::FEATURE);
    });
    refuse(&|new| {
        let range = VersionRange { min: 7, max: 29 };
        new.features
            .insert(MetadataVersion::FEATURE.to_owned(), range);
    });
    refuse(&|new| {
        new.features
            .remove(metadata::ELIGIBLE_LEADER_REPLICAS_FEATURE);
    });
    refuse(&|new| {
        let range = VersionRange { min: 1, max: 2 };
        new.features.insert("other".to_owned(), range);
    });
    expect![[r#"
        INVALID_REGISTRATION: No directories specified in request
        INVALID_REGISTRATION: Reserved directory ID in request
        INVALID_REGISTRATION: Duplicate directory ID in request
        INVALID_REGISTRATION: Broker 2 is already registered with directory AAAAAAAAAAAAAAAAAAAD6g
        BROKER_ID_NOT_REGISTERED: Controller does not support registering ZK brokers.
        INVALID_REGISTRATION: Request features do not contain 'metadata.version'
        UNSUPPORTED_VERSION: Unable to register because the broker does not support finalized
            version 30 of metadata.version. The broker wants a version between 7 and 29,
            inclusive.
        UNSUPPORTED_VERSION: Unable to register because the broker does not support finalized
            version 1 of eligible.leader.replicas.version. The broker wants a version between 0
            and 0, inclusive.
        UNSUPPORTED_VERSION: Unable to register because the broker does not support finalized
            version 0 of other. The broker wants a version between 1 and 2, inclusive.
    "#]]
    .assert_eq(&wrapped(&shown));
}
