//! What each record does to an image: scripts of records, and what the image says afterwards.

use expect_test::{Expect, expect};
use metadata::{
    BrokerRegistration, BrokerRegistrationChange, ConfigResource, Endpoint, LeaderRecoveryState,
    MetadataDelta, MetadataImage, MetadataRecord, Partition, PartitionChange, QuotaEntity,
};
use model::{BrokerEpoch, BrokerId, Uuid};
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::str::FromStr;
use std::sync::Arc;

/// The fields of a line: `key=value` pairs after its words.
struct Line<'a> {
    words: Vec<&'a str>,
    fields: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let (fields, words) = line.split_whitespace().partition(|word| word.contains('='));
        let fields: Vec<&str> = fields;
        let pairs = fields.iter().filter_map(|field| field.split_once('='));
        Self {
            words,
            fields: pairs.collect(),
        }
    }

    fn word(&self, index: usize) -> &'a str {
        self.words.get(index).copied().unwrap_or_default()
    }

    fn number<T: FromStr>(&self, index: usize) -> T {
        let word = self.word(index);
        word.parse()
            .unwrap_or_else(|_| panic!("`{word}` is no number"))
    }

    fn ids<T: FromStr<Err: Debug>>(&self, field: &str) -> Option<Vec<T>> {
        let text = self.fields.get(field)?;
        let ids = text.split(',').filter(|id| !id.is_empty());
        Some(ids.map(|id| id.parse().expect("an id")).collect())
    }

    fn directories(&self) -> Option<Vec<Uuid>> {
        let ids = self.ids::<i32>("directories")?;
        Some(
            ids.into_iter()
                .map(|id| Uuid::from_u128(id as u128))
                .collect(),
        )
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        let names = self.fields.get("listeners").into_iter();
        let names = names.flat_map(|names| names.split(','));
        let endpoint = |name: &str| Endpoint {
            name: name.to_owned(),
            host: String::new(),
            port: 0,
            security_protocol: 0,
        };
        names.map(endpoint).collect()
    }

    fn leader(&self) -> Option<BrokerId> {
        self.fields.get("leader")?.parse().ok()
    }

    fn recovery(&self) -> Option<LeaderRecoveryState> {
        match *self.fields.get("recovery")? {
            "recovering" => Some(LeaderRecoveryState::Recovering),
            _ => Some(LeaderRecoveryState::Recovered),
        }
    }

    fn text(&self, field: &str) -> Option<String> {
        self.fields.get(field).map(|&value| value.to_owned())
    }
}

#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn record(line: &str) -> MetadataRecord {
    let line = Line::parse(line);
    let topic_id = |index| Uuid::from_u128(line.number::<u128>(index));
    let (broker_id, broker_epoch) = match line.word(0) {
        "topic" | "config" | "clear-elr" | "feature" | "quota" => (0, 0),
        _ => (
            line.number(1),
            line.words.get(2).map_or(0, |_| line.number(2)),
        ),
    };
    let broker_epoch = BrokerEpoch(broker_epoch);
    match line.word(0) {
        "topic" => MetadataRecord::Topic {
            name: line.word(1).to_owned(),
            topic_id: topic_id(2),
        },
        "partition" => MetadataRecord::Partition {
            topic_id: topic_id(1),
            partition_id: line.number(2),
            partition: Partition {
                replicas: line.ids("replicas").unwrap_or_default(),
                directories: line.directories().unwrap_or_default(),
                isr: line.ids("isr").unwrap_or_default(),
                eligible_leader_replicas: line.ids("elr").unwrap_or_default(),
                last_known_eligible_leader_replicas: line.ids("last-elr").unwrap_or_default(),
                leader: line.leader().unwrap_or(BrokerId::NONE),
                ..Partition::default()
            },
        },
        "change" => MetadataRecord::PartitionChange(PartitionChange {
            topic_id: topic_id(1),
            partition_id: line.number(2),
            isr: line.ids("isr"),
            leader: line.leader(),
            replicas: line.ids("replicas"),
            removing_replicas: line.ids("removing"),
            adding_replicas: line.ids("adding"),
            leader_recovery_state: line.recovery(),
            directories: line.directories(),
            eligible_leader_replicas: line.ids("elr"),
            last_known_eligible_leader_replicas: line.ids("last-elr"),
        }),
        "remove-topic" => MetadataRecord::RemoveTopic {
            topic_id: topic_id(1),
        },
        "clear-elr" => MetadataRecord::ClearElr {
            topic_name: line.word(1).to_owned(),
        },
        "config" => MetadataRecord::Config {
            resource: ConfigResource::topic(line.word(1)),
            name: line.word(2).to_owned(),
            value: line.text("value"),
        },
        "feature" => MetadataRecord::FeatureLevel {
            name: line.word(1).to_owned(),
            level: line.number(2),
        },
        "quota" => MetadataRecord::ClientQuota {
            entity: QuotaEntity(BTreeMap::from([("user".to_owned(), line.text("user"))])),
            key: line.word(1).to_owned(),
            value: line.text("value").and_then(|value| value.parse().ok()),
        },
        "register" => MetadataRecord::RegisterBroker(BrokerRegistration {
            id: BrokerId(broker_id),
            epoch: broker_epoch,
            incarnation_id: Uuid::from_u128(1),
            endpoints: line.endpoints(),
            features: BTreeMap::new(),
            rack: None,
            is_fenced: true,
            is_in_controlled_shutdown: false,
            is_migrating_zk_broker: false,
            directories: line.directories().unwrap_or_default(),
            cordoned_directories: None,
        }),
        "unregister" => MetadataRecord::UnregisterBroker {
            broker_id: BrokerId(broker_id),
            broker_epoch,
        },
        "fence" => MetadataRecord::FenceBroker {
            broker_id: BrokerId(broker_id),
            broker_epoch,
        },
        "unfence" => MetadataRecord::UnfenceBroker {
            broker_id: BrokerId(broker_id),
            broker_epoch,
        },
        "leave" => MetadataRecord::BrokerRegistrationChange(BrokerRegistrationChange {
            broker_id: BrokerId(broker_id),
            broker_epoch,
            enters_controlled_shutdown: true,
            directories: line.directories(),
            ..BrokerRegistrationChange::default()
        }),
        other => panic!("no record `{other}`"),
    }
}

fn show_partition(partition: &Partition) -> String {
    let mut text = format!(
        "leader={} epoch={} change={} replicas={:?} isr={:?}",
        partition.leader,
        partition.leader_epoch,
        partition.partition_epoch,
        partition.replicas,
        partition.isr
    );
    let lists = [
        ("removing", &partition.removing_replicas),
        ("adding", &partition.adding_replicas),
        ("elr", &partition.eligible_leader_replicas),
        ("last-elr", &partition.last_known_eligible_leader_replicas),
    ];
    for (name, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        write!(text, " {name}={list:?}").expect("a string takes all");
    }
    if partition.leader_recovery_state == LeaderRecoveryState::Recovering {
        text.push_str(" recovering");
    }
    let directories: Vec<u8> = partition
        .directories
        .iter()
        .map(|id| id.to_bytes()[15])
        .collect();
    write!(text, " directories={directories:?}").expect("a string takes all");
    text
}

fn show(image: &MetadataImage) -> String {
    let mut text = String::new();
    let mut line = |line: String| text.push_str(&(line + "\n"));
    for (name, level) in image.features.finalized() {
        line(format!("feature {name} {level}"));
    }
    for (id, broker) in image.cluster.brokers() {
        let directories: Vec<u8> = broker
            .directories
            .iter()
            .map(|d| d.to_bytes()[15])
            .collect();
        let fenced = if broker.is_fenced {
            "fenced"
        } else {
            "unfenced"
        };
        let leaving = if broker.is_in_controlled_shutdown {
            " leaving"
        } else {
            ""
        };
        line(format!(
            "broker {id} epoch={} {fenced}{leaving} directories={directories:?}",
            broker.epoch
        ));
    }
    for topic in image.topics.iter() {
        line(format!("topic {}", topic.name));
        for (id, partition) in &topic.partitions {
            line(format!("  {id}: {}", show_partition(partition)));
        }
    }
    for (resource, config) in image.configs.by_resource() {
        line(format!("config {} {config:?}", resource.name));
    }
    for (entity, quotas) in &image.client_quotas {
        line(format!("quota {:?} {quotas:?}", entity.0));
    }
    text
}

#[expect(clippy::needless_pass_by_value, reason = "expect![] makes a value")]
fn check(script: &str, expected: Expect) {
    let mut image = MetadataImage::default();
    let mut errors = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        if let Err(error) = image.replay(&record(line)) {
            writeln!(errors, "{line}: {error}").expect("a string takes all");
        }
    }
    expected.assert_eq(&(show(&image) + &errors));
}

#[test]
fn only_a_named_leader_raises_the_leader_epoch() {
    check(
        "topic a 10
         partition 10 0 replicas=1,2,3 directories=7,8,9 isr=1,2,3 leader=1
         change 10 0 isr=1,2
         change 10 0 leader=2 isr=2 recovery=recovering
         change 10 0 leader=2
         change 10 0 leader=-1 recovery=recovered",
        expect![[r#"
            topic a
              0: leader=-1 epoch=3 change=4 replicas=[1, 2, 3] isr=[2] directories=[7, 8, 9]
        "#]],
    );
}

#[test]
fn a_reassignment_replaces_lists_as_a_whole() {
    check(
        "topic a 10
         partition 10 0 replicas=1,2 directories=7,8 isr=1,2 leader=1
         change 10 0 replicas=1,2,3 directories=7,8,9 adding=3 removing=2
         change 10 0 isr=1,2,3
         change 10 0 replicas=1,3 directories=7,9 isr=1,3 adding= removing=",
        expect![[r#"
            topic a
              0: leader=1 epoch=0 change=3 replicas=[1, 3] isr=[1, 3] directories=[7, 9]
        "#]],
    );
}

#[test]
fn partitions_have_a_directory_for_each_replica() {
    check(
        "topic a 10
         partition 10 0 replicas=1,2 directories=7 isr=1 leader=1
         partition 10 1 replicas=1,2 directories=0,0 isr=1 leader=1
         change 10 1 replicas=1,2,3
         change 10 1 directories=7,8
         change 10 1 directories=7,8,9
         change 10 1 replicas=1",
        expect![[r#"
            topic a
              1: leader=1 epoch=0 change=2 replicas=[1, 2, 3] isr=[1] directories=[7, 8, 9]
            partition 10 0 replicas=1,2 directories=7 isr=1 leader=1: partition 0 of topic AAAAAAAAAAAAAAAAAAAACg has not one directory per replica
            change 10 1 directories=7,8: partition 1 of topic AAAAAAAAAAAAAAAAAAAACg has not one directory per replica
            change 10 1 replicas=1: partition 1 of topic AAAAAAAAAAAAAAAAAAAACg has not one directory per replica
        "#]],
    );
}

#[test]
fn eligible_leader_replicas_are_cleared_of_one_topic_or_of_all() {
    let topics = "topic a 10
         partition 10 0 replicas=1 directories=7 leader=1 elr=2 last-elr=3
         partition 10 1 replicas=1 directories=7 leader=1
         topic b 11
         partition 11 0 replicas=1 directories=7 leader=1 last-elr=3";
    check(
        &format!("{topics}\nclear-elr a\nclear-elr c"),
        expect![[r#"
            topic a
              0: leader=1 epoch=0 change=1 replicas=[1] isr=[] directories=[7]
              1: leader=1 epoch=0 change=0 replicas=[1] isr=[] directories=[7]
            topic b
              0: leader=1 epoch=0 change=0 replicas=[1] isr=[] last-elr=[3] directories=[7]
            clear-elr c: there is no topic `c`
        "#]],
    );
    check(
        &format!("{topics}\nclear-elr"),
        expect![[r#"
            topic a
              0: leader=1 epoch=0 change=1 replicas=[1] isr=[] directories=[7]
              1: leader=1 epoch=0 change=0 replicas=[1] isr=[] directories=[7]
            topic b
              0: leader=1 epoch=0 change=1 replicas=[1] isr=[] directories=[7]
        "#]],
    );
}

#[test]
fn a_removed_topic_takes_its_configuration_along() {
    check(
        "topic a 10
         config a retention.ms value=5
         config b retention.ms value=6
         remove-topic 10
         topic a 12
         remove-topic 10
         topic a 13
         change 13 0 leader=1
         change 12 0 leader=1",
        expect![[r#"
            topic a
            config b {"retention.ms": "6"}
            remove-topic 10: there is no topic with id AAAAAAAAAAAAAAAAAAAACg
            topic a 13: topic `a` with id AAAAAAAAAAAAAAAAAAAADQ exists already
            change 13 0 leader=1: there is no topic with id AAAAAAAAAAAAAAAAAAAADQ
            change 12 0 leader=1: topic with id AAAAAAAAAAAAAAAAAAAADA has no partition 0
        "#]],
    );
}

#[test]
fn what_no_log_directory_can_have_is_refused() {
    check(
        "topic a 10
         topic ../a 11
         topic .. 12
         topic __cluster_metadata 13
         partition 10 -1 replicas=1 directories=7
         partition 10 0 replicas=1 directories=7",
        expect![[r#"
            topic a
              0: leader=-1 epoch=0 change=0 replicas=[1] isr=[] directories=[7]
            topic ../a 11: a topic cannot have the name `../a`
            topic .. 12: a topic cannot have the name `..`
            topic __cluster_metadata 13: a topic cannot have the name `__cluster_metadata`
            partition 10 -1 replicas=1 directories=7: topic with id AAAAAAAAAAAAAAAAAAAACg cannot have a partition -1
        "#]],
    );
}

#[test]
fn a_removed_value_leaves_nothing_behind() {
    check(
        "config a one value=1
         config a two value=2
         config a one
         config b one value=1
         config b one
         quota producer_byte_rate user=u value=7
         quota producer_byte_rate value=8
         quota producer_byte_rate user=u
         feature group.version 1
         feature group.version 0
         feature share.version 1
         feature kraft.version 1
         feature metadata.version 30
         feature metadata.version 31",
        expect![[r#"
            feature metadata.version 30
            feature share.version 1
            config a {"two": "2"}
            quota {"user": None} {"producer_byte_rate": 8.0}
            feature metadata.version 31: metadata.version level 31 is not between 7 (3.3-IV3) and 30 (4.3-IV0)
        "#]],
    );
}

#[test]
fn changes_of_a_broker_name_its_registration() {
    check(
        "register 1 5 directories=7,8
         unfence 1 5
         leave 1 5 directories=7
         register 2 6
         unfence 2 5
         unfence 3 1
         register 4 7
         unfence 4 7
         fence 4 7
         unregister 4",
        expect![[r#"
            broker 1 epoch=5 unfenced leaving directories=[7]
            broker 2 epoch=6 fenced directories=[]
            unfence 2 5: broker 2 has epoch 6, not 5
            unfence 3 1: broker 3 is not registered
        "#]],
    );
}

#[test]
fn a_delta_names_what_changed() {
    let mut before = MetadataImage::default();
    for line in [
        "topic a 10",
        "partition 10 0 replicas=1 directories=7 leader=1",
        "partition 10 1 replicas=1 directories=7 leader=1",
        "topic b 11",
        "partition 11 0 replicas=1 directories=7 leader=1",
        "topic c 12",
        "partition 12 0 replicas=1 directories=7 leader=1",
    ] {
        before.replay(&record(line)).expect("fits");
    }
    let mut after = before.clone();
    for line in [
        "change 10 1 leader=2",
        "partition 10 2 replicas=1 directories=7 leader=1",
        "remove-topic 11",
        "topic b 13",
        "partition 13 0 replicas=1 directories=7 leader=1",
        "config a retention.ms value=1",
        "register 1 5",
    ] {
        after.replay(&record(line)).expect("fits");
    }
    let delta = MetadataDelta::new(Arc::new(before), Arc::new(after));
    let mut text = String::new();
    for partition in delta.partitions() {
        let side = |side: Option<&Partition>| side.map(|partition| partition.leader);
        writeln!(
            text,
            "{}-{} {:?} -> {:?}",
            partition.topic.name,
            partition.partition_id,
            side(partition.before),
            side(partition.after)
        )
        .expect("a string takes all");
    }
    for topic in delta.deleted_topics() {
        writeln!(text, "deleted {} {}", topic.name, topic.id).expect("a string takes all");
    }
    for topic in delta.created_topics() {
        writeln!(text, "created {} {}", topic.name, topic.id).expect("a string takes all");
    }
    let configs: Vec<_> = delta.configs().map(|config| &*config.key.name).collect();
    let brokers: Vec<_> = delta.brokers().map(|broker| *broker.key).collect();
    writeln!(text, "configs {configs:?} brokers {brokers:?}").expect("a string takes all");
    expect![[r#"
        a-1 Some(1) -> Some(2)
        a-2 None -> Some(1)
        b-0 Some(1) -> None
        b-0 None -> Some(1)
        deleted b AAAAAAAAAAAAAAAAAAAACw
        created b AAAAAAAAAAAAAAAAAAAADQ
        configs ["a"] brokers [1]
    "#]]
    .assert_eq(&text);
}

#[test]
fn replicas_are_offline_that_clients_of_a_listener_cannot_reach() {
    let mut image = MetadataImage::default();
    let script = "register 1 10 directories=100 listeners=PLAINTEXT,INTERNAL
        unfence 1 10
        register 2 11 directories=200 listeners=PLAINTEXT
        register 3 12 directories=300 listeners=INTERNAL
        unfence 3 12
        register 4 13 directories=400 listeners=PLAINTEXT
        unfence 4 13
        topic t 7
        partition 7 0 replicas=1,2,3,4,5 directories=100,200,300,401,500 isr=1 leader=1";
    for line in script.lines() {
        image.replay(&record(line)).unwrap();
    }
    let partition = image.topics.partition("t", 0).unwrap();
    let offline = |listener| {
        let offline = image.cluster.offline_replicas(partition, listener);
        offline.collect::<Vec<_>>()
    };
    assert_eq!(offline("PLAINTEXT"), [2, 3, 4, 5].map(BrokerId));
    assert_eq!(offline("INTERNAL"), [2, 4, 5].map(BrokerId));
}
