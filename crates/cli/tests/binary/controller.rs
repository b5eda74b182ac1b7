//! A process that is a controller and no broker.

use crate::process::{BINARY, Process};
use std::path::Path;
use std::process::{Command, Output};
use testkit::batch;

fn start(directory: &Path, port: u16) -> Process {
    let listeners = format!("CONTROLLER://127.0.0.1:{port}");
    let keys = [
        ("process.roles", "controller"),
        ("node.id", "3000"),
        ("listeners", &*listeners),
    ];
    Process::start(directory, &keys)
}

/// A broker in a directory of its own, whose controller listens on a port.
fn start_broker(directory: &Path, controller_port: u16, keys: &[(&str, &str)]) -> Process {
    let quorum = format!("127.0.0.1:{controller_port}");
    let mut all = vec![
        ("process.roles", "broker"),
        ("node.id", "1"),
        ("controller.quorum.bootstrap.servers", &*quorum),
    ];
    all.extend(keys);
    Process::start(&directory.join("broker"), &all)
}

fn refused(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = Command::new(BINARY).args(arguments).output().unwrap();
    assert_eq!(status.code(), Some(1));
    String::from_utf8(stderr).unwrap()
}

#[test]
fn a_controller_is_stopped_and_killed_while_a_broker_lives_by_it() {
    let directory = trials::directory();
    let path = directory.path().join("controller");
    let mut controller = start(&path, 0);
    let port = controller.address().port();
    let broker = start_broker(directory.path(), port, &[]);
    let mut client = broker.connect();
    client.create_topic("topic", 1, &[]);
    client.wait_for_topic("topic");
    for is_killed in [true, false] {
        if is_killed {
            controller.kill();
        } else {
            controller.stop();
        }
        client.produce("topic", 0, &batch(&["a"])).assert_accepted();
        controller = start(&path, port);
        client.create_topic(&format!("after-{is_killed}"), 1, &[]);
    }
    assert_eq!(client.fetch("topic", 0, 0).values(), ["a", "a"]);
    broker.stop();
    controller.stop();
}

/// However short the broker's own requests are.
#[test]
fn a_request_is_passed_on_to_a_controller_that_is_yet_to_come() {
    let directory = trials::directory();
    let path = directory.path().join("controller");
    let controller = start(&path, 0);
    let port = controller.address().port();
    let broker = start_broker(directory.path(), port, &[("request.timeout.ms", "1")]);
    let mut client = broker.connect();
    controller.kill();
    let asking = std::thread::spawn(move || client.create_topic("topic", 1, &[]));
    let controller = start(&path, port);
    asking.join().unwrap();
    broker.stop();
    controller.stop();
}

#[test]
fn what_a_controller_cannot_have_is_refused() {
    let role = ["server", "--set", "process.roles=controller"];
    for (more, words) in [
        (
            &["listeners=PLAINTEXT://127.0.0.1:0"][..],
            "process.roles=controller",
        ),
        (
            &["listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"],
            "controller.listener.names",
        ),
        (
            &["controller.quorum.voters=7@127.0.0.1:9093"],
            "controller.quorum.voters",
        ),
    ] {
        let sets = more.iter().flat_map(|one| ["--set", one]);
        let arguments: Vec<&str> = role.into_iter().chain(sets).collect();
        let told = refused(&arguments);
        assert!(told.contains(words), "{told}");
    }
}
