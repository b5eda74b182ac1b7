//! Interactive queries: stores of a running instance, read from the thread of the test.

use crate::harness::{Error, TestBroker, await_committed, config, create_topic, write, write_at};
use riverrun_streams::dsl::{Materialized, SessionWindows, StreamsBuilder, TimeWindows};
use riverrun_streams::runtime::{
    FailureReason, KafkaStreams, KeyQuery, MultiVersionedKeyQuery, ProcessingGuarantee, Query,
    RangeQuery, StateQueryRequest, TimestampedKeyQuery, TimestampedRangeQuery, VersionedKeyQuery,
    WindowKeyQuery, WindowRangeQuery,
};
use riverrun_streams::state::{KeyValueStore, SessionStore, VersionedKeyValueStore, WindowStore};
use riverrun_streams::topology::{Consumed, Topology};

/// Stores of every kind, of one topic of one partition, and a global table.
fn stores() -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder.global_table_with::<String, String>(
        "users",
        Consumed::default(),
        Materialized::named("users-by-id"),
    );
    builder.table_with::<String, String>(
        "prices",
        Consumed::default(),
        Materialized::versioned("price-history", 60_000),
    );
    let words = builder.stream::<String, String>("words").group_by_key();
    words.count_with(Materialized::named("counts"));
    words
        .windowed_by(TimeWindows::of_size_and_grace(1_000, 60_000))
        .count_with(Materialized::named("counts-by-second"));
    words
        .windowed_by_sessions(SessionWindows::of_inactivity_gap_and_grace(100, 60_000))
        .count_with(Materialized::named("counts-by-session"));
    Ok(builder.build()?)
}

#[test]
fn stores_of_every_kind_are_queried() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "users", 2)?;
    create_topic(&broker, "prices", 1)?;
    create_topic(&broker, "words", 1)?;
    write(&broker, "users", &[("u1", "anna"), ("u2", "bert")])?;
    write_at(
        &broker,
        "prices",
        &[("tea", "2", 1_000), ("tea", "3", 5_000)],
    )?;
    let words = [
        ("a", "", 10),
        ("b", "", 20),
        ("a", "", 1_010),
        ("a", "", 1_020),
    ];
    write_at(&broker, "words", &words)?;
    let state = trials::directory();
    let config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let streams = KafkaStreams::new(stores()?, config);
    let early = streams.store::<KeyValueStore<String, i64>>("counts");
    assert_eq!(
        early.expect_err("it is not started").to_string(),
        "state store `counts` cannot be queried: the instance was not started yet"
    );
    streams.start()?;
    await_committed(&broker, "words", 4)?;
    await_committed(&broker, "prices", 2)?;

    let counts = streams.store::<KeyValueStore<String, i64>>("counts")?;
    assert_eq!(counts.get("a".to_owned())?, Some(3));
    assert_eq!(counts.get("c".to_owned())?, None);
    assert_eq!(counts.all()?, [("a".to_owned(), 3), ("b".to_owned(), 1)]);
    assert_eq!(
        counts.range(Some("b".to_owned()), None)?,
        [("b".to_owned(), 1)]
    );
    // What was overwritten counts until it is merged.
    assert!((2..=4).contains(&counts.approximate_num_entries()?));

    let by_second = streams.store::<WindowStore<String, i64>>("counts-by-second")?;
    assert_eq!(by_second.fetch_one("a".to_owned(), 1_000)?, Some(2));
    assert_eq!(
        by_second.fetch("a".to_owned(), 0..=5_000)?,
        [(0, 1), (1_000, 2)]
    );
    assert_eq!(by_second.fetch_all(0..=999)?.len(), 2);

    let by_session = streams.store::<SessionStore<String, i64>>("counts-by-session")?;
    let sessions = by_session.fetch("a".to_owned())?;
    let sessions: Vec<_> = sessions
        .iter()
        .map(|(session, count)| (session.window.start_ms, session.window.end_ms, *count))
        .collect();
    assert_eq!(sessions, [(10, 10, 1), (1_010, 1_020, 2)]);
    assert_eq!(
        by_session.fetch_session("a".to_owned(), 1_010, 1_020)?,
        Some(2)
    );

    let prices = streams.store::<VersionedKeyValueStore<String, String>>("price-history")?;
    let value = |found: Option<riverrun_streams::state::VersionedRecord<String>>| {
        found.map(|record| record.value)
    };
    assert_eq!(value(prices.get("tea".to_owned())?).as_deref(), Some("3"));
    assert_eq!(
        value(prices.get_at("tea".to_owned(), 4_999)?).as_deref(),
        Some("2")
    );

    queries_of_every_kind_are_answered(&streams)?;

    let users = streams.store::<KeyValueStore<String, String>>("users-by-id")?;
    assert_eq!(users.get("u2".to_owned())?.as_deref(), Some("bert"));

    what_cannot_be_queried_is_told(&streams)
}

/// What partition 0 answers, or a global store.
fn answer<Q: Query>(
    streams: &KafkaStreams,
    store: &str,
    query: Q,
) -> Result<Result<Q::Answer, FailureReason>, Error> {
    let request = StateQueryRequest::in_store(store).with_query(query);
    let mut results = streams.query(&request)?;
    let result = results.partition_results.remove(&0);
    let result = result.or(results.global_result).ok_or("a result")?;
    Ok(result.outcome.map_err(|(reason, _)| reason))
}

fn queries_of_every_kind_are_answered(streams: &KafkaStreams) -> Result<(), Error> {
    let key = || "a".to_owned();
    let get = KeyQuery::<String, i64>::with_key(key());
    assert_eq!(answer(streams, "counts", get)?, Ok(Some(3)));
    let get = TimestampedKeyQuery::<String, i64>::with_key(key());
    let found = answer(streams, "counts", get)?.ok().flatten();
    assert_eq!(
        found.map(|found| (found.value, found.timestamp_ms)),
        Some((3, 1_020))
    );
    let all = RangeQuery::<String, i64>::with_no_bounds().with_descending_keys();
    assert_eq!(
        answer(streams, "counts", all)?,
        Ok(vec![("b".to_owned(), 1), (key(), 3)])
    );
    let some = TimestampedRangeQuery::<String, i64>::with_lower_bound("b".to_owned());
    let found = answer(streams, "counts", some)?.ok().ok_or("an answer")?;
    assert_eq!(found.len(), 1);
    let get = WindowKeyQuery::<String, i64>::with_key_and_window_start_range(key(), 0..=5_000);
    assert_eq!(
        answer(streams, "counts-by-second", get)?,
        Ok(vec![(0, 1), (1_000, 2)])
    );
    let all = WindowRangeQuery::with_window_start_range::<String, i64>(0..=999);
    let found = answer(streams, "counts-by-second", all)?.ok();
    assert_eq!(found.map(|found| found.len()), Some(2));
    let all = WindowRangeQuery::with_key::<String, i64>(key());
    let found = answer(streams, "counts-by-session", all)?.ok();
    assert_eq!(found.map(|found| found.len()), Some(2));
    let get = VersionedKeyQuery::<String, String>::with_key("tea".to_owned()).as_of(4_999);
    let found = answer(streams, "price-history", get)?.ok().flatten();
    assert_eq!(found.map(|version| version.value).as_deref(), Some("2"));
    let all = MultiVersionedKeyQuery::<String, String>::with_key("tea".to_owned());
    let found = answer(streams, "price-history", all.with_ascending_timestamps())?;
    let found: Vec<String> = found.into_iter().flatten().map(|one| one.value).collect();
    assert_eq!(found, ["2", "3"]);
    let get = KeyQuery::<String, String>::with_key("u2".to_owned());
    assert_eq!(
        answer(streams, "users-by-id", get)?,
        Ok(Some("bert".to_owned()))
    );
    let other = KeyQuery::<String, String>::with_key(key());
    assert_eq!(
        answer(streams, "counts", other)?,
        Err(FailureReason::UnknownQueryType)
    );
    Ok(())
}

fn what_cannot_be_queried_is_told(streams: &KafkaStreams) -> Result<(), Error> {
    let unknown = streams.store::<KeyValueStore<String, i64>>("sums");
    assert_eq!(
        unknown.expect_err("there is none").to_string(),
        "the topology has no state store `sums`; `Materialized::named` names the store of a table"
    );
    let other = streams.store::<KeyValueStore<String, String>>("counts")?;
    let other = other.all().expect_err("counts are numbers").to_string();
    assert!(
        other.starts_with("state store `counts` is no `KeyValueStore<String, String>`;"),
        "{other}"
    );
    let counts = streams.store::<KeyValueStore<String, i64>>("counts")?;
    let elsewhere = streams
        .store::<KeyValueStore<String, i64>>("counts")?
        .with_partition(7);
    for gone in [elsewhere.all(), {
        streams.close()?;
        counts.all()
    }] {
        assert_eq!(
            gone.expect_err("no task has it").to_string(),
            "no task of this instance has state store `counts` now: it is being restored, or it may have migrated to \
             another instance"
        );
    }
    let ended = streams.store::<KeyValueStore<String, i64>>("counts");
    assert_eq!(
        ended.expect_err("it has ended").to_string(),
        "state store `counts` cannot be queried: the instance has ended, or is about to"
    );
    Ok(())
}
