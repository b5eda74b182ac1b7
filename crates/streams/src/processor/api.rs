//! The Processor API: nodes that an application writes.

use super::{Node, NodeLife, Outputs, PunctuationType, Schedule, TaskContext, TaskId, TaskStores};
use crate::error::Failure;
use crate::record::{Data, Record, RecordContext};
use std::cell::{RefCell, RefMut};
use std::rc::Rc;
use std::sync::Arc;

/// A node of an application. Each task has one of its own, so it may keep state without locks.
///
/// ```
/// use riverrun_streams::Failure;
/// use riverrun_streams::processor::{Processor, ProcessorContext};
/// use riverrun_streams::record::Record;
///
/// /// Forwards every second record.
/// #[derive(Default)]
/// struct Halve {
///     seen: u64,
/// }
///
/// impl Processor<String, i64, String, i64> for Halve {
///     fn process(
///         &mut self,
///         context: &mut ProcessorContext<'_, String, i64>,
///         record: Record<String, i64>,
///     ) -> Result<(), Failure> {
///         self.seen += 1;
///         match self.seen % 2 {
///             0 => context.forward(record),
///             _ => Ok(()),
///         }
///     }
/// }
/// ```
pub trait Processor<KIn, VIn, KOut, VOut> {
    /// Called once, before the first record: the place to take stores and to ask for punctuation.
    ///
    /// # Errors
    /// The task fails.
    fn init(&mut self, context: &mut ProcessorContext<'_, KOut, VOut>) -> Result<(), Failure> {
        let _ = context;
        Ok(())
    }

    /// Takes a record.
    ///
    /// # Errors
    /// The processing handler decides whether the task goes on.
    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, KOut, VOut>,
        record: Record<KIn, VIn>,
    ) -> Result<(), Failure>;

    /// The time has come that `schedule` asked for; `timestamp_ms` is the time now.
    ///
    /// # Errors
    /// The processing handler decides whether the task goes on.
    fn punctuate(
        &mut self,
        context: &mut ProcessorContext<'_, KOut, VOut>,
        schedule: Schedule,
        timestamp_ms: i64,
    ) -> Result<(), Failure> {
        let _ = (context, schedule, timestamp_ms);
        Ok(())
    }

    /// Called once, after the last record.
    fn close(&mut self) {}
}

/// What a processor can do while it is called.
#[derive(Debug)]
pub struct ProcessorContext<'a, K, V> {
    task: &'a mut TaskContext,
    outputs: &'a Outputs<K, V>,
    stores: &'a TaskStores,
    node: (usize, &'a Arc<str>),
}

impl<'a, K, V> ProcessorContext<'a, K, V> {
    /// The context of a call of the node of this index and name.
    pub(crate) const fn new(
        task: &'a mut TaskContext,
        outputs: &'a Outputs<K, V>,
        stores: &'a TaskStores,
        node: (usize, &'a Arc<str>),
    ) -> Self {
        Self {
            task,
            outputs,
            stores,
            node,
        }
    }
}

impl<K: Data, V: Data> ProcessorContext<'_, K, V> {
    /// Gives `record` to each child.
    ///
    /// # Errors
    /// A failure of a child that the processing handler has not let pass; return it.
    pub fn forward(&mut self, record: Record<K, V>) -> Result<(), Failure> {
        self.outputs.forward(self.task, record)
    }

    /// Gives `record` to the child of this name.
    ///
    /// # Errors
    /// As `forward`, or there is no such child.
    pub fn forward_to(&mut self, child: &str, record: Record<K, V>) -> Result<(), Failure> {
        self.outputs.forward_to(self.task, child, record)
    }

    /// The state store of this name, which the node is connected to.
    ///
    /// # Errors
    /// The node is not connected to it, or it is of another type.
    pub fn store<S: 'static>(&self, name: &str) -> Result<StoreHandle<S>, Failure> {
        let store = self.stores.asked(self.node.1, name);
        store.map(StoreHandle).map_err(Failure::fatal)
    }

    /// Calls `punctuate` every `interval_ms`. By stream time the first call comes with the first record; by the clock
    /// after one interval.
    pub fn schedule(&mut self, interval_ms: i64, kind: PunctuationType) -> Schedule {
        let first_ms = match kind {
            PunctuationType::StreamTime => 0,
            PunctuationType::WallClockTime => self.task.wall_clock_ms.saturating_add(interval_ms),
        };
        self.add_schedule(kind, interval_ms, first_ms)
    }

    /// Calls `punctuate` at `start_ms` and every `interval_ms` after it; if that has passed, first at the next of
    /// these times after now (KIP-1146).
    pub fn schedule_from(
        &mut self,
        start_ms: i64,
        interval_ms: i64,
        kind: PunctuationType,
    ) -> Schedule {
        let now_ms = match kind {
            PunctuationType::StreamTime => self.task.stream_time_ms,
            PunctuationType::WallClockTime => self.task.wall_clock_ms,
        };
        let interval_ms = interval_ms.max(1);
        let first_ms = match now_ms > start_ms {
            true => {
                let on_grid = now_ms.rem_euclid(interval_ms) - start_ms.rem_euclid(interval_ms);
                now_ms.saturating_add(interval_ms - on_grid.rem_euclid(interval_ms))
            }
            false => start_ms,
        };
        self.add_schedule(kind, interval_ms, first_ms)
    }

    fn add_schedule(&mut self, kind: PunctuationType, interval_ms: i64, first_ms: i64) -> Schedule {
        self.task.schedules.node = self.node.0;
        self.task.schedules.add(kind, interval_ms.max(1), first_ms)
    }

    /// Ends the calls of `schedule`.
    pub fn cancel(&mut self, schedule: Schedule) {
        self.task.schedules.cancel(schedule);
    }

    /// Asks for a commit soon.
    pub fn commit(&mut self) {
        self.task.commit_requested = true;
    }

    /// The task.
    pub fn task_id(&self) -> TaskId {
        self.task.task_id
    }

    /// `application.id`.
    pub fn application_id(&self) -> &str {
        &self.task.application_id
    }

    /// The record of an input topic that causes this call; none in a punctuation.
    pub fn record_metadata(&self) -> Option<&RecordContext> {
        (!self.task.record.topic.is_empty()).then_some(&self.task.record)
    }

    /// The largest timestamp of the records that the task has taken; -1 before the first.
    pub fn current_stream_time_ms(&self) -> i64 {
        self.task.stream_time_ms
    }

    /// The clock.
    pub fn current_system_time_ms(&self) -> i64 {
        self.task.wall_clock_ms
    }

    /// What stores need for writing.
    pub fn task(&mut self) -> &mut TaskContext {
        self.task
    }
}

/// A state store that a node is connected to.
#[derive(Debug)]
pub struct StoreHandle<S>(Rc<RefCell<S>>);

impl<S> Clone for StoreHandle<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S> StoreHandle<S> {
    pub(crate) const fn new(store: Rc<RefCell<S>>) -> Self {
        Self(store)
    }

    /// The store, until the guard is dropped. Drop it before you forward: a child may use the same store.
    pub fn borrow(&self) -> RefMut<'_, S> {
        self.0.borrow_mut()
    }
}

/// A processor of an application among the nodes of a task.
pub(crate) struct ProcessorNode<P, K, V> {
    pub(crate) processor: P,
    pub(crate) outputs: Outputs<K, V>,
    pub(crate) stores: TaskStores,
    pub(crate) index: usize,
    pub(crate) name: Arc<str>,
}

impl<P, K: Data, V: Data> ProcessorNode<P, K, V> {
    fn call(
        &mut self,
        task: &mut TaskContext,
        call: impl FnOnce(&mut P, &mut ProcessorContext<'_, K, V>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let node = (self.index, &self.name);
        let mut context = ProcessorContext::new(task, &self.outputs, &self.stores, node);
        call(&mut self.processor, &mut context)
    }
}

/// `ProcessorNode` for processors of any types: `In` says which ones.
pub(crate) struct TypedProcessorNode<P, KIn, VIn, K, V> {
    pub(crate) node: ProcessorNode<P, K, V>,
    pub(crate) takes: std::marker::PhantomData<fn(KIn, VIn)>,
}

impl<P, KIn, VIn, K: Data, V: Data> NodeLife for TypedProcessorNode<P, KIn, VIn, K, V>
where
    P: Processor<KIn, VIn, K, V>,
{
    fn init(&mut self, task: &mut TaskContext) -> Result<(), Failure> {
        self.node
            .call(task, |processor, context| processor.init(context))
    }

    fn punctuate(
        &mut self,
        task: &mut TaskContext,
        schedule: Schedule,
        timestamp_ms: i64,
    ) -> Result<(), Failure> {
        self.node.call(task, |processor, context| {
            processor.punctuate(context, schedule, timestamp_ms)
        })
    }

    fn close(&mut self) {
        self.node.processor.close();
    }
}

impl<P, KIn, VIn, K: Data, V: Data> Node<KIn, VIn> for TypedProcessorNode<P, KIn, VIn, K, V>
where
    P: Processor<KIn, VIn, K, V>,
{
    fn process(&mut self, task: &mut TaskContext, record: Record<KIn, VIn>) -> Result<(), Failure> {
        self.node.call(task, |processor, context| {
            processor.process(context, record)
        })
    }
}
