//! What a task does with stores of any kind, and how a topology makes them.

use super::bytes::Offsets;
use super::changelog_record::ChangelogRecord;
use super::storage::TaskStorage;
use crate::error::StreamsError;
use crate::processor::{TaskContext, TaskId};
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// What a task does with every store, whatever its types.
pub trait StateStore {
    /// Its name.
    fn name(&self) -> &Arc<str>;

    /// Whether its contents outlive the process.
    fn is_persistent(&self) -> bool;

    /// Takes records of its changelog, oldest first. What has expired is skipped.
    ///
    /// # Errors
    /// The store failed.
    fn restore(&mut self, records: &[ChangelogRecord]) -> Result<(), StreamsError>;

    /// Does a step of the work that `restore` has put off, and `commit` would do at once, if that is with more than so
    /// many bytes of records, or has begun. Whether no more than these are left.
    ///
    /// # Errors
    /// The store failed.
    fn settle(&mut self, most_bytes: u64) -> Result<bool, StreamsError>;

    /// With how many bytes of records that is. While there are any, who reads or commits waits for all of it, and who
    /// closes gives it up.
    fn unsettled_bytes(&self) -> u64;

    /// Gives on what its cache holds, and writes to the changelog what is written there at commits only. Before each
    /// commit, after the nodes were flushed.
    ///
    /// # Errors
    /// The store failed.
    fn flush(&mut self, context: &mut TaskContext) -> Result<(), StreamsError> {
        let _ = context;
        Ok(())
    }

    /// Notes offsets of the last records of changelogs that are in the store, or of the task's inputs if the store has
    /// no changelog. They are found again (`committed_offset`) by the next process that opens the store, and every row
    /// that was put before is there with them. No offsets forget all that were noted, and give the rows up: the store
    /// is not used any more, and whoever opens it next finds none in it.
    ///
    /// # Errors
    /// The store failed.
    fn commit(&mut self, offsets: &Offsets) -> Result<(), StreamsError>;

    /// The offset of the last record of a changelog's partition that is in the store, as it was noted last.
    ///
    /// # Errors
    /// The store failed.
    fn committed_offset(&self, topic: &str, partition: i32) -> Result<Option<i64>, StreamsError>;

    /// Whether it was not closed by the process that had it open before: rows after the committed offsets may be there.
    /// Under exactly-once its contents are then not to be used.
    fn was_left_open(&self) -> bool {
        false
    }

    /// Closes it in order: nothing is called after this. What was not flushed is given up.
    ///
    /// # Errors
    /// The store failed.
    fn close(&mut self) -> Result<(), StreamsError>;
}

/// What a changelog topic needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangelogConfig {
    /// The topic's configuration by the kind of store, `cleanup.policy` and so on.
    pub configs: BTreeMap<String, String>,
    /// What the application wants of this topic.
    pub overrides: BTreeMap<String, String>,
    /// How long rows are kept at least, if that is limited: `retention.ms` is as much and
    /// `windowstore.changelog.additional.retention.ms`, unless it is in `overrides`.
    pub retention_ms: Option<i64>,
}

impl ChangelogConfig {
    /// The topic's configuration where `windowstore.changelog.additional.retention.ms` is this, and the application
    /// wants these of all internal topics. What it wants of one counts more.
    pub fn topic_configs(
        &self,
        additional_retention_ms: i64,
        of_all_topics: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut configs = self.configs.clone();
        // Rows have the times of records, whatever the broker's default.
        configs.insert("message.timestamp.type".to_owned(), "CreateTime".to_owned());
        configs.extend(of_all_topics.clone());
        if let Some(retention_ms) = self.retention_ms {
            let retention_ms = retention_ms.saturating_add(additional_retention_ms);
            configs.insert("retention.ms".to_owned(), retention_ms.to_string());
        }
        configs.extend(self.overrides.clone());
        configs
    }
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
    /// What the stores of the task share.
    pub storage: TaskStorage,
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
