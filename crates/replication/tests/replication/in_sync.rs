//! What a leader does about its followers: who is in sync, and what is replicated by that.
//!
//! Each test is a script for [`crate::support::led`]: after each line it shows the high watermark and the log end, the
//! in-sync replicas as the controller has committed them and the partition's epoch, then what came of the line,
//! and which waits have ended.

use crate::support::led::played;
use expect_test::{Expect, expect};

#[expect(clippy::needless_pass_by_value, reason = "as it is written")]
fn check(script: &str, expect: Expect) {
    expect.assert_eq(&played(script));
}

#[test]
fn a_batch_is_replicated_when_all_in_sync_replicas_have_fetched_beyond_it() {
    check(
        "
        lead 1 of=2,3 isr=1,2,3 at=5
        append all
        wait 1
        fetch 2 0 le=1
        fetch 3 0 le=1
        fetch 2 1 le=1
        fetch 3 1 le=1
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append all                       0/1 [1,2,3] at 5, 0
            wait 1                           0/1 [1,2,3] at 5
            fetch 2 0 le=1                   0/1 [1,2,3] at 5, records, hw 0
            fetch 3 0 le=1                   0/1 [1,2,3] at 5, records, hw 0
            fetch 2 1 le=1                   0/1 [1,2,3] at 5, nothing, hw 0
            fetch 3 1 le=1                   1/1 [1,2,3] at 5, nothing, hw 1, wait 1: done at 1
        "#]],
    );
}

/// It binds the high watermark from the moment on when the controller is asked, as that may have added it already.
#[test]
fn a_follower_is_asked_for_when_it_has_caught_up() {
    check(
        "
        append
        append
        lead 1 of=2 isr=1 at=5
        append
        fetch 2 0 le=1
        send
        fetch 2 2 le=1
        send
        fetch 2 3 le=1
        append
        send
        fetch 2 3 le=1
        answer ok isr=1,2 pe=6
        send
        fetch 2 4 le=1
        append
        ",
        expect![[r#"
            append                           1/1, 0
            append                           2/2, 1
            lead 1 of=2 isr=1 at=5           2/2 [1] at 5
            append                           3/3 [1] at 5, 2
            fetch 2 0 le=1                   3/3 [1] at 5, records, hw 3
            send                             3/3 [1] at 5, nothing to ask
            fetch 2 2 le=1                   3/3 [1] at 5, records, hw 3
            send                             3/3 [1] at 5, nothing to ask
            fetch 2 3 le=1                   3/3 [1] at 5, nothing, hw 3
            append                           3/4 [1] at 5, 3
            send                             3/4 [1] at 5, le=1 pe=5 isr=1,2@20
            fetch 2 3 le=1                   3/4 [1] at 5, records, hw 3
            answer ok isr=1,2 pe=6           3/4 [1,2] at 6
            send                             3/4 [1,2] at 6, nothing to ask
            fetch 2 4 le=1                   4/4 [1,2] at 6, nothing, hw 4
            append                           4/5 [1,2] at 6, 4
        "#]],
    );
}

#[test]
fn who_is_to_be_removed_counts_until_the_controller_says_so() {
    check(
        "
        lead 1 of=2,3 isr=1,2,3 at=5
        append all
        fetch 2 1 le=1
        fetch 3 1 le=1
        append all
        pass 90
        fetch 2 2 le=1
        check
        send
        pass 60
        fetch 2 2 le=1
        check
        send
        fetch 2 2 le=1
        append all
        fetch 2 3 le=1
        answer ok isr=1,2 pe=6
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append all                       0/1 [1,2,3] at 5, 0
            fetch 2 1 le=1                   0/1 [1,2,3] at 5, nothing, hw 0
            fetch 3 1 le=1                   1/1 [1,2,3] at 5, nothing, hw 1
            append all                       1/2 [1,2,3] at 5, 1
            pass 90                          1/2 [1,2,3] at 5
            fetch 2 2 le=1                   1/2 [1,2,3] at 5, nothing, hw 1
            check                            1/2 [1,2,3] at 5
            send                             1/2 [1,2,3] at 5, nothing to ask
            pass 60                          1/2 [1,2,3] at 5
            fetch 2 2 le=1                   1/2 [1,2,3] at 5, nothing, hw 1
            check                            1/2 [1,2,3] at 5
            send                             1/2 [1,2,3] at 5, le=1 pe=5 isr=1,2@20
            fetch 2 2 le=1                   1/2 [1,2,3] at 5, nothing, hw 1
            append all                       1/3 [1,2,3] at 5, 2
            fetch 2 3 le=1                   1/3 [1,2,3] at 5, nothing, hw 1
            answer ok isr=1,2 pe=6           3/3 [1,2] at 6
        "#]],
    );
}

/// Had it been at the end when it fetched before, it was caught up then, whatever has been appended since.
#[test]
fn a_follower_that_is_a_little_late_stays_in_sync() {
    check(
        "
        lead 1 of=2 isr=1,2 at=5
        fetch 2 0 le=1
        append
        pass 60
        fetch 2 0 le=1
        append
        pass 30
        check
        send
        fetch 2 1 le=1
        followers
        pass 60
        check
        send
        pass 30
        check
        send
        ",
        expect![[r#"
            lead 1 of=2 isr=1,2 at=5         0/0 [1,2] at 5
            fetch 2 0 le=1                   0/0 [1,2] at 5, nothing, hw 0
            append                           0/1 [1,2] at 5, 0
            pass 60                          0/1 [1,2] at 5
            fetch 2 0 le=1                   0/1 [1,2] at 5, records, hw 0
            append                           0/2 [1,2] at 5, 1
            pass 30                          0/2 [1,2] at 5
            check                            0/2 [1,2] at 5
            send                             0/2 [1,2] at 5, nothing to ask
            fetch 2 1 le=1                   1/2 [1,2] at 5, records, hw 1
            followers                        1/2 [1,2] at 5, 2: 1 caught up 1060
            pass 60                          1/2 [1,2] at 5
            check                            1/2 [1,2] at 5
            send                             1/2 [1,2] at 5, nothing to ask
            pass 30                          1/2 [1,2] at 5
            check                            1/2 [1,2] at 5
            send                             1/2 [1,2] at 5, le=1 pe=5 isr=1
        "#]],
    );
}

/// A follower that has everything is in sync, however long it has been silent; without a session it is too late
/// with the first append.
#[test]
fn a_quiet_partition_loses_nobody() {
    check(
        "
        lead 1 of=2 isr=1,2 at=5
        append
        fetch 2 1 le=1
        pass 10000
        check
        send
        append
        check
        send
        ",
        expect![[r#"
            lead 1 of=2 isr=1,2 at=5         0/0 [1,2] at 5
            append                           0/1 [1,2] at 5, 0
            fetch 2 1 le=1                   1/1 [1,2] at 5, nothing, hw 1
            pass 10000                       1/1 [1,2] at 5
            check                            1/1 [1,2] at 5
            send                             1/1 [1,2] at 5, nothing to ask
            append                           1/2 [1,2] at 5, 1
            check                            1/2 [1,2] at 5
            send                             1/2 [1,2] at 5, le=1 pe=5 isr=1
        "#]],
    );
}

/// After a quiet hour follower 2 was caught up a moment before the append, and 3 an hour ago. What the session
/// says after the append is not of this partition: it has to name it.
#[test]
fn a_session_speaks_for_the_partitions_that_it_does_not_name() {
    check(
        "
        lead 1 of=2,3 isr=1,2,3 at=5
        append
        fetch 2 1 le=1 of-session
        fetch 3 1 le=1 of-session
        pass 3600000
        fetches 2
        followers
        pass 10
        append
        check
        send
        answer ok isr=1,2 pe=6
        pass 80
        fetch 2 1 le=1 of-session
        followers
        pass 60
        fetches 2
        check
        send
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append                           0/1 [1,2,3] at 5, 0
            fetch 2 1 le=1 of-session        0/1 [1,2,3] at 5, nothing, hw 0
            fetch 3 1 le=1 of-session        1/1 [1,2,3] at 5, nothing, hw 1
            pass 3600000                     1/1 [1,2,3] at 5
            fetches 2                        1/1 [1,2,3] at 5
            followers                        1/1 [1,2,3] at 5, 2: 1 caught up 3601000; 3: 1 caught up 1000
            pass 10                          1/1 [1,2,3] at 5
            append                           1/2 [1,2,3] at 5, 1
            check                            1/2 [1,2,3] at 5
            send                             1/2 [1,2,3] at 5, le=1 pe=5 isr=1,2@20
            answer ok isr=1,2 pe=6           1/2 [1,2] at 6
            pass 80                          1/2 [1,2] at 6
            fetch 2 1 le=1 of-session        1/2 [1,2] at 6, records, hw 1
            followers                        1/2 [1,2] at 6, 2: 1 caught up 3601000; 3: 1 caught up 1000
            pass 60                          1/2 [1,2] at 6
            fetches 2                        1/2 [1,2] at 6
            check                            1/2 [1,2] at 6
            send                             1/2 [1,2] at 6, le=1 pe=6 isr=1
        "#]],
    );
}

#[test]
fn a_session_speaks_for_nothing_that_it_has_let_go_of() {
    check(
        "
        lead 1 of=2 isr=1,2 at=5
        append
        fetch 2 1 le=1 of-session
        pass 10
        fetches 2
        forget 2
        pass 200
        fetches 2
        append
        followers
        fetch 2 5 le=1 of-session
        fetch 2 2 le=1 of-session
        pass 10
        fetches 2
        followers
        fetch 2 2 le=0 of-session
        pass 10
        fetches 2
        followers
        ",
        expect![[r#"
            lead 1 of=2 isr=1,2 at=5         0/0 [1,2] at 5
            append                           0/1 [1,2] at 5, 0
            fetch 2 1 le=1 of-session        1/1 [1,2] at 5, nothing, hw 1
            pass 10                          1/1 [1,2] at 5
            fetches 2                        1/1 [1,2] at 5
            forget 2                         1/1 [1,2] at 5
            pass 200                         1/1 [1,2] at 5
            fetches 2                        1/1 [1,2] at 5
            append                           1/2 [1,2] at 5, 1
            followers                        1/2 [1,2] at 5, 2: 1 caught up 1010
            fetch 2 5 le=1 of-session        1/2 [1,2] at 5, OFFSET_OUT_OF_RANGE
            fetch 2 2 le=1 of-session        2/2 [1,2] at 5, nothing, hw 2
            pass 10                          2/2 [1,2] at 5
            fetches 2                        2/2 [1,2] at 5
            followers                        2/2 [1,2] at 5, 2: 2 caught up 1220
            fetch 2 2 le=0 of-session        2/2 [1,2] at 5, FENCED_LEADER_EPOCH
            pass 10                          2/2 [1,2] at 5
            fetches 2                        2/2 [1,2] at 5
            followers                        2/2 [1,2] at 5, 2: 2 caught up 1220
        "#]],
    );
}

#[test]
fn a_new_epoch_forgets_what_sessions_said() {
    check(
        "
        lead 1 of=2,3 isr=1,2 at=5
        append
        fetch 2 1 le=1 of-session
        pass 50
        fetches 2
        followers
        lead 2 of=2,3 isr=1,2 at=6
        pass 10
        fetches 2
        followers
        append
        fetch 2 1 le=2 of-session
        followers
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2 at=5       0/0 [1,2] at 5
            append                           0/1 [1,2] at 5, 0
            fetch 2 1 le=1 of-session        1/1 [1,2] at 5, nothing, hw 1
            pass 50                          1/1 [1,2] at 5
            fetches 2                        1/1 [1,2] at 5
            followers                        1/1 [1,2] at 5, 2: 1 caught up 1050; 3: -1 caught up never
            lead 2 of=2,3 isr=1,2 at=6       1/1 [1,2] at 6
            pass 10                          1/1 [1,2] at 6
            fetches 2                        1/1 [1,2] at 6
            followers                        1/1 [1,2] at 6, 2: 1 caught up 1050; 3: -1 caught up never
            append                           1/2 [1,2] at 6, 1
            fetch 2 1 le=2 of-session        1/2 [1,2] at 6, records, hw 1
            followers                        1/2 [1,2] at 6, 2: 1 caught up 1050; 3: -1 caught up never
        "#]],
    );
}

#[test]
fn a_leader_that_was_none_knows_nothing_of_its_followers() {
    check(
        "
        lead 1 of=2 isr=1,2 at=5
        append
        fetch 2 1 le=1
        follow 2 2
        lead 3 of=2 isr=1,2 at=8
        append
        followers
        fetch 2 1 le=3
        ",
        expect![[r#"
            lead 1 of=2 isr=1,2 at=5         0/0 [1,2] at 5
            append                           0/1 [1,2] at 5, 0
            fetch 2 1 le=1                   1/1 [1,2] at 5, nothing, hw 1
            follow 2 2                       1/1
            lead 3 of=2 isr=1,2 at=8         1/1 [1,2] at 8, elected
            append                           1/2 [1,2] at 8, 1
            followers                        1/2 [1,2] at 8, 2: -1 caught up 1000
            fetch 2 1 le=3                   1/2 [1,2] at 8, records, hw 1
        "#]],
    );
}

/// KAFKA-7128: having the high watermark is not enough.
#[test]
fn a_follower_joins_at_the_start_of_the_epoch_or_later() {
    check(
        "
        lead 1 of=2,3 isr=1,2,3 at=5
        append
        append
        fetch 2 1 le=1
        fetch 3 1 le=1
        follow 3 2
        lead 3 of=2,3 isr=1,3 at=8
        current
        fetch 2 1 le=3
        send
        fetch 3 2 le=3
        current
        fetch 2 2 le=3
        send
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append                           0/1 [1,2,3] at 5, 0
            append                           0/2 [1,2,3] at 5, 1
            fetch 2 1 le=1                   0/2 [1,2,3] at 5, records, hw 0
            fetch 3 1 le=1                   1/2 [1,2,3] at 5, records, hw 1
            follow 3 2                       1/2
            lead 3 of=2,3 isr=1,3 at=8       1/2 [1,3] at 8, elected
            current                          1/2 [1,3] at 8, false
            fetch 2 1 le=3                   1/2 [1,3] at 8, records, hw 1
            send                             1/2 [1,3] at 8, nothing to ask
            fetch 3 2 le=3                   2/2 [1,3] at 8, nothing, hw 2
            current                          2/2 [1,3] at 8, true
            fetch 2 2 le=3                   2/2 [1,3] at 8, nothing, hw 2
            send                             2/2 [1,3] at 8, le=3 pe=8 isr=1,3@30,2@20
        "#]],
    );
}

/// KIP-841 and KIP-903. A run of a broker that is over is refused; one that the metadata do not know yet is not
/// in sync.
#[test]
fn who_may_not_lead_is_not_asked_for() {
    check(
        "
        lead 1 of=2,3 isr=1 at=5
        broker 2 be=20 fenced
        fetch 2 0 le=1
        broker 2 be=20 leaving
        fetch 2 0 le=1
        send
        broker 2 be=21
        fetch 2 0 le=1 be=20
        fetch 2 0 le=1 be=22
        send
        fetch 2 0 le=1 be=-1
        send
        answer INELIGIBLE_REPLICA
        gone 3
        fetch 3 0 le=1
        broker 3 be=30
        fetch 3 0 le=1
        send
        ",
        expect![[r#"
            lead 1 of=2,3 isr=1 at=5         0/0 [1] at 5
            broker 2 be=20 fenced            0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            broker 2 be=20 leaving           0/0 [1] at 5
            fetch 2 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, nothing to ask
            broker 2 be=21                   0/0 [1] at 5
            fetch 2 0 le=1 be=20             0/0 [1] at 5, NOT_LEADER_OR_FOLLOWER
            fetch 2 0 le=1 be=22             0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, nothing to ask
            fetch 2 0 le=1 be=-1             0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,2
            answer INELIGIBLE_REPLICA        0/0 [1] at 5
            gone 3                           0/0 [1] at 5
            fetch 3 0 le=1                   0/0 [1] at 5, nothing, hw 0
            broker 3 be=30                   0/0 [1] at 5
            fetch 3 0 le=1                   0/0 [1] at 5, nothing, hw 0
            send                             0/0 [1] at 5, le=1 pe=5 isr=1,3@30
        "#]],
    );
}

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
            send                             0/1 [1,2] at 5, le=1 pe=5 isr=1,2,3@30
            answer ok isr=1,2,3 pe=6         0/1 [1,2,3] at 6
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
