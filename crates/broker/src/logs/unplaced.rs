//! Partitions for which the metadata name no log directory, at a start that finds no log of theirs.
//!
//! Such a partition is new, or its place was never noted. Where every directory can be looked into, it is
//! new. Otherwise its log may be in a directory that is away, and an empty one must not take its place: at
//! no later start either, when that directory may have been taken out of the configuration.
//!
//! ```text
//!   none is away                        ──> new: made in any directory
//!   one is away                         ──> noted there: what is there decides when it is back
//!   several, all named by partitions    ──> left as it is: each of them is missed until it is back
//!   several, one of them named nowhere  ──> noted as lost: nobody would miss that one at the next start
//! ```

use std::collections::BTreeSet;

use metadata::LOST_DIRECTORY;
use model::Uuid;

/// Log directories that are away when a broker starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Away {
    /// Configured or known to the metadata, and not usable.
    ids: BTreeSet<Uuid>,
    /// Configured directories whose id cannot be read and is none of the above.
    unidentified_count: usize,
}

/// What becomes of a partition without a place and without a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// Its log is made.
    New,
    /// It has no leader, and the metadata are told of this directory.
    NotedIn(Uuid),
    /// It has no leader, and the metadata stay as they are.
    Left,
}

impl Away {
    /// `configured` are the directories of the configuration, each with its id if that could be read
    /// and whether it can be used; `known` are those that the metadata know of this broker.
    pub(crate) fn new(
        configured: impl Iterator<Item = (Option<Uuid>, bool)>,
        known: impl Iterator<Item = Uuid>,
    ) -> Self {
        let (mut usable, mut away) = (BTreeSet::new(), BTreeSet::new());
        let mut unidentified_count: usize = 0;
        for (id, is_usable) in configured {
            match id {
                Some(id) if is_usable => drop(usable.insert(id)),
                Some(id) => drop(away.insert(id)),
                None => unidentified_count += 1,
            }
        }
        let is_missing = |id: &Uuid| !usable.contains(id) && !away.contains(id);
        let missing: Vec<Uuid> = known.filter(is_missing).collect();
        // A directory whose id cannot be read is one of those that are missed, if there are any.
        let unidentified_count = unidentified_count.saturating_sub(missing.len());
        away.extend(missing);
        Self {
            ids: away,
            unidentified_count,
        }
    }

    /// `is_named` tells whether the metadata name a directory as the place of a partition, so that it is
    /// missed for as long as it is away.
    pub(crate) fn outcome(&self, is_named: impl Fn(&Uuid) -> bool) -> Unplaced {
        let mut ids = self.ids.iter();
        match (self.unidentified_count, self.ids.len(), ids.next()) {
            (0, 0, _) => Unplaced::New,
            (0, 1, Some(id)) => Unplaced::NotedIn(*id),
            (0, _, _) if self.ids.iter().all(is_named) => Unplaced::Left,
            _ => Unplaced::NotedIn(LOST_DIRECTORY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `configured` has a letter for each directory of the configuration: a capital for one that can be
    /// used, `?` for one without an id. `known` are those of the metadata, a capital for one that is the
    /// place of a partition.
    fn check(configured: &str, known: &str, expect: &str) {
        let id = |letter: char| Uuid::from_u128(u128::from(letter.to_ascii_uppercase()));
        let shown = |of: Uuid| match of {
            LOST_DIRECTORY => "lost".to_owned(),
            of => ('A'..='Z')
                .find(|letter| id(*letter) == of)
                .unwrap()
                .to_string(),
        };
        let configured = configured
            .chars()
            .map(|one| ((one != '?').then(|| id(one)), one.is_uppercase()));
        let away = Away::new(configured, known.chars().map(id));
        let is_named = |of: &Uuid| {
            known
                .chars()
                .any(|one| one.is_uppercase() && id(one) == *of)
        };
        let outcome = match away.outcome(is_named) {
            Unplaced::New => "new".to_owned(),
            Unplaced::NotedIn(directory) => shown(directory),
            Unplaced::Left => "left".to_owned(),
        };
        assert_eq!(outcome, expect, "{configured:?} {known}", configured = away);
    }

    #[test]
    fn a_partition_without_a_place_is_new_where_every_directory_is_there() {
        check("A", "", "new");
        check("AB", "ab", "new");
        check("ABC", "aB", "new");
    }

    #[test]
    fn a_partition_without_a_place_belongs_to_the_one_directory_that_is_away() {
        check("Ab", "ab", "B");
        check("Ab", "a", "B");
        check("A", "ab", "B");
        check("A?", "ab", "B");
        check("A", "aB", "B");
    }

    #[test]
    fn a_partition_that_may_be_in_one_of_several_directories_is_made_in_none() {
        check("Abc", "abc", "lost");
        check("Abc", "aBc", "lost");
        check("Abc", "aBC", "left");
        check("A??", "aBC", "left");
        check("A?", "aBC", "left");
        check("A?c", "aBC", "left");
        check("A??", "aB", "lost");
        check("A?", "a", "lost");
        check("Ab?", "aB", "lost");
    }
}
