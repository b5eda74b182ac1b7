//! Aggregations of streams, through the test driver: what their stores and changelogs have.

use bytes::Bytes;
use riverrun_streams::dsl::{
    DslStores, Grouped, KGroupedStream, KTable, Materialized, SessionWindows, SlidingWindows,
    StreamsBuilder, TimeWindows, TopologyConfig,
};
use riverrun_streams::headers::Headers;
use riverrun_streams::record::Record;
use riverrun_streams::serde::{Window, Windowed};
use riverrun_streams::state::{
    DslStoreFormat, KeyValueStore, SessionStore, StoreType, WindowStore,
};
use riverrun_streams::test_driver::TopologyTestDriver;

type Error = Box<dyn std::error::Error>;

#[test]
fn words_are_counted() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<Option<String>, String>("lines")
        .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count_with(Materialized::named("counts"));
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let lines = driver.input_topic::<Option<String>, String>("lines");
    lines.pipe(None, "to be or not to be".to_owned(), 10)?;
    lines.pipe(None, "be".to_owned(), 5)?;
    let counts = driver
        .state_store::<KeyValueStore<String, i64>>("counts")
        .expect("the store");
    let all: Vec<(String, i64)> = counts.borrow().all()?.collect::<Result<_, _>>()?;
    let expected = [("be", 3), ("not", 1), ("or", 1), ("to", 2)];
    assert_eq!(all, expected.map(|(word, count)| (word.to_owned(), count)));
    assert_eq!(
        driver.produced_topic_names(),
        ["test-counts-changelog", "test-counts-repartition"].map(Into::into)
    );
    let changelog = driver.output_topic::<String, i64>("test-counts-changelog");
    let changes = changelog.read_records()?;
    let last = changes.last().expect("a change");
    assert_eq!(
        (last.key.as_str(), last.value, last.timestamp_ms),
        ("be", 3, 10)
    );
    Ok(())
}

#[test]
fn a_named_group_has_one_repartition_and_an_unnamed_one_has_one_each() -> Result<(), Error> {
    let check = |grouped: Grouped<i64, String>, expected: &[&str]| {
        let builder = StreamsBuilder::new();
        let group = builder
            .stream::<String, String>("in")
            .group_by_with(|_, value| value.len() as i64, grouped);
        group.count();
        group.reduce(|first, _| first.clone());
        let driver = TopologyTestDriver::new(&builder.build()?)?;
        let input = driver.input_topic::<String, String>("in");
        input.pipe("k".to_owned(), "abc".to_owned(), 0)?;
        let topics: Vec<String> = driver
            .produced_topic_names()
            .iter()
            .filter(|topic| topic.ends_with("-repartition"))
            .map(ToString::to_string)
            .collect();
        assert_eq!(topics, expected);
        Ok::<_, Error>(())
    };
    check(Grouped::named("g"), &["test-g-repartition"])?;
    check(
        Grouped::default(),
        &[
            "test-KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition",
            "test-KSTREAM-REDUCE-STATE-STORE-0000000007-repartition",
        ],
    )
}

#[test]
fn a_window_takes_records_until_its_grace_is_over() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, i64>("in")
        .group_by_key()
        .windowed_by(TimeWindows::of_size_and_grace(100, 10))
        .reduce_with(|sum, value| sum + value, Materialized::named("sums"));
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, i64>("in");
    let key = || "k".to_owned();
    for (value, timestamp_ms) in [(1, 1000), (2, 1109), (4, 1001), (8, 1110), (16, 1002)] {
        input.pipe(key(), value, timestamp_ms)?;
    }
    let sums = driver
        .state_store::<WindowStore<String, i64>>("sums")
        .expect("the store");
    let at = |start| Windowed::new(key(), Window::of_time(start, start + 100));
    let all: Vec<_> = sums.borrow().all()?.collect::<Result<_, _>>()?;
    assert_eq!(all, [(at(1000), 5), (at(1100), 10)]);
    assert_eq!(driver.metrics().dropped_records, 1);
    Ok(())
}

/// As Kafka Streams numbers them: the number is in the name of the changelog.
#[test]
fn a_count_with_unnamed_settings_draws_a_number_more_unless_windows_slide() -> Result<(), Error> {
    let check = |is_sliding: bool, number: &str| -> Result<(), Error> {
        let builder = StreamsBuilder::new();
        let group = builder.stream::<String, String>("in").group_by_key();
        let windows = if is_sliding {
            group.windowed_by_sliding(SlidingWindows::of_time_difference_and_grace(50, 0))
        } else {
            group.windowed_by(TimeWindows::of_size_and_grace(50, 0))
        };
        windows.count_with(Materialized::default());
        let described = builder.build()?.describe().to_string();
        let store = format!("(stores: [KSTREAM-AGGREGATE-STATE-STORE-{number}])");
        assert!(described.contains(&store), "{described}");
        Ok(())
    };
    check(true, "0000000001")?;
    check(false, "0000000002")
}

#[test]
fn sliding_windows_begin_with_records() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("in")
        .group_by_key()
        .windowed_by_sliding(SlidingWindows::of_time_difference_and_grace(50, 1000))
        .reduce_with(
            |before, value| format!("{before}{value}"),
            Materialized::named("texts"),
        );
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, String>("in");
    for (value, timestamp_ms) in [("a", 1000), ("b", 1020), ("c", 1050)] {
        input.pipe("k".to_owned(), value.to_owned(), timestamp_ms)?;
    }
    let texts = driver
        .state_store::<WindowStore<String, String>>("texts")
        .expect("the store");
    let all: Vec<(i64, String)> = texts
        .borrow()
        .fetch(&"k".to_owned(), 0..=2000)?
        .collect::<Result<_, _>>()?;
    let expected = [
        (950, "a"),
        (970, "ab"),
        (1000, "abc"),
        (1001, "bc"),
        (1021, "c"),
    ];
    assert_eq!(all, expected.map(|(start, text)| (start, text.to_owned())));
    Ok(())
}

/// What sliding windows give for records of value and time, where "-" makes an aggregate null.
fn sliding_texts(records: &[(&str, i64)]) -> Result<Vec<String>, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("in")
        .group_by_key()
        .windowed_by_sliding(SlidingWindows::of_time_difference_and_grace(25, 1000))
        .aggregate(
            || Some(String::new()),
            |_, value: &String, before: Option<String>| {
                (value != "-").then(|| before.unwrap_or_default() + value)
            },
        )
        .to_stream()
        .map(|windowed, value| {
            let start_ms = windowed.window.start_ms;
            (start_ms.to_string(), value.clone().flatten())
        })
        .to("out");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, String>("in");
    for (value, timestamp_ms) in records {
        input.pipe("k".to_owned(), (*value).to_owned(), *timestamp_ms)?;
    }
    let output = driver.output_topic::<String, Option<String>>("out");
    let results = output.read_records()?.into_iter();
    Ok(results
        .map(|record| format!("{}:{}", record.key, record.value.unwrap_or_default()))
        .collect())
}

#[test]
fn sliding_windows_whose_aggregates_are_null_are_not_made_again() -> Result<(), Error> {
    // Near the epoch only the window that starts there tells of the record before.
    let early = sliding_texts(&[("a", 9), ("-", 0), ("b", 11)])?;
    assert_eq!(early, ["0:a", "1:a", "0:", "1:ab", "0:b"]);
    // A second record of a time finds the windows of the first.
    let twice = sliding_texts(&[("a", 410), ("b", 413), ("-", 414), ("c", 413)])?;
    assert_eq!(twice, ["385:a", "411:b", "388:ab", "411:", "388:abc"]);
    Ok(())
}

#[test]
fn a_record_connects_sessions() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, i64>("in")
        .group_by_key()
        .windowed_by_sessions(SessionWindows::of_inactivity_gap_and_grace(100, 1000))
        .count_with(Materialized::named("counts"));
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, i64>("in");
    for timestamp_ms in [1000, 1200, 1100, 1500] {
        input.pipe("k".to_owned(), 1, timestamp_ms)?;
    }
    let counts = driver
        .state_store::<SessionStore<String, i64>>("counts")
        .expect("the store");
    let all: Vec<_> = counts
        .borrow()
        .fetch(&"k".to_owned())?
        .collect::<Result<_, _>>()?;
    let session = |start, end| Windowed::new("k".to_owned(), Window::of_session(start, end));
    assert_eq!(all, [(session(1000, 1200), 3), (session(1500, 1500), 1)]);
    Ok(())
}

/// How many headers the changes of a session have, where every record has one.
fn session_headers(
    is_cached: bool,
    (store_type, format): (StoreType, DslStoreFormat),
) -> Result<Vec<usize>, Error> {
    let builder = StreamsBuilder::new();
    let kept = match is_cached {
        true => Materialized::named("counts"),
        false => Materialized::named("counts").with_caching_disabled(),
    };
    builder
        .stream::<String, i64>("in")
        .group_by_key()
        .windowed_by_sessions(SessionWindows::of_inactivity_gap_with_no_grace(100))
        .count_with(kept)
        .to_stream()
        .map(|session, count| (session.key.clone(), *count))
        .to("out");
    let stores = DslStores { format, store_type };
    let config = TopologyConfig {
        stores,
        ..TopologyConfig::default()
    };
    let driver = TopologyTestDriver::new(&builder.build_with(&config)?)?;
    let input = driver.input_topic::<String, i64>("in");
    for timestamp_ms in [1000, 1001] {
        let mut headers = Headers::new();
        headers.add("h", Bytes::from_static(b"1"));
        input.pipe_record(Record {
            key: "k".to_owned(),
            value: 1,
            timestamp_ms,
            headers,
        })?;
    }
    let output = driver.output_topic::<String, Option<i64>>("out");
    let records = output.read_records()?.into_iter();
    Ok(records.map(|record| record.headers.len()).collect())
}

#[test]
fn sessions_have_the_headers_that_kafka_streams_gives_them() -> Result<(), Error> {
    use DslStoreFormat::{Headers, Timestamped};
    use StoreType::{InMemory, Persistent};
    for (is_cached, store_type, format, expected) in [
        (false, Persistent, Timestamped, 0),
        (false, Persistent, Headers, 0),
        (true, Persistent, Timestamped, 1),
        (true, Persistent, Headers, 0),
        // Rows in memory have no headers.
        (true, InMemory, Headers, 1),
    ] {
        let found = session_headers(is_cached, (store_type, format))?;
        assert_eq!(
            found, [expected; 3],
            "{is_cached} {store_type:?} {format:?}"
        );
    }
    Ok(())
}

/// What a table above gives on as old and new values of one key, after another key has come.
fn old_and_new(
    table: impl FnOnce(KGroupedStream<String, i64>) -> KTable<String, i64>,
) -> Result<String, Error> {
    let builder = StreamsBuilder::new();
    table(builder.stream::<String, i64>("in").group_by_key())
        .group_by(|_, count| ("all".to_owned(), *count))
        .aggregate(
            String::new,
            |_, value, text| format!("{text}+{value}"),
            |_, value, text| format!("{text}-{value}"),
        )
        .to_stream()
        .to("out");
    let driver = TopologyTestDriver::new(&builder.build()?)?;
    let input = driver.input_topic::<String, i64>("in");
    for key in ["other", "k", "k"] {
        input.pipe(key.to_owned(), 5, 1000)?;
    }
    let output = driver.output_topic::<String, String>("out");
    let (_, last) = output.read_key_values()?.pop().ok_or("no result")?;
    Ok(last)
}

#[test]
fn without_a_cache_the_first_old_value_is_what_the_initializer_makes() -> Result<(), Error> {
    let kept = |name: &str| Materialized::named(name);
    let uncached = |name: &str| kept(name).with_caching_disabled();
    let count = |group: KGroupedStream<String, i64>| group.count_with(uncached("s"));
    assert_eq!(old_and_new(count)?, "+1-0+1-1+2");
    let cached = |group: KGroupedStream<String, i64>| group.count_with(kept("s"));
    assert_eq!(old_and_new(cached)?, "+1+1-1+2");
    let reduce =
        |group: KGroupedStream<String, i64>| group.reduce_with(|a, b| a + b, uncached("s"));
    assert_eq!(old_and_new(reduce)?, "+5+5-5+10");
    Ok(())
}
