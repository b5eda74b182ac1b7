//! A task: the nodes and stores of a sub-topology for one partition of its input topics. Pure: who drives it brings
//! records and the time, and takes what the task writes and the offsets to commit.
//!
//! Invariants:
//! - Of the records that wait, the one with the smallest timestamp is next; of equal ones, the one that Kafka Streams
//!   takes (`NextInputs`). An input that has none is waited for as `max.task.idle.ms` says.
//! - Stream time and each partition's time never go back.
//! - What is committed of an input is the offset of the first record that is not processed, or behind the markers of
//!   transactions after the last one.

mod input;
mod next_inputs;
#[cfg(test)]
mod tests;

use crate::error::{Advice, Failure, FailureKind, StreamsError};
use crate::formats::commit_metadata::CommitMetadata;
use crate::formats::position::Position;
use crate::processor::{
    Handlers, NodeCount, NodeLife, ProducedRecord, PunctuationType, TaskContext, TaskId,
    TaskMetrics,
};
use crate::record::RecordContext;
use crate::state::{Offsets, StateStore, StoreMeter};
use crate::topology::{
    BuiltTask, RawRecord, SourceFactory, SourceTopics, TaskNode, TaskStores, whole_names,
};
pub(crate) use input::Input;
use next_inputs::NextInputs;
use regex_lite::Regex;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The nodes and stores of a sub-topology, and the records that wait for them.
pub struct Task {
    context: TaskContext,
    nodes: Vec<TaskNode>,
    inputs: Vec<Input>,
    /// What makes inputs of partitions that come later.
    sources: Vec<(Topics, SourceFactory)>,
    /// Those of the inputs that have a record.
    next_inputs: NextInputs,
    stores: BTreeMap<Arc<str>, Rc<RefCell<dyn StateStore>>>,
    typed_stores: TaskStores,
    meters: Vec<Rc<StoreMeter>>,
    /// Something was processed or punctuated since the last commit.
    commit_needed: bool,
    /// Negative when inputs without records are not waited for.
    max_task_idle_ms: i64,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("context", &self.context)
            .field("inputs", &self.inputs)
            .finish_non_exhaustive()
    }
}

/// The topics that a source reads.
enum Topics {
    Named(Vec<Arc<str>>),
    Matching(Regex),
}

impl Topics {
    fn have(&self, topic: &str) -> bool {
        match self {
            Self::Named(names) => names.iter().any(|name| **name == *topic),
            Self::Matching(pattern) => pattern.is_match(topic),
        }
    }
}

/// An input partition and what to commit of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittableOffset {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The first offset that is not processed.
    pub offset: i64,
    /// The largest timestamp that was taken of it; -1 when nothing was.
    pub partition_time_ms: i64,
    /// By the name of a store: windows that close until then have given their final results.
    pub emitted_close_times_ms: BTreeMap<Arc<str>, i64>,
}

impl Task {
    /// The task of `built`, which reads the partitions of `inputs`.
    pub(crate) fn new(
        task_id: TaskId,
        application_id: Arc<str>,
        handlers: Arc<Handlers>,
        built: BuiltTask,
        inputs: Vec<Input>,
    ) -> Self {
        let topics = |topics| match topics {
            SourceTopics::Named(names) => Some(Topics::Named(names)),
            // A pattern is looked at when its source is added to the topology.
            SourceTopics::Pattern(pattern) => whole_names(&pattern).ok().map(Topics::Matching),
        };
        let sources = built.sources.into_iter();
        let sources = sources
            .filter_map(|(read, source)| Some((topics(read)?, source)))
            .collect();
        Self {
            context: TaskContext::new(task_id, application_id, handlers),
            nodes: built.nodes,
            inputs,
            sources,
            next_inputs: NextInputs::default(),
            stores: built.stores,
            typed_stores: built.typed_stores,
            meters: built.meters,
            commit_needed: false,
            max_task_idle_ms: -1,
        }
    }

    /// Calls `init` of the processors.
    ///
    /// # Errors
    /// One of them failed.
    pub fn init(&mut self, now_ms: i64) -> Result<(), StreamsError> {
        self.context.wall_clock_ms = now_ms;
        // What a processor puts into a store, before the first record, is of this time.
        self.context.record = RecordContext::of_no_record(now_ms);
        self.each_node(|node, context| {
            // No handler is asked: records would come to a processor that has not begun.
            node.init(context).map_err(|failure| match failure.0 {
                FailureKind::Processing(source) => Failure::fatal(StreamsError::Processing {
                    place: context.place(),
                    source,
                    advice: Advice::None,
                }),
                FailureKind::Fatal(error) => Failure::fatal(error),
            })
        })
    }

    /// Adds records of one input partition, in the order of their offsets. Records of partitions that the task does
    /// not read are left out.
    ///
    /// # Errors
    /// One cannot be read, and the handler decided to fail.
    pub fn add_records(
        &mut self,
        topic: &str,
        partition: i32,
        records: impl IntoIterator<Item = RawRecord>,
    ) -> Result<(), StreamsError> {
        let Some(index) = self.add_input(topic, partition) else {
            return Ok(());
        };
        let input = &mut self.inputs[index];
        let had_record = input.head_timestamp_ms().is_some();
        self.commit_needed |= input.add(&mut self.context, records)?;
        if !had_record {
            self.wait(index);
        }
        Ok(())
    }

    /// The index of the input of a partition, which is made if a source reads its topic: it may match a pattern, or
    /// have more partitions than it had.
    pub(crate) fn add_input(&mut self, topic: &str, partition: i32) -> Option<usize> {
        let mut inputs = self.inputs.iter();
        if let Some(index) = inputs.position(|input| input.is(topic, partition)) {
            return Some(index);
        }
        // A partition of another task has no records for this one, which would wait for them without end.
        if partition != self.context.task_id.partition {
            return None;
        }
        let mut sources = self.sources.iter();
        let (_, source) = sources.find(|(topics, _)| topics.have(topic))?;
        self.inputs
            .push(Input::new(Arc::from(topic), partition, source()));
        Some(self.inputs.len() - 1)
    }

    /// The partition is read no more. What waits of it is given up.
    pub(crate) fn remove_input(&mut self, topic: &str, partition: i32) {
        self.inputs.retain(|input| !input.is(topic, partition));
        self.next_inputs = NextInputs::default();
        for index in 0..self.inputs.len() {
            if self.inputs[index].head_timestamp_ms().is_some() {
                self.wait(index);
            }
        }
    }

    /// The partition was committed with this: its time and the task's stream time do not go back behind it, and what
    /// windows have given is not given again.
    pub(crate) fn resume(&mut self, topic: &str, partition: i32, committed: &CommitMetadata) {
        let Some(index) = self.add_input(topic, partition) else {
            return;
        };
        let input = &mut self.inputs[index];
        let time_ms = committed.partition_time_ms;
        input.resume(time_ms);
        self.context.stream_time_ms = self.context.stream_time_ms.max(time_ms);
        // Each partition was committed with what was known then.
        for (store, emitted_ms) in &committed.emitted_close_times_ms {
            self.context
                .emitted_close_times_ms
                .entry(Arc::from(store.as_str()))
                .and_modify(|known_ms| *known_ms = (*known_ms).max(*emitted_ms))
                .or_insert(*emitted_ms);
        }
    }

    /// What is before this offset of an input was processed by a task before.
    pub(crate) fn resume_at(&mut self, topic: &str, partition: i32, offset: i64) {
        if let Some(index) = self.add_input(topic, partition) {
            self.inputs[index].resume_at(offset);
        }
    }

    /// What the task has processed of its inputs.
    pub(crate) fn position(&self) -> Position {
        let mut position = Position::default();
        for (topic, partition, offset) in self.inputs.iter().filter_map(Input::processed_offset) {
            let of_topic = position.offsets.entry(topic.to_string()).or_default();
            of_topic.insert(partition, offset);
        }
        position
    }

    /// `max.task.idle.ms`: how long to wait for an input that has no records.
    pub(crate) const fn set_max_task_idle_ms(&mut self, max_task_idle_ms: i64) {
        self.max_task_idle_ms = max_task_idle_ms;
    }

    /// What the broker has of each input that was not handed over yet, as far as that is known.
    pub(crate) fn update_lags(&mut self, lag: impl Fn(&Arc<str>, i32) -> Option<i64>) {
        if self.inputs.len() < 2 || self.max_task_idle_ms < 0 {
            return;
        }
        for input in &mut self.inputs {
            let (topic, partition, _) = input.waiting();
            if let Some(lag) = lag(topic, partition) {
                input.set_lag(lag);
            }
        }
    }

    /// Where the next record of each input is to be read, once all before were added.
    pub(crate) fn pass(&mut self, position: impl Fn(&Arc<str>, i32) -> Option<i64>) {
        for input in &mut self.inputs {
            let (topic, partition, waiting) = input.waiting();
            if waiting == 0
                && let Some(position) = position(topic, partition)
            {
                self.commit_needed |= input.pass(position);
            }
        }
    }

    /// Whether the record with the smallest timestamp is known (KIP-695): every input has one, or has none at the
    /// broker either, for `max.task.idle.ms` or longer.
    fn is_ready(&mut self, now_ms: i64) -> bool {
        if self.max_task_idle_ms < 0 || self.inputs.len() < 2 {
            return true;
        }
        let idle_ms = self.max_task_idle_ms;
        // Each input's timer is started, whatever the others say.
        let waited_for = self
            .inputs
            .iter_mut()
            .filter_map(|input| input.is_waited_for(now_ms, idle_ms).then_some(()));
        if waited_for.count() > 0 {
            return false;
        }
        let has_record = |input: &Input| input.head_timestamp_ms().is_some();
        if self.inputs.iter().any(has_record) && !self.inputs.iter().all(has_record) {
            self.context.metrics.enforced_processing_count += 1;
        }
        true
    }

    /// Topic and partition of each input, and how many of its records wait.
    pub(crate) fn waiting_by_input(&self) -> impl Iterator<Item = (&Arc<str>, i32, usize)> {
        self.inputs.iter().map(Input::waiting)
    }

    /// Those of `offsets` that are of the task's inputs.
    pub(crate) fn offsets_of_inputs(&self, offsets: &Offsets) -> Offsets {
        let names = self.inputs.iter().map(Input::waiting);
        let names = names.map(|(topic, partition, _)| (Arc::clone(topic), partition));
        names
            .filter_map(|name| offsets.get(&name).map(|offset| (name, *offset)))
            .collect()
    }

    /// How many records wait.
    pub fn waiting_records(&self) -> usize {
        self.inputs.iter().map(Input::len).sum()
    }

    /// Processes the next record; false when none waits, or one that may be earlier is still to come.
    ///
    /// # Errors
    /// A handler decided to fail, or a store failed.
    pub fn process(&mut self, now_ms: i64) -> Result<bool, StreamsError> {
        self.context.wall_clock_ms = now_ms;
        if !self.is_ready(now_ms) {
            return Ok(false);
        }
        let next = self
            .next_inputs
            .poll(|input| self.inputs[input].head_timestamp_ms());
        let Some(index) = next else {
            return Ok(false);
        };
        let input = &mut self.inputs[index];
        let timestamp_ms = input.head_timestamp_ms().unwrap_or(-1);
        self.context.stream_time_ms = self.context.stream_time_ms.max(timestamp_ms);
        let late_ms = self.context.stream_time_ms.saturating_sub(timestamp_ms);
        let metrics = &mut self.context.metrics;
        metrics.processed_records += 1;
        metrics.lateness_sum_ms = metrics
            .lateness_sum_ms
            .saturating_add(late_ms.unsigned_abs());
        metrics.lateness_max_ms = metrics.lateness_max_ms.max(late_ms.unsigned_abs());
        self.commit_needed = true;
        let processed = input.process(&mut self.context);
        self.wait(index);
        processed.map_err(fatal).map(|()| true)
    }

    /// If the input has a record, that waits for its turn.
    fn wait(&mut self, index: usize) {
        if self.inputs[index].head_timestamp_ms().is_some() {
            let inputs = &self.inputs;
            self.next_inputs
                .add(index, |input| inputs[input].head_timestamp_ms());
        }
    }

    /// Calls the nodes whose time has come.
    ///
    /// # Errors
    /// The processing handler decided to fail.
    pub fn punctuate(&mut self, kind: PunctuationType, now_ms: i64) -> Result<bool, StreamsError> {
        self.context.wall_clock_ms = now_ms;
        let time_ms = match kind {
            PunctuationType::StreamTime => self.context.stream_time_ms,
            PunctuationType::WallClockTime => now_ms,
        };
        if kind == PunctuationType::StreamTime && time_ms < 0 {
            return Ok(false);
        }
        let mut punctuated = false;
        while let Some((index, schedule)) = self.context.schedules.poll_due(kind, time_ms) {
            punctuated = true;
            self.context.metrics.punctuated_count += 1;
            self.commit_needed = true;
            let node = self.nodes.iter().find(|node| node.index == index);
            let Some(TaskNode {
                name,
                life: Some(node),
                ..
            }) = node
            else {
                continue;
            };
            let (name, node) = (Arc::clone(name), Rc::clone(node));
            let enclosing_record = std::mem::replace(
                &mut self.context.record,
                RecordContext::of_no_record(time_ms),
            );
            self.context.raw_record = (None, None);
            let enclosing = self
                .context
                .enter(&name, time_ms, &crate::headers::Headers::EMPTY);
            let called = node
                .borrow_mut()
                .punctuate(&mut self.context, schedule, time_ms);
            let called = self.context.handled(called).map_err(fatal);
            self.context.leave(enclosing);
            self.context.record = enclosing_record;
            called?;
        }
        Ok(punctuated)
    }

    /// Forwards what the caches hold, and tells what to commit; empty when nothing happened since the last commit.
    ///
    /// # Errors
    /// A node or a store failed.
    pub fn prepare_commit(&mut self) -> Result<Vec<CommittableOffset>, StreamsError> {
        self.context.commit_requested = false;
        if !self.commit_needed {
            return Ok(Vec::new());
        }
        self.each_node(|node, context| node.flush(context))?;
        // Those that no node of the library owns: what their caches give on, nobody forwards.
        for store in self.stores.values() {
            store.borrow_mut().flush(&mut self.context)?;
        }
        let emitted = &self.context.emitted_close_times_ms;
        Ok(self
            .inputs
            .iter()
            .filter_map(|input| input.committable(emitted))
            .collect())
    }

    /// What was to commit is committed.
    pub const fn post_commit(&mut self) {
        self.commit_needed = false;
    }

    /// Whether there is something to commit.
    pub const fn is_commit_needed(&self) -> bool {
        self.commit_needed
    }

    /// Whether a node has asked for a commit.
    pub const fn is_commit_requested(&self) -> bool {
        self.context.commit_requested
    }

    /// The topics of which it is to be known how many partitions they have before `drain_produced`.
    pub(crate) fn undecided_topics(&self) -> BTreeSet<Arc<str>> {
        self.context.collector.undecided_topics()
    }

    /// Chooses partitions of what the task writes to these topics.
    pub(crate) fn decide_partitions(&mut self, count_of: impl Fn(&Arc<str>) -> i32) {
        for _ in 0..self.context.collector.decide(count_of) {
            self.context.drop_record();
        }
    }

    /// Takes what the task writes, oldest first.
    pub fn drain_produced(&mut self) -> std::vec::Drain<'_, ProducedRecord> {
        self.context.collector.drain()
    }

    /// What the task has counted.
    pub const fn metrics(&self) -> TaskMetrics {
        self.context.metrics
    }

    /// As `metrics`; the greatest lateness begins anew.
    pub(crate) fn take_metrics(&mut self) -> TaskMetrics {
        let metrics = self.context.metrics;
        self.context.metrics.lateness_max_ms = 0;
        metrics
    }

    /// How many records its nodes were given, those that are no sources.
    pub(crate) fn node_counts(&self) -> impl Iterator<Item = NodeCount> {
        let nodes = self.nodes.iter().filter(|node| node.life.is_some());
        nodes.map(|node| NodeCount {
            name: Arc::clone(&node.name),
            count: node.count.get(),
        })
    }

    /// What is measured of its stores, where that is wanted.
    pub(crate) fn meters(&self) -> &[Rc<StoreMeter>] {
        &self.meters
    }

    /// Whether nodes want to be called.
    pub(crate) const fn has_schedules(&self) -> bool {
        !self.context.schedules.is_empty()
    }

    /// Which task this is.
    pub const fn id(&self) -> TaskId {
        self.context.task_id
    }

    /// The largest timestamp of the records taken; -1 before the first.
    pub const fn stream_time_ms(&self) -> i64 {
        self.context.stream_time_ms
    }

    /// The stores by name.
    pub fn stores(&self) -> &BTreeMap<Arc<str>, Rc<RefCell<dyn StateStore>>> {
        &self.stores
    }

    /// The stores by the types that nodes ask for.
    pub fn typed_stores(&self) -> &TaskStores {
        &self.typed_stores
    }

    /// What nodes and stores share.
    pub fn context(&mut self) -> &mut TaskContext {
        &mut self.context
    }

    /// Closes the processors, then the stores.
    ///
    /// # Errors
    /// A store failed; the others are closed.
    pub fn close(&mut self) -> Result<(), StreamsError> {
        self.close_processors();
        self.close_stores()
    }

    /// Closes the processors: nothing is processed any more. The stores stay as they are.
    pub fn close_processors(&mut self) {
        for node in self.nodes.iter().filter_map(|node| node.life.as_ref()) {
            node.borrow_mut().close();
        }
    }

    /// Closes the stores, of a task whose processors have not begun.
    ///
    /// # Errors
    /// As `close`.
    pub fn close_stores(&mut self) -> Result<(), StreamsError> {
        self.stores
            .values()
            .map(|store| store.borrow_mut().close())
            .fold(Ok(()), Result::and)
    }

    fn each_node(
        &mut self,
        mut call: impl FnMut(&mut dyn NodeLife, &mut TaskContext) -> Result<(), Failure>,
    ) -> Result<(), StreamsError> {
        for TaskNode { name, life, .. } in &self.nodes {
            let Some(node) = life else { continue };
            let timestamp_ms = self.context.record.timestamp_ms;
            let enclosing = self
                .context
                .enter(name, timestamp_ms, &crate::headers::Headers::EMPTY);
            let called = call(&mut *node.borrow_mut(), &mut self.context);
            let called = self.context.handled(called).map_err(fatal);
            self.context.leave(enclosing);
            called?;
        }
        Ok(())
    }
}

/// The error that ends the task. Links have asked the handlers about everything else.
fn fatal(failure: Failure) -> StreamsError {
    match failure.0 {
        FailureKind::Fatal(error) => error,
        FailureKind::Processing(error) => StreamsError::Other(error.to_string()),
    }
}
