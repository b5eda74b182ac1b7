//! Files of a folder of a crate: none names another that names it, by however many between.

use super::rooms::{below_crate, module};
use super::source::Source;
use super::uses::paths;
use std::collections::{BTreeMap, BTreeSet};

/// How often a name is followed that one file shows of another.
const SHOWN_MAX: usize = 8;

/// A module, or what a path names: the folder of the crate's sources, and the names below it.
type Place<'s> = Vec<&'s str>;

/// What each file of a folder names of the others there. A file and what is in the folder of its name are one.
type Names<'s> = BTreeMap<&'s str, BTreeSet<&'s str>>;

/// Reports each file that names itself by others of its folder. The `mod.rs` of a folder, or `lib.rs`, is above all of
/// them: it holds what they share.
pub(super) fn check(sources: &[Source], findings: &mut Vec<String>) {
    for (folder, names) in &folders(sources) {
        for circle in circles(names) {
            let files: Vec<&str> = circle.into_iter().collect();
            findings.push(format!(
                "{}: {} name each other in a circle: move what both need into a file below them",
                folder.join("/"),
                files.join(", ")
            ));
        }
    }
}

fn folders(sources: &[Source]) -> BTreeMap<Place<'_>, Names<'_>> {
    let named = named(sources);
    let places: BTreeSet<Place<'_>> = named
        .iter()
        .flat_map(|(place, _)| (1..=place.len()).map(|end| place[..end].to_vec()))
        .collect();
    // A folder shows what is in its files by names of its own.
    let mut shown = BTreeMap::new();
    for (place, paths) in &named {
        for path in paths {
            if let Some([_, .., name]) = path.strip_prefix(&place[..])
                && places.contains(&path[..=place.len()])
            {
                shown.insert([&place[..], &[*name][..]].concat(), path.clone());
            }
        }
    }
    let mut folders: BTreeMap<Place<'_>, Names<'_>> = BTreeMap::new();
    for (place, paths) in &named {
        let paths: Vec<Place<'_>> = paths
            .iter()
            .map(|path| meant(path, &places, &shown))
            .collect();
        for depth in 1..place.len() {
            let (folder, file) = (&place[..depth], place[depth]);
            let others = paths.iter().filter_map(|path| {
                let other = *path.strip_prefix(folder)?.first()?;
                let is_file = places.contains(&path[..=depth]);
                (is_file && other != file).then_some(other)
            });
            let names = folders.entry(folder.to_vec()).or_default();
            names.entry(file).or_default().extend(others);
        }
    }
    folders
}

/// Each module that is no test, and the paths in its crate that it names.
fn named(sources: &[Source]) -> Vec<(Place<'_>, Vec<Place<'_>>)> {
    let sources = sources.iter().filter(|source| !source.is_test);
    let modules: Vec<(&Source, Place<'_>)> = sources
        .filter_map(|source| Some((source, place(&source.name)?)))
        .collect();
    let places: BTreeSet<&[&str]> = modules.iter().map(|(_, place)| &place[..]).collect();
    let named = modules.iter().map(|(source, place)| {
        let (house, module) = place.split_first().expect("a module is in a crate");
        let within = paths(&source.tokens()).into_iter().filter_map(|(_, path)| {
            let below =
                below_crate(module, &path).map(|below| [&[*house][..], &below[..]].concat());
            // A module names its own files without more.
            let own = path.strip_prefix(&["self"]).unwrap_or(&path);
            let own = [&place[..], own].concat();
            let is_own = own.len() > place.len() && places.contains(&own[..=place.len()]);
            below.or_else(|| is_own.then_some(own))
        });
        (place.clone(), within.collect())
    });
    named.collect()
}

/// The module that a file is; none for a program of its own in `bin`.
fn place(name: &str) -> Option<Place<'_>> {
    let (house_end, inside) = name.find("/src/").map(|at| (at + 4, &name[at + 5..]))?;
    let mut place = vec![&name[..house_end]];
    match module(inside)[..] {
        ["lib" | "main"] => {}
        ["bin", ..] => return None,
        ref names => place.extend(names),
    }
    Some(place)
}

/// The path without names by which a folder shows what is in its files.
fn meant<'s>(
    path: &[&'s str],
    places: &BTreeSet<Place<'s>>,
    shown: &BTreeMap<Place<'s>, Place<'s>>,
) -> Place<'s> {
    let mut path = path.to_vec();
    for _ in 0..SHOWN_MAX {
        let is_place = |end: &usize| places.contains(&path[..*end]);
        let known = (1..=path.len()).take_while(is_place).count();
        let source = path.get(..=known).and_then(|name| shown.get(name));
        let Some(source) = source.filter(|source| **source != path) else {
            break;
        };
        path = [&source[..], &path[known + 1..]].concat();
    }
    path
}

/// The files that name themselves by others, each set of them once.
fn circles<'s>(names: &Names<'s>) -> BTreeSet<BTreeSet<&'s str>> {
    let all: Names<'s> = names
        .keys()
        .map(|&file| (file, reached(names, file)))
        .collect();
    let round = all.iter().map(|(&file, others)| {
        let back = others.iter().copied();
        back.filter(|&other| all[other].contains(file)).collect()
    });
    round
        .filter(|circle: &BTreeSet<_>| !circle.is_empty())
        .collect()
}

/// All that a file names, by others too; itself only if it is in a circle.
fn reached<'s>(names: &Names<'s>, file: &'s str) -> BTreeSet<&'s str> {
    let mut reached = BTreeSet::new();
    let mut ahead = vec![file];
    while let Some(next) = ahead.pop() {
        let named = names.get(next).into_iter().flatten();
        ahead.extend(named.filter(|one| reached.insert(**one)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUSE: &str = "crates/a/src/";

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

    #[test]
    fn folders_of_every_depth_are_looked_at() {
        let (root, b) = (
            ("lib.rs", "mod a;\nmod b;\npub use self::a::{A, c::C};"),
            ("b.rs", "use crate::a::A;"),
        );
        assert_eq!(count(&[root, b, ("a.rs", "")]), 0);
        assert_eq!(count(&[root, b, ("a.rs", "use crate::b::B;")]), 1);
        let (d, shows) = (
            ("a/c/d.rs", "use crate::{C, A};"),
            ("a/c.rs", "mod d;\npub use d::C;"),
        );
        assert_eq!(count(&[root, b, d, shows, ("a.rs", "mod c;")]), 0);
        let e = ("a/c/e.rs", "use super::d::D;");
        assert_eq!(count(&[root, d, e, shows, ("a.rs", "mod c;")]), 0);
        let e_shown = ("a/c.rs", "pub use d::D;\npub use e::C;");
        assert_eq!(count(&[root, d, e, e_shown, ("a.rs", "mod c;")]), 1);
        assert_eq!(count(&[b, ("bin/a.rs", "use crate::b::B;")]), 0);
    }
}
