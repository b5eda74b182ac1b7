//! What tests do to the files of a server that is not running.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Every file below a directory with its bytes, but for locks.
pub(crate) fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with(".lock") {
                let bytes = std::fs::read(&path).unwrap();
                found.insert(path, bytes);
            }
        }
    }
    found
}

/// Expects every file below a directory to be as it was.
#[track_caller]
pub(crate) fn assert_unchanged(directory: &Path, before: &BTreeMap<PathBuf, Vec<u8>>) {
    let after = contents(directory);
    let names = before.keys().chain(after.keys());
    let changed: Vec<_> = names
        .filter(|name| before.get(*name) != after.get(*name))
        .collect();
    assert!(changed.is_empty(), "these were changed: {changed:?}");
}

/// The bytes of a file, changed.
#[track_caller]
pub(crate) fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

/// The names in a directory that end with `suffix`, in order.
pub(crate) fn names_ending(directory: &Path, suffix: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(suffix)).collect();
    names.sort();
    names
}

/// The names in a directory that begin with `prefix`, in order.
pub(crate) fn names_beginning(directory: &Path, prefix: &str) -> Vec<String> {
    let mut names = names_ending(directory, "");
    names.retain(|name| name.starts_with(prefix));
    names
}
