//! What is logged, and how a client changes that while the server runs.

use crate::process::{BINARY, Process, address};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use testkit::{Client, wait_until};
use wire::messages::IncrementalAlterConfigsRequest;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};

/// Sets the level of a logger of broker 1.
fn set(process: &Process, logger: &str, level: &str) {
    let request = IncrementalAlterConfigsRequest {
        resources: [AlterConfigsResource {
            resource_type: 8,
            resource_name: "1",
            configs: [AlterableConfig {
                name: logger,
                config_operation: 0,
                value: Some(level),
            }]
            .into_iter()
            .collect(),
        }]
        .into_iter()
        .collect(),
        ..Default::default()
    };
    process.connect().call(1, &request);
}

/// Leaves within a request: the connection's end is logged at DEBUG.
fn leave_early(process: &Process) {
    let mut client = process.connect();
    client.send_bytes(&[0, 0, 0, 9, 0]);
}

/// Sends what is no request: the first refusal is logged at WARN, those after it at DEBUG.
fn send_garbage(process: &Process) {
    let mut client = process.connect();
    client.send_bytes(&[0xff; 16]);
    client.assert_closed();
}

#[test]
fn levels_are_told_at_the_start() {
    for (given, logged, silent) in [
        ("", "INFO", "DEBUG"),
        (
            "warn,broker.net=debug,riverrun=info",
            "connection lost",
            "wrong",
        ),
        (
            "error,broker::net=debug,riverrun=info",
            "connection lost",
            "wrong",
        ),
        (
            "info,broker.nett=debug",
            "no logger is named `broker.nett`",
            "DEBUG",
        ),
        (
            "info,broker=louder",
            "`RIVERRUN_LOG=info,broker=louder`",
            "DEBUG",
        ),
    ] {
        let directory = trials::directory();
        let process = Process::start_with_log(directory.path(), given);
        leave_early(&process);
        wait_until(logged, || process.log().contains(logged));
        assert!(
            !process.log().contains(silent),
            "{given}: {}",
            process.log()
        );
        process.stop();
    }
}

#[test]
fn a_level_that_a_client_sets_holds_at_once() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let refusals = || process.log().matches("connection closed").count();
    send_garbage(&process);
    wait_until("the refusal is logged", || refusals() == 1);
    set(&process, "broker.net", "DEBUG");
    wait_until("the change is logged", || {
        process
            .log()
            .contains("logger=\"broker.net\" level=\"DEBUG\"")
    });
    send_garbage(&process);
    wait_until("the next refusal is logged", || refusals() == 2);
    set(&process, "broker.net", "FATAL");
    send_garbage(&process);
    set(&process, "broker.net", "DEBUG");
    send_garbage(&process);
    wait_until("the one after that is logged", || refusals() == 3);
    process.stop();
}

#[test]
fn a_log_that_nobody_takes_does_no_harm() {
    let directory = trials::directory();
    let dirs = format!("log.dirs={}", directory.path().display());
    let mut command = Command::new(BINARY);
    command.args(["server", "--set", &dirs]);
    command.args(["--set", "listeners=PLAINTEXT://127.0.0.1:0"]);
    command.env("RIVERRUN_LOG", "trace");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = String::new();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    while !log.contains("riverrun is ready") {
        assert!(lines.read_line(&mut log).unwrap() > 0, "{log}");
    }
    // From here on each line fails.
    drop(lines);
    let mut client = Client::connect(address(&log));
    for number in 0..10 {
        let mut garbage = Client::connect(address(&log));
        garbage.send_bytes(&[0xff; 16]);
        garbage.assert_closed();
        client.create_topic(&format!("topic-{number}"), 1, &[]);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
