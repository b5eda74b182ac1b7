//! Constraints, key by key of their kinds.

use super::{duration_ms, host_and_port, quorum_voter};
use crate::broker::BROKER;
use crate::group::GROUP;
use crate::parsing::parse;
use crate::topic::TOPIC;

/// Parses `text` as the key `name` of whichever table has it.
fn check(name: &str, text: &str, expected: &str) {
    let definition = [&BROKER, &TOPIC, &GROUP]
        .iter()
        .find_map(|table| table.definition(name))
        .expect("the key is in a table");
    let outcome = match parse(definition, text) {
        Ok(value) => format!("ok {value}"),
        Err(error) => error.to_string(),
    };
    assert_eq!(outcome, expected, "{name}={text}");
}

#[test]
fn numbers_stay_in_their_range() {
    check("num.io.threads", " 3 ", "ok 3");
    check(
        "num.io.threads",
        "0",
        "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
    );
    check(
        "compression.lz4.level",
        "18",
        "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17",
    );
    check(
        "log.cleaner.min.cleanable.ratio",
        "1.5",
        "Invalid value 1.5 for configuration log.cleaner.min.cleanable.ratio: Value must be no \
         more than 1",
    );
    check(
        "remote.log.manager.task.retry.jitter",
        "0.6",
        "Invalid value 0.6 for configuration remote.log.manager.task.retry.jitter: Value must be \
         no more than 0.5",
    );
    check("compression.gzip.level", "-1", "ok -1");
    check(
        "compression.gzip.level",
        "0",
        "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 \
         or equal to -1",
    );
}

#[test]
fn words_are_checked_against_the_words_allowed() {
    check(
        "message.timestamp.type",
        "LogAppendTime",
        "ok LogAppendTime",
    );
    check(
        "message.timestamp.type",
        "createtime",
        "Invalid value createtime for configuration message.timestamp.type: String must be one \
         of: CreateTime, LogAppendTime",
    );
    check("group.consumer.migration.policy", "disabled", "ok disabled");
    check(
        "group.consumer.migration.policy",
        "foo",
        "Invalid value foo for configuration group.consumer.migration.policy: String must be one \
         of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL",
    );
    check(
        "remote.log.storage.manager.impl.prefix",
        "  ",
        "Invalid value  for configuration remote.log.storage.manager.impl.prefix: String must be \
         non-empty",
    );
}

#[test]
fn lists_refuse_empty_and_unknown_elements() {
    check("cleanup.policy", "", "ok ");
    check(
        "cleanup.policy",
        " compact , delete,compact",
        "ok compact,delete",
    );
    check(
        "cleanup.policy",
        "compact,,delete",
        "Configuration 'cleanup.policy' values must not be empty.",
    );
    check(
        "cleanup.policy",
        "foo",
        "Invalid value foo for configuration cleanup.policy: String must be one of: compact, \
         delete",
    );
    check(
        "process.roles",
        "",
        "Configuration 'process.roles' must not be empty. Valid values include: [broker, \
         controller]",
    );
    check(
        "log.dirs",
        "",
        "Configuration 'log.dirs' must not be empty. Valid values include: any non-empty value",
    );
}

#[test]
fn throttled_replicas_are_pairs_or_a_star() {
    check(
        "leader.replication.throttled.replicas",
        "0:1, 1:2",
        "ok 0:1,1:2",
    );
    check("leader.replication.throttled.replicas", " * ", "ok *");
    check("leader.replication.throttled.replicas", "", "ok ");
    for wrong in ["*,0:1", "-1:2", "0:1:2", "0 : 1", "x"] {
        let definition = TOPIC
            .definition("leader.replication.throttled.replicas")
            .expect("the key exists");
        assert!(parse(definition, wrong).is_err(), "{wrong}");
    }
}

#[test]
fn quorum_addresses_are_taken_apart() {
    assert_eq!(quorum_voter("1@host:9093"), Some((1, "host", 9093)));
    assert_eq!(quorum_voter("1@[::1]:9093"), Some((1, "::1", 9093)));
    for wrong in [
        "foo",
        "1@h",
        "1@h:x",
        "x@h:9",
        "1@:9",
        "1@h:65536",
        "1@h h:9",
    ] {
        assert_eq!(quorum_voter(wrong), None, "{wrong}");
    }
    assert_eq!(host_and_port("127.0.0.1:1"), Some(("127.0.0.1", 1)));
    check(
        "controller.quorum.voters",
        "1@h:9093,foo",
        "Invalid value foo for configuration controller.quorum.voters: Each entry must have the \
         form id@host:port",
    );
}

#[test]
fn share_groups_start_by_word_or_duration() {
    check(
        "share.auto.offset.reset",
        "by_duration:PT1H",
        "ok by_duration:PT1H",
    );
    for wrong in [
        "LATEST",
        "by_duration:",
        "by_duration:x",
        "by_duration:-PT1H",
        "foo",
    ] {
        let definition = GROUP
            .definition("share.auto.offset.reset")
            .expect("the key exists");
        assert!(parse(definition, wrong).is_err(), "{wrong}");
    }
}

#[test]
fn durations_are_read_in_milliseconds() {
    for (text, expected) in [
        ("PT0S", Some(0)),
        ("PT1H", Some(3_600_000)),
        ("P1DT2H3M4.5S", Some(93_784_500)),
        ("p2d", Some(172_800_000)),
        ("PT1.123456789S", Some(1123)),
        ("PT90M", Some(5_400_000)),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1H", None),
        ("PT1M1H", None),
        ("PT1.5H", None),
        ("PT-1H", None),
        ("1H", None),
        ("PT99999999999999999999S", None),
    ] {
        assert_eq!(duration_ms(text), expected, "{text}");
    }
}
