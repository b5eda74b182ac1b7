//! What commands say to whoever mistypes, expects too much, or hears nothing.

use crate::lab::Lab;
use crate::process::BINARY;
use expect_test::expect;
use std::process::Command;

#[test]
fn what_newcomers_type_is_understood_or_explained() {
    let lab = Lab::new();
    lab.prints(&["--output", "json", "topic", "list"], expect![""]);
    let created = lab.run(&["--timeout=20s", "topic", "create", "t"], "");
    assert!(created.status.success(), "{created:?}");
    lab.fails(
        &["config", "get", "topic", "t", "retention"],
        expect![[r"
            error: there is no key `retention`: `--all` shows those there are
        "]],
    );
    lab.fails(
        &["dump-log", "/nonexistent/00000000000000000000.log"],
        expect![[r"
            error: `/nonexistent/00000000000000000000.log`: No such file or directory (os error 2)
        "]],
    );
    lab.prints(
        &["group", "reset", "g", "--to", "start", "--topic", "t"],
        expect![[r"
            TOPIC  PARTITION  OFFSET
            t      0          0
        "]],
    );
    lab.prints(&["transaction", "find-hanging"], expect![""]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn nobody_is_left_without_a_word() {
    let lab = Lab::new();
    let tells = |arguments: &[&str], expected: &str| {
        let output = lab.run(arguments, "");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(expected), "{arguments:?}: {told}");
        output.status.success()
    };
    for (arguments, expected) in [
        (&["topic", "describe"][..], "|--all>"),
        (&["group", "describe"], "|--all>"),
        (&["partition", "elect"], "|--all>"),
        (
            &["transaction", "list", "--state", "CompletCommit"],
            "unknown state; use one of Empty, Ongoing, ",
        ),
        (
            &["group", "list", "--state", "Empy"],
            "unknown state; use one of PreparingRebalance, ",
        ),
        (
            &["config", "set", "broker", "2", "log.retention.ms=1"],
            "broker 2 is not in the cluster",
        ),
        (
            &["config", "unset", "broker", "1", "log.retention.ms"],
            "`log.retention.ms` is not set",
        ),
        (
            &["quota", "unset", "--user", "bob", "producer_byte_rate"],
            "quota `producer_byte_rate` is not set",
        ),
        (
            &["produce", "t", "--transactional-id", ""],
            "`--transactional-id` is empty",
        ),
        (
            &["consume", "t", "-o", "yesterday"],
            "`yesterday` is not a valid offset; use start, end, 100, -10, +10, @-1h or",
        ),
    ] {
        assert!(!tells(arguments, expected));
    }
    assert!(tells(
        &["transaction", "fence", "nobody"],
        "transactional id `nobody` did not exist: it was created"
    ));
    assert!(tells(&["topic", "list"], "no topics"));
    assert!(tells(&["group", "list"], "no groups"));
    assert!(tells(&["quota", "list"], "no quotas"));
    assert!(tells(&["user", "list"], "no credentials"));
    assert!(tells(
        &["config", "set", "broker", "1", "log.retention.ms=5000"],
        "changed: log.retention.ms"
    ));
    assert!(tells(
        &["config", "set", "broker", "1", "num.io.thread=7"],
        "did you mean `num.io.threads`"
    ));
    assert!(tells(
        &["quota", "set", "--user", "a", "producer_byte_rate=1"],
        "changed: producer_byte_rate"
    ));
    let produced = lab.run(&["produce", "t"], "1\n2\n");
    assert!(produced.status.success());
    assert!(tells(
        &["consume", "t", "-o", "99999", "-e"],
        "t-0 ends at offset 2"
    ));
    let backwards = lab.run(&["consume", "t", "-o", "100:2"], "");
    assert_eq!(
        String::from_utf8(backwards.stderr).unwrap(),
        "error: `--offset` ends before it starts: write it as FROM:TO\n"
    );
    assert!(!tells(
        &["bench", "produce", "-n", "0"],
        "must be at least 1"
    ));
    for before in ["end", "-0", "+2", "+1000", "2", "@-0s"] {
        assert!(!tells(
            &["topic", "trim", "t", "--before", before],
            "say so with `--yes`"
        ));
    }
    assert!(!tells(
        &["topic", "trim", "t", "--before", "1000", "--yes"],
        "t-0 ends at offset 2: there is no offset 1000"
    ));
    assert!(tells(
        &["group", "seek", "g", "--topics", "t", "--to", "99999"],
        "t-0 ends at offset 2: there is no offset 99999; 2 is the nearest"
    ));
    lab.prints(
        &["consume", "t", "-e"],
        expect![[r"
        1
        2
    "]],
    );
    assert!(!tells(
        &["topic", "trim", "t", "1"],
        "did you mean `--before 1`?"
    ));
    assert!(tells(&["topic", "trim", "t", "--before", "1"], ""));
    // That is deleted already.
    assert!(tells(&["topic", "trim", "t", "--before", "0"], ""));
    lab.prints(&["consume", "t", "-e"], expect![["2\n"]]);
    assert!(tells(
        &["topic", "trim", "t", "--before", "end", "--yes"],
        ""
    ));
    lab.prints(&["consume", "t", "-e"], expect![[""]]);
}

/// Whether a command succeeds that says something like this.
#[track_caller]
fn says(lab: &Lab, arguments: &[&str], input: &str, expected: &str) -> bool {
    let output = lab.run(arguments, input);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains(expected), "{arguments:?}, {input}: {told}");
    output.status.success()
}

#[test]
fn values_that_cannot_be_are_told_with_those_that_can() {
    let lab = Lab::new();
    let produced = lab.run(&["produce", "t"], "1\n");
    assert!(produced.status.success());
    for (arguments, expected) in [
        (
            &["cluster", "set-features", "group.version"][..],
            "`group.version`: write it as FEATURE=LEVEL",
        ),
        (
            &["cluster", "set-features", "metadata.version=9.9"],
            "`9.9` is not a release known here; use 3.3 to 4.3, or a level",
        ),
        (
            &["cluster", "set-features", "group.version=one"],
            "`one` is not a valid level; use a whole number",
        ),
        (
            &["quota", "set", "--user", "a", "producer_byte_rate=much"],
            "`much` is not a valid number",
        ),
        (
            &["consume", "t", "-g", "g", "-o", "5"],
            "with `--group`, `--offset` may only be `start` or `end`",
        ),
        (
            &["consume", "t", "--timeout", "soon"],
            "`soon` is not a valid duration; use 500ms, 90s, 15m, 1h or 7d",
        ),
        (
            &["produce", "t", "-K", ""],
            "an empty text separates nothing",
        ),
        (
            &["group", "delete-offsets", "g", "t"],
            "group `g` has no offsets for t",
        ),
    ] {
        assert!(!says(&lab, arguments, "", expected), "{arguments:?}");
    }
    for (record, expected) in [
        (r#"{"headers":5}"#, "has `headers`, which is not a list"),
        (
            r#"{"headers":[5]}"#,
            "has a header that is not an object with `key` and `value`",
        ),
        (
            r#"{"headers":[{"key":5}]}"#,
            "has a header whose `key` is not a string",
        ),
        (
            r#"{"key":"a","keyBase64":"YQ=="}"#,
            "has both `key` and `keyBase64`",
        ),
    ] {
        let produce = ["produce", "t", "--input", "json"];
        assert!(!says(&lab, &produce, record, expected), "{record}");
    }
}

#[test]
fn what_is_only_checked_is_said_to_be() {
    let lab = Lab::new();
    lab.prints(
        &["topic", "create", "t", "-p", "2", "--dry-run"],
        expect![[r"
            valid: topic `t`, 2 partitions, 1 replica (not created)
        "]],
    );
    for (arguments, expected) in [
        (
            &[
                "config",
                "set",
                "group",
                "g",
                "consumer.session.timeout.ms=50000",
                "--dry-run",
            ][..],
            "could be changed: consumer.session.timeout.ms",
        ),
        (
            &[
                "quota",
                "set",
                "--user",
                "a",
                "producer_byte_rate=1",
                "--dry-run",
            ],
            "could be changed: producer_byte_rate",
        ),
    ] {
        assert!(says(&lab, arguments, "", expected), "{arguments:?}");
    }
    lab.prints(&["quota", "list"], expect![""]);
    lab.prints(&["config", "get", "group", "g"], expect![""]);
    assert!(says(
        &lab,
        &["config", "get", "group", "g"],
        "",
        "no keys are set; `--all` shows those with their defaults"
    ));
    lab.prints(&["topic", "list"], expect![""]);
}

#[test]
fn completions_may_be_cut_short() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$0\" completion bash | head -1", BINARY]);
    let output = shell.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error, "");
}
