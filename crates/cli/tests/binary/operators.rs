//! What operators ask of partitions, groups, features and brokers.

use crate::lab::Lab;
use expect_test::expect;
use model::ErrorCode;
use testkit::{batch, wait_until};

fn lab_with_topic() -> Lab {
    let lab = Lab::new();
    let created = lab.run(&["topic", "create", "t", "-p", "2"], "");
    assert!(created.status.success());
    lab
}

#[test]
fn offsets_are_shown_at_places_and_times() {
    let lab = lab_with_topic();
    let records = r#"{"value":"a","timestamp":1700000000000}
{"value":"b","timestamp":1700000060000}
{"value":"c","timestamp":1700000120000}
"#;
    let produced = lab.run(&["produce", "t", "-p", "1", "-i", "json"], records);
    assert!(produced.status.success());
    lab.prints(
        &["partition", "offsets", "t"],
        expect![[r#"
        TOPIC  PARTITION  LOG-START-OFFSET  LOG-END-OFFSET
        t      0          0                 0
        t      1          0                 3
    "#]],
    );
    lab.prints(
        &[
            "partition",
            "offsets",
            "t",
            "-p",
            "1",
            "--at",
            "@2023-11-14T22:14:00Z",
        ],
        expect![[r#"
            TOPIC  PARTITION  OFFSET
            t      1          1
        "#]],
    );
    lab.prints(
        &[
            "partition",
            "offsets",
            "t",
            "--at",
            "-1",
            "--output",
            "json",
        ],
        expect![[r#"
            {"topic":"t","partition":0,"offset":0}
            {"topic":"t","partition":1,"offset":2}
        "#]],
    );
    lab.prints(
        &["consume", "t", "-o", "@2023-11-14T22:14:00Z", "-e"],
        expect![[r#"
            b
            c
        "#]],
    );
    lab.fails(
        &["partition", "offsets", "none"],
        expect![[r#"
            error: topic `none` does not exist
        "#]],
    );
}

#[test]
fn replicas_and_leaders_are_those_of_one_broker() {
    let lab = lab_with_topic();
    lab.prints(
        &["partition", "reassign", "t", "--to", "1"],
        expect![[r#"
            TOPIC  PARTITION  REPLICAS
            t      0          1
            t      1          1
        "#]],
    );
    lab.fails(
        &["partition", "reassign", "t", "-p", "0", "--to", "2"],
        expect![[r#"
            error: partition `t-0`: INVALID_REPLICA_ASSIGNMENT: The manual partition assignment includes broker 2, but no such broker is registered.
        "#]],
    );
    lab.fails(
        &["partition", "cancel-reassign", "t", "-p", "1"],
        expect![[r#"
            error: no reassignment in progress for partition `t-1`
        "#]],
    );
    lab.prints(&["partition", "reassignments"], expect![[r#""#]]);
    lab.prints(
        &["partition", "elect", "t"],
        expect![[r#"
            TOPIC  PARTITION  ELECTION
            t      0          not needed
            t      1          not needed
        "#]],
    );
    lab.prints(
        &["partition", "elect", "--all", "--unclean"],
        expect![[r#""#]],
    );
    lab.fails(
        &["partition", "elect", "none"],
        expect![[r#"
            error: topic `none` does not exist
        "#]],
    );
}

#[test]
fn features_change_and_brokers_are_forgotten() {
    let lab = Lab::new();
    let told = |arguments: &[&str]| {
        let output = lab.run(arguments, "");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let down = ["cluster", "set-features", "group.version=0", "--downgrade"];
    assert_eq!(told(&down), "group.version is 0\n");
    let up = [
        "cluster",
        "set-features",
        "group.version=1",
        "metadata.version=4.3",
    ];
    assert_eq!(told(&up), "group.version is 1\nmetadata.version is 30\n");
    let tried = [
        "cluster",
        "set-features",
        "group.version=0",
        "--downgrade",
        "--dry-run",
    ];
    assert_eq!(told(&tried), "group.version could be 0\n");
    lab.fails(
        &["cluster", "set-features", "group.version=0"],
        expect![[r#"
            error: features: INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: Invalid update version 0 for feature group.version. Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.
        "#]],
    );
    lab.fails(&["cluster", "set-features", "none=1"], expect![[r#"
        error: features: INVALID_UPDATE_VERSION: The update failed for all features since the following feature had an error: Invalid update version 1 for feature none. Local controller 1 does not support this feature.
    "#]]);
    lab.fails(
        &["cluster", "unregister", "7"],
        expect![[r#"
        error: broker 7: BROKER_ID_NOT_REGISTERED: Broker ID 7 is not currently registered
    "#]],
    );
    // Also one that is alive: it registers again when it is started again.
    let forgotten = ["cluster", "unregister", "1"];
    assert_eq!(told(&forgotten), "broker 1 is unregistered\n");
}

#[test]
fn patterns_and_all_stand_for_groups_and_topics() {
    let lab = lab_with_topic();
    for group in ["billing-a", "billing-b", "audit"] {
        let moved = lab.run(
            &["group", "seek", group, "--to", "start", "--topics", "t"],
            "",
        );
        assert!(moved.status.success());
    }
    let groups_of = |arguments: &[&str]| {
        let output = lab.run(arguments, "");
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let words = printed.lines().filter_map(|line| {
            let line = line.strip_prefix("Group ").unwrap_or(line);
            line.split([' ', ':']).next().map(str::to_owned)
        });
        let mut names: Vec<_> = words
            .filter(|word| word.contains("billing") || word == "audit")
            .collect();
        names.sort();
        names
    };
    let both = ["billing-a", "billing-b"];
    assert_eq!(groups_of(&["group", "list", "bill.*"]), both);
    assert_eq!(groups_of(&["group", "describe", "bill.*"]), both);
    assert_eq!(
        groups_of(&["group", "describe", "audit|.*-b"]),
        ["audit", "billing-b"]
    );
    assert_eq!(
        groups_of(&["group", "describe", "--all"]),
        ["audit", "billing-a", "billing-b"]
    );
    lab.fails(
        &["group", "describe", "no.*"],
        expect![[r#"
        error: `no.*` matches no group
    "#]],
    );
    let listed = lab.run(&["topic", "list", "o.*"], "");
    assert_eq!(
        String::from_utf8(listed.stderr).unwrap(),
        "no topic matches `o.*`\n"
    );
    let described = lab.run(&["topic", "describe", "--all", "--output", "json"], "");
    let described = String::from_utf8(described.stdout).unwrap();
    assert_eq!(described.lines().count(), 1, "{described}");
}

#[test]
fn a_topic_that_nobody_creates_is_to_be_created() {
    let lab = Lab::with(&[("auto.create.topics.enable", "false")]);
    let produced = lab.run(&["produce", "orders", "--timeout", "3s"], "x\n");
    assert!(!produced.status.success());
    let told = String::from_utf8(produced.stderr).unwrap();
    expect![[r#"
        error: topic `orders`: it does not exist, and the broker creates none by itself (`auto.create.topics.enable`): `riverrun topic create orders`
    "#]]
    .assert_eq(&told);
}

#[test]
fn a_topic_is_created_with_its_first_record() {
    let lab = Lab::new();
    let produced = lab.run(&["produce", "t"], "");
    assert!(produced.status.success(), "{produced:?}");
    lab.prints(&["topic", "list"], expect![""]);
    // A setting of the producer is nothing to who looks for the topic.
    let produced = lab.run(&["produce", "t", "-X", "linger.ms=1"], "x\n");
    assert!(produced.status.success(), "{produced:?}");
    lab.prints(
        &["consume", "t", "-e", "-X", "fetch.min.bytes=1"],
        expect![[r"
            x
        "]],
    );
}

#[test]
fn health_names_what_needs_attention() {
    let root = trials::directory();
    let directories = ["one", "two"].map(|name| root.path().join(name));
    let dirs = directories
        .each_ref()
        .map(|path| path.display().to_string())
        .join(",");
    let lab = Lab::with(&[("log.dirs", &dirs)]);
    let mut client = lab.process.connect();
    client.create_topic("topic", 2, &[("segment.bytes", "1048576")]);
    let health = |lab: &Lab| {
        let output = lab.run(&["cluster", "health"], "");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().skip(1).map(str::to_owned);
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.success(), lines.collect::<Vec<_>>(), said)
    };
    let (is_healthy, lines, _) = health(&lab);
    assert!(is_healthy && lines.is_empty(), "{lines:?}");

    let failed = &directories[1];
    let index = (0..2).find(|index| failed.join(format!("topic-{index}")).exists());
    let index = index.expect("both have partitions");
    std::fs::rename(failed, root.path().join("gone")).unwrap();
    let large = batch(&[&"x".repeat(600_000)]);
    wait_until("the log directory fails", || {
        client.produce("topic", index, &large).error == ErrorCode::KafkaStorageError
    });
    let mut found = Vec::new();
    wait_until("the partition has no leader", || {
        let (is_healthy, lines, said) = health(&lab);
        assert!(!is_healthy, "{lines:?}");
        found = lines;
        found.len() == 2 && said.contains("2 things need attention")
    });
    let of_directory = format!("1:{}", failed.display());
    for words in ["log directory", &of_directory, "KAFKA_STORAGE_ERROR"] {
        assert!(found[0].contains(words), "no `{words}` in: {found:?}");
    }
    for words in ["partition", &format!("topic-{index}"), "no leader"] {
        assert!(found[1].contains(words), "no `{words}` in: {found:?}");
    }
}
