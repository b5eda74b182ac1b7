//! Aggregations of streams: by key, by windows, and of several streams.

use super::{Example, stream, write, write_windows};
use riverrun_streams::dsl::{
    CogroupedKStream, EmitStrategy, Grouped, KGroupedStream, Materialized, SessionWindowedKStream,
    SessionWindows, SlidingWindows, StreamsBuilder, TimeWindowedKStream, TimeWindows,
    UnlimitedWindows,
};
use riverrun_streams::serde::DefaultSerde as _;

pub(crate) const EXAMPLES: &[&[Example]] = &[
    BY_KEY,
    BY_WINDOWS,
    RESULTS_OF_WINDOWS,
    RESULTS_OF_SESSIONS,
    OF_SEVERAL,
    OF_SEVERAL_BY_WINDOWS,
];

/// The records of `in`, by key.
fn grouped(builder: &StreamsBuilder) -> KGroupedStream<String, String> {
    stream(builder, "in").group_by_key()
}

/// The records of `in`, by key and minute; a minute has 60 ms here.
fn by_minute(builder: &StreamsBuilder) -> TimeWindowedKStream<String, String> {
    grouped(builder).windowed_by(TimeWindows::of_size_with_no_grace(60))
}

/// The records of `in`, by key and session.
fn by_session(builder: &StreamsBuilder) -> SessionWindowedKStream<String, String> {
    let sessions = SessionWindows::of_inactivity_gap_with_no_grace(10);
    grouped(builder).windowed_by_sessions(sessions)
}

/// A click is a point, and an order ten.
fn points(builder: &StreamsBuilder) -> CogroupedKStream<String, i64> {
    let clicks = stream(builder, "clicks").group_by_key();
    let orders = stream(builder, "orders").group_by_key();
    clicks
        .cogroup(|_, _, points: i64| points + 1)
        .cogroup(&orders, |_, _, points| points + 10)
}

#[expect(clippy::ptr_arg, reason = "an aggregator takes what the stream has")]
fn sum_of_lengths(_: &String, value: &String, sum: i64) -> i64 {
    sum + i64::try_from(value.len()).unwrap_or(i64::MAX)
}

/// A store of this name, whose values are numbers.
fn numbers(name: &str) -> Materialized<String, i64> {
    Materialized::named(name).with_value_serde(i64::serde())
}

const BY_KEY: &[Example] = &[
    Example {
        operator: "count",
        build: |b| write(&stream(b, "in").group_by_key().count()),
        ran: &[
            "in a x 0 -> a=1@0",
            "in b x 1 -> b=1@1",
            "in a y 2 -> a=2@2",
        ],
    },
    Example {
        operator: "group_by",
        // The key changes, so the records go through a repartition topic.
        build: |b| write(&stream(b, "in").group_by(|_, value| value.clone()).count()),
        ran: &["in a x 0 -> x=1@0", "in b x 1 -> x=2@1"],
    },
    Example {
        operator: "reduce",
        build: |b| {
            write(
                &stream(b, "in")
                    .group_by_key()
                    .reduce(|sum, value| format!("{sum}{value}")),
            )
        },
        // The time of a result is the latest of its records.
        ran: &["in a x 9 -> a=x@9", "in a y 2 -> a=xy@9"],
    },
    Example {
        operator: "aggregate",
        build: |b| {
            write(&grouped(b).aggregate(|| 0, sum_of_lengths));
        },
        ran: &["in a abc 0 -> a=3@0", "in a de 1 -> a=5@1"],
    },
    Example {
        operator: "group_by_key_with",
        build: |b| {
            let texts = Grouped::with(String::serde(), String::serde()).with_name("by-key");
            write(&stream(b, "in").group_by_key_with(texts).count());
        },
        ran: &["in a x 0 -> a=1@0"],
    },
    Example {
        operator: "group_by_with",
        // The repartition topic is `test-by-value-repartition`.
        build: |b| {
            let by_value = Grouped::named("by-value");
            let grouped = stream(b, "in").group_by_with(|_, value| value.clone(), by_value);
            write(&grouped.count());
        },
        ran: &["in a x 0 -> x=1@0"],
    },
    Example {
        operator: "count_with",
        build: |b| {
            let kept = Materialized::named("counts").with_caching_disabled();
            write(&stream(b, "in").group_by_key().count_with(kept));
        },
        ran: &["in a x 0 -> a=1@0"],
    },
    Example {
        operator: "reduce_with",
        build: |b| {
            let kept = Materialized::named("joined");
            write(&grouped(b).reduce_with(|joined, value| format!("{joined}{value}"), kept));
        },
        ran: &["in a x 0 -> a=x@0", "in a y 1 -> a=xy@1"],
    },
    Example {
        operator: "aggregate_with",
        build: |b| write(&grouped(b).aggregate_with(|| 0, sum_of_lengths, numbers("lengths"))),
        ran: &["in a abc 0 -> a=3@0"],
    },
];

const BY_WINDOWS: &[Example] = &[
    Example {
        operator: "windowed_by (tumbling)",
        build: |b| {
            let windows = TimeWindows::of_size_with_no_grace(60);
            write_windows(&stream(b, "in").group_by_key().windowed_by(windows).count());
        },
        // The last one is late: its window closed when the time reached 60.
        ran: &[
            "in a x 10 -> a@0-60=1@10",
            "in a y 70 -> a@60-120=1@70",
            "in a z 50 ->",
        ],
    },
    Example {
        operator: "windowed_by (hopping)",
        build: |b| {
            let windows = TimeWindows::of_size_and_grace(60, 30).advance_by(30);
            write_windows(&stream(b, "in").group_by_key().windowed_by(windows).count());
        },
        ran: &[
            "in a x 40 -> a@0-60=1@40 a@30-90=1@40",
            "in a y 70 -> a@30-90=2@70 a@60-120=1@70",
        ],
    },
    Example {
        operator: "windowed_by_sliding",
        build: |b| {
            let windows = SlidingWindows::of_time_difference_with_no_grace(10);
            write_windows(
                &stream(b, "in")
                    .group_by_key()
                    .windowed_by_sliding(windows)
                    .count(),
            );
        },
        ran: &[
            "in a x 20 -> a@10-20=1@20",
            "in a y 25 -> a@21-31=1@25 a@15-25=2@25",
        ],
    },
    Example {
        operator: "windowed_by_sessions",
        build: |b| {
            let windows = SessionWindows::of_inactivity_gap_with_no_grace(10);
            write_windows(
                &stream(b, "in")
                    .group_by_key()
                    .windowed_by_sessions(windows)
                    .count(),
            );
        },
        ran: &[
            "in a x 0 -> a@0-0=1@0",
            "in a y 8 -> a@0-0=null@0 a@0-8=2@8",
            "in a z 30 -> a@30-30=1@30",
        ],
    },
    Example {
        operator: "windowed_by_unlimited",
        build: |b| {
            let windows = UnlimitedWindows::of().start_on(10);
            let table = stream(b, "in")
                .group_by_key()
                .windowed_by_unlimited(windows);
            write_windows(&table.count());
        },
        ran: &["in a x 5 ->", "in a y 15 -> a@10-9223372036854775807=1@15"],
    },
    Example {
        operator: "emit_strategy",
        build: |b| {
            let windows = TimeWindows::of_size_with_no_grace(60);
            let windowed = stream(b, "in").group_by_key().windowed_by(windows);
            write_windows(
                &windowed
                    .emit_strategy(EmitStrategy::on_window_close())
                    .count(),
            );
        },
        ran: &["in a x 10 ->", "in a y 20 ->", "in b z 60 -> a@0-60=2@20"],
    },
];

const RESULTS_OF_WINDOWS: &[Example] = &[
    Example {
        operator: "count_with (windows)",
        build: |b| write_windows(&by_minute(b).count_with(numbers("counts").with_retention(120))),
        ran: &["in a x 10 -> a@0-60=1@10"],
    },
    Example {
        operator: "reduce (windows)",
        build: |b| write_windows(&by_minute(b).reduce(|joined, value| format!("{joined}{value}"))),
        ran: &["in a x 10 -> a@0-60=x@10", "in a y 20 -> a@0-60=xy@20"],
    },
    Example {
        operator: "reduce_with (windows)",
        build: |b| {
            let kept = Materialized::named("last");
            write_windows(&by_minute(b).reduce_with(|_, value| value.clone(), kept));
        },
        ran: &["in a x 10 -> a@0-60=x@10", "in a y 20 -> a@0-60=y@20"],
    },
    Example {
        operator: "aggregate (windows)",
        build: |b| write_windows(&by_minute(b).aggregate(|| 0, sum_of_lengths)),
        ran: &["in a abc 10 -> a@0-60=3@10", "in a de 20 -> a@0-60=5@20"],
    },
    Example {
        operator: "aggregate_with (windows)",
        build: |b| {
            write_windows(&by_minute(b).aggregate_with(|| 0, sum_of_lengths, numbers("lengths")));
        },
        ran: &["in a abc 10 -> a@0-60=3@10"],
    },
];

/// A session that grows is another session: the shorter one is deleted.
const RESULTS_OF_SESSIONS: &[Example] = &[
    Example {
        operator: "count_with (sessions)",
        build: |b| write_windows(&by_session(b).count_with(numbers("counts"))),
        ran: &["in a x 0 -> a@0-0=1@0"],
    },
    Example {
        operator: "reduce (sessions)",
        build: |b| write_windows(&by_session(b).reduce(|joined, value| format!("{joined}{value}"))),
        ran: &[
            "in a x 0 -> a@0-0=x@0",
            "in a y 8 -> a@0-0=null@0 a@0-8=xy@8",
        ],
    },
    Example {
        operator: "reduce_with (sessions)",
        build: |b| {
            let kept = Materialized::named("joined");
            write_windows(&by_session(b).reduce_with(|_, value| value.clone(), kept));
        },
        ran: &["in a x 0 -> a@0-0=x@0"],
    },
    Example {
        operator: "aggregate (sessions)",
        // The third function makes one session of two.
        build: |b| {
            let sums = by_session(b).aggregate(|| 0, sum_of_lengths, |_, left, right| left + right);
            write_windows(&sums);
        },
        ran: &[
            "in a abc 0 -> a@0-0=3@0",
            "in a de 8 -> a@0-0=null@0 a@0-8=5@8",
        ],
    },
    Example {
        operator: "aggregate_with (sessions)",
        build: |b| {
            let merge = |_: &String, left: i64, right: i64| left + right;
            let kept = numbers("lengths");
            write_windows(&by_session(b).aggregate_with(|| 0, sum_of_lengths, merge, kept));
        },
        ran: &["in a abc 0 -> a@0-0=3@0"],
    },
    Example {
        operator: "emit_strategy (sessions)",
        build: |b| {
            write_windows(
                &by_session(b)
                    .emit_strategy(EmitStrategy::on_window_close())
                    .count(),
            );
        },
        ran: &["in a x 0 ->", "in a y 5 ->", "in b z 30 -> a@0-5=2@5"],
    },
];

const OF_SEVERAL: &[Example] = &[
    Example {
        operator: "cogroup",
        build: |b| write(&points(b).aggregate(|| 0)),
        ran: &["clicks a x 0 -> a=1@0", "orders a y 1 -> a=11@1"],
    },
    Example {
        operator: "cogroup (aggregate_with)",
        build: |b| write(&points(b).aggregate_with(|| 0, numbers("points"))),
        ran: &["clicks a x 0 -> a=1@0", "orders a y 1 -> a=11@1"],
    },
];

const OF_SEVERAL_BY_WINDOWS: &[Example] = &[
    Example {
        operator: "cogroup (windowed_by)",
        build: |b| {
            let windows = TimeWindows::of_size_with_no_grace(60);
            write_windows(&points(b).windowed_by(windows).aggregate(|| 0));
        },
        ran: &[
            "clicks a x 0 -> a@0-60=1@0",
            "orders a y 70 -> a@60-120=10@70",
        ],
    },
    Example {
        operator: "cogroup (windowed_by, aggregate_with)",
        build: |b| {
            let windowed = points(b).windowed_by(TimeWindows::of_size_with_no_grace(60));
            write_windows(&windowed.aggregate_with(|| 0, numbers("points")));
        },
        ran: &["clicks a x 0 -> a@0-60=1@0"],
    },
    Example {
        operator: "cogroup (windowed_by_sliding)",
        build: |b| {
            let windows = SlidingWindows::of_time_difference_with_no_grace(10);
            write_windows(&points(b).windowed_by_sliding(windows).aggregate(|| 0));
        },
        ran: &["clicks a x 20 -> a@10-20=1@20"],
    },
    Example {
        operator: "cogroup (windowed_by_unlimited)",
        build: |b| {
            let windows = UnlimitedWindows::of();
            write_windows(&points(b).windowed_by_unlimited(windows).aggregate(|| 0));
        },
        ran: &["clicks a x 5 -> a@0-9223372036854775807=1@5"],
    },
    Example {
        operator: "cogroup (windowed_by_sessions)",
        build: |b| {
            let sessions = SessionWindows::of_inactivity_gap_with_no_grace(10);
            let windowed = points(b).windowed_by_sessions(sessions);
            write_windows(&windowed.aggregate(|| 0, |_, left, right| left + right));
        },
        ran: &[
            "clicks a x 0 -> a@0-0=1@0",
            "orders a y 5 -> a@0-0=null@0 a@0-5=11@5",
        ],
    },
    Example {
        operator: "cogroup (windowed_by_sessions, aggregate_with)",
        build: |b| {
            let sessions = SessionWindows::of_inactivity_gap_with_no_grace(10);
            let windowed = points(b).windowed_by_sessions(sessions);
            let merge = |_: &String, left: i64, right: i64| left + right;
            write_windows(&windowed.aggregate_with(|| 0, merge, numbers("points")));
        },
        ran: &["clicks a x 0 -> a@0-0=1@0"],
    },
];
