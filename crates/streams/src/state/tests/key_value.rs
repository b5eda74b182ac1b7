//! Key-value stores.

use super::world::{VARIANTS, Variant, World, hex, restored};
use crate::headers::Headers;
use crate::record::ValueAndTimestamp;
use crate::serde::DefaultSerde as _;
use crate::state::{
    Direction, DslStoreFormat, Flushed, Forwarding, KeyValueStore, KeyValueStoreBuilder,
    KeyValueSupplier, Offsets, Plain, ReadOnly, StoreBuilder as _, StoreType, Stores, Timestamped,
    ValueTimestampHeaders, WithHeaders,
};
use bytes::Bytes;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

type Store = KeyValueStore<String, String>;

fn builder(variant: Variant, format: DslStoreFormat) -> KeyValueStoreBuilder<String, String> {
    let supplier = KeyValueSupplier::new("s", variant.store_type, format);
    let (key, value) = (String::serde(), String::serde());
    let builder = match format {
        DslStoreFormat::Plain => Stores::key_value_store_builder(supplier, key, value),
        DslStoreFormat::Timestamped => {
            Stores::timestamped_key_value_store_builder(supplier, key, value)
        }
        DslStoreFormat::Headers => {
            Stores::timestamped_key_value_store_with_headers_builder(supplier, key, value)
        }
    };
    match variant.is_cached {
        true => builder.with_caching_enabled(),
        false => builder,
    }
}

fn headers(key: &str) -> Headers {
    let mut headers = Headers::new();
    headers.add(key, Bytes::from_static(&[1]));
    headers
}

fn rows(rows: impl Iterator<Item = Result<(String, String), crate::StreamsError>>) -> String {
    rows.map(|row| row.expect("a row"))
        .fold(String::new(), |mut text, (key, value)| {
            write!(text, "{key}={value} ").expect("text");
            text
        })
        .trim_end()
        .to_owned()
}

/// Runs a script in every variant and format: `a=1` puts, `-a` deletes, `!` flushes, `?a` gets, `a..c` is a range,
/// `c<a` one the other way round, `a*` a prefix, `a?=1` puts if absent.
fn check(script: &str, expect: &str) {
    for variant in VARIANTS {
        for format in [
            DslStoreFormat::Plain,
            DslStoreFormat::Timestamped,
            DslStoreFormat::Headers,
        ] {
            let mut world = World::new(variant.cache_bytes);
            let (store, life) = world.build::<Store>(&builder(variant, format));
            let said: Vec<String> = script
                .split_whitespace()
                .filter_map(|word| run(&mut world, &mut store.borrow_mut(), word))
                .collect();
            assert_eq!(said.join("; "), expect, "{variant:?} {format:?}: {script}");
            life.borrow_mut().close().expect("closed");
        }
    }
}

fn run(world: &mut World, store: &mut Store, word: &str) -> Option<String> {
    let context = &mut world.context;
    let bound = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    if word == "!" {
        crate::state::StateStore::flush(store, context).expect("flushed");
        return None;
    }
    if let Some(key) = word.strip_prefix('?') {
        let value = store.get(&key.to_owned()).expect("got");
        return Some(value.unwrap_or_else(|| "none".to_owned()));
    }
    if let Some(key) = word.strip_prefix('-') {
        let old = store.delete(context, &key.to_owned()).expect("deleted");
        return Some(format!("was {}", old.unwrap_or_default()));
    }
    if let Some((key, value)) = word.split_once("?=") {
        let value = value.to_owned();
        let present = store
            .put_if_absent(context, &key.to_owned(), Some(&value))
            .expect("put");
        return Some(present.unwrap_or_else(|| "absent".to_owned()));
    }
    if let Some((key, value)) = word.split_once('=') {
        let value = value.to_owned();
        store
            .put(context, &key.to_owned(), Some(&value))
            .expect("put");
        return None;
    }
    if let Some((from, to)) = word.split_once("..") {
        let (from, to) = (bound(from), bound(to));
        return Some(rows(
            store.range(from.as_ref(), to.as_ref()).expect("range"),
        ));
    }
    if let Some((to, from)) = word.split_once('<') {
        let (from, to) = (bound(from), bound(to));
        let range = store.reverse_range(from.as_ref(), to.as_ref());
        return Some(rows(range.expect("range")));
    }
    let prefix = word.strip_suffix('*').expect("a word of the script");
    let scan = store.prefix_scan(&prefix.to_owned(), &*String::serde());
    Some(rows(scan.expect("scan")))
}

#[test]
fn what_was_put_is_found() {
    check("?a a=1 ?a a=2 ?a", "none; 1; 2");
    check("a=1 b=2 -a ?a -a ?b", "was 1; none; was ; 2");
    check("a=1 ! a=2 ! -a ! ?a ..", "was 2; none; ");
    check("a?=1 a?=2 ?a", "absent; 1; 1");
}

#[test]
fn ranges_are_in_the_order_of_keys() {
    check(
        "c=3 a=1 ! b=2 bb=4 b..c ..b c.. .. < c<b",
        "b=2 bb=4 c=3; a=1 b=2; c=3; a=1 b=2 bb=4 c=3; c=3 bb=4 b=2 a=1; c=3 bb=4 b=2",
    );
    check("a=1 b=2 ! -a c=3 .. <", "was 1; b=2 c=3; c=3 b=2");
    check("a=1 b=2 c..a c<d", "; ");
    check("a=1 aa=2 ab=3 b=4 a* aa* x*", "a=1 aa=2 ab=3; aa=2; ");
    // Wide enough to make a cache sort its keys once, and then keep them sorted.
    check(
        "a=1 .. b=2 .. -a .. a=3 ..",
        "a=1; a=1 b=2; was 1; b=2; a=3 b=2",
    );
}

#[test]
fn a_key_may_be_empty() {
    check(
        "? =1 a=2 ? .. ! < =3 ? ..a -  .. ?a ! ?",
        "none; 1; =1 a=2; a=2 =1; 3; =3 a=2; was 3; a=2; 2; none",
    );
    check("=1 b=2 - ! -  b..c =4 ! <", "was 1; was ; b=2; b=2 =4");
}

#[test]
fn every_view_reads_every_format() {
    let check = |format, expected: (i64, Headers)| {
        for variant in VARIANTS {
            let mut world = World::new(variant.cache_bytes);
            let (store, _) = world.build::<Store>(&builder(variant, format));
            let mut store = store.borrow_mut();
            let (key, value) = ("k".to_owned(), "v".to_owned());
            store
                .put_with_headers(&mut world.context, &key, Some(&value), 1000, &headers("a"))
                .expect("put");
            assert_eq!(store.get(&key).expect("got"), Some(value.clone()));
            let (timestamp_ms, headers) = expected.clone();
            let expected = ValueTimestampHeaders {
                value: value.clone(),
                timestamp_ms,
                headers,
            };
            let got = store.get_as::<WithHeaders>(&key).expect("got");
            assert_eq!(got, Some(expected));
            let rows: Vec<_> = store
                .range_as::<Timestamped>(None, None, Direction::Forward)
                .expect("range")
                .map(|row| row.expect("row"))
                .collect();
            let expected = ValueAndTimestamp {
                value,
                timestamp_ms,
            };
            assert_eq!(rows, [(key, expected)]);
        }
    };
    check(DslStoreFormat::Plain, (-1, Headers::new()));
    check(DslStoreFormat::Timestamped, (1000, Headers::new()));
    check(DslStoreFormat::Headers, (1000, headers("a")));
}

#[test]
fn the_changelog_has_values_timestamps_and_headers_apart() {
    let check = |format, expected: (i64, Headers), deleted: Headers| {
        for variant in VARIANTS {
            let mut world = World::new(variant.cache_bytes);
            let (store, life) = world.build::<Store>(&builder(variant, format));
            let (key, value) = ("k".to_owned(), "v".to_owned());
            world.record(2000, headers("record"));
            let mut put = |value, timestamp_ms, headers: &Headers| {
                let mut store = store.borrow_mut();
                let context = &mut world.context;
                store
                    .put_with_headers(context, &key, value, timestamp_ms, headers)
                    .expect("put");
                drop(store);
                life.borrow_mut().flush(context).expect("flushed");
            };
            put(Some(&value), 1000, &headers("a"));
            put(None, 1000, &headers("a"));
            let produced = world.drain();
            let logged: Vec<_> = produced
                .iter()
                .map(|record| {
                    let bytes = |bytes: &Option<Bytes>| bytes.as_deref().map(hex);
                    (
                        bytes(&record.key),
                        bytes(&record.value),
                        record.timestamp_ms,
                        record.headers.clone(),
                    )
                })
                .collect();
            let key = Some("6b".to_owned());
            let value = Some("76".to_owned());
            let expected = [
                (key.clone(), value, Some(expected.0), expected.1.clone()),
                (key, None, Some(2000), deleted.clone()),
            ];
            assert_eq!(logged, expected, "{variant:?} {format:?}");
        }
    };
    check(
        DslStoreFormat::Plain,
        (2000, Headers::new()),
        Headers::new(),
    );
    check(
        DslStoreFormat::Timestamped,
        (1000, Headers::new()),
        Headers::new(),
    );
    check(
        DslStoreFormat::Headers,
        (1000, headers("a")),
        headers("record"),
    );
}

#[test]
fn what_a_supplier_has_no_room_for_is_logged_all_the_same() {
    for is_cached in [false, true] {
        let mut world = World::new(1 << 20);
        let supplier = Stores::persistent_timestamped_key_value_store("s");
        let (key, value) = (String::serde(), String::serde());
        let mut builder =
            Stores::timestamped_key_value_store_with_headers_builder(supplier, key, value);
        if is_cached {
            builder = builder.with_caching_enabled();
        }
        let (store, life) = world.build::<Store>(&builder);
        let (key, value) = ("k".to_owned(), "v".to_owned());
        store
            .borrow_mut()
            .put_with_headers(
                &mut world.context,
                &key,
                Some(&value),
                1000,
                &headers("own"),
            )
            .expect("put");
        life.borrow_mut()
            .flush(&mut world.context)
            .expect("flushed");
        let record = world.drain().remove(0);
        assert_eq!(record.headers, headers("own"));
        assert_eq!(record.timestamp_ms, Some(1000));
        assert_eq!(record.value.as_deref(), Some(&b"v"[..]));
        life.borrow_mut().close().expect("closed");
        // The rows are those of a timestamped store.
        let killed = world.killed(0);
        let (store, _) =
            killed.build::<Store>(&self::builder(ON_DISK, DslStoreFormat::Timestamped));
        let got = store.borrow_mut().get_as::<Timestamped>(&key).expect("got");
        assert_eq!(
            got.map(|got| (got.value, got.timestamp_ms)),
            Some((value, 1000))
        );
    }
}

#[test]
fn a_store_can_be_read_only() {
    let mut world = World::new(0);
    let (store, _) = world.build::<Store>(&builder(ON_DISK, DslStoreFormat::Timestamped));
    let (key, value) = ("k".to_owned(), "v".to_owned());
    let mut store = store.borrow_mut();
    store
        .put_timestamped(&mut world.context, &key, Some(&value), 7)
        .expect("put");
    let mut view = ReadOnly::new(&mut *store);
    assert_eq!(
        view.get_as::<Plain>(&key).expect("got"),
        Some(value.clone())
    );
    let direction = Direction::Backward;
    let range = view.range_as::<Plain>(None, None, direction);
    assert_eq!(rows(range.expect("range")), "k=v");
    let scan = view.prefix_scan_as::<Plain, _>(&key, &*String::serde());
    assert_eq!(rows(scan.expect("scan")), "k=v");
}

#[test]
fn a_store_of_limited_size_keeps_what_was_used_last() {
    let mut world = World::new(0);
    let supplier = Stores::lru_map("s", 2);
    let builder = Stores::key_value_store_builder(supplier, String::serde(), String::serde());
    let (store, _) = world.build::<Store>(&builder);
    let said: Vec<String> = "a=1 b=2 ?a c=3 .. d=4 ?a .. -c <"
        .split_whitespace()
        .filter_map(|word| run(&mut world, &mut store.borrow_mut(), word))
        .collect();
    let expected = ["1", "a=1 c=3", "none", "c=3 d=4", "was 3", "d=4"];
    assert_eq!(said, expected);
    let logged: Vec<_> = world
        .drain()
        .iter()
        .map(|record| {
            (
                record.key.clone().unwrap_or_default(),
                record.value.is_some(),
            )
        })
        .collect();
    // What goes is deleted from the changelog before the row that takes its place is there.
    let own = |key: &'static str, is_value| (Bytes::from(key), is_value);
    let expected = [
        own("a", true),
        own("b", true),
        own("b", false),
        own("c", true),
        own("a", false),
        own("d", true),
        own("c", false),
    ];
    assert_eq!(logged, expected);
}

/// What a cache has given on, in order.
fn flushed(store: &Rc<RefCell<Store>>) -> Vec<String> {
    let mut said = Vec::new();
    while let Some(Flushed {
        key,
        change,
        timestamp_ms,
        context,
    }) = store.borrow_mut().take_flushed().expect("taken")
    {
        let value = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        let (old, new) = (value(change.old), value(change.new));
        said.push(format!(
            "{key}:{old}>{new}@{timestamp_ms}/{}",
            context.offset
        ));
    }
    said
}

#[test]
fn a_cache_gives_on_the_last_write_of_each_key_in_the_order_of_writes() {
    for store_type in [StoreType::InMemory, StoreType::Persistent] {
        let variant = Variant {
            store_type,
            is_cached: true,
            cache_bytes: 1 << 20,
        };
        let mut world = World::new(variant.cache_bytes);
        let (store, life) = world.build::<Store>(&builder(variant, DslStoreFormat::Timestamped));
        assert!(
            store
                .borrow_mut()
                .forward_flushed(Forwarding::OldAndNewValues)
        );
        let mut put = |key: &str, value: Option<&str>, offset: i64| {
            world.context.record.offset = offset;
            let value = value.map(str::to_owned);
            store
                .borrow_mut()
                .put_timestamped(
                    &mut world.context,
                    &key.to_owned(),
                    value.as_ref(),
                    10 * offset,
                )
                .expect("put");
            if offset % 5 == 0 {
                life.borrow_mut()
                    .flush(&mut world.context)
                    .expect("flushed");
            }
        };
        put("a", Some("1"), 1);
        put("b", Some("2"), 2);
        put("a", Some("3"), 3);
        put("unknown", None, 4);
        assert_eq!(flushed(&store), [""; 0]);
        put("c", Some("4"), 5);
        assert_eq!(flushed(&store), ["b:->2@20/2", "a:->3@30/3", "c:->4@50/5"]);
        put("a", Some("5"), 6);
        put("b", None, 7);
        put("d", Some("6"), 10);
        // A delete has no time of its own, so it has that of its record.
        assert_eq!(
            flushed(&store),
            ["a:3>5@60/6", "b:2>-@-1/7", "d:->6@100/10"]
        );
        assert_eq!(world.drain().len(), 6);
    }
}

#[test]
fn a_cache_that_is_full_gives_on_what_was_not_used_for_longest() {
    let variant = Variant {
        store_type: StoreType::InMemory,
        is_cached: true,
        cache_bytes: 500,
    };
    let mut world = World::new(variant.cache_bytes);
    let (store, life) = world.build::<Store>(&builder(variant, DslStoreFormat::Plain));
    store.borrow_mut().forward_flushed(Forwarding::NewValues);
    let mut given_on = Vec::new();
    for key in ["a", "b", "a", "c", "d", "e"] {
        let (key, value) = (key.to_owned(), "v".to_owned());
        let put = store
            .borrow_mut()
            .put(&mut world.context, &key, Some(&value));
        put.expect("put");
        given_on.extend(flushed(&store).iter().map(|said| said[..1].to_owned()));
        assert!(world.storage.cache().used_bytes() <= 500);
    }
    assert!(
        given_on.starts_with(&["b".to_owned(), "a".to_owned()]),
        "{given_on:?}"
    );
    life.borrow_mut()
        .flush(&mut world.context)
        .expect("flushed");
    drop((store, life));
    assert_eq!(world.storage.cache().used_bytes(), 0);
}

#[test]
fn a_store_is_restored_from_its_changelog() {
    for variant in VARIANTS {
        for format in [
            DslStoreFormat::Plain,
            DslStoreFormat::Timestamped,
            DslStoreFormat::Headers,
        ] {
            let mut world = World::new(variant.cache_bytes);
            let (store, life) = world.build::<Store>(&builder(variant, format));
            for (key, value) in [
                ("a", Some("1")),
                ("b", Some("2")),
                ("a", None),
                ("c", Some("3")),
            ] {
                let value = value.map(str::to_owned);
                store
                    .borrow_mut()
                    .put_with_headers(
                        &mut world.context,
                        &key.to_owned(),
                        value.as_ref(),
                        5,
                        &headers("h"),
                    )
                    .expect("put");
            }
            life.borrow_mut()
                .flush(&mut world.context)
                .expect("flushed");
            let all = |store: &Rc<RefCell<Store>>| -> Vec<_> {
                store
                    .borrow_mut()
                    .range_as::<WithHeaders>(None, None, Direction::Forward)
                    .expect("range")
                    .map(|row| row.expect("row"))
                    .collect()
            };
            let records = restored(&world.drain());
            let other = World::new(variant.cache_bytes);
            let (copy, life) = other.build::<Store>(&builder(variant, format));
            life.borrow_mut().restore(&records).expect("restored");
            assert_eq!(all(&copy).len(), 2);
            if format != DslStoreFormat::Plain || variant.is_cached {
                assert_eq!(all(&copy), all(&store));
            }
        }
    }
}

const ON_DISK: Variant = Variant {
    store_type: StoreType::Persistent,
    is_cached: false,
    cache_bytes: 0,
};

pub(super) fn offsets(offset: i64) -> Offsets {
    Offsets::from([((Arc::from("t"), 7), offset)])
}

#[test]
fn what_was_committed_outlives_a_kill() {
    let builder = builder(ON_DISK, DslStoreFormat::Timestamped);
    let mut world = World::new(0);
    let (store, life) = world.build::<Store>(&builder);
    assert!(!life.borrow().was_left_open());
    assert_eq!(life.borrow().committed_offset("t", 7).expect("read"), None);
    for round in 0..50 {
        for key in 0..20 {
            let (key, value) = (format!("{key}"), format!("{round}"));
            let put = store
                .borrow_mut()
                .put(&mut world.context, &key, Some(&value));
            put.expect("put");
        }
        life.borrow_mut()
            .commit(&offsets(round))
            .expect("committed");
        if round % 10 != 3 {
            continue;
        }
        // Rows that are put after the commit may be there, those before it must.
        let late = "late".to_owned();
        let put = store
            .borrow_mut()
            .put(&mut world.context, &late, Some(&late));
        put.expect("put");
        let killed = world.killed(0);
        let (store, life) = killed.build::<Store>(&builder);
        assert!(life.borrow().was_left_open());
        let committed = life.borrow().committed_offset("t", 7).expect("read");
        assert_eq!(committed, Some(round));
        for key in 0..20 {
            let value = store.borrow_mut().get(&format!("{key}")).expect("got");
            assert_eq!(value, Some(format!("{round}")));
        }
        life.borrow_mut()
            .commit(&Offsets::new())
            .expect("committed");
        let committed = life.borrow().committed_offset("t", 7).expect("read");
        assert_eq!(committed, None);
    }
    life.borrow_mut().close().expect("closed");
    let killed = world.killed(0);
    let (_, life) = killed.build::<Store>(&builder);
    assert!(!life.borrow().was_left_open());
}

#[test]
fn two_processes_do_not_share_a_directory() {
    let builder = builder(ON_DISK, DslStoreFormat::Plain);
    let world = World::new(0);
    let _store = world.build::<Store>(&builder);
    let second = crate::state::TaskStorage::on_disk(
        world.directory().to_path_buf(),
        crate::state::CacheBudget::new(0),
    );
    let mut building = world.building(true);
    building.storage = second;
    let error = builder.build(&building).expect_err("locked");
    assert_eq!(
        error.to_string(),
        "state store `s`: another process uses its files"
    );
}

#[test]
fn a_newer_format_reads_rows_of_older_ones() {
    use DslStoreFormat::{Headers as WithHeadersFormat, Plain, Timestamped as TimestampedFormat};
    let key = |key: &str| key.to_owned();
    // The first one's is the empty key.
    let own_key = |index: usize| match index {
        0 => String::new(),
        _ => format!("own{index}"),
    };
    let check = |formats: &[DslStoreFormat], times_ms: &[i64]| {
        let mut world = World::new(0);
        // Each format puts a row of its own, and changes one that all have.
        for (index, format) in formats.iter().enumerate() {
            let (store, life) = world.build::<Store>(&builder(ON_DISK, *format));
            let mut store = store.borrow_mut();
            let own = own_key(index);
            for key in [&own, "all", &format!("gone{}", index.saturating_sub(1))] {
                let value = format!("{index}");
                store
                    .put_timestamped(&mut world.context, &key.to_owned(), Some(&value), 100)
                    .expect("put");
            }
            store
                .put(
                    &mut world.context,
                    &format!("gone{}", index.saturating_sub(1)),
                    None,
                )
                .expect("deleted");
            drop(store);
            life.borrow_mut().close().expect("closed");
            drop(life);
            world = world.killed(0);
        }
        let last = *formats.last().expect("a format");
        for read_first in [false, true] {
            let world = world.killed(0);
            let (store, _) = world.build::<Store>(&builder(ON_DISK, last));
            let mut store = store.borrow_mut();
            let mut expected = vec![("all".to_owned(), *times_ms.last().expect("a time"))];
            for (index, time_ms) in times_ms.iter().enumerate() {
                expected.push((own_key(index), *time_ms));
                if read_first {
                    let row = store.get_as::<Timestamped>(&own_key(index));
                    assert_eq!(
                        row.expect("got").map(|row| row.timestamp_ms),
                        Some(*time_ms)
                    );
                }
            }
            expected.sort();
            for direction in [Direction::Forward, Direction::Backward] {
                let found: Vec<_> = store
                    .range_as::<Timestamped>(None, None, direction)
                    .expect("range")
                    .map(|row| row.expect("row"))
                    .map(|(key, value)| (key, value.timestamp_ms))
                    .collect();
                assert_eq!(found, expected, "{formats:?}");
                expected.reverse();
            }
            assert_eq!(store.get(&key("gone0")).expect("got"), None);
        }
    };
    check(&[Plain, TimestampedFormat], &[-1, 100]);
    check(&[Plain, WithHeadersFormat], &[-1, 100]);
    check(&[TimestampedFormat, WithHeadersFormat], &[100, 100]);
    check(
        &[Plain, TimestampedFormat, WithHeadersFormat],
        &[-1, 100, 100],
    );
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Get(u8),
    Range(u8, u8, bool),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..12_u8;
    prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => key.clone().prop_map(Step::Delete),
        2 => key.clone().prop_map(Step::Get),
        1 => (key.clone(), key, any::<bool>()).prop_map(|(from, to, back)| Step::Range(from, to, back)),
        1 => Just(Step::Flush),
    ]
}

fn key_of(key: u8) -> String {
    // Keys of several lengths, some of which begin with others.
    "ab".chars()
        .cycle()
        .take(1 + usize::from(key % 4))
        .collect::<String>()
        + &format!("{}", key / 4)
}

fn follow(variant: Variant, steps: &[Step]) {
    let mut world = World::new(variant.cache_bytes);
    let (store, life) = world.build::<Store>(&builder(variant, DslStoreFormat::Timestamped));
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    for step in steps {
        let mut store = store.borrow_mut();
        match step {
            Step::Put(key, value) => {
                let (key, value) = (key_of(*key), format!("{value}"));
                store
                    .put(&mut world.context, &key, Some(&value))
                    .expect("put");
                model.insert(key, value);
            }
            Step::Delete(key) => {
                let old = store
                    .delete(&mut world.context, &key_of(*key))
                    .expect("deleted");
                assert_eq!(old, model.remove(&key_of(*key)));
            }
            Step::Get(key) => {
                let value = store.get(&key_of(*key)).expect("got");
                assert_eq!(value.as_ref(), model.get(&key_of(*key)));
            }
            Step::Range(from, to, back) => {
                let (from, to) = (key_of(*from), key_of(*to));
                let direction = match back {
                    true => Direction::Backward,
                    false => Direction::Forward,
                };
                let found: Vec<_> = store
                    .range_as::<Plain>(Some(&from), Some(&to), direction)
                    .expect("range")
                    .map(|row| row.expect("row"))
                    .collect();
                let mut expected: Vec<_> = model
                    .iter()
                    .filter(|(key, _)| from <= **key && **key <= to)
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
                if *back {
                    expected.reverse();
                }
                assert_eq!(found, expected);
            }
            Step::Flush => {
                drop(store);
                life.borrow_mut()
                    .flush(&mut world.context)
                    .expect("flushed");
            }
        }
    }
    // Whoever restores the changelog has the same.
    life.borrow_mut()
        .flush(&mut world.context)
        .expect("flushed");
    let other = World::new(0);
    let memory = Variant {
        store_type: StoreType::InMemory,
        ..variant
    };
    let (copy, life) = other.build::<Store>(&builder(memory, DslStoreFormat::Timestamped));
    let records = restored(&world.drain());
    life.borrow_mut().restore(&records).expect("restored");
    let copied: BTreeMap<_, _> = copy
        .borrow_mut()
        .all()
        .expect("range")
        .map(|row| row.expect("row"))
        .collect();
    assert_eq!(copied, model);
}

proptest! {
    #![proptest_config(trials::property(48))]

    #[test]
    fn a_store_is_a_map(steps in proptest::collection::vec(step(), 0..80), variant in 0..VARIANTS.len()) {
        follow(VARIANTS[variant], &steps);
    }
}
