//! The files of a task: one database of fjall for all of its persistent stores.
//!
//! A store has a keyspace for each of Kafka Streams' column families that it uses, named `<store>/<family>`, and
//! with segments `<store>/<family>/<segment>`. All share a journal: it is written without waiting for the
//! disk, and what survives a crash is a beginning of it. A table is on the disk at once, perhaps before what the
//! journal has had by then: notes that no table may outlive are synced before (`hand_over_notes`).

use crate::store_fault::StoreFault;
use fjall::compaction::Leveled;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::fmt;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of rows that fjall collects in memory, of rows that are too few for a table of their own. In memory they take
/// about twice as much, and a few that are full may wait for the disk.
const WRITE_BUFFER_BYTES: u64 = 4 << 20;
/// So many new tables are merged with those of the first level. More of them are merged less often, which is most of
/// what it costs to fill a store; and whoever asks for a row asks each for its filter.
const NEW_TABLES: u8 = 8;
/// How large tables are that others were merged into. The first level has as many of them as there are new tables.
const TABLE_BYTES: u64 = 16 << 20;
/// Bytes of blocks of files that are kept in memory.
const BLOCK_CACHE_BYTES: u64 = 16 << 20;
/// A journal is deleted once its rows are in tables. Rows of idle stores are written out when journals exceed this.
const JOURNAL_BYTES: u64 = 64 << 20;
/// Names of fjall's keyspaces are no longer.
const MAX_NAME_BYTES: usize = 255;
/// One less than what fjall lets wait.
const MAX_SEALED: usize = 3;
/// So many new tables wait at most to be merged with others.
const MAX_NEW_TABLES: usize = 20;
/// Where fjall has keyspaces, a directory each.
const KEYSPACES: &str = "keyspaces";
/// Has an empty file of the name of each keyspace that was to be deleted since the database was opened.
const REMOVED: &str = "removed-keyspaces";
const SLOW_DISK_PAUSE: Duration = Duration::from_millis(1);
/// A disk that takes longer for one write buffer has failed.
const SLOWEST_DISK: Duration = Duration::from_secs(120);

/// The database of a task, open until it is dropped.
#[derive(Clone)]
pub(crate) struct TaskDatabase {
    database: Database,
    directory: PathBuf,
    /// Whether the journal has what no table may outlive, and may not be on the disk yet.
    has_unsynced_notes: Arc<AtomicBool>,
    /// What the journal had when it was written to the disk last.
    #[cfg(test)]
    synced: Arc<parking_lot::Mutex<Vec<u8>>>,
}

impl fmt::Debug for TaskDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskDatabase")
            .field(&self.directory)
            .finish()
    }
}

impl TaskDatabase {
    /// Opens the database in `directory`, or makes one there.
    ///
    /// # Errors
    /// The disk fails, another process has it open, or its files are damaged.
    pub(crate) fn open(directory: &Path) -> Result<Self, StoreFault> {
        check_keyspaces(directory)?;
        let database = guarded(|| {
            Database::builder(directory)
                .manual_journal_persist(true)
                .worker_threads(1)
                .cache_size(BLOCK_CACHE_BYTES)
                .max_journaling_size(JOURNAL_BYTES)
                .open()
        });
        let database = database.map_err(|fault| of_opening(fault, directory))?;
        // fjall has deleted what was left of keyspaces that were being deleted.
        forget_removed(directory, |_| true)?;
        Ok(Self {
            database,
            directory: directory.to_path_buf(),
            has_unsynced_notes: Arc::default(),
            #[cfg(test)]
            synced: Arc::default(),
        })
    }

    /// Where other files of the task may be.
    pub(super) fn directory(&self) -> &Path {
        self.directory.parent().unwrap_or(&self.directory)
    }

    /// The keyspace of this name, which is made if it is not there.
    pub(crate) fn keyspace(&self, name: &str) -> Result<Keyspace, StoreFault> {
        if name.len() > MAX_NAME_BYTES {
            return Err(StoreFault::Misuse(format!(
                "`{name}` is longer than {MAX_NAME_BYTES} bytes; choose a shorter name of the store"
            )));
        }
        let keyspace = guarded(|| self.database.keyspace(name, options));
        keyspace.map_err(|fault| of_opening(fault, &self.directory))
    }

    /// The keyspace of this name, if it is there.
    pub(crate) fn existing(&self, name: &str) -> Result<Option<Keyspace>, StoreFault> {
        if !self.database.keyspace_exists(name) {
            return Ok(None);
        }
        self.keyspace(name).map(Some)
    }

    /// Names of all keyspaces.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.database
            .list_keyspace_names()
            .into_iter()
            .map(|name| name.to_string())
    }

    /// Deletes a keyspace with its rows.
    pub(crate) fn remove(&self, keyspace: Keyspace) -> Result<(), StoreFault> {
        self.sync_notes()?;
        self.note_removed(&keyspace);
        guarded(|| self.database.delete_keyspace(keyspace))
    }

    /// Notes that what will be left of a keyspace, if the process ends while fjall deletes it, is no damage. A full
    /// disk may have no room for the note, and gets room by what is deleted.
    fn note_removed(&self, keyspace: &Keyspace) {
        let Some(id) = keyspace.path().file_name() else {
            return;
        };
        let notes = self.directory.join(REMOVED);
        let noted = std::fs::create_dir_all(&notes)
            .and_then(|()| forget_removed(&self.directory, |keyspace| !keyspace.exists()))
            .and_then(|()| File::create(notes.join(id)));
        if let Err(error) = noted {
            tracing::warn!(%error, keyspace = %keyspace.path().display(), "cannot note that rows are deleted");
        }
    }

    /// Waits while more full write buffers wait to be written than fjall lets wait, or more tables to be merged, or
    /// until the disk has failed.
    ///
    /// fjall itself would wait for ever for a thread that a full disk has ended.
    pub(crate) fn wait_for_tables(&self, keyspace: &Keyspace) -> Result<(), StoreFault> {
        let start = Instant::now();
        while keyspace.sealed_memtable_count() >= MAX_SEALED
            || keyspace.l0_table_count() >= MAX_NEW_TABLES
        {
            self.hand_over()?;
            if start.elapsed() > SLOWEST_DISK {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            std::thread::sleep(SLOW_DISK_PAUSE);
        }
        Ok(())
    }

    /// Waits until what was written is on the disk: it outlives a loss of power.
    pub(crate) fn sync(&self) -> Result<(), StoreFault> {
        guarded(|| self.database.persist(PersistMode::SyncAll))?;
        self.has_unsynced_notes.store(false, Ordering::Relaxed);
        #[cfg(test)]
        {
            use std::io::Read as _;
            let mut journal = Vec::new();
            let file = File::open(self.directory.join("0.jnl"))?;
            file.take(1 << 20).read_to_end(&mut journal)?;
            *self.synced.lock() = journal;
        }
        Ok(())
    }

    /// Hands what was written to the operating system: it outlives the process.
    pub(crate) fn hand_over(&self) -> Result<(), StoreFault> {
        guarded(|| self.database.persist(PersistMode::Buffer))
    }

    /// The same, of notes that no table may outlive a loss of power without.
    pub(crate) fn hand_over_notes(&self) -> Result<(), StoreFault> {
        self.has_unsynced_notes.store(true, Ordering::Relaxed);
        self.hand_over()
    }

    /// Before a table is written or a keyspace is deleted, which the disk has at once. Tables that fjall makes itself
    /// come after the journal.
    pub(crate) fn sync_notes(&self) -> Result<(), StoreFault> {
        match self.has_unsynced_notes.load(Ordering::Relaxed) {
            true => self.sync(),
            false => Ok(()),
        }
    }

    /// What the journal had when it was written to the disk last; nothing if that was not done here.
    #[cfg(test)]
    pub(crate) fn synced(&self) -> Vec<u8> {
        self.synced.lock().clone()
    }
}

/// Takes away the notes of removed keyspaces whose directories are as told.
fn forget_removed(directory: &Path, is_done: impl Fn(&Path) -> bool) -> io::Result<()> {
    let notes = match directory.join(REMOVED).read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        notes => notes?,
    };
    for note in notes {
        let note = note?;
        if is_done(&directory.join(KEYSPACES).join(note.file_name())) {
            std::fs::remove_file(note.path())?;
        }
    }
    Ok(())
}

/// Whether each keyspace that has tables has the file that tells which: without it fjall would open it as a new one,
/// whose rows are gone while what is noted of them is not. One that was being deleted loses this file first.
fn check_keyspaces(directory: &Path) -> Result<(), StoreFault> {
    let removed = directory.join(REMOVED);
    let keyspaces = match directory.join(KEYSPACES).read_dir() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        keyspaces => keyspaces?,
    };
    for keyspace in keyspaces {
        let keyspace = keyspace?;
        if removed.join(keyspace.file_name()).exists() {
            continue;
        }
        let path = keyspace.path();
        let tables = path.join("tables").read_dir();
        let has_tables = tables.is_ok_and(|mut tables| tables.next().is_some());
        let current = path.join("current");
        if has_tables && !current.exists() {
            let reason = format!("`{}` is missing", current.display());
            return Err(of_opening(StoreFault::Damaged(reason), directory));
        }
    }
    Ok(())
}

/// The fault of files that are opened, which tells what can be done about it.
fn of_opening(fault: StoreFault, directory: &Path) -> StoreFault {
    let reason = match fault {
        StoreFault::Damaged(reason) => reason,
        StoreFault::Disk(error) if is_of_files(&error) => error.to_string(),
        fault => return fault,
    };
    StoreFault::Damaged(format!("{reason} (remove `{}`)", directory.display()))
}

/// Whether the disk works, and has other files than a database leaves: one is missing, empty or too short.
fn is_of_files(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::NotFound
            | Kind::AlreadyExists
            | Kind::InvalidInput
            | Kind::InvalidData
            | Kind::UnexpectedEof
    )
}

fn options() -> KeyspaceCreateOptions {
    let merging = Leveled::default()
        .with_l0_threshold(NEW_TABLES)
        .with_table_target_size(TABLE_BYTES);
    KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .max_memtable_size(WRITE_BUFFER_BYTES)
        .compaction_strategy(Arc::new(merging))
}

/// Calls fjall, which takes some damages of its files for bugs of its own.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, fjall::Error>) -> Result<T, StoreFault> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(fault),
        Err(_) => Err(StoreFault::Damaged("fjall panicked".to_owned())),
    }
}

fn fault(error: fjall::Error) -> StoreFault {
    match error {
        fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => error.into(),
        fjall::Error::Poisoned => StoreFault::Poisoned,
        fjall::Error::Locked => StoreFault::Locked,
        other => StoreFault::Damaged(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// fjall deletes the file that tells of the tables first, and then one after the other.
    #[test]
    fn what_is_left_of_a_keyspace_that_was_being_deleted_is_no_damage() {
        let directory = trials::directory();
        let path = directory.path();
        let database = TaskDatabase::open(path).expect("opened");
        let kept = database.keyspace("s/kept").expect("made");
        kept.insert("a", "1").expect("put");
        let removed = database.keyspace("s/removed").expect("made");
        let tables = removed.path().join("tables");
        database.remove(removed).expect("removed");
        drop((kept, database));
        assert!(!tables.exists());

        let end_while_deleting = || {
            fs::create_dir_all(&tables).expect("made");
            fs::write(tables.join("1"), b"rows").expect("written");
        };
        end_while_deleting();
        let database = TaskDatabase::open(path).expect("opened");
        assert!(database.existing("s/removed").expect("read").is_none());
        let kept = database.existing("s/kept").expect("read").expect("there");
        assert_eq!(kept.get("a").expect("read").as_deref(), Some(&b"1"[..]));
        assert!(!tables.exists());
        drop((kept, database));

        // Of another time it would be.
        end_while_deleting();
        let opened = TaskDatabase::open(path);
        assert!(matches!(opened, Err(StoreFault::Damaged(_))), "{opened:?}");
    }

    #[test]
    fn notes_of_removed_keyspaces_do_not_pile_up() {
        let directory = trials::directory();
        let database = TaskDatabase::open(directory.path()).expect("opened");
        for name in 0..10 {
            let keyspace = database.keyspace(&format!("s/{name}")).expect("made");
            database.remove(keyspace).expect("removed");
        }
        let notes = directory.path().join(REMOVED).read_dir().expect("read");
        assert_eq!(notes.count(), 1);
    }
}
