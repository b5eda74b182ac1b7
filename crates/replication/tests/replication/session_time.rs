//! What fetch sessions say of the partitions that they do not name.
//!
//! Each test is a script for [`crate::support::led`], which shows what came of each line.

use crate::support::led::check;
use expect_test::expect;

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
