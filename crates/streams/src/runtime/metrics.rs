//! What an instance measures, under Kafka Streams' names. Stream threads count; whoever exports takes a snapshot, at
//! any time and from any thread.
//!
//! Tasks count in plain numbers of their own, without locks or clocks. A thread takes these over into what is shared
//! at most every [`INTERVAL_MS`], and notes the times of its phases once a round. Averages, maxima and rates are of
//! the last 30 to 60 s, as with Kafka's two samples of 30 s.

mod sensor;
mod snapshot;

pub use snapshot::{Metric, MetricName, MetricValue, StreamsMetrics};

use super::RecordingLevel;
use super::clock::has_passed;
use super::shared::Shared;
use super::{State, StreamsConfig};
use crate::processor::{NodeCount, TaskId, TaskMetrics};
use crate::state::{CacheLookups, Operation, StoreMeter, Timed};
use crate::topology::Topology;
use parking_lot::Mutex;
use sensor::Sensor;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a thread takes over what its tasks have counted.
const INTERVAL_MS: i64 = 100;

/// What the threads of an instance have measured.
pub(super) struct Registry {
    client_id: Arc<str>,
    topology: Arc<Topology>,
    config: Arc<StreamsConfig>,
    shared: Arc<Shared>,
    process_id: String,
    threads: Mutex<BTreeMap<usize, Arc<ThreadMetrics>>>,
}

impl Registry {
    /// Of an instance whose threads are still to be opened.
    pub(super) fn new(
        client_id: &Arc<str>,
        process_id: String,
        (topology, config, shared): (&Arc<Topology>, &Arc<StreamsConfig>, &Arc<Shared>),
    ) -> Self {
        Self {
            client_id: Arc::clone(client_id),
            topology: Arc::clone(topology),
            config: Arc::clone(config),
            shared: Arc::clone(shared),
            process_id,
            threads: Mutex::default(),
        }
    }

    /// What a thread that is about to be started writes to.
    pub(super) fn open_thread(&self, index: usize, name: &Arc<str>) -> Arc<ThreadMetrics> {
        let level = self.config.metrics_recording_level;
        let metrics = Arc::new(ThreadMetrics::new(Arc::clone(name), level));
        self.threads.lock().insert(index, Arc::clone(&metrics));
        metrics
    }

    /// A thread has ended, and the instance goes on: what it has measured goes with it.
    pub(super) fn close_thread(&self, index: usize) {
        self.threads.lock().remove(&index);
    }

    fn threads(&self) -> Vec<Arc<ThreadMetrics>> {
        self.threads.lock().values().cloned().collect()
    }
}

/// What a thread measures.
pub(super) struct ThreadMetrics {
    name: Arc<str>,
    level: RecordingLevel,
    figures: Mutex<ThreadFigures>,
    tasks: Mutex<BTreeMap<TaskId, TaskFigures>>,
}

/// What a thread has measured of its own.
#[derive(Clone, Default)]
struct ThreadFigures {
    start_ms: i64,
    /// Sums of ns of whole rounds.
    rounds: Sensor,
    poll: Phase,
    process: Phase,
    punctuate: Phase,
    commit: Phase,
    created: Sensor,
    closed: Sensor,
    blocked_ns: u64,
    /// When what the tasks have counted was taken over last.
    taken_at_ms: i64,
}

/// A part of a thread's rounds.
#[derive(Clone, Default)]
struct Phase {
    /// ns of each time, on average of what was done then.
    latency: Sensor,
    /// Sums of ns.
    time: Sensor,
    /// How many were done: each time, and altogether.
    count: Sensor,
}

impl Phase {
    /// So many were done within this time.
    fn record(&mut self, now_ms: i64, took: Duration, count: u64) {
        let ns = took.as_nanos() as f64;
        self.time.record(now_ms, ns);
        if count > 0 {
            self.latency.record(now_ms, ns / count as f64);
            self.count.record(now_ms, count as f64);
        }
    }
}

/// What a task has measured.
#[derive(Clone, Default)]
struct TaskFigures {
    /// As it was taken over last.
    counted: TaskMetrics,
    processed: Sensor,
    dropped: Sensor,
    enforced: Sensor,
    punctuated: Sensor,
    lateness: Sensor,
    buffered_count: usize,
    nodes: BTreeMap<Arc<str>, (u64, Sensor)>,
    stores: BTreeMap<Arc<str>, StoreFigures>,
}

/// What was measured of a store.
#[derive(Clone, Default)]
struct StoreFigures {
    scope: &'static str,
    /// Of each operation, what was taken over last, and the ns that it has taken.
    operations: [(Timed, Sensor); Operation::ALL.len()],
    /// What was taken over last, and how many of the rows that were looked for were there.
    cache: Option<(CacheLookups, Sensor)>,
}

impl StoreFigures {
    fn take_over(&mut self, meter: &StoreMeter, now_ms: i64) {
        self.scope = meter.scope;
        for operation in Operation::ALL {
            let (known, sensor) = &mut self.operations[operation as usize];
            let timed = meter.take(operation);
            let count = timed.count - known.count;
            if count > 0 {
                let sum_ns = (timed.sum_ns - known.sum_ns) as f64;
                sensor.record_several(now_ms, (count as f64, sum_ns), timed.max_ns as f64);
            }
            *known = timed;
        }
        if let Some(lookups) = meter.cache() {
            let (known, sensor) = self.cache.get_or_insert_default();
            let count = lookups.count - known.count;
            if count > 0 {
                let ratio = (lookups.hit_count - known.hit_count) as f64 / count as f64;
                sensor.record(now_ms, ratio);
            }
            *known = lookups;
        }
    }
}

/// The times of a round of a thread.
pub(super) struct Round {
    began: Instant,
    polled: (Duration, u64),
    processed: (Duration, u64),
    punctuated: (Duration, u64),
    committed: Option<(Duration, u64)>,
}

impl Round {
    pub(super) fn begin() -> Self {
        Self {
            began: Instant::now(),
            polled: (Duration::ZERO, 0),
            processed: (Duration::ZERO, 0),
            punctuated: (Duration::ZERO, 0),
            committed: None,
        }
    }

    /// The round has got so many records.
    pub(super) fn note_polled(&mut self, since: Instant, count: usize) {
        self.polled = (since.elapsed(), count as u64);
    }

    /// The round has processed so many records.
    pub(super) fn note_processed(&mut self, took: Duration, count: usize) {
        self.processed.0 += took;
        self.processed.1 += count as u64;
    }

    /// The round has called so many punctuators.
    pub(super) fn note_punctuated(&mut self, took: Duration, count: u64) {
        self.punctuated.0 += took;
        self.punctuated.1 += count;
    }

    /// The round has committed so many tasks.
    pub(super) fn note_committed(&mut self, since: Instant, count: usize) {
        self.committed = Some((since.elapsed(), count as u64));
    }
}

/// What a task tells of itself.
pub(super) struct Counted<'a> {
    pub(super) task_id: TaskId,
    pub(super) metrics: TaskMetrics,
    pub(super) buffered_count: usize,
    pub(super) nodes: &'a mut dyn Iterator<Item = NodeCount>,
    pub(super) stores: &'a [Rc<StoreMeter>],
}

#[cfg(test)]
impl Default for ThreadMetrics {
    fn default() -> Self {
        Self::new(Arc::from("thread"), RecordingLevel::Debug)
    }
}

impl ThreadMetrics {
    fn new(name: Arc<str>, level: RecordingLevel) -> Self {
        Self {
            name,
            level,
            figures: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    /// The thread begins.
    pub(super) fn note_start(&self, now_ms: i64) {
        self.figures.lock().start_ms = now_ms;
    }

    /// A round is over.
    pub(super) fn note_round(&self, round: &Round, now_ms: i64) {
        let mut figures = self.figures.lock();
        let whole = round.began.elapsed();
        figures.rounds.record(now_ms, whole.as_nanos() as f64);
        let (took, count) = round.polled;
        figures.poll.time.record(now_ms, took.as_nanos() as f64);
        figures.poll.latency.record(now_ms, took.as_nanos() as f64);
        figures.poll.count.record(now_ms, count as f64);
        let blocked_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        figures.blocked_ns = figures.blocked_ns.saturating_add(blocked_ns);
        figures
            .process
            .record(now_ms, round.processed.0, round.processed.1);
        figures
            .punctuate
            .record(now_ms, round.punctuated.0, round.punctuated.1);
        if let Some((took, count)) = round.committed {
            figures.commit.record(now_ms, took, count.max(1));
        }
    }

    /// Whether it is time to take over what tasks have counted.
    pub(super) fn is_due(&self, now_ms: i64) -> bool {
        let mut figures = self.figures.lock();
        let is_due = has_passed(INTERVAL_MS, figures.taken_at_ms, now_ms);
        if is_due {
            figures.taken_at_ms = now_ms;
        }
        is_due
    }

    /// Takes over what a task has counted.
    pub(super) fn take_over(&self, counted: Counted<'_>, now_ms: i64) {
        let mut tasks = self.tasks.lock();
        let task = tasks.entry(counted.task_id).or_default();
        let (before, after) = (task.counted, counted.metrics);
        let grown = |of: fn(&TaskMetrics) -> u64| of(&after).saturating_sub(of(&before)) as f64;
        task.counted = after;
        task.buffered_count = counted.buffered_count;
        let processed = grown(|task| task.processed_records);
        task.processed.record(now_ms, processed);
        task.dropped
            .record(now_ms, grown(|task| task.dropped_records));
        task.enforced
            .record(now_ms, grown(|task| task.enforced_processing_count));
        task.punctuated
            .record(now_ms, grown(|task| task.punctuated_count));
        if processed > 0.0 {
            let lateness_ms = grown(|task| task.lateness_sum_ms);
            task.lateness.record_several(
                now_ms,
                (processed, lateness_ms),
                after.lateness_max_ms as f64,
            );
        }
        if self.level != RecordingLevel::Debug {
            return;
        }
        for NodeCount { name, count } in counted.nodes {
            let (known, sensor) = task.nodes.entry(name).or_default();
            sensor.record(now_ms, count.saturating_sub(*known) as f64);
            *known = count;
        }
        for meter in counted.stores {
            let known = task.stores.entry(Arc::clone(&meter.store)).or_default();
            known.take_over(meter, now_ms);
        }
    }

    /// A task was made.
    pub(super) fn note_created(&self, now_ms: i64) {
        self.figures.lock().created.record(now_ms, 1.0);
    }

    /// A task is closed: what it has measured goes with it.
    pub(super) fn note_closed(&self, task_id: TaskId, now_ms: i64) {
        self.figures.lock().closed.record(now_ms, 1.0);
        self.tasks.lock().remove(&task_id);
    }

    /// What each task has measured, for who makes something of it: the thread waits for one task's numbers to be copied
    /// at most.
    fn each_task(&self) -> impl Iterator<Item = (TaskId, TaskFigures)> {
        let ids: Vec<TaskId> = self.tasks.lock().keys().copied().collect();
        ids.into_iter().filter_map(|task_id| {
            // It may have gone meanwhile.
            let figures = self.tasks.lock().get(&task_id).cloned()?;
            Some((task_id, figures))
        })
    }
}

/// The number that Kafka Streams' telemetry has for a state.
const fn code(state: State) -> i32 {
    match state {
        State::Created => 0,
        State::Rebalancing => 1,
        State::Running => 2,
        State::PendingShutdown => 3,
        State::NotRunning => 4,
        State::PendingError => 5,
        State::Error => 6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_measures_while_others_read() {
        let metrics = ThreadMetrics::default();
        let task = |partition| TaskId {
            subtopology: 0,
            partition,
        };
        let measure = |partition| {
            metrics.take_over(
                Counted {
                    task_id: task(partition),
                    metrics: TaskMetrics::default(),
                    buffered_count: 7,
                    nodes: &mut std::iter::empty(),
                    stores: &[],
                },
                1,
            );
        };
        for partition in 0..3 {
            measure(partition);
        }
        let mut read = Vec::new();
        for (task_id, figures) in metrics.each_task() {
            assert!(metrics.tasks.try_lock().is_some() && metrics.figures.try_lock().is_some());
            assert_eq!(figures.buffered_count, 7);
            measure(0);
            metrics.note_closed(task(1), 2);
            read.push(task_id);
        }
        assert_eq!(read, [task(0), task(2)]);
    }
}
