//! Records that are written and read by commands.

use crate::lab::Lab;
use expect_test::expect;
use std::io::{BufRead, BufReader, Write};
use std::process::Command;

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn records_go_in_and_come_out() {
    let lab = Lab::new();
    let created = lab.run(&["topic", "create", "t"], "");
    assert!(created.status.success());
    lab.prints_from(
        &["produce", "t", "-K", ":", "-H", "h=1"],
        "a:1\nb:2\n",
        expect![[""]],
    );
    let json =
        r#"{"key":"c","valueBase64":"/w==","headers":[{"key":"x","value":null}],"timestamp":7}"#;
    lab.prints_from(
        &["produce", "t", "--input", "json", "-z", "zstd"],
        json,
        expect![[""]],
    );
    lab.prints(
        &[
            "consume",
            "t",
            "--exit",
            "--format",
            "%t-%p@%o %k=%v{hex} %h\\n",
        ],
        expect![[r#"
            t-0@0 a=31 h=1
            t-0@1 b=32 h=1
            t-0@2 c=ff x=
        "#]],
    );
    lab.prints(
        &["consume", "t", "--offset", "-2:2"],
        expect![[r#"
        2
    "#]],
    );
    lab.prints(
        &["consume", "t", "--offset", "+1", "-n", "1", "-f", "%k"],
        expect!["b"],
    );
    let printed = lab.run(&["consume", "t", "--exit", "--output", "json"], "");
    let printed = String::from_utf8(printed.stdout).unwrap();
    let created = lab.run(&["topic", "create", "copy"], "");
    assert!(created.status.success());
    lab.prints_from(
        &["produce", "copy", "--input", "json"],
        &printed,
        expect![[""]],
    );
    let copied = lab.run(&["consume", "copy", "--exit", "--output", "json"], "");
    let copied = String::from_utf8(copied.stdout).unwrap();
    assert_eq!(
        copied,
        printed.replace("\"topic\":\"t\"", "\"topic\":\"copy\"")
    );
    lab.fails(
        &["consume", "none", "--exit"],
        expect![[r#"
            error: topic `none` does not exist
        "#]],
    );
    lab.fails(
        &["consume", "t", "-p", "9"],
        expect![[r#"
        error: topic `t` has no partition 9; it has 1
    "#]],
    );
    lab.fails(&["consume", "t", "--offset", "@noon"], expect![[r#"
        error: invalid value '@noon' for '--offset <FROM[:TO]>': `noon` is not a valid time; use milliseconds since 1970, 2026-11-21 or 2026-11-21T08:30:00Z

        For more information, try '--help'.
    "#]]);
    lab.fails(&["consume", "t", "--format", "%q"], expect![[r#"
        error: invalid value '%q' for '--format <FORMAT>': `%q` is none of %t %p %o %e %k %K %v %V %d %D %h %H %%

        For more information, try '--help'.
    "#]]);
}

#[test]
fn records_get_new_partitions_unless_they_are_to_keep_theirs() {
    let lab = Lab::new();
    for (topic, partitions) in [("t", "4"), ("narrow", "1"), ("same", "4")] {
        let created = lab.run(&["topic", "create", topic, "-p", partitions], "");
        assert!(created.status.success());
    }
    let produced = lab.run(&["produce", "t", "-p", "3"], "1\n2\n");
    assert!(produced.status.success());
    let printed = lab.run(&["consume", "t", "--exit", "--output", "json"], "");
    let printed = String::from_utf8(printed.stdout).unwrap();
    lab.prints_from(
        &["produce", "narrow", "--input", "json"],
        &printed,
        expect![[""]],
    );
    let keep = ["produce", "same", "--input", "json", "--keep-partitions"];
    lab.prints_from(&keep, &printed, expect![[""]]);
    lab.prints(
        &["consume", "same", "-e", "-f", "%p %v\\n"],
        expect![[r"
            3 1
            3 2
        "]],
    );
    lab.prints(
        &["consume", "narrow", "-e", "-f", "%p %v\\n"],
        expect![[r"
            0 1
            0 2
        "]],
    );
}

#[test]
fn a_transaction_that_is_interrupted_is_aborted() {
    let lab = Lab::new();
    let mut child = lab.spawn(&["produce", "t", "-t", "tx", "-v"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"one\n").unwrap();
    // Where it was written is shown once it is in the transaction.
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    shown.read_line(&mut line).unwrap();
    assert!(line.contains("topic: t"), "{line}");
    let id = child.id().to_string();
    let sent = Command::new("kill").args(["-s", "INT", &id]).status();
    assert!(sent.unwrap().success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    drop(input);
    let listed = lab.run(&["transaction", "list", "--output", "json"], "");
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(!listed.contains("Ongoing"), "{listed}");
    lab.prints(
        &["consume", "t", "--exit", "-i", "read_committed"],
        expect![[""]],
    );
}
