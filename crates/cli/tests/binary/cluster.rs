//! The cluster as commands describe it, and one that is not there.

use crate::lab::Lab;
use crate::process::BINARY;
use expect_test::expect;
use std::process::{Command, Stdio};

#[test]
fn the_cluster_is_described() {
    let lab = Lab::new();
    let info = lab.run(&["cluster", "info", "--output", "json"], "");
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(info["address"], lab.process.address().to_string());
    assert_eq!(info["controller"], true);
    let quorum = lab.run(&["cluster", "quorum", "--output", "json"], "");
    let quorum: serde_json::Value = serde_json::from_slice(&quorum.stdout).unwrap();
    assert_eq!(quorum["role"], "leader");
    lab.prints(
        &["cluster", "features"],
        expect![[r#"
            FEATURE                           FINALIZED  SUPPORTED-MIN  SUPPORTED-MAX  RELEASE
            eligible.leader.replicas.version  1          0              1              -
            group.version                     1          0              1              -
            kraft.version                     1          0              1              -
            metadata.version                  30         7              30             4.3-IV0
            share.version                     1          0              1              -
            streams.version                   1          0              1              -
            transaction.version               2          0              2              -
        "#]],
    );
    let produced = lab.run(&["produce", "t"], "1\n");
    assert!(produced.status.success());
    lab.prints(&["cluster", "health"], expect![[""]]);
    let directories = lab.run(
        &["cluster", "log-dirs", "--partitions", "--output", "json"],
        "",
    );
    let text = String::from_utf8(directories.stdout).unwrap();
    assert!(text.contains("\"topic\":\"t\",\"partition\":0"), "{text}");
}

#[test]
fn a_cluster_that_is_not_there_is_named() {
    for (arguments, expected) in [
        (
            &["cluster", "info", "-b", "127.0.0.1:1", "--timeout", "100ms"][..],
            "127.0.0.1:1",
        ),
        (&["topic", "list", "-b", "nowhere"][..], "--brokers"),
        (
            &["--bootstrap-server", "nowhere", "topic", "list"][..],
            "--brokers",
        ),
        (
            &["-b", "127.0.0.1:1", "--timeout", "100ms", "topic", "list"][..],
            "check `--brokers`",
        ),
        (
            &[
                "consume",
                "t",
                "-g",
                "g",
                "-b",
                "127.0.0.1:1",
                "--timeout",
                "100ms",
            ][..],
            "check `--brokers`",
        ),
        (
            &["topic", "list", "-X", "linger.ms=5"][..],
            "`linger.ms` = `5`: this command does not use this setting",
        ),
        (
            &["topic", "list", "--timeout", "5"][..],
            "is not a valid duration",
        ),
        (
            &["produce", "t", "-b", "127.0.0.1:1", "--timeout", "100ms"][..],
            "127.0.0.1:1",
        ),
        (
            &["consume", "t", "-b", "127.0.0.1:1", "--timeout", "100ms"][..],
            "127.0.0.1:1",
        ),
    ] {
        let output = Command::new(BINARY)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
