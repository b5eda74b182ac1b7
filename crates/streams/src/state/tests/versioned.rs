//! Versioned stores.

use super::world::{World, hex, restored};
use crate::serde::DefaultSerde as _;
use crate::state::{
    StoreBuilder as _, StoreType, Stores, VersionedKeyValueStore, VersionedPut,
    VersionedStoreBuilder, VersionedSupplier,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

type Store = VersionedKeyValueStore<String, String>;

const HISTORY_MS: i64 = 60_000;

fn builder(store_type: StoreType) -> VersionedStoreBuilder<String, String> {
    let supplier = VersionedSupplier::new("s", store_type, HISTORY_MS);
    Stores::versioned_key_value_store_builder(supplier, String::serde(), String::serde())
}

fn put(
    world: &mut World,
    store: &Rc<RefCell<Store>>,
    key: &str,
    value: Option<&str>,
    time_ms: i64,
) -> VersionedPut {
    let value = value.map(str::to_owned);
    store
        .borrow_mut()
        .put(&mut world.context, &key.to_owned(), value.as_ref(), time_ms)
        .expect("put")
}

#[test]
fn a_version_that_is_too_old_to_be_deleted_is_not_returned() {
    for store_type in [StoreType::InMemory, StoreType::Persistent] {
        let mut world = World::new(0);
        let (store, _) = world.build::<Store>(&builder(store_type));
        put(&mut world, &store, "k", Some("a"), 1000);
        put(
            &mut world,
            &store,
            "other",
            Some("b"),
            1000 + 2 * HISTORY_MS,
        );
        let mut store = store.borrow_mut();
        let mut delete = |time_ms| {
            let deleted = store.delete(&mut world.context, &"k".to_owned(), time_ms);
            deleted.expect("deleted").map(|version| version.value)
        };
        assert_eq!(delete(2000), None);
        assert_eq!(delete(1000 + HISTORY_MS).as_deref(), Some("a"));
    }
}

#[test]
fn versions_are_found_by_their_time() {
    for store_type in [StoreType::InMemory, StoreType::Persistent] {
        let mut world = World::new(0);
        let (store, _) = world.build::<Store>(&builder(store_type));
        let k = "k".to_owned();
        assert_eq!(
            put(&mut world, &store, "k", Some("a"), 1000),
            VersionedPut::Latest
        );
        assert_eq!(
            put(&mut world, &store, "k", Some("c"), 3000),
            VersionedPut::Latest
        );
        assert_eq!(
            put(&mut world, &store, "k", Some("b"), 2000),
            VersionedPut::ValidTo(3000)
        );
        assert_eq!(
            put(&mut world, &store, "k", None, 4000),
            VersionedPut::Latest
        );
        let at = |time_ms| {
            let record = store.borrow_mut().get_at(&k, time_ms).expect("got");
            record.map(|record| (record.value, record.timestamp_ms, record.valid_to_ms))
        };
        let own = |value: &str, from, to| Some((value.to_owned(), from, Some(to)));
        assert_eq!(at(999), None);
        assert_eq!(at(1000), own("a", 1000, 2000));
        assert_eq!(at(1999), own("a", 1000, 2000));
        assert_eq!(at(2000), own("b", 2000, 3000));
        assert_eq!(at(3999), own("c", 3000, 4000));
        assert_eq!(at(4000), None);
        assert_eq!(store.borrow_mut().get(&k).expect("got"), None);
        assert_eq!(
            put(&mut world, &store, "k", Some("d"), 5000),
            VersionedPut::Latest
        );
        assert_eq!(at(4500), None);
        let all = store.borrow_mut().versions(&k, 0, i64::MAX).expect("got");
        let all: Vec<_> = all.into_iter().map(|record| record.value).collect();
        assert_eq!(all, ["d", "c", "b", "a"]);
        let some = store.borrow_mut().versions(&k, 1500, 2000).expect("got");
        assert_eq!(some.len(), 2);
        let deleted = store
            .borrow_mut()
            .delete(&mut world.context, &k, 6000)
            .expect("deleted");
        assert_eq!(deleted.map(|record| record.value).as_deref(), Some("d"));
    }
}

#[test]
fn what_is_too_old_is_logged_and_not_put() {
    let mut world = World::new(0);
    let (store, _) = world.build::<Store>(&builder(StoreType::Persistent));
    put(&mut world, &store, "k", Some("a"), 100_000);
    assert_eq!(
        put(&mut world, &store, "k", Some("b"), 39_999),
        VersionedPut::NotPut
    );
    assert_eq!(world.context.metrics.dropped_records, 1);
    assert_eq!(
        put(&mut world, &store, "k", Some("b"), 40_000),
        VersionedPut::ValidTo(100_000)
    );
    let logged: Vec<_> = world
        .drain()
        .iter()
        .map(|record| {
            let bytes =
                |bytes: &Option<bytes::Bytes>| bytes.as_deref().map(hex).unwrap_or_default();
            (
                bytes(&record.key),
                bytes(&record.value),
                record.timestamp_ms,
            )
        })
        .collect();
    let own = |value: &str, time_ms| ("6b".to_owned(), value.to_owned(), Some(time_ms));
    assert_eq!(
        logged,
        [own("61", 100_000), own("62", 39_999), own("62", 40_000)]
    );
}

#[test]
fn the_latest_value_is_found_at_times_before_the_history() {
    for store_type in [StoreType::InMemory, StoreType::Persistent] {
        let mut world = World::new(0);
        let (store, _) = world.build::<Store>(&builder(store_type));
        put(&mut world, &store, "k", Some("a"), 1000);
        put(&mut world, &store, "j", Some("b"), 1000);
        put(&mut world, &store, "j", Some("c"), 200_000);
        let at = |key: &str, time_ms| {
            let found = store.borrow_mut().get_at(&key.to_owned(), time_ms);
            found.expect("got").map(|record| record.value)
        };
        assert_eq!(at("k", 1500).as_deref(), Some("a"));
        assert_eq!(at("k", 999), None);
        assert_eq!(at("j", 1500), None);
        let versions = store.borrow_mut().versions(&"k".to_owned(), 0, 1500);
        assert_eq!(versions.expect("got").len(), 1);
    }
}

#[test]
fn a_changelog_is_compacted_late() {
    let config = builder(StoreType::Persistent)
        .changelog()
        .expect("it is logged");
    let configs: Vec<_> = config
        .topic_configs(5, &BTreeMap::new())
        .into_iter()
        .collect();
    let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let lag = own("min.compaction.lag.ms", "86460000");
    let time = own("message.timestamp.type", "CreateTime");
    assert_eq!(configs, [own("cleanup.policy", "compact"), time, lag]);
}

/// What each key had from each time on.
type Model = BTreeMap<String, BTreeMap<i64, Option<String>>>;

fn follow(store_type: StoreType, puts: &[(u8, Option<u8>, i64)]) {
    let mut world = World::new(0);
    let (store, _) = world.build::<Store>(&builder(store_type));
    let mut model = Model::new();
    let mut observed_ms = -1;
    for (index, (key, value, time_ms)) in puts.iter().enumerate() {
        let (key, time_ms) = (format!("{key}"), time_ms * 1000);
        let value = value.map(|value| format!("{value}-{index}"));
        let result = put(&mut world, &store, &key, value.as_deref(), time_ms);
        let is_kept = time_ms >= observed_ms - HISTORY_MS;
        assert_eq!(result != VersionedPut::NotPut, is_kept);
        observed_ms = observed_ms.max(time_ms);
        let versions = model.entry(key).or_default();
        if is_kept {
            versions.insert(time_ms, value);
        }
        compare(&store, &model, observed_ms);
    }
    // Whoever restores the changelog has the same.
    let (copy, life) = World::new(0).build::<Store>(&builder(StoreType::InMemory));
    life.borrow_mut()
        .restore(&restored(&world.drain()))
        .expect("restored");
    compare(&copy, &model, observed_ms);
}

fn compare(store: &Rc<RefCell<Store>>, model: &Model, observed_ms: i64) {
    for (key, versions) in model {
        let latest = versions
            .last_key_value()
            .and_then(|(_, value)| value.clone());
        let found = store.borrow_mut().get(key).expect("got");
        assert_eq!(found.map(|record| record.value), latest);
        for time_ms in ((observed_ms - HISTORY_MS).max(0)..=observed_ms).step_by(1000) {
            let expected = versions
                .range(..=time_ms)
                .next_back()
                .and_then(|(_, value)| value.clone());
            let found = store.borrow_mut().get_at(key, time_ms).expect("got");
            assert_eq!(
                found.map(|record| record.value),
                expected,
                "{key} at {time_ms}"
            );
        }
        let too_old_ms = observed_ms - HISTORY_MS - 1;
        let too_old = store.borrow_mut().get_at(key, too_old_ms).expect("got");
        // Of the times before the history only the latest value is known.
        let latest = versions.last_key_value();
        let latest = latest.filter(|(time_ms, _)| **time_ms <= too_old_ms);
        assert_eq!(
            too_old.map(|record| record.value),
            latest.and_then(|(_, value)| value.clone())
        );
    }
}

proptest! {
    #![proptest_config(trials::property(48))]

    #[test]
    fn a_versioned_store_is_a_map_of_times(
        puts in proptest::collection::vec((0..3_u8, proptest::option::weighted(0.75, any::<u8>()), 0..150_i64), 0..30),
        on_disk: bool,
    ) {
        let store_type = match on_disk {
            true => StoreType::Persistent,
            false => StoreType::InMemory,
        };
        follow(store_type, &puts);
    }
}

#[test]
fn times_before_1970_do_not_delete_latest_values() {
    let mut world = World::new(0);
    let (store, _) = world.build::<Store>(&builder(StoreType::InMemory));
    put(&mut world, &store, "kept", Some("a"), 0);
    put(&mut world, &store, "k", Some("a"), 0);
    put(&mut world, &store, "j", None, -25_000);
    put(&mut world, &store, "k", Some("b"), 200_000);
    let found = store.borrow_mut().get(&"kept".to_owned()).expect("get");
    assert!(found.is_some());
}
