use super::*;
use crate::create_topics::{NewTopic, create_topics};
use crate::test_cluster::{TestCluster, wrapped};
use expect_test::{Expect, expect};
use metadata::ConfigResource;
use model::BrokerId;

/// A cluster with the topics `a`, `b` and `c`.
fn cluster(pairs: &[(&str, &str)]) -> TestCluster {
    let mut cluster = TestCluster::new(pairs).with_brokers(&[BrokerId(1)]);
    let topics = ["a", "b", "c"].map(|name| NewTopic {
        configs: vec![("retention.ms".to_owned(), Some("5".to_owned()))],
        ..NewTopic::of_defaults(name)
    });
    let created = cluster
        .apply(|image, context, random| create_topics(image, context, &topics, false, random));
    assert!(created.iter().all(|topic| topic.result.is_ok()));
    cluster
}

/// Words: a name, `#name` for the id of a topic, `name#name` for both, `#` for neither.
fn parse(cluster: &TestCluster, script: &str) -> Vec<TopicToDelete> {
    let id_of = |name: &str| match name {
        "" => Uuid::ZERO,
        name => cluster
            .image
            .topics
            .id_of(name)
            .unwrap_or(Uuid::from_u128(77)),
    };
    let words = script.split_whitespace();
    words
        .map(|word| {
            let (name, id) = word.split_once('#').unwrap_or((word, ""));
            TopicToDelete {
                name: (!name.is_empty()).then(|| name.to_owned()),
                topic_id: id_of(id),
            }
        })
        .collect()
}

fn delete(cluster: &mut TestCluster, script: &str, access: &dyn Fn(&str) -> TopicAccess) -> String {
    let topics = parse(cluster, script);
    let ids: Vec<_> = ["a", "b", "c"]
        .map(|name| (name, cluster.image.topics.id_of(name)))
        .into();
    let results = cluster.apply(|image, context, _| delete_topics(image, context, &topics, access));
    let mut shown = String::new();
    for DeletedTopic {
        name,
        topic_id,
        result,
    } in results
    {
        let id = ids
            .iter()
            .find(|(_, id)| *id == Some(topic_id))
            .map_or("-", |(name, _)| name);
        let result = match result {
            Ok(()) => {
                let name = name.as_deref().unwrap();
                assert!(cluster.image.topics.by_id(topic_id).is_none());
                assert!(
                    cluster
                        .image
                        .configs
                        .of(&ConfigResource::topic(name))
                        .is_none()
                );
                "deleted".to_owned()
            }
            Err(error) => {
                let words = error.message.as_deref().unwrap_or("null");
                format!("{} {words}", error.code.code())
            }
        };
        shown += &format!("{} id {id}: {result}\n", name.as_deref().unwrap_or("-"));
    }
    let left: Vec<_> = cluster
        .image
        .topics
        .iter()
        .map(|topic| topic.name.clone())
        .collect();
    shown + &format!("left {left:?}\n")
}

#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
fn check(script: &str, expect: Expect) {
    let shown = delete(&mut cluster(&[]), script, &|_| TopicAccess::Delete);
    expect.assert_eq(&wrapped(&shown));
}

#[test]
fn topics_are_deleted_by_name_and_by_id() {
    check(
        "a #b",
        expect![[r#"
        a id a: deleted
        b id b: deleted
        left ["c"]
    "#]],
    );
    check(
        "nosuch #nosuch",
        expect![[r#"
        nosuch id -: 3 This server does not host this topic-partition.
        - id -: 100 This server does not host this topic ID.
        left ["a", "b", "c"]
    "#]],
    );
}

#[test]
fn a_topic_is_named_once_and_in_one_way() {
    check(
        "a a #b #b c",
        expect![[r#"
        a id -: 42 Duplicate topic name.
        - id b: 42 Duplicate topic id.
        c id c: deleted
        left ["a", "b"]
    "#]],
    );
    check(
        "a #a #b b b",
        expect![[r#"
        a id a: 42 The provided topic name maps to an ID that was already supplied.
        a id a: 42 The provided topic name maps to an ID that was already supplied.
        b id b: deleted
        b id -: 42 Duplicate topic name.
        left ["a", "c"]
    "#]],
    );
    check(
        "a#a # a#a",
        expect![[r#"
        a id a: 42 You may not specify both topic name and topic id.
        - id -: 42 Neither topic name nor id were specified.
        left ["a", "b", "c"]
    "#]],
    );
}

#[test]
fn what_a_client_may_not_see_stays_unseen() {
    let access = |name: &str| match name {
        "a" => TopicAccess::Delete,
        "b" => TopicAccess::Describe,
        _ => TopicAccess::None,
    };
    let shown = delete(&mut cluster(&[]), "a b c nosuch", &access);
    expect![[r#"
        a id a: deleted
        b id -: 29 Topic authorization failed.
        c id -: 29 Topic authorization failed.
        nosuch id -: 29 Topic authorization failed.
        left ["b", "c"]
    "#]]
    .assert_eq(&wrapped(&shown));
    let shown = delete(&mut cluster(&[]), "#a #b #c #nosuch", &access);
    expect![[r#"
        a id a: deleted
        b id b: 29 Topic authorization failed.
        - id c: 29 Topic authorization failed.
        - id -: 100 This server does not host this topic ID.
        left ["b", "c"]
    "#]]
    .assert_eq(&wrapped(&shown));
}

#[test]
fn deletion_may_be_disabled() {
    let mut cluster = cluster(&[("delete.topic.enable", "false")]);
    let shown = delete(&mut cluster, "a nosuch #b", &|_| TopicAccess::Delete);
    expect![[r#"
        a id -: 73 null
        nosuch id -: 73 null
        - id b: 73 null
        left ["a", "b", "c"]
    "#]]
    .assert_eq(&wrapped(&shown));
}
