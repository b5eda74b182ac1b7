//! Topics: made with good names and settings only, deleted with their data, made on demand.

use crate::directory::names_beginning as names;
use model::ErrorCode;
use std::collections::BTreeMap;
use testkit::{TestServer, batch, wait_until};
use wire::messages::create_topics_request::CreatableTopic;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, MetadataRequest, MetadataResponse,
};

#[test]
fn illegal_names_are_refused() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let long = "x".repeat(250);
    for name in [
        "", ".", "..", "a b", "a/b", "../a", "a\\b", "a:b", "a\0b", "ä", "a\nb", "a,b", &long,
    ] {
        let (error, _) = client.try_create_topic(name, 1, &[]);
        assert_eq!(error, ErrorCode::InvalidTopicException, "{name:?}");
        // Nor is it made because somebody asks for it.
        let error = client.topic_error(name);
        assert_eq!(error, ErrorCode::InvalidTopicException, "{name:?}");
    }
    // What quotes such a name is longer than an answer can carry.
    let longest = "x".repeat(32_767);
    let (error, _) = client.try_create_topic(&longest, 1, &[]);
    assert_eq!(error, ErrorCode::InvalidTopicException);
    client.create_topic(&"x".repeat(249), 1, &[]);
    client.create_topic("A.b_c-9", 1, &[]);
    // Names that metrics cannot tell apart.
    let (error, _) = client.try_create_topic("A_b.c-9", 1, &[]);
    assert_eq!(error, ErrorCode::InvalidTopicException);
    server.assert_serves();
}

#[test]
fn illegal_settings_are_refused() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for (key, value) in [
        ("retention.ms", "soon"),
        ("retention.ms", "-2"),
        ("segment.bytes", "1"),
        ("segment.bytes", "99999999999"),
        ("cleanup.policy", "burn"),
        ("compression.type", "rar"),
        ("message.timestamp.type", "Now"),
        ("max.message.bytes", "-1"),
        ("min.insync.replicas", "0"),
        ("no.such.key", "1"),
        ("", ""),
    ] {
        let (error, _) = client.try_create_topic("topic", 1, &[(key, value)]);
        assert_eq!(error, ErrorCode::InvalidConfig, "{key}={value}");
    }
    for (partitions, expected) in [
        (0, ErrorCode::InvalidPartitions),
        (-2, ErrorCode::InvalidPartitions),
        (i32::MIN, ErrorCode::InvalidPartitions),
        (10_001, ErrorCode::PolicyViolation),
        (i32::MAX, ErrorCode::PolicyViolation),
    ] {
        let (error, _) = client.try_create_topic("topic", partitions, &[]);
        assert_eq!(error, expected, "{partitions} partitions");
    }
    assert_eq!(client.topics(), [""; 0]);
    server.assert_serves();
}

#[test]
fn a_topic_that_is_deleted_and_made_again_is_empty() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let settings = [("file.delete.delay.ms", "0")];
    let first_id = client.create_topic("topic", 2, &settings);
    client
        .produce("topic", 0, &batch(&["old"]))
        .assert_accepted();
    let (again, _) = client.try_create_topic("topic", 1, &[]);
    assert_eq!(again, ErrorCode::TopicAlreadyExists);
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    assert_eq!(
        client.produce("topic", 0, &batch(&["late"])).error,
        ErrorCode::UnknownTopicOrPartition
    );
    assert_eq!(
        client.fetch("topic", 0, 0).error,
        ErrorCode::UnknownTopicOrPartition
    );
    assert_eq!(
        client.delete_topic("topic"),
        ErrorCode::UnknownTopicOrPartition
    );
    let second_id = client.create_topic("topic", 1, &settings);
    assert_ne!(first_id, second_id);
    let fetched = client.fetch("topic", 0, 0);
    assert_eq!((fetched.high_watermark, fetched.values().len()), (0, 0));
    client
        .produce("topic", 0, &batch(&["new"]))
        .assert_accepted();
    assert_eq!(client.fetch("topic", 0, 0).values(), ["new"]);
    wait_until("the old files are removed", || {
        names(server.directory(), "topic-") == ["topic-0"]
    });
}

#[test]
fn deleted_partitions_that_wait_for_removal_are_gone_after_a_restart() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.delete_topic("topic");
    // The default delay is a minute.
    let waiting = names(directory.path(), "topic-0.");
    assert!(waiting[0].ends_with("-delete"), "{waiting:?}");
    server.stop();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    assert_eq!(names(directory.path(), "topic-0"), [""; 0]);
    assert_eq!(server.connect().topics(), [""; 0]);
}

#[test]
fn a_topic_is_made_when_somebody_asks_for_it() {
    let server = TestServer::start(&[("num.partitions", "3")]);
    let mut client = server.connect();
    let first = client.topic_error("wanted");
    assert!(
        [ErrorCode::UnknownTopicOrPartition, ErrorCode::None].contains(&first),
        "{first}"
    );
    client.wait_for_topic("wanted");
    client
        .produce("wanted", 2, &batch(&["value"]))
        .assert_accepted();
    assert_eq!(
        client.produce("wanted", 3, &batch(&["value"])).error,
        ErrorCode::UnknownTopicOrPartition
    );
}

/// One more than are made at once.
#[test]
fn many_topics_are_made_when_somebody_asks_for_them() {
    let server = TestServer::start(&[("num.partitions", "2")]);
    let mut client = server.connect();
    let mut names: Vec<String> = (0..501).map(|number| format!("topic-{number}")).collect();
    names.push("no/name".to_owned());
    let request = MetadataRequest {
        topics: Some(
            names
                .iter()
                .map(|name| MetadataRequestTopic {
                    name: Some(name),
                    ..MetadataRequestTopic::default()
                })
                .collect(),
        ),
        allow_auto_topic_creation: true,
        ..MetadataRequest::default()
    };
    let mut codes = || -> BTreeMap<String, ErrorCode> {
        client.send(9, &request);
        // On a machine that is busy a thousand logs take longer than anything else that is waited for.
        assert!(!client.is_silent_for(5 * testkit::LIMIT));
        let answer = client.receive();
        let answer: MetadataResponse<'_> = answer.read();
        let topics = answer.topics.iter();
        topics
            .map(|one| {
                let name = one.name.expect("asked for by name").to_owned();
                (name, ErrorCode::from_code(one.error_code))
            })
            .collect()
    };
    for expected in [ErrorCode::UnknownTopicOrPartition, ErrorCode::None] {
        let mut codes = codes();
        let refused = codes.remove("no/name");
        assert_eq!(refused, Some(ErrorCode::InvalidTopicException));
        assert_eq!(codes.len() + 1, names.len());
        assert!(codes.values().all(|code| *code == expected), "{codes:?}");
    }
    client
        .produce("topic-500", 1, &batch(&["value"]))
        .assert_accepted();
}

#[test]
fn a_topic_is_not_made_where_that_is_forbidden() {
    let server = TestServer::start(&[("auto.create.topics.enable", "false")]);
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(
            client.topic_error("wanted"),
            ErrorCode::UnknownTopicOrPartition
        );
    }
    assert_eq!(client.topics(), [""; 0]);
}

#[test]
fn without_any_time_nothing_is_decided() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let topic = |name| CreatableTopic {
        name,
        num_partitions: 1,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    let mut errors = |timeout_ms: i32, names: &[&'static str]| {
        let request = CreateTopicsRequest {
            topics: names.iter().map(|name| topic(name)).collect(),
            timeout_ms,
            ..CreateTopicsRequest::default()
        };
        let answer = client.call(5, &request);
        let response: CreateTopicsResponse<'_> = answer.read();
        let errors = response.topics.iter();
        errors
            .map(|one| ErrorCode::from_code(one.error_code))
            .collect::<Vec<_>>()
    };
    let late = ErrorCode::RequestTimedOut;
    assert_eq!(errors(0, &["topic"]), [late]);
    assert_eq!(errors(-1, &["topic", "twice", "twice"]), [late; 3]);
    // What is wrong anyhow takes no time.
    assert_eq!(errors(0, &["twice", "twice"]), [ErrorCode::InvalidRequest]);
    assert_eq!(client.topics(), [""; 0]);
}

#[test]
fn settings_of_a_topic_hold() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[("max.message.bytes", "100")]);
    assert_eq!(client.topic_config("topic", "max.message.bytes"), "100");
    let large = "x".repeat(100);
    assert_eq!(
        client.produce("topic", 0, &batch(&[&large])).error,
        ErrorCode::MessageTooLarge
    );
    client.produce("topic", 0, &batch(&["x"])).assert_accepted();
}

#[test]
fn the_broker_can_set_the_time_of_append() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let settings = [("message.timestamp.type", "LogAppendTime")];
    client.create_topic("topic", 1, &settings);
    let before = testkit::now_ms();
    let produced = client.produce("topic", 0, &batch(&["a", "b"]));
    let after = testkit::now_ms();
    produced.assert_accepted();
    assert!((before..=after).contains(&produced.log_append_time_ms));
    for record in client.fetch("topic", 0, 0).records() {
        assert_eq!(record.timestamp, produced.log_append_time_ms);
    }
    let found = client.list_offset("topic", 0, before);
    assert_eq!(
        (found.offset, found.timestamp),
        (0, produced.log_append_time_ms)
    );
}

#[test]
fn the_files_of_a_deleted_topic_stay_for_as_long_as_a_delay_can_be() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let forever = i64::MAX.to_string();
    client.create_topic("kept", 1, &[("file.delete.delay.ms", &forever)]);
    client.create_topic("removed", 1, &[("file.delete.delay.ms", "0")]);
    for topic in ["kept", "removed"] {
        client
            .produce(topic, 0, &batch(&["value"]))
            .assert_accepted();
        assert_eq!(client.delete_topic(topic), ErrorCode::None);
    }
    let left = |topic: &str| !names(server.directory(), topic).is_empty();
    wait_until("what is due is removed", || !left("removed"));
    assert!(left("kept"));
    server.assert_serves();
}
