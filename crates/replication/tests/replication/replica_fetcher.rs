//! What a fetcher asks for, line by line: its session with the leader, and which partitions are in it.

use crate::support::fetcher_script::play;
use expect_test::{Expect, expect};

fn check(script: &str, expect: Expect) {
    expect.assert_eq(&play(script));
}

#[test]
fn an_incremental_session_names_what_has_changed() {
    check(
        "
        poll
        add t1-0 epoch=3 at=10 last=3 start=4
        add t1-1 epoch=4 at=0
        add t2-0 epoch=5 at=7 last=1
        poll
        poll
        answer session=9 t1-0 hw=12 records=20 t1-1 t2-0 hw=7
        lag t1-0
        done t1-0 at=12 last=3 start=4
        done t1-1
        done t2-0 at=7 last=1
        lag t1-0
        lag t1-1
        poll
        answer session=9
        poll
        answer session=9 t1-0 hw=14 start=5
        done t1-0 at=12 last=3 start=5
        lag t1-0
        poll
        ",
        expect![[r#"
            poll
                nothing
            add t1-0 epoch=3 at=10 last=3 start=4
            add t1-1 epoch=4 at=0
            add t2-0 epoch=5 at=7 last=1
            poll
                fetch in 0/0 t1-0@10 in 3 last 3 start 4, t1-1@0 in 4 last -1 start 0, t2-0@7 in 5 last 1 start 0
            poll
                nothing
            answer session=9 t1-0 hw=12 records=20 t1-1 t2-0 hw=7
                t1-0 in 3 takes 20 bytes at 10, hw 12, start 0
                t1-1 in 4 takes 0 bytes at 0, hw 0, start 0
                t2-0 in 5 takes 0 bytes at 7, hw 7, start 0
            lag t1-0
                Some(2)
            done t1-0 at=12 last=3 start=4
            done t1-1
            done t2-0 at=7 last=1
            lag t1-0
                Some(0)
            lag t1-1
                Some(0)
            poll
                fetch in 9/1 t1-0@12 in 3 last 3 start 4
            answer session=9
            poll
                fetch in 9/2
            answer session=9 t1-0 hw=14 start=5
                t1-0 in 3 takes 0 bytes at 12, hw 14, start 5
            done t1-0 at=12 last=3 start=5
            lag t1-0
                Some(2)
            poll
                fetch in 9/3 t1-0@12 in 3 last 3 start 5
        "#]],
    );
}

#[test]
fn what_leaves_a_session_is_forgotten_and_may_come_back() {
    check(
        "
        add t1-0 at=1
        add t1-1 at=2
        add t2-0 at=3
        poll
        answer session=9 t1-0 t1-1 error=6 t2-0
        done t1-0
        done t2-0
        remove t2-0
        remove t2-0
        poll
        answer session=9
        wait 1000
        poll
        answer session=9 t1-1
        done t1-1
        remove t1-0
        remove t1-1
        poll
        answer session=0
        poll
        add t3-0
        poll
        ",
        expect![[r#"
            add t1-0 at=1
            add t1-1 at=2
            add t2-0 at=3
            poll
                fetch in 0/0 t1-0@1 in 0 last -1 start 0, t1-1@2 in 0 last -1 start 0, t2-0@3 in 0 last -1 start 0
            answer session=9 t1-0 t1-1 error=6 t2-0
                t1-0 in 0 takes 0 bytes at 1, hw 0, start 0
                t2-0 in 0 takes 0 bytes at 3, hw 0, start 0
                t1-1: NOT_LEADER_OR_FOLLOWER
                looks again in 50 ms
            done t1-0
            done t2-0
            remove t2-0
            remove t2-0
                not here
            poll
                fetch in 9/1 for 50 ms without t1-1, without t2-0
            answer session=9
                looks again in 50 ms
            wait 1000
            poll
                fetch in 9/2 t1-1@2 in 0 last -1 start 0
            answer session=9 t1-1
                t1-1 in 0 takes 0 bytes at 2, hw 0, start 0
            done t1-1
            remove t1-0
            remove t1-1
            poll
                fetch in 9/3 without t1-0, without t1-1
            answer session=0
            poll
                nothing
            add t3-0
            poll
                fetch in 0/0 t3-0@0 in 0 last -1 start 0
        "#]],
    );
}

/// Leaders take what is added first, and then what is forgotten.
#[test]
fn a_partition_that_leaves_and_comes_back_before_a_request_is_not_forgotten() {
    check(
        "
        add t1-0 epoch=1 at=1
        poll
        answer session=9 t1-0
        done t1-0
        remove t1-0
        add t1-0 epoch=2 at=5 last=1
        poll
        answer session=9
        ",
        expect![[r#"
            add t1-0 epoch=1 at=1
            poll
                fetch in 0/0 t1-0@1 in 1 last -1 start 0
            answer session=9 t1-0
                t1-0 in 1 takes 0 bytes at 1, hw 0, start 0
            done t1-0
            remove t1-0
            add t1-0 epoch=2 at=5 last=1
            poll
                fetch in 9/1 for 0 ms without t1-0
            answer session=9
        "#]],
    );
}

#[test]
fn a_topic_made_anew_is_another_one() {
    check(
        "
        add t1-0 epoch=1 at=100
        poll
        answer session=9 t1-0
        done t1-0
        remove t1-0
        add t2-0 epoch=0 at=0
        poll
        answer session=9 t2-0
        ",
        expect![[r#"
            add t1-0 epoch=1 at=100
            poll
                fetch in 0/0 t1-0@100 in 1 last -1 start 0
            answer session=9 t1-0
                t1-0 in 1 takes 0 bytes at 100, hw 0, start 0
            done t1-0
            remove t1-0
            add t2-0 epoch=0 at=0
            poll
                fetch in 9/1 t2-0@0 in 0 last -1 start 0, without t1-0
            answer session=9 t2-0
                t2-0 in 0 takes 0 bytes at 0, hw 0, start 0
        "#]],
    );
}

#[test]
fn a_session_that_the_leader_does_not_have_begins_anew() {
    check(
        "
        add t1-0
        add t1-1
        poll
        answer session=9 t1-0 t1-1
        done t1-0
        done t1-1
        poll
        answer error=70
        poll
        answer session=10 t1-0 t1-1
        poll
        ",
        expect![[r#"
            add t1-0
            add t1-1
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0
            answer session=9 t1-0 t1-1
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
                t1-1 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            done t1-1
            poll
                fetch in 9/1
            answer error=70
                the leader refuses the request: FETCH_SESSION_ID_NOT_FOUND
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0
            answer session=10 t1-0 t1-1
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
                t1-1 in 0 takes 0 bytes at 0, hw 0, start 0
            poll
                fetch in 10/1 without t1-0, without t1-1
        "#]],
    );
}

#[test]
fn after_another_error_of_a_session_it_is_closed() {
    check(
        "
        add t1-0
        poll
        answer session=9 t1-0
        done t1-0
        poll
        answer error=71
        poll
        answer session=10 t1-0
        done t1-0
        poll
        answer error=106
        poll
        wait 1000
        poll
        ",
        expect![[r#"
            add t1-0
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0
            answer session=9 t1-0
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            poll
                fetch in 9/1
            answer error=71
                the leader refuses the request: INVALID_FETCH_SESSION_EPOCH
            poll
                fetch in 9/0 t1-0@0 in 0 last -1 start 0
            answer session=10 t1-0
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            poll
                fetch in 10/1
            answer error=106
                the leader refuses the request: FETCH_SESSION_TOPIC_ID_ERROR
                looks again in 1000 ms
            poll
                nothing
                looks again in 1000 ms
            wait 1000
            poll
                fetch in 10/0 t1-0@0 in 0 last -1 start 0
        "#]],
    );
}

#[test]
fn an_error_that_comes_again_waits() {
    check(
        "
        add t1-0
        poll
        answer error=31
        poll
        answer error=31
        poll
        wait 999
        poll
        wait 1
        poll
        answer error=31
        poll
        wait 1000
        poll
        answer session=4 t1-0
        done t1-0
        poll
        answer error=71
        poll
        ",
        expect![[r#"
            add t1-0
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0
            answer error=31
                the leader refuses the request: CLUSTER_AUTHORIZATION_FAILED
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0
            answer error=31
                the leader refuses the request: CLUSTER_AUTHORIZATION_FAILED
                looks again in 1000 ms
            poll
                nothing
                looks again in 1000 ms
            wait 999
            poll
                nothing
                looks again in 1 ms
            wait 1
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0
            answer error=31
                the leader refuses the request: CLUSTER_AUTHORIZATION_FAILED
                looks again in 1000 ms
            poll
                nothing
                looks again in 1000 ms
            wait 1000
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0
            answer session=4 t1-0
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            poll
                fetch in 4/1
            answer error=71
                the leader refuses the request: INVALID_FETCH_SESSION_EPOCH
                looks again in 1000 ms
            poll
                nothing
                looks again in 1000 ms
        "#]],
    );
}

/// Who had no bytes comes first.
#[test]
fn a_leader_that_keeps_no_session_is_asked_for_everything() {
    check(
        "
        add t1-0
        add t1-1
        add t1-2
        poll
        answer session=0 t1-0 records=5 t1-1 records=5 t1-2
        done t1-0 at=1
        done t1-1 at=1
        done t1-2
        poll
        answer session=0 t1-2 t1-0 t1-1
        ",
        expect![[r#"
            add t1-0
            add t1-1
            add t1-2
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0, t1-2@0 in 0 last -1 start 0
            answer session=0 t1-0 records=5 t1-1 records=5 t1-2
                t1-0 in 0 takes 5 bytes at 0, hw 0, start 0
                t1-1 in 0 takes 5 bytes at 0, hw 0, start 0
                t1-2 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0 at=1
            done t1-1 at=1
            done t1-2
            poll
                fetch in 0/0 t1-2@0 in 0 last -1 start 0, t1-0@1 in 0 last -1 start 0, t1-1@1 in 0 last -1 start 0
            answer session=0 t1-2 t1-0 t1-1
                t1-2 in 0 takes 0 bytes at 0, hw 0, start 0
                t1-0 in 0 takes 0 bytes at 1, hw 0, start 0
                t1-1 in 0 takes 0 bytes at 1, hw 0, start 0
        "#]],
    );
}

/// The answer counts.
#[test]
fn a_session_that_ends_with_an_answer_is_begun_anew() {
    check(
        "
        add t1-0
        poll
        answer session=9 t1-0
        done t1-0
        poll
        answer session=0 t1-0 records=4
        done t1-0 at=1
        poll
        ",
        expect![[r#"
            add t1-0
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0
            answer session=9 t1-0
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            poll
                fetch in 9/1
            answer session=0 t1-0 records=4
                t1-0 in 0 takes 4 bytes at 0, hw 0, start 0
            done t1-0 at=1
            poll
                fetch in 0/0 t1-0@1 in 0 last -1 start 0
        "#]],
    );
}

#[test]
fn an_answer_of_another_session_is_not_taken() {
    check(
        "
        add t1-0
        poll
        answer session=9 t1-0
        done t1-0
        poll
        answer session=8 t1-0 records=4
        poll
        ",
        expect![[r#"
            add t1-0
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0
            answer session=9 t1-0
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            poll
                fetch in 9/1
            answer session=8 t1-0 records=4
                the answer is of session 8, not 9
            poll
                fetch in 9/0 t1-0@0 in 0 last -1 start 0
        "#]],
    );
}

/// That a session begins well says nothing of how it goes on.
#[test]
fn a_leader_that_answers_with_other_sessions_is_left_alone_for_a_while() {
    for (useful_count, expect) in [(0, 3), (9, 3), (10, 0)] {
        let useful = "poll\nanswer session=9\n".repeat(useful_count);
        let flip = format!(
            "poll\nanswer session=9 t1-0\ndone t1-0\n{useful}poll\nanswer session=8\nwait 1000\n"
        );
        let played = play(&format!("add t1-0\n{}", flip.repeat(4)));
        let pauses = played.matches("looks again in 1000 ms").count();
        assert_eq!(pauses, expect, "{played}");
    }
}

#[test]
fn an_answer_about_partitions_that_were_not_asked_for_is_not_taken() {
    check(
        "
        add t1-0
        add t1-1
        poll
        answer session=9 t1-0
        poll
        answer session=9 t1-0 t1-1 t1-2
        wait 1000
        poll
        answer session=9 t1-0 t1-0
        wait 1000
        poll
        answer session=9 t1-0 t1-1
        ",
        expect![[r#"
            add t1-0
            add t1-1
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0
            answer session=9 t1-0
                the answer is about other partitions than were asked for
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0
            answer session=9 t1-0 t1-1 t1-2
                the answer is about other partitions than were asked for, such as partition 2 of topic AAAAAAAAAAAAAAAAAAAAAQ
                looks again in 1000 ms
            wait 1000
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0
            answer session=9 t1-0 t1-0
                the answer is about other partitions than were asked for, such as partition 0 of topic AAAAAAAAAAAAAAAAAAAAAQ
                looks again in 1000 ms
            wait 1000
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0
            answer session=9 t1-0 t1-1
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
                t1-1 in 0 takes 0 bytes at 0, hw 0, start 0
        "#]],
    );
}

#[test]
fn bytes_that_are_no_answer_end_the_session() {
    check(
        "
        bytes 00
        add t1-0
        poll
        answer session=9 t1-0
        done t1-0
        poll
        bytes 0000000000
        poll
        wait 1000
        poll
        bytes 000000000000000000090000ff
        ",
        expect![[r#"
            bytes 00
                nothing was asked
            add t1-0
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0
            answer session=9 t1-0
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            poll
                fetch in 9/1
            bytes 0000000000
                the answer is malformed: the bytes end within a field
                looks again in 1000 ms
            poll
                nothing
                looks again in 1000 ms
            wait 1000
            poll
                fetch in 9/0 t1-0@0 in 0 last -1 start 0
            bytes 000000000000000000090000ff
                the answer is malformed: a field that may not be null is null
                looks again in 1000 ms
        "#]],
    );
}

#[test]
fn a_request_without_an_answer_is_repeated_after_a_while() {
    check(
        "
        add t1-0
        poll
        answer session=9 t1-0
        done t1-0
        poll
        fail
        poll
        wait 1000
        poll
        answer session=10 t1-0
        done t1-0
        poll
        ",
        expect![[r#"
            add t1-0
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0
            answer session=9 t1-0
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            poll
                fetch in 9/1
            fail
                looks again in 1000 ms
            poll
                nothing
                looks again in 1000 ms
            wait 1000
            poll
                fetch in 9/0 t1-0@0 in 0 last -1 start 0
            answer session=10 t1-0
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            poll
                fetch in 10/1
        "#]],
    );
}

#[test]
fn a_slow_disk_holds_up_its_own_partitions_only() {
    check(
        "
        add t1-0 at=20
        add t1-1 at=20
        poll
        answer session=9 t1-0 records=5 t1-1 records=5
        done t1-1 at=21
        poll
        answer session=9
        done t1-0 at=22
        poll
        answer session=9
        ",
        expect![[r#"
            add t1-0 at=20
            add t1-1 at=20
            poll
                fetch in 0/0 t1-0@20 in 0 last -1 start 0, t1-1@20 in 0 last -1 start 0
            answer session=9 t1-0 records=5 t1-1 records=5
                t1-0 in 0 takes 5 bytes at 20, hw 0, start 0
                t1-1 in 0 takes 5 bytes at 20, hw 0, start 0
            done t1-1 at=21
            poll
                fetch in 9/1 t1-1@21 in 0 last -1 start 0, without t1-0
            answer session=9
            done t1-0 at=22
            poll
                fetch in 9/2 t1-0@22 in 0 last -1 start 0
            answer session=9
        "#]],
    );
}

#[test]
fn throttled_partitions_are_left_out_unless_they_are_in_sync() {
    check(
        "
        add t1-0 at=20 throttled
        add t1-1 at=20
        add t1-2 at=20 throttled
        quota over
        poll
        answer session=9 t1-1
        done t1-1
        quota under
        poll
        answer session=9 t1-0 records=5 hw=30 t1-2 records=5 hw=20
        done t1-0 at=25
        done t1-2 at=21
        quota over
        poll
        answer session=9 t1-2 records=5 hw=25
        done t1-2 at=22
        poll
        quota under
        throttle t1-1
        answer session=9
        poll
        ",
        expect![[r#"
            add t1-0 at=20 throttled
            add t1-1 at=20
            add t1-2 at=20 throttled
            quota over
            poll
                fetch in 0/0 t1-1@20 in 0 last -1 start 0
            answer session=9 t1-1
                t1-1 in 0 takes 0 bytes at 20, hw 0, start 0
            done t1-1
            quota under
            poll
                fetch in 9/1 t1-0@20 in 0 last -1 start 0, t1-2@20 in 0 last -1 start 0
            answer session=9 t1-0 records=5 hw=30 t1-2 records=5 hw=20
                t1-0 in 0 takes 5 bytes at 20, hw 30, start 0, throttled
                t1-2 in 0 takes 5 bytes at 20, hw 20, start 0, throttled
            done t1-0 at=25
            done t1-2 at=21
            quota over
            poll
                fetch in 9/2 t1-2@21 in 0 last -1 start 0, without t1-0
            answer session=9 t1-2 records=5 hw=25
                t1-2 in 0 takes 5 bytes at 21, hw 25, start 0, throttled
            done t1-2 at=22
            poll
                fetch in 9/3 without t1-2
            quota under
            throttle t1-1
            answer session=9
            poll
                fetch in 9/4 t1-0@25 in 0 last -1 start 0, t1-2@22 in 0 last -1 start 0
        "#]],
    );
}

#[test]
fn leaders_of_older_releases_are_asked_in_their_version() {
    check(
        "
        add t1-0 epoch=7 at=20 last=6
        version 12
        poll
        version 13
        poll
        answer session=9 t1-0 records=5
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20 last=6
            version 12
            poll
                nothing
            version 13
            poll
                fetch in 0/0 t1-0@20 in 7 last 6 start 0
            answer session=9 t1-0 records=5
                t1-0 in 7 takes 5 bytes at 20, hw 0, start 0
        "#]],
    );
}

#[test]
fn an_answer_that_names_what_is_not_in_the_session_is_not_taken() {
    check(
        "
        add t1-0
        add t1-1
        poll
        answer session=9 t1-0 t1-1
        done t1-0
        done t1-1
        poll
        answer session=9 t7-0 records=4 t1-1 records=4
        poll
        answer session=10 t1-0 t1-1
        done t1-0
        done t1-1
        poll
        answer session=10 t1-1 records=4 t1-1 records=4
        poll
        ",
        expect![[r#"
            add t1-0
            add t1-1
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0
            answer session=9 t1-0 t1-1
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
                t1-1 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            done t1-1
            poll
                fetch in 9/1
            answer session=9 t7-0 records=4 t1-1 records=4
                the answer is about other partitions than were asked for, such as partition 0 of topic AAAAAAAAAAAAAAAAAAAABw
            poll
                fetch in 9/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0
            answer session=10 t1-0 t1-1
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
                t1-1 in 0 takes 0 bytes at 0, hw 0, start 0
            done t1-0
            done t1-1
            poll
                fetch in 10/1
            answer session=10 t1-1 records=4 t1-1 records=4
                the answer is about other partitions than were asked for, such as partition 1 of topic AAAAAAAAAAAAAAAAAAAAAQ
                looks again in 1000 ms
            poll
                nothing
                looks again in 1000 ms
        "#]],
    );
}
