//! [`SimDisk`]: a disk in memory that loses at a crash whatever a real one may lose.
//!
//! Processes see the current state; a crash goes back to the durable one. A file's bytes become
//! durable with `sync`, names in a directory with `sync_directory`; the two are independent, so a
//! renamed file can come back empty and a synced file can come back without a name. What was not
//! synced survives a crash in part: any subset of the writes to a file, each possibly torn at the
//! sectors of the disk, its first one included, and any prefix of the changes to a directory.
//! Faults: the machine stops after the n-th change, a chosen write or sync fails, or there is no room
//! or no file descriptor for a while.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::disk::{DirectoryEntry, Disk, DiskFile, DiskSpace, FileStatus, OpenMode};

/// What a disk writes at once.
const SECTOR_BYTES: usize = 512;

/// What survives of the changes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Nothing: the durable state exactly.
    LosesUnsynced,
    /// Everything, for now: the process died, the machine did not. What was not synced is still
    /// not durable.
    KeepsAll,
    /// A part that follows from the seed.
    Random(u64),
}

/// A disk in memory. Clones share it.
#[derive(Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
    open_count: Arc<AtomicUsize>,
    syncs_nothing: bool,
}

/// An open file of a [`SimDisk`]; of no use after a crash.
pub struct SimFile {
    state: Arc<Mutex<State>>,
    inode: usize,
    /// Crashes seen by the disk when the file was opened.
    crashes: u64,
    /// Files opened before this one.
    opened: u64,
    path: PathBuf,
    writable: bool,
    syncs_nothing: bool,
    open_count: Arc<AtomicUsize>,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.open_count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").finish_non_exhaustive()
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimFile").field(&self.path).finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    File(usize),
    Directory(usize),
}

#[derive(Debug, Clone)]
enum FileChange {
    Write { position: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

#[derive(Debug, Clone, Default)]
struct File {
    current: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<FileChange>,
    modified_ms: i64,
    /// Descriptors that were opened before this are told by a sync that writes were lost.
    lost_before: u64,
}

/// Names that appear and disappear together.
type NameChange = Vec<(String, Option<Node>)>;

#[derive(Debug, Clone, Default)]
struct Directory {
    current: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    pending: Vec<NameChange>,
}

#[derive(Debug, Clone)]
struct State {
    files: Vec<File>,
    /// The first one is the root.
    directories: Vec<Directory>,
    crashes: u64,
    /// Those that lost what was not synced.
    machine_stops: u64,
    /// Changes made so far: writes, truncations, syncs, creations, renames, removals.
    change_count: u64,
    /// The change at which the machine stops.
    stop_at: Option<u64>,
    failing_writes: Option<String>,
    failing_syncs: Option<String>,
    ignored_syncs: Option<String>,
    is_out_of_files: bool,
    open_count_max: usize,
    is_full: bool,
    now_ms: i64,
    /// Files opened so far.
    open_count: u64,
    /// How many syncs of the whole fail, if it can be synced as a whole.
    failing_whole_syncs: Option<u32>,
    /// A directory of another file system.
    elsewhere: Option<PathBuf>,
    /// A directory whose disk answers everything with an error.
    failing_directory: Option<PathBuf>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            files: Vec::new(),
            directories: vec![Directory::default()],
            crashes: 0,
            machine_stops: 0,
            change_count: 0,
            stop_at: None,
            failing_writes: None,
            failing_syncs: None,
            ignored_syncs: None,
            is_out_of_files: false,
            open_count_max: usize::MAX,
            is_full: false,
            now_ms: 0,
            open_count: 0,
            failing_whole_syncs: None,
            elsewhere: None,
            failing_directory: None,
        }
    }
}

/// A sequence of numbers that follows from its seed (splitmix64).
#[derive(Debug)]
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A number in `0..end`.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % (end.max(1) as u64)) as usize
    }
}

impl FileChange {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write {
                position,
                bytes: written,
            } => {
                let end = position + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*position..end].copy_from_slice(written);
            }
            Self::Truncate { length } => bytes.resize(*length, 0),
        }
    }

    /// The parts of this change that a crash leaves.
    fn torn(&self, choices: &mut Choices) -> Vec<Self> {
        match (self, choices.below(4)) {
            (_, 0) => Vec::new(),
            (Self::Write { position, bytes }, 1) => {
                let mut parts = Vec::new();
                let mut at = 0;
                while at < bytes.len() {
                    let sector_end = SECTOR_BYTES - (position + at) % SECTOR_BYTES;
                    let end = bytes.len().min(at + sector_end);
                    if choices.below(2) == 0 {
                        parts.push(Self::Write {
                            position: position + at,
                            bytes: bytes[at..end].to_vec(),
                        });
                    }
                    at = end;
                }
                parts
            }
            _ => vec![self.clone()],
        }
    }
}

fn apply_names(change: &NameChange, names: &mut BTreeMap<String, Node>) {
    for (name, node) in change {
        match node {
            Some(node) => names.insert(name.clone(), *node),
            None => names.remove(name),
        };
    }
}

impl State {
    fn has_stopped(&self) -> bool {
        self.stop_at.is_some_and(|stop| self.change_count >= stop)
    }

    /// Counts a change; the error when the machine has stopped.
    fn change(&mut self) -> io::Result<()> {
        if self.has_stopped() {
            return Err(io::Error::other("the machine has stopped"));
        }
        self.change_count += 1;
        Ok(())
    }

    /// Goes back to what is durable, and what `choices` leave of the rest.
    fn stop_machine(&mut self, mut choices: Option<Choices>) {
        for file in &mut self.files {
            for change in std::mem::take(&mut file.pending) {
                let parts = choices.as_mut().map(|choices| change.torn(choices));
                for part in parts.into_iter().flatten() {
                    part.apply(&mut file.durable);
                }
            }
            file.current.clone_from(&file.durable);
        }
        for directory in &mut self.directories {
            let pending = std::mem::take(&mut directory.pending);
            let kept = choices
                .as_mut()
                .map(|choices| choices.below(pending.len() + 1));
            for change in &pending[..kept.unwrap_or(0)] {
                apply_names(change, &mut directory.durable);
            }
            directory.current.clone_from(&directory.durable);
        }
    }

    /// The error of a disk that fails, if this lies on it.
    fn reach(&self, path: &Path) -> io::Result<()> {
        match &self.failing_directory {
            Some(failing) if path.starts_with(failing) => Err(Errno::IO.into()),
            _ => Ok(()),
        }
    }

    fn directory(&self, path: &Path) -> io::Result<usize> {
        self.reach(path)?;
        let mut at = 0;
        for component in path.components() {
            if let Component::Normal(name) = component {
                let name = name.to_string_lossy();
                match self.directories[at].current.get(name.as_ref()) {
                    Some(Node::Directory(id)) => at = *id,
                    _ => return Err(missing(path)),
                }
            }
        }
        Ok(at)
    }

    fn node(&self, path: &Path) -> io::Result<Node> {
        let (parent, name) = self.parent(path)?;
        let node = self.directories[parent].current.get(&name);
        node.copied().ok_or_else(|| missing(path))
    }

    fn parent(&self, path: &Path) -> io::Result<(usize, String)> {
        self.reach(path)?;
        let name = path.file_name().ok_or_else(|| missing(path))?;
        let parent = path.parent().unwrap_or(Path::new("/"));
        Ok((self.directory(parent)?, name.to_string_lossy().into_owned()))
    }

    fn change_names(&mut self, directory: usize, change: NameChange) {
        let directory = &mut self.directories[directory];
        apply_names(&change, &mut directory.current);
        directory.pending.push(change);
    }

    fn change_file(&mut self, inode: usize, change: FileChange) {
        let now_ms = self.now_ms;
        let file = &mut self.files[inode];
        change.apply(&mut file.current);
        file.pending.push(change);
        file.modified_ms = now_ms;
    }
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no {}", path.display()))
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SimDisk {
    /// A disk of its own with the same state.
    pub fn fork(&self) -> Self {
        let state = locked(&self.state).clone();
        Self {
            state: Arc::new(Mutex::new(state)),
            open_count: Arc::default(),
            syncs_nothing: false,
        }
    }

    /// The same disk for somebody whose syncs succeed and make nothing durable.
    pub fn without_syncs(&self) -> Self {
        Self {
            syncs_nothing: true,
            ..self.clone()
        }
    }

    /// Changes made so far, to choose a point for [`Self::stop_at`].
    pub fn change_count(&self) -> u64 {
        locked(&self.state).change_count
    }

    /// From the given change on, counted from the making of the disk, every change fails, and a
    /// write in that very place is torn.
    pub fn stop_at(&self, change: Option<u64>) {
        locked(&self.state).stop_at = change;
    }

    /// Whether the change at which the machine stops has come.
    pub fn has_stopped(&self) -> bool {
        locked(&self.state).has_stopped()
    }

    /// Writes to files whose name ends so fail, until set to `None`.
    pub fn fail_writes_to(&self, suffix: Option<&str>) {
        locked(&self.state).failing_writes = suffix.map(str::to_owned);
    }

    /// Syncs of files whose name ends so fail, and lose what they should have made durable.
    pub fn fail_syncs_of(&self, suffix: Option<&str>) {
        locked(&self.state).failing_syncs = suffix.map(str::to_owned);
    }

    /// Syncs of files whose name ends so succeed and make nothing durable, as on a disk that lies, until
    /// set to `None`; a crash changes nothing of it.
    pub fn ignore_syncs_of(&self, suffix: Option<&str>) {
        locked(&self.state).ignored_syncs = suffix.map(str::to_owned);
    }

    /// From here on everything can be synced as a whole. So many of these syncs fail, and lose what
    /// was not durable: the files that are open can tell whether it was theirs.
    pub fn fail_whole_syncs(&self, count: u32) {
        locked(&self.state).failing_whole_syncs = Some(count);
    }

    /// Whatever is asked of this directory and all below it fails, until set to `None`; a crash changes
    /// nothing of it.
    pub fn fail_directory(&self, directory: Option<&Path>) {
        locked(&self.state).failing_directory = directory.map(Path::to_owned);
    }

    /// What lies in this directory is not synced with the whole.
    pub fn put_elsewhere(&self, directory: &Path) {
        locked(&self.state).elsewhere = Some(directory.to_owned());
    }

    /// Whether the process has as many files open as it may, so that every opening fails.
    pub fn set_out_of_files(&self, is_out_of_files: bool) {
        locked(&self.state).is_out_of_files = is_out_of_files;
    }

    /// How many files the process may have open.
    pub fn limit_open_files(&self, count: usize) {
        locked(&self.state).open_count_max = count;
    }

    /// Whether there is no room: files that would grow keep the half of what is written.
    pub fn set_full(&self, is_full: bool) {
        locked(&self.state).is_full = is_full;
    }

    /// The time that changed files carry from here on.
    pub fn set_time(&self, now_ms: i64) {
        locked(&self.state).now_ms = now_ms;
    }

    /// What names the run of the machine, as [`boot_id`](crate::boot_id) wants it: another one after each
    /// crash that loses something.
    pub fn boot_id(&self) -> String {
        format!("boot {}", locked(&self.state).machine_stops)
    }

    /// Ends every open file, drops what was not synced as told, and lets the disk work again.
    pub fn crash(&self, crash: Crash) {
        let mut state = locked(&self.state);
        let state = &mut *state;
        match crash {
            Crash::KeepsAll => {}
            Crash::LosesUnsynced => state.stop_machine(None),
            Crash::Random(seed) => state.stop_machine(Some(Choices(seed))),
        }
        state.crashes += 1;
        state.machine_stops += u64::from(crash != Crash::KeepsAll);
        state.stop_at = None;
        state.is_out_of_files = false;
        state.open_count_max = usize::MAX;
        state.is_full = false;
        state.failing_writes = None;
        state.failing_syncs = None;
    }
}

impl Disk for SimDisk {
    type File = SimFile;

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<SimFile> {
        let mut state = locked(&self.state);
        let open_count = self.open_count.load(Ordering::Relaxed);
        if state.is_out_of_files || open_count >= state.open_count_max {
            return Err(io::Error::from_raw_os_error(Errno::MFILE.raw_os_error()));
        }
        let (parent, name) = state.parent(path)?;
        let inode = match state.directories[parent].current.get(&name).copied() {
            Some(Node::Directory(_)) => return Err(io::Error::other("is a directory")),
            Some(Node::File(inode)) => {
                if mode == OpenMode::Replace && !state.files[inode].current.is_empty() {
                    state.change()?;
                    state.change_file(inode, FileChange::Truncate { length: 0 });
                }
                inode
            }
            None if matches!(mode, OpenMode::Create | OpenMode::Replace) => {
                state.change()?;
                state.files.push(File::default());
                let inode = state.files.len() - 1;
                state.files[inode].modified_ms = state.now_ms;
                state.change_names(parent, vec![(name.clone(), Some(Node::File(inode)))]);
                inode
            }
            None => return Err(missing(path)),
        };
        self.open_count.fetch_add(1, Ordering::Relaxed);
        state.open_count += 1;
        Ok(SimFile {
            open_count: self.open_count.clone(),
            state: self.state.clone(),
            inode,
            crashes: state.crashes,
            opened: state.open_count - 1,
            path: path.to_owned(),
            writable: mode != OpenMode::Read,
            syncs_nothing: self.syncs_nothing,
        })
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = locked(&self.state);
        let (parent, name) = state.parent(path)?;
        if state.directories[parent].current.contains_key(&name) {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        state.change()?;
        state.directories.push(Directory::default());
        let id = state.directories.len() - 1;
        state.change_names(parent, vec![(name, Some(Node::Directory(id)))]);
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let state = locked(&self.state);
        let names = &state.directories[state.directory(path)?].current;
        let entry = |(name, node): (&String, &Node)| DirectoryEntry {
            name: name.clone(),
            is_directory: matches!(node, Node::Directory(_)),
            failure: None,
        };
        Ok(names.iter().map(entry).collect())
    }

    fn status(&self, path: &Path) -> io::Result<FileStatus> {
        let state = locked(&self.state);
        Ok(match state.node(path)? {
            Node::Directory(_) => FileStatus {
                length: 0,
                modified_ms: state.now_ms,
            },
            Node::File(inode) => FileStatus {
                length: state.files[inode].current.len() as u64,
                modified_ms: state.files[inode].modified_ms,
            },
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = locked(&self.state);
        let node = state.node(from)?;
        let (parent, old_name) = state.parent(from)?;
        let (new_parent, new_name) = state.parent(to)?;
        if parent != new_parent {
            return Err(io::Error::other("rename across directories is not atomic"));
        }
        state.change()?;
        state.change_names(parent, vec![(old_name, None), (new_name, Some(node))]);
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = locked(&self.state);
        match state.node(path)? {
            Node::Directory(_) => Err(io::Error::other("is a directory")),
            Node::File(_) => {
                state.change()?;
                let (parent, name) = state.parent(path)?;
                state.change_names(parent, vec![(name, None)]);
                Ok(())
            }
        }
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = locked(&self.state);
        match state.node(path)? {
            Node::File(_) => Err(io::Error::other("is not a directory")),
            Node::Directory(_) => {
                state.change()?;
                let (parent, name) = state.parent(path)?;
                state.change_names(parent, vec![(name, None)]);
                Ok(())
            }
        }
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let mut state = locked(&self.state);
        let id = state.directory(path)?;
        state.change()?;
        let directory = &mut state.directories[id];
        directory.pending.clear();
        directory.durable.clone_from(&directory.current);
        Ok(())
    }

    fn is_with_parent(&self, path: &Path) -> io::Result<bool> {
        let elsewhere = &locked(&self.state).elsewhere;
        Ok(elsewhere.as_ref().is_none_or(|elsewhere| elsewhere != path))
    }

    fn space(&self, _path: &Path) -> io::Result<DiskSpace> {
        Ok(DiskSpace {
            total_bytes: 1 << 40,
            usable_bytes: 1 << 39,
        })
    }
}

impl SimFile {
    fn is_named(&self, suffix: &str) -> bool {
        let path = self.path.as_os_str().as_encoded_bytes();
        path.ends_with(suffix.as_bytes())
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = locked(&self.state);
        if state.crashes != self.crashes {
            return Err(io::Error::other("the file was opened before the crash"));
        }
        state.reach(&self.path)?;
        Ok(state)
    }

    fn alive_for_writing(&self) -> io::Result<MutexGuard<'_, State>> {
        if !self.writable {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        self.alive()
    }
}

impl DiskFile for SimFile {
    fn write_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let mut state = self.alive_for_writing()?;
        let position = usize::try_from(position).map_err(io::Error::other)?;
        let chosen = state.failing_writes.as_deref();
        let failed = chosen.is_some_and(|suffix| self.is_named(suffix));
        let stopping = state.stop_at == Some(state.change_count);
        let grows = position + bytes.len() > state.files[self.inode].current.len();
        let is_full = state.is_full && grows;
        if failed || stopping || is_full {
            let half = FileChange::Write {
                position,
                bytes: bytes[..bytes.len() / 2].to_vec(),
            };
            state.change_file(self.inode, half);
            state.change_count += 1;
            return Err(match is_full {
                true => io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error()),
                false => io::Error::other("the write has failed half-way"),
            });
        }
        state.change()?;
        let bytes = bytes.to_vec();
        state.change_file(self.inode, FileChange::Write { position, bytes });
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let state = self.alive()?;
        let position = usize::try_from(position).map_err(io::Error::other)?;
        let bytes = state.files[self.inode].current.get(position..);
        let bytes = bytes.unwrap_or_default();
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        Ok(length)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        let mut state = self.alive_for_writing()?;
        state.change()?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        state.change_file(self.inode, FileChange::Truncate { length });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.alive()?;
        state.change()?;
        let chosen = state.failing_syncs.as_deref();
        if chosen.is_some_and(|suffix| self.is_named(suffix)) {
            // As Linux does: the pages count as clean afterwards, their bytes never reach the disk.
            state.files[self.inode].pending.clear();
            return Err(io::Error::other("the sync has failed"));
        }
        let ignored = state.ignored_syncs.as_deref();
        if self.syncs_nothing || ignored.is_some_and(|suffix| self.is_named(suffix)) {
            return Ok(());
        }
        let file = &mut state.files[self.inode];
        if self.opened < file.lost_before {
            return Err(io::Error::other("a write was lost"));
        }
        for change in file.pending.drain(..) {
            change.apply(&mut file.durable);
        }
        Ok(())
    }

    fn sync_file_system(&self) -> io::Result<bool> {
        let mut state = self.alive()?;
        let opened = state.open_count;
        let fails = match &mut state.failing_whole_syncs {
            None => return Ok(false),
            Some(0) => false,
            Some(count) => {
                *count -= 1;
                true
            }
        };
        for file in &mut state.files {
            for change in std::mem::take(&mut file.pending) {
                match fails {
                    true => file.lost_before = opened,
                    false => change.apply(&mut file.durable),
                }
            }
        }
        if fails {
            return Err(io::Error::other("a write was lost"));
        }
        for directory in &mut state.directories {
            directory.pending.clear();
            directory.durable.clone_from(&directory.current);
        }
        Ok(true)
    }

    fn set_modified_ms(&self, modified_ms: i64) -> io::Result<()> {
        self.alive_for_writing()?.files[self.inode].modified_ms = modified_ms;
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.alive()?.files[self.inode].current.len() as u64)
    }
}

#[cfg(test)]
mod tests;
