//! Requests that name the same thing more than once: the last word counts, and one record is written for it.

use std::collections::BTreeMap;

/// Whether the word at each place is the last one for its key.
pub(crate) fn last_words<K: Ord>(keys: impl IntoIterator<Item = K>) -> Vec<bool> {
    let mut is_last = Vec::new();
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    for (place, key) in keys.into_iter().enumerate() {
        if let Some(before) = places.insert(key, place) {
            is_last[before] = false;
        }
        is_last.push(true);
    }
    is_last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_for_a_key_counts() {
        let check = |keys: &str, expect: &[bool]| assert_eq!(last_words(keys.chars()), expect);
        check("", &[]);
        check("ab", &[true, true]);
        check("aaba", &[false, false, true, true]);
    }
}
