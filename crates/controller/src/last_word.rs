//! Requests that name the same thing more than once: the last word counts, and one record is written for it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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

/// Of the words for each key the change of the last one that changes something, in the order of the words. Words before
/// it are not looked at, nor is one that says again what changes nothing: however many there are, changes are made for
/// few.
pub(crate) fn last_changes<K: Ord, W: PartialEq, C>(
    words: impl DoubleEndedIterator<Item = (K, W)>,
    mut change_of: impl FnMut(&W) -> Option<C>,
) -> Vec<C> {
    let mut changes = Vec::new();
    // What has been found to change nothing; none where there is a change.
    let mut found: BTreeMap<K, Option<W>> = BTreeMap::new();
    for (key, word) in words.rev() {
        let found = found.entry(key);
        if let Entry::Occupied(known) = &found
            && known.get().as_ref().is_none_or(|known| *known == word)
        {
            continue;
        }
        let change = change_of(&word);
        let unchanging = change.is_none().then_some(word);
        found.insert_entry(unchanging);
        changes.extend(change);
    }
    changes.reverse();
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as a key and a number, of which 0 and 5 change nothing; gives those of the changes, and how many were
    /// looked at.
    #[test]
    fn the_last_word_that_changes_something_counts_and_few_are_looked_at() {
        let check = |script: &str, expect: &str, expect_looks: usize| {
            let words = script.split_whitespace().map(|word| word.split_at(1));
            let mut looks = 0;
            let changes = last_changes(words.collect::<Vec<_>>().into_iter(), |word| {
                looks += 1;
                (!["0", "5"].contains(word)).then_some(*word)
            });
            assert_eq!(changes.join(" "), expect, "{script}");
            assert_eq!(looks, expect_looks, "{script}");
        };
        check("", "", 0);
        check("a1 b2", "1 2", 2);
        check("a1 b2 a3", "2 3", 2);
        check("a1 b2 a0", "1 2", 3);
        check("a0 a1 a0", "1", 2);
        check("a1 a2 a1 a2", "2", 1);
        check(&"a0 ".repeat(1000), "", 1);
        check(&format!("a7 {}", "a0 ".repeat(1000)), "7", 2);
        check("a0 a5 a5 a0 a0", "", 3);
    }

    #[test]
    fn the_last_word_for_a_key_counts() {
        let check = |keys: &str, expect: &[bool]| assert_eq!(last_words(keys.chars()), expect);
        check("", &[]);
        check("ab", &[true, true]);
        check("aaba", &[false, false, true, true]);
    }
}
