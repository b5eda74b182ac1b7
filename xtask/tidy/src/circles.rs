//! Files of a room of the broker: none names another that names it, by however many between.

use super::rooms::{HOUSE, below_crate, module};
use super::source::Source;
use super::uses::paths;
use std::collections::{BTreeMap, BTreeSet};

/// Which files of its room each file names, by `room/file`. A file and what is in the folder of its name are one.
type Names<'s> = BTreeMap<(&'s str, &'s str), BTreeSet<(&'s str, &'s str)>>;

/// A module, and what it names in its room: the file and the last name of each path.
type Named<'s> = (Vec<&'s str>, Vec<(&'s str, &'s str)>);

/// Reports each file that names itself by others. The room's own `mod.rs` is above all of them: it holds
/// what they share.
pub(super) fn check(sources: &[Source], findings: &mut Vec<String>) {
    let names = names(sources);
    let mut told = BTreeSet::new();
    for &file in names.keys() {
        let circle: BTreeSet<_> = reached(&names, file)
            .into_iter()
            .filter(|&other| reached(&names, other).contains(&file))
            .collect();
        if !circle.is_empty() && told.insert(circle.clone()) {
            let files = circle.iter().map(|(room, file)| format!("{room}/{file}"));
            let files: Vec<String> = files.collect();
            findings.push(format!(
                "{HOUSE}: {} name each other in a circle: move what both need into a file below them",
                files.join(", ")
            ));
        }
    }
}

fn names(sources: &[Source]) -> Names<'_> {
    let sources = sources.iter().filter(|source| !source.is_test);
    let named = sources.filter_map(|source| {
        let module = module(source.name.strip_prefix(HOUSE)?);
        let paths = paths(&source.tokens());
        let of_room = module.len() == 1;
        let within = paths.iter().filter_map(|(_, path)| {
            let below = below_crate(&module, path);
            // The room itself names its files without more.
            let below = below.or_else(|| of_room.then(|| [&module, &path[..]].concat()));
            match below?[..] {
                [room, other, .., last] if room == module[0] => Some((other, last)),
                [room, other] if room == module[0] => Some((other, other)),
                _ => None,
            }
        });
        let within = within.collect();
        Some((module, within))
    });
    let named: Vec<Named<'_>> = named.collect();
    let files = named.iter().filter_map(|(module, _)| match module[..] {
        [room, file, ..] => Some(((room, file), BTreeSet::new())),
        _ => None,
    });
    let mut names: Names<'_> = files.collect();
    // A room shows what is in its files by names of its own.
    let mut shown = BTreeMap::new();
    for (module, within) in &named {
        if let [room] = module[..] {
            let of_files = within
                .iter()
                .filter(|(file, _)| names.contains_key(&(room, file)));
            shown.extend(of_files.map(|(file, name)| ((room, *name), *file)));
        }
    }
    for (module, within) in &named {
        let [room, file, ..] = module[..] else {
            continue;
        };
        let others = within.iter().filter_map(|(other, _)| {
            let is_file = names.contains_key(&(room, other));
            if is_file {
                Some(*other)
            } else {
                shown.get(&(room, *other)).copied()
            }
        });
        let others: Vec<_> = others
            .filter(|other| *other != file)
            .map(|other| (room, other))
            .collect();
        names.entry((room, file)).or_default().extend(others);
    }
    names
}

/// All that a file names, by others too; itself only if it is in a circle.
fn reached<'s>(names: &Names<'s>, file: (&'s str, &'s str)) -> BTreeSet<(&'s str, &'s str)> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![file];
    while let Some(next) = ahead.pop() {
        let named = names.get(&next).into_iter().flatten();
        ahead.extend(named.filter(|one| reached.insert(**one)));
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

    #[test]
    fn a_name_counts_however_it_is_written() {
        let (a, room) = (
            ("logs/a.rs", "use super::b::B;"),
            (
                "logs/mod.rs",
                "mod a;\npub(crate) use a::{self as e, A};\nuse crate::logs::b::*;",
            ),
        );
        for back in [
            "use super::a::A;",
            "use super::{a, c};",
            "use crate::logs::A;",
            "use super::A;",
            "fn f() { super::a::g() }",
        ] {
            assert_eq!(count(&[a, ("logs/b.rs", back), room]), 1, "{back}");
        }
        let within = ("logs/b/d.rs", "use super::super::a;");
        assert_eq!(count(&[a, ("logs/b.rs", ""), within]), 1);
        for none in [
            "use super::c;",
            "use super::B;",
            "use crate::net::a;",
            "mod a {}",
        ] {
            assert_eq!(count(&[a, ("logs/b.rs", none), room]), 0, "{none}");
        }
    }
}
