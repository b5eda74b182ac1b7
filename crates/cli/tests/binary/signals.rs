//! How a server ends, and what is left of it.

use crate::process::Process;
use testkit::{batch, wait_until};

const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";

#[test]
fn a_signal_to_stop_is_an_orderly_end() {
    for signal in ["TERM", "INT", "HUP"] {
        let directory = trials::directory();
        let mut process = Process::start(directory.path(), &[]);
        process.connect().create_topic("topic", 1, &[]);
        process.signal(signal);
        assert_eq!(process.wait().code(), Some(0), "{}", process.log());
        wait_until("its last words have come", || {
            process.log().contains("stopped")
        });
        assert!(directory.path().join(CLEAN_SHUTDOWN).exists());
    }
}

#[test]
fn a_signal_that_ends_no_jvm_does_not_end_a_server() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    process.signal("QUIT");
    wait_until("the signal is told of", || {
        process.log().contains("SIGQUIT does not stop the server")
    });
    process.signal("XFSZ");
    process.connect().create_topic("topic", 1, &[]);
    process.stop();
    assert!(directory.path().join(CLEAN_SHUTDOWN).exists());
}

#[test]
fn a_server_that_outlives_its_terminal_goes_on() {
    let directory = trials::directory();
    let process = Process::start_without_hangup(directory.path());
    process.signal("HUP");
    process.connect().create_topic("topic", 1, &[]);
    process.stop();
}

#[test]
fn a_process_that_is_killed_leaves_every_acknowledged_record() {
    let directory = trials::directory();
    let mut expected = Vec::new();
    for round in 0..3 {
        let process = Process::start(directory.path(), &[]);
        let mut client = process.connect();
        client.create_topic_if_missing("topic");
        if round > 0 {
            assert_eq!(client.fetch("topic", 0, 0).values(), expected);
        }
        for number in 0..20 {
            let value = format!("{round}-{number}");
            client
                .produce("topic", 0, &batch(&[&value]))
                .assert_accepted();
            expected.push(value);
        }
        process.kill();
        assert!(!directory.path().join(CLEAN_SHUTDOWN).exists());
    }
}

#[test]
fn producers_do_not_keep_a_server_from_an_orderly_end() {
    let directory = trials::directory();
    let mut process = Process::start(directory.path(), &[]);
    process.connect().create_topic("topic", 1, &[]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = process.connect();
            scope.spawn(move || {
                let value = batch(&["value"]);
                // Until the server is gone.
                while client.produce_if_open("topic", 0, &value).is_some() {}
            });
        }
        process.signal("TERM");
        assert_eq!(process.wait().code(), Some(0));
    });
    let log = process.log();
    assert!(!log.contains("ERROR") && !log.contains("WARN"), "{log}");
    assert!(directory.path().join(CLEAN_SHUTDOWN).exists());
}
