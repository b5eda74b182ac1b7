//! The files that logs keep open: as many as there may be, the least used closed first.
//!
//! ```text
//!   Segment, IndexFile ── FileSlot ──> OpenFiles: bound, clock over the slots
//!                                        │ no room: close what is clean and unused
//!                                        └ nothing is clean: sync the file systems, then files
//! ```
//!
//! A file that somebody reads or writes right now is never closed: its slot is not the only one
//! that holds it. A file with writes that were not synced is never closed either, because nobody
//! else would hear of an error in writing them back: Linux reports it to the descriptors that were
//! open at the time, and to later ones only while the file stays in memory. So it is synced first,
//! by a `syncfs` for all of them where the file system can be trusted with it, and if that is not to
//! be had, or fails, by an `fsync` of the file itself. If that fails, the slot remembers it, and the
//! log hears of it with its next use of the file.
//!
//! An error of a file system is told once, and does not say whose it is. So failed syncs of file
//! systems are counted: no later one stands for a file that was open then, before the file has had
//! an `fsync` of its own.

use std::collections::VecDeque;
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::aside::Aside;
use crate::disk::DiskFile;

/// Files that may be open, shared by the logs of a process.
#[derive(Debug)]
pub struct OpenFiles<F> {
    bound: usize,
    /// How a thread of the process does what takes long.
    aside: Aside,
    count: Arc<AtomicUsize>,
    /// In the order in which they are asked to go.
    clock: Mutex<VecDeque<Weak<Slot<F>>>>,
    /// A file or directory of each file system, opened before anything was written.
    roots: Mutex<Vec<Arc<F>>>,
    /// One sync of all file systems at a time.
    syncing: Mutex<()>,
    /// Counts syncs of the file systems that have begun, from one.
    generation: AtomicU64,
    /// Writes of this generation and before are durable.
    synced_generation: AtomicU64,
    /// Syncs of file systems that have failed.
    failed_syncs: AtomicU32,
}

/// A place for one open file.
#[derive(Debug)]
pub(crate) struct FileSlot<F> {
    slot: OnceLock<Arc<Slot<F>>>,
}

#[derive(Debug)]
struct Slot<F> {
    held: Mutex<Held<F>>,
    is_used: AtomicBool,
    writes: AtomicU64,
    /// Of `writes`, what an `fsync` has covered.
    synced_writes: AtomicU64,
    /// The generation of the last write.
    written_generation: AtomicU64,
    /// Of the failed syncs of file systems, those that came before the file was opened, or synced
    /// by itself.
    answered_syncs: AtomicU32,
    /// Where the last search in the file ended; no more than a guess.
    last_found: AtomicU32,
}

#[derive(Debug)]
struct Held<F> {
    file: Option<Counted<F>>,
    is_queued: bool,
    failure: Option<io::Error>,
}

impl<F> Held<F> {
    fn failure(&self) -> Option<io::Error> {
        let failure = self.failure.as_ref()?;
        let text = format!("it could not be synced: {failure}");
        Some(io::Error::new(failure.kind(), text))
    }
}

/// An open file that counts.
#[derive(Debug)]
struct Counted<F> {
    file: Arc<F>,
    count: Arc<AtomicUsize>,
}

impl<F> Drop for Counted<F> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file that stays open for as long as this lives.
#[derive(Debug)]
pub(crate) struct OpenFile<F> {
    file: Arc<F>,
    slot: Arc<Slot<F>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What has become of a file that was to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Closing {
    /// It is closed, and its slot waits for the next opening.
    Left,
    /// Somebody uses it.
    Used,
    /// It has to be synced first.
    Unsynced,
}

impl<F: DiskFile> OpenFiles<F> {
    /// No more than `bound` files, unless more than that are in use at once.
    pub fn new(bound: usize) -> Self {
        Self {
            bound,
            aside: Aside::default(),
            count: Arc::default(),
            clock: Mutex::default(),
            roots: Mutex::default(),
            syncing: Mutex::default(),
            generation: AtomicU64::new(1),
            synced_generation: AtomicU64::new(0),
            failed_syncs: AtomicU32::new(0),
        }
    }

    /// The same for logs that are called on threads which others wait for.
    #[must_use]
    pub fn with_aside(self, aside: Aside) -> Self {
        Self { aside, ..self }
    }

    /// How a log does what takes long.
    pub const fn aside(&self) -> Aside {
        self.aside
    }

    /// How many files are open.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Syncs the file system of `root`, a directory or file in it, when many files are to be closed.
    /// Every file has to be in the file system of some root, or none is added.
    pub fn add_root(&self, root: F) {
        locked(&self.roots).push(Arc::new(root));
    }

    /// Syncs no file system any more, but each file: one of them is in none of the roots' systems.
    pub(crate) fn remove_roots(&self) {
        locked(&self.roots).clear();
    }

    /// Notes that a sync of a file system has failed, whichever file the error belongs to.
    pub fn note_failed_sync(&self) {
        self.failed_syncs.fetch_add(1, Ordering::SeqCst);
    }

    /// How many syncs of file systems have failed. What was written before one of them is durable
    /// when it has been synced by itself, whatever later syncs of its file system say.
    pub fn failed_sync_count(&self) -> u32 {
        self.failed_syncs.load(Ordering::SeqCst)
    }

    /// Closes files until a quarter of the room is free; called now and then, it saves those who
    /// open files from doing so.
    pub fn keep_room(&self) {
        let target = self.bound - self.bound / 4;
        if self.count() > self.bound - self.bound / 8 {
            self.close_until(target);
        }
    }

    /// Closes so many files, if nobody uses them.
    pub fn release(&self, count: usize) {
        self.close_until(self.count().saturating_sub(count));
    }

    fn close_until(&self, target: usize) {
        let excess = || self.count().saturating_sub(target);
        let has_kept_unsynced = self.close_some(excess(), false);
        // Files in use are not closed by a sync.
        if excess() == 0 || !has_kept_unsynced {
            return;
        }
        if self.sync_file_systems() {
            self.close_some(excess(), false);
        }
        if excess() > 0 {
            self.close_some(excess(), true);
        }
    }

    /// Closes up to `count` files that nobody uses; those with writes that were not synced only if
    /// `syncs_files`. Returns whether it has kept one for that.
    fn close_some(&self, mut count: usize, syncs_files: bool) -> bool {
        let mut has_kept_unsynced = false;
        // Each is passed twice at most: once to be told from those in use.
        let mut steps = 2 * locked(&self.clock).len();
        while count > 0 && steps > 0 {
            steps -= 1;
            let Some(weak) = locked(&self.clock).pop_front() else {
                break;
            };
            let Some(slot) = weak.upgrade() else { continue };
            match self.close(&slot, syncs_files) {
                Closing::Left => count -= 1,
                kept => {
                    has_kept_unsynced |= kept == Closing::Unsynced;
                    locked(&self.clock).push_back(weak);
                }
            }
        }
        has_kept_unsynced
    }

    /// Closes the file of a slot if it may be.
    fn close(&self, slot: &Slot<F>, syncs_files: bool) -> Closing {
        if slot.is_used.swap(false, Ordering::Relaxed) {
            return Closing::Used;
        }
        let mut held = locked(&slot.held);
        let Some(file) = held.file.take_if(|open| Arc::strong_count(&open.file) == 1) else {
            // In use, or closed by its owner.
            held.is_queued = held.file.is_some();
            return match held.is_queued {
                true => Closing::Used,
                false => Closing::Left,
            };
        };
        if self.is_dirty(slot) {
            if !syncs_files {
                held.file = Some(file);
                return Closing::Unsynced;
            }
            held.failure = file.file.sync().err();
        }
        held.is_queued = false;
        Closing::Left
    }

    fn is_dirty(&self, slot: &Slot<F>) -> bool {
        let is_synced_with_others = || {
            slot.written_generation.load(Ordering::SeqCst)
                <= self.synced_generation.load(Ordering::SeqCst)
                && slot.answered_syncs.load(Ordering::SeqCst) == self.failed_sync_count()
        };
        slot.writes.load(Ordering::SeqCst) > slot.synced_writes.load(Ordering::SeqCst)
            && !is_synced_with_others()
    }

    /// Syncs every file system; whether all that was written before is durable.
    fn sync_file_systems(&self) -> bool {
        let before = self.generation.load(Ordering::SeqCst);
        let _syncing = locked(&self.syncing);
        if self.synced_generation.load(Ordering::SeqCst) >= before {
            // Somebody else has, meanwhile.
            return true;
        }
        let roots = locked(&self.roots).clone();
        let generation = self.generation.fetch_add(1, Ordering::SeqCst);
        let is_synced = |root: &Arc<F>| {
            root.sync_file_system().unwrap_or_else(|_| {
                self.note_failed_sync();
                false
            })
        };
        let are_synced = !roots.is_empty() && roots.iter().all(is_synced);
        if are_synced {
            self.synced_generation
                .fetch_max(generation, Ordering::SeqCst);
        }
        are_synced
    }

    fn queue(&self, slot: &Arc<Slot<F>>) {
        let mut clock = locked(&self.clock);
        if clock.len() > 2 * self.count() + 64 {
            clock.retain(|slot| slot.strong_count() > 0);
        }
        clock.push_back(Arc::downgrade(slot));
    }
}

impl<F> FileSlot<F> {
    pub(crate) const fn new() -> Self {
        Self {
            slot: OnceLock::new(),
        }
    }
}

impl<F: DiskFile> FileSlot<F> {
    /// The same place for somebody who opens the file later: it need not be open until then.
    pub(crate) fn share(&self) -> Self {
        let slot = self.slot.get_or_init(Arc::default);
        Self {
            slot: OnceLock::from(slot.clone()),
        }
    }

    /// The file, opened if need be.
    ///
    /// # Errors
    /// Those of `open`; and that of a sync which the file needed before it was closed.
    pub(crate) fn open(
        &self,
        files: &OpenFiles<F>,
        open: impl FnOnce() -> io::Result<F>,
    ) -> io::Result<OpenFile<F>> {
        let slot = self.slot.get_or_init(Arc::default);
        slot.is_used.store(true, Ordering::Relaxed);
        let mut held = locked(&slot.held);
        if let Some(failure) = held.failure() {
            return Err(failure);
        }
        if let Some(open) = &held.file {
            let file = open.file.clone();
            drop(held);
            return Ok(OpenFile {
                file,
                slot: slot.clone(),
            });
        }
        if files.count() >= files.bound {
            // A few at once, so that not every opening has to look for one.
            files.close_until(files.bound.saturating_sub(1 + files.bound / 64));
        }
        let failed_syncs = files.failed_sync_count();
        let file = Arc::new(open()?);
        slot.answered_syncs.store(failed_syncs, Ordering::SeqCst);
        files.count.fetch_add(1, Ordering::Relaxed);
        held.file = Some(Counted {
            file: file.clone(),
            count: files.count.clone(),
        });
        let is_queued = std::mem::replace(&mut held.is_queued, true);
        drop(held);
        if !is_queued {
            files.queue(slot);
        }
        Ok(OpenFile {
            file,
            slot: slot.clone(),
        })
    }

    /// What a sync has met that the file needed before it was closed.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        locked(&self.slot.get()?.held).failure()
    }

    /// Closes the file if it has no writes that were not synced.
    pub(crate) fn close_clean(&mut self, files: &OpenFiles<F>) {
        if self.slot.get().is_some_and(|slot| !files.is_dirty(slot)) {
            self.close();
        }
    }

    /// Closes the file. Its owner answers for what was written and not synced.
    fn close(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        let failure = locked(&slot.held).failure.take();
        if failure.is_some() {
            // What has failed is not forgotten.
            let kept = self.slot.get_or_init(Arc::default);
            locked(&kept.held).failure = failure;
        }
    }
}

impl<F> Default for Slot<F> {
    fn default() -> Self {
        Self {
            held: Mutex::new(Held {
                file: None,
                is_queued: false,
                failure: None,
            }),
            is_used: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            synced_writes: AtomicU64::new(0),
            written_generation: AtomicU64::new(0),
            answered_syncs: AtomicU32::new(0),
            last_found: AtomicU32::new(0),
        }
    }
}

impl<F: DiskFile> OpenFile<F> {
    /// The file by itself, for reading.
    pub(crate) const fn file(&self) -> &Arc<F> {
        &self.file
    }

    /// Writes to the file, or cuts it.
    pub(crate) fn write(
        &self,
        files: &OpenFiles<F>,
        write: impl FnOnce(&F) -> io::Result<()>,
    ) -> io::Result<()> {
        // Before, for whoever syncs the file meanwhile; after, for whoever syncs the file system.
        self.note_write(files);
        let written = write(&self.file);
        self.note_write(files);
        written
    }

    fn note_write(&self, files: &OpenFiles<F>) {
        let generation = files.generation.load(Ordering::SeqCst);
        self.slot
            .written_generation
            .store(generation, Ordering::SeqCst);
        self.slot.writes.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes what has been written durable.
    pub(crate) fn sync(&self, files: &OpenFiles<F>) -> io::Result<()> {
        let writes = self.slot.writes.load(Ordering::SeqCst);
        let failed_syncs = files.failed_sync_count();
        self.file.sync()?;
        let answered = &self.slot.answered_syncs;
        answered.fetch_max(failed_syncs, Ordering::SeqCst);
        self.slot.synced_writes.fetch_max(writes, Ordering::SeqCst);
        Ok(())
    }

    pub(crate) fn last_found(&self) -> u32 {
        self.slot.last_found.load(Ordering::Relaxed)
    }

    pub(crate) fn set_last_found(&self, at: u32) {
        self.slot.last_found.store(at, Ordering::Relaxed);
    }
}

impl<F> Deref for OpenFile<F> {
    type Target = F;

    fn deref(&self) -> &F {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::{Disk, OpenMode};
    use crate::sim::{SimDisk, SimFile};

    type Slots = Vec<FileSlot<SimFile>>;

    fn new_file() -> io::Result<SimFile> {
        SimDisk::default().open(Path::new("/file"), OpenMode::Create)
    }

    /// So many files that are open and used by nobody.
    fn opened(bound: usize, count: usize) -> (OpenFiles<SimFile>, Slots) {
        let files = OpenFiles::new(bound);
        let slots: Slots = (0..count).map(|_| FileSlot::new()).collect();
        for slot in &slots {
            slot.open(&files, new_file).unwrap();
        }
        assert_eq!(files.count(), count);
        (files, slots)
    }

    #[test]
    fn room_is_made_before_it_is_needed() {
        for count in 0..=16 {
            let (files, _slots) = opened(16, count);
            files.keep_room();
            let expected = if count > 14 { 12 } else { count };
            assert_eq!(files.count(), expected, "of {count}");
        }
        let (files, _slots) = opened(16, 10);
        files.release(3);
        assert_eq!(files.count(), 7);
        files.release(8);
        assert_eq!(files.count(), 0);
    }

    #[test]
    fn a_file_in_use_stays_open() {
        let (files, slots) = opened(16, 4);
        let used = slots[0].open(&files, new_file).unwrap();
        files.release(4);
        assert_eq!(files.count(), 1);
        drop(used);
        files.release(1);
        assert_eq!(files.count(), 0);
    }
}
