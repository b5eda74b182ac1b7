//! Incremental fetch sessions over the wire: only what has changed is told.

use model::ErrorCode;
use testkit::{Client, FETCH_VERSION, TestServer, batch, fetch_topic, records_of};
use wire::messages::fetch_request::ForgottenTopic;
use wire::messages::{FetchRequest, FetchResponse};

/// An answer: its error, its session, and the partitions told, with their values.
type Told = (ErrorCode, i32, Vec<(i32, Vec<String>)>);

fn fetch(
    client: &mut Client,
    session: (i32, i32),
    partitions: &[(i32, i64)],
    forgotten: &[i32],
) -> Told {
    let topics = match partitions {
        [] => vec![],
        partitions => vec![fetch_topic("topic", partitions)],
    };
    let forgotten = match forgotten {
        [] => vec![],
        partitions => vec![ForgottenTopic {
            topic: "topic",
            partitions: partitions.into(),
            ..ForgottenTopic::default()
        }],
    };
    let request = FetchRequest {
        session_id: session.0,
        session_epoch: session.1,
        topics: topics.into(),
        forgotten_topics_data: forgotten.into(),
        ..FetchRequest::default()
    };
    let answer = client.call(FETCH_VERSION, &request);
    let response: FetchResponse<'_> = answer.read();
    let mut told = Vec::new();
    for topic in response.responses.iter() {
        for partition in topic.partitions.iter() {
            let records = records_of(partition.records.unwrap_or_default());
            let values = records.into_iter().map(|one| one.value.unwrap());
            let values = values.map(|value| String::from_utf8(value).unwrap());
            told.push((partition.partition_index, values.collect()));
        }
    }
    told.sort();
    (
        ErrorCode::from_code(response.error_code),
        response.session_id,
        told,
    )
}

fn values(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[test]
fn a_session_tells_what_has_changed() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 3, &[]);
    client.produce("topic", 1, &batch(&["a"])).assert_accepted();

    // A full fetch tells every partition and begins a session.
    let (error, id, told) = fetch(&mut client, (0, 0), &[(0, 0), (1, 0), (2, 0)], &[]);
    assert_eq!(error, ErrorCode::None);
    assert_ne!(id, 0);
    let expected = [(0, values(&[])), (1, values(&["a"])), (2, values(&[]))];
    assert_eq!(told, expected);

    // The consumer moves on; nothing else has changed.
    let (_, _, told) = fetch(&mut client, (id, 1), &[(1, 1)], &[]);
    assert_eq!(told, []);

    // A change of one partition is told alone, without being asked for.
    client.produce("topic", 2, &batch(&["b"])).assert_accepted();
    let (_, _, told) = fetch(&mut client, (id, 2), &[], &[]);
    assert_eq!(told, [(2, values(&["b"]))]);
    // Until the consumer moves on.
    let (_, _, told) = fetch(&mut client, (id, 3), &[], &[]);
    assert_eq!(told, [(2, values(&["b"]))]);

    // A forgotten partition is told no more.
    client.produce("topic", 0, &batch(&["c"])).assert_accepted();
    let (_, _, told) = fetch(&mut client, (id, 4), &[(2, 1)], &[0]);
    assert_eq!(told, []);
    // And told again when it is back.
    let (_, _, told) = fetch(&mut client, (id, 5), &[(0, 0)], &[]);
    assert_eq!(told, [(0, values(&["c"]))]);

    // Epochs follow one another.
    let (error, _, _) = fetch(&mut client, (id, 5), &[], &[]);
    assert_eq!(error, ErrorCode::InvalidFetchSessionEpoch);
    // Any connection may go on with the session.
    let (error, same, _) = fetch(&mut server.connect(), (id, 6), &[(0, 1)], &[]);
    assert_eq!((error, same), (ErrorCode::None, id));
    // The last epoch ends it.
    let (error, none, _) = fetch(&mut client, (id, -1), &[(0, 1)], &[]);
    assert_eq!((error, none), (ErrorCode::None, 0));
    let (error, _, _) = fetch(&mut client, (id, 7), &[], &[]);
    assert_eq!(error, ErrorCode::FetchSessionIdNotFound);
    server.assert_serves();
}

#[test]
fn sessions_that_never_were_are_unknown() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    for id in [1, i32::MAX, -1, i32::MIN] {
        let (error, told_id, told) = fetch(&mut client, (id, 1), &[(0, 0)], &[]);
        assert_eq!(error, ErrorCode::FetchSessionIdNotFound, "{id}");
        assert_eq!((told_id, told.len()), (0, 0));
    }
    server.assert_serves();
}

#[test]
fn a_session_may_begin_without_partitions() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    client.produce("topic", 0, &batch(&["a"])).assert_accepted();
    let (error, id, told) = fetch(&mut client, (0, 0), &[], &[]);
    assert_eq!((error, told), (ErrorCode::None, vec![]));
    assert_ne!(id, 0);
    let (error, same, told) = fetch(&mut client, (id, 1), &[(0, 0)], &[]);
    assert_eq!((error, same), (ErrorCode::None, id));
    assert_eq!(told, [(0, values(&["a"]))]);
    // One that still has none at its second fetch ends.
    let (_, id, _) = fetch(&mut client, (0, 0), &[], &[]);
    let (error, none, _) = fetch(&mut client, (id, 1), &[], &[]);
    assert_eq!((error, none), (ErrorCode::None, 0));
    server.assert_serves();
}

#[test]
fn errors_are_told_in_a_session() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let (_, id, _) = fetch(&mut client, (0, 0), &[(0, 0)], &[]);
    let (_, _, told) = fetch(&mut client, (id, 1), &[], &[]);
    assert_eq!(told, []);
    client.delete_topic("topic");
    let request = FetchRequest {
        session_id: id,
        session_epoch: 2,
        ..FetchRequest::default()
    };
    let answer = client.call(FETCH_VERSION, &request);
    let response: FetchResponse<'_> = answer.read();
    let topic = response.responses.iter().next().unwrap();
    let partition = topic.partitions.iter().next().unwrap();
    assert_eq!(
        ErrorCode::from_code(partition.error_code),
        ErrorCode::UnknownTopicOrPartition
    );
}

#[test]
fn a_session_has_few_partitions_that_do_not_exist() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.create_topic("topic", 1, &[]);
    let asked = |indexes: std::ops::RangeInclusive<i32>| -> Vec<(i32, i64)> {
        indexes.map(|index| (index, 0)).collect()
    };
    let (error, id, told) = fetch(&mut client, (0, 0), &asked(0..=101), &[]);
    assert_eq!((error, id, told.len()), (ErrorCode::None, 0, 102));
    let (error, id, told) = fetch(&mut client, (0, 0), &asked(0..=100), &[]);
    assert_eq!((error, told.len()), (ErrorCode::None, 101));
    assert_ne!(id, 0);

    // One more ends the session with its answer.
    let (error, none, told) = fetch(&mut client, (id, 1), &asked(101..=101), &[]);
    assert_eq!((error, none, told.len()), (ErrorCode::None, 0, 101));
    let (error, _, _) = fetch(&mut client, (id, 2), &[], &[]);
    assert_eq!(error, ErrorCode::FetchSessionIdNotFound);
}

#[test]
fn a_session_remembers_no_text_that_is_too_long_for_a_topic() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let mut session_of = |length: usize, version: i16| {
        let name = "a".repeat(length);
        let request = FetchRequest {
            session_epoch: 0,
            topics: vec![fetch_topic(&name, &[(0, 0)])].into(),
            ..FetchRequest::default()
        };
        let answer = client.call(version, &request);
        let response: FetchResponse<'_> = answer.read();
        assert_eq!(response.responses.len(), 1);
        response.session_id
    };
    assert_eq!(session_of(250, 12), 0);
    assert_ne!(session_of(249, 12), 0);
}
