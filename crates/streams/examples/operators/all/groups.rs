//! Aggregations of streams: by key, by windows, and of several streams.

use super::{Example, stream, write, write_windows};
use riverrun_streams::dsl::{
    EmitStrategy, Materialized, SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows,
};

pub(crate) const EXAMPLES: &[&[Example]] = &[BY_KEY, BY_WINDOWS, OF_SEVERAL];

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
            let lengths = stream(b, "in")
                .group_by_key()
                .aggregate(|| 0, |_, value, total: i64| total + value.len() as i64);
            write(&lengths);
        },
        ran: &["in a abc 0 -> a=3@0", "in a de 1 -> a=5@1"],
    },
    Example {
        operator: "count_with",
        build: |b| {
            let kept = Materialized::named("counts").with_caching_disabled();
            write(&stream(b, "in").group_by_key().count_with(kept));
        },
        ran: &["in a x 0 -> a=1@0"],
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

const OF_SEVERAL: &[Example] = &[
    Example {
        operator: "cogroup",
        build: |b| {
            let (clicks, orders) = (
                stream(b, "clicks").group_by_key(),
                stream(b, "orders").group_by_key(),
            );
            let counted = clicks
                .cogroup(|_, _, points: i64| points + 1)
                .cogroup(&orders, |_, _, points| points + 10);
            write(&counted.aggregate(|| 0));
        },
        ran: &["clicks a x 0 -> a=1@0", "orders a y 1 -> a=11@1"],
    },
    Example {
        operator: "cogroup (windowed_by)",
        build: |b| {
            let (clicks, orders) = (
                stream(b, "clicks").group_by_key(),
                stream(b, "orders").group_by_key(),
            );
            let counted = clicks
                .cogroup(|_, _, points: i64| points + 1)
                .cogroup(&orders, |_, _, points| points + 10);
            let windows = TimeWindows::of_size_with_no_grace(60);
            write_windows(&counted.windowed_by(windows).aggregate(|| 0));
        },
        ran: &[
            "clicks a x 0 -> a@0-60=1@0",
            "orders a y 70 -> a@60-120=10@70",
        ],
    },
    Example {
        operator: "cogroup (windowed_by_sessions)",
        build: |b| {
            let clicks = stream(b, "clicks").group_by_key();
            let counted = clicks.cogroup(|_, _, points: i64| points + 1);
            let sessions = SessionWindows::of_inactivity_gap_with_no_grace(10);
            let windowed = counted.windowed_by_sessions(sessions);
            write_windows(&windowed.aggregate(|| 0, |_, left, right| left + right));
        },
        ran: &[
            "clicks a x 0 -> a@0-0=1@0",
            "clicks a y 5 -> a@0-0=null@0 a@0-5=2@5",
        ],
    },
];
