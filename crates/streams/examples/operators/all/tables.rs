//! Operators of tables.

use super::{Example, stream, table, write, write_windows};
use riverrun_streams::Failure;
use riverrun_streams::dsl::{
    BufferConfig, Grouped, Materialized, Named, Suppressed, TimeWindows, TransformContext,
    ValueTransformer,
};
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::topology::Consumed;

pub(crate) const EXAMPLES: &[&[Example]] =
    &[OF_ONE, OF_ONE_KEPT, OF_GROUPS, OF_GROUPS_KEPT, OF_RESULTS];

/// Puts the key before the value.
struct Prefix;

impl ValueTransformer<String, String, String> for Prefix {
    fn transform(
        &mut self,
        _: &mut TransformContext<'_>,
        key: &String,
        value: Option<&String>,
    ) -> Result<Option<String>, Failure> {
        Ok(value.map(|value| format!("{key}{value}")))
    }
}

const OF_ONE: &[Example] = &[
    Example {
        operator: "table",
        build: |b| write(&table(b, "in")),
        // A record without a value deletes its key.
        ran: &["in a x 0 -> a=x@0", "in a null 1 -> a=null@1"],
    },
    Example {
        operator: "table_with",
        build: |b| {
            write(&b.table_with::<String, String>(
                "in",
                Consumed::default(),
                Materialized::named("kept"),
            ))
        },
        ran: &["in a x 0 -> a=x@0"],
    },
    Example {
        operator: "filter (table)",
        build: |b| write(&table(b, "in").filter(|_, value| value != "x")),
        // What no longer belongs to the table is deleted.
        ran: &["in a y 0 -> a=y@0", "in a x 1 -> a=null@1"],
    },
    Example {
        operator: "filter_not (table)",
        build: |b| write(&table(b, "in").filter_not(|_, value| value == "x")),
        ran: &["in a y 0 -> a=y@0"],
    },
    Example {
        operator: "map_values (table)",
        build: |b| write(&table(b, "in").map_values(|value| value.len() as i64)),
        ran: &["in a xyz 0 -> a=3@0"],
    },
    Example {
        operator: "try_map_values (table)",
        build: |b| write(&table(b, "in").try_map_values(|_, value| value.parse::<i64>())),
        ran: &["in a 07 0 -> a=7@0"],
    },
    Example {
        operator: "transform_values",
        build: |b| write(&table(b, "in").transform_values(|| Prefix, &[])),
        ran: &["in a x 0 -> a=ax@0"],
    },
    Example {
        operator: "to_stream_by",
        build: |b| {
            table(b, "in")
                .to_stream_by(|key, _| format!("{key}!"))
                .to("out")
        },
        ran: &["in a x 0 -> a!=x@0"],
    },
];

/// The table of the results is kept in a store of its own, which can be queried.
const OF_ONE_KEPT: &[Example] = &[
    Example {
        operator: "filter_with (table)",
        build: |b| write(&table(b, "in").filter_with(|_, value| value != "x", kept())),
        ran: &["in a y 0 -> a=y@0", "in a x 1 -> a=null@1"],
    },
    Example {
        operator: "filter_not_with (table)",
        build: |b| write(&table(b, "in").filter_not_with(|_, value| value == "x", kept())),
        ran: &["in a y 0 -> a=y@0"],
    },
    Example {
        operator: "map_values_with (table)",
        build: |b| {
            let kept = Materialized::named("lengths").with_value_serde(i64::serde());
            let settings = (Named::new("measure"), kept);
            write(&table(b, "in").map_values_with(|_, value| value.len() as i64, settings));
        },
        ran: &["in a xyz 0 -> a=3@0"],
    },
    Example {
        operator: "transform_values_with",
        build: |b| write(&table(b, "in").transform_values_with(|| Prefix, &[], kept())),
        ran: &["in a x 0 -> a=ax@0"],
    },
    Example {
        operator: "to_stream_named",
        build: |b| table(b, "in").to_stream_named("changes").to("out"),
        ran: &["in a x 0 -> a=x@0"],
    },
];

fn kept() -> Materialized<String, String> {
    Materialized::named("kept").with_value_serde(String::serde())
}

const OF_GROUPS: &[Example] = &[
    Example {
        operator: "group_by (table), count",
        build: |b| {
            write(
                &table(b, "in")
                    .group_by(|key, value| (value.clone(), key.clone()))
                    .count(),
            )
        },
        // A key that changes leaves its old group.
        ran: &[
            "in a x 0 -> x=1@0",
            "in b x 1 -> x=2@1",
            "in a y 2 -> x=1@2 y=1@2",
        ],
    },
    Example {
        operator: "group_by (table), reduce",
        build: |b| {
            let numbers =
                table(b, "in").group_by(|_, value| ("sum".to_owned(), value.len() as i64));
            write(&numbers.reduce(|sum, new| sum + new, |sum, old| sum - old));
        },
        ran: &["in a xyz 0 -> sum=3@0", "in a x 1 -> sum=1@1"],
    },
    Example {
        operator: "group_by (table), aggregate",
        build: |b| {
            let grouped = table(b, "in").group_by(|_, value| ("sum".to_owned(), value.clone()));
            let length = |value: &String| value.len() as i64;
            write(&grouped.aggregate(
                || 0,
                move |_, new, sum| sum + length(new),
                move |_, old, sum| sum - length(old),
            ));
        },
        ran: &["in a xyz 0 -> sum=3@0", "in a null 1 -> sum=0@1"],
    },
];

const OF_GROUPS_KEPT: &[Example] = &[
    Example {
        operator: "group_by_with (table), count_with",
        build: |b| {
            let by_value = Grouped::named("by-value");
            let grouped =
                table(b, "in").group_by_with(|key, value| (value.clone(), key.clone()), by_value);
            write(&grouped.count_with(Materialized::named("counts")));
        },
        ran: &["in a x 0 -> x=1@0", "in b x 1 -> x=2@1"],
    },
    Example {
        operator: "group_by (table), reduce_with",
        build: |b| {
            let lengths =
                table(b, "in").group_by(|_, value| ("sum".to_owned(), value.len() as i64));
            let kept = Materialized::named("sums");
            write(&lengths.reduce_with(|sum, new| sum + new, |sum, old| sum - old, kept));
        },
        ran: &["in a xyz 0 -> sum=3@0", "in a x 1 -> sum=1@1"],
    },
    Example {
        operator: "group_by (table), aggregate_with",
        build: |b| {
            let grouped = table(b, "in").group_by(|_, value| ("all".to_owned(), value.clone()));
            write(&grouped.aggregate_with(
                String::new,
                |_, new, all| all + new,
                |_, old, all| all.replacen(old, "", 1),
                kept(),
            ));
        },
        ran: &[
            "in a x 0 -> all=x@0",
            "in b y 1 -> all=xy@1",
            "in a null 2 -> all=y@2",
        ],
    },
];

const OF_RESULTS: &[Example] = &[
    Example {
        operator: "suppress (until_window_closes)",
        build: |b| {
            let windows = TimeWindows::of_size_with_no_grace(60);
            let counted = stream(b, "in").group_by_key().windowed_by(windows).count();
            let suppressed = Suppressed::until_window_closes(BufferConfig::unbounded());
            write_windows(&counted.suppress(suppressed));
        },
        ran: &["in a x 10 ->", "in a y 20 ->", "in b z 60 -> a@0-60=2@20"],
    },
    Example {
        operator: "suppress (until_time_limit)",
        build: |b| {
            let limits = BufferConfig::max_records(100).emit_early_when_full();
            write(&table(b, "in").suppress(Suppressed::until_time_limit(30, limits)));
        },
        ran: &["in a x 0 ->", "in a y 10 ->", "in b z 30 -> a=y@10"],
    },
    Example {
        operator: "suppress_with",
        build: |b| {
            let limit = Suppressed::until_time_limit(30, BufferConfig::unbounded());
            let suppressed = limit.with_name("slowly");
            write(&table(b, "in").suppress_with(suppressed, String::serde()));
        },
        ran: &["in a x 0 ->", "in b z 30 -> a=x@0"],
    },
];
