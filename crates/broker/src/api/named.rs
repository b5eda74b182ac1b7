//! What a request names, where it may name the same again.

use std::collections::BTreeSet;

/// What is named, in the order of the request, without what was named before.
pub(super) fn each_once<T: Ord + Clone>(names: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let mut seen = BTreeSet::new();
    names.filter(move |name| seen.insert(name.clone()))
}

/// Whether anything is named exactly once.
pub(super) fn has_single<T: Ord>(names: impl Iterator<Item = T>) -> bool {
    let mut sorted: Vec<T> = names.collect();
    sorted.sort_unstable();
    sorted.chunk_by(T::eq).any(|equal| equal.len() == 1)
}
