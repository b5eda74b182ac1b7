//! What the controller answers a leader who asks for in-sync replicas, and the metadata that come before or after it.
//!
//! Each test is a script for [`crate::support::led`], which shows what came of each line.

use crate::support::led::check;
use expect_test::expect;

/// Those that are as new say nothing else than the answer.
#[test]
fn metadata_that_are_behind_an_answer_are_passed_by() {
    check(
        "
        lead 1 of=2,3 isr=1,2 at=5
        fetch 3 0 le=1
        send
        answer ok isr=1,2,3 pe=6
        lead 1 of=2,3 isr=1,2 at=5
        lead 1 of=2,3 isr=1,2,3 at=6
        append
        fetch 2 1 le=1
        lead 1 of=2,3 isr=1,2 at=7
        fetch 3 1 le=1
        send
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2 at=5       0/0 [1,2] at 5
            fetch 3 0 le=1                   0/0 [1,2] at 5, nothing, hw 0
            send                             0/0 [1,2] at 5, le=1 pe=5 isr=1,2,3@30
            answer ok isr=1,2,3 pe=6         0/0 [1,2,3] at 6
            lead 1 of=2,3 isr=1,2 at=5       0/0 [1,2,3] at 6
            lead 1 of=2,3 isr=1,2,3 at=6     0/0 [1,2,3] at 6
            append                           0/1 [1,2,3] at 6, 0
            fetch 2 1 le=1                   0/1 [1,2,3] at 6, nothing, hw 0
            lead 1 of=2,3 isr=1,2 at=7       0/1 [1,2] at 7
            fetch 3 1 le=1                   1/1 [1,2] at 7, nothing, hw 1
            send                             1/1 [1,2] at 7, le=1 pe=7 isr=1,2@20,3@30
        "#]],
    );
}

/// KAFKA-8836, 12686.
#[test]
fn an_answer_that_is_behind_the_metadata_is_dropped() {
    check(
        "
        lead 1 of=2,3 isr=1,2 at=5
        fetch 3 0 le=1
        send
        lead 1 of=2,3 isr=1,2 at=7
        answer ok isr=1,2,3 pe=6
        append
        fetch 2 1 le=1
        fetch 3 0 le=1
        send
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2 at=5       0/0 [1,2] at 5
            fetch 3 0 le=1                   0/0 [1,2] at 5, nothing, hw 0
            send                             0/0 [1,2] at 5, le=1 pe=5 isr=1,2,3@30
            lead 1 of=2,3 isr=1,2 at=7       0/0 [1,2] at 7
            answer ok isr=1,2,3 pe=6         0/0 [1,2] at 7
            append                           0/1 [1,2] at 7, 0
            fetch 2 1 le=1                   0/1 [1,2] at 7, nothing, hw 0
            fetch 3 0 le=1                   0/1 [1,2] at 7, records, hw 0
            send                             0/1 [1,2] at 7, le=1 pe=7 isr=1,2@20,3@30
        "#]],
    );
}

/// The controller may have added replica 3: it counts, whatever is not known.
#[test]
fn metadata_as_old_as_the_request_keep_what_it_asks_for() {
    check(
        "
        lead 1 of=2,3 isr=1,2 at=5
        fetch 3 0 le=1
        send
        append
        lead 1 of=2,3 isr=1,2 at=5
        fetch 2 1 le=1
        answer nothing
        pass 50
        send
        answer ok isr=1,2,3 pe=6
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2 at=5       0/0 [1,2] at 5
            fetch 3 0 le=1                   0/0 [1,2] at 5, nothing, hw 0
            send                             0/0 [1,2] at 5, le=1 pe=5 isr=1,2,3@30
            append                           0/1 [1,2] at 5, 0
            lead 1 of=2,3 isr=1,2 at=5       0/1 [1,2] at 5
            fetch 2 1 le=1                   0/1 [1,2] at 5, nothing, hw 0
            answer nothing                   0/1 [1,2] at 5
            pass 50                          0/1 [1,2] at 5
            send                             0/1 [1,2] at 5, le=1 pe=5 isr=1,2,3@30
            answer ok isr=1,2,3 pe=6         0/1 [1,2,3] at 6
        "#]],
    );
}

/// The same question at once would have the same answer, again and again.
#[test]
fn what_has_no_answer_is_asked_again_after_a_pause() {
    check(
        "
        lead 1 of=2,3 isr=1,2 at=5
        fetch 3 0 le=1
        send
        answer nothing
        send
        pass 49
        send
        pass 1
        send
        answer ok isr=1,2,3 pe=6
        send
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2 at=5       0/0 [1,2] at 5
            fetch 3 0 le=1                   0/0 [1,2] at 5, nothing, hw 0
            send                             0/0 [1,2] at 5, le=1 pe=5 isr=1,2,3@30
            answer nothing                   0/0 [1,2] at 5
            send                             0/0 [1,2] at 5, nothing to ask
            pass 49                          0/0 [1,2] at 5
            send                             0/0 [1,2] at 5, nothing to ask
            pass 1                           0/0 [1,2] at 5
            send                             0/0 [1,2] at 5, le=1 pe=5 isr=1,2,3@30
            answer ok isr=1,2,3 pe=6         0/0 [1,2,3] at 6
            send                             0/0 [1,2,3] at 6, nothing to ask
        "#]],
    );
}

#[test]
fn what_the_controller_refuses_for_good_is_tried_by_a_later_fetch() {
    check(
        "
        lead 1 of=2 isr=1 at=5
        fetch 2 0 le=1
        send
        answer INELIGIBLE_REPLICA
        send
        fetch 2 0 le=1
        send
        answer OPERATION_NOT_ATTEMPTED
        fetch 2 0 le=1
        send
        ",
        expect![[r#"
            lead 1 of=2 isr=1 at=5           0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            answer INELIGIBLE_REPLICA        0/0 [1] at 5
            send                             0/0 [1] at 5, nothing to ask
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            answer OPERATION_NOT_ATTEMPTED   0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
        "#]],
    );
}

#[test]
fn what_newer_metadata_have_to_tell_stays_pending() {
    check(
        "
        lead 1 of=2,3 isr=1,2 at=5
        append
        fetch 3 1 le=1
        fetch 2 1 le=1
        send
        answer INVALID_UPDATE_VERSION
        send
        append
        fetch 2 2 le=1
        fetch 3 1 le=1
        send
        lead 1 of=2,3 isr=1,2 at=6
        fetch 3 2 le=1
        send
        answer FENCED_LEADER_EPOCH
        lead 2 of=2,3 isr=1,2 at=8
        fetch 3 2 le=2
        send
        answer NEW_LEADER_ELECTED
        fetch 3 2 le=2
        send
        follow 2 3
        send
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2 at=5       0/0 [1,2] at 5
            append                           0/1 [1,2] at 5, 0
            fetch 3 1 le=1                   0/1 [1,2] at 5, nothing, hw 0
            fetch 2 1 le=1                   1/1 [1,2] at 5, nothing, hw 1
            send                             1/1 [1,2] at 5, le=1 pe=5 isr=1,2,3@30
            answer INVALID_UPDATE_VERSION    1/1 [1,2] at 5
            send                             1/1 [1,2] at 5, nothing to ask
            append                           1/2 [1,2] at 5, 1
            fetch 2 2 le=1                   1/2 [1,2] at 5, nothing, hw 1
            fetch 3 1 le=1                   1/2 [1,2] at 5, records, hw 1
            send                             1/2 [1,2] at 5, nothing to ask
            lead 1 of=2,3 isr=1,2 at=6       1/2 [1,2] at 6
            fetch 3 2 le=1                   2/2 [1,2] at 6, nothing, hw 2
            send                             2/2 [1,2] at 6, le=1 pe=6 isr=1,2@20,3@30
            answer FENCED_LEADER_EPOCH       2/2 [1,2] at 6
            lead 2 of=2,3 isr=1,2 at=8       2/2 [1,2] at 8
            fetch 3 2 le=2                   2/2 [1,2] at 8, nothing, hw 2
            send                             2/2 [1,2] at 8, le=2 pe=8 isr=1,2@20,3@30
            answer NEW_LEADER_ELECTED        2/2 [1,2] at 8
            fetch 3 2 le=2                   2/2 [1,2] at 8, nothing, hw 2
            send                             2/2 [1,2] at 8, nothing to ask
            follow 2 3                       2/2
            send                             2/2, nothing to ask
        "#]],
    );
}

#[test]
fn what_is_not_known_is_asked_again() {
    check(
        "
        lead 1 of=2 isr=1 at=5
        fetch 2 0 le=1
        send
        answer UNKNOWN_SERVER_ERROR
        pass 50
        send
        answer top STALE_BROKER_EPOCH
        send
        pass 49
        send
        pass 1
        send
        answer NOT_CONTROLLER
        send
        pass 50
        send
        answer ok isr=1,2 pe=6
        ",
        expect![[r#"
            lead 1 of=2 isr=1 at=5           0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            answer UNKNOWN_SERVER_ERROR      0/0 [1] at 5
            pass 50                          0/0 [1] at 5
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            answer top STALE_BROKER_EPOCH    0/0 [1] at 5
            send                             0/0 [1] at 5, nothing to ask
            pass 49                          0/0 [1] at 5
            send                             0/0 [1] at 5, nothing to ask
            pass 1                           0/0 [1] at 5
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            answer NOT_CONTROLLER            0/0 [1] at 5
            send                             0/0 [1] at 5, nothing to ask
            pass 50                          0/0 [1] at 5
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            answer ok isr=1,2 pe=6           0/0 [1,2] at 6
        "#]],
    );
}

/// Replica 3 counts while it may be in sync, and cannot be asked for as it may be out of sync.
#[test]
fn a_shrink_of_which_nothing_is_known_is_not_taken_back() {
    check(
        "
        lead 1 of=2,3 isr=1,2,3 at=5
        append
        pass 150
        fetch 2 1 le=1
        check
        send
        answer top REQUEST_TIMED_OUT
        append
        fetch 2 2 le=1
        fetch 3 2 le=1
        check
        pass 50
        send
        answer INVALID_UPDATE_VERSION
        lead 1 of=2,3 isr=1,2 at=6
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append                           0/1 [1,2,3] at 5, 0
            pass 150                         0/1 [1,2,3] at 5
            fetch 2 1 le=1                   0/1 [1,2,3] at 5, nothing, hw 0
            check                            0/1 [1,2,3] at 5
            send                             0/1 [1,2,3] at 5, le=1 pe=5 isr=1,2@20
            answer top REQUEST_TIMED_OUT     0/1 [1,2,3] at 5
            append                           0/2 [1,2,3] at 5, 1
            fetch 2 2 le=1                   0/2 [1,2,3] at 5, nothing, hw 0
            fetch 3 2 le=1                   2/2 [1,2,3] at 5, nothing, hw 2
            check                            2/2 [1,2,3] at 5
            pass 50                          2/2 [1,2,3] at 5
            send                             2/2 [1,2,3] at 5, le=1 pe=5 isr=1,2@20
            answer INVALID_UPDATE_VERSION    2/2 [1,2,3] at 5
            lead 1 of=2,3 isr=1,2 at=6       2/2 [1,2] at 6
        "#]],
    );
}

#[test]
fn an_answer_of_another_epoch_changes_nothing() {
    check(
        "
        lead 1 of=2 isr=1 at=5
        fetch 2 0 le=1
        send
        answer ok isr=1,2 pe=6 le=2
        fetch 2 0 le=1
        send
        lead 2 of=2 isr=1,2 at=6
        ",
        expect![[r#"
            lead 1 of=2 isr=1 at=5           0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            answer ok isr=1,2 pe=6 le=2      0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, nothing to ask
            lead 2 of=2 isr=1,2 at=6         0/0 [1,2] at 6
        "#]],
    );
}

#[test]
fn an_answer_that_changes_nothing_counts() {
    check(
        "
        lead 1 of=2 isr=1 at=5
        fetch 2 0 le=1
        send
        answer ok isr=1,2 pe=5
        ",
        expect![[r#"
            lead 1 of=2 isr=1 at=5           0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            answer ok isr=1,2 pe=5           0/0 [1,2] at 5
        "#]],
    );
}

/// What was asked before the metadata have changed is still in flight.
#[test]
fn a_proposal_waits_for_the_one_before_it() {
    check(
        "
        lead 1 of=2,3 isr=1 at=5
        fetch 2 0 le=1
        send
        lead 1 of=2,3 isr=1 at=6
        fetch 2 0 le=1
        answer INVALID_UPDATE_VERSION
        fetch 3 0 le=1
        send
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1 at=5         0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            lead 1 of=2,3 isr=1 at=6         0/0 [1] at 6
            fetch 2 0 le=1                   0/0 [1] at 6, nothing, hw 0
            answer INVALID_UPDATE_VERSION    0/0 [1] at 6
            fetch 3 0 le=1                   0/0 [1] at 6, nothing, hw 0
            send                             0/0 [1] at 6, le=1 pe=6 isr=1,3@30
        "#]],
    );
}
