//! Which record is next, and when a task waits for one (`max.task.idle.ms`).

use super::*;
use crate::dsl::{BufferConfig, Joined, Materialized, StreamsBuilder, Suppressed, TimeWindows};
use crate::processor::{DeadLetterTopic, Partitioning, Processor, ProcessorContext, Schedule};
use crate::record::Record;
use crate::serde::{DefaultSerde as _, time_windowed};
use crate::state::{CacheBudget, TaskStorage};
use crate::store_fault::StoreFault;
use crate::topology::{Consumed, Produced, SourceTopics, TimestampExtractor};
use bytes::Bytes;

type Error = Box<dyn std::error::Error>;

/// A task that merges topics `left` and `right`, and waits as `max_task_idle_ms` says.
fn merging(max_task_idle_ms: i64) -> Result<Task, Error> {
    let builder = StreamsBuilder::new();
    let left = builder.stream::<String, String>("left");
    let right = builder.stream::<String, String>("right");
    left.merge(&right).to("merged");
    task_of(builder, max_task_idle_ms)
}

fn task_of(builder: StreamsBuilder, max_task_idle_ms: i64) -> Result<Task, Error> {
    cached_task_of(builder, max_task_idle_ms, 0)
}

fn cached_task_of(
    builder: StreamsBuilder,
    max_task_idle_ms: i64,
    cache_bytes: usize,
) -> Result<Task, Error> {
    let topology = builder.build()?;
    let application_id: Arc<str> = Arc::from("app");
    let task_id = TaskId {
        subtopology: 0,
        partition: 0,
    };
    let storage = TaskStorage::in_memory(CacheBudget::new(cache_bytes));
    let parts = topology.subtopologies();
    let none = TaskStores::default();
    let built = topology.instantiate(&application_id, &parts[0], task_id, &storage, &none)?;
    let mut inputs = Vec::new();
    for (topics, source) in &built.sources {
        if let SourceTopics::Named(names) = topics {
            let of_names = names
                .iter()
                .map(|name| Input::new(Arc::clone(name), 0, source()));
            inputs.extend(of_names);
        }
    }
    let handlers = Arc::new(Handlers::default());
    let mut task = Task::new(task_id, application_id, handlers, built, inputs);
    task.set_max_task_idle_ms(max_task_idle_ms);
    Ok(task)
}

fn add(task: &mut Task, topic: &str, timestamps_ms: &[i64]) -> Result<(), Error> {
    let records = timestamps_ms.iter().map(|timestamp_ms| RawRecord {
        topic: Arc::from(topic),
        partition: 0,
        offset: *timestamp_ms,
        timestamp_ms: *timestamp_ms,
        key: Some(Bytes::from_static(b"key")),
        value: Some(Bytes::from_static(b"value")),
        headers: crate::headers::Headers::EMPTY,
    });
    task.add_records(topic, 0, records)?;
    Ok(())
}

/// Runs a script: `left 1 3` brings records of these times, `lag right 2` says that the broker has two more of `right`,
/// `at 50` processes what can be processed at that time of the clock. The times of the records, in the order in which
/// they were processed, a group for each `at`.
fn check(max_task_idle_ms: i64, script: &str, expect: &str) -> Result<(), Error> {
    let mut task = merging(max_task_idle_ms)?;
    let mut groups = Vec::new();
    for line in script.split(';') {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words {
            ["at", now_ms] => {
                while task.process(now_ms.parse()?)? {}
                let times = task.drain_produced();
                let times: Vec<String> = times
                    .map(|record| record.timestamp_ms.unwrap_or(-1).to_string())
                    .collect();
                groups.push(times.join(" "));
            }
            ["lag", topic, lag] => {
                let lag: i64 = lag.parse()?;
                task.update_lags(|of, _| (**of == *topic).then_some(lag));
            }
            [topic, ref times @ ..] => {
                let times: Vec<i64> = times
                    .iter()
                    .map(|time| time.parse())
                    .collect::<Result<_, _>>()?;
                add(&mut task, topic, &times)?;
            }
            [] => {}
        }
    }
    assert_eq!(groups.join(" | "), expect, "{max_task_idle_ms}: {script}");
    Ok(())
}

#[test]
fn a_task_waits_for_inputs_without_records() -> Result<(), Error> {
    // Never, if so configured.
    check(-1, "left 1 3; at 0; right 2; at 1", "1 3 | 2")?;
    // Without limit while nobody has said what the broker has, or it has some.
    check(
        0,
        "left 1 3; at 0; at 1000000; right 2; at 1000001",
        " |  | 1 2",
    )?;
    check(
        0,
        "left 1 3; lag right 1; at 0; at 1000000; right 2; at 1000001",
        " |  | 1 2",
    )?;
    // Not at all if it has none.
    check(
        0,
        "left 1 3; lag left 0; lag right 0; at 0; right 2; at 1",
        "1 3 | 2",
    )?;
    // As long as configured if it has none.
    check(50, "left 1 3; lag right 0; at 0; at 49; at 50", " |  | 1 3")?;
    check(
        50,
        "left 1 3; lag right 0; at 0; right 2; at 49; at 98; at 99",
        " | 1 2 |  | 3",
    )?;
    // The time begins anew when the broker has had some.
    check(
        50,
        "left 1; lag right 0; at 0; lag right 1; at 40; lag right 0; at 60; at 109; at 110",
        " |  |  |  | 1",
    )?;
    // The time of each input goes on while others are waited for.
    for one in ["left", "right"] {
        let script = format!("lag left 0; lag right 0; at 0; {one} 1; at 49; at 50");
        check(50, &script, " |  | 1")?;
    }
    // With records of every input, the earliest is next.
    check(
        0,
        "left 2 5; right 1 4; at 0; lag left 0; lag right 0; at 0",
        "1 2 4 | 5",
    )
}

/// Tasks that come to a thread together are asked about together, and hear what is committed of all.
#[test]
fn a_pattern_takes_no_partition_of_another_task() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let records = builder.stream_pattern::<String, String>("le.*", Consumed::default());
    records.to("out");
    let mut task = task_of(builder, 0)?;
    let committed = CommitMetadata {
        partition_time_ms: 7,
        emitted_close_times_ms: BTreeMap::new(),
    };
    for partition in [0, 1] {
        task.resume("left", partition, &committed);
    }
    add(&mut task, "left", &[8])?;
    assert_eq!(task.waiting_by_input().count(), 1);
    assert!(task.process(0)?, "it waits for records of partition 1");
    Ok(())
}

/// A task with so large a cache that has processed records of a key each, at these times, which are their offsets too.
fn processed(builder: StreamsBuilder, cache_bytes: usize, times_ms: &[i64]) -> Result<Task, Error> {
    let mut task = cached_task_of(builder, -1, cache_bytes)?;
    let records = times_ms.iter().map(|time_ms| RawRecord {
        topic: Arc::from("in"),
        partition: 0,
        offset: *time_ms,
        timestamp_ms: *time_ms,
        key: Some(Bytes::from(time_ms.to_string())),
        value: Some(Bytes::from_static(b"value")),
        headers: crate::headers::Headers::EMPTY,
    });
    task.add_records("in", 0, records)?;
    while task.process(0)? {}
    Ok(task)
}

/// The offsets of the records that results in `out` came of, as error handlers are told.
fn causes(task: &mut Task) -> Vec<i64> {
    let produced = task.drain_produced();
    let results = produced.filter(|record| &*record.topic == "out");
    results.map(|record| record.cause.offset).collect()
}

fn counts() -> StreamsBuilder {
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<String, String>("in");
    stream.group_by_key().count().to_stream().to("out");
    builder
}

#[test]
fn what_was_held_back_came_of_the_record_that_was_held() -> Result<(), Error> {
    let times_ms = [1, 2, 30];
    let check = |builder, expected: &[i64], held: &str| -> Result<(), Error> {
        let mut task = processed(builder, 1 << 20, &times_ms)?;
        task.prepare_commit()?;
        assert_eq!(causes(&mut task), expected, "{held}");
        Ok(())
    };
    check(counts(), &times_ms, "by a cache")?;

    let builder = StreamsBuilder::new();
    let table = builder.table::<String, String>("in");
    let held = Suppressed::until_time_limit(10, BufferConfig::unbounded());
    table.suppress(held).to_stream().to("out");
    check(builder, &[1, 2], "until its time")?;

    let builder = StreamsBuilder::new();
    let versions = Materialized::versioned("table", 100);
    let table = builder.table_with::<String, String>("table", Consumed::default(), versions);
    let stream = builder.stream::<String, String>("in");
    let joined = stream.left_join_table_with(
        &table,
        |_, value: &String, _: Option<&String>| value.clone(),
        Joined::with(String::serde(), String::serde()).with_grace_period(10),
    );
    joined.to("out");
    check(builder, &[1, 2], "for a table")
}

#[test]
fn what_a_cache_has_no_room_for_is_given_on_at_once() -> Result<(), Error> {
    let times_ms: Vec<i64> = (0..20).collect();
    let mut task = processed(counts(), 1000, &times_ms)?;
    let before = causes(&mut task);
    assert!(!before.is_empty() && before.len() < 20, "{before:?}");
    task.prepare_commit()?;
    let after = causes(&mut task);
    assert_eq!([before, after].concat(), times_ms);
    Ok(())
}

#[test]
fn a_record_that_came_while_another_input_had_none_is_counted() -> Result<(), Error> {
    let mut task = merging(0)?;
    task.update_lags(|_, _| Some(0));
    add(&mut task, "left", &[1, 2])?;
    add(&mut task, "right", &[1])?;
    while task.process(0)? {}
    assert_eq!(task.metrics().processed_records, 3);
    assert_eq!(task.metrics().enforced_processing_count, 1);
    Ok(())
}

/// What is to be committed of `left`.
fn committable(task: &mut Task) -> Result<Option<i64>, Error> {
    let offsets = task.prepare_commit()?;
    let left = offsets.into_iter().find(|offset| &*offset.topic == "left");
    Ok(left.map(|offset| offset.offset))
}

#[test]
fn a_commit_is_of_what_is_processed_or_passed_since_the_last() -> Result<(), Error> {
    let mut task = merging(-1)?;
    assert_eq!(committable(&mut task)?, None);
    add(&mut task, "left", &[3, 5])?;
    assert!(task.process(0)?);
    assert_eq!(committable(&mut task)?, Some(4));
    // It may not have been committed.
    assert_eq!(committable(&mut task)?, Some(4));
    task.post_commit();
    assert_eq!(committable(&mut task)?, None);
    let pass = |task: &mut Task, position| {
        task.pass(|topic, _| (&**topic == "left").then_some(position));
    };
    pass(&mut task, 9);
    assert!(!task.is_commit_needed(), "a record waits");
    assert!(task.process(0)?);
    task.post_commit();
    pass(&mut task, 6);
    assert!(!task.is_commit_needed(), "there is nothing behind it");
    // As behind the marker of a transaction.
    pass(&mut task, 8);
    assert_eq!(committable(&mut task)?, Some(8));
    Ok(())
}

#[test]
fn what_is_dropped_is_committed() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let extractor = TimestampExtractor::LogAndSkipOnInvalidTimestamp;
    let consumed = Consumed::default().with_timestamp_extractor(extractor);
    let stream = builder.stream_with::<String, String>(&["left", "right"], consumed);
    stream.to("out");
    let mut task = task_of(builder, -1)?;
    add(&mut task, "right", &[90])?;
    assert!(task.process(0)?);
    task.drain_produced();
    let record = |offset, timestamp_ms| RawRecord {
        topic: Arc::from("left"),
        partition: 0,
        offset,
        timestamp_ms,
        key: Some(Bytes::from_static(b"key")),
        value: Some(Bytes::from_static(b"value")),
        headers: crate::headers::Headers::EMPTY,
    };
    task.add_records("left", 0, [record(7, -1)])?;
    assert!(!task.process(0)?);
    assert_eq!(committable(&mut task)?, Some(8));
    task.add_records("left", 0, [record(8, 50), record(9, -1), record(10, 40)])?;
    while task.process(0)? {}
    let times = task.drain_produced().map(|record| record.timestamp_ms);
    assert!(times.eq([50, 40].map(Some)));
    let has = task.position().offsets;
    assert_eq!(has["left"], BTreeMap::from([(0, 10)]));
    assert_eq!(has["right"], BTreeMap::from([(0, 90)]));
    Ok(())
}

/// As when a topic is deleted.
#[test]
fn an_input_that_goes_leaves_the_others_their_turns() -> Result<(), Error> {
    let mut task = merging(-1)?;
    add(&mut task, "left", &[1, 4])?;
    add(&mut task, "right", &[2, 3])?;
    task.remove_input("left", 0);
    while task.process(0)? {}
    let times = task.drain_produced().map(|record| record.timestamp_ms);
    assert!(times.eq([2, 3].map(Some)));
    Ok(())
}

/// Each partition was committed with what was known then.
#[test]
fn a_task_goes_on_at_the_latest_that_was_committed() -> Result<(), Error> {
    let mut task = merging(-1)?;
    for (topic, time_ms) in [("left", 9), ("right", 4)] {
        let committed = CommitMetadata {
            partition_time_ms: time_ms,
            emitted_close_times_ms: BTreeMap::from([("store".to_owned(), time_ms)]),
        };
        task.resume(topic, 0, &committed);
    }
    assert_eq!(task.stream_time_ms(), 9);
    add(&mut task, "right", &[5])?;
    assert!(task.process(0)?);
    assert_eq!(task.stream_time_ms(), 9);
    let offsets = task.prepare_commit()?;
    assert_eq!(offsets.len(), 1);
    assert_eq!(offsets[0].partition_time_ms, 5);
    let emitted = BTreeMap::from([(Arc::from("store"), 9)]);
    assert_eq!(offsets[0].emitted_close_times_ms, emitted);
    Ok(())
}

/// All windows of a key go where the key goes.
#[test]
fn a_windowed_key_is_partitioned_by_its_key() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<String, String>("in").group_by_key();
    let windows = TimeWindows::of_size_with_no_grace(10);
    let counts = stream.windowed_by(windows).count();
    let keys = time_windowed(String::serde(), 10);
    let produced = Produced::with(keys, <Option<i64>>::serde());
    counts.to_stream().to_with("out", produced);
    let mut task = processed(builder, 0, &[7])?;
    let mut produced = task.drain_produced();
    let result = produced.find(|record| &*record.topic == "out");
    let result = result.ok_or("a result")?;
    assert_eq!(result.key.map(|key| key.len()), Some(1 + 8));
    let by_key = Partitioning::ByBytes(Bytes::from_static(b"7"));
    assert_eq!(result.partitioning, by_key);
    Ok(())
}

/// Fails whenever it is called by the clock.
struct Failing;

impl Processor<String, String, String, String> for Failing {
    fn init(&mut self, context: &mut ProcessorContext<'_, String, String>) -> Result<(), Failure> {
        context.schedule(1, PunctuationType::WallClockTime);
        Ok(())
    }

    fn process(
        &mut self,
        _: &mut ProcessorContext<'_, String, String>,
        _: Record<String, String>,
    ) -> Result<(), Failure> {
        Ok(())
    }

    fn punctuate(
        &mut self,
        _: &mut ProcessorContext<'_, String, String>,
        _: Schedule,
        _: i64,
    ) -> Result<(), Failure> {
        Err(Failure::of("it is late"))
    }
}

/// The record before has nothing to do with it.
#[test]
fn the_dead_letter_of_a_punctuation_has_no_key_and_no_value() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<String, String>("in");
    stream.process::<String, String, _>(|| Failing, &[]);
    let mut task = task_of(builder, -1)?;
    let letters = DeadLetterTopic(Some(Arc::from("letters")));
    task.context().handlers = Arc::new(Handlers::log_and_continue(letters));
    task.init(0)?;
    add(&mut task, "in", &[7])?;
    assert!(task.process(0)?);
    assert!(task.punctuate(PunctuationType::WallClockTime, 5)?);
    let letters: Vec<ProducedRecord> = task.drain_produced().collect();
    let [letter] = &letters[..] else {
        return Err("one letter".into());
    };
    assert_eq!((&letter.key, &letter.value), (&None, &None));
    assert_eq!(task.metrics().dropped_records, 1);
    Ok(())
}

/// Its disk is full.
struct Full;

impl Processor<String, String, String, String> for Full {
    fn process(
        &mut self,
        _: &mut ProcessorContext<'_, String, String>,
        _: Record<String, String>,
    ) -> Result<(), Failure> {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        Err(Failure::of(StoreFault::DiskFull(full).of(&Arc::from("s"))))
    }
}

/// Who follows an advice that does not help has two faults.
#[test]
fn who_fails_for_a_full_disk_is_not_told_to_go_on() -> Result<(), Error> {
    let builder = StreamsBuilder::new();
    let stream = builder.stream::<String, String>("in");
    stream.process::<String, String, _>(|| Full, &[]);
    let mut task = task_of(builder, -1)?;
    task.context().handlers = Arc::new(Handlers::log_and_continue(DeadLetterTopic::default()));
    task.init(0)?;
    add(&mut task, "in", &[7])?;
    let error = task.process(0).expect_err("the disk is full").to_string();
    assert!(error.contains("state store `s`"), "{error}");
    assert!(!error.contains("log_and_continue"), "{error}");
    Ok(())
}
