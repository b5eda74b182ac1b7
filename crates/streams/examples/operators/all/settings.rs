//! What operators can be told: serdes, stores and their changelogs, partitioners, times and bounds.

use super::{Example, stream, table, write, write_windows};
use riverrun_streams::dsl::{
    BufferConfig, EmitStrategy, JoinWindows, Joined, Materialized, Printed, Repartitioned,
    SessionWindows, SlidingWindows, StreamJoined, Suppressed, TableJoined, TimeWindows,
};
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::state::{StoreType, Stores};
use riverrun_streams::topology::{
    AutoOffsetReset, Consumed, Produced, StreamPartitioner, TimestampExtractor,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const EXAMPLES: &[&[Example]] = &[OF_STORES, OF_JOINS, OF_TOPICS, OF_TIMES];

/// Configuration of a changelog topic.
fn segments() -> BTreeMap<String, String> {
    BTreeMap::from([("segment.bytes".to_owned(), "1048576".to_owned())])
}

/// Records of keys of the same length are in one partition.
fn by_length<V>() -> StreamPartitioner<String, V> {
    Arc::new(|_, key, _, count| {
        let length = i32::try_from(key.len()).unwrap_or(i32::MAX);
        Some(vec![length % count])
    })
}

const OF_STORES: &[Example] = &[
    Example {
        operator: "Materialized::supplied",
        // The store keeps the row that was used last: the count of another key begins anew.
        build: |b| {
            let newest = Materialized::supplied(Stores::lru_map("newest", 1))
                .with_key_serde(String::serde())
                .with_caching_disabled();
            write(&stream(b, "in").group_by_key().count_with(newest));
        },
        ran: &[
            "in a x 0 -> a=1@0",
            "in a y 1 -> a=2@1",
            "in b x 2 -> b=1@2",
            "in a z 3 -> a=1@3",
        ],
    },
    Example {
        operator: "Materialized::with",
        build: |b| {
            let kept = Materialized::with(String::serde(), i64::serde())
                .with_store_type(StoreType::InMemory)
                .with_caching_enabled()
                .with_logging_enabled(segments());
            write(&stream(b, "in").group_by_key().count_with(kept));
        },
        ran: &["in a x 0 -> a=1@0"],
    },
];

const OF_JOINS: &[Example] = &[
    Example {
        operator: "TableJoined::with",
        // The producers of both topics choose partitions by the length of keys, so the join asks and answers there.
        build: |b| {
            let (orders, users) = (table(b, "orders"), table(b, "users"));
            write(&orders.join_foreign_key_with(
                &users,
                |_, order| order[..1].to_owned(),
                |order, user| format!("{order}-{user}"),
                TableJoined::with(by_length(), by_length()),
                kept(),
            ));
        },
        ran: &["orders 1 a-tea 0 ->", "users a anna 1 -> 1=a-tea-anna@1"],
    },
    Example {
        operator: "TableJoined::with_partitioner, with_other_partitioner",
        build: |b| {
            let (orders, users) = (table(b, "orders"), table(b, "users"));
            let joined = TableJoined::named("user")
                .with_partitioner(by_length())
                .with_other_partitioner(by_length());
            write(&orders.join_foreign_key_with(
                &users,
                |_, order| order[..1].to_owned(),
                |order, user| format!("{order}-{user}"),
                joined,
                kept(),
            ));
        },
        ran: &["users a anna 0 ->", "orders 1 a-tea 1 -> 1=a-tea-anna@1"],
    },
    Example {
        operator: "StreamJoined::with",
        build: |b| {
            let joined = StreamJoined::with(String::serde(), String::serde(), String::serde())
                .with_store_type(StoreType::InMemory)
                .with_logging_enabled(segments());
            let windows = JoinWindows::of_time_difference_with_no_grace(10);
            let (left, right) = (stream(b, "left"), stream(b, "right"));
            left.join_with(&right, |l, r| format!("{l}+{r}"), windows, joined)
                .to("out");
        },
        ran: &["left a x 0 ->", "right a y 10 -> a=x+y@10"],
    },
    Example {
        operator: "StreamJoined::with_this_store_supplier, with_other_store_supplier",
        // Each record of a key waits for partners, so the stores keep duplicates, as long as the windows.
        build: |b| {
            let store = |name| Stores::in_memory_window_store(name, 20, 20).retaining_duplicates();
            let joined = StreamJoined::named("pairs")
                .with_this_store_supplier(store("of-left"))
                .with_other_store_supplier(store("of-right"));
            let windows = JoinWindows::of_time_difference_with_no_grace(10);
            let (left, right) = (stream(b, "left"), stream(b, "right"));
            left.join_with(&right, |l, r| format!("{l}+{r}"), windows, joined)
                .to("out");
        },
        ran: &[
            "left a x 0 ->",
            "left a z 1 ->",
            "right a y 10 -> a=x+y@10 a=z+y@10",
        ],
    },
    Example {
        operator: "Joined::with_key_serde",
        build: |b| {
            let users = table(b, "users");
            let joined = Joined::named("user").with_key_serde(String::serde());
            stream(b, "clicks")
                .join_table_with(&users, |_, click, user| format!("{click}-{user}"), joined)
                .to("out");
        },
        ran: &["users a anna 0 ->", "clicks a x 1 -> a=x-anna@1"],
    },
];

fn kept() -> Materialized<String, String> {
    Materialized::named("kept").with_value_serde(String::serde())
}

const OF_TOPICS: &[Example] = &[
    Example {
        operator: "Consumed::with",
        // A record has the time that its value says.
        build: |b| {
            let consumed = Consumed::with(String::serde(), i64::serde())
                .with_timestamp_extractor(TimestampExtractor::Custom(Arc::new(|record, _| {
                    record.value
                })))
                .with_auto_offset_reset(AutoOffsetReset::Earliest);
            b.stream_with(&["numbers"], consumed).to("out-of-numbers");
            let lengths = stream(b, "in").map_values(|value| value.len() as i64);
            lengths.to("numbers");
            let again = b.stream_with::<String, i64>(&["out-of-numbers"], Consumed::default());
            again.map_values(ToString::to_string).to("out");
        },
        ran: &["in a xyz 9 -> a=3@3"],
    },
    Example {
        operator: "Produced::with",
        build: |b| {
            let produced = Produced::with(String::serde(), String::serde());
            let produced = produced.with_stream_partitioner(by_length());
            stream(b, "in").to_with("out", produced);
        },
        ran: &["in a x 0 -> a=x@0"],
    },
    Example {
        operator: "Repartitioned::with",
        build: |b| {
            let repartitioned = Repartitioned::with(String::serde(), String::serde());
            let repartitioned = repartitioned.with_stream_partitioner(by_length());
            stream(b, "in").repartition_with(repartitioned).to("out");
        },
        ran: &["in a x 0 -> a=x@0"],
    },
    Example {
        operator: "Printed::with_key_value_mapper",
        build: |b| {
            let shown = Printed::to(|line| assert_eq!(line, "[seen]: a has x"));
            let shown = shown
                .with_label("seen")
                .with_key_value_mapper(|key, value| format!("{key} has {value}"));
            stream(b, "in").print(shown);
        },
        ran: &["in a x 0 ->"],
    },
];

const OF_TIMES: &[Example] = &[
    Example {
        operator: "JoinWindows::before, after",
        // The right record is at most 20 ms later than the left one, and not earlier.
        build: |b| {
            let windows = JoinWindows::of_time_difference_and_grace(0, 5)
                .before(0)
                .after(20);
            let (left, right) = (stream(b, "left"), stream(b, "right"));
            left.join(&right, |l, r| format!("{l}+{r}"), windows)
                .to("out");
        },
        ran: &[
            "right a x 9 ->",
            "left a y 10 ->",
            "right a z 30 -> a=y+z@30",
        ],
    },
    Example {
        operator: "SlidingWindows::of_time_difference_and_grace",
        build: |b| {
            let windows = SlidingWindows::of_time_difference_and_grace(10, 30);
            let grouped = stream(b, "in").group_by_key();
            write_windows(&grouped.windowed_by_sliding(windows).count());
        },
        // The second record is late, and within the grace.
        ran: &["in b x 40 -> b@30-40=1@40", "in a x 20 -> a@10-20=1@20"],
    },
    Example {
        operator: "SessionWindows::of_inactivity_gap_and_grace",
        build: |b| {
            let windows = SessionWindows::of_inactivity_gap_and_grace(10, 30);
            let grouped = stream(b, "in").group_by_key();
            write_windows(&grouped.windowed_by_sessions(windows).count());
        },
        ran: &["in b x 40 -> b@40-40=1@40", "in a x 20 -> a@20-20=1@20"],
    },
    Example {
        operator: "EmitStrategy::on_window_update",
        build: |b| {
            let windows = TimeWindows::of_size_with_no_grace(60);
            let windowed = stream(b, "in").group_by_key().windowed_by(windows);
            let windowed = windowed.emit_strategy(EmitStrategy::on_window_update());
            write_windows(&windowed.count());
        },
        ran: &["in a x 10 -> a@0-60=1@10", "in a y 20 -> a@0-60=2@20"],
    },
    Example {
        operator: "BufferConfig::max_bytes",
        // The buffer has no room for a row, so nothing waits.
        build: |b| {
            let limits = BufferConfig::max_bytes(1).emit_early_when_full();
            write(&table(b, "in").suppress(Suppressed::until_time_limit(30, limits)));
        },
        ran: &["in a x 0 -> a=x@0"],
    },
];
