//! What an operator finds in the log: the start, what changes, and who was turned away.

use crate::process::{BINARY, Process};
use model::ErrorCode;
use std::process::Command;
use testkit::{batch, wait_until};
use wire::messages::{FindCoordinatorRequest, FindCoordinatorResponse};

#[track_caller]
fn line_with(process: &Process, words: &[&str]) -> String {
    let mut found = None;
    wait_until(&words.join(" "), || {
        let log = process.log();
        let mut lines = log.lines();
        found = lines
            .find(|line| words.iter().all(|word| line.contains(word)))
            .map(str::to_owned);
        found.is_some()
    });
    found.unwrap()
}

fn run(process: &Process, arguments: &[&str]) {
    let mut command = Command::new(BINARY);
    command.args(arguments);
    command.env("RIVERRUN_BROKERS", process.address().to_string());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

#[test]
fn the_start_says_what_runs_where() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[("node.id", "7")]);
    let dirs = directory.path().display().to_string();
    let version = env!("CARGO_PKG_VERSION");
    line_with(&process, &["INFO", "starting", version, "node_id=7", &dirs]);
    let cluster = process.connect().cluster_id();
    line_with(&process, &["riverrun is ready", &cluster]);
    // At once, and not with the next request that the controller has.
    line_with(&process, &["a broker has registered", "broker_id=7"]);
    process.stop();
}

/// Its name is taken.
#[test]
fn an_orderly_stop_that_leaves_no_note_says_so() {
    let directory = trials::directory();
    let mut process = Process::start(directory.path(), &[]);
    let folder = directory.path().join("__cluster_metadata-0");
    for end_offset in 0..1_000 {
        std::fs::create_dir(folder.join(format!("{end_offset:020}.synced"))).unwrap();
    }
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0), "{}", process.log());
    let folder = folder.display().to_string();
    line_with(&process, &["WARN", "may not be noticed", &folder]);
}

#[test]
fn a_coordinators_topic_that_cannot_be_made_is_told_once_with_the_key() {
    let directory = trials::directory();
    let (offsets, transactions) = (
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
    );
    let process = Process::start(directory.path(), &[(offsets, "3"), (transactions, "2")]);
    let mut client = process.connect();
    for _ in 0..5 {
        for key_type in [0, 1] {
            let request = FindCoordinatorRequest {
                key: "k",
                key_type,
                ..FindCoordinatorRequest::default()
            };
            let answer = client.call(3, &request);
            let answer: FindCoordinatorResponse<'_> = answer.read();
            let error = ErrorCode::from_code(answer.error_code);
            assert_eq!(error, ErrorCode::CoordinatorNotAvailable);
        }
    }
    let refused = "cannot be created, so";
    let of_offsets = line_with(&process, &["WARN", refused, &format!("set `{offsets}`")]);
    assert!(of_offsets.contains("consumer groups do not work"));
    assert!(of_offsets.contains("__consumer_offsets"));
    let of_transactions = line_with(
        &process,
        &["WARN", refused, &format!("set `{transactions}`")],
    );
    assert!(of_transactions.contains("transactions do not work"));
    run(&process, &["topic", "create", "last"]);
    line_with(&process, &["topic created", "last"]);
    let log = process.log();
    assert_eq!(log.matches("__consumer_offsets").count(), 1, "{log}");
    assert_eq!(log.matches("__transaction_state").count(), 1, "{log}");
    process.stop();
}

#[test]
fn a_log_that_cannot_be_read_is_told_now_and_then() {
    const FETCHES: usize = 30;
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    client.create_topic("topic", 1, &[]);
    client
        .produce("topic", 0, &batch(&["value"]))
        .assert_accepted();
    process.stop();
    let process = Process::start(directory.path(), &[]);
    // The log is idle, and is not what it was.
    let segment = directory.path().join("topic-0/00000000000000000000.log");
    std::fs::write(segment, "nothing that anybody has written").unwrap();
    let mut client = process.connect();
    for _ in 0..FETCHES {
        let fetched = client.fetch("topic", 0, 0);
        assert_eq!(fetched.error, ErrorCode::KafkaStorageError);
    }
    line_with(&process, &["ERROR", "a log cannot be read", "topic-0"]);
    let log = process.log();
    let lines = log.lines().filter(|line| line.contains("ERROR"));
    assert!(lines.count() < FETCHES / 2, "{log}");
    process.stop();
}

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn changes_are_logged_and_secrets_are_not() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    run(&process, &["topic", "create", "t", "-p", "3"]);
    line_with(
        &process,
        &["INFO", "topic created", "\"t\"", "partitions=3"],
    );
    run(
        &process,
        &["config", "set", "topic", "t", "retention.ms=5000"],
    );
    line_with(
        &process,
        &["INFO", "configuration changed", "retention.ms=5000"],
    );
    run(&process, &["config", "unset", "topic", "t", "retention.ms"]);
    line_with(&process, &["configuration changed", "retention.ms unset"]);
    let secret = "listener.name.plaintext.ssl.key.password=hunter2";
    run(
        &process,
        &["config", "set", "broker", "1", secret, "num.io.threads=7"],
    );
    line_with(&process, &["configuration changed", "password=(hidden)"]);
    line_with(&process, &["INFO", "`num.io.threads` has no effect"]);
    line_with(&process, &["WARN", "ssl.key.password` has no effect"]);
    run(
        &process,
        &["config", "set", "broker", "1", "num.io.thread=7"],
    );
    line_with(
        &process,
        &["WARN", "`num.io.thread` is unknown", "`num.io.threads`"],
    );
    run(
        &process,
        &["quota", "set", "--user", "a", "producer_byte_rate=5"],
    );
    let words = ["INFO", "quota changed", "producer_byte_rate=5", "user"];
    line_with(&process, &words);
    run(
        &process,
        &["quota", "unset", "--user", "a", "producer_byte_rate"],
    );
    line_with(&process, &["quota changed", "producer_byte_rate unset"]);
    run(&process, &["user", "set", "a", "--password", "hunter2"]);
    let words = ["INFO", "credential set", "\"a\"", "SCRAM-SHA-512"];
    line_with(&process, &words);
    run(&process, &["user", "delete", "a"]);
    line_with(&process, &["INFO", "credential deleted", "\"a\""]);
    run(
        &process,
        &["cluster", "set-features", "group.version=0", "--downgrade"],
    );
    line_with(&process, &["INFO", "feature changed", "group.version"]);
    run(
        &process,
        &["config", "set", "logger", "1", "broker.net=DEBUG"],
    );
    line_with(&process, &["INFO", "log level changed", "broker.net"]);
    let known = process.log().matches("has no effect").count();
    run(&process, &["transaction", "fence", "new"]);
    line_with(&process, &["topic created", "__transaction_state"]);
    line_with(&process, &["configuration changed", "__transaction_state"]);
    assert_eq!(process.log().matches("has no effect").count(), known);
    run(&process, &["topic", "delete", "t"]);
    line_with(&process, &["INFO", "topic deleted", "\"t\""]);
    assert!(!process.log().contains("hunter2"), "{}", process.log());
    process.stop();
    let process = Process::start(directory.path(), &[]);
    line_with(
        &process,
        &["INFO", "set while the server ran", "num.io.threads"],
    );
    process.stop();
}

#[test]
fn who_is_turned_away_is_told_why() {
    let fetch_of_old = [0, 0, 0, 10, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0];
    let sasl_handshake = [0, 0, 0, 10, 0, 17, 0, 1, 0, 0, 0, 1, 0, 0];
    for (bytes, words) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (&fetch_of_old, "too old"),
        (&sasl_handshake, "SASL"),
        (&[0xff; 16], "-1 bytes"),
    ] {
        let directory = trials::directory();
        let process = Process::start(directory.path(), &[]);
        let mut client = process.connect();
        let peer = client.local_address().to_string();
        client.send_bytes(bytes);
        client.assert_closed();
        line_with(&process, &["WARN", "connection closed", &peer, words]);
        process.stop();
    }
}

#[test]
fn a_level_for_what_does_not_log_is_told() {
    let directory = trials::directory();
    for (given, word) in [("inof", "`inof`"), ("info,brker.net=debug", "`brker.net`")] {
        let process = Process::start_with_log(directory.path(), given);
        line_with(&process, &["WARN", "no logger is named", word]);
        process.stop();
    }
    let process = Process::start_with_log(
        directory.path(),
        "info,broker.logs.future_replicas=debug,storage=warn",
    );
    assert!(
        !process.log().contains("no logger is named"),
        "{}",
        process.log()
    );
    process.stop();
}

#[test]
fn the_cluster_id_of_the_environment_is_that_of_a_new_cluster() {
    let directory = trials::directory();
    let (first, other) = ("MkU3OEVBNTcwNTJENDM2Qg", "bGV0IHVzIGRhbmNlIG5vdw");
    let process = Process::start_with_cluster_id(directory.path(), first);
    assert_eq!(process.connect().cluster_id(), first);
    process.stop();
    let process = Process::start_with_cluster_id(directory.path(), other);
    assert_eq!(process.connect().cluster_id(), first);
    line_with(&process, &["WARN", "CLUSTER_ID", first]);
    process.stop();
    let mut command = Command::new(BINARY);
    let refused = command
        .arg("server")
        .env("CLUSTER_ID", "two words")
        .output();
    let refused = refused.unwrap();
    assert!(!refused.status.success());
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(
        error.contains("CLUSTER_ID") && error.contains("random-uuid"),
        "{error}"
    );
}

/// What a client calls itself may hold anything, and stays within its line.
#[test]
fn a_client_id_writes_no_lines_of_its_own() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect().named("me\nERROR forged\u{1b}[31m");
    let frame = client.frame_of(0, 99, true, &[]);
    client.send_bytes(&frame);
    client.assert_closed();
    let line = line_with(&process, &["connection closed", "Produce version 99"]);
    assert!(line.contains("me\\nERROR forged\\u{1b}[31m"), "{line}");
    let log = process.log();
    assert!(
        !log.lines().any(|line| line.starts_with("ERROR forged")),
        "{log}"
    );
    process.stop();
}
