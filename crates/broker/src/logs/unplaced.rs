//! Partitions for which the metadata name no log directory, at a start that finds no log of theirs.
//!
//! Such a partition is new, or was made in the last run, whose end came before its place was noted. A start
//! notes the place of each partition, and so does a run of those in a directory that fails before it reports
//! the failure. So a log that was made may only be in a directory of the last registration.
//!
//! ```text
//!   directories of the last registration that cannot be used now
//!     none     ──> new: made in any directory
//!     one      ──> noted there: what is there decides when it is back
//!     several  ──> noted as lost: made in one of them, it could take the place of its log in another
//! ```
//!
//! A registration without directories is of a metadata version that knows none (before 3.7-IV2): then it is
//! each configured directory that may hold the log.

use metadata::LOST_DIRECTORY;
use model::Uuid;
use std::collections::BTreeSet;

/// What becomes of a partition without a place and without a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unplaced {
    /// Its log is made.
    New,
    /// It has no leader, and its place is noted in this directory.
    NotedIn(Uuid),
}

/// `configured` are the directories of the configuration, each with its id if that could be read and
/// whether it can be used; `registered` are those of the last registration, if there was one.
pub(crate) fn outcome_of_unplaced(
    configured: &[(Option<Uuid>, bool)],
    registered: Option<&[Uuid]>,
) -> Unplaced {
    let Some(registered) = registered else {
        return Unplaced::New;
    };
    let is_usable = |id: &Uuid| configured.contains(&(Some(*id), true));
    let away: BTreeSet<Option<Uuid>> = match registered {
        [] => {
            let unusable = configured.iter().filter(|(_, is_usable)| !is_usable);
            unusable.map(|(id, _)| *id).collect()
        }
        registered => {
            let missing = registered.iter().filter(|id| !is_usable(id));
            missing.map(|id| Some(*id)).collect()
        }
    };
    match (away.len(), away.first().copied().flatten()) {
        (0, _) => Unplaced::New,
        (1, Some(id)) => Unplaced::NotedIn(id),
        _ => Unplaced::NotedIn(LOST_DIRECTORY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `configured` has a letter for each directory of the configuration: a capital for one that can be
    /// used, `?` for one without an id. `registered` are those of the last registration, `-` is none.
    fn check(configured: &str, registered: &str, expect: &str) {
        let id = |letter: char| Uuid::from_u128(u128::from(letter.to_ascii_uppercase()));
        let shown = |of: Uuid| match of {
            LOST_DIRECTORY => "lost".to_owned(),
            of => {
                let mut letters = 'A'..='Z';
                let letter = letters.find(|letter| id(*letter) == of);
                letter.expect("it is one of them").to_string()
            }
        };
        let configured = configured.chars();
        let configured = configured.map(|one| ((one != '?').then(|| id(one)), one.is_uppercase()));
        let configured: Vec<_> = configured.collect();
        let ids: Vec<_> = registered.chars().map(id).collect();
        let registered = (registered != "-").then_some(&*ids);
        let outcome = match outcome_of_unplaced(&configured, registered) {
            Unplaced::New => "new".to_owned(),
            Unplaced::NotedIn(directory) => shown(directory),
        };
        assert_eq!(outcome, expect, "{configured:?} {registered:?}");
    }

    #[test]
    fn a_partition_without_a_place_is_new_where_all_of_the_last_run_is_there() {
        check("A", "-", "new");
        check("A", "A", "new");
        check("ABC", "AB", "new");
    }

    #[test]
    fn a_directory_that_the_last_run_did_not_have_holds_no_new_partition() {
        check("A?", "A", "new");
        check("Ab", "A", "new");
        check("Ab", "-", "new");
    }

    #[test]
    fn a_partition_without_a_place_belongs_to_the_one_directory_that_is_away() {
        check("Ab", "AB", "B");
        check("A", "AB", "B");
        check("A?", "AB", "B");
        check("AC", "AB", "B");
    }

    #[test]
    fn a_partition_that_may_be_in_one_of_several_directories_is_made_in_none() {
        check("Abc", "ABC", "lost");
        check("A??", "ABC", "lost");
        check("A", "ABC", "lost");
    }

    #[test]
    fn without_noted_directories_each_may_hold_a_partition() {
        check("AB", "", "new");
        check("Ab", "", "B");
        check("A?", "", "lost");
        check("Abc", "", "lost");
    }
}
