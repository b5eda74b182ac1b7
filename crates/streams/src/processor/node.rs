//! A node that records flow through, and the typed links to its children.

use super::TaskContext;
use crate::error::Failure;
use crate::record::{Data, Record};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// What a task does with every node, whatever its types.
pub(crate) trait NodeLife {
    /// Called once, before the first record.
    fn init(&mut self, _context: &mut TaskContext) -> Result<(), Failure> {
        Ok(())
    }

    /// Forwards what the caches of the node's stores hold: a commit is near.
    fn flush(&mut self, _context: &mut TaskContext) -> Result<(), Failure> {
        Ok(())
    }

    /// A time that the node has asked for has come.
    fn punctuate(
        &mut self,
        _context: &mut TaskContext,
        _schedule: super::Schedule,
        _timestamp_ms: i64,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// Called once, after the last record.
    fn close(&mut self) {}
}

/// A node of one task. Nodes form a graph without circles, so no node is called while it runs.
pub(crate) trait Node<K, V>: NodeLife {
    fn process(&mut self, context: &mut TaskContext, record: Record<K, V>) -> Result<(), Failure>;
}

/// The way to a child of a node.
pub(crate) struct Link<K, V> {
    name: Arc<str>,
    count: Rc<Cell<u64>>,
    node: Rc<RefCell<dyn Node<K, V>>>,
}

impl<K, V> Clone for Link<K, V> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            count: Rc::clone(&self.count),
            node: Rc::clone(&self.node),
        }
    }
}

impl<K, V> Link<K, V> {
    /// Gives `record` to the child. What the child cannot process is asked of the processing handler here, so that it
    /// is the innermost node which reports it, and only this branch's record that is dropped.
    fn process(&self, context: &mut TaskContext, record: Record<K, V>) -> Result<(), Failure> {
        self.count.set(self.count.get() + 1);
        let enclosing = context.enter(&self.name, record.timestamp_ms, &record.headers);
        let processed = self.node.borrow_mut().process(context, record);
        let processed = context.handled(processed);
        context.leave(enclosing);
        processed
    }
}

/// The children of a node, for records with keys of `K` and values of `V`.
pub struct Outputs<K, V> {
    links: Box<[Link<K, V>]>,
}

impl<K, V> fmt::Debug for Outputs<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.links.iter().map(|link| &link.name))
            .finish()
    }
}

impl<K: Data, V: Data> Outputs<K, V> {
    pub(crate) fn new(links: Vec<Link<K, V>>) -> Self {
        Self {
            links: links.into_boxed_slice(),
        }
    }

    /// Gives `record` to each child, in the order in which they were added.
    ///
    /// # Errors
    /// A failure that the processing handler has not let pass.
    pub fn forward(&self, context: &mut TaskContext, record: Record<K, V>) -> Result<(), Failure> {
        let Some((last, others)) = self.links.split_last() else {
            return Ok(());
        };
        for link in others {
            link.process(context, record.clone())?;
        }
        last.process(context, record)
    }

    /// Gives `record` to the child of this name.
    ///
    /// # Errors
    /// There is no such child, or a failure that the processing handler has not let pass.
    pub fn forward_to(
        &self,
        context: &mut TaskContext,
        child: &str,
        record: Record<K, V>,
    ) -> Result<(), Failure> {
        let link = self
            .links
            .iter()
            .find(|link| &*link.name == child)
            .ok_or_else(|| Failure::of(format!("the node has no child `{child}`")))?;
        link.process(context, record)
    }

    /// Gives `record` to the child of this number, in the order in which they were added.
    pub(crate) fn forward_to_index(
        &self,
        context: &mut TaskContext,
        index: usize,
        record: Record<K, V>,
    ) -> Result<(), Failure> {
        match self.links.get(index) {
            Some(link) => link.process(context, record),
            None => Ok(()),
        }
    }

    /// Whether nobody listens.
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }
}

/// A node that was made for a task.
pub(crate) struct BuiltNode {
    /// A `Link<K, V>` to it, of the types that it takes.
    pub(crate) link: Box<dyn Any>,
    pub(crate) life: Rc<RefCell<dyn NodeLife>>,
    /// How many records it was given.
    pub(crate) count: Rc<Cell<u64>>,
}

/// How many records a node was given.
pub(crate) struct NodeCount {
    pub(crate) name: Arc<str>,
    pub(crate) count: u64,
}

impl BuiltNode {
    pub(crate) fn new<K: Data, V: Data>(name: &Arc<str>, node: impl Node<K, V> + 'static) -> Self {
        let node = Rc::new(RefCell::new(node));
        let count: Rc<Cell<u64>> = Rc::default();
        Self {
            link: Box::new(Link::<K, V> {
                name: Arc::clone(name),
                count: Rc::clone(&count),
                node: Rc::<RefCell<_>>::clone(&node) as Rc<RefCell<dyn Node<K, V>>>,
            }),
            life: node,
            count,
        }
    }
}

/// A node without a life of its own: what it does with a record and its children.
pub(crate) struct FnNode<F, K, V> {
    pub(crate) process: F,
    pub(crate) outputs: Outputs<K, V>,
}

impl<F, K, V> NodeLife for FnNode<F, K, V> {}

impl<F, KIn, VIn, K, V> Node<KIn, VIn> for FnNode<F, K, V>
where
    F: FnMut(&mut TaskContext, Record<KIn, VIn>, &Outputs<K, V>) -> Result<(), Failure>,
{
    fn process(
        &mut self,
        context: &mut TaskContext,
        record: Record<KIn, VIn>,
    ) -> Result<(), Failure> {
        (self.process)(context, record, &self.outputs)
    }
}
