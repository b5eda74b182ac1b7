//! `riverrun dump-log` over a directory that a server has written.

use crate::process::{BINARY, Process};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use testkit::batch;

/// A directory with two batches in partition 0 of `topic`, and a group's offset.
fn written() -> trials::Directory {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[("log.index.interval.bytes", "0")]);
    let mut client = process.connect();
    client.create_topic("topic", 1, &[]);
    for values in [&["a", "b"][..], &["c"]] {
        client.produce("topic", 0, &batch(values)).assert_accepted();
    }
    process.stop();
    directory
}

fn dump(arguments: &[&str], path: &Path) -> Output {
    let mut command = Command::new(BINARY);
    command.arg("dump-log").args(arguments).arg(path);
    command.output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn batches_and_records_of_a_partition_are_shown() {
    let directory = written();
    let partition = directory.path().join("topic-0");
    let output = dump(&["--records"], &partition);
    assert!(output.status.success());
    let text = printed(&output);
    for expected in [
        "baseOffset: 0 lastOffset: 1 count: 2 ",
        "baseOffset: 2 lastOffset: 2 count: 1 ",
        "isvalid: true",
        "payload: b",
        "OFFSET  POSITION\n",
    ] {
        assert!(text.contains(expected), "{expected:?} misses in\n{text}");
    }
    let output = dump(&["--records", "--output", "json"], &partition);
    let lines = printed(&output);
    let rows: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let payloads: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["payload"].as_str())
        .collect();
    assert_eq!(payloads, ["a", "b", "c"]);
}

#[test]
fn metadata_is_shown_by_the_names_of_its_records() {
    let directory = written();
    let log = directory.path().join("__cluster_metadata-0");
    let output = dump(&["--records"], &log);
    assert!(output.status.success());
    let text = printed(&output);
    for expected in [
        r#"LeaderChange: {"version":"#,
        r#"payload: {"type":"REGISTER_BROKER_RECORD","version":"#,
        r#""data":{"name":"topic","topicId":""#,
    ] {
        assert!(text.contains(expected), "{expected:?} misses in\n{text}");
    }
}

#[test]
fn damage_is_found_and_fails_the_command() {
    let name = |extension: &str| format!("topic-0/00000000000000000000.{extension}");
    for (extension, at, expected) in [
        ("log", 70, "does not match the computed"),
        ("log", 3, "is below"),
        ("log", 16, "magic"),
        ("index", 6, "no batch starts at position"),
        ("index", 3, "ends with offset"),
        ("timeindex", 0, "above"),
    ] {
        let directory = written();
        let partition = directory.path().join("topic-0");
        let sound = dump(&["--verify"], &partition);
        assert!(sound.status.success(), "{}", printed(&sound));
        assert_eq!(printed(&sound), "");

        let path = directory.path().join(name(extension));
        let mut bytes = fs::read(&path).unwrap();
        bytes[at] ^= 0x80;
        fs::write(&path, bytes).unwrap();
        let damaged = dump(&["--verify"], &partition);
        let text = printed(&damaged);
        assert_eq!(damaged.status.code(), Some(1), "{extension} {at}");
        assert!(text.contains(expected), "{extension} {at}: {text}");
    }
}

#[test]
fn what_is_no_file_of_a_log_is_refused_by_name() {
    let directory = trials::directory();
    let other = directory.path().join("notes.txt");
    fs::write(&other, "x").unwrap();
    for (path, expected) in [
        (other.as_path(), "not the name of a log file"),
        (directory.path(), "no log is in it"),
        (
            &directory.path().join("00000000000000000000.log"),
            "No such file",
        ),
    ] {
        let output = dump(&[], path);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn a_log_directory_is_checked_with_every_partition_in_it() {
    let directory = written();
    let sound = dump(&["--verify"], directory.path());
    assert!(sound.status.success(), "{}", printed(&sound));
    let told = String::from_utf8(sound.stderr).unwrap();
    assert!(told.contains(" 0 faults"), "{told}");
    let path = directory.path().join("topic-0/00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[70] ^= 0x80;
    fs::write(&path, bytes).unwrap();
    let damaged = dump(&["--verify"], directory.path());
    assert_eq!(damaged.status.code(), Some(1));
    assert!(printed(&damaged).contains("does not match the computed"));
    let told = String::from_utf8(damaged.stderr).unwrap();
    assert!(told.contains(" files checked, 1 faults"), "{told}");
    // What is beside the logs is not enough to say that they are sound.
    let empty = trials::directory();
    fs::copy(
        directory.path().join("bootstrap.checkpoint"),
        empty.path().join("bootstrap.checkpoint"),
    )
    .unwrap();
    let nothing = dump(&["--verify"], empty.path());
    assert_eq!(nothing.status.code(), Some(1));
    let told = String::from_utf8(nothing.stderr).unwrap();
    let expected = "no log is in it, nor in a directory in it; name the directory of a partition";
    assert!(told.contains(expected), "{told}");
}
