//! Topics as operators make, change and name them.

use crate::lab::Lab;
use expect_test::expect;
use std::collections::BTreeSet;

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
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
