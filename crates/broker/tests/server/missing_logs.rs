//! Logs that are not where they were, or do not say whose they are: nobody leads an empty log in their place, and
//! with the log everything is there again.

use crate::directory::names_ending;
use crate::log_directories::leaders;
use model::{BrokerId, ErrorCode};
use std::fs;
use std::path::{Path, PathBuf};
use testkit::{TestServer, batch, wait_until};

const METADATA: &str = "partition.metadata";
const CHECKPOINT: &str = "replication-offset-checkpoint";
const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
const SETTLED: &str = "settled-logs";
const OFTEN: [(&str, &str); 1] = [("replica.high.watermark.checkpoint.interval.ms", "20")];

/// Leaves `topic-0` with three records, `other-0` with one and `empty-0` with none.
fn three_topics(directory: &Path, stops_in_order: bool) {
    let server = TestServer::start_in(directory, &OFTEN).unwrap();
    let mut client = server.connect();
    for (topic, values) in [
        ("topic", &["old"; 3][..]),
        ("other", &["whole"]),
        ("empty", &[]),
    ] {
        client.create_topic(topic, 1, &[]);
        for value in values {
            client.produce(topic, 0, &batch(&[value])).assert_accepted();
        }
    }
    wait_until("the checkpoint has the records", || {
        let text = fs::read_to_string(directory.join(CHECKPOINT)).unwrap_or_default();
        text.contains("topic 0 3")
    });
    match stops_in_order {
        true => server.stop(),
        false => server.crash(),
    }
}

/// Starts twice, as the first start notes what it has found. Nobody leads `topic-0`, the rest is as it was.
#[track_caller]
fn assert_not_led(directory: &Path) {
    for stops_in_order in [false, true] {
        let server = TestServer::start_in(directory, &[]).unwrap();
        let mut client = server.connect();
        let nobody = (ErrorCode::LeaderNotAvailable, BrokerId::NONE);
        assert_eq!(leaders(&mut client, "topic"), [nobody]);
        let refused = ErrorCode::NotLeaderOrFollower;
        assert_eq!(client.fetch("topic", 0, 0).error, refused);
        let produced = client.produce("topic", 0, &batch(&["new"]));
        assert_eq!(produced.error, refused);
        assert_eq!(client.fetch("other", 0, 0).values(), ["whole"]);
        assert_eq!(client.fetch("empty", 0, 0).values(), [""; 0]);
        assert_eq!(names_ending(directory, "-stray"), [""; 0]);
        match stops_in_order {
            true => server.stop(),
            false => server.crash(),
        }
    }
}

/// Starts, and expects these records.
#[track_caller]
fn assert_led(directory: &Path, values: &[&str]) {
    let server = TestServer::start_in(directory, &[]).unwrap();
    let mut client = server.connect();
    assert_eq!(client.fetch("topic", 0, 0).values(), values);
    client
        .produce("topic", 0, &batch(&["new"]))
        .assert_accepted();
    server.stop();
}

/// What is done to the log of `topic-0`, after an orderly stop and after a crash.
fn each_way(run: impl Fn(&Path, PathBuf)) {
    for stops_in_order in [true, false] {
        println!("orderly stop: {stops_in_order}");
        let directory = trials::directory();
        three_topics(directory.path(), stops_in_order);
        run(directory.path(), directory.path().join("topic-0"));
    }
}

#[test]
fn a_log_that_does_not_say_whose_it_is_stays_and_has_no_leader() {
    for damage in ["", "noise", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA"] {
        each_way(|directory, log| {
            fs::write(log.join(METADATA), damage).unwrap();
            assert_not_led(directory);
            fs::remove_file(log.join(METADATA)).unwrap();
            assert_led(directory, &["old"; 3]);
        });
    }
}

#[test]
fn nobody_leads_where_a_log_was_until_it_is_back() {
    each_way(|directory, log| {
        let away = directory.join("away");
        fs::rename(&log, &away).unwrap();
        assert_not_led(directory);
        assert!(!log.exists());
        fs::rename(&away, &log).unwrap();
        assert_led(directory, &["old"; 3]);
    });
}

fn recovery_points(directory: &Path) -> String {
    fs::read_to_string(directory.join(RECOVERY_POINTS)).unwrap_or_default()
}

/// The metadata may not hear of the loss before the next crash.
#[test]
fn what_shows_that_a_log_is_lost_outlives_the_start_that_finds_it() {
    each_way(|directory, log| {
        let away = directory.join("away");
        fs::rename(&log, &away).unwrap();
        TestServer::start_in(directory, &OFTEN).unwrap().crash();
        assert!(recovery_points(directory).contains("topic 0 3"));
        fs::remove_file(directory.join(SETTLED)).ok();
        assert_not_led(directory);
        let server = TestServer::start_in(directory, &OFTEN).unwrap();
        let mut client = server.connect();
        assert_eq!(client.delete_topic("topic"), ErrorCode::None);
        client.create_topic("topic", 1, &[]);
        // Of the lost log it has got nothing.
        assert!(!recovery_points(directory).contains("topic 0 3"));
        client
            .produce("topic", 0, &batch(&["first"]))
            .assert_accepted();
        server.crash();
        assert_led(directory, &["first"]);
    });
}

/// Apache Kafka stops in order, too, and writes no `settled-logs`.
#[test]
fn checkpoints_tell_of_a_lost_log_after_an_orderly_stop_of_another_program() {
    let directory = trials::directory();
    three_topics(directory.path(), true);
    fs::remove_file(directory.path().join(SETTLED)).unwrap();
    fs::remove_dir_all(directory.path().join("topic-0")).unwrap();
    assert_not_led(directory.path());
}

#[test]
fn an_empty_directory_says_that_a_log_is_lost_for_good() {
    each_way(|directory, log| {
        fs::remove_dir_all(&log).unwrap();
        assert_not_led(directory);
        fs::create_dir(&log).unwrap();
        assert_led(directory, &[]);
        assert_led(directory, &["new"]);
    });
}

#[test]
fn a_log_without_records_is_made_anew() {
    each_way(|directory, _| {
        fs::remove_dir_all(directory.join("empty-0")).unwrap();
        let server = TestServer::start_in(directory, &[]).unwrap();
        let mut client = server.connect();
        client
            .produce("empty", 0, &batch(&["first"]))
            .assert_accepted();
        assert_eq!(client.fetch("topic", 0, 0).values(), ["old"; 3]);
    });
}

#[test]
fn a_topic_whose_log_is_lost_can_be_made_again() {
    each_way(|directory, log| {
        fs::write(log.join(METADATA), "").unwrap();
        let server = TestServer::start_in(directory, &[]).unwrap();
        let mut client = server.connect();
        assert_eq!(client.delete_topic("topic"), ErrorCode::None);
        client.create_topic("topic", 1, &[]);
        client
            .produce("topic", 0, &batch(&["new"]))
            .assert_accepted();
        assert_eq!(client.fetch("topic", 0, 0).values(), ["new"]);
        assert_eq!(
            names_ending(directory, "-stray").len(),
            1,
            "what was there is kept"
        );
    });
}

/// As a crash leaves it when the topic was made again in the metadata, and its log was not: what the checkpoints have
/// is of the topic before, whose directory is there.
#[test]
fn what_the_checkpoints_have_of_a_topic_before_makes_no_log_missing() {
    let directory = trials::directory();
    let old = trials::directory();
    three_topics(directory.path(), true);
    let log = directory.path().join("topic-0");
    let checkpoint = directory.path().join(CHECKPOINT);
    let entries = fs::read(&checkpoint).unwrap();
    let kept = old.path().join("topic-0");
    fs::create_dir(&kept).unwrap();
    for entry in fs::read_dir(&log).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), kept.join(entry.file_name())).unwrap();
    }
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let mut client = server.connect();
    assert_eq!(client.delete_topic("topic"), ErrorCode::None);
    client.create_topic("topic", 1, &[]);
    server.crash();
    fs::remove_dir_all(&log).unwrap();
    let copied = fs::create_dir(&log).and_then(|()| fs::read_dir(&kept));
    for entry in copied.unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), log.join(entry.file_name())).unwrap();
    }
    fs::write(&checkpoint, entries).unwrap();
    assert_led(directory.path(), &[]);
    assert_eq!(names_ending(directory.path(), "-stray").len(), 1);
}
