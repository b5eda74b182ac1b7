//! Who is in sync, as a leader sees its followers.
//!
//! Each test is a script for [`crate::support::led`], which shows what came of each line.

use crate::support::led::check;
use expect_test::expect;

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

/// Two changes of the metadata may come as one: broker 2 has led in epoch 6, and broker 3 has cut its log as that said.
#[test]
fn a_leader_knows_nothing_of_its_followers_where_another_one_may_have_led_in_between() {
    check(
        "
        lead 5 of=2,3 isr=1,2,3 at=5
        append all
        append all
        fetch 2 1 le=5
        fetch 3 2 le=5
        wait 2
        lead 7 of=2,3 isr=1,3 at=8
        followers
        fetch 3 1 le=7
        fetch 3 2 le=7
        append all
        fetch 3 3 le=7
        fetch 2 3 le=7
        append all
        lead 8 of=2,3 isr=1,3 at=9
        followers
        ",
        expect![[r#"
            lead 5 of=2,3 isr=1,2,3 at=5     0/0 [1,2,3] at 5
            append all                       0/1 [1,2,3] at 5, 0
            append all                       0/2 [1,2,3] at 5, 1
            fetch 2 1 le=5                   0/2 [1,2,3] at 5, records, hw 0
            fetch 3 2 le=5                   1/2 [1,2,3] at 5, nothing, hw 1
            wait 2                           1/2 [1,2,3] at 5
            lead 7 of=2,3 isr=1,3 at=8       1/2 [1,3] at 8
            followers                        1/2 [1,3] at 8, 2: -1 caught up never; 3: -1 caught up 1000
            fetch 3 1 le=7                   1/2 [1,3] at 8, records, hw 1
            fetch 3 2 le=7                   2/2 [1,3] at 8, nothing, hw 2, wait 2: done at 2
            append all                       2/3 [1,3] at 8, 2
            fetch 3 3 le=7                   3/3 [1,3] at 8, nothing, hw 3
            fetch 2 3 le=7                   3/3 [1,3] at 8, nothing, hw 3
            append all                       3/4 [1,3] at 8, 3
            lead 8 of=2,3 isr=1,3 at=9       3/4 [1,3] at 9
            followers                        3/4 [1,3] at 9, 2: 3 caught up never; 3: 3 caught up 1000
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

#[test]
fn a_partition_is_looked_after_while_it_is_led_and_has_followers() {
    check(
        "
        looked-after
        lead 1 of=2 isr=1,2 at=5
        looked-after
        lead 1 of=2,3 isr=1,2 at=6
        looked-after
        lead 2
        looked-after
        lead 3 of=2 isr=1,2 at=8
        looked-after
        follow 2 4
        looked-after
        lead 5 of=2 isr=1,2 at=10
        none
        looked-after
        ",
        expect![[r#"
            looked-after                     0/0, false
            lead 1 of=2 isr=1,2 at=5         0/0 [1,2] at 5
            looked-after                     0/0 [1,2] at 5, true
            lead 1 of=2,3 isr=1,2 at=6       0/0 [1,2] at 6
            looked-after                     0/0 [1,2] at 6, true
            lead 2                           0/0
            looked-after                     0/0, false
            lead 3 of=2 isr=1,2 at=8         0/0 [1,2] at 8
            looked-after                     0/0 [1,2] at 8, true
            follow 2 4                       0/0
            looked-after                     0/0, false
            lead 5 of=2 isr=1,2 at=10        0/0 [1,2] at 10, elected
            none                             0/0
            looked-after                     0/0, false
        "#]],
    );
}
