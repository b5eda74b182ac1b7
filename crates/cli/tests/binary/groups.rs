//! Groups that commands read with.

use crate::lab::Lab;
use crate::process::Process;
use expect_test::expect;
use testkit::wait_until;

#[test]
fn a_group_goes_on_where_it_was() {
    let lab = Lab::new();
    let produced = lab.run(&["produce", "t"], "1\n2\n3\n4\n");
    assert!(produced.status.success());
    lab.prints(
        &["consume", "t", "--group", "g", "-n", "1"],
        expect![[r#"
        1
    "#]],
    );
    lab.prints(
        &["consume", "t", "--group", "g", "-n", "2"],
        expect![[r#"
        2
        3
    "#]],
    );
    lab.prints(
        &["group", "describe", "g"],
        expect![[r#"
        Group g: Empty, 0 members, assignor -
        TOPIC  PARTITION  COMMITTED-OFFSET  LOG-END-OFFSET  LAG  MEMBER  HOST
        t      0          3                 4               1    -       -
    "#]],
    );
    lab.prints(
        &["group", "seek", "g", "--to", "start"],
        expect![[r#"
        TOPIC  PARTITION  OFFSET
        t      0          0
    "#]],
    );
    lab.prints(
        &["consume", "t", "--group", "g", "-n", "4"],
        expect![[r#"
        1
        2
        3
        4
    "#]],
    );
    lab.prints(
        &["group", "list"],
        expect![[r#"
        GROUP  STATE  TYPE     PROTOCOL  COORDINATOR
        g      Empty  classic  consumer  1
    "#]],
    );
    lab.prints(
        &["group", "delete", "g"],
        expect![[r#"
        DELETED
        g
    "#]],
    );
    lab.fails(
        &["group", "describe", "g"],
        expect![[r#"
            error: group `g` does not exist
        "#]],
    );
    lab.fails(
        &["group", "seek", "g", "--to", "end"],
        expect![[r#"
        error: group `g` has no offsets: name the topics with `--topics`
    "#]],
    );
}

#[test]
fn a_member_of_a_group_stops_at_the_end() {
    let lab = Lab::new();
    let created = lab.run(&["topic", "create", "t", "-p", "3"], "");
    assert!(created.status.success());
    for (records, expected) in [("1\n2\n3\n", 3), ("4\n", 1), ("", 0)] {
        let produced = lab.run(&["produce", "t"], records);
        assert!(produced.status.success());
        let output = lab.run(&["consume", "t", "-g", "g", "--exit"], "");
        assert!(output.status.success(), "{output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert_eq!(printed.lines().count(), expected, "{printed}");
    }
}

#[test]
fn a_group_with_members_is_not_deleted_and_says_where_they_are() {
    let lab = Lab::new();
    let created = lab.run(&["topic", "create", "t"], "");
    assert!(created.status.success());
    let mut member = lab.spawn(&["consume", "t", "-g", "g"]);
    wait_until("the group has a member", || {
        let described = lab.run(&["group", "describe", "g", "--members"], "");
        String::from_utf8(described.stdout)
            .unwrap()
            .contains("1 member")
    });
    let deleted = lab.run(&["group", "delete", "g"], "");
    member.kill().unwrap();
    member.wait().unwrap();
    assert!(!deleted.status.success());
    let told = String::from_utf8(deleted.stderr).unwrap();
    let advice = "it has members, which `riverrun group describe g --members` shows: stop them";
    assert!(told.contains(advice), "{told}");
}

/// As many threads as Kafka's broker has, or as are asked for.
#[cfg(target_os = "linux")]
#[test]
fn coordinators_have_threads_of_their_own() {
    for (keys, count) in [(&[][..], 4), (&[("group.coordinator.threads", "2")][..], 2)] {
        let directory = trials::directory();
        let server = Process::start(directory.path(), keys);
        let names = server.thread_names();
        let mut names: Vec<_> = names
            .into_iter()
            .filter(|name| name.starts_with("coordinator-"))
            .collect();
        names.sort();
        let expected: Vec<_> = (0..count)
            .map(|number| format!("coordinator-{number}"))
            .collect();
        assert_eq!(names, expected);
        server.stop();
    }
}
