//! A task without nodes: what stores need to run.

use crate::headers::Headers;
use crate::processor::{Handlers, Partitioning, ProducedRecord, TaskContext, TaskId};
use crate::state::{
    BuiltStore, CacheBudget, ChangelogRecord, StateStore, StoreBuilder, StoreBuilding, StoreType,
    TaskStorage,
};
use std::cell::RefCell;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

pub(super) const TOPIC: &str = "app-s-changelog";

/// Where a store is, and which layers it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variant {
    pub(super) store_type: StoreType,
    pub(super) is_cached: bool,
    pub(super) cache_bytes: usize,
}

/// In memory and on disk; without a cache, with one that holds few rows, and with one that holds all.
pub(super) const VARIANTS: [Variant; 6] = {
    const fn of(store_type: StoreType, is_cached: bool, cache_bytes: usize) -> Variant {
        Variant {
            store_type,
            is_cached,
            cache_bytes,
        }
    }
    [
        of(StoreType::InMemory, false, 0),
        of(StoreType::InMemory, true, 700),
        of(StoreType::InMemory, true, 1 << 20),
        of(StoreType::Persistent, false, 0),
        of(StoreType::Persistent, true, 700),
        of(StoreType::Persistent, true, 1 << 20),
    ]
};

pub(super) struct World {
    pub(super) context: TaskContext,
    pub(super) storage: TaskStorage,
    directory: trials::Directory,
}

impl World {
    pub(super) fn new(cache_bytes: usize) -> Self {
        let directory = trials::directory();
        Self::in_directory(directory, cache_bytes)
    }

    fn in_directory(directory: trials::Directory, cache_bytes: usize) -> Self {
        Self {
            context: context(),
            storage: storage(directory.path(), cache_bytes),
            directory,
        }
    }

    /// Another process opens what this one has left on the disk, as if this one was killed now.
    pub(super) fn killed(&self, cache_bytes: usize) -> Self {
        Self::in_directory(copy_of(self.directory.path()), cache_bytes)
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn build<S: 'static>(
        &self,
        builder: &dyn StoreBuilder,
    ) -> (Rc<RefCell<S>>, Rc<RefCell<dyn StateStore>>) {
        let BuiltStore { typed, store } = builder
            .build(&self.building(builder.changelog().is_some()))
            .expect("the store can be opened");
        let typed = typed
            .downcast_ref::<Rc<RefCell<S>>>()
            .expect("the store is of this type");
        (Rc::clone(typed), store)
    }

    pub(super) fn building(&self, is_logged: bool) -> StoreBuilding {
        StoreBuilding {
            task_id: self.context.task_id,
            application_id: Arc::from("app"),
            changelog: is_logged.then(|| (Arc::from(TOPIC), 7)),
            storage: self.storage.clone(),
        }
    }

    /// The record that is processed from now on.
    pub(super) fn record(&mut self, timestamp_ms: i64, headers: Headers) {
        self.context.record.timestamp_ms = timestamp_ms;
        self.context.record.headers = headers;
    }

    /// What was written to the changelog since.
    pub(super) fn drain(&mut self) -> Vec<ProducedRecord> {
        self.context.collector.drain().collect()
    }
}

fn storage(directory: &Path, cache_bytes: usize) -> TaskStorage {
    TaskStorage::on_disk(directory.to_path_buf(), CacheBudget::new(cache_bytes))
}

fn context() -> TaskContext {
    let task_id = TaskId {
        subtopology: 0,
        partition: 7,
    };
    TaskContext::new(task_id, Arc::from("app"), Arc::new(Handlers::default()))
}

/// The files as they are at one moment, which is what a crash leaves. Threads of the store merge tables meanwhile, so
/// files are copied again until none has changed.
pub(in crate::state) fn copy_of(from: &Path) -> trials::Directory {
    for _ in 0..1000 {
        let copy = trials::directory();
        let before = stamps(from);
        let is_copied = copy_files(from, copy.path()).is_ok();
        if is_copied && before.is_ok() && before.ok() == stamps(from).ok() {
            return copy;
        }
    }
    panic!("files change all the time");
}

/// What changes when a file does: its name, its number, its length, and the time of its last write.
type Stamp = (PathBuf, u64, u64, SystemTime);

fn stamps(directory: &Path) -> io::Result<Vec<Stamp>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let status = entry.metadata()?;
        if status.is_dir() {
            all.extend(stamps(&entry.path())?);
        }
        all.push((entry.path(), status.ino(), status.len(), status.modified()?));
    }
    all.sort();
    Ok(all)
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            std::fs::create_dir(&target)?;
            copy_files(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Records of a changelog as they are restored.
pub(super) fn restored(produced: &[ProducedRecord]) -> Vec<ChangelogRecord> {
    produced
        .iter()
        .zip(0..)
        .map(|(record, offset)| {
            assert_eq!(&*record.topic, TOPIC);
            assert_eq!(record.partitioning, Partitioning::Exact(7));
            ChangelogRecord {
                key: record.key.clone().expect("a changelog has keys"),
                value: record.value.clone(),
                timestamp_ms: record.timestamp_ms.unwrap_or(-1),
                headers: record.headers.clone(),
                offset,
            }
        })
        .collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
