//! Rooms of the broker: imports between them run one way.

use super::source::{is_test_file, without_test_module};

/// The folder whose modules are rooms.
const HOUSE: &str = "crates/broker/src/";
/// Its rooms, from the ground up: each may name those before it.
const ROOMS: [&str; 8] = [
    "runtime",
    "controller",
    "settings",
    "logs",
    "coordinators",
    "net",
    "api",
    "server",
];

/// Checks which rooms the file `name` with this text names.
pub(super) fn check(name: &str, text: &str, findings: &mut Vec<String>) {
    let Some(inside) = name.strip_prefix(HOUSE) else {
        return;
    };
    if inside == "lib.rs" || is_test_file(name) {
        return;
    }
    let room = inside.split('/').next().unwrap_or(inside);
    let room = room.strip_suffix(".rs").unwrap_or(room);
    let Some(height) = ROOMS.iter().position(|one| *one == room) else {
        findings.push(format!(
            "{name}: is in no room; they are {}",
            ROOMS.join(", ")
        ));
        return;
    };
    let code = without_test_module(text).lines();
    let code: String = code
        .map(|line| line.split("//").next().unwrap_or(line))
        .collect();
    for named in named_in_crate(&code) {
        let other = ROOMS.iter().position(|one| *one == named);
        if other.is_none_or(|other| other > height) {
            findings.push(format!(
                "{name}: `{room}` may not name `crate::{named}`, which is no room below it; give it \
                 what it needs as a value, or by a trait"
            ));
        }
    }
}

/// What follows `crate::` in this code, in groups too.
fn named_in_crate(code: &str) -> Vec<&str> {
    let mut named = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            None => named.push(identifier(rest)),
            Some(group) => named.extend(heads(group)),
        }
    }
    named
}

/// The first identifiers of the members of a group, up to its end.
fn heads(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut heads) = (0, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => {
                heads.push(identifier(group[start..at].trim_start()));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                heads.push(identifier(group[start..at].trim_start()));
                start = at + 1;
            }
            _ => {}
        }
    }
    heads.retain(|head| !head.is_empty());
    heads
}

fn identifier(text: &str) -> &str {
    let end = text.find(|one: char| !(one.is_alphanumeric() || one == '_'));
    &text[..end.unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        check(name, text, &mut findings);
        findings.len()
    }

    #[test]
    fn a_room_names_itself_and_those_below_it() {
        let logs = "crates/broker/src/logs/moves.rs";
        assert_eq!(count(logs, "use crate::logs::a; use crate::runtime::b;"), 0);
        assert_eq!(count(logs, "use crate::api::broker::Broker;"), 1);
        assert_eq!(count(logs, "use crate::{logs::a, net::{b, c}, api};"), 2);
        assert_eq!(count(logs, "fn f() { crate::server::g() }"), 1);
        assert_eq!(count(logs, "// crate::server"), 0);
        assert_eq!(
            count("crates/broker/src/server.rs", "use crate::api::a;"),
            0
        );
        assert_eq!(count("crates/broker/src/alarm.rs", ""), 1);
        assert_eq!(count("crates/storage/src/log.rs", "use crate::net;"), 0);
    }
}
