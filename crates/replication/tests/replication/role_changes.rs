//! Roles follow from the metadata, whatever way these come.

use expect_test::{Expect, expect};
use metadata::{MetadataDelta, MetadataImage, MetadataRecord, Partition, PartitionChange};
use model::{BrokerId, Uuid};
use proptest::prelude::*;
use replication::{PartitionKey, Role, RoleChange, role_changes};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

const BROKER: i32 = 1;

type Held = BTreeMap<PartitionKey, Role>;

/// `topic ID NAME`, `partition ID INDEX LEADER REPLICAS ISR`, `leader ID INDEX LEADER`, `isr ID INDEX ISR`,
/// `replicas ID INDEX REPLICAS`, `directory ID INDEX`, `remove ID`; lists as `1,2`.
fn record(line: &str) -> MetadataRecord {
    let words: Vec<&str> = line.split_whitespace().collect();
    let topic_id = Uuid::from_u128(words[1].parse().unwrap());
    let number = |at: usize| words[at].parse().unwrap();
    let ids = |at: usize| -> Vec<BrokerId> {
        words[at].split(',').map(|id| id.parse().unwrap()).collect()
    };
    let change = |change| {
        MetadataRecord::PartitionChange(PartitionChange {
            topic_id,
            partition_id: number(2),
            ..change
        })
    };
    let nothing = PartitionChange::default();
    match words[0] {
        "topic" => MetadataRecord::Topic {
            name: words[2].to_owned(),
            topic_id,
        },
        "partition" => MetadataRecord::Partition {
            topic_id,
            partition_id: number(2),
            partition: Partition {
                leader: BrokerId(number(3)),
                directories: vec![Uuid::ZERO; ids(4).len()],
                replicas: ids(4),
                isr: ids(5),
                ..Partition::default()
            },
        },
        "leader" => change(PartitionChange {
            leader: Some(BrokerId(number(3))),
            ..nothing
        }),
        "isr" => change(PartitionChange {
            isr: Some(ids(3)),
            ..nothing
        }),
        "replicas" => change(PartitionChange {
            directories: Some(vec![Uuid::ZERO; ids(3).len()]),
            replicas: Some(ids(3)),
            ..nothing
        }),
        "directory" => change(PartitionChange {
            directories: Some(vec![Uuid::from_u128(9)]),
            ..nothing
        }),
        "remove" => MetadataRecord::RemoveTopic { topic_id },
        other => panic!("no record `{other}`"),
    }
}

fn take(held: &mut Held, changes: &[RoleChange]) {
    for change in changes {
        match &change.after {
            Role::None => drop(held.remove(&change.key)),
            role => drop(held.insert(change.key, role.clone())),
        }
    }
}

fn show_role(role: &Role) -> String {
    match role {
        Role::None => "none".to_owned(),
        Role::Follower {
            leader,
            leader_epoch,
        } => format!("follower of {leader} in {leader_epoch}"),
        Role::Leader {
            leader_epoch,
            replicas,
        } => {
            let mut text = format!("leader in {leader_epoch}");
            if let Some(replicas) = replicas {
                write!(text, " at {}", replicas.partition_epoch).unwrap();
                for id in &replicas.followers {
                    let is_in_sync = replicas.isr.contains(id);
                    let how = if is_in_sync { "with" } else { "before" };
                    write!(text, " {how} {id}").unwrap();
                }
            }
            text
        }
    }
}

/// The changes of roles that each line of records leads to, at broker 1.
#[expect(clippy::needless_pass_by_value, reason = "as it is written")]
fn check(script: &str, expect: Expect) {
    let (mut text, mut held) = (String::new(), Held::new());
    let mut image = Arc::new(MetadataImage::default());
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let mut next = (*image).clone();
        for one in line.split(';') {
            next.replay(&record(one)).unwrap();
        }
        let next = Arc::new(next);
        let delta = MetadataDelta::new(image, next.clone());
        let changes = role_changes(&next, Some(&delta), BrokerId(BROKER), &held);
        writeln!(text, "{line}").unwrap();
        for RoleChange { key, before, after } in &changes {
            let [before, after] = [before, after].map(show_role);
            let topic = u128::from_be_bytes(key.0.to_bytes());
            writeln!(text, "    {topic}-{}: {before} -> {after}", key.1).unwrap();
        }
        take(&mut held, &changes);
        image = next;
    }
    expect.assert_eq(&text);
}

#[test]
fn roles_follow_the_metadata() {
    check(
        "
        topic 7 a; partition 7 0 1 1 1; partition 7 1 2 1,2 1,2; partition 7 2 2 2 2
        directory 7 0
        leader 7 1 1
        isr 7 1 1
        leader 7 0 -1
        leader 7 0 1; leader 7 1 2
        replicas 7 2 2,1
        replicas 7 1 2
        leader 7 0 1
        ",
        expect![[r#"
            topic 7 a; partition 7 0 1 1 1; partition 7 1 2 1,2 1,2; partition 7 2 2 2 2
                7-0: none -> leader in 0
                7-1: none -> follower of 2 in 0
            directory 7 0
            leader 7 1 1
                7-1: follower of 2 in 0 -> leader in 1 at 1 with 2
            isr 7 1 1
                7-1: leader in 1 at 1 with 2 -> leader in 1 at 2 before 2
            leader 7 0 -1
                7-0: leader in 0 -> follower of -1 in 1
            leader 7 0 1; leader 7 1 2
                7-0: follower of -1 in 1 -> leader in 2
                7-1: leader in 1 at 2 before 2 -> follower of 2 in 2
            replicas 7 2 2,1
                7-2: none -> follower of 2 in 0
            replicas 7 1 2
                7-1: follower of 2 in 2 -> none
            leader 7 0 1
                7-0: leader in 2 -> leader in 3
        "#]],
    );
}

#[test]
fn a_topic_that_is_made_again_is_another_one() {
    check(
        "
        topic 7 a; partition 7 0 1 1 1
        remove 7; topic 5 a; partition 5 0 1 1 1; partition 5 1 2 1,2 2
        topic 8 b; partition 8 0 1 1 1; remove 8
        remove 5
        ",
        expect![[r#"
            topic 7 a; partition 7 0 1 1 1
                7-0: none -> leader in 0
            remove 7; topic 5 a; partition 5 0 1 1 1; partition 5 1 2 1,2 2
                7-0: leader in 0 -> none
                5-0: none -> leader in 0
                5-1: none -> follower of 2 in 0
            topic 8 b; partition 8 0 1 1 1; remove 8
            remove 5
                5-0: leader in 0 -> none
                5-1: follower of 2 in 0 -> none
        "#]],
    );
}

/// A step of the metadata, which is left out if it is not possible.
#[derive(Debug, Clone)]
enum Step {
    Create {
        name: u8,
    },
    Remove {
        name: u8,
    },
    Change {
        name: u8,
        partition_id: i32,
        change: Box<PartitionChange>,
    },
}

fn brokers() -> impl Strategy<Value = Vec<BrokerId>> {
    prop::sample::subsequence([1, 2, 3].map(BrokerId).to_vec(), 1..=3).prop_shuffle()
}

fn step() -> impl Strategy<Value = Step> {
    let change = prop_oneof![
        prop::sample::select(vec![-1, 1, 2]).prop_map(|leader| PartitionChange {
            leader: Some(BrokerId(leader)),
            ..PartitionChange::default()
        }),
        brokers().prop_map(|isr| PartitionChange {
            isr: Some(isr),
            ..PartitionChange::default()
        }),
        brokers().prop_map(|replicas| PartitionChange {
            directories: Some(vec![Uuid::ZERO; replicas.len()]),
            replicas: Some(replicas),
            ..PartitionChange::default()
        }),
        Just(PartitionChange::default()),
    ];
    let name = 0u8..3;
    prop_oneof![
        2 => name.clone().prop_map(|name| Step::Create { name }),
        1 => name.clone().prop_map(|name| Step::Remove { name }),
        6 => (name, 0i32..2, change).prop_map(|(name, partition_id, change)| Step::Change {
            name,
            partition_id,
            change: Box::new(change),
        }),
    ]
}

fn apply(image: &mut MetadataImage, step: &Step, new_id: u128) {
    let name = |name: &u8| format!("topic-{name}");
    let id_of = |image: &MetadataImage, of: &u8| image.topics.id_of(&name(of));
    match step {
        Step::Create { name: of } => {
            if id_of(image, of).is_some() {
                return;
            }
            let topic_id = Uuid::from_u128(new_id);
            let name = name(of);
            image
                .replay(&MetadataRecord::Topic { name, topic_id })
                .unwrap();
            for partition_id in 0..2 {
                let partition = Partition {
                    leader: BrokerId(partition_id + 1),
                    directories: vec![Uuid::ZERO; 2],
                    replicas: vec![BrokerId(1), BrokerId(2)],
                    isr: vec![BrokerId(1), BrokerId(2)],
                    ..Partition::default()
                };
                let record = MetadataRecord::Partition {
                    topic_id,
                    partition_id,
                    partition,
                };
                image.replay(&record).unwrap();
            }
        }
        Step::Remove { name } => {
            if let Some(topic_id) = id_of(image, name) {
                image
                    .replay(&MetadataRecord::RemoveTopic { topic_id })
                    .unwrap();
            }
        }
        Step::Change {
            name,
            partition_id,
            change,
        } => {
            let Some(topic_id) = id_of(image, name) else {
                return;
            };
            let change = PartitionChange {
                topic_id,
                partition_id: *partition_id,
                ..(**change).clone()
            };
            image
                .replay(&MetadataRecord::PartitionChange(change))
                .unwrap();
        }
    }
}

proptest! {
    #![proptest_config(trials::property(256))]

    /// However many steps a delta has, and whether there is one, the roles are the same.
    #[test]
    fn deltas_lead_to_the_same_roles_as_a_snapshot(
        steps in prop::collection::vec((step(), any::<bool>()), 1..40)
    ) {
        let (mut held, mut joined) = (Held::new(), Held::new());
        let mut image = Arc::new(MetadataImage::default());
        let mut seen = image.clone();
        for (at, (step, is_seen)) in steps.iter().enumerate() {
            let mut next = (*image).clone();
            // Ids in another order than that of creation.
            apply(&mut next, step, (97 * (at as u128 + 1)) % 101);
            let next = Arc::new(next);
            let delta = MetadataDelta::new(image, next.clone());
            let changes = role_changes(&next, Some(&delta), BrokerId(BROKER), &held);
            prop_assert_eq!(&changes, &role_changes(&next, None, BrokerId(BROKER), &held));
            take(&mut held, &changes);
            prop_assert!(role_changes(&next, Some(&delta), BrokerId(BROKER), &held).is_empty(), "once");
            image = next;
            // A broker that is behind gets several steps at once.
            if *is_seen {
                let delta = MetadataDelta::new(seen, image.clone());
                let changes = role_changes(&image, Some(&delta), BrokerId(BROKER), &joined);
                take(&mut joined, &changes);
                seen = image.clone();
                prop_assert_eq!(&joined, &held);
            }
        }
        let mut loaded = Held::new();
        take(&mut loaded, &role_changes(&image, None, BrokerId(BROKER), &Held::new()));
        prop_assert_eq!(&loaded, &held);
        // One that was away loads a snapshot over what it had.
        let changes = role_changes(&image, None, BrokerId(BROKER), &joined);
        take(&mut joined, &changes);
        prop_assert_eq!(&joined, &held);
    }
}
