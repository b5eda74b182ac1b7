//! Scripts of brokers that come and go, one step a line, and below it what the cluster's metadata
//! become.

use super::super::*;
use crate::create_topics::create_topics;
use crate::directories::{DirectoryAssignment, assign_replicas_to_directories, change_directories};
use crate::elect_leaders::{
    ElectionType, TopicElection, balance_leaders, elect_leaders, elect_unclean_leaders,
};
use crate::test_changes::changes;
use crate::test_cluster::{TestCluster, assigned_topic, directory, registration, wrapped};
use expect_test::Expect;
use metadata::{ConfigResource, PartitionChange};

/// Runs a script, one step a line, and shows what each step answers and changes.
#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
pub(super) fn check(script: &str, expect: Expect) {
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
        _ => return broker_step(cluster, words[0], BrokerId(number(1)), &words[2..]),
    }
    String::new()
}

/// The last registration of the broker, or epoch -1.
fn epoch_of(cluster: &TestCluster, id: BrokerId) -> BrokerEpoch {
    let broker = cluster.image.cluster.broker(id);
    broker.map_or(BrokerEpoch::NONE, |broker| broker.epoch)
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
            registration.previous_broker_epoch = if has("crashed") {
                BrokerEpoch::NONE
            } else {
                epoch
            };
            registration.incarnation_id = match image.cluster.broker(id) {
                Some(broker) if has("again") => broker.incarnation_id,
                _ => Uuid::from_u128(next_offset.0.unsigned_abs().into()),
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

/// `name replicas replicas ...`, replicas in the first directory of their broker.
fn create_topic(cluster: &mut TestCluster, words: &[&str]) {
    let topic = assigned_topic(words);
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
