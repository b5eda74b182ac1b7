//! Rooms of the broker: imports between them run one way.

use super::source::Source;
use super::uses::paths;

/// The folder whose modules are rooms.
pub(super) const HOUSE: &str = "crates/broker/src/";
/// Its rooms, from the ground up: each may name those before it.
const ROOMS: [&str; 9] = [
    "scheduling",
    "controller",
    "settings",
    "logs",
    "coordinators",
    "peers",
    "net",
    "api",
    "server",
];

/// The only rooms that name types of the wire: what others ask of this node, and what it asks of them.
const WIRE_ROOMS: [&str; 2] = ["api", "peers"];

/// Checks which rooms a file names, and whether it names types of the wire.
pub(super) fn check(source: &Source, findings: &mut Vec<String>) {
    let name = &source.name;
    let Some(inside) = name.strip_prefix(HOUSE) else {
        return;
    };
    if inside == "lib.rs" || source.is_test {
        return;
    }
    let module = module(inside);
    let room = module[0];
    let Some(height) = ROOMS.iter().position(|one| *one == room) else {
        findings.push(format!(
            "{name}: is in no room; they are {}",
            ROOMS.join(", ")
        ));
        return;
    };
    for (at, path) in paths(&source.tokens()) {
        if path[0] == "wire" && !WIRE_ROOMS.contains(&room) {
            findings.push(format!(
                "{name}:{at}: `{}`: types of the wire stop at {}",
                path.join("::"),
                WIRE_ROOMS.join(" and ")
            ));
        }
        let Some(named) = below_crate(&module, &path) else {
            continue;
        };
        let other = ROOMS.iter().position(|one| Some(one) == named.first());
        if other.is_none_or(|other| other > height) {
            findings.push(format!(
                "{name}:{at}: `{room}` may not name `{}`, which is in no room below it; give it what it needs as \
                 a value, or by a trait",
                path.join("::")
            ));
        }
    }
}

/// The module that a file of the house is.
pub(super) fn module(inside: &str) -> Vec<&str> {
    let module = inside.strip_suffix(".rs").unwrap_or(inside);
    module.split('/').filter(|part| *part != "mod").collect()
}

/// What follows the crate's root in a path that begins there, or climbs from `module`. A module within a file is
/// taken for the file, which is higher: so a climb may be reported without need, and none is missed.
pub(super) fn below_crate<'a>(module: &[&'a str], path: &[&'a str]) -> Option<Vec<&'a str>> {
    let path = path.strip_prefix(&["self"]).unwrap_or(path);
    if let Some(below) = path.strip_prefix(&["crate"]) {
        return Some(below.to_vec());
    }
    let climbs = path.iter().take_while(|part| **part == "super").count();
    let above = &module[..module.len().saturating_sub(climbs)];
    (climbs > 0).then(|| [above, &path[climbs..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        check(&Source::of(name, text), &mut findings);
        findings.len()
    }

    #[test]
    fn a_room_names_itself_and_those_below_it() {
        let logs = "crates/broker/src/logs/future_replicas.rs";
        assert_eq!(
            count(logs, "use crate::logs::a; use crate::scheduling::b;"),
            0
        );
        assert_eq!(count(logs, "use crate::api::broker::Broker;"), 1);
        assert_eq!(count(logs, "use crate::{logs::a, net::{b, c}, api};"), 3);
        assert_eq!(count(logs, "fn f() { crate::server::g() }"), 1);
        assert_eq!(count(logs, "// crate::server"), 0);
        for above in [
            "use super::super::api::a;",
            "use super::{a, super::{net::b}};",
            "use crate::*;",
            "use crate as c;",
            "fn f() { super::super::super::g() }",
            "fn f() -> wire::Request {}",
            "use wire::{Decode, Encode as E};",
        ] {
            assert!(count(logs, above) > 0, "{above}");
        }
        assert_eq!(
            count(
                logs,
                "pub(super) use super::a; use super::super::controller::b;"
            ),
            0
        );
        assert_eq!(
            count("crates/broker/src/api/fetch.rs", "use wire::fetch;"),
            0
        );
        assert_eq!(
            count("crates/broker/src/server.rs", "use crate::api::a;"),
            0
        );
        assert_eq!(count("crates/broker/src/alarm.rs", ""), 1);
        assert_eq!(count("crates/storage/src/log.rs", "use crate::net;"), 0);
    }
}
