//! Names for clusters, in a file of the user.

use crate::lab::Lab;
use crate::process::BINARY;
use expect_test::{Expect, expect};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(file: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command
        .args(arguments)
        .env("RIVERRUN_PROFILES", file)
        .env_remove("RIVERRUN_BROKERS")
        .env_remove("RIVERRUN_PROFILE");
    command.output().unwrap()
}

#[track_caller]
fn check(file: &Path, arguments: &[&str], expected: Expect) {
    let output = run(file, arguments);
    let (out, error) = (output.stdout, output.stderr);
    let printed = [out, error].concat();
    expected.assert_eq(&String::from_utf8(printed).unwrap());
}

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn a_profile_says_how_to_reach_a_cluster() {
    let lab = Lab::new();
    let directory = trials::directory();
    let file = directory.path().join("new").join("profiles");
    let servers = format!("bootstrap.servers={}", lab.process.address());
    check(
        &file,
        &["profile", "list"],
        expect![[r#"
        no profiles
    "#]],
    );
    check(
        &file,
        &["profile", "use", "here"],
        expect![[r#"
        error: no profile `here`: `riverrun profile set here bootstrap.servers=HOST:PORT` creates it
    "#]],
    );
    // A consumer's setting is nothing to other commands.
    check(
        &file,
        &["profile", "set", "here", &servers, "fetch.max.wait.ms=100"],
        expect![[r#"
            saved: here
        "#]],
    );
    check(
        &file,
        &["profile", "set", "nowhere", "bootstrap.servers=127.0.0.1:1"],
        expect![[r#"
            saved: nowhere
        "#]],
    );
    let created = run(&file, &["--profile", "here", "topic", "create", "t"]);
    assert!(created.status.success(), "{created:?}");
    check(
        &file,
        &["profile", "use", "here"],
        expect![[r#"
            in use: here
        "#]],
    );
    // A profile that is named goes before brokers of the environment.
    let asked = |profile: &str, timeout: &str| {
        let mut command = Command::new(BINARY);
        command
            .args(["topic", "list", "--timeout", timeout, "--profile", profile])
            .env("RIVERRUN_PROFILES", &file)
            .env("RIVERRUN_BROKERS", lab.process.address().to_string());
        command.output().unwrap().status.success()
    };
    assert!(asked("here", "30s") && !asked("nowhere", "300ms"));
    check(
        &file,
        &["profile", "set", "here", "bootstrap.server=x:1"],
        expect![[r#"
            error: `bootstrap.server`: there is no such setting; did you mean `bootstrap.servers`?
        "#]],
    );
    check(
        &file,
        &["profile", "set", "here", "bootstrap.servers=x"],
        expect![[r#"
            error: `bootstrap.servers`: `x` is not `host:port`, such as `localhost:9092`
        "#]],
    );
    let listed = run(&file, &["topic", "list"]);
    assert!(listed.status.success(), "{listed:?}");
    let nowhere = ["topic", "list", "--timeout", "300ms"];
    assert!(
        !run(&file, &[&nowhere[..], &["--profile", "nowhere"]].concat())
            .status
            .success()
    );
    assert!(
        !run(&file, &[&nowhere[..], &["-b", "127.0.0.1:1"]].concat())
            .status
            .success()
    );
    check(
        &file,
        &["topic", "list", "--profile", "other"],
        expect![[r#"
            error: no profile `other`; there are: here, nowhere
        "#]],
    );
    check(
        &file,
        &["profile", "set", "a b", "x=1"],
        expect![[r#"
        error: `a b`: a profile's name has letters, digits, `.`, `_`, `-`
    "#]],
    );
    check(
        &file,
        &["profile", "show", "nowhere"],
        expect![[r#"
        KEY                VALUE
        bootstrap.servers  127.0.0.1:1
    "#]],
    );
    check(
        &file,
        &["profile", "delete", "here"],
        expect![[r#"
            deleted: here
        "#]],
    );
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "[nowhere]\nbootstrap.servers=127.0.0.1:1\n"
    );
    // What was written by hand is held to the same.
    fs::write(&file, "[here]\nlinger=5\n").unwrap();
    check(
        &file,
        &["topic", "list", "--profile", "here"],
        expect![[r#"
            error: `linger`: there is no such setting; did you mean `linger.ms`?
        "#]],
    );
    fs::write(&file, "here\n").unwrap();
    let broken = run(&file, &["topic", "list"]);
    let broken = String::from_utf8(broken.stderr).unwrap();
    let expected = "line 1: write it as KEY=VALUE or [NAME]\n";
    assert!(broken.ends_with(expected), "{broken}");
}
