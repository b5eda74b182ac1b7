//! The assignors against a table that Apache Kafka's own classes filled in, and their promises.

use super::{Assignment, Assignor, Member, Subscription, Topics, protocol};
use model::TopicPartition;
use std::fmt::Write;

/// Results of the assignors of kafka-clients 4.3.1 for random groups over several rebalances.
const CASES: &str = include_str!("tests/cases.txt");

#[test]
fn results_equal_those_of_the_java_client() {
    let cases = std::env::var("CASES")
        .ok()
        .map(|path| std::fs::read_to_string(path).unwrap());
    let cases = cases.as_deref().unwrap_or(CASES);
    let (mut wrong, mut count) = (0, 0);
    for case in cases.lines() {
        let (given, expected) = case.split_once(" => ").unwrap();
        count += 1;
        let found = solve(given);
        if found != expected {
            wrong += 1;
            println!("{given}\n  java {expected}\n  here {found}");
        }
    }
    assert_eq!(wrong, 0, "of {count}");
}

/// Solves a problem such as `range; t=x,xy; a t rack=x; b t generation=1 owned=t0`: the assignor,
/// topics with the racks of each partition, members with their topics.
fn solve(given: &str) -> String {
    let mut parts = given.split(';').map(str::trim);
    let assignor = Assignor::from_name(parts.next().unwrap()).unwrap();
    let topics = parts.next().unwrap().split(' ').map(|topic| {
        let (name, racks) = topic.split_once('=').unwrap();
        let letters = |racks: &str| {
            racks
                .chars()
                .filter(|c| *c != '-')
                .map(String::from)
                .collect()
        };
        (name.to_owned(), racks.split(',').map(letters).collect())
    });
    let topics: Topics = topics.collect();
    let members: Vec<Member> = parts.map(|text| member(text, &assignor)).collect();
    let mut found = String::new();
    for (member, list) in members.iter().zip(assignor.assign(&topics, &members)) {
        let list: Vec<String> = list
            .partitions
            .iter()
            .map(|p| format!("{}{}", p.topic, p.partition))
            .collect();
        write!(found, "{}:{} ", member.member_id, list.join(",")).unwrap();
    }
    found.trim_end().to_owned()
}

fn member(text: &str, assignor: &Assignor) -> Member {
    let mut words = text.split(' ');
    let mut member = Member {
        member_id: words.next().unwrap().to_owned(),
        ..Member::default()
    };
    member.subscription.topics = words.next().unwrap().chars().map(String::from).collect();
    member.subscription.generation_id = -1;
    for (key, value) in words.map(|word| word.split_once('=').unwrap()) {
        let subscription = &mut member.subscription;
        match key {
            "instance" => member.group_instance_id = Some(value.to_owned()),
            "rack" => subscription.rack_id = Some(value.to_owned()),
            "generation" => subscription.generation_id = value.parse().unwrap(),
            "owned" => {
                let owned = value.split(',').filter(|name| !name.is_empty());
                subscription.owned_partitions = owned
                    .map(|name| TopicPartition::new(&name[..1], name[1..].parse().unwrap()))
                    .collect();
            }
            _ => panic!("{key}"),
        }
    }
    let Subscription {
        owned_partitions,
        generation_id,
        user_data,
        ..
    } = &mut member.subscription;
    *user_data = assignor.user_data(owned_partitions, *generation_id);
    if !assignor.is_cooperative() {
        owned_partitions.clear();
    }
    member
}

#[test]
fn subscriptions_and_assignments_come_back() {
    let owned = vec![TopicPartition::new("t", 1), TopicPartition::new("u", 0)];
    let subscription = Subscription {
        topics: vec!["t".to_owned(), "u".to_owned()],
        user_data: Some(vec![1, 2]),
        owned_partitions: owned.clone(),
        generation_id: 7,
        rack_id: Some("r".to_owned()),
    };
    let bytes = protocol::encode_subscription(&subscription);
    assert_eq!(
        protocol::decode_subscription(&bytes),
        Ok(subscription.clone())
    );
    let owned = Assignment::from(owned);
    let bytes = protocol::encode_assignment(&owned);
    assert_eq!(protocol::decode_assignment(&bytes), Ok(owned));
    assert_eq!(protocol::decode_assignment(&[]), Ok(Assignment::default()));
    // Version 0 as clients of old write it, and a version of the future.
    let old = [0, 0, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff];
    let decoded = protocol::decode_subscription(&old).unwrap();
    assert_eq!(
        (decoded.topics, decoded.generation_id),
        (vec!["t".to_owned()], -1)
    );
    let mut future = protocol::encode_subscription(&subscription);
    future[1] = 9;
    future.extend([1, 2, 3]);
    assert_eq!(protocol::decode_subscription(&future), Ok(subscription));
}

proptest::proptest! {

    #![proptest_config(trials::property(256))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
        let _ = protocol::decode_subscription(&bytes);
        let _ = protocol::decode_assignment(&bytes);
        let _ = protocol::decode_sticky_user_data(&bytes);
    }
}
