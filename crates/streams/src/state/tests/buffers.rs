//! The buffers of suppress and of joins.

use super::world::{TOPIC, World, hex, restored};
use crate::headers::Headers;
use crate::record::Change;
use crate::serde::{DefaultSerde as _, Windowed, time_windowed};
use crate::state::StoreType;
use crate::state::buffer_builders::{
    GraceBufferBuilder, OuterJoinStoreBuilder, SuppressBufferBuilder,
};
use crate::state::grace_buffer::GraceBuffer;
use crate::state::outer_join::{JoinSerdes, JoinSide, LeftOrRight, OuterJoinStore};
use crate::state::suppress_buffer::SuppressBuffer;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const STORE_TYPES: [StoreType; 2] = [StoreType::InMemory, StoreType::Persistent];

/// Key, value, timestamp, count of headers of what was logged.
fn logged(world: &mut World) -> Vec<(String, Option<String>, Option<i64>, usize)> {
    world
        .drain()
        .iter()
        .map(|record| {
            let key = record.key.as_deref().map(hex).unwrap_or_default();
            let value = record.value.as_deref().map(hex);
            (key, value, record.timestamp_ms, record.headers.len())
        })
        .collect()
}

/// The record of the specification: 1000, offset 5 of `tp` 0, header a=01.
fn process_record(world: &mut World) {
    let record = &mut world.context.record;
    record.topic = Arc::from("tp");
    record.partition = 0;
    record.offset = 5;
    let mut headers = Headers::new();
    headers.add("a", Bytes::from_static(&[1]));
    world.record(1000, headers);
}

const CONTEXT: &str =
    "00000000000003e80000000000000005000000027470000000000000000100000001610000000101";

type Suppress = SuppressBuffer<String, String>;

fn suppress() -> SuppressBufferBuilder<String, String> {
    SuppressBufferBuilder::new("s", String::serde(), String::serde(), Some(BTreeMap::new()))
}

fn change(old: Option<&str>, new: Option<&str>) -> Change<String> {
    Change::new(new.map(str::to_owned), old.map(str::to_owned))
}

#[test]
fn a_suppress_buffer_keeps_times_and_releases_in_their_order() {
    let mut world = World::new(0);
    let (buffer, life) = world.build::<Suppress>(&suppress());
    let mut buffer = buffer.borrow_mut();
    process_record(&mut world);
    let mut put = |time_ms, key: &str, old, new| {
        let change = change(old, new);
        buffer
            .put(&world.context, time_ms, &key.to_owned(), &change)
            .expect("put");
    };
    put(2000, "b", Some("o"), Some("v"));
    put(1000, "c", None, Some("w"));
    put(9000, "b", Some("v"), Some("x"));
    put(1000, "a", None, None);
    assert_eq!(buffer.record_count(), 3);
    assert_eq!(buffer.first_time_ms(), Some(1000));
    // Each of the three has 8 and its key, and a context of 24; `b` has a prior value, an old and a new one.
    assert_eq!(buffer.size_bytes(), 3 * (8 + 1 + 24) + 3 + 1);
    let prior = buffer.prior_value(&"b".to_owned()).expect("read");
    assert_eq!(prior, Some(Some("o".to_owned())));
    let mut released = Vec::new();
    while let Some(one) = buffer.release_first().expect("released") {
        assert_eq!(one.context.offset, 5);
        released.push((one.key, one.change));
    }
    let own = |key: &str, change| (key.to_owned(), change);
    let expected = [
        own("a", change(None, None)),
        own("c", change(None, Some("w"))),
        own("b", change(Some("v"), Some("x"))),
    ];
    assert_eq!(released, expected);
    assert_eq!((buffer.record_count(), buffer.size_bytes()), (0, 0));
    drop(buffer);
    life.borrow_mut()
        .flush(&mut world.context)
        .expect("flushed");
    let tombstone = |key: &str| (key.to_owned(), None, None, 0);
    assert_eq!(
        logged(&mut world),
        [tombstone("61"), tombstone("62"), tombstone("63")]
    );
}

#[test]
fn a_suppress_buffer_logs_at_commits_and_is_restored() {
    let mut world = World::new(0);
    let (buffer, life) = world.build::<Suppress>(&suppress());
    process_record(&mut world);
    let key = "k".to_owned();
    buffer
        .borrow_mut()
        .put(&world.context, 2000, &key, &change(Some("o"), Some("v")))
        .expect("put");
    assert!(world.context.collector.is_empty());
    life.borrow_mut()
        .flush(&mut world.context)
        .expect("flushed");
    let produced = world.drain();
    let value =
        format!("{CONTEXT}00000001 6f fffffffe 00000001 76 00000000000007d0").replace(' ', "");
    let record = &produced[0];
    assert_eq!(record.value.as_deref().map(hex), Some(value));
    assert_eq!(record.timestamp_ms, None);
    let version = record
        .headers
        .last("v")
        .and_then(|header| header.value.clone());
    assert_eq!(version.as_deref(), Some(&[3][..]));
    life.borrow_mut()
        .flush(&mut world.context)
        .expect("flushed");
    assert!(world.context.collector.is_empty());
    let (copy, life) = world.build::<Suppress>(&suppress());
    life.borrow_mut()
        .restore(&restored(&produced))
        .expect("restored");
    assert_eq!(copy.borrow().size_bytes(), buffer.borrow().size_bytes());
    let one = copy
        .borrow_mut()
        .release_first()
        .expect("released")
        .expect("one");
    assert_eq!((one.key, one.change), (key, change(Some("o"), Some("v"))));
    assert_eq!(one.context.headers, world.context.record.headers);
    // A tombstone of the changelog takes a change out.
    life.borrow_mut()
        .restore(&restored(&produced))
        .expect("restored");
    let mut tombstone = produced;
    tombstone[0].value = None;
    life.borrow_mut()
        .restore(&restored(&tombstone))
        .expect("restored");
    assert_eq!(
        (copy.borrow().record_count(), copy.borrow().size_bytes()),
        (0, 0)
    );
}

#[test]
fn a_suppress_buffer_takes_windowed_keys() {
    let mut world = World::new(0);
    let serde = time_windowed(String::serde(), 100);
    let builder = SuppressBufferBuilder::new("s", serde, String::serde(), Some(BTreeMap::new()));
    let (buffer, life) = world.build::<SuppressBuffer<Windowed<String>, String>>(&builder);
    let key = Windowed::new("k".to_owned(), crate::serde::Window::of_time(1000, 1100));
    buffer
        .borrow_mut()
        .put(&world.context, 1100, &key, &change(None, Some("v")))
        .expect("put");
    life.borrow_mut()
        .flush(&mut world.context)
        .expect("flushed");
    assert_eq!(logged(&mut world)[0].0, "6b00000000000003e8");
    let one = buffer.borrow_mut().release_first().expect("released");
    assert_eq!(one.map(|one| one.key), Some(key));
}

#[test]
fn a_suppress_buffer_refuses_damaged_changelogs() {
    let world = World::new(0);
    let (_, life) = world.build::<Suppress>(&suppress());
    let record = crate::state::ChangelogRecord {
        key: Bytes::from_static(b"k"),
        value: Some(Bytes::from_static(&[1, 2, 3])),
        timestamp_ms: 0,
        headers: Headers::new(),
        offset: 0,
    };
    let error = life.borrow_mut().restore(&[record]).expect_err("damaged");
    let expected = "state store `s`: a stored row is damaged: the bytes end within a field";
    assert_eq!(error.to_string(), expected);
}

type Grace = GraceBuffer<String, String>;

fn grace(store_type: StoreType) -> GraceBufferBuilder<String, String> {
    let (key, value) = (String::serde(), String::serde());
    GraceBufferBuilder::new("s", store_type, 100, key, value, Some(BTreeMap::new()))
}

/// What is due.
fn due(world: &mut World, buffer: &Rc<RefCell<Grace>>) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(one) = buffer
        .borrow_mut()
        .take_due(&mut world.context)
        .expect("taken")
    {
        all.push(format!(
            "{}={}@{}",
            one.key, one.value, one.context.timestamp_ms
        ));
    }
    all
}

/// Whether a record is held.
fn holds(
    world: &mut World,
    buffer: &Rc<RefCell<Grace>>,
    (key, value, timestamp_ms): (&str, &str, i64),
) -> bool {
    world.context.record.timestamp_ms = timestamp_ms;
    buffer
        .borrow_mut()
        .put(&mut world.context, &key.to_owned(), &value.to_owned())
        .expect("put")
}

/// What was looked at before does not hide it.
#[test]
fn a_grace_buffer_gives_what_came_later_and_is_earlier() {
    for store_type in STORE_TYPES {
        let mut world = World::new(0);
        let (buffer, _life) = world.build::<Grace>(&grace(store_type));
        assert!(holds(&mut world, &buffer, ("a", "1", 1000)));
        assert_eq!(due(&mut world, &buffer), [""; 0]);
        assert!(holds(&mut world, &buffer, ("b", "2", 950)));
        assert!(holds(&mut world, &buffer, ("c", "3", 1050)));
        assert_eq!(due(&mut world, &buffer), ["b=2@950"]);
        // The earliest that is held: it is due at once.
        assert!(holds(&mut world, &buffer, ("d", "4", 950)));
        assert_eq!(due(&mut world, &buffer), ["d=4@950"]);
    }
}

#[test]
fn a_grace_buffer_holds_records_until_their_grace_has_passed() {
    for store_type in STORE_TYPES {
        let mut world = World::new(0);
        let (buffer, life) = world.build::<Grace>(&grace(store_type));
        for record in [("b", "1", 1000), ("a", "2", 1000), ("a", "3", 1000)] {
            assert!(holds(&mut world, &buffer, record));
        }
        assert!(holds(&mut world, &buffer, ("z", "4", 950)));
        assert!(!holds(&mut world, &buffer, ("z", "5", 899)));
        assert_eq!(due(&mut world, &buffer), [""; 0]);
        assert!(holds(&mut world, &buffer, ("c", "6", 1050)));
        assert_eq!(due(&mut world, &buffer), ["z=4@950"]);
        let produced = world.drain();
        let (copy, copied) = World::new(0).build::<Grace>(&grace(StoreType::InMemory));
        copied
            .borrow_mut()
            .restore(&restored(&produced))
            .expect("restored");
        for buffer in [&buffer, &copy] {
            // The latest time is known after a restore.
            assert!(!holds(&mut world, buffer, ("z", "7", 949)));
            assert_eq!(due(&mut world, buffer), [""; 0]);
            assert!(holds(&mut world, buffer, ("d", "8", 1100)));
            let expected = ["a=2@1000", "a=3@1000", "b=1@1000"];
            assert_eq!(due(&mut world, buffer), expected);
        }
        assert!(life.borrow_mut().close().is_ok());
        // Time, key, number; a tombstone when it leaves.
        let keys: Vec<_> = produced
            .iter()
            .map(|record| {
                (
                    record.key.as_deref().map(hex).unwrap_or_default(),
                    record.value.is_some(),
                )
            })
            .collect();
        assert_eq!(keys[0], ("0000000000000003e86200000001".to_owned(), true));
        assert_eq!(keys[5], ("0000000000000003b67a00000004".to_owned(), false));
    }
}

#[test]
fn a_grace_buffer_does_not_write_over_what_a_process_before_has_held() {
    for store_type in STORE_TYPES {
        let mut world = World::new(0);
        let (buffer, life) = world.build::<Grace>(&grace(store_type));
        assert!(holds(&mut world, &buffer, ("a", "1", 1000)));
        let produced = world.drain();
        let last = BTreeMap::from([((Arc::from(TOPIC), 7), 0)]);
        life.borrow_mut().commit(&last).expect("committed");
        let mut world = world.killed(0);
        let (buffer, life) = world.build::<Grace>(&grace(store_type));
        if store_type == StoreType::InMemory {
            life.borrow_mut()
                .restore(&restored(&produced))
                .expect("restored");
        }
        assert!(holds(&mut world, &buffer, ("a", "2", 1000)));
        assert_ne!(world.drain()[0].key, produced[0].key);
        assert!(holds(&mut world, &buffer, ("z", "3", 1100)));
        assert_eq!(due(&mut world, &buffer), ["a=1@1000", "a=2@1000"]);
    }
}

#[test]
fn a_grace_buffer_logs_what_it_keeps_and_a_time_of_zero() {
    let mut world = World::new(0);
    let (buffer, _) = world.build::<Grace>(&grace(StoreType::Persistent));
    process_record(&mut world);
    let (key, value) = ("k".to_owned(), "v".to_owned());
    let put = buffer.borrow_mut().put(&mut world.context, &key, &value);
    assert!(put.expect("put"));
    let value = format!("{CONTEXT}ffffffff ffffffff 00000001 76 0000000000000000").replace(' ', "");
    let key = "0000000000000003e86b00000001".to_owned();
    assert_eq!(logged(&mut world), [(key, Some(value), None, 0)]);
}

type Outer = OuterJoinStore<String, String, String>;

fn outer(store_type: StoreType) -> OuterJoinStoreBuilder<String, String, String> {
    let serdes = JoinSerdes {
        key: String::serde(),
        left: String::serde(),
        right: String::serde(),
    };
    OuterJoinStoreBuilder::new("s", store_type, serdes, Some(BTreeMap::new()))
}

fn entries(store: &Rc<RefCell<Outer>>) -> Vec<String> {
    let mut place: Option<Vec<u8>> = None;
    let mut all = Vec::new();
    while let Some(entry) = store
        .borrow_mut()
        .next_after(place.as_deref())
        .expect("read")
    {
        let values: Vec<_> = entry
            .values
            .iter()
            .map(|value| match value {
                LeftOrRight::Left(value) => format!("l{value}"),
                LeftOrRight::Right(value) => format!("r{value}"),
            })
            .collect();
        all.push(format!(
            "{}{}{:?}:{}",
            entry.timestamp_ms,
            entry.key,
            entry.side,
            values.join(",")
        ));
        place = Some(entry.place);
    }
    all
}

#[test]
fn an_outer_join_store_keeps_lists_by_time_side_and_key() {
    for store_type in STORE_TYPES {
        let mut world = World::new(0);
        let (store, life) = world.build::<Outer>(&outer(store_type));
        world.record(5000, Headers::new());
        let mut add = |key: &str, timestamp_ms, value: LeftOrRight<&str, &str>| {
            let value = match value {
                LeftOrRight::Left(value) => LeftOrRight::Left(value.to_owned()),
                LeftOrRight::Right(value) => LeftOrRight::Right(value.to_owned()),
            };
            store
                .borrow_mut()
                .add(&mut world.context, &key.to_owned(), timestamp_ms, &value)
                .expect("added");
        };
        add("k", 1000, LeftOrRight::Left("v1"));
        add("k", 1000, LeftOrRight::Left("2"));
        add("z", 1000, LeftOrRight::Right("3"));
        add("a", 999, LeftOrRight::Left("4"));
        let expected = ["999aLeft:l4", "1000zRight:r3", "1000kLeft:lv1,l2"];
        assert_eq!(entries(&store), expected);
        let key = "k".to_owned();
        for side in [JoinSide::Right, JoinSide::Left, JoinSide::Left] {
            let removed = store
                .borrow_mut()
                .remove(&mut world.context, &key, 1000, side);
            removed.expect("removed");
        }
        let first = store
            .borrow_mut()
            .next_after(None)
            .expect("read")
            .expect("one");
        let removed = store
            .borrow_mut()
            .remove_entry(&mut world.context, &first.place);
        removed.expect("removed");
        assert_eq!(entries(&store), ["1000zRight:r3"]);
        let produced = world.drain();
        let (copy, copied) = World::new(0).build::<Outer>(&outer(StoreType::InMemory));
        copied
            .borrow_mut()
            .restore(&restored(&produced))
            .expect("restored");
        assert_eq!(entries(&copy), entries(&store));
        // The whole list each time, once a tombstone for what was matched; the time is that of the record.
        let values: Vec<_> = produced
            .iter()
            .map(|record| record.value.as_deref().map(hex).unwrap_or_default())
            .collect();
        assert_eq!(values[0], "010000000100000003017631");
        assert_eq!(values.len(), 6);
        assert!(
            produced
                .iter()
                .all(|record| record.timestamp_ms == Some(5000))
        );
        assert_eq!(
            produced[0].key.as_deref().map(hex).as_deref(),
            Some("00000000000003e8016b")
        );
        life.borrow_mut().close().expect("closed");
    }
}

/// Rows that were deleted are passed by a scan that begins before them, on a disk at some cost.
#[test]
fn an_outer_join_store_is_looked_through_from_its_first_entry() {
    let mut world = World::new(0);
    let (store, life) = world.build::<Outer>(&outer(StoreType::Persistent));
    let mut times = |added: &[i64], removed: bool| {
        let mut store = store.borrow_mut();
        for time_ms in added {
            let (key, value) = ("k".to_owned(), LeftOrRight::Left(String::new()));
            let added = store.add(&mut world.context, &key, *time_ms, &value);
            added.expect("added");
        }
        let first = store.next_after(None).expect("read");
        if let Some(first) = first.as_ref().filter(|_| removed) {
            let removed = store.remove_entry(&mut world.context, &first.place);
            removed.expect("removed");
        }
        let begins_at = first.as_ref().map(|first| first.place.clone());
        assert_eq!(
            Some(&store.first_place),
            begins_at.as_ref().or(Some(&vec![0xff]))
        );
        first.map(|first| first.timestamp_ms)
    };
    assert_eq!(times(&[20, 10, 30], true), Some(10));
    assert_eq!(times(&[], true), Some(20));
    assert_eq!(times(&[5], true), Some(5));
    assert_eq!(times(&[], true), Some(30));
    assert_eq!(times(&[], false), None);
    assert_eq!(times(&[7], false), Some(7));
    let logged = restored(&world.drain());
    let restored = life.borrow_mut().restore(&logged[5..6]);
    restored.expect("restored");
    let first = store.borrow_mut().next_after(None).expect("read");
    assert_eq!(first.map(|first| first.timestamp_ms), Some(5));
    life.borrow_mut().close().expect("closed");
}
