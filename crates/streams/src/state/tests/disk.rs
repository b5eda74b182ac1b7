//! Stores on disk: what crashes and damages leave.

use super::key_value::offsets;
use super::world::{World, copy_of};
use crate::StreamsError;
use crate::formats::window_key::WindowKey;
use crate::headers::Headers;
use crate::serde::{DefaultSerde as _, Window, Windowed};
use crate::state::bytes::TaskDatabase;
use crate::state::{
    CacheBudget, ChangelogRecord, DslStoreFormat, KeyValueStore, KeyValueStoreBuilder,
    SessionStore, SessionSupplier, StateStore, StoreBuilder, StoreFault, StoreType, Stores,
    TaskStorage, WindowSupplier,
};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

type Store = KeyValueStore<String, i64>;

const KEYS: i64 = 10;
const ROUNDS: i64 = 40;

fn builder() -> KeyValueStoreBuilder<String, i64> {
    let supplier = Stores::persistent_timestamped_key_value_store("s");
    Stores::timestamped_key_value_store_builder(supplier, String::serde(), i64::serde())
}

/// In each round every key gets the round's number, which is committed as offset then.
fn fill(world: &mut World, store: &Rc<RefCell<Store>>, life: &Rc<RefCell<dyn StateStore>>) {
    for round in 0..ROUNDS {
        for key in 0..KEYS {
            store
                .borrow_mut()
                .put(&mut world.context, &format!("{key}"), Some(&round))
                .expect("put");
        }
        life.borrow_mut()
            .commit(&offsets(round))
            .expect("committed");
    }
}

/// Opens what is in `directory`: every row must be there that was put before the offset that is there. The offset, or
/// why the store cannot be opened or read.
fn open(directory: &Path) -> Result<Option<i64>, StreamsError> {
    let world = World::new(0);
    let mut building = world.building(true);
    building.storage = TaskStorage::on_disk(directory.to_path_buf(), CacheBudget::new(0));
    let built = builder().build(&building)?;
    let store = built
        .typed
        .downcast_ref::<Rc<RefCell<Store>>>()
        .expect("it is a store")
        .clone();
    let committed = built.store.borrow().committed_offset("t", 7)?;
    for key in 0..KEYS {
        let value = store.borrow_mut().get(&format!("{key}"))?;
        assert!(
            value >= committed,
            "key {key} has {value:?}, and {committed:?} is committed"
        );
    }
    store
        .borrow_mut()
        .all()?
        .try_for_each(|row| row.map(|_| ()))?;
    built.store.borrow_mut().close()?;
    Ok(committed)
}

fn journal(directory: &Path) -> PathBuf {
    directory.join("stores").join("0.jnl")
}

/// How many bytes of the journal are written; what follows is room.
fn written_bytes(journal: &Path) -> u64 {
    let mut bytes = Vec::new();
    let file = File::open(journal).expect("the journal is there");
    file.take(1 << 20)
        .read_to_end(&mut bytes)
        .expect("it can be read");
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last as u64 + 1)
}

/// What a crash may leave is a beginning, or is known as damaged.
fn open_torn(directory: &Path) -> Option<i64> {
    open(directory).unwrap_or_else(|error| {
        let expected = "state store `s`: its files are damaged";
        assert!(error.to_string().starts_with(expected), "{error}");
        None
    })
}

#[test]
fn a_torn_journal_keeps_what_its_beginning_has() {
    let mut world = World::new(0);
    let (store, life) = world.build::<Store>(&builder());
    fill(&mut world, &store, &life);
    let written = written_bytes(&journal(world.directory()));
    assert!(written > 10_000, "{written} bytes");
    let mut committed = Vec::new();
    for cut in (0..=24).map(|step| written * step / 24) {
        for keeps_room in [false, true] {
            let copy = copy_of(world.directory());
            let path = journal(copy.path());
            let file = OpenOptions::new()
                .write(true)
                .open(path)
                .expect("the journal");
            let length = file.metadata().expect("a length").len();
            file.set_len(cut).expect("cut");
            if keeps_room {
                file.set_len(length).expect("room");
            }
            committed.push(match keeps_room {
                // fjall takes room within a row for the row.
                true => open_torn(copy.path()),
                false => open(copy.path()).expect("a torn end is no damage"),
            });
        }
    }
    let without_room: Vec<_> = committed.iter().step_by(2).collect();
    assert!(without_room.is_sorted(), "{committed:?}");
    assert_eq!(committed.first(), Some(&None));
    assert_eq!(committed.last(), Some(&Some(ROUNDS - 1)));
}

#[test]
fn a_page_that_is_lost_within_the_journal_never_promises_rows() {
    let mut world = World::new(0);
    let (store, life) = world.build::<Store>(&builder());
    fill(&mut world, &store, &life);
    let written = written_bytes(&journal(world.directory()));
    for step in 0..12 {
        let copy = copy_of(world.directory());
        let mut file = OpenOptions::new()
            .write(true)
            .open(journal(copy.path()))
            .expect("the journal");
        file.seek(SeekFrom::Start(written * step / 12))
            .expect("sought");
        file.write_all(&[0; 512]).expect("written");
        open_torn(copy.path());
    }
}

/// All files of a database, but its lock.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all.retain(|path| !path.ends_with("lock"));
    all.sort();
    all
}

/// A database whose rows are in tables.
fn tables() -> World {
    let mut world = World::new(0);
    let (store, life) = world.build::<Store>(&builder());
    fill(&mut world, &store, &life);
    life.borrow_mut().close().expect("closed");
    drop((store, life));
    let world = world.killed(0);
    {
        let database = TaskDatabase::open(&world.directory().join("stores")).expect("opened");
        for family in ["keyValueWithTimestamp", "offsets"] {
            let keyspace = database
                .keyspace(&format!("s/{family}"))
                .expect("a keyspace");
            keyspace.rotate_memtable_and_wait().expect("written");
        }
    }
    world
}

proptest! {
    #![proptest_config(trials::property(48))]

    #[test]
    fn damaged_files_give_errors(damages in proptest::collection::vec((any::<u16>(), any::<u32>(), 1..=255_u8), 1..4)) {
        thread_local! {
            static TABLES: World = tables();
        }
        let copy = TABLES.with(|world| copy_of(world.directory()));
        assert_eq!(open(copy.path()).expect("undamaged"), Some(ROUNDS - 1));
        let files = files(copy.path());
        for (file, position, flip) in damages {
            let path = &files[usize::from(file) % files.len()];
            let mut file = OpenOptions::new().read(true).write(true).open(path).expect("a file");
            let length = file.metadata().expect("a length").len().min(50_000);
            if length == 0 {
                continue;
            }
            let position = u64::from(position) % length;
            let mut byte = [0];
            file.seek(SeekFrom::Start(position)).expect("sought");
            file.read_exact(&mut byte).expect("read");
            byte[0] ^= flip;
            file.seek(SeekFrom::Start(position)).expect("sought");
            file.write_all(&byte).expect("written");
        }
        // What the damage is decides; that this comes to an end is what counts.
        let _ = open(copy.path());
    }
}

/// As a loss of power leaves files that were not on the disk. Without the journal nobody can tell what it had.
#[test]
fn a_file_that_is_gone_or_empty_is_known_as_damage() {
    let world = tables();
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|end| end == "jnl");
    let mut found_count = 0;
    for (index, path) in files(world.directory()).iter().enumerate() {
        if is_journal(path) {
            continue;
        }
        let damages: [fn(&Path) -> std::io::Result<()>; 2] = [
            |path| std::fs::remove_file(path),
            |path| File::create(path).map(|_| ()),
        ];
        for damage in damages {
            let copy = copy_of(world.directory());
            damage(&files(copy.path())[index]).expect("damaged");
            // Or nothing needs the file.
            if let Err(error) = open(copy.path()) {
                let is_known = error.store_fault().is_some_and(StoreFault::is_of_files);
                assert!(is_known, "{}: {error}", path.display());
                found_count += 1;
            }
        }
    }
    assert!(found_count > 5, "{found_count} damages were found");
}

/// Rows enough for tables of their own. Some are overwritten, some deleted, and the store is written between.
#[test]
fn what_was_restored_by_tables_outlives_a_crash() {
    check_restored(200);
}

/// More rows than wait in memory.
#[test]
fn what_was_restored_by_merged_runs_outlives_a_crash() {
    check_restored(6_000);
}

/// It was closed between two steps of a merge.
#[test]
fn a_store_that_is_closed_while_it_is_restored_goes_on_where_it_was_noted() {
    type Texts = KeyValueStore<String, String>;
    let supplier = Stores::persistent_timestamped_key_value_store("s");
    let builder =
        Stores::timestamped_key_value_store_builder(supplier, String::serde(), String::serde());
    let records = |offsets: Range<i64>, value_bytes: usize| -> Vec<ChangelogRecord> {
        let value = "x".repeat(value_bytes);
        let record = |offset: i64| ChangelogRecord {
            key: format!("{:04}", offset * 7 % 2_500).into(),
            value: (offset % 5 != 0).then(|| format!("{offset}{value}").into()),
            timestamp_ms: offset,
            headers: Headers::EMPTY,
            offset,
        };
        offsets.map(record).collect()
    };
    let (first, second) = (records(0..2_000, 10), records(2_000..4_000, 12_000));
    let world = World::new(0);
    let (_, life) = world.build::<Texts>(&builder);
    let mut life = life.borrow_mut();
    life.restore(&first).expect("restored");
    life.commit(&offsets(1_999)).expect("committed");
    life.restore(&second).expect("restored");
    assert!(!life.settle(0).expect("a step"));
    assert!(life.unsettled_bytes() > 0);
    life.close().expect("closed");
    assert_eq!(life.unsettled_bytes(), 0);

    let after = world.killed(0);
    let (store, life) = after.build::<Texts>(&builder);
    // What was left open is not used under exactly-once.
    assert!(!life.borrow().was_left_open());
    let noted = life.borrow().committed_offset("t", 7).expect("read");
    assert_eq!(noted, Some(1_999), "what has waited is restored again");
    let [merged, left] = ["0001", "2499"].map(|key| {
        let value = store.borrow_mut().get(&key.to_owned()).expect("read");
        value.map_or(0, |value| value.len())
    });
    assert!(merged > 12_000 && left < 20, "{merged} {left}");
    life.borrow_mut().restore(&second).expect("restored");
    while !life.borrow_mut().settle(0).expect("a step") {}
    let mut model = BTreeMap::new();
    for record in first.into_iter().chain(second) {
        model.insert(record.key, record.value);
    }
    let there = model
        .into_iter()
        .filter_map(|(key, value)| Some((key, value?)));
    let mut store = store.borrow_mut();
    let rows = store.all().expect("a range").map(|row| row.expect("a row"));
    assert!(rows.eq(there.map(|(key, value)| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&key), text(&value))
    })));
}

/// Rows that wait in files are not put into a store that nobody uses any more.
#[test]
fn a_store_that_is_given_up_does_no_work() {
    check_given_up(|life| {
        life.commit(&BTreeMap::new()).expect("given up");
        life.close().expect("closed");
    });
}

/// They are restored again from the offset that was noted before.
#[test]
fn a_store_that_is_closed_while_it_is_restored_does_no_work() {
    check_given_up(|life| {
        life.close().expect("closed");
    });
}

/// Of a store of keys and one of windows: who is done with it puts nothing into it that waits in files.
fn check_given_up(give_up: impl Fn(&mut dyn StateStore)) {
    let windows = WindowSupplier::new(
        "s",
        StoreType::Persistent,
        DslStoreFormat::Timestamped,
        200_000,
        10,
    );
    let windows = Stores::timestamped_window_store_builder(windows, String::serde(), i64::serde());
    let builders: [&dyn StoreBuilder; 2] = [&builder(), &windows];
    for builder in builders {
        let world = World::new(0);
        let life = builder.build(&world.building(true)).expect("opened").store;
        let mut life = life.borrow_mut();
        let record = |offset: i64| {
            let key = offset.to_string();
            let window = WindowKey {
                key: key.as_bytes(),
                window_start_ms: offset,
                sequence_number: 0,
            };
            ChangelogRecord {
                key: window.to_store_key().into(),
                value: Some(vec![7; 16_000].into()),
                timestamp_ms: offset,
                headers: Headers::EMPTY,
                offset,
            }
        };
        let records: Vec<_> = (0..2_000).map(record).collect();
        life.restore(&records).expect("restored");
        assert!(life.unsettled_bytes() > 16 << 20);
        let tables = || {
            let database = world.storage.database().expect("open");
            let database = database.expect("a database");
            let names: Vec<String> = database.names().collect();
            let rows = names.iter().filter(|name| !name.ends_with("/offsets"));
            let rows = rows.map(|name| database.keyspace(name).expect("a keyspace"));
            rows.map(|rows| rows.approximate_len()).sum::<usize>()
        };
        assert_eq!(tables(), 0);
        give_up(&mut *life);
        assert_eq!(tables(), 0);
    }
}

fn check_restored(value_bytes: usize) {
    type Texts = KeyValueStore<String, String>;
    let supplier = Stores::persistent_timestamped_key_value_store("s");
    let builder =
        Stores::timestamped_key_value_store_builder(supplier, String::serde(), String::serde());
    let mut world = World::new(0);
    let (store, life) = world.build::<Texts>(&builder);
    let mut model = BTreeMap::new();
    for round in 0..3_i64 {
        let records: Vec<ChangelogRecord> = (0..2000_i64)
            .map(|number| {
                let key = format!("{:04}", number * 7 % 1500 + round * 100);
                let value =
                    (number % 5 != round).then(|| format!("{round}{}", "x".repeat(value_bytes)));
                model.insert(key.clone(), value.clone());
                ChangelogRecord {
                    key: key.into(),
                    value: value.map(Into::into),
                    timestamp_ms: number,
                    headers: Headers::EMPTY,
                    offset: number,
                }
            })
            .collect();
        life.borrow_mut().restore(&records).expect("restored");
        let promised = |world: &World| {
            let after = world.killed(0);
            let (_, life) = after.build::<Texts>(&builder);
            let offset = life.borrow().committed_offset("t", 7);
            offset.expect("read")
        };
        assert_eq!(promised(&world), (round > 0).then(|| round - 1));
        if round == 1 {
            while !life.borrow_mut().settle(0).expect("written") {}
        }
        assert_eq!(promised(&world), (round > 0).then(|| round - 1));
        let (key, value) = ("0777".to_owned(), format!("put in {round}"));
        let mut writing = store.borrow_mut();
        let put = writing.put(&mut world.context, &key, Some(&value));
        put.expect("put");
        drop(writing);
        model.insert(key, Some(value));
        // The last row is in no table when the offset is noted.
        let last = ChangelogRecord {
            key: "last".into(),
            value: Some(format!("restored in {round}").into()),
            timestamp_ms: round,
            headers: Headers::EMPTY,
            offset: 2000,
        };
        life.borrow_mut().restore(&[last]).expect("restored");
        model.insert("last".to_owned(), Some(format!("restored in {round}")));
        let committed = life.borrow_mut().commit(&offsets(round));
        committed.expect("committed");
        let after = world.killed(0);
        let (left, left_life) = after.build::<Texts>(&builder);
        let offset = left_life.borrow().committed_offset("t", 7);
        assert_eq!(offset.expect("read"), Some(round));
        for store in [&store, &left] {
            let mut store = store.borrow_mut();
            let rows: Result<Vec<_>, _> = store.all().expect("a range").collect();
            let there = model
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
            assert!(rows.expect("rows").into_iter().eq(there), "round {round}");
        }
    }
}

/// More rows than wait in memory. Some are overwritten, some deleted, and all are read between.
#[test]
fn what_was_put_is_there_when_its_offset_is_however_much_it_is() {
    type Texts = KeyValueStore<i64, String>;
    let supplier = Stores::persistent_timestamped_key_value_store("s");
    let builder =
        Stores::timestamped_key_value_store_builder(supplier, i64::serde(), String::serde());
    let mut world = World::new(0);
    let (store, life) = world.build::<Texts>(&builder);
    let mut model = BTreeMap::new();
    for round in 0..3_i64 {
        for number in 0..1_800_i64 {
            let key = number * 7 % 1_200 + round * 100;
            let value = (number % 5 != round).then(|| format!("{round} {number} {:4000}", ""));
            let mut store = store.borrow_mut();
            let put = store.put(&mut world.context, &key, value.as_ref());
            put.expect("put");
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
            let asked = number * 11 % 1_500;
            let found = store.get(&asked).expect("read");
            assert_eq!(
                found.as_ref(),
                model.get(&asked),
                "round {round}, key {asked}"
            );
        }
        assert_all(&store, &model);
        let committed = life.borrow_mut().commit(&offsets(round));
        committed.expect("committed");
        let after = world.killed(0);
        let (left, left_life) = after.build::<Texts>(&builder);
        let offset = left_life.borrow().committed_offset("t", 7);
        assert_eq!(offset.expect("read"), Some(round));
        assert_all(&left, &model);
    }
}

/// The store has what the model has, whichever way it is read.
fn assert_all(store: &Rc<RefCell<KeyValueStore<i64, String>>>, model: &BTreeMap<i64, String>) {
    let rows = || model.iter().map(|(key, value)| (*key, value.clone()));
    let mut store = store.borrow_mut();
    let found: Result<Vec<_>, _> = store.all().expect("a range").collect();
    assert!(found.expect("rows").into_iter().eq(rows()));
    let found: Result<Vec<_>, _> = store.reverse_all().expect("a range").collect();
    assert!(found.expect("rows").into_iter().eq(rows().rev()));
}

/// Rows that are not committed are in a table, and so on the disk, when the power fails. Of the journal it has what was
/// synced.
#[test]
fn a_store_that_was_opened_again_is_never_found_closed_with_what_was_put_since() {
    let world = World::new(0);
    let (store, life) = world.build::<Store>(&builder());
    life.borrow_mut().close().expect("closed");
    drop((store, life));
    let mut world = world.killed(0);
    let mut synced = std::fs::read(journal(world.directory())).expect("the journal");
    let (store, _life) = world.build::<Store>(&builder());
    for key in 0..1_200 {
        let key = format!("{key:4000}");
        let put = store.borrow_mut().put(&mut world.context, &key, Some(&1));
        put.expect("put");
    }
    let database = world.storage.database().expect("open");
    let noted = database.expect("a database").synced();
    if !noted.is_empty() {
        synced = noted;
    }
    let lost = copy_of(world.directory());
    std::fs::write(journal(lost.path()), synced).expect("written");
    let mut building = World::new(0).building(true);
    building.storage = TaskStorage::on_disk(lost.path().to_path_buf(), CacheBudget::new(0));
    let built = builder().build(&building).expect("opened");
    let left = built.typed.downcast_ref::<Rc<RefCell<Store>>>();
    let row = left
        .expect("a store")
        .borrow_mut()
        .get(&format!("{:4000}", 0));
    assert_eq!(row.expect("read"), Some(1), "it is in a table");
    assert!(built.store.borrow().was_left_open());
}

/// Rows that have expired go from the disk with their keyspace, at once.
#[test]
fn that_a_store_is_open_is_on_the_disk_before_a_keyspace_goes() {
    let world = World::new(0);
    let (store, life) = world.build::<Store>(&builder());
    life.borrow_mut().close().expect("closed");
    drop((store, life));
    let mut world = world.killed(0);
    let (store, _life) = world.build::<Store>(&builder());
    let put = store
        .borrow_mut()
        .put(&mut world.context, &"k".to_owned(), Some(&1));
    put.expect("put");
    let database = world.storage.database().expect("open");
    let database = database.expect("a database");
    assert!(database.synced().is_empty(), "nothing had to be synced yet");
    let keyspace = database.keyspace("expired").expect("made");
    database.remove(keyspace).expect("removed");
    assert!(!database.synced().is_empty());
}

/// A process is ended when it has deleted a session, and not yet what the index says of it.
#[test]
fn an_index_may_tell_of_sessions_that_are_gone() {
    let mut supplier =
        SessionSupplier::new("s", StoreType::Persistent, DslStoreFormat::Plain, 200_000);
    supplier.is_time_first = true;
    let builder = Stores::session_store_builder(supplier, String::serde(), String::serde());
    let mut world = World::new(0);
    let (store, life) = world.build::<SessionStore<String, String>>(&builder);
    let key = "k".to_owned();
    for start_ms in [10, 20, 30] {
        let session = Windowed::new(key.clone(), Window::of_session(start_ms, start_ms + 1));
        let put = store
            .borrow_mut()
            .put(&mut world.context, &session, Some(&"v".to_owned()));
        put.expect("put");
    }
    life.borrow_mut().close().expect("closed");
    drop((store, life));
    let world = world.killed(0);
    {
        let database = TaskDatabase::open(&world.directory().join("stores")).expect("opened");
        let is_segment = |name: &String| name.ends_with("/0");
        let segment = database.names().find(is_segment).expect("a segment");
        let rows = database.keyspace(&segment).expect("a keyspace");
        let of_time_20 = rows
            .iter()
            .filter_map(|row| row.key().ok())
            .find(|row| row[0] == 0 && row[1..9] == 21_i64.to_be_bytes());
        rows.remove(of_time_20.expect("its row")).expect("removed");
    }
    let (store, _life) = world.build::<SessionStore<String, String>>(&builder);
    let mut store = store.borrow_mut();
    let found = store.find_sessions(&key, 0, 100).expect("a scan");
    let starts = found.map(|found| found.map(|(session, _)| session.window.start_ms));
    let starts: Result<Vec<i64>, _> = starts.collect();
    assert_eq!(starts.expect("rows"), [10, 30]);
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_that_names_the_store() {
    let directory = trials::directory();
    let path = directory.path().join("task");
    std::fs::write(&path, "a file").expect("written");
    let error = open(&path).expect_err("it is a file").to_string();
    assert!(
        error.starts_with("state store `s`: the disk failed: "),
        "{error}"
    );
}

/// A store that is opened in a directory where another version of the application has left another one.
#[test]
fn a_store_of_another_layout_is_told() {
    let supplier = Stores::persistent_key_value_store("s");
    let (key, value) = (String::serde, i64::serde);
    let plain = Stores::key_value_store_builder(supplier, key(), value());
    let supplier = Stores::persistent_timestamped_key_value_store_with_headers("s");
    let headers =
        Stores::timestamped_key_value_store_with_headers_builder(supplier, key(), value());
    let windows = |retention_ms| {
        let format = DslStoreFormat::Timestamped;
        let supplier = WindowSupplier::new("s", StoreType::Persistent, format, retention_ms, 10);
        Stores::timestamped_window_store_builder(supplier, key(), value())
    };
    let timestamped = builder();
    let (short, long) = (windows(200_000), windows(400_000));
    let cases: [(&dyn StoreBuilder, &dyn StoreBuilder, Option<&str>); 6] = [
        (&plain, &timestamped, None),
        (&plain, &headers, None),
        (
            &headers,
            &timestamped,
            Some("rows in format `keyValueWithTimestampAndHeaders`"),
        ),
        (
            &timestamped,
            &plain,
            Some("rows in format `keyValueWithTimestamp`"),
        ),
        (&timestamped, &long, Some("keys and values")),
        (
            &short,
            &long,
            Some("windows in segments of 100000 ms, keys first"),
        ),
    ];
    for (before, after, expected) in cases {
        let directory = trials::directory();
        let build = |builder: &dyn StoreBuilder| {
            let mut building = World::new(0).building(true);
            let path = directory.path().to_path_buf();
            building.storage = TaskStorage::on_disk(path, CacheBudget::new(0));
            builder.build(&building).map(|_| ())
        };
        build(before).expect("it is new");
        match (build(after), expected) {
            (Ok(()), None) => {}
            (Err(error), Some(expected)) => {
                let expected = format!("state store `s`: its files have {expected}, and");
                assert!(error.to_string().starts_with(&expected), "{error}");
            }
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }
}
