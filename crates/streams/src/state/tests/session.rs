//! Session stores.

use super::world::{VARIANTS, Variant, World, hex, restored};
use crate::headers::Headers;
use crate::serde::{DefaultSerde as _, Window, Windowed};
use crate::state::{
    Direction, DslStoreFormat, SessionStore, SessionStoreBuilder, SessionSupplier, StateStore,
    StoreType, Stores, WithHeaders,
};
use bytes::Bytes;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

type Store = SessionStore<String, String>;

const RETENTION_MS: i64 = 200_000;
const INTERVAL_MS: i64 = 100_000;

fn builder(
    variant: Variant,
    format: DslStoreFormat,
    is_time_first: bool,
) -> SessionStoreBuilder<String, String> {
    let mut supplier = SessionSupplier::new("s", variant.store_type, format, RETENTION_MS);
    supplier.is_time_first = is_time_first;
    let (key, value) = (String::serde(), String::serde());
    let builder = match format {
        DslStoreFormat::Headers => Stores::session_store_with_headers_builder(supplier, key, value),
        _ => Stores::session_store_builder(supplier, key, value),
    };
    match variant.is_cached {
        true => builder.with_caching_enabled(),
        false => builder,
    }
}

fn session(key: &str, start_ms: i64, end_ms: i64) -> Windowed<String> {
    Windowed::new(key.to_owned(), Window::of_session(start_ms, end_ms))
}

#[test]
fn rows_and_changelogs_have_end_before_start() {
    let check = |format, expected: Headers| {
        let mut headers = Headers::new();
        headers.add("h", Bytes::from_static(b"1"));
        let variant = Variant {
            store_type: StoreType::Persistent,
            is_cached: false,
            cache_bytes: 0,
        };
        let mut world = World::new(0);
        let (store, _) = world.build::<Store>(&builder(variant, format, false));
        let mut store = store.borrow_mut();
        world.record(2500, Headers::new());
        let value = "v".to_owned();
        store
            .put_with_headers(
                &mut world.context,
                &session("k", 1000, 2000),
                Some(&value),
                &headers,
            )
            .expect("put");
        let record = world.drain().remove(0);
        let key = record.key.as_deref().map(hex);
        assert_eq!(key.as_deref(), Some("6b00000000000007d000000000000003e8"));
        assert_eq!(record.value.as_deref(), Some(&b"v"[..]));
        assert_eq!(record.timestamp_ms, Some(2500));
        assert_eq!(record.headers, expected);
        let key = "k".to_owned();
        let got = store
            .fetch_session_with_headers(&key, 1000, 2000)
            .expect("got")
            .expect("it is there");
        assert_eq!((got.aggregation, got.headers), (value, expected.clone()));
        let of_key = store.find_sessions_of_keys_as::<WithHeaders>(
            Some(&key),
            None,
            0,
            i64::MAX,
            Direction::Forward,
        );
        let of_key: Vec<_> = of_key
            .expect("found")
            .map(|row| row.expect("row"))
            .collect();
        let by_end = store.find_sessions_by_end_as::<WithHeaders>(0..=2000);
        let by_end: Vec<_> = by_end
            .expect("found")
            .map(|row| row.expect("row"))
            .collect();
        assert_eq!(of_key, by_end);
        assert_eq!(of_key[0].1.headers, expected);
        let other = store.fetch_session(&key, 1000, 2001).expect("got");
        assert_eq!(other, None);
    };
    let mut headers = Headers::new();
    headers.add("h", Bytes::from_static(b"1"));
    check(DslStoreFormat::Plain, Headers::new());
    check(DslStoreFormat::Timestamped, Headers::new());
    check(DslStoreFormat::Headers, headers);
}

#[derive(Debug, Clone)]
enum Step {
    Put(u8, i64, i64, u8),
    Remove(u8, i64, i64),
    Find(u8, i64, i64, bool),
    FindOfKeys(Option<u8>, Option<u8>, i64, i64, bool),
    FindByEnd(i64, i64),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..6_u8;
    let time = (0..60_i64).prop_map(|time| time * 10_000);
    let length = (0..4_i64).prop_map(|time| time * 10_000);
    prop_oneof![
        6 => (key.clone(), time.clone(), length.clone(), any::<u8>())
            .prop_map(|(key, start, length, value)| Step::Put(key, start, start + length, value)),
        1 => (key.clone(), time.clone(), length)
            .prop_map(|(key, start, length)| Step::Remove(key, start, start + length)),
        3 => (key.clone(), time.clone(), time.clone(), any::<bool>())
            .prop_map(|(key, end, start, back)| Step::Find(key, end, start, back)),
        2 => (proptest::option::of(key.clone()), proptest::option::of(key), time.clone(), time.clone(), any::<bool>())
            .prop_map(|(first, last, end, start, back)| Step::FindOfKeys(first, last, end, start, back)),
        1 => (time.clone(), time).prop_map(|(from, to)| Step::FindByEnd(from, to)),
        1 => Just(Step::Flush),
    ]
}

fn key_of(key: u8) -> String {
    ["a", "a\0", "ab", "b", "", "a\0\0\0\0\0\0\0\u{1}"][usize::from(key)].to_owned()
}

/// Key, end, start.
type Key = (String, i64, i64);

#[derive(Default)]
struct Model {
    rows: BTreeMap<Key, String>,
    observed_ms: i64,
}

/// The order of what a store finds.
#[derive(Clone, Copy)]
enum Order {
    Segments,
    Ends,
    EndsAndStarts,
}

/// Checks what was found: all that has not expired, and of what has only what a cache has.
fn check(found: Vec<(Key, String)>, all: &[(Key, String)], expired_ms: i64, is_cached: bool) {
    let mut rest = all.iter();
    assert!(
        found.iter().all(|row| rest.any(|other| other == row)),
        "{found:?} {all:?}"
    );
    let visible = |rows: &[(Key, String)]| -> Vec<(Key, String)> {
        let seen = rows.iter().filter(|(key, _)| key.1 > expired_ms);
        seen.cloned().collect()
    };
    assert_eq!(visible(&found), visible(all));
    assert!(is_cached || visible(&found) == found, "{found:?}");
}

impl Model {
    fn put(&mut self, key: Key, value: Option<String>) {
        self.observed_ms = self.observed_ms.max(key.1);
        match value {
            Some(value) => self.rows.insert(key, value),
            None => self.rows.remove(&key),
        };
    }

    fn find(
        &self,
        is_wanted: impl Fn(&Key) -> bool,
        order: Order,
        back: bool,
    ) -> Vec<(Key, String)> {
        let mut found: Vec<_> = self
            .rows
            .iter()
            .filter(|(key, _)| is_wanted(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        found.sort_by_key(|((key, end_ms, start_ms), _)| {
            let (end, start) = (end_ms.to_be_bytes(), start_ms.to_be_bytes());
            let key = key.as_bytes();
            match order {
                Order::Segments => (
                    end_ms / INTERVAL_MS,
                    [key, &end, &start].concat(),
                    Vec::new(),
                ),
                Order::Ends => (*end_ms, key.to_vec(), start.to_vec()),
                Order::EndsAndStarts => (0, [&end, &start, key].concat(), Vec::new()),
            }
        });
        if back {
            found.reverse();
        }
        found
    }
}

fn collect(
    rows: impl Iterator<Item = crate::state::Found<Windowed<String>, String>>,
) -> Vec<(Key, String)> {
    rows.map(|row| row.expect("row"))
        .map(|(key, value)| ((key.key, key.window.end_ms, key.window.start_ms), value))
        .collect()
}

fn ask(
    store: &mut Store,
    model: &Model,
    (variant, is_time_first): (Variant, bool),
    question: &Step,
) {
    let latest_starts_first =
        variant.store_type == StoreType::InMemory && !variant.is_cached && !is_time_first;
    let check = |found: Vec<(Key, String)>, mut all: Vec<(Key, String)>| {
        if latest_starts_first {
            let one = |left: &(Key, String), right: &(Key, String)| {
                (&left.0.0, left.0.1) == (&right.0.0, right.0.1)
            };
            all.chunk_by_mut(one).for_each(|starts| starts.reverse());
        }
        let is_cached = variant.is_cached && !is_time_first;
        check(found, &all, model.observed_ms - RETENTION_MS, is_cached);
    };
    let by_end = match is_time_first {
        true => Order::EndsAndStarts,
        false => Order::Ends,
    };
    let of_keys = match variant.store_type {
        StoreType::InMemory => by_end,
        StoreType::Persistent => Order::Segments,
    };
    let direction = |back: bool| match back {
        true => Direction::Backward,
        false => Direction::Forward,
    };
    match question {
        Step::Find(key, end_ms, start_ms, back) => {
            let key = key_of(*key);
            let found = store.find_sessions_as::<crate::state::Plain>(
                &key,
                *end_ms,
                *start_ms,
                direction(*back),
            );
            let wanted = |row: &Key| row.0 == key && row.1 >= *end_ms && row.2 <= *start_ms;
            // Of one key all segments together are in the order of ends.
            let all = model.find(wanted, Order::Segments, *back);
            check(collect(found.expect("found")), all);
        }
        Step::FindOfKeys(first, last, end_ms, start_ms, back) => {
            let (first, last) = (first.map(key_of), last.map(key_of));
            let found = store.find_sessions_of_keys(
                first.as_ref(),
                last.as_ref(),
                *end_ms,
                *start_ms,
                direction(*back),
            );
            let wanted = |row: &Key| {
                first.as_ref().is_none_or(|first| *first <= row.0)
                    && last.as_ref().is_none_or(|last| row.0 <= *last)
                    && row.1 >= *end_ms
                    && row.2 <= *start_ms
            };
            let all = model.find(wanted, of_keys, *back);
            check(collect(found.expect("found")), all);
        }
        Step::FindByEnd(from_ms, to_ms) => {
            let found = store.find_sessions_by_end(*from_ms..=*to_ms);
            let wanted = |row: &Key| (*from_ms..=*to_ms).contains(&row.1);
            let order = match is_time_first {
                true => by_end,
                false => of_keys,
            };
            let all = model.find(wanted, order, false);
            check(collect(found.expect("found")), all);
        }
        Step::Put(..) | Step::Remove(..) | Step::Flush => {}
    }
}

fn follow(variant: Variant, format: DslStoreFormat, is_time_first: bool, steps: &[Step]) {
    let mut world = World::new(variant.cache_bytes);
    let (store, life) = world.build::<Store>(&builder(variant, format, is_time_first));
    let mut model = Model {
        observed_ms: -1,
        ..Model::default()
    };
    for step in steps {
        let mut store = store.borrow_mut();
        match step {
            Step::Put(key, start_ms, end_ms, value) => {
                let (key, value) = (key_of(*key), format!("{value}"));
                let session = session(&key, *start_ms, *end_ms);
                store
                    .put(&mut world.context, &session, Some(&value))
                    .expect("put");
                model.put((key, *end_ms, *start_ms), Some(value));
            }
            Step::Remove(key, start_ms, end_ms) => {
                let key = key_of(*key);
                let session = session(&key, *start_ms, *end_ms);
                store.remove(&mut world.context, &session).expect("removed");
                model.put((key, *end_ms, *start_ms), None);
            }
            Step::Flush => {
                drop(store);
                life.borrow_mut()
                    .flush(&mut world.context)
                    .expect("flushed");
            }
            question => ask(&mut store, &model, (variant, is_time_first), question),
        }
    }
    restore_elsewhere(
        &mut world,
        (&store, &life),
        format,
        model.observed_ms - RETENTION_MS,
    );
}

/// Whoever restores the changelog has the same.
fn restore_elsewhere(
    world: &mut World,
    (store, life): (&Rc<RefCell<Store>>, &Rc<RefCell<dyn StateStore>>),
    format: DslStoreFormat,
    expired_ms: i64,
) {
    life.borrow_mut()
        .flush(&mut world.context)
        .expect("flushed");
    let records = restored(&world.drain());
    let plain = Variant {
        store_type: StoreType::InMemory,
        is_cached: false,
        cache_bytes: 0,
    };
    let (copy, life) = World::new(0).build::<Store>(&builder(plain, format, true));
    life.borrow_mut().restore(&records).expect("restored");
    let rows = |store: &Rc<RefCell<Store>>| -> BTreeMap<Key, String> {
        let mut store = store.borrow_mut();
        collect(store.find_sessions_by_end(0..=i64::MAX).expect("found"))
            .into_iter()
            .filter(|(key, _)| key.1 > expired_ms)
            .collect()
    };
    assert_eq!(rows(&copy), rows(store));
}

proptest! {
    #![proptest_config(trials::property(48))]

    #[test]
    fn a_session_store_is_a_map_that_forgets(
        steps in proptest::collection::vec(step(), 0..60),
        variant in 0..VARIANTS.len(),
        has_headers: bool,
        is_time_first: bool,
    ) {
        let format = match has_headers {
            true => DslStoreFormat::Headers,
            false => DslStoreFormat::Plain,
        };
        follow(VARIANTS[variant], format, is_time_first, &steps);
    }
}
