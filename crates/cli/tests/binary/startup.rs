//! Starts that are cut short by a kill at any moment.

use crate::process::{BINARY, Process};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use testkit::{batch, wait_until};

/// Moments of a start at which it is killed.
const MOMENTS: u32 = 24;

fn spawn(directory: &Path) -> Child {
    let dirs = format!("log.dirs={}", directory.display());
    let mut command = Command::new(BINARY);
    command.args(["server", "--set", &dirs]);
    command.args(["--set", "listeners=PLAINTEXT://127.0.0.1:0"]);
    command.args(["--set", "offsets.topic.num.partitions=1"]);
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// Ends starts in `directory` with a signal, at moments spread over the time that one takes.
fn end_starts(signal: &str, directory: impl Fn(u32) -> std::path::PathBuf) {
    let scratch = trials::directory();
    let start = Instant::now();
    Process::start(scratch.path(), &[]).kill();
    let whole = start.elapsed();
    for moment in 0..MOMENTS {
        let mut child = spawn(&directory(moment));
        // The moment is the point: whatever the start has come to by then is what is tested.
        std::thread::sleep(whole * moment / MOMENTS);
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(sent.unwrap().success());
        let mut status = None;
        wait_until("the start has ended", || {
            status = child.try_wait().unwrap();
            status.is_some()
        });
        // Nothing but the signal ends it.
        assert!(matches!(status.unwrap().code(), None | Some(0)));
    }
}

#[test]
fn a_start_that_is_killed_loses_nothing() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    client.create_topic("topic", 3, &[]);
    for index in 0..3 {
        client
            .produce("topic", index, &batch(&["one", "two"]))
            .assert_accepted();
    }
    let cluster = client.cluster_id();
    // Once after an orderly stop, and from then on after a kill.
    process.stop();
    end_starts("TERM", |_| directory.path().to_owned());
    end_starts("KILL", |_| directory.path().to_owned());
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    assert_eq!(client.cluster_id(), cluster);
    for index in 0..3 {
        assert_eq!(client.fetch("topic", index, 0).values(), ["one", "two"]);
        client
            .produce("topic", index, &batch(&["three"]))
            .assert_accepted();
    }
    process.stop();
}

#[test]
fn a_first_start_that_is_killed_can_be_repeated() {
    let root = trials::directory();
    end_starts("KILL", |moment| root.path().join(moment.to_string()));
    for moment in 0..MOMENTS {
        let process = Process::start(&root.path().join(moment.to_string()), &[]);
        process.connect().create_topic("topic", 1, &[]);
        process.kill();
    }
}
