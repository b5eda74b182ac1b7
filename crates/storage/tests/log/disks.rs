//! The operating system's files and the disk in memory answer the same: what is shown with one of
//! them holds for the other. The directories of these tests are on a disk where there is one.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use storage::disk::OpenMode;
use storage::sim::SimDisk;
use storage::{Disk, DiskFile, RealDisk};

/// Names of files, then of directories; what is in a directory moves with it.
const PATHS: [&str; 7] = ["f", "g", "d/f", "d/g", "e/f", "d", "e"];
const FILES: Range<usize> = 0..5;
const DIRECTORIES: Range<usize> = 5..7;
const LENGTH_MAX: u64 = 40;

#[derive(Debug, Clone)]
enum Step {
    Write {
        at: usize,
        mode: OpenMode,
        position: u64,
        length: usize,
    },
    Truncate {
        at: usize,
        mode: OpenMode,
        length: u64,
    },
    SetModified {
        at: usize,
        modified_ms: i64,
    },
    Sync {
        at: usize,
    },
    CreateDirectory {
        at: usize,
    },
    Rename {
        from: usize,
        to: usize,
    },
    RemoveFile {
        at: usize,
    },
    RemoveDirectory {
        at: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let at = || 0..PATHS.len();
    let mode = prop_oneof![
        Just(OpenMode::Read),
        Just(OpenMode::Write),
        Just(OpenMode::Create),
        Just(OpenMode::Replace),
    ];
    let position = 0u64..30;
    prop_oneof![
        6 => (FILES, mode.clone(), position, 0usize..20)
            .prop_map(|(at, mode, position, length)| Step::Write { at, mode, position, length }),
        2 => (FILES, mode, 0u64..50)
            .prop_map(|(at, mode, length)| Step::Truncate { at, mode, length }),
        1 => (FILES, -5i64..5000)
            .prop_map(|(at, modified_ms)| Step::SetModified { at, modified_ms }),
        1 => at().prop_map(|at| Step::Sync { at }),
        2 => DIRECTORIES.prop_map(|at| Step::CreateDirectory { at }),
        2 => (0usize..2, 0usize..2).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => (DIRECTORIES, DIRECTORIES).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => at().prop_map(|at| Step::RemoveFile { at }),
        1 => at().prop_map(|at| Step::RemoveDirectory { at }),
    ]
}

/// Errors are told from each other where the log does so.
type Outcome = Result<String, bool>;

fn outcome<T: std::fmt::Debug>(result: io::Result<T>) -> Outcome {
    let shown = result.map(|value| format!("{value:?}"));
    shown.map_err(|error| error.kind() == io::ErrorKind::NotFound)
}

struct Tested<D: Disk> {
    disk: D,
    root: PathBuf,
}

impl<D: Disk> Tested<D> {
    fn path(&self, at: usize) -> PathBuf {
        self.root.join(PATHS[at])
    }

    fn is_directory(&self, path: &Path) -> bool {
        self.disk.list(path).is_ok()
    }

    fn step(&self, step: &Step) -> Outcome {
        let disk = &self.disk;
        let open = |at: usize, mode| disk.open(&self.path(at), mode);
        match *step {
            Step::Write {
                at,
                mode,
                position,
                length,
            } => {
                let bytes: Vec<u8> = (1..).take(length).collect();
                // Nothing is written to what is open for reading, unless it is nothing.
                let write = |file: D::File| match length {
                    0 => Ok(()),
                    _ => file.write_at(&bytes, position),
                };
                outcome(open(at, mode).and_then(write))
            }
            Step::Truncate { at, mode, length } => {
                outcome(open(at, mode).and_then(|file| file.truncate(length)))
            }
            Step::SetModified { at, modified_ms } => {
                let set = open(at, OpenMode::Write).and_then(|file| {
                    file.set_modified_ms(modified_ms.max(0))?;
                    Ok(disk.status(&self.path(at))?.modified_ms)
                });
                outcome(set)
            }
            Step::Sync { at } => match self.is_directory(&self.path(at)) {
                true => outcome(disk.sync_directory(&self.path(at))),
                false => outcome(open(at, OpenMode::Read).and_then(|file| file.sync())),
            },
            Step::CreateDirectory { at } => outcome(disk.create_directory(&self.path(at))),
            Step::Rename { from, to } => {
                let (from, to) = (self.path(from), self.path(to));
                // The log never renames a directory to a name that is taken.
                match self.is_directory(&from) && self.is_directory(&to) {
                    true => Ok("left out".to_owned()),
                    false => outcome(disk.rename(&from, &to)),
                }
            }
            Step::RemoveFile { at } => outcome(disk.remove_file(&self.path(at))),
            Step::RemoveDirectory { at } => outcome(disk.remove_directory(&self.path(at))),
        }
    }

    /// All that can be seen of the names.
    fn look(&self) -> Vec<Outcome> {
        let mut seen = Vec::new();
        let names = |path: &Path| {
            let mut names = self.disk.list(path)?;
            names.sort();
            Ok(names)
        };
        seen.push(outcome(names(&self.root)));
        for at in 0..PATHS.len() {
            let path = self.path(at);
            if self.is_directory(&path) {
                seen.push(outcome(names(&path)));
                continue;
            }
            seen.push(outcome(self.disk.status(&path).map(|status| status.length)));
            seen.push(outcome(self.disk.read(&path, LENGTH_MAX)));
            let Ok(file) = self.disk.open(&path, OpenMode::Read) else {
                continue;
            };
            seen.push(outcome(file.length()));
            let mut bytes = [0xff; 9];
            let read = file.read_full_at(&mut bytes, 7);
            seen.push(outcome(read.map(|length| (length, bytes))));
        }
        seen
    }
}

proptest! {
    #![proptest_config(trials::property(100))]

    #[test]
    fn disks_answer_the_same(steps in prop::collection::vec(step(), 1..40)) {
        let directory = tempfile::tempdir().unwrap();
        let real = Tested { disk: RealDisk, root: directory.path().to_owned() };
        let simulated = Tested { disk: SimDisk::default(), root: PathBuf::from("/") };
        for step in &steps {
            prop_assert_eq!(real.step(step), simulated.step(step), "{:?}", step);
            prop_assert_eq!(real.look(), simulated.look(), "after {:?}", step);
        }
    }
}

#[test]
fn a_small_file_that_is_not_small_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, [7; 10]).unwrap();
    assert_eq!(RealDisk.read(&path, 10).unwrap(), [7; 10]);
    let refused = RealDisk.read(&path, 9).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
}

#[test]
fn the_file_system_of_a_directory_has_room() {
    let directory = tempfile::tempdir().unwrap();
    let space = RealDisk.space(directory.path()).unwrap();
    assert!(
        (1 << 20..=space.total_bytes).contains(&space.usable_bytes),
        "{space:?}"
    );
    assert!(RealDisk.space(&directory.path().join("missing")).is_err());
}

/// Links to directories are log directories and partitions as well.
#[test]
fn a_link_is_what_it_leads_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::create_dir(path("directory")).unwrap();
    std::fs::write(path("file"), "").unwrap();
    std::os::unix::fs::symlink(path("directory"), path("to-directory")).unwrap();
    std::os::unix::fs::symlink(path("file"), path("to-file")).unwrap();
    let mut entries = RealDisk.list(directory.path()).unwrap();
    entries.sort();
    let entries: Vec<_> = entries
        .iter()
        .map(|one| (&*one.name, one.is_directory))
        .collect();
    let expected = [
        ("directory", true),
        ("file", false),
        ("to-directory", true),
        ("to-file", false),
    ];
    assert_eq!(entries, expected);
}

/// A descriptor of a file that stands for its name only: nothing can be synced by it.
fn without_bytes(path: &Path) -> std::fs::File {
    use rustix::fs::{Mode, OFlags, open};
    open(path, OFlags::PATH, Mode::empty()).unwrap().into()
}

#[test]
#[cfg(target_os = "linux")]
fn a_sync_that_fails_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let file = RealDisk.open(&path, OpenMode::Create).unwrap();
    file.sync().unwrap();
    RealDisk.sync_directory(directory.path()).unwrap();
    assert!(without_bytes(&path).sync().is_err());
    let missing = RealDisk.sync_directory(&directory.path().join("none"));
    assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    // A device that has nothing to sync.
    assert!(RealDisk.sync_directory(Path::new("/dev/null")).is_err());
}

#[test]
#[cfg(target_os = "linux")]
fn a_sync_of_a_file_system_that_fails_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let root = std::fs::File::open(directory.path()).unwrap();
    // Not every file system is trusted to sync all that is in it, and says so.
    let is_synced = root.sync_file_system().unwrap();
    let unsynced = without_bytes(directory.path()).sync_file_system();
    assert_eq!(unsynced.is_err(), is_synced, "{unsynced:?}");
    let elsewhere = std::fs::File::open("/proc").unwrap();
    assert!(!elsewhere.sync_file_system().unwrap(), "it is no disk");
}
