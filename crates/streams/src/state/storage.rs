//! What the stores of a task share: a database on disk, and the budget of their caches.

use super::SharedRows;
use super::bytes::TaskDatabase;
use super::layers::{CacheBudget, StoreMeter};
use crate::store_fault::StoreFault;
use std::cell::{OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// What the stores of a task share.
#[derive(Debug, Clone)]
pub struct TaskStorage(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    directory: Option<PathBuf>,
    database: OnceCell<TaskDatabase>,
    cache: CacheBudget,
    sharing: Sharing,
    meters: OnceCell<Meters>,
}

/// What is measured of the stores.
#[derive(Debug)]
struct Meters {
    clock_ns: fn() -> u64,
    made: RefCell<Vec<Rc<StoreMeter>>>,
}

/// Whether other threads have the same rows.
#[derive(Debug)]
enum Sharing {
    No,
    /// The stores that are made are shared with others, which read them.
    Owner(SharedRows),
    /// The stores that are made read what the owner writes.
    Reader(SharedRows),
}

impl TaskStorage {
    /// Persistent stores are kept in memory too, as if every process began with an empty disk.
    pub fn in_memory(cache: CacheBudget) -> Self {
        Self::new(None, cache, Sharing::No)
    }

    /// Persistent stores are in `directory`, which is the task's own. Its files are made when the first such store is.
    pub fn on_disk(directory: PathBuf, cache: CacheBudget) -> Self {
        Self::new(Some(directory), cache, Sharing::No)
    }

    /// Global stores, of which those that are persistent are in `directory`; other threads read them.
    pub(crate) fn global(directory: PathBuf, shared: SharedRows) -> Self {
        let sharing = Sharing::Owner(shared);
        Self::new(Some(directory), CacheBudget::new(0), sharing)
    }

    /// Global stores that another thread writes.
    pub(crate) fn global_reader(shared: SharedRows) -> Self {
        Self::new(None, CacheBudget::new(0), Sharing::Reader(shared))
    }

    fn new(directory: Option<PathBuf>, cache: CacheBudget, sharing: Sharing) -> Self {
        Self(Rc::new(Shared {
            directory,
            database: OnceCell::new(),
            cache,
            sharing,
            meters: OnceCell::new(),
        }))
    }

    /// The stores that are made from now on are measured, by a clock of ns.
    pub(crate) fn measure(&self, clock_ns: fn() -> u64) {
        self.0.meters.get_or_init(|| Meters {
            clock_ns,
            made: RefCell::default(),
        });
    }

    /// What a store is measured with, if that is wanted.
    pub(super) fn meter(&self, store: &Arc<str>, scope: &'static str) -> Option<Rc<StoreMeter>> {
        let meters = self.0.meters.get()?;
        let meter = Rc::new(StoreMeter::new(store, scope, meters.clock_ns));
        meters.made.borrow_mut().push(Rc::clone(&meter));
        Some(meter)
    }

    /// What the stores are measured with.
    pub(crate) fn meters(&self) -> Vec<Rc<StoreMeter>> {
        let meters = self.0.meters.get();
        meters.map_or_else(Vec::new, |meters| meters.made.borrow().clone())
    }

    /// Where the stores that are made are shared with other threads.
    pub(crate) fn shared(&self) -> Option<&SharedRows> {
        match &self.0.sharing {
            Sharing::Owner(shared) => Some(shared),
            Sharing::No | Sharing::Reader(_) => None,
        }
    }

    /// What another thread writes, and stores are made to read.
    pub(crate) fn shared_by_another(&self) -> Option<&SharedRows> {
        match &self.0.sharing {
            Sharing::Reader(shared) => Some(shared),
            Sharing::No | Sharing::Owner(_) => None,
        }
    }

    /// The bytes that the caches of the thread share.
    pub fn cache(&self) -> &CacheBudget {
        &self.0.cache
    }

    /// The task's database; none when everything is kept in memory.
    pub(crate) fn database(&self) -> Result<Option<TaskDatabase>, StoreFault> {
        let Some(directory) = &self.0.directory else {
            return Ok(None);
        };
        if let Some(database) = self.0.database.get() {
            return Ok(Some(database.clone()));
        }
        let database = TaskDatabase::open(&directory.join("stores"))?;
        Ok(Some(self.0.database.get_or_init(|| database).clone()))
    }
}
