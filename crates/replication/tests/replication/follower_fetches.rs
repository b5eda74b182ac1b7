//! Which fetches of followers count, and what becomes of what is known of the followers.
//!
//! Each test is a script for [`crate::support::led`], which shows what came of each line.

use crate::support::led::check;
use expect_test::expect;

/// Leader and epoch first, then who asks (KAFKA-14078, 13837), then the start of the log (KAFKA-12996), then the
/// history (KAFKA-13141: what sends a follower back is no progress).
#[test]
fn a_fetch_is_checked_before_it_counts() {
    check(
        "
        append
        lead 1
        append
        append
        delete 1
        lead 3 of=2,3 isr=1,2 at=5
        fetch 2 0 le=2
        fetch 2 0 le=4
        fetch 4 0 le=3
        fetch 4 0
        fetch 4 0 le=2
        fetch 2 0 le=3
        fetch 2 0 le=3 last=0
        fetch 2 9 le=3
        fetch 2 2 le=3 last=9
        fetch 2 3 le=3 last=0
        fetch 2 3 le=3 last=1
        fetch 2 1 le=3 waited
        followers
        fetch 2 3 le=3 last=3
        followers
        follow 2 4
        fetch 2 3 le=4
        fetch 2 3 le=3
        ",
        expect![[r#"
            append                           1/1, 0
            lead 1                           1/1
            append                           2/2, 1
            append                           3/3, 2
            delete 1                         3/3, 1
            lead 3 of=2,3 isr=1,2 at=5       3/3 [1,2] at 5
            fetch 2 0 le=2                   3/3 [1,2] at 5, FENCED_LEADER_EPOCH
            fetch 2 0 le=4                   3/3 [1,2] at 5, UNKNOWN_LEADER_EPOCH
            fetch 4 0 le=3                   3/3 [1,2] at 5, UNKNOWN_LEADER_EPOCH
            fetch 4 0                        3/3 [1,2] at 5, NOT_LEADER_OR_FOLLOWER
            fetch 4 0 le=2                   3/3 [1,2] at 5, FENCED_LEADER_EPOCH
            fetch 2 0 le=3                   3/3 [1,2] at 5, OFFSET_OUT_OF_RANGE
            fetch 2 0 le=3 last=0            3/3 [1,2] at 5, OFFSET_OUT_OF_RANGE
            fetch 2 9 le=3                   3/3 [1,2] at 5, OFFSET_OUT_OF_RANGE
            fetch 2 2 le=3 last=9            3/3 [1,2] at 5, OFFSET_OUT_OF_RANGE
            fetch 2 3 le=3 last=0            3/3 [1,2] at 5, diverges at 1 in 0
            fetch 2 3 le=3 last=1            3/3 [1,2] at 5, nothing, hw 3
            fetch 2 1 le=3 waited            3/3 [1,2] at 5, records, hw 3
            followers                        3/3 [1,2] at 5, 2: 3 caught up 1000; 3: -1 caught up never
            fetch 2 3 le=3 last=3            3/3 [1,2] at 5, nothing, hw 3
            followers                        3/3 [1,2] at 5, 2: 3 caught up 1000; 3: -1 caught up never
            follow 2 4                       3/3
            fetch 2 3 le=4                   3/3, NOT_LEADER_OR_FOLLOWER
            fetch 2 3 le=3                   3/3, FENCED_LEADER_EPOCH
        "#]],
    );
}

#[test]
fn a_broker_that_is_no_replica_is_told_so() {
    check(
        "
        append
        fetch 2 1 le=0
        fetch 2 1
        lead 1 of=2 isr=1 at=4
        fetch 2 1 le=1
        lead 1 of=3 isr=1 at=5
        fetch 2 1 le=1
        fetch 3 1 le=1
        ",
        expect![[r#"
            append                           1/1, 0
            fetch 2 1 le=0                   1/1, UNKNOWN_LEADER_EPOCH
            fetch 2 1                        1/1, NOT_LEADER_OR_FOLLOWER
            lead 1 of=2 isr=1 at=4           1/1 [1] at 4
            fetch 2 1 le=1                   1/1 [1] at 4, nothing, hw 1
            lead 1 of=3 isr=1 at=5           1/1 [1] at 5
            fetch 2 1 le=1                   1/1 [1] at 5, UNKNOWN_LEADER_EPOCH
            fetch 3 1 le=1                   1/1 [1] at 5, nothing, hw 1
        "#]],
    );
}

#[test]
fn records_of_a_replica_out_of_sync_may_be_withheld() {
    check(
        "
        lead 1 of=2,3 isr=1,2 at=5
        append
        fetch 2 0 le=1 throttled
        fetch 3 0 le=1 throttled
        fetch 3 0 le=1
        fetch 3 1 le=1 throttled
        followers
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2 at=5       0/0 [1,2] at 5
            append                           0/1 [1,2] at 5, 0
            fetch 2 0 le=1 throttled         0/1 [1,2] at 5, records, hw 0
            fetch 3 0 le=1 throttled         0/1 [1,2] at 5, nothing, hw 0
            fetch 3 0 le=1                   0/1 [1,2] at 5, records, hw 0
            fetch 3 1 le=1 throttled         0/1 [1,2] at 5, nothing, hw 0
            followers                        0/1 [1,2] at 5, 2: 0 caught up 1000; 3: 1 caught up 1000
        "#]],
    );
}

/// Nobody waits for a replica that the metadata have taken away: it may never fetch again.
#[test]
fn records_are_deleted_when_the_last_replica_that_has_them_is_one_no_more() {
    check(
        "
        lead 1 of=2,3 isr=1,2,3 at=5
        append
        fetch 2 1 le=1
        fetch 3 1 le=1
        delete 1
        fetch 2 1 le=1 start=1
        wait-deleted 1
        lead 1 of=2 isr=1,2 at=6
        low
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append                           0/1 [1,2,3] at 5, 0
            fetch 2 1 le=1                   0/1 [1,2,3] at 5, nothing, hw 0
            fetch 3 1 le=1                   1/1 [1,2,3] at 5, nothing, hw 1
            delete 1                         1/1 [1,2,3] at 5, 1
            fetch 2 1 le=1 start=1           1/1 [1,2,3] at 5, nothing, hw 1
            wait-deleted 1                   1/1 [1,2,3] at 5
            lead 1 of=2 isr=1,2 at=6         1/1 [1,2] at 6, wait-deleted 1: done at 1
            low                              1/1 [1,2] at 6, Some(1)
        "#]],
    );
}

#[test]
fn records_are_deleted_when_no_replica_that_is_there_has_them() {
    check(
        "
        lead 1 of=2,3 isr=1,2,3 at=5
        append
        append
        fetch 2 2 le=1
        fetch 3 2 le=1
        low
        delete 1
        wait-deleted 1
        wait-deleted 2
        low
        fetch 2 2 le=1 start=1
        low
        broker 3 be=30 fenced
        check
        low
        broker 3 be=30
        check
        low
        fetch 3 2 le=1 start=1
        delete 2
        broker 3 be=30 fenced
        lead 1 of=2,3 isr=1,2 at=6
        fetch 2 2 le=1 start=2
        lead 1
        low
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append                           0/1 [1,2,3] at 5, 0
            append                           0/2 [1,2,3] at 5, 1
            fetch 2 2 le=1                   0/2 [1,2,3] at 5, nothing, hw 0
            fetch 3 2 le=1                   2/2 [1,2,3] at 5, nothing, hw 2
            low                              2/2 [1,2,3] at 5, Some(0)
            delete 1                         2/2 [1,2,3] at 5, 1
            wait-deleted 1                   2/2 [1,2,3] at 5
            wait-deleted 2                   2/2 [1,2,3] at 5
            low                              2/2 [1,2,3] at 5, Some(0)
            fetch 2 2 le=1 start=1           2/2 [1,2,3] at 5, nothing, hw 2
            low                              2/2 [1,2,3] at 5, Some(0)
            broker 3 be=30 fenced            2/2 [1,2,3] at 5
            check                            2/2 [1,2,3] at 5, wait-deleted 1: done at 1
            low                              2/2 [1,2,3] at 5, Some(1)
            broker 3 be=30                   2/2 [1,2,3] at 5
            check                            2/2 [1,2,3] at 5
            low                              2/2 [1,2,3] at 5, Some(0)
            fetch 3 2 le=1 start=1           2/2 [1,2,3] at 5, nothing, hw 2
            delete 2                         2/2 [1,2,3] at 5, 2
            broker 3 be=30 fenced            2/2 [1,2,3] at 5
            lead 1 of=2,3 isr=1,2 at=6       2/2 [1,2] at 6
            fetch 2 2 le=1 start=2           2/2 [1,2] at 6, nothing, hw 2, wait-deleted 2: done at 2
            lead 1                           2/2
            low                              2/2, None
        "#]],
    );
}

#[test]
fn an_idle_log_keeps_its_followers() {
    check(
        "
        lead 1 of=2 isr=1,2 at=5
        append
        rest
        fetch 2 1 le=1 last=1 of-session
        rest
        pass 5000
        fetches 2
        append
        followers
        check
        send
        fetch 2 2 le=1
        ",
        expect![[r#"
            lead 1 of=2 isr=1,2 at=5         0/0 [1,2] at 5
            append                           0/1 [1,2] at 5, 0
            rest                             0/1 [1,2] at 5, false
            fetch 2 1 le=1 last=1 of-session 1/1 [1,2] at 5, nothing, hw 1
            rest                             1/1 [1,2] at 5, true
            pass 5000                        1/1 [1,2] at 5
            fetches 2                        1/1 [1,2] at 5
            append                           1/2 [1,2] at 5, 1
            followers                        1/2 [1,2] at 5, 2: 1 caught up 6000
            check                            1/2 [1,2] at 5
            send                             1/2 [1,2] at 5, nothing to ask
            fetch 2 2 le=1                   2/2 [1,2] at 5, nothing, hw 2
        "#]],
    );
}

#[test]
fn another_assignment_keeps_what_is_known_of_those_who_stay() {
    check(
        "
        lead 1 of=2,3 isr=1,2,3 at=5
        append
        fetch 2 1 le=1
        lead 1 of=2,3,4 isr=1,2,3 at=6
        followers
        fetch 4 1 le=1
        send
        lead 1 of=2,4 isr=1,2,4 at=7
        followers
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append                           0/1 [1,2,3] at 5, 0
            fetch 2 1 le=1                   0/1 [1,2,3] at 5, nothing, hw 0
            lead 1 of=2,3,4 isr=1,2,3 at=6   0/1 [1,2,3] at 6
            followers                        0/1 [1,2,3] at 6, 2: 1 caught up 1000; 3: -1 caught up 1000; 4: -1 caught up never
            fetch 4 1 le=1                   0/1 [1,2,3] at 6, nothing, hw 0
            send                             0/1 [1,2,3] at 6, le=1 pe=6 isr=1,2@20,3,4@40
            lead 1 of=2,4 isr=1,2,4 at=7     1/1 [1,2,4] at 7
            followers                        1/1 [1,2,4] at 7, 2: 1 caught up 1000; 4: 1 caught up 1000
        "#]],
    );
}
