//! State stores.

use crate::error::StreamsError;
use crate::headers::Headers;
use crate::processor::TaskId;
use crate::record::{Change, RecordContext};
use bytes::Bytes;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// A record of a changelog, as it is restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangelogRecord {
    /// The key.
    pub key: Bytes,
    /// The value; the key was deleted when there is none.
    pub value: Option<Bytes>,
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The headers.
    pub headers: Headers,
    /// Its offset.
    pub offset: i64,
}

/// What a task does with every store, whatever its types.
pub trait StateStore {
    /// Its name.
    fn name(&self) -> &Arc<str>;

    /// Whether its contents outlive the process.
    fn is_persistent(&self) -> bool;

    /// Takes records of its changelog, oldest first.
    ///
    /// # Errors
    /// The store failed.
    fn restore(&mut self, records: &[ChangelogRecord]) -> Result<(), StreamsError>;

    /// Notes that everything up to this offset of its changelog, itself not included, is in the store.
    ///
    /// # Errors
    /// The store failed.
    fn commit(&mut self, changelog_offset: Option<i64>) -> Result<(), StreamsError>;

    /// The offset noted last, by this process or one before it.
    fn committed_offset(&self) -> Option<i64>;

    /// Closes it: nothing is called after this.
    ///
    /// # Errors
    /// The store failed.
    fn close(&mut self) -> Result<(), StreamsError>;
}

/// What a changelog topic needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangelogConfig {
    /// The topic's configuration, `cleanup.policy` and so on.
    pub configs: BTreeMap<String, String>,
}

/// Where a store is made.
#[derive(Debug, Clone)]
pub struct StoreBuilding {
    /// The task that it belongs to.
    pub task_id: TaskId,
    /// `application.id`.
    pub application_id: Arc<str>,
    /// Full name of the topic and the partition that it logs its changes to, if it does.
    pub changelog: Option<(Arc<str>, i32)>,
    /// The task's directory, for stores on disk.
    pub directory: Option<PathBuf>,
}

/// A store that was made for a task.
pub struct BuiltStore {
    /// An `Rc<RefCell<S>>` of the type that nodes ask for.
    pub typed: Rc<dyn Any>,
    /// The same store, for the task.
    pub store: Rc<RefCell<dyn StateStore>>,
}

impl BuiltStore {
    /// A store for nodes that ask for an `S`.
    pub fn new<S: StateStore + 'static>(store: S) -> Self {
        let store = Rc::new(RefCell::new(store));
        Self {
            typed: Rc::new(Rc::clone(&store)),
            store,
        }
    }
}

impl fmt::Debug for BuiltStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuiltStore").finish_non_exhaustive()
    }
}

/// Makes a store for each task.
pub trait StoreBuilder: Send + Sync {
    /// The store's name.
    fn name(&self) -> &Arc<str>;

    /// What its changelog needs; none when it logs no changes.
    fn changelog(&self) -> Option<ChangelogConfig>;

    /// Makes it.
    ///
    /// # Errors
    /// Why it cannot be opened.
    fn build(&self, building: &StoreBuilding) -> Result<BuiltStore, StreamsError>;
}

/// What who forwards wants of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding {
    /// Nothing: what is given on goes to the store below, and nobody takes it.
    Nothing,
    /// The new values.
    NewValues,
    /// The new values, and what the store had before.
    OldAndNewValues,
}

/// A change that a cache has given on, for the node that owns the store to forward.
#[derive(Debug, Clone)]
pub struct Flushed<K, V> {
    /// The key.
    pub key: K,
    /// The values; the old one only if it was asked for.
    pub change: Change<V>,
    /// The time of the change: that of the value if the store knows it, else that of the record.
    pub timestamp_ms: i64,
    /// The record that made the change.
    pub context: RecordContext,
}
