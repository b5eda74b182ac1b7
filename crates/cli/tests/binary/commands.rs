//! The commands of operators against a running server.

use crate::process::{BINARY, Process};
use expect_test::{Expect, expect};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

/// A server, and commands that talk to it.
pub(crate) struct Lab {
    pub(crate) process: Process,
    directory: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// A server with these settings.
    pub(crate) fn with(keys: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            process: Process::start(directory.path(), keys),
            directory,
        }
    }

    pub(crate) fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new(BINARY);
        command
            .args(arguments)
            .env("RIVERRUN_BROKERS", self.process.address().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A command that does not read has ended by now.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    /// What a command prints, apart from random ids.
    #[track_caller]
    pub(crate) fn prints(&self, arguments: &[&str], expected: Expect) {
        self.prints_from(arguments, "", expected);
    }

    #[track_caller]
    pub(crate) fn prints_from(&self, arguments: &[&str], input: &str, expected: Expect) {
        let output = self.run(arguments, input);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {error}");
        expected.assert_eq(&String::from_utf8(output.stdout).unwrap());
    }

    /// A command that fails, and what it says.
    #[track_caller]
    pub(crate) fn fails(&self, arguments: &[&str], expected: Expect) {
        let output = self.run(arguments, "");
        assert!(!output.status.success(), "{arguments:?}");
        expected.assert_eq(&String::from_utf8(output.stderr).unwrap());
    }
}

#[test]
fn topics_live_and_die() {
    let lab = Lab::new();
    let created = lab.run(
        &[
            "topic",
            "create",
            "a",
            "b",
            "-p",
            "2",
            "-c",
            "retention.ms=1000",
        ],
        "",
    );
    assert!(created.status.success());
    lab.fails(
        &["topic", "create", "a"],
        expect![[r#"
        error: topic `a`: TOPIC_ALREADY_EXISTS: Topic 'a' already exists.
    "#]],
    );
    let again = lab.run(&["topic", "create", "a", "--if-not-exists"], "");
    assert!(again.status.success());
    let listed = lab.run(&["topic", "list", "--output", "json"], "");
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names: Vec<serde_json::Value> = listed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(names[0]["topic"], "a");
    assert_eq!(names[1]["partitions"], 2);
    lab.prints(
        &["config", "get", "topic", "a", "retention.ms"],
        expect![[r#"
            KEY           VALUE  SOURCE                READ-ONLY
            retention.ms  1000   DYNAMIC_TOPIC_CONFIG  false
        "#]],
    );
    lab.prints(
        &["topic", "add-partitions", "b", "--to", "3"],
        expect![[r#"
            TOPIC  PARTITIONS
            b      3
        "#]],
    );
    lab.fails(
        &["topic", "add-partitions", "b", "--to", "1"],
        expect![[r#"
            error: topic `b`: INVALID_PARTITIONS: The topic b currently has 3 partition(s); 1 would not be an increase.
        "#]],
    );
    lab.prints(
        &["topic", "delete", "a"],
        expect![[r#"
        DELETED
        a
    "#]],
    );
    lab.fails(
        &["topic", "delete", "a", "c"],
        expect![[r#"
            error: topic `a` does not exist
            error: topic `c` does not exist
        "#]],
    );
    lab.fails(
        &["topic", "describe", "a"],
        expect![[r#"
            error: topic `a` does not exist
        "#]],
    );
    lab.prints(&["topic", "delete", "a", "--if-exists"], expect![[""]]);
}

#[test]
fn configuration_is_set_and_unset() {
    let lab = Lab::new();
    lab.prints(
        &["config", "set", "broker", "1", "log.retention.ms=5000"],
        expect![[""]],
    );
    lab.prints(
        &["config", "get", "broker", "1", "log.retention.ms"],
        expect![[r#"
            KEY               VALUE  SOURCE                 READ-ONLY
            log.retention.ms  5000   DYNAMIC_BROKER_CONFIG  false
        "#]],
    );
    lab.prints(
        &["config", "unset", "broker", "1", "log.retention.ms"],
        expect![[""]],
    );
    lab.prints(
        &["config", "get", "broker", "1", "log.retention.ms"],
        expect![[r#"
            KEY               VALUE  SOURCE          READ-ONLY
            log.retention.ms  -      DEFAULT_CONFIG  false
        "#]],
    );
    lab.fails(
        &["config", "set", "broker", "1", "log.retention.ms=soon"],
        expect![[r#"
            error: broker `1`: INVALID_REQUEST: Invalid value soon for configuration log.retention.ms: Not a number of type LONG
        "#]],
    );
    lab.fails(
        &["config", "get", "topic", "none"],
        expect![[r#"
            error: topic `none` does not exist
        "#]],
    );
}

#[test]
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
fn a_group_goes_on_where_it_was() {
    let lab = Lab::new();
    let produced = lab.run(&["produce", "t"], "1\n2\n3\n4\n");
    assert!(produced.status.success());
    lab.prints(
        &["consume", "t", "--group", "g", "-n", "1"],
        expect![[r#"
        1
    "#]],
    );
    lab.prints(
        &["consume", "t", "--group", "g", "-n", "2"],
        expect![[r#"
        2
        3
    "#]],
    );
    lab.prints(
        &["group", "describe", "g"],
        expect![[r#"
        Group g: Empty, 0 members, assignor -
        TOPIC  PARTITION  COMMITTED-OFFSET  LOG-END-OFFSET  LAG  MEMBER  HOST
        t      0          3                 4               1    -       -
    "#]],
    );
    lab.prints(
        &["group", "seek", "g", "--to", "start"],
        expect![[r#"
        TOPIC  PARTITION  OFFSET
        t      0          0
    "#]],
    );
    lab.prints(
        &["consume", "t", "--group", "g", "-n", "4"],
        expect![[r#"
        1
        2
        3
        4
    "#]],
    );
    lab.prints(
        &["group", "list"],
        expect![[r#"
        GROUP  STATE  TYPE     PROTOCOL  COORDINATOR
        g      Empty  classic  consumer  1
    "#]],
    );
    lab.prints(
        &["group", "delete", "g"],
        expect![[r#"
        DELETED
        g
    "#]],
    );
    lab.fails(
        &["group", "describe", "g"],
        expect![[r#"
            error: no group `g`
        "#]],
    );
    lab.fails(
        &["group", "seek", "g", "--to", "end"],
        expect![[r#"
        error: group `g` has no offsets: name the topics with `--topics`
    "#]],
    );
}

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
            FEATURE                           FINALIZED  SUPPORTED-MIN  SUPPORTED-MAX
            eligible.leader.replicas.version  1          0              1
            group.version                     1          0              1
            kraft.version                     1          0              1
            metadata.version                  30         7              30
            share.version                     1          0              1
            streams.version                   1          0              1
            transaction.version               2          0              2
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
        (&["topic", "list", "-X", "linger.ms=5"][..], "linger.ms"),
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

#[test]
fn loads_are_measured_and_drawn() {
    let lab = Lab::new();
    let plot = lab.directory.path().join("plot.svg");
    let plot = plot.to_str().unwrap();
    for command in [
        &["bench", "produce", "-n", "2000", "-p", "2", "--size", "100"][..],
        &["bench", "consume"],
        &["bench", "latency", "-n", "50", "--rate", "1000"],
        // Settings of a producer and of a consumer.
        &[
            "bench",
            "latency",
            "-n",
            "50",
            "--rate",
            "1000",
            "-X",
            "linger.ms=1",
            "-X",
            "fetch.max.wait.ms=100",
        ],
    ] {
        let mut arguments = command.to_vec();
        arguments.extend(["--output", "json", "--plot", plot]);
        let output = lab.run(&arguments, "");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{command:?}: {error}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["bench"], command[1]);
        let expected = if command[1] == "latency" { 50 } else { 2000 };
        assert_eq!(report["records"], expected);
        let latency = |name: &str| report["latency"][name].as_f64().unwrap();
        assert!(latency("p50") <= latency("p99") && latency("p99") <= latency("max"));
        let svg = std::fs::read_to_string(plot).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}

#[test]
fn settings_that_contradict_each_other_or_are_nobodys_are_named() {
    let lab = Lab::new();
    let refused = |settings: &[&str], expected: &str| {
        let mut arguments = vec!["bench", "latency", "-n", "1"];
        arguments.extend(settings.iter().flat_map(|setting| ["-X", *setting]));
        let output = lab.run(&arguments, "");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{settings:?}");
        assert!(error.contains(expected), "{settings:?}: {error}");
    };
    refused(&["lingr.ms=1"], "`lingr.ms`");
    refused(
        &["linger.ms=200", "delivery.timeout.ms=30100"],
        "`delivery.timeout.ms` = `30100`: must be at least 30200: `linger.ms` = 200 and \
         `request.timeout.ms` = 30000",
    );
    // The time of `--timeout` comes after that of `linger.ms`.
    let output = lab.run(&["produce", "lingering", "-X", "linger.ms=20000"], "one\n");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
}

#[test]
fn quotas_and_users() {
    let lab = Lab::new();
    lab.prints(
        &["quota", "set", "--user", "alice", "producer_byte_rate=1024"],
        expect![""],
    );
    lab.prints(
        &["quota", "set", "--default", "user", "request_percentage=50"],
        expect![""],
    );
    lab.prints(
        &["quota", "list", "--user", "alice"],
        expect![[r"
            USER   CLIENT-ID  IP  KEY                 VALUE
            alice  -          -   producer_byte_rate  1024
        "]],
    );
    lab.prints(
        &["quota", "list", "--default", "user", "--output", "json"],
        expect![[r#"
            {"user":"<default>","clientId":null,"ip":null,"key":"request_percentage","value":50}
        "#]],
    );
    lab.prints(
        &["quota", "unset", "--user", "alice", "producer_byte_rate"],
        expect![""],
    );
    lab.prints(&["quota", "list", "--user", "alice"], expect![""]);
    lab.fails(
        &["quota", "set", "producer_byte_rate=1024"],
        expect![[r"
            error: say whom it is for: `--user`, `--client-id`, `--ip` or `--default`
        "]],
    );
    lab.fails(
        &[
            "quota",
            "set",
            "--user",
            "alice",
            "--default",
            "user",
            "request_percentage=50",
        ],
        expect![[r"
            error: `--user` and `--default user` exclude each other
        "]],
    );
    lab.fails(
        &["quota", "list", "--ip", "::1", "--default", "user"],
        expect![[r"
            error: a quota is for an address, or for users and client ids, never for both
        "]],
    );
    lab.prints_from(&["user", "set", "alice"], "secret\n", expect![""]);
    lab.prints(
        &["user", "list"],
        expect![[r"
            USER   MECHANISM      ITERATIONS
            alice  SCRAM-SHA-512  8192
        "]],
    );
    lab.prints(&["user", "delete", "alice"], expect![""]);
    lab.prints(&["user", "list"], expect![""]);
    lab.fails(
        &["user", "set", "alice"],
        expect![[r#"
            error: no password: write it as the first line of standard input, or set RIVERRUN_PASSWORD
        "#]],
    );
}

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

/// Starts a command that reads from a pipe.
fn spawn(lab: &Lab, arguments: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command
        .args(arguments)
        .env("RIVERRUN_BROKERS", lab.process.address().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn a_transaction_that_is_interrupted_is_aborted() {
    let lab = Lab::new();
    let mut child = spawn(&lab, &["produce", "t", "-t", "tx", "-v"]);
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

#[test]
fn nobody_is_left_without_a_word() {
    let lab = Lab::new();
    let tells = |arguments: &[&str], expected: &str| {
        let output = lab.run(arguments, "");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains(expected), "{arguments:?}: {told}");
        output.status.success()
    };
    for (arguments, expected) in [
        (
            &["transaction", "list", "--state", "CompletCommit"][..],
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
        "transactional id `nobody` did not exist: it was made"
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
    assert!(!tells(
        &["consume", "t", "-o", "100:2"],
        "`--offset` ends before it starts"
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

#[test]
fn a_member_of_a_group_stops_at_the_end() {
    let lab = Lab::new();
    let created = lab.run(&["topic", "create", "t", "-p", "3"], "");
    assert!(created.status.success());
    for (records, expected) in [("1\n2\n3\n", 3), ("4\n", 1), ("", 0)] {
        let produced = lab.run(&["produce", "t"], records);
        assert!(produced.status.success());
        let output = lab.run(&["consume", "t", "-g", "g", "--exit"], "");
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.lines().count(), expected, "{printed}");
    }
}

#[test]
fn patterns_stand_for_topics() {
    let lab = Lab::new();
    for topic in ["orders-a", "orders-b", "other"] {
        let produced = lab.run(&["produce", topic], &format!("{topic}\n"));
        assert!(produced.status.success());
    }
    let consumed = lab.run(&["consume", "orders-[ab]", "-e"], "");
    let consumed = String::from_utf8(consumed.stdout).unwrap();
    let lines: BTreeSet<_> = consumed.lines().collect();
    assert_eq!(lines, BTreeSet::from(["orders-a", "orders-b"]));
    let described = lab.run(&["topic", "describe", "or.*", "--output", "json"], "");
    let described = String::from_utf8(described.stdout).unwrap();
    assert_eq!(described.lines().count(), 2, "{described}");
    let described = lab.run(&["topic", "describe", "or.*"], "");
    let described = String::from_utf8(described.stdout).unwrap();
    let topics: Vec<&str> = described.split("\n\n").collect();
    assert_eq!(topics.len(), 2, "{described}");
    assert!(topics.iter().all(|topic| topic.contains("LOG-END-OFFSET")));
    lab.fails(
        &["topic", "describe", "no+ne"],
        expect![[r"
            error: `no+ne` matches no topic
        "]],
    );
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
fn completions_may_be_cut_short() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "\"$0\" completion bash | head -1", BINARY]);
    let output = shell.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error, "");
}
