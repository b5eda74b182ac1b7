//! Which record is next, and when a task waits for one (`max.task.idle.ms`).

use super::*;
use crate::dsl::StreamsBuilder;
use crate::state::{CacheBudget, TaskStorage};
use crate::topology::{Consumed, SourceTopics};
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
    let topology = builder.build()?;
    let application_id: Arc<str> = Arc::from("app");
    let task_id = TaskId {
        subtopology: 0,
        partition: 0,
    };
    let storage = TaskStorage::in_memory(CacheBudget::new(0));
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
