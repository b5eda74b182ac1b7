//! What is replicated: the high watermark, too few replicas in sync, and those who wait.
//!
//! Each test is a script for [`crate::support::led`], which shows what came of each line.

use crate::support::led::check;
use expect_test::expect;

/// KAFKA-15021: not one that is stopping, and none that is late.
#[test]
fn who_is_out_of_sync_holds_the_high_watermark_while_it_may_come_back() {
    check(
        "
        lead 1 of=2 isr=1 at=5
        fetch 2 0 le=1
        send
        answer INELIGIBLE_REPLICA
        append
        wait 1
        broker 2 be=20 leaving
        append
        broker 2 be=20
        pass 99
        append
        fetch 2 1 le=1
        append
        pass 201
        check
        ",
        expect![[r#"
            lead 1 of=2 isr=1 at=5           0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2@20
            answer INELIGIBLE_REPLICA        0/0 [1] at 5
            append                           0/1 [1] at 5, 0
            wait 1                           0/1 [1] at 5
            broker 2 be=20 leaving           0/1 [1] at 5
            append                           2/2 [1] at 5, 1, wait 1: done at 1
            broker 2 be=20                   2/2 [1] at 5
            pass 99                          2/2 [1] at 5
            append                           2/3 [1] at 5, 2
            fetch 2 1 le=1                   2/3 [1] at 5, records, hw 2
            append                           2/4 [1] at 5, 3
            pass 201                         2/4 [1] at 5
            check                            4/4 [1] at 5
        "#]],
    );
}

/// KIP-966: the high watermark stays; it moves when enough of them are in sync again. No more are needed than
/// there are replicas.
#[test]
fn too_few_in_sync_replicas_take_nothing_and_see_nothing() {
    check(
        "
        min 2
        lead 1 of=2,3 isr=1,2 at=5
        append all
        wait 1
        append
        fetch 2 1 le=1
        lead 1 of=2,3 isr=1 at=6
        append all
        append
        wait 2
        fetch 2 3 le=1
        send
        answer ok isr=1,2 pe=7
        append all
        min 3
        append all
        min 7
        append all
        ",
        expect![[r#"
            min 2                            0/0
            lead 1 of=2,3 isr=1,2 at=5       0/0 [1,2] at 5
            append all                       0/1 [1,2] at 5, 0
            wait 1                           0/1 [1,2] at 5
            append                           0/2 [1,2] at 5, 1
            fetch 2 1 le=1                   1/2 [1,2] at 5, records, hw 1, wait 1: done at 1
            lead 1 of=2,3 isr=1 at=6         1/2 [1] at 6
            append all                       1/2 [1] at 6, NOT_ENOUGH_REPLICAS
            append                           1/3 [1] at 6, 2
            wait 2                           1/3 [1] at 6
            fetch 2 3 le=1                   1/3 [1] at 6, nothing, hw 1
            send                             1/3 [1] at 6, le=1 pe=6 isr=1,2@20
            answer ok isr=1,2 pe=7           3/3 [1,2] at 7, wait 2: done at 2
            append all                       3/4 [1,2] at 7, 3
            min 3                            3/4 [1,2] at 7
            append all                       3/4 [1,2] at 7, NOT_ENOUGH_REPLICAS
            min 7                            3/4 [1,2] at 7
            append all                       3/4 [1,2] at 7, NOT_ENOUGH_REPLICAS
        "#]],
    );
}

/// A replica that is to be added counts.
#[test]
fn replicas_that_are_lost_after_a_batch_is_replicated_are_told_of() {
    check(
        "
        min 2
        lead 1 of=2,3 isr=1,2,3 at=5
        append all
        fetch 2 1 le=1
        fetch 3 1 le=1
        lead 1 of=2,3 isr=1 at=6
        wait 1
        fetch 2 1 le=1
        wait 1
        ",
        expect![[r#"
            min 2                            0/0
            lead 1 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append all                       0/1 [1,2,3] at 5, 0
            fetch 2 1 le=1                   0/1 [1,2,3] at 5, nothing, hw 0
            fetch 3 1 le=1                   1/1 [1,2,3] at 5, nothing, hw 1
            lead 1 of=2,3 isr=1 at=6         1/1 [1] at 6
            wait 1                           1/1 [1] at 6, wait 1: NOT_ENOUGH_REPLICAS_AFTER_APPEND
            fetch 2 1 le=1                   1/1 [1] at 6, nothing, hw 1
            wait 1                           1/1 [1] at 6, wait 1: done at 1
        "#]],
    );
}

#[test]
fn fewer_replicas_than_asked_for_are_enough() {
    check(
        "
        min 2
        lead 1
        append all
        wait 1
        lead 1 of=2 isr=1 at=3
        append all
        ",
        expect![[r#"
            min 2                            0/0
            lead 1                           0/0
            append all                       1/1, 0
            wait 1                           1/1, wait 1: done at 1
            lead 1 of=2 isr=1 at=3           1/1 [1] at 3
            append all                       1/1 [1] at 3, NOT_ENOUGH_REPLICAS
        "#]],
    );
}

#[test]
fn a_single_replica_in_sync_does_not_wait() {
    check(
        "
        lead 1 of=2,3 isr=1 at=5
        append all
        wait 1
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1 at=5         0/0 [1] at 5
            append all                       1/1 [1] at 5, 0
            wait 1                           1/1 [1] at 5, wait 1: done at 1
        "#]],
    );
}

#[test]
fn the_end_of_a_leadership_ends_every_wait() {
    check(
        "
        lead 1 of=2 isr=1,2 at=5
        append all
        wait 1
        wait-deleted 1
        lead 2 of=2 isr=1,2 at=6
        follow 2 3
        ",
        expect![[r#"
            lead 1 of=2 isr=1,2 at=5         0/0 [1,2] at 5
            append all                       0/1 [1,2] at 5, 0
            wait 1                           0/1 [1,2] at 5
            wait-deleted 1                   0/1 [1,2] at 5
            lead 2 of=2 isr=1,2 at=6         0/1 [1,2] at 6
            follow 2 3                       0/1, wait 1: NOT_LEADER_OR_FOLLOWER, wait-deleted 1: NOT_LEADER_OR_FOLLOWER
        "#]],
    );
}
