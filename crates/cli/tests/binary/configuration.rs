//! Configuration that cannot be, and what is said of it.

use crate::process::{BINARY, Process};
use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(BINARY);
    command.args(arguments).envs(environment.iter().copied());
    command.output().unwrap()
}

/// Expects a failure that says each of `words`, and no more than a line for each error.
#[track_caller]
fn assert_fails(arguments: &[&str], environment: &[(&str, &str)], words: &[&str]) {
    let output = run(arguments, environment);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(output.stdout.is_empty());
    for word in words {
        assert!(text.contains(word), "no `{word}` in:\n{text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

fn file(directory: &Path, text: &str) -> String {
    let path = directory.join("server.properties");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_wrong_value_is_told_with_its_key_and_what_is_allowed() {
    for (pair, words) in [
        (
            "num.partitions=many",
            &["--set", "num.partitions", "many", "INT"][..],
        ),
        ("num.partitions=0", &["num.partitions", "0", "1"]),
        (
            "log.cleanup.policy=burn",
            &["log.cleanup.policy", "burn", "compact, delete"],
        ),
        ("compression.type=rar", &["compression.type", "rar", "zstd"]),
        (
            "auto.create.topics.enable=maybe",
            &["maybe", "true", "false"],
        ),
        ("listeners=nowhere", &["listeners", "nowhere"]),
        ("listeners=PLAINTEXT://h:99999", &["listeners", "99999"]),
        ("log.dirs=", &["log.dirs"]),
        ("process.roles=king", &["process.roles", "king"]),
    ] {
        assert_fails(&["server", "--set", pair], &[], words);
    }
}

#[test]
fn every_wrong_value_is_told_at_once() {
    let directory = trials::directory();
    let text = "# a comment\nnum.partitions=many\nlog.retention.ms=soon\n";
    let path = file(directory.path(), text);
    assert_fails(
        &["server", &path, "--set", "log.segment.bytes=1"],
        &[("KAFKA_MIN_INSYNC_REPLICAS", "none")],
        &[
            &format!("{path} line 2"),
            &format!("{path} line 3"),
            "--set",
            "log.segment.bytes",
            "KAFKA_MIN_INSYNC_REPLICAS",
            "min.insync.replicas",
        ],
    );
}

#[test]
fn a_file_in_latin_1_is_read_as_java_reads_it() {
    let directory = trials::directory();
    let path = file(directory.path(), "");
    let text = b"# M\xfcnchen, caf\xe9\nlog.dirs=/data/\xfc\nnum.partitions=many\nlog.cleanup.policy=\xfc\n";
    std::fs::write(&path, text).unwrap();
    let line = format!("{path} line 3");
    assert_fails(
        &["server", &path],
        &[],
        &[&line, "num.partitions", "value \u{fc} "],
    );
}

#[test]
fn a_set_that_is_no_pair_is_told() {
    for pair in ["foo", "", "=1", " =1"] {
        let quoted = format!("`--set {pair}`");
        assert_fails(&["server", "--set", pair], &[], &[&quoted, "KEY=VALUE"]);
    }
}

/// As Kafka's start script has it.
#[test]
fn an_override_goes_before_the_file() {
    let directory = trials::directory();
    let path = file(directory.path(), "num.partitions=many\n");
    let of_file = format!("{path} line 1");
    assert_fails(&["server", &path], &[], &[&of_file]);
    let output = run(
        &[
            "server",
            &path,
            "--override",
            "num.partitions=0",
            "--override",
            "log.retention.ms=soon",
        ],
        &[],
    );
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!text.contains(&of_file), "{text}");
    for word in ["num.partitions", "at least 1", "log.retention.ms", "soon"] {
        assert!(text.contains(word), "no `{word}` in:\n{text}");
    }
}

#[test]
fn help_has_a_line_for_the_output() {
    let output = run(&["topic", "list", "--help"], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.contains("--output <FORMAT>"));
    let line = line.unwrap_or_default();
    for word in ["text for people", "json for programs", "[default: text]"] {
        assert!(line.contains(word), "no `{word}` in:\n{text}");
    }
    assert!(!text.contains("ossible values"), "{text}");
}

#[test]
fn a_file_that_cannot_be_read_is_told() {
    let directory = trials::directory();
    let missing = directory.path().join("missing.properties");
    let missing = missing.display().to_string();
    assert_fails(&["server", &missing], &[], &[&missing, "No such file"]);
    let advice = "to set a key, write `--set num.partitions=3`";
    assert_fails(&["server", "num.partitions=3"], &[], &[advice]);
    let folder = directory.path().display().to_string();
    assert_fails(&["server", &folder], &[], &[&folder]);
    let path = directory.path().join("noise.properties");
    std::fs::write(&path, [0xff, 0xfe, 0xfd]).unwrap();
    let path = path.display().to_string();
    assert_fails(&["server", &path], &[], &[&path]);
    let path = file(directory.path(), "key=\\u12\n");
    assert_fails(&["server", &path], &[], &[&path, "line 1"]);
}

#[test]
fn a_key_that_nobody_knows_is_a_warning_with_the_nearest_one() {
    let directory = trials::directory();
    let data = directory.path().join("data");
    let keys = [
        ("log.retention.hour", "5"),
        ("utterly.foreign.thing.of.somebody", "1"),
        ("zookeeper.connect", "localhost:2181"),
    ];
    let process = Process::start(&data, &keys);
    let log = process.log();
    let line = |word: &str| {
        let found = log.lines().find(|line| line.contains(word));
        found.unwrap_or_else(|| panic!("no `{word}` in:\n{log}"))
    };
    assert!(line("`log.retention.hour`").contains("did you mean `log.retention.hours`?"));
    assert!(line("`log.retention.hour`").contains("WARN"));
    assert!(line("`utterly.foreign").contains("unknown and ignored"));
    assert!(!line("`utterly.foreign").contains("did you mean"));
    assert!(line("`zookeeper.connect`").contains("no effect"));
    process.stop();
}

/// What a server that is given these keys says of those without effect.
fn told_of(directory: &Path, keys: &[(&str, &str)]) -> Vec<String> {
    let process = Process::start(&directory.join("data"), keys);
    let log = process.log();
    process.stop();
    let lines = log.lines().filter(|line| line.contains("no effect"));
    lines.map(str::to_owned).collect()
}

#[test]
fn keys_without_effect_are_told_for_each_reason() {
    let directory = trials::directory();
    let lines = told_of(
        directory.path(),
        &[
            ("num.io.threads", "4"),
            ("num.network.threads", "2"),
            ("metrics.num.samples", "3"),
        ],
    );
    let [metrics, threads] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(metrics.contains("WARN") && metrics.contains("`metrics.num.samples` has no effect"));
    assert!(threads.contains("INFO"), "{threads}");
    assert!(threads.contains("`num.io.threads`, `num.network.threads` have no effect"));
    assert!(threads.contains("TOKIO_WORKER_THREADS"), "{threads}");
}

/// What Kafka's own `server.properties` and the files of its container image set.
#[test]
fn the_keys_that_everybody_has_are_not_told() {
    let directory = trials::directory();
    let lines = told_of(
        directory.path(),
        &[
            ("process.roles", "broker,controller"),
            ("node.id", "1"),
            (
                "listeners",
                "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            ),
            ("controller.listener.names", "CONTROLLER"),
            ("controller.quorum.voters", "1@localhost:9093"),
            ("inter.broker.listener.name", "PLAINTEXT"),
            (
                "listener.security.protocol.map",
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,\
                 SASL_SSL:SASL_SSL",
            ),
            ("num.network.threads", "3"),
            ("num.io.threads", "8"),
            ("socket.send.buffer.bytes", "102400"),
            ("socket.receive.buffer.bytes", "102400"),
            ("socket.request.max.bytes", "104857600"),
            ("num.partitions", "1"),
            ("num.recovery.threads.per.data.dir", "2"),
            ("offsets.topic.replication.factor", "1"),
            ("transaction.state.log.replication.factor", "1"),
            ("transaction.state.log.min.isr", "1"),
            ("share.coordinator.state.topic.replication.factor", "1"),
            ("share.coordinator.state.topic.min.isr", "1"),
            ("group.initial.rebalance.delay.ms", "0"),
            ("log.retention.hours", "168"),
            ("log.segment.bytes", "1073741824"),
            ("log.retention.check.interval.ms", "300000"),
        ],
    );
    assert_eq!(lines, [] as [String; 0]);
}

#[test]
fn a_start_that_takes_longer_than_it_may_is_given_up() {
    let directory = trials::directory();
    let dirs = format!("log.dirs={}", directory.path().display());
    let arguments = [
        "server",
        "--set",
        &dirs,
        "--set",
        "listeners=PLAINTEXT://127.0.0.1:0",
        "--set",
        "server.max.startup.time.ms=0",
    ];
    assert_fails(&arguments, &[], &["server.max.startup.time.ms (0)"]);
}

#[test]
fn what_does_not_work_yet_is_told() {
    let map = "listener.security.protocol.map=SSL:SSL,CONTROLLER:PLAINTEXT";
    let listeners = "listeners=SSL://127.0.0.1:0";
    assert_fails(
        &["server", "--set", listeners, "--set", map],
        &[],
        &["SSL", "PLAINTEXT"],
    );
    let alone = [
        "server",
        "--set",
        "process.roles=controller",
        "--set",
        "listeners=CONTROLLER://127.0.0.1:0",
        "--set",
        "controller.quorum.voters=1@localhost:9093,2@localhost:9094",
    ];
    assert_fails(&alone, &[], &["names other nodes", "Apache Kafka"]);
    let map = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL";
    let elsewhere = "controller.quorum.bootstrap.servers=127.0.0.1:1";
    let role = ["server", "--set", "process.roles=broker"];
    assert_fails(
        &[&role[..], &["--set", elsewhere, "--set", map]].concat(),
        &[],
        &[
            "controllers are reached over the listener CONTROLLER",
            "SSL",
        ],
    );
    assert_fails(&role, &[], &["controller.quorum.bootstrap.servers"]);
    let output = run(&["server", "--set", "controller.listener.names=CTRL"], &[]);
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: no entry of `listeners` has the name `CTRL` (`controller.listener.names`), which a \
         node with the role controller needs\n"
    );
}

#[test]
fn a_command_that_does_not_exist_is_told_with_the_right_one() {
    let output = run(&["serve"], &[]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("server"), "{text}");
    assert!(run(&["--version"], &[]).status.success());
    assert!(run(&["server", "--help"], &[]).status.success());
}
