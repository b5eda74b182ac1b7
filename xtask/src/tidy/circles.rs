//! Files of a room of the broker: none names another that names it, by however many between.

use super::source::Source;
use super::uses::paths;
use std::collections::{BTreeMap, BTreeSet};

/// The folder whose modules are rooms.
const HOUSE: &str = "crates/broker/src/";

/// Two files that name each other: a turn at a disk may be taken for heavy work.
const KNOWN: &str = "scheduling";

/// Which files of its room each file names, by `room/file`. A file and what is in the folder of its name are one.
type Names = BTreeMap<String, BTreeSet<String>>;

/// Reports each file that names itself by others. The room's own `mod.rs` is above all of them: it holds
/// what they share.
pub(super) fn check(sources: &[Source], findings: &mut Vec<String>) {
    let names = names(sources);
    let mut told = BTreeSet::new();
    for file in names.keys() {
        let circle: BTreeSet<&str> = reached(&names, file)
            .into_iter()
            .filter(|other| reached(&names, other).contains(file.as_str()))
            .collect();
        if !circle.is_empty() && told.insert(circle.clone()) {
            let circle: Vec<&str> = circle.into_iter().collect();
            findings.push(format!(
                "{HOUSE}: {} name each other in a circle: move what both need into a file below them",
                circle.join(", ")
            ));
        }
    }
}

fn names(sources: &[Source]) -> Names {
    let mut names = Names::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let inside = source.name.strip_prefix(HOUSE).unwrap_or_default();
        let Some((room, file)) = inside.split_once('/') else {
            continue;
        };
        let file = file.split(['/', '.']).next().unwrap_or(file);
        if file == "mod" || room == KNOWN {
            continue;
        }
        let named = names.entry(format!("{room}/{file}")).or_default();
        for (_, path) in paths(&source.tokens()) {
            if let ["crate", within, other, ..] = path[..]
                && within == room
                && other != file
            {
                named.insert(format!("{room}/{other}"));
            }
        }
    }
    names
}

/// All that a file names, by others too; itself only if it is in a circle.
fn reached<'n>(names: &'n Names, file: &str) -> BTreeSet<&'n str> {
    let mut reached = BTreeSet::new();
    let mut ahead: Vec<&str> = vec![file];
    while let Some(next) = ahead.pop() {
        let named = names.get(next).into_iter().flatten();
        ahead.extend(
            named
                .filter(|one| reached.insert(one.as_str()))
                .map(|one| one.as_str()),
        );
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(files: &[(&str, &str)]) -> usize {
        let files = files.iter();
        let sources = files.map(|(name, text)| Source::of(&format!("{HOUSE}{name}"), text));
        let mut findings = Vec::new();
        check(&sources.collect::<Vec<_>>(), &mut findings);
        findings.len()
    }

    #[test]
    fn files_that_name_each_other_are_one_finding() {
        let (a, b) = (
            ("logs/a.rs", "use crate::logs::b::B;"),
            ("logs/b.rs", "use crate::logs::{Logs, c};"),
        );
        assert_eq!(count(&[a, b, ("logs/c.rs", "")]), 0);
        let back = ("logs/c/d.rs", "fn f() { crate::logs::a::g() }");
        assert_eq!(count(&[a, b, back]), 1);
        let of_room = ("logs/mod.rs", "use crate::logs::a::A;");
        assert_eq!(count(&[a, b, of_room]), 0);
    }
}
