//! Window stores.

use super::key_value::offsets;
use super::world::{TOPIC, VARIANTS, Variant, World, hex, restored};
use crate::headers::Headers;
use crate::serde::{DefaultSerde as _, Window, Windowed};
use crate::state::{
    ChangelogConfig, Direction, DslStoreFormat, Forwarding, Plain, StateStore, StoreBuilder,
    StoreType, Stores, TimeFirst, WindowStore, WindowStoreBuilder, WindowSupplier, WithHeaders,
};
use bytes::Bytes;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

type Store = WindowStore<String, String>;

const RETENTION_MS: i64 = 200_000;
const SIZE_MS: i64 = 1000;
const INTERVAL_MS: i64 = 100_000;

const IN_MEMORY: Variant = Variant {
    store_type: StoreType::InMemory,
    is_cached: false,
    cache_bytes: 0,
};

fn supplier(store_type: StoreType, time_first: TimeFirst) -> WindowSupplier {
    let format = DslStoreFormat::Timestamped;
    WindowSupplier::new("s", store_type, format, RETENTION_MS, SIZE_MS).with_time_first(time_first)
}

fn builder(variant: Variant, supplier: WindowSupplier) -> WindowStoreBuilder<String, String> {
    let builder =
        Stores::timestamped_window_store_builder(supplier, String::serde(), String::serde());
    match variant.is_cached {
        true => builder.with_caching_enabled(),
        false => builder,
    }
}

fn put(
    world: &mut World,
    store: &Rc<RefCell<Store>>,
    key: &str,
    value: Option<&str>,
    start_ms: i64,
) {
    let value = value.map(str::to_owned);
    store
        .borrow_mut()
        .put(
            &mut world.context,
            &key.to_owned(),
            value.as_ref(),
            start_ms,
        )
        .expect("put");
}

fn values(store: &Rc<RefCell<Store>>, key: &str, from_ms: i64, to_ms: i64) -> Vec<(i64, String)> {
    store
        .borrow_mut()
        .fetch(&key.to_owned(), from_ms..=to_ms)
        .expect("fetch")
        .map(|row| row.expect("row"))
        .collect()
}

const TIMES_FIRST: [TimeFirst; 3] = [TimeFirst::No, TimeFirst::WithIndex, TimeFirst::WithoutIndex];

#[test]
fn rows_expire_by_the_latest_start() {
    for variant in VARIANTS {
        for time_first in TIMES_FIRST {
            let mut world = World::new(variant.cache_bytes);
            let (store, life) =
                world.build::<Store>(&builder(variant, supplier(variant.store_type, time_first)));
            let mut write = |key_values: &[(&str, i64)]| {
                for (value, start_ms) in key_values {
                    put(&mut world, &store, "k", Some(value), *start_ms);
                    let flushed = life.borrow_mut().flush(&mut world.context);
                    flushed.expect("flushed");
                }
                world.context.metrics.dropped_records
            };
            assert_eq!(write(&[("a", 0), ("b", 50_000), ("c", 200_001)]), 0);
            let own = |start_ms: i64, value: &str| (start_ms, value.to_owned());
            let is_cached = variant.is_cached && time_first != TimeFirst::WithIndex;
            if !is_cached {
                // What starts the retention before the latest start is not seen, although its segment is there.
                let expected = [own(50_000, "b"), own(200_001, "c")];
                assert_eq!(values(&store, "k", 0, i64::MAX), expected);
                let first = store.borrow_mut().fetch_one(&"k".to_owned(), 0);
                assert_eq!(first.expect("got"), None);
            }
            // A segment that has expired takes nothing, although a cache keeps it.
            let dropped = write(&[("d", 500_000), ("e", 199_999), ("f", 300_001)]);
            assert_eq!(dropped, 1, "{variant:?} {time_first:?}");
            if !is_cached {
                let expected = [own(300_001, "f"), own(500_000, "d")];
                assert_eq!(values(&store, "k", 0, i64::MAX), expected);
            }
        }
    }
}

/// More of them than memory has room for, in three segments.
#[test]
fn windows_that_are_restored_by_merged_runs_are_all_there() {
    let mut before = World::new(0);
    let supplier_of = |store_type| supplier(store_type, TimeFirst::No);
    let (written, _) = before.build::<Store>(&builder(IN_MEMORY, supplier_of(StoreType::InMemory)));
    let key = |number: i64| format!("{}", number % 20);
    let start_ms = |number: i64| 60_000 + number * 131 % 190_000;
    let value = "v".repeat(12_000);
    for number in 0..1_600 {
        let value = format!("{number}{value}");
        put(
            &mut before,
            &written,
            &key(number),
            Some(&value),
            start_ms(number),
        );
    }
    for number in (0..1_600).step_by(7) {
        put(&mut before, &written, &key(number), None, start_ms(number));
    }
    let records = restored(&before.drain());

    let on_disk = Variant {
        store_type: StoreType::Persistent,
        ..IN_MEMORY
    };
    let builder = builder(on_disk, supplier_of(StoreType::Persistent));
    let world = World::new(0);
    let (store, life) = world.build::<Store>(&builder);
    let check = |store: &Rc<RefCell<Store>>| {
        for number in 0..20 {
            let expected = values(&written, &key(number), 0, i64::MAX);
            assert!(expected.len() > 60);
            assert!(values(store, &key(number), 0, i64::MAX) == expected);
        }
    };
    life.borrow_mut().restore(&records).expect("restored");
    while !life.borrow_mut().settle(0).expect("written") {}
    check(&store);
    life.borrow_mut().commit(&offsets(1)).expect("committed");
    let after = world.killed(0);
    let (left, _) = after.build::<Store>(&builder);
    check(&left);
}

#[test]
fn what_a_cache_has_is_seen_although_it_has_expired() {
    for store_type in [StoreType::InMemory, StoreType::Persistent] {
        let cached = Variant {
            store_type,
            is_cached: true,
            cache_bytes: 1 << 20,
        };
        for time_first in [TimeFirst::No, TimeFirst::WithoutIndex] {
            let mut world = World::new(cached.cache_bytes);
            let (store, life) =
                world.build::<Store>(&builder(cached, supplier(store_type, time_first)));
            put(&mut world, &store, "k", Some("a"), 0);
            put(&mut world, &store, "j", Some("b"), 900_000);
            let flushed = life.borrow_mut().flush(&mut world.context);
            flushed.expect("flushed");
            let own = |value: &str| value.to_owned();
            let first = store.borrow_mut().fetch_one(&own("k"), 0);
            assert_eq!(first.expect("got"), Some(own("a")));
            assert_eq!(values(&store, "k", 0, 10), [(0, own("a"))]);
            let mut store = store.borrow_mut();
            let all: Vec<_> = store
                .all()
                .expect("all")
                .map(|row| row.expect("row").1)
                .collect();
            assert_eq!(all, ["a", "b"], "{store_type:?} {time_first:?}");
        }
    }
}

#[test]
fn rows_in_memory_expire_one_by_one_and_stand_by_time() {
    let mut world = World::new(0);
    let supplier = supplier(StoreType::InMemory, TimeFirst::No);
    let (store, _) = world.build::<Store>(&builder(IN_MEMORY, supplier));
    for (key, start_ms) in [("b", 20), ("a", 20), ("c", 5), ("a", 30), ("b", 4)] {
        put(&mut world, &store, key, Some("1"), start_ms);
    }
    let own = |rows: &[(&str, i64)]| -> Vec<(String, i64)> {
        rows.iter()
            .map(|(key, start_ms)| ((*key).to_owned(), *start_ms))
            .collect()
    };
    let range = |from: Option<&str>, to: Option<&str>, back: bool| -> Vec<(String, i64)> {
        let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
        store
            .borrow_mut()
            .fetch_keys_as::<Plain>(from.as_ref(), to.as_ref(), 0..=i64::MAX, direction(back))
            .expect("fetch")
            .map(|row| row.expect("row").0)
            .map(|window| (window.key, window.window.start_ms))
            .collect()
    };
    let mut expected = own(&[("b", 4), ("c", 5), ("a", 20), ("b", 20), ("a", 30)]);
    assert_eq!(range(None, None, false), expected);
    expected.reverse();
    assert_eq!(range(None, None, true), expected);
    let expected = own(&[("b", 4), ("c", 5), ("b", 20)]);
    assert_eq!(range(Some("b"), Some("c"), false), expected);
    // 5 is the retention before the latest.
    put(&mut world, &store, "z", Some("1"), RETENTION_MS + 5);
    assert_eq!(world.context.metrics.dropped_records, 0);
    put(&mut world, &store, "a", Some("1"), 5);
    assert_eq!(world.context.metrics.dropped_records, 1);
    put(&mut world, &store, "a", Some("1"), 6);
    assert_eq!(world.context.metrics.dropped_records, 1);
    let expected = own(&[("a", 6), ("a", 20), ("b", 20)]);
    assert_eq!(range(Some("a"), Some("b"), false)[..3], expected);
}

#[test]
fn a_null_of_a_store_of_duplicates_is_no_row_on_disk() {
    for (store_type, expected) in [
        (StoreType::Persistent, vec![(1000, "a".to_owned())]),
        (StoreType::InMemory, Vec::new()),
    ] {
        let mut world = World::new(0);
        let supplier = supplier(store_type, TimeFirst::No).retaining_duplicates();
        let (store, _) = world.build::<Store>(&builder(IN_MEMORY, supplier));
        put(&mut world, &store, "k", Some("a"), 1000);
        put(&mut world, &store, "k", None, 1000 + RETENTION_MS);
        // In memory it has come later than the row may be seen.
        assert_eq!(values(&store, "k", 0, i64::MAX), expected);
    }
}

#[test]
fn duplicates_are_numbered_by_the_store_and_by_the_changelog() {
    for store_type in [StoreType::InMemory, StoreType::Persistent] {
        let mut world = World::new(0);
        let supplier = supplier(store_type, TimeFirst::No).retaining_duplicates();
        let (store, _) = world.build::<Store>(&builder(IN_MEMORY, supplier));
        put(&mut world, &store, "k", Some("a"), 1000);
        put(&mut world, &store, "k", None, 1000);
        put(&mut world, &store, "k", Some("b"), 1000);
        let own = |value: &str| (1000, value.to_owned());
        assert_eq!(values(&store, "k", 0, 2000), [own("a"), own("b")]);
        let keys: Vec<_> = world
            .drain()
            .iter()
            .map(|record| {
                let key = record.key.as_deref().map(hex).unwrap_or_default();
                (key, record.value.is_some())
            })
            .collect();
        let key = |number: &str| format!("6b00000000000003e8{number}");
        let expected = [
            (key("00000001"), true),
            (key("00000002"), false),
            (key("00000003"), true),
        ];
        assert_eq!(keys, expected);
    }
}

/// As in Kafka Streams, which asks with the number of the last row: a row is found until another one is put.
#[test]
fn one_of_several_duplicates_is_the_row_that_was_put_last() {
    for store_type in [StoreType::InMemory, StoreType::Persistent] {
        let mut world = World::new(0);
        let supplier = supplier(store_type, TimeFirst::No).retaining_duplicates();
        let (store, _) = world.build::<Store>(&builder(IN_MEMORY, supplier));
        let one = |key: &str| {
            let found = store.borrow_mut().fetch_one(&key.to_owned(), 1000);
            found.expect("fetched")
        };
        put(&mut world, &store, "k", Some("a"), 1000);
        put(&mut world, &store, "k", Some("b"), 1000);
        assert_eq!(one("k").as_deref(), Some("b"));
        put(&mut world, &store, "k", None, 1000);
        let kept_on_disk = (store_type == StoreType::Persistent).then_some("b");
        assert_eq!(one("k").as_deref(), kept_on_disk, "a null has a number");
        put(&mut world, &store, "other", Some("c"), 1000);
        assert_eq!((one("k"), one("other")), (None, Some("c".to_owned())));
    }
}

/// Whether it has gone on with the rows on its disk, or has restored them.
#[test]
fn duplicates_of_a_process_before_are_not_written_over() {
    for store_type in [StoreType::InMemory, StoreType::Persistent] {
        let built = || {
            let supplier = supplier(store_type, TimeFirst::No).retaining_duplicates();
            builder(IN_MEMORY, supplier)
        };
        let mut world = World::new(0);
        let (store, life) = world.build::<Store>(&built());
        put(&mut world, &store, "k", Some("a"), 1000);
        put(&mut world, &store, "k", Some("b"), 1000);
        let produced = world.drain();
        let last = BTreeMap::from([((Arc::from(TOPIC), 7), 1)]);
        life.borrow_mut().commit(&last).expect("committed");
        let mut world = world.killed(0);
        let (store, life) = world.build::<Store>(&built());
        if store_type == StoreType::InMemory {
            life.borrow_mut()
                .restore(&restored(&produced))
                .expect("restored");
        }
        put(&mut world, &store, "k", Some("c"), 1000);
        let expected = ["a", "b", "c"].map(|value| (1000, value.to_owned()));
        assert_eq!(values(&store, "k", 0, 2000), expected);
        let keys = world.drain().into_iter().chain(produced);
        let keys: BTreeSet<_> = keys.map(|record| record.key).collect();
        assert_eq!(keys.len(), 3, "nor in the changelog");
    }
}

#[test]
fn rows_of_join_windows_log_the_headers_of_their_record() {
    let mut headers = Headers::new();
    headers.add("h", Bytes::from_static(b"1"));
    let mut world = World::new(0);
    let supplier = WindowSupplier {
        format: DslStoreFormat::Plain,
        ..supplier(StoreType::Persistent, TimeFirst::No).retaining_duplicates()
    };
    let builder = Stores::window_store_builder(supplier, String::serde(), String::serde());
    let (store, _) = world.build::<Store>(&builder.logging_record_headers());
    world.record(1234, headers.clone());
    put(&mut world, &store, "k", Some("v"), 1000);
    let record = world.drain().remove(0);
    assert_eq!(record.headers, headers);
    assert_eq!(record.timestamp_ms, Some(1234));
    assert_eq!(record.value.as_deref(), Some(&b"v"[..]));
}

#[test]
fn headers_are_kept_in_windows() {
    for store_type in [StoreType::InMemory, StoreType::Persistent] {
        let mut headers = Headers::new();
        headers.add("h", Bytes::from_static(b"1"));
        let mut world = World::new(0);
        let supplier = WindowSupplier {
            format: DslStoreFormat::Headers,
            ..supplier(store_type, TimeFirst::No)
        };
        let builder = Stores::timestamped_window_store_with_headers_builder(
            supplier,
            String::serde(),
            String::serde(),
        );
        let (store, _) = world.build::<Store>(&builder);
        let (key, value) = ("k".to_owned(), "v".to_owned());
        store
            .borrow_mut()
            .put_with_headers(&mut world.context, &key, Some(&value), 7, &headers, 1000)
            .expect("put");
        let got = store
            .borrow_mut()
            .fetch_one_as::<WithHeaders>(&key, 1000)
            .expect("got")
            .expect("it is there");
        assert_eq!((got.timestamp_ms, got.headers), (7, headers));
    }
}

#[test]
fn segments_are_found_again_and_dropped_from_the_disk() {
    let variant = Variant {
        store_type: StoreType::Persistent,
        ..IN_MEMORY
    };
    let builder = builder(variant, supplier(StoreType::Persistent, TimeFirst::No));
    let mut world = World::new(0);
    let (store, life) = world.build::<Store>(&builder);
    for start_ms in (0..10).map(|window| window * INTERVAL_MS) {
        put(&mut world, &store, "k", Some("v"), start_ms);
    }
    life.borrow_mut().commit(&offsets(9)).expect("committed");
    let mut killed = world.killed(0);
    let (store, _) = killed.build::<Store>(&builder);
    let starts = |store: &Rc<RefCell<Store>>| -> Vec<i64> {
        let found = values(store, "k", 0, i64::MAX);
        found.iter().map(|(start_ms, _)| *start_ms).collect()
    };
    // The latest start is not kept: what the segments have is seen until a later one is put.
    assert_eq!(starts(&store), [700_000, 800_000, 900_000]);
    put(&mut killed, &store, "k", Some("v"), 1_000_000);
    assert_eq!(starts(&store), [900_000, 1_000_000]);
}

/// Rows of several segments, each of which has a map of its own.
#[test]
fn what_was_restored_is_there_when_its_offset_is() {
    let variant = Variant {
        store_type: StoreType::Persistent,
        ..IN_MEMORY
    };
    let builder = builder(variant, supplier(StoreType::Persistent, TimeFirst::No));
    let mut world = World::new(0);
    let (store, life) = world.build::<Store>(&builder);
    for start_ms in [700_000, 800_000, 900_000] {
        put(&mut world, &store, "k", Some("v"), start_ms);
    }
    let records = restored(&world.drain());
    drop(life);
    let world = World::new(0);
    let (_, life) = world.build::<Store>(&builder);
    life.borrow_mut().restore(&records).expect("restored");
    let committed = life.borrow_mut().commit(&offsets(9));
    committed.expect("committed");
    let killed = world.killed(0);
    let (left, life) = killed.build::<Store>(&builder);
    let offset = life.borrow().committed_offset("t", 7);
    assert_eq!(offset.expect("read"), Some(9));
    let found = values(&left, "k", 0, i64::MAX);
    let starts: Vec<i64> = found.iter().map(|(start_ms, _)| *start_ms).collect();
    assert_eq!(starts, [700_000, 800_000, 900_000]);
}

#[test]
fn changelogs_of_windows_are_kept_a_day_longer() {
    let configs = |supplier: WindowSupplier| -> Vec<(String, String)> {
        let config = StoreBuilder::changelog(&builder(IN_MEMORY, supplier)).expect("it is logged");
        config
            .topic_configs(86_400_000, &BTreeMap::new())
            .into_iter()
            .collect()
    };
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let retention = own("retention.ms", "86600000");
    let supplier = supplier(StoreType::InMemory, TimeFirst::No);
    let time = own("message.timestamp.type", "CreateTime");
    let policy = |policy| own("cleanup.policy", policy);
    let expected = [policy("compact,delete"), time.clone(), retention.clone()];
    assert_eq!(configs(supplier.clone()), expected);
    let expected = [policy("delete"), time, retention];
    assert_eq!(configs(supplier.retaining_duplicates()), expected);
}

#[test]
fn what_is_wanted_of_one_changelog_counts_more_than_what_is_wanted_of_all() {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let config = ChangelogConfig {
        configs: BTreeMap::from([pair("cleanup.policy", "compact,delete")]),
        overrides: BTreeMap::from([pair("segment.bytes", "2")]),
        retention_ms: Some(1_000),
    };
    let of_all = BTreeMap::from([
        pair("segment.bytes", "1"),
        pair("cleanup.policy", "delete"),
        pair("retention.ms", "7"),
    ]);
    let configs = config.topic_configs(10, &of_all);
    assert_eq!(configs["segment.bytes"], "2");
    assert_eq!(configs["cleanup.policy"], "delete");
    // The rows of windows are needed as long, whatever is wanted of all topics.
    assert_eq!(configs["retention.ms"], "1010");
    let overrides = BTreeMap::from([pair("retention.ms", "5")]);
    let config = ChangelogConfig {
        overrides,
        ..config
    };
    assert_eq!(config.topic_configs(10, &of_all)["retention.ms"], "5");
}

#[test]
fn a_cache_gives_on_windows() {
    let variant = Variant {
        store_type: StoreType::InMemory,
        is_cached: true,
        cache_bytes: 1 << 20,
    };
    let mut world = World::new(variant.cache_bytes);
    let (store, life) = world.build::<Store>(&builder(
        variant,
        supplier(StoreType::InMemory, TimeFirst::No),
    ));
    assert!(store.borrow_mut().forward_flushed(Forwarding::NewValues));
    put(&mut world, &store, "k", Some("a"), 1000);
    put(&mut world, &store, "k", Some("b"), 1000);
    life.borrow_mut()
        .flush(&mut world.context)
        .expect("flushed");
    let flushed = store
        .borrow_mut()
        .take_flushed()
        .expect("taken")
        .expect("one");
    let window = Window::of_time(1000, 2000);
    assert_eq!(flushed.key, Windowed::new("k".to_owned(), window));
    assert_eq!(flushed.change.new.as_deref(), Some("b"));
    assert!(store.borrow_mut().take_flushed().expect("taken").is_none());
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, i64, u8),
    Delete(u8, i64),
    GetOne(u8, i64),
    Fetch(u8, i64, i64, bool),
    FetchKeys(Option<u8>, Option<u8>, i64, i64, bool),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..8_u8;
    let time = (0..80_i64).prop_map(|time| time * 10_000);
    prop_oneof![
        6 => (key.clone(), time.clone(), any::<u8>()).prop_map(|(key, time, value)| Step::Put(key, time, value)),
        1 => (key.clone(), time.clone()).prop_map(|(key, time)| Step::Delete(key, time)),
        1 => (key.clone(), time.clone()).prop_map(|(key, time)| Step::GetOne(key, time)),
        2 => (key.clone(), time.clone(), time.clone(), any::<bool>())
            .prop_map(|(key, from, to, back)| Step::Fetch(key, from, to, back)),
        2 => (proptest::option::of(key.clone()), proptest::option::of(key), time.clone(), time, any::<bool>())
            .prop_map(|(first, last, from, to, back)| Step::FetchKeys(first, last, from, to, back)),
        1 => Just(Step::Flush),
    ]
}

/// Keys that begin with one another, and with bytes like those of times.
fn key_of(key: u8) -> String {
    [
        "a",
        "a\0",
        "a\0\0",
        "ab",
        "b",
        "",
        "\0",
        "a\0\0\0\0\0\0\0\u{1}",
    ][usize::from(key)]
    .to_owned()
}

#[derive(Default)]
struct Model {
    rows: BTreeMap<(String, i64), String>,
    observed_ms: i64,
}

/// Key, start, value.
type Row = ((String, i64), String);

/// What a store shows of its rows.
#[derive(Clone, Copy)]
struct Sight {
    variant: Variant,
    time_first: TimeFirst,
}

impl Sight {
    /// How much earlier than the latest a row may be.
    fn visible_ms(self) -> i64 {
        RETENTION_MS + i64::from(self.time_first != TimeFirst::No)
    }

    /// A cache may show rows that have expired.
    fn may_show_more(self) -> bool {
        self.variant.is_cached && self.time_first != TimeFirst::WithIndex
    }

    /// Checks what was found: all that has not expired, and of what has only what a cache has.
    fn check<T: PartialEq + std::fmt::Debug>(self, found: &[T], all: &[(T, bool)]) {
        let mut rest = all.iter();
        let mut visible = Vec::new();
        for row in found {
            let same = rest.find(|(other, _)| other == row);
            let (row, is_visible) = same.unwrap_or_else(|| panic!("{row:?}: {found:?} {all:?}"));
            assert!(*is_visible || self.may_show_more(), "{row:?}");
            visible.extend(is_visible.then_some(row));
        }
        let expected = all.iter().filter(|(_, is_visible)| *is_visible);
        let expected: Vec<_> = expected.map(|(row, _)| row).collect();
        assert_eq!(visible, expected);
    }
}

impl Model {
    fn find(
        &self,
        from: Option<&String>,
        to: Option<&String>,
        times: (i64, i64),
        (sight, by_time): (Sight, bool),
        back: bool,
    ) -> Vec<(Row, bool)> {
        let mut found: Vec<_> = self
            .rows
            .iter()
            .filter(|((key, start_ms), _)| {
                from.is_none_or(|from| from <= key)
                    && to.is_none_or(|to| key <= to)
                    && (times.0..=times.1).contains(start_ms)
            })
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        found.sort_by_key(|((key, start_ms), _)| {
            let time = start_ms.to_be_bytes();
            match by_time {
                true => (*start_ms, key.as_bytes().to_vec()),
                false => (start_ms / INTERVAL_MS, [key.as_bytes(), &time].concat()),
            }
        });
        if back {
            found.reverse();
        }
        let first_ms = self.observed_ms - sight.visible_ms();
        let seen = found.into_iter().map(|row| {
            let is_visible = row.0.1 > first_ms;
            (row, is_visible)
        });
        seen.collect()
    }
}

fn direction(back: bool) -> Direction {
    match back {
        true => Direction::Backward,
        false => Direction::Forward,
    }
}

fn ask(store: &Rc<RefCell<Store>>, model: &Model, sight: Sight, question: &Step) {
    match question {
        Step::GetOne(key, start_ms) => {
            let key = key_of(*key);
            let value = store.borrow_mut().fetch_one(&key, *start_ms).expect("got");
            let found: Vec<_> = value
                .into_iter()
                .map(|value| ((key.clone(), *start_ms), value))
                .collect();
            let times = (*start_ms, *start_ms);
            sight.check(
                &found,
                &model.find(Some(&key), Some(&key), times, (sight, true), false),
            );
        }
        Step::Fetch(key, from, to, back) => {
            let key = key_of(*key);
            let found: Vec<_> = store
                .borrow_mut()
                .fetch_as::<Plain>(&key, *from..=*to, direction(*back))
                .expect("fetch")
                .map(|row| row.expect("row"))
                .map(|(start_ms, value)| ((key.clone(), start_ms), value))
                .collect();
            let order = (sight, true);
            sight.check(
                &found,
                &model.find(Some(&key), Some(&key), (*from, *to), order, *back),
            );
        }
        Step::FetchKeys(first, last, from, to, back) => {
            let (first, last) = (first.map(key_of), last.map(key_of));
            let found: Vec<_> = store
                .borrow_mut()
                .fetch_keys_as::<Plain>(
                    first.as_ref(),
                    last.as_ref(),
                    *from..=*to,
                    direction(*back),
                )
                .expect("fetch")
                .map(|row| row.expect("row"))
                .map(|(key, value)| ((key.key, key.window.start_ms), value))
                .collect();
            let by_time = match sight.time_first {
                _ if sight.variant.store_type == StoreType::InMemory => true,
                TimeFirst::No => false,
                TimeFirst::WithIndex => first.is_none() && last.is_none(),
                TimeFirst::WithoutIndex => true,
            };
            let (first, last) = (first.as_ref(), last.as_ref());
            let order = (sight, by_time);
            sight.check(&found, &model.find(first, last, (*from, *to), order, *back));
        }
        Step::Put(..) | Step::Delete(..) | Step::Flush => {}
    }
}

fn follow(variant: Variant, time_first: TimeFirst, steps: &[Step]) {
    let mut world = World::new(variant.cache_bytes);
    let builder = builder(variant, supplier(variant.store_type, time_first));
    let (store, life) = world.build::<Store>(&builder);
    let mut model = Model {
        observed_ms: -1,
        ..Model::default()
    };
    for step in steps {
        match step {
            Step::Put(key, start_ms, value) => {
                let value = format!("{value}");
                put(&mut world, &store, &key_of(*key), Some(&value), *start_ms);
                model.observed_ms = model.observed_ms.max(*start_ms);
                model.rows.insert((key_of(*key), *start_ms), value);
            }
            Step::Delete(key, start_ms) => {
                put(&mut world, &store, &key_of(*key), None, *start_ms);
                model.observed_ms = model.observed_ms.max(*start_ms);
                model.rows.remove(&(key_of(*key), *start_ms));
            }
            Step::Flush => life
                .borrow_mut()
                .flush(&mut world.context)
                .expect("flushed"),
            question => ask(
                &store,
                &model,
                Sight {
                    variant,
                    time_first,
                },
                question,
            ),
        }
    }
    restore_elsewhere(&mut world, &store, &life, model.observed_ms - RETENTION_MS);
}

/// Whoever restores the changelog has the same.
fn restore_elsewhere(
    world: &mut World,
    store: &Rc<RefCell<Store>>,
    life: &Rc<RefCell<dyn StateStore>>,
    expired_ms: i64,
) {
    life.borrow_mut()
        .flush(&mut world.context)
        .expect("flushed");
    let records = restored(&world.drain());
    let (copy, life) = World::new(0).build::<Store>(&builder(
        IN_MEMORY,
        supplier(StoreType::InMemory, TimeFirst::No),
    ));
    life.borrow_mut().restore(&records).expect("restored");
    let rows = |store: &Rc<RefCell<Store>>| -> BTreeMap<(String, i64), String> {
        store
            .borrow_mut()
            .all()
            .expect("all")
            .map(|row| row.expect("row"))
            .map(|(key, value)| ((key.key, key.window.start_ms), value))
            .filter(|((_, start_ms), _)| *start_ms > expired_ms)
            .collect()
    };
    assert_eq!(rows(&copy), rows(store));
}

proptest! {
    #![proptest_config(trials::property(48))]

    #[test]
    fn a_window_store_is_a_map_that_forgets(
        steps in proptest::collection::vec(step(), 0..60),
        variant in 0..VARIANTS.len(),
        time_first in prop_oneof![
            2 => Just(TimeFirst::No),
            1 => Just(TimeFirst::WithIndex),
            1 => Just(TimeFirst::WithoutIndex),
        ],
    ) {
        follow(VARIANTS[variant], time_first, &steps);
    }
}
