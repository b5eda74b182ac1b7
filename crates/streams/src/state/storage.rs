//! What the stores of a task share: a database on disk, and the budget of their caches.

use super::bytes::TaskDatabase;
use super::fault::StoreFault;
use super::layers::CacheBudget;
use std::cell::OnceCell;
use std::path::PathBuf;
use std::rc::Rc;

/// What the stores of a task share.
#[derive(Debug, Clone)]
pub struct TaskStorage(Rc<Shared>);

#[derive(Debug)]
struct Shared {
    directory: Option<PathBuf>,
    database: OnceCell<TaskDatabase>,
    cache: CacheBudget,
}

impl TaskStorage {
    /// Persistent stores are kept in memory too, as if every process began with an empty disk.
    pub fn in_memory(cache: CacheBudget) -> Self {
        Self::new(None, cache)
    }

    /// Persistent stores are in `directory`, which is the task's own. Its files are made when the first such store is.
    pub fn on_disk(directory: PathBuf, cache: CacheBudget) -> Self {
        Self::new(Some(directory), cache)
    }

    fn new(directory: Option<PathBuf>, cache: CacheBudget) -> Self {
        Self(Rc::new(Shared {
            directory,
            database: OnceCell::new(),
            cache,
        }))
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
