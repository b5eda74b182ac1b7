//! What an instance measures while it counts words.

use crate::harness::{
    Error, IN_TIME, TestBroker, await_state, await_values, config, create_topic, word_count,
    write_lines,
};
use riverrun_streams::runtime::{
    KafkaStreams, MetricValue, ProcessingGuarantee, RecordingLevel, State, StreamsMetrics,
};
use std::time::Instant;

const THREAD: &str = "stream-thread-metrics";
const TASK: &str = "stream-task-metrics";
const NODE: &str = "stream-processor-node-metrics";
const STORE: &str = "stream-state-metrics";

/// The sum of a metric over all its tags.
fn sum(metrics: &StreamsMetrics, group: &str, name: &str) -> f64 {
    let all = metrics.snapshot();
    let found = all
        .into_iter()
        .filter(|metric| metric.name.group == group && metric.name.name == name);
    found
        .map(|metric| match metric.value {
            MetricValue::Number(number) => number,
            MetricValue::Text(_) => f64::NAN,
        })
        .sum()
}

#[test]
#[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
fn an_instance_measures_what_it_does() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", 2)?;
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.metrics_recording_level = RecordingLevel::Debug;
    // No task goes to another thread, and what was measured of it with it.
    config.num_stream_threads = 1;
    let streams = KafkaStreams::new(word_count()?, config);
    assert!(streams.metrics().snapshot().is_empty());
    streams.start()?;
    write_lines(&broker, &["a b", "b c"])?;
    let counts = [("a", 1), ("b", 2), ("c", 1)];
    await_values(&broker, ("words-counts-changelog", 2), &counts)?;
    await_state(&streams, State::Running)?;
    let metrics = streams.metrics();
    // Two lines, and four words that were partitioned anew.
    let deadline = Instant::now() + IN_TIME;
    while sum(&metrics, TASK, "process-total") < 6.0 || sum(&metrics, THREAD, "commit-total") < 1.0
    {
        assert!(Instant::now() < deadline, "{:?}", metrics.snapshot());
        std::thread::yield_now();
    }
    assert_eq!(sum(&metrics, THREAD, "process-total"), 6.0);
    assert!(sum(&metrics, THREAD, "poll-total") > 0.0);
    assert!(sum(&metrics, THREAD, "process-rate") > 0.0);
    assert_eq!(sum(&metrics, TASK, "dropped-records-total"), 0.0);
    let tags = [("processor-node-id", "KSTREAM-FLATMAPVALUES-0000000001")];
    let of_node: f64 = metrics
        .snapshot()
        .iter()
        .filter(|metric| metric.name.group == NODE && metric.name.name == "process-total")
        .filter(|metric| metric.name.tags.get(tags[0].0).map(String::as_str) == Some(tags[0].1))
        .map(|metric| match metric.value {
            MetricValue::Number(number) => number,
            MetricValue::Text(_) => f64::NAN,
        })
        .sum();
    assert_eq!(of_node, 2.0);
    let counts = [("rocksdb-state-id", "counts")];
    assert!(metrics.number(STORE, "put-rate", &counts).is_some());
    assert!(sum(&metrics, STORE, "put-rate") > 0.0);
    let client = "stream-metrics";
    assert_eq!(
        metrics.number(client, "alive-stream-threads", &[]),
        Some(1.0)
    );
    let state = |metrics: &StreamsMetrics| {
        let all = metrics.snapshot();
        let found = all.into_iter().find(|metric| metric.name.name == "state");
        found.map(|metric| metric.value)
    };
    assert_eq!(
        state(&metrics),
        Some(MetricValue::Text("RUNNING".to_owned()))
    );
    streams.close()?;
    // The handle outlives the instance, and the tasks' metrics go with them.
    assert_eq!(
        state(&metrics),
        Some(MetricValue::Text("NOT_RUNNING".to_owned()))
    );
    assert_eq!(
        metrics.number(client, "alive-stream-threads", &[]),
        Some(0.0)
    );
    assert_eq!(metrics.number(TASK, "process-total", &[]), None);
    let closed = sum(&metrics, THREAD, "task-closed-total");
    assert_eq!(closed, sum(&metrics, THREAD, "task-created-total"));
    Ok(())
}
