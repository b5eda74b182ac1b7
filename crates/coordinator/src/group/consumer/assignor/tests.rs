//! The assignors against what Kafka's own assign, and against what they promise.
//!
//! `kafka_assignments.txt` is what the classes of Apache Kafka 4.3.1 gave for random groups, in the
//! order in which they met members and topics.

use super::*;
use std::collections::BTreeSet;

/// A line of the file, read.
#[derive(Debug, Default)]
struct Case {
    assignor: String,
    is_homogeneous: bool,
    topics: Vec<AssignableTopic>,
    ids: Vec<String>,
    instance_ids: Vec<Option<String>>,
    subscribed: Vec<Vec<usize>>,
    targets: Vec<Partitions>,
    expected: Vec<Partitions>,
}

/// `0:1,2;1:0`
fn partitions(text: &str, topics: &[AssignableTopic]) -> Partitions {
    let topics = text
        .split(';')
        .filter_map(|topic| topic.split_once(':'))
        .map(|(topic, indexes)| {
            let id = topics[topic.parse::<usize>().expect("a place")].id;
            (
                id,
                indexes
                    .split(',')
                    .map(|index| index.parse::<i32>().expect("an index")),
            )
        });
    topics
        .flat_map(|(id, indexes)| indexes.map(move |index| (id, index, ())))
        .collect()
}

fn case(line: &str) -> Case {
    let (group, expected) = line.split_once(" => ").expect("an assignment");
    let mut parts = group.split(" | ");
    let mut head = parts.next().expect("a head").split(' ');
    let mut case = Case {
        assignor: head.next().expect("an assignor").to_owned(),
        is_homogeneous: head.next() == Some("same"),
        ..Case::default()
    };
    for topic in head {
        let (id, count) = topic.split_once('=').expect("a topic");
        case.topics.push(AssignableTopic {
            id: Uuid::from_u128(u128::from_str_radix(id, 16).expect("an id")),
            partition_count: count.parse().expect("a number of partitions"),
        });
    }
    for member in parts {
        let words: Vec<&str> = member.split(' ').collect();
        let (id, instance_id) = words[0]
            .split_once('/')
            .map_or((words[0], None), |(id, one)| (id, Some(one)));
        case.ids.push(id.to_owned());
        case.instance_ids.push(instance_id.map(str::to_owned));
        let places = words[1].split(',').filter(|place| *place != "-");
        case.subscribed.push(
            places
                .map(|place| place.parse().expect("a place"))
                .collect(),
        );
        case.targets.push(partitions(words[2], &case.topics));
    }
    case.expected = expected
        .split(' ')
        .map(|text| partitions(text, &case.topics))
        .collect();
    case
}

fn members(case: &Case) -> Vec<AssignableMember<'_>> {
    (0..case.ids.len())
        .map(|at| AssignableMember {
            id: &case.ids[at],
            instance_id: case.instance_ids[at].as_deref(),
            subscribed: &case.subscribed[at],
            target: case.targets[at].clone(),
        })
        .collect()
}

fn assign(case: &Case) -> Vec<Partitions> {
    let members = members(case);
    let assignor = Assignor::from_name(&case.assignor).expect("an assignor");
    let targets = assignor.assign(&Assigning {
        topics: &case.topics,
        members: &members,
        is_homogeneous: case.is_homogeneous,
    });
    let kept = targets.into_iter().zip(&case.targets);
    kept.map(|(new, old)| new.unwrap_or_else(|| old.clone()))
        .collect()
}

#[test]
fn assignments_are_those_of_kafka() {
    let lines = include_str!("kafka_assignments.txt").lines();
    let mut count = 0;
    for line in lines {
        let case = case(line);
        assert_eq!(assign(&case), case.expected, "{line}");
        count += 1;
    }
    assert!(count >= 100);
}

/// Every partition that somebody subscribes to has one owner, who subscribes to its topic; what is
/// assigned once stays as it is.
#[test]
fn assignments_are_whole_and_stay() {
    for line in include_str!("kafka_assignments.txt").lines() {
        let mut case = case(line);
        case.targets = assign(&case);
        let mut owned = BTreeSet::new();
        for (target, subscribed) in case.targets.iter().zip(&case.subscribed) {
            for (topic_id, index, ()) in target.iter() {
                assert!(
                    subscribed
                        .iter()
                        .any(|topic| case.topics[*topic].id == topic_id)
                );
                assert!(owned.insert((topic_id, index)), "{line}");
            }
        }
        let all: BTreeSet<usize> = case.subscribed.iter().flatten().copied().collect();
        let expected: usize = all
            .iter()
            .map(|topic| case.topics[*topic].partition_count)
            .sum();
        assert_eq!(owned.len(), expected, "{line}");
        assert_eq!(assign(&case), case.targets, "{line}");
    }
}

/// Quadratic work would show.
#[test]
fn a_hundred_thousand_members_are_assigned_in_little_time() {
    const COUNT: usize = 100_000;
    let topics = [AssignableTopic {
        id: Uuid::from_u128(1),
        partition_count: COUNT + COUNT / 2,
    }];
    let ids: Vec<String> = (0..COUNT).map(|at| format!("member-{at:06}")).collect();
    let mut targets = vec![Partitions::default(); COUNT];
    for is_homogeneous in [true, false] {
        for assignor in Assignor::ALL {
            let members: Vec<AssignableMember<'_>> = ids
                .iter()
                .zip(&targets)
                .map(|(id, target)| AssignableMember {
                    id,
                    instance_id: None,
                    subscribed: &[0],
                    target: target.clone(),
                })
                .collect();
            let assigned = assignor.assign(&Assigning {
                topics: &topics,
                members: &members,
                is_homogeneous,
            });
            for (target, new) in targets.iter_mut().zip(assigned) {
                if let Some(new) = new {
                    *target = new;
                }
            }
            let sizes = targets.iter().map(|target| target.iter().count());
            assert_eq!(sizes.sum::<usize>(), COUNT + COUNT / 2);
        }
    }
}
