//! What a crate without effects may not name: clocks, sockets, files, threads, randomness, and maps whose order
//! is random.
//!
//! Crates below layer 4 are pure unless they say why not. The files and folders that a crate names as its
//! `shell`, its build script and its programs are not held to it.

use super::source::Source;
use super::uses::paths;

/// Words that stand for an effect wherever they come from, and what to do instead.
const WORDS: &[(&str, &str)] = &[
    ("Barrier", WAITING),
    ("Condvar", WAITING),
    ("HashMap", "its order is random; use BTreeMap"),
    ("HashSet", "its order is random; use BTreeSet"),
    ("RandomState", RANDOM),
    ("TcpListener", SOCKETS),
    ("TcpStream", SOCKETS),
    ("ToSocketAddrs", SOCKETS),
    ("UdpSocket", SOCKETS),
    ("UnixDatagram", SOCKETS),
    ("UnixListener", SOCKETS),
    ("UnixStream", SOCKETS),
    ("elapsed", CLOCKS),
    ("mpsc", WAITING),
    ("recv", WAITING),
    ("recv_timeout", WAITING),
    ("stderr", STREAMS),
    ("stdin", STREAMS),
    ("stdout", STREAMS),
];
/// Modules of the standard library, and other people's crates.
const MODULES: &[(&[&str], &str)] = &[
    (&["std", "env"], "leave the environment to the shell"),
    (&["std", "fs"], "leave files to `storage::Disk`"),
    (&["std", "process"], "leave processes to the shell"),
    (&["std", "thread"], "leave threads to the shell"),
    (&["crossbeam"], WAITING),
    (&["crossbeam_channel"], WAITING),
    (&["fastrand"], RANDOM),
    (&["flume"], WAITING),
    (&["getrandom"], RANDOM),
    (&["libc"], "leave the operating system to the shell"),
    (&["rand"], RANDOM),
    (&["rand_core"], RANDOM),
    (&["rustix"], "leave the operating system to the shell"),
    (&["socket2"], SOCKETS),
    (&["tokio"], "leave tasks to the shell"),
];
const CLOCKS: &str = "take the time as an argument";
const RANDOM: &str = "take random numbers as an argument";
const SOCKETS: &str = "leave sockets to the broker and `connection`";
const STREAMS: &str = "leave what a program reads and prints to the shell";
const WAITING: &str = "leave waiting for other threads to the shell";

/// Checks a file of a pure crate.
pub(super) fn check(source: &Source, findings: &mut Vec<String>) {
    let name = &source.name;
    let is_program = name.ends_with("/src/main.rs") || name.contains("/examples/");
    if source.is_test || name.ends_with("/build.rs") || is_program {
        return;
    }
    let tokens = source.tokens();
    for (index, (at, word)) in tokens.iter().enumerate() {
        let is_clock = is_read_or_renamed(&tokens[..index], word, &tokens[index + 1..]);
        let banned = WORDS.iter().find(|(banned, _)| banned == word);
        if let Some((_, instead)) = banned.or(is_clock.then_some(&("", CLOCKS))) {
            findings.push(format!("{name}:{at}: `{word}`: {instead}"));
        }
    }
    for (at, path) in paths(&tokens) {
        // The number of an error is a value.
        if path.starts_with(&["rustix", "io", "Errno"]) {
            continue;
        }
        let banned = MODULES.iter().find(|(module, _)| {
            // An import of all that is around the module brings it too, and so does one of `std` itself.
            let around = path.strip_suffix(&["*"][..]).unwrap_or(&path);
            path.starts_with(module)
                || (around.len() < path.len() || path == ["std"]) && module.starts_with(around)
        });
        if let Some((_, instead)) = banned {
            findings.push(format!("{name}:{at}: `{}`: {instead}", path.join("::")));
        }
    }
}

/// Whether `word` is a clock that is read here, or gets a name by which it could be read unseen.
fn is_read_or_renamed(before: &[(usize, &str)], word: &str, after: &[(usize, &str)]) -> bool {
    if !matches!(word, "Instant" | "SystemTime") {
        return false;
    }
    let after = match after {
        [(_, ">"), after @ ..] => after,
        _ => after,
    };
    let of_path =
        |(_, word): &&(usize, &str)| *word == "::" || word.starts_with(char::is_alphanumeric);
    // Back over the path that ends in the clock.
    let begun = before.len() - before.iter().rev().take_while(of_path).count();
    let is_type = matches!(before[..begun], [.., (_, "type"), _, (_, "=")])
        && matches!(after, [(_, ";"), ..]);
    is_type || matches!(after, [(_, "as"), ..] | [(_, "::"), (_, "now"), ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_found_however_they_are_named() {
        let count = |name: &str, text: &str| {
            let mut findings = Vec::new();
            check(&Source::of(name, text), &mut findings);
            findings.len()
        };
        let code = "crates/x/src/a.rs";
        for effect in [
            "let now = Instant::now();",
            "let now = std::time::SystemTime::now();",
            "use std::time::Instant as Clock;",
            "use std::{fmt, time::{Duration, SystemTime as Clock}};",
            "type Clock = Instant;",
            "pub(crate) type Clock = std::time::Instant;",
            "let now = <Instant>::now();",
            "let now = <std::time::Instant as Clock>::now();",
            "let took = begun.elapsed();",
            "use std::collections::{BTreeMap, HashMap};",
            "use std::net::{IpAddr, TcpStream};",
            "use std::thread;",
            "std::thread::Builder::new()",
            "::std::thread::scope(f)",
            "use std::{fmt, thread as t};",
            "use std::{fmt, fs::{self}};",
            "use std::*;",
            "use std as s;",
            "use std::{self as s};",
            "pub(crate) use std::fs::File;",
            "getrandom::fill(bytes)",
            "use tokio::time::sleep;",
            "let seed = rand::random();",
            "fastrand::u64(..)",
            "use std::sync::{Arc, Condvar};",
            "use parking_lot::Condvar;",
            "use std::sync::mpsc::Receiver;",
            "let next = channel.recv();",
            "std::io::stdin().read_line(&mut line)",
            "rustix::io::read(file, bytes)",
            "use rustix::io::{Errno, read};",
        ] {
            assert!(count(code, effect) > 0, "{effect}");
            assert!(count("crates/x/src/rebuild.rs", effect) > 0, "{effect}");
            assert_eq!(count("crates/x/build.rs", effect), 0, "{effect}");
            assert_eq!(count(code, &format!("// {effect}\n\"{effect}\"")), 0);
            assert_eq!(
                count(code, &format!("#[cfg(test)]\nmod tests {{ {effect} }}")),
                0
            );
        }
        for plain in [
            "use std::collections::BTreeMap;",
            "use rustix::io::Errno;",
            "use std::{fmt, time::Instant};",
            "fn thread(fs: u8, now: Instant) {}",
            "type Deadlines = BTreeMap<u8, Instant>;",
            "impl Clock { type Now = u64; fn at() -> Vec<Instant> {} }",
            "self::thread::f(); crate::fs::g(); metadata::env::h();",
        ] {
            assert_eq!(count(code, plain), 0, "{plain}");
        }
    }
}
