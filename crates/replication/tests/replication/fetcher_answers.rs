//! What a fetcher does as its leader answers, line by line: each row of what a leader can answer, and answers that
//! come late.

use crate::support::fetcher_script::play;
use expect_test::{Expect, expect};

fn check(script: &str, expect: Expect) {
    expect.assert_eq(&play(script));
}

/// KIP-279.
#[test]
fn a_log_that_differs_is_cut_until_it_agrees() {
    check(
        "
        add t1-0 epoch=7 at=20 last=6
        poll
        answer session=9 t1-0 diverging=4@15 hw=18
        done t1-0 at=12 last=3
        poll
        answer session=9 t1-0 diverging=2@8
        done t1-0 at=8 last=2
        poll
        answer session=9 t1-0 records=9 hw=18
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20 last=6
            poll
                fetch in 0/0 t1-0@20 in 7 last 6 start 0
            answer session=9 t1-0 diverging=4@15 hw=18
                t1-0 is cut where epoch 4 ends at 15
            done t1-0 at=12 last=3
            poll
                fetch in 9/1 for 0 ms without t1-0
            answer session=9 t1-0 diverging=2@8
                the answer is about other partitions than were asked for, such as partition 0 of topic AAAAAAAAAAAAAAAAAAAAAQ
            done t1-0 at=8 last=2
            poll
                fetch in 9/0 t1-0@12 in 7 last 3 start 0
            answer session=9 t1-0 records=9 hw=18
                t1-0 in 7 takes 9 bytes at 12, hw 18, start 0
        "#]],
    );
}

#[test]
fn a_cut_that_changes_nothing_is_not_tried_again_at_once() {
    check(
        "
        add t1-0 epoch=7 at=20 last=6
        poll
        answer session=9 t1-0 diverging=4@15
        done t1-0 at=20 last=6
        poll
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20 last=6
            poll
                fetch in 0/0 t1-0@20 in 7 last 6 start 0
            answer session=9 t1-0 diverging=4@15
                t1-0 is cut where epoch 4 ends at 15
            done t1-0 at=20 last=6
            poll
                fetch in 9/1 without t1-0
        "#]],
    );
}

/// After an unclean election.
#[test]
fn a_leader_that_ends_below_is_followed() {
    check(
        "
        add t1-0 epoch=7 at=20 last=6
        poll
        answer session=9 t1-0 error=1
        poll
        offsets t1-0 at=15
        done t1-0 at=15 last=6
        poll
        answer session=9 t1-0
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20 last=6
            poll
                fetch in 0/0 t1-0@20 in 7 last 6 start 0
            answer session=9 t1-0 error=1
                t1-0: OFFSET_OUT_OF_RANGE
            poll
                offsets end of t1-0 in 7
            offsets t1-0 at=15
                t1-0 is cut at 15
            done t1-0 at=15 last=6
            poll
                fetch in 9/1 for 0 ms without t1-0
            answer session=9 t1-0
                the answer is about other partitions than were asked for, such as partition 0 of topic AAAAAAAAAAAAAAAAAAAAAQ
        "#]],
    );
}

#[test]
fn a_leader_that_starts_above_is_followed() {
    check(
        "
        add t1-0 epoch=7 at=20 last=6
        add t1-1 epoch=7 at=1 last=6
        poll
        answer session=9 t1-0 error=1 t1-1 error=1
        poll
        offsets t1-1 at=50 t1-0 at=20
        poll
        offsets t1-0 at=20 t1-1 at=30
        done t1-1 at=30 start=30
        poll
        answer session=9 t1-1
        done t1-1
        poll
        wait 1000
        answer session=9
        poll
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20 last=6
            add t1-1 epoch=7 at=1 last=6
            poll
                fetch in 0/0 t1-0@20 in 7 last 6 start 0, t1-1@1 in 7 last 6 start 0
            answer session=9 t1-0 error=1 t1-1 error=1
                t1-0: OFFSET_OUT_OF_RANGE
                t1-1: OFFSET_OUT_OF_RANGE
            poll
                offsets end of t1-0 in 7, end of t1-1 in 7
            offsets t1-1 at=50 t1-0 at=20
            poll
                offsets start of t1-0 in 7, start of t1-1 in 7
            offsets t1-0 at=20 t1-1 at=30
                t1-1 begins anew at 30
                looks again in 1000 ms
            done t1-1 at=30 start=30
            poll
                fetch in 9/1 for 0 ms without t1-0, without t1-1
            answer session=9 t1-1
                the answer is about other partitions than were asked for, such as partition 1 of topic AAAAAAAAAAAAAAAAAAAAAQ
                looks again in 1000 ms
            done t1-1
            poll
                fetch in 9/0 t1-1@30 in 7 last -1 start 30
            wait 1000
            answer session=9
                the answer is about other partitions than were asked for
                looks again in 1000 ms
            poll
                nothing
                looks again in 1000 ms
        "#]],
    );
}

#[test]
fn an_end_or_start_that_is_not_told_is_asked_for_later() {
    check(
        "
        add t1-0 epoch=7 at=20
        add t1-1 epoch=7 at=20
        add t1-2 epoch=7 at=20
        add t2-0 epoch=7 at=20
        poll
        answer session=9 t1-0 error=1 t1-1 error=1 t1-2 error=1 t2-0 error=1
        poll
        offsets t1-0 error=74 t1-1 error=6 t1-2 at=-1 t9-0 at=5
        poll
        answer session=0
        wait 1000
        poll
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20
            add t1-1 epoch=7 at=20
            add t1-2 epoch=7 at=20
            add t2-0 epoch=7 at=20
            poll
                fetch in 0/0 t1-0@20 in 7 last -1 start 0, t1-1@20 in 7 last -1 start 0, t1-2@20 in 7 last -1 start 0, t2-0@20 in 7 last -1 start 0
            answer session=9 t1-0 error=1 t1-1 error=1 t1-2 error=1 t2-0 error=1
                t1-0: OFFSET_OUT_OF_RANGE
                t1-1: OFFSET_OUT_OF_RANGE
                t1-2: OFFSET_OUT_OF_RANGE
                t2-0: OFFSET_OUT_OF_RANGE
            poll
                offsets end of t1-0 in 7, end of t1-1 in 7, end of t1-2 in 7, end of t2-0 in 7
            offsets t1-0 error=74 t1-1 error=6 t1-2 at=-1 t9-0 at=5
                t1-0: FENCED_LEADER_EPOCH
                t1-1: NOT_LEADER_OR_FOLLOWER
                t1-2: UNKNOWN_SERVER_ERROR
                t2-0: UNKNOWN_SERVER_ERROR
                1 failed
                looks again in 50 ms
            poll
                fetch in 9/1 for 50 ms without t1-0, without t1-1, without t1-2, without t2-0
            answer session=0
                1 failed
                looks again in 50 ms
            wait 1000
            poll
                fetch in 0/0 t1-1@20 in 7 last -1 start 0, t1-2@20 in 7 last -1 start 0, t2-0@20 in 7 last -1 start 0
        "#]],
    );
}

#[test]
fn a_question_that_was_not_answered_is_asked_again() {
    check(
        "
        add t1-0 epoch=7 at=20
        poll
        answer session=9 t1-0 error=1
        poll
        fail
        wait 1000
        poll
        bytes 00
        wait 1000
        poll
        add t1-0 epoch=8 at=20
        offsets t1-0 at=3
        poll
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20
            poll
                fetch in 0/0 t1-0@20 in 7 last -1 start 0
            answer session=9 t1-0 error=1
                t1-0: OFFSET_OUT_OF_RANGE
            poll
                offsets end of t1-0 in 7
            fail
                looks again in 1000 ms
            wait 1000
            poll
                offsets end of t1-0 in 7
            bytes 00
                the answer is malformed: the bytes end within a field
                looks again in 1000 ms
            wait 1000
            poll
                offsets end of t1-0 in 7
            add t1-0 epoch=8 at=20
            offsets t1-0 at=3
            poll
                fetch in 9/1 for 0 ms without t1-0
        "#]],
    );
}

#[test]
fn a_fenced_partition_waits_for_its_next_leader_epoch() {
    check(
        "
        add t1-0 epoch=7 at=20
        add t1-1 epoch=7 at=20
        poll
        answer session=9 t1-0 error=74 t1-1
        done t1-1
        poll
        wait 100000
        answer session=9
        poll
        answer session=9
        add t1-1 epoch=7 at=0
        add t1-0 epoch=8 at=20
        poll
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20
            add t1-1 epoch=7 at=20
            poll
                fetch in 0/0 t1-0@20 in 7 last -1 start 0, t1-1@20 in 7 last -1 start 0
            answer session=9 t1-0 error=74 t1-1
                t1-1 in 7 takes 0 bytes at 20, hw 0, start 0
                t1-0: FENCED_LEADER_EPOCH
                1 failed
            done t1-1
                1 of 2 failed
            poll
                fetch in 9/1 without t1-0
            wait 100000
            answer session=9
                1 failed
            poll
                fetch in 9/2
            answer session=9
                1 failed
            add t1-1 epoch=7 at=0
                as before
            add t1-0 epoch=8 at=20
            poll
                fetch in 9/3 t1-0@20 in 8 last -1 start 0
        "#]],
    );
}

#[test]
fn a_failed_partition_goes_on_when_it_is_added() {
    check(
        "
        add t1-0 epoch=7 at=20
        poll
        answer session=9 t1-0
        failed t1-0
        poll
        answer session=0
        poll
        add t1-0 epoch=7 at=20
        poll
        answer session=9 t1-0
        failed t1-0
        remove t1-0
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20
            poll
                fetch in 0/0 t1-0@20 in 7 last -1 start 0
            answer session=9 t1-0
                t1-0 in 7 takes 0 bytes at 20, hw 0, start 0
            failed t1-0
                1 of 1 failed
            poll
                fetch in 9/1 without t1-0
            answer session=0
                1 failed
            poll
                nothing
            add t1-0 epoch=7 at=20
            poll
                fetch in 0/0 t1-0@20 in 7 last -1 start 0
            answer session=9 t1-0
                t1-0 in 7 takes 0 bytes at 20, hw 0, start 0
            failed t1-0
                1 of 1 failed
            remove t1-0
        "#]],
    );
}

/// The leader does not know the epoch yet, or is none, or does not have the topic.
#[test]
fn other_errors_wait() {
    check(
        "
        add t1-0
        add t1-1
        add t1-2
        add t1-3
        add t1-4
        add t1-5
        add t1-6
        poll
        answer session=9 t1-0 error=75 t1-1 error=6 t1-2 error=3 t1-3 error=100 t1-4 error=103 t1-5 error=109 t1-6
        done t1-6
        poll
        answer session=9
        wait 500
        poll
        answer session=9
        wait 500
        poll
        ",
        expect![[r#"
            add t1-0
            add t1-1
            add t1-2
            add t1-3
            add t1-4
            add t1-5
            add t1-6
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0, t1-2@0 in 0 last -1 start 0, t1-3@0 in 0 last -1 start 0, t1-4@0 in 0 last -1 start 0, t1-5@0 in 0 last -1 start 0, t1-6@0 in 0 last -1 start 0
            answer session=9 t1-0 error=75 t1-1 error=6 t1-2 error=3 t1-3 error=100 t1-4 error=103 t1-5 error=109 t1-6
                t1-6 in 0 takes 0 bytes at 0, hw 0, start 0
                t1-0: UNKNOWN_LEADER_EPOCH
                t1-1: NOT_LEADER_OR_FOLLOWER
                t1-2: UNKNOWN_TOPIC_OR_PARTITION
                t1-3: UNKNOWN_TOPIC_ID
                t1-4: INCONSISTENT_TOPIC_ID
                t1-5: OFFSET_MOVED_TO_TIERED_STORAGE
                looks again in 50 ms
            done t1-6
            poll
                fetch in 9/1 for 50 ms without t1-0, without t1-1, without t1-2, without t1-3, without t1-4, without t1-5
            answer session=9
                looks again in 50 ms
            wait 500
            poll
                fetch in 9/2 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0, t1-2@0 in 0 last -1 start 0, t1-3@0 in 0 last -1 start 0
            answer session=9
                looks again in 500 ms
            wait 500
            poll
                fetch in 9/3 t1-4@0 in 0 last -1 start 0, t1-5@0 in 0 last -1 start 0
        "#]],
    );
}

/// KAFKA-7786, KAFKA-18991.
#[test]
fn an_answer_of_an_older_epoch_is_passed_by() {
    check(
        "
        add t1-0 epoch=7 at=20 last=6
        add t1-1 epoch=7 at=20 last=6
        add t1-2 epoch=7 at=20 last=6
        poll
        add t1-0 epoch=8 at=20 last=6
        add t1-1 epoch=8 at=20 last=6
        add t1-2 epoch=8 at=20 last=6
        answer session=9 t1-0 records=5 hw=21 t1-1 diverging=4@15 t1-2 error=74
        poll
        answer session=9 t1-0 records=5 hw=21 t1-1 t1-2
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20 last=6
            add t1-1 epoch=7 at=20 last=6
            add t1-2 epoch=7 at=20 last=6
            poll
                fetch in 0/0 t1-0@20 in 7 last 6 start 0, t1-1@20 in 7 last 6 start 0, t1-2@20 in 7 last 6 start 0
            add t1-0 epoch=8 at=20 last=6
            add t1-1 epoch=8 at=20 last=6
            add t1-2 epoch=8 at=20 last=6
            answer session=9 t1-0 records=5 hw=21 t1-1 diverging=4@15 t1-2 error=74
            poll
                fetch in 9/1 for 0 ms without t1-0, without t1-1, without t1-2
            answer session=9 t1-0 records=5 hw=21 t1-1 t1-2
                the answer is about other partitions than were asked for, such as partition 0 of topic AAAAAAAAAAAAAAAAAAAAAQ
        "#]],
    );
}

/// KAFKA-13207.
#[test]
fn an_answer_for_a_partition_that_has_left_is_passed_by() {
    check(
        "
        add t1-0 epoch=7 at=20 last=6
        add t1-1 epoch=7 at=20 last=6
        poll
        remove t1-0
        remove t1-1
        add t1-1 epoch=7 at=15 last=6
        answer session=9 t1-0 diverging=4@15 t1-1 records=5
        poll
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20 last=6
            add t1-1 epoch=7 at=20 last=6
            poll
                fetch in 0/0 t1-0@20 in 7 last 6 start 0, t1-1@20 in 7 last 6 start 0
            remove t1-0
            remove t1-1
            add t1-1 epoch=7 at=15 last=6
            answer session=9 t1-0 diverging=4@15 t1-1 records=5
            poll
                fetch in 9/1 for 0 ms without t1-0, without t1-1
        "#]],
    );
}

#[test]
fn what_comes_of_a_step_of_an_older_epoch_is_passed_by() {
    check(
        "
        add t1-0 epoch=7 at=20 last=6
        poll
        answer session=9 t1-0 records=5
        add t1-0 epoch=8 at=25 last=7
        done t1-0 at=22 last=7
        poll
        answer session=9 t1-0
        remove t1-0
        failed t1-0
        ",
        expect![[r#"
            add t1-0 epoch=7 at=20 last=6
            poll
                fetch in 0/0 t1-0@20 in 7 last 6 start 0
            answer session=9 t1-0 records=5
                t1-0 in 7 takes 5 bytes at 20, hw 0, start 0
            add t1-0 epoch=8 at=25 last=7
            done t1-0 at=22 last=7
            poll
                fetch in 9/1 for 0 ms without t1-0
            answer session=9 t1-0
                the answer is about other partitions than were asked for, such as partition 0 of topic AAAAAAAAAAAAAAAAAAAAAQ
            remove t1-0
            failed t1-0
        "#]],
    );
}

#[test]
fn records_that_a_log_does_not_take_are_asked_for_again() {
    check(
        "
        add t1-0 at=20 last=6
        add t1-1 at=20 last=6
        poll
        answer session=9 t1-0 records=5 t1-1 records=5
        delayed t1-0
        delayed t1-1 at=23 last=6
        poll
        answer session=0
        wait 1000
        poll
        ",
        expect![[r#"
            add t1-0 at=20 last=6
            add t1-1 at=20 last=6
            poll
                fetch in 0/0 t1-0@20 in 0 last 6 start 0, t1-1@20 in 0 last 6 start 0
            answer session=9 t1-0 records=5 t1-1 records=5
                t1-0 in 0 takes 5 bytes at 20, hw 0, start 0
                t1-1 in 0 takes 5 bytes at 20, hw 0, start 0
            delayed t1-0
            delayed t1-1 at=23 last=6
            poll
                fetch in 9/1 without t1-0, without t1-1
            answer session=0
                looks again in 1000 ms
            wait 1000
            poll
                fetch in 0/0 t1-0@20 in 0 last 6 start 0, t1-1@23 in 0 last 6 start 0
        "#]],
    );
}

/// Metadata reach the leader a moment after the follower.
#[test]
fn a_leader_that_does_not_know_yet_is_asked_again_soon() {
    check(
        "
        add t1-0
        add t1-1
        poll
        answer session=9 t1-0 error=75 t1-1 error=7
        poll
        wait 50
        answer session=9
        poll
        answer session=9 t1-0 error=75
        poll
        wait 100
        answer session=9
        poll
        answer session=9 t1-0
        done t1-0
        poll
        answer session=9 t1-0 error=6
        ",
        expect![[r#"
            add t1-0
            add t1-1
            poll
                fetch in 0/0 t1-0@0 in 0 last -1 start 0, t1-1@0 in 0 last -1 start 0
            answer session=9 t1-0 error=75 t1-1 error=7
                t1-0: UNKNOWN_LEADER_EPOCH
                t1-1: REQUEST_TIMED_OUT
                looks again in 50 ms
            poll
                fetch in 9/1 for 50 ms without t1-0, without t1-1
            wait 50
            answer session=9
                looks again in 0 ms
            poll
                fetch in 9/2 t1-0@0 in 0 last -1 start 0
            answer session=9 t1-0 error=75
                t1-0: UNKNOWN_LEADER_EPOCH
                looks again in 100 ms
            poll
                fetch in 9/3 for 100 ms without t1-0
            wait 100
            answer session=9
                looks again in 0 ms
            poll
                fetch in 9/4 t1-0@0 in 0 last -1 start 0
            answer session=9 t1-0
                t1-0 in 0 takes 0 bytes at 0, hw 0, start 0
                looks again in 850 ms
            done t1-0
            poll
                fetch in 9/5
            answer session=9 t1-0 error=6
                t1-0: NOT_LEADER_OR_FOLLOWER
                looks again in 50 ms
        "#]],
    );
}
