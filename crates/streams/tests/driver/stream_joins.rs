//! Joins of two streams, through the test driver.

use crate::cases::{Error, Text, shown};
use proptest::prelude::*;
use riverrun_streams::dsl::{
    JoinWindows, KStream, Optimization, StreamJoined, StreamsBuilder, TopologyConfig,
};
use riverrun_streams::processor::EmitIntervals;
use riverrun_streams::test_driver::{TestDriverConfig, TopologyTestDriver};

/// The driver of a join: kind, how far before and after, grace, the interval of the clock.
fn driver_of(fields: &[&str]) -> Result<TopologyTestDriver, Error> {
    let [kind, before_ms, after_ms, grace_ms, interval_ms] = fields else {
        return Err("not five fields".into());
    };
    let windows = JoinWindows::of_time_difference_and_grace(0, grace_ms.parse()?)
        .before(before_ms.parse()?)
        .after(after_ms.parse()?);
    let builder = StreamsBuilder::new();
    let left: KStream<Text, Text> = builder.stream("left");
    let right: KStream<Text, Text> = builder.stream("right");
    let both = |left: Option<&Text>, right: Option<&Text>| {
        let shown = |side: Option<&Text>| shown(side.and_then(Option::as_deref)).to_owned();
        format!("{}+{}", shown(left), shown(right))
    };
    let joined = match *kind {
        "inner" => left.join(&right, move |l, r| both(Some(l), Some(r)), windows),
        "left" => left.left_join(&right, move |l, r| both(Some(l), r), windows),
        _ => left.outer_join(&right, both, windows),
    };
    joined.to("out");
    let config = TestDriverConfig {
        application_id: "app".to_owned(),
        emit_intervals: EmitIntervals {
            outer_join_ms: interval_ms.parse()?,
            ..EmitIntervals::NONE
        },
        ..TestDriverConfig::default()
    };
    Ok(TopologyTestDriver::with(&builder.build()?, config)?)
}

#[test]
fn joins_give_what_kafka_streams_gives() -> Result<(), Error> {
    crate::cases::run(include_str!("cases/stream_joins.txt"), "", driver_of)
}

/// What came later may have closed before.
#[test]
fn what_waits_for_a_partner_is_emitted_when_its_own_window_closes() -> Result<(), Error> {
    let driver = driver_of(&["left", "10", "10", "50", "0"])?;
    let left = driver.input_topic::<Text, Text>("left");
    let pipe = |value: &str, timestamp_ms| {
        left.pipe(Some("k".to_owned()), Some(value.to_owned()), timestamp_ms)
    };
    pipe("first", 100)?;
    pipe("late", 95)?;
    pipe("last", 156)?;
    let given = driver.output_topic::<Text, Text>("out").read_records()?;
    let values: Vec<Text> = given.into_iter().map(|result| result.value).collect();
    assert_eq!(values, [Some("late+-".to_owned())]);
    Ok(())
}

/// The topology of a join of two streams whose keys were changed.
fn described(
    join: impl FnOnce(&KStream<String, String>, &KStream<String, String>) -> KStream<String, String>,
) -> Result<String, Error> {
    let builder = StreamsBuilder::new();
    let [left, right] = ["left", "right"].map(|topic| {
        let stream = builder.stream::<String, String>(topic);
        stream.select_key(|_, value| value.clone())
    });
    join(&left, &right).to("out");
    Ok(builder.build()?.describe().to_string())
}

const WINDOWS: JoinWindows = JoinWindows::of_time_difference_with_no_grace(10);

fn assert_has(described: &str, lines: &[&str]) {
    for line in lines {
        assert!(described.contains(line), "no `{line}` in:\n{described}");
    }
}

#[test]
fn names_are_those_of_kafka_streams() -> Result<(), Error> {
    let outer = described(|left, right| left.outer_join(right, |_, _| String::new(), WINDOWS))?;
    assert_has(
        &outer,
        &[
            "Sink: KSTREAM-SINK-0000000004 (topic: KSTREAM-KEY-SELECT-0000000001-repartition)",
            "Sink: KSTREAM-SINK-0000000007 (topic: KSTREAM-KEY-SELECT-0000000003-repartition)",
            "KSTREAM-SOURCE-0000000006",
            "KSTREAM-SOURCE-0000000009",
            "Processor: KSTREAM-WINDOWED-0000000010 (stores: [KSTREAM-OUTERTHIS-0000000012-store])",
            "Processor: KSTREAM-WINDOWED-0000000011 (stores: [KSTREAM-OUTEROTHER-0000000013-store])",
            "KSTREAM-OUTERSHARED-0000000012-store",
            "Processor: KSTREAM-MERGE-0000000014",
            "Sink: KSTREAM-SINK-0000000015",
            "Sub-topology: 2",
        ],
    );
    let named = StreamJoined::named("n").with_store_name("s");
    let left = described(|left, right| {
        left.left_join_with(right, |_, _| String::new(), WINDOWS, named.clone())
    })?;
    assert_has(
        &left,
        &[
            "Sink: n-left-repartition-sink (topic: n-left-repartition)",
            "Sink: n-right-repartition-sink (topic: n-right-repartition)",
            "Processor: n-this-windowed (stores: [s-this-join-store])",
            "Processor: n-other-windowed (stores: [s-outer-other-join-store])",
            "Processor: n-this-join (stores: [",
            "Processor: n-outer-other-join (stores: [",
            "s-left-shared-join-store",
            "Processor: n-merge",
            "Sink: KSTREAM-SINK-0000000015",
        ],
    );
    let inner = described(|left, right| {
        let joined = left.join(right, |_, _| String::new(), WINDOWS);
        left.join(right, |_, _| String::new(), WINDOWS).to("twice");
        joined
    })?;
    // Both joins read the repartition topics of the first.
    assert_has(
        &inner,
        &[
            "Processor: KSTREAM-JOINTHIS-0000000012 (stores: [KSTREAM-JOINOTHER-0000000013-store])",
            "--> KSTREAM-WINDOWED-0000000010, KSTREAM-WINDOWED-0000000021",
        ],
    );
    Ok(())
}

#[test]
fn joins_that_make_no_sense_are_refused() {
    let check = |windows: JoinWindows, expected: &str| {
        let builder = StreamsBuilder::new();
        let (left, right) = (builder.stream("left"), builder.stream("right"));
        let joiner = |_: &String, _: &String| String::new();
        let joined: KStream<String, String> = left.join(&right, joiner, windows);
        joined.to("out");
        let error = builder.build().expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(
        JoinWindows::of_time_difference_with_no_grace(-1),
        "their sum must not be negative",
    );
    check(
        WINDOWS.before(-11),
        "from -11 ms before a record to 10 ms after it",
    );
    check(
        JoinWindows::of_time_difference_and_grace(1, -1),
        "a grace of -1 ms is negative",
    );
}

/// The key, value and time of a result.
type Joined = (String, String, i64);

/// What a stream that is joined with itself gives for records of these keys and times, and how many stores it has.
fn joined_with_itself(
    windows: JoinWindows,
    single_store_self_join: bool,
    records: &[(u8, i64)],
) -> Result<(Vec<Joined>, usize), Error> {
    let builder = StreamsBuilder::new();
    let stream: KStream<String, String> = builder.stream("in");
    let joined = stream.join(&stream, |left, right| format!("{left}+{right}"), windows);
    joined.to("out");
    let topology = builder.build_with(&TopologyConfig {
        optimization: Optimization {
            single_store_self_join,
            ..Optimization::default()
        },
        ..TopologyConfig::default()
    })?;
    let driver = TopologyTestDriver::new(&topology)?;
    let input = driver.input_topic::<String, String>("in");
    for (number, (key, timestamp_ms)) in records.iter().enumerate() {
        input.pipe(format!("k{key}"), format!("v{number}"), *timestamp_ms)?;
    }
    let output = driver.output_topic::<String, String>("out");
    let results = output.read_records()?.into_iter();
    let results = results.map(|result| (result.key, result.value, result.timestamp_ms));
    let changelogs = driver.produced_topic_names().into_iter();
    let changelogs = changelogs.filter(|name| name.ends_with("-changelog"));
    Ok((results.collect(), changelogs.count()))
}

proptest! {
    #![proptest_config(trials::property(64))]

    #[test]
    fn a_self_join_with_one_store_gives_what_it_gives_with_two(
        (before_ms, after_ms, grace_ms) in (0..30_i64, 0..30_i64, 0..40_i64),
        records in prop::collection::vec((0..3_u8, 0..200_i64), 1..60),
    ) {
        let windows = JoinWindows::of_time_difference_and_grace(0, grace_ms)
            .before(before_ms)
            .after(after_ms);
        let joined = |single_store| joined_with_itself(windows, single_store, &records).expect("a join");
        let (one, mut two) = (joined(true), joined(false));
        // In Kafka Streams a record of the oldest millisecond that is kept meets itself in two stores only.
        let mut stream_time_ms = 0;
        for (number, (_, timestamp_ms)) in records.iter().enumerate() {
            stream_time_ms = stream_time_ms.max(*timestamp_ms);
            if *timestamp_ms == stream_time_ms - (before_ms + after_ms + grace_ms) + 1 {
                two.0.retain(|(_, value, _)| *value != format!("v{number}+v{number}"));
            }
        }
        prop_assert_eq!(one.0, two.0);
        prop_assert_eq!((one.1, two.1), (1, 2));
    }
}
