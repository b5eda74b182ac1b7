use super::*;
use wire::messages::metadata_response::MetadataResponseBroker;

/// A topic of an answer: name, number of its id, error, and leader and epoch of each partition.
type Told<'a> = (&'a str, u128, ErrorCode, &'a [(i32, i32)]);

fn response<'a>(topics: &[Told<'a>]) -> MetadataResponse<'a> {
    let brokers = [1, 2, 3].map(|id| MetadataResponseBroker {
        node_id: BrokerId(id),
        host: "host",
        port: 9090 + id,
        rack: None,
    });
    let topics =
        topics.iter().map(|(name, id, code, leaders)| {
            let partitions = leaders.iter().enumerate().map(|(index, (leader, epoch))| {
                MetadataResponsePartition {
                    partition_index: index as i32,
                    leader_id: BrokerId(*leader),
                    leader_epoch: *epoch,
                    ..MetadataResponsePartition::default()
                }
            });
            MetadataResponseTopic {
                error_code: code.code(),
                name: Some(*name),
                topic_id: Uuid::from_u128(*id),
                partitions: partitions.collect(),
                ..MetadataResponseTopic::default()
            }
        });
    MetadataResponse {
        brokers: brokers.to_vec().into(),
        cluster_id: Some("cluster"),
        topics: topics.collect(),
        ..MetadataResponse::default()
    }
}

/// Metadata that wants `wanted` and has had these answers.
fn after(wanted: &[&str], answers: &[&[Told<'_>]]) -> Metadata {
    let mut metadata = Metadata::new(1_000, None);
    for topic in wanted {
        metadata.want(topic, 0);
    }
    for (at, answer) in answers.iter().enumerate() {
        let asked = metadata.begin_refresh(at as u64);
        metadata.update(&response(answer), &asked, at as u64);
    }
    metadata
}

const OK: ErrorCode = ErrorCode::None;

#[test]
fn leaders_never_go_back_to_an_older_epoch() {
    let check = |answers: &[&[Told<'_>]], expect: Option<(i32, i32)>| {
        let metadata = after(&["t"], answers);
        let leader = metadata.leader("t", 0).map(|l| (l.id.0, l.epoch.0));
        assert_eq!(leader, expect, "{answers:?}");
    };
    let first: &[Told<'_>] = &[("t", 7, OK, &[(1, 5)])];
    check(&[], None);
    check(&[first], Some((1, 5)));
    check(&[first, &[("t", 7, OK, &[(2, 6)])]], Some((2, 6)));
    check(&[first, &[("t", 7, OK, &[(2, 4)])]], Some((1, 5)));
    check(&[first, &[("t", 7, OK, &[(2, 5)])]], Some((2, 5)));
    // A broker that is too old to tell an epoch is believed.
    check(&[first, &[("t", 7, OK, &[(2, -1)])]], Some((2, -1)));
    // The topic was deleted and made again: its epochs begin anew.
    check(&[first, &[("t", 8, OK, &[(2, 0)])]], Some((2, 0)));
    // Without a leader, or with one that is no known broker, there is none.
    check(&[first, &[("t", 7, OK, &[(-1, 6)])]], None);
    check(&[first, &[("t", 7, OK, &[(9, 6)])]], None);
}

#[test]
fn an_error_takes_the_topic_away_unless_it_only_lacks_a_leader() {
    let check = |code: ErrorCode, is_known: bool| {
        let metadata = after(
            &["t"],
            &[&[("t", 7, OK, &[(1, 5)])], &[("t", 7, code, &[])]],
        );
        assert_eq!(metadata.topic_error("t"), Some(code));
        assert_eq!(metadata.topic("t").is_some(), is_known, "{code}");
        assert_eq!(metadata.topic_by_id(Uuid::from_u128(7)).is_some(), is_known);
    };
    check(ErrorCode::UnknownTopicOrPartition, false);
    check(ErrorCode::TopicAuthorizationFailed, false);
    check(ErrorCode::LeaderNotAvailable, true);
}

#[test]
fn what_an_answer_leaves_out_is_gone() {
    let both: &[Told<'_>] = &[("a", 1, OK, &[(1, 0)]), ("b", 2, OK, &[(1, 0)])];
    let one = &both[..1];
    let names = |metadata: &Metadata| -> Vec<String> {
        metadata.topics().map(|t| t.name.to_string()).collect()
    };
    assert_eq!(names(&after(&["a", "b"], &[both])), ["a", "b"]);
    assert_eq!(names(&after(&["a", "b"], &[both, one])), ["a"]);
    let mut all = after(&[], &[]);
    all.want_all(true);
    for answer in [both, one] {
        let asked = all.begin_refresh(0);
        assert_eq!(asked, Wanted::All);
        all.update(&response(answer), &asked, 0);
    }
    assert_eq!(names(&all), ["a"]);
    assert_eq!(all.updates(), 2);
}

#[test]
fn partitions_past_a_gap_are_not_told_apart() {
    let mut broken = response(&[("t", 7, OK, &[(1, 0), (2, 0), (3, 0)])]);
    let topic = broken.topics.iter().next().expect("there is one");
    let mut partitions: Vec<MetadataResponsePartition<'_>> = topic.partitions.iter().collect();
    partitions[1].partition_index = 5;
    partitions.push(partitions[0].clone());
    broken.topics = vec![MetadataResponseTopic {
        partitions: partitions.into(),
        ..topic
    }]
    .into();
    let mut metadata = after(&["t"], &[]);
    let asked = metadata.begin_refresh(0);
    metadata.update(&broken, &asked, 0);
    assert_eq!(metadata.partition_count("t"), Some(1));
    for index in [-1, 1, 5, i32::MIN, i32::MAX] {
        assert_eq!(metadata.partition("t", index), None);
    }
}

#[test]
fn a_refresh_is_due_at_once_when_something_new_is_wanted_and_else_after_a_while() {
    let mut metadata = Metadata::new(1_000, None);
    let backoff_ms = 100;
    assert_eq!(metadata.refresh_at_ms(backoff_ms), 0);
    let asked = metadata.begin_refresh(50);
    metadata.update(&response(&[]), &asked, 50);
    assert_eq!(metadata.refresh_at_ms(backoff_ms), 1_050);
    metadata.request_refresh();
    assert_eq!(metadata.refresh_at_ms(backoff_ms), 150);
    assert!(metadata.want("t", 60));
    assert_eq!(metadata.refresh_at_ms(backoff_ms), 0);
    assert!(!metadata.want("t", 61), "it is wanted already");

    // What becomes wanted while a request is on its way needs another one.
    let asked = metadata.begin_refresh(70);
    assert!(metadata.want("u", 71));
    metadata.update(&response(&[("t", 7, OK, &[])]), &asked, 72);
    assert_eq!(metadata.refresh_at_ms(backoff_ms), 0);
}

#[test]
fn only_the_answer_to_a_later_request_counts_as_fresh() {
    let mut metadata = Metadata::new(1_000, None);
    let asked = metadata.begin_refresh(0);
    let next = metadata.next_refresh();
    metadata.update(&response(&[]), &asked, 1);
    assert!(!metadata.has_answered(next));
    let asked = metadata.begin_refresh(2);
    metadata.update(&response(&[]), &asked, 3);
    assert!(metadata.has_answered(next));
}

#[test]
fn topics_that_are_not_used_are_not_asked_for_any_more() {
    let mut metadata = Metadata::new(1_000, Some(100));
    metadata.want("idle", 0);
    metadata.want("used", 0);
    metadata.want("used", 80);
    assert_eq!(metadata.begin_refresh(99), topics(&["idle", "used"]));
    assert_eq!(metadata.begin_refresh(150), topics(&["used"]));
    assert!(metadata.want_only(["other"], 160));
    assert_eq!(metadata.begin_refresh(170), topics(&["other"]));
    assert!(!metadata.want_only(["other"], 180));
}

fn topics(names: &[&str]) -> Wanted {
    Wanted::Topics(names.iter().map(|name| Arc::from(*name)).collect())
}

#[test]
fn another_answer_may_tell_of_a_newer_leader() {
    let mut metadata = after(&["t"], &[&[("t", 7, OK, &[(1, 5)])]]);
    let check = |metadata: &mut Metadata, index: i32, id: i32, epoch: i32, expect: bool| {
        let of = ("t", Uuid::ZERO);
        let news = metadata.update_leader(
            of,
            index,
            Leader {
                id: BrokerId(id),
                epoch: LeaderEpoch(epoch),
            },
        );
        assert_eq!(news, expect, "{index} {id} {epoch}");
    };
    check(&mut metadata, 0, 2, 5, false);
    check(&mut metadata, 1, 2, 9, false);
    check(&mut metadata, -1, 2, 9, false);
    check(&mut metadata, 0, 4, 6, true);
    assert_eq!(metadata.leader("t", 0), None, "its broker is not known");
    metadata.update_broker(Broker {
        id: BrokerId(4),
        endpoint: Endpoint::new("new", 1),
        rack: None,
    });
    assert_eq!(
        metadata.leader("t", 0),
        Some(Leader {
            id: BrokerId(4),
            epoch: LeaderEpoch(6)
        })
    );
    // What was made again under the same name has epochs of its own.
    let older = ("t", Uuid::from_u128(6));
    assert!(!metadata.update_leader(
        older,
        0,
        Leader {
            id: BrokerId(2),
            epoch: LeaderEpoch(9)
        }
    ));
    let same = ("t", Uuid::from_u128(7));
    assert!(metadata.update_leader(
        same,
        0,
        Leader {
            id: BrokerId(2),
            epoch: LeaderEpoch(9)
        }
    ));
}

#[test]
fn brokers_are_those_of_the_last_answer() {
    let mut metadata = after(&[], &[&[]]);
    let ids: Vec<i32> = metadata.brokers().map(|broker| broker.id.0).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(
        metadata.broker(BrokerId(3)).map(|b| b.endpoint.port),
        Some(9093)
    );
    assert_eq!(metadata.cluster_id(), Some("cluster"));
    let mut odd = response(&[]);
    odd.brokers = vec![MetadataResponseBroker {
        node_id: BrokerId(4),
        host: "host",
        port: 70_000,
        rack: None,
    }]
    .into();
    let asked = metadata.begin_refresh(1);
    metadata.update(&odd, &asked, 1);
    assert_eq!(metadata.brokers().count(), 0, "no port is that high");
}
