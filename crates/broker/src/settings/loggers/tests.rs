//! Scripts of changes, and the levels that they lead to.

use super::*;
use std::sync::Arc;

fn operation(operation: i8, name: &str, value: Option<&str>) -> ConfigOperation {
    ConfigOperation {
        operation,
        name: name.to_owned(),
        value: value.map(str::to_owned),
    }
}

/// Applies operations to the loggers of a process that starts with `broker` at WARN. Expects
/// their error, and the levels of `root`, `broker`, `broker.net` and `model`, and that these are
/// the levels applied.
#[track_caller]
fn check(operations: &[ConfigOperation], error: Option<(ErrorCode, &str)>, expected: [&str; 4]) {
    let applied = Arc::new(Mutex::new(Levels::new()));
    let seen = applied.clone();
    let start = Levels::from([("broker".to_owned(), LevelFilter::WARN)]);
    let loggers = Loggers::new(start, move |levels| *seen.lock() = levels.clone());
    let outcome = loggers.alter(operations, false);
    let told = outcome.err().map(|one| (one.code, one.message));
    let wanted = error.map(|(code, words)| (code, Some(words.to_owned())));
    assert_eq!(told, wanted);
    let described: BTreeMap<_, _> = loggers.describe().into_iter().collect();
    let names = [ROOT, "broker", "broker.net", "model"];
    assert_eq!(names.map(|name| described[name]), expected);
    let applied = applied.lock();
    if !applied.is_empty() {
        assert_eq!(
            names.map(|name| level_name(level_of(&applied, name))),
            expected
        );
    }
}

const SET: i8 = 0;
const DELETE: i8 = 1;

#[test]
fn a_logger_has_its_own_level_or_that_of_the_one_it_lies_in() {
    check(&[], None, ["INFO", "WARN", "WARN", "INFO"]);
    let set = |name, value| operation(SET, name, Some(value));
    check(
        &[set("broker.net", "DEBUG")],
        None,
        ["INFO", "WARN", "DEBUG", "INFO"],
    );
    check(
        &[set("root", "ERROR"), operation(DELETE, "broker", None)],
        None,
        ["ERROR"; 4],
    );
    check(
        &[set("broker", "FATAL")],
        None,
        ["INFO", "FATAL", "FATAL", "INFO"],
    );
    check(
        &[operation(DELETE, "model", None)],
        None,
        ["INFO", "WARN", "WARN", "INFO"],
    );
}

#[test]
fn what_is_wrong_changes_nothing() {
    let unchanged = ["INFO", "WARN", "WARN", "INFO"];
    let right = operation(SET, "broker", Some("TRACE"));
    for (wrong, code, words) in [
        (
            operation(SET, "nobody", Some("INFO")),
            ErrorCode::InvalidConfig,
            "Logger nobody does not exist!",
        ),
        (
            operation(DELETE, "", None),
            ErrorCode::InvalidConfig,
            "Logger  does not exist!",
        ),
        (
            operation(SET, "model", Some("debug")),
            ErrorCode::InvalidConfig,
            "Cannot set the log level of model to debug as it is not a supported log level. Valid \
             log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (
            operation(SET, "model", None),
            ErrorCode::InvalidRequest,
            "Null value not supported for : model",
        ),
        (
            operation(DELETE, "root", None),
            ErrorCode::InvalidRequest,
            "Removing the log level of the root logger is not allowed",
        ),
        (
            operation(2, "model", Some("INFO")),
            ErrorCode::InvalidRequest,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            operation(3, "nobody", Some("INFO")),
            ErrorCode::InvalidRequest,
            "SUBTRACT operation is not allowed for the BROKER_LOGGER resource",
        ),
        (
            operation(SET, "broker", Some("INFO")),
            ErrorCode::InvalidRequest,
            "Error due to duplicate config keys",
        ),
    ] {
        check(&[right.clone(), wrong], Some((code, words)), unchanged);
    }
    let loggers = Loggers::default();
    let unknown = loggers.alter(&[operation(9, "root", Some("INFO"))], false);
    assert_eq!(unknown.unwrap_err().code, ErrorCode::UnknownServerError);
    loggers.alter(&[right], true).unwrap();
    assert!(loggers.describe().iter().all(|(_, level)| *level == "INFO"));
}

/// Every crate that logs has a logger, and every room of the broker that does with its modules, and no
/// logger is the name of nothing.
#[test]
fn the_loggers_are_those_of_the_sources() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    for one in std::fs::read_dir(&crates).unwrap() {
        let directory = one.unwrap().path();
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        let name = match &*name {
            "cli" => "riverrun",
            "client" => "riverrun_client",
            // No part of the program.
            "streams" => continue,
            name => name,
        };
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml"));
        let dependencies = manifest.unwrap_or_default();
        if dependencies.contains("\ntracing.workspace") {
            found.insert(name.to_owned());
        }
    }
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = |path: &std::path::Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten();
        entries.map(|one| one.unwrap().path()).collect::<Vec<_>>()
    };
    let stem = |path: &std::path::Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    for room in entries(&sources).into_iter().filter(|room| logs(room)) {
        found.insert(format!("broker.{}", stem(&room)));
        for module in entries(&room).into_iter().filter(|module| logs(module)) {
            found.insert(format!("broker.{}.{}", stem(&room), stem(&module)));
        }
    }
    // The room's own file.
    found.retain(|name| !name.ends_with(".mod"));
    let named: BTreeSet<_> = LOGGERS.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(named, found);
}

/// Whether a file logs, or one in a directory.
fn logs(path: &std::path::Path) -> bool {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap();
        return entries.into_iter().any(|one| logs(&one.unwrap().path()));
    }
    let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
    let text = std::fs::read_to_string(path).unwrap();
    let levels = ["error", "warn", "info", "debug", "trace"];
    let mut levels = levels.map(|level| format!("tracing::{level}!")).into_iter();
    !is_test && levels.any(|call| text.contains(&call))
}
