//! The life of classic groups.

use super::script::check;
use expect_test::expect;

#[test]
fn first_member_gets_an_id_joins_after_the_initial_delay_and_becomes_stable() {
    check(&expect![[r#"
        join g a
          MEMBER_ID_REQUIRED a-1
          record: g generation=0 /- leader=- at=0
          g Empty 0
        join g a
          parked
          g PreparingRebalance 0
        tick 2999
        tick 1
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        heartbeat g a
          NONE
        commit g a t-0=5
          all REBALANCE_IN_PROGRESS
        sync g a a=t-0
          synced consumer/range t-0
          record: g generation=1 consumer/range leader=a-1 at=3000 a-1=t-0
          g Stable 1
        heartbeat g a
          NONE
        commit g a t-0=6
          NONE
          record: g t-0=6 at=3000
        describe g
          Stable consumer/range
          a-1 - a/host [t] -> t-0
    "#]]);
}

#[test]
fn versions_before_4_join_without_an_id_first() {
    check(&expect![[r#"
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 3000
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=3000 a-1=x
          g Stable 1
    "#]]);
}

#[test]
fn initial_delay_extends_while_members_come_up_to_the_rebalance_timeout() {
    check(&expect![[r#"
        join g a version=3 rebalance=10000
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 2000
        join g b version=3 rebalance=10000
          parked
        tick 1000
        tick 2000
        join g c version=3 rebalance=10000
          parked
        tick 1000
        tick 2000
        join g d version=3 rebalance=10000
          parked
        tick 1000
        tick 1000
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t] c-3[t] d-4[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          c: joined c-3 generation=1 consumer/range leader=a-1
          d: joined d-4 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
    "#]]);
}

#[test]
fn members_who_come_while_others_are_stable_cause_a_rebalance() {
    check(&expect![[r#"
        config delay=0
        join g a
          MEMBER_ID_REQUIRED a-1
          record: g generation=0 /- leader=- at=0
          g Empty 0
        join g a
          parked
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        join g b
          MEMBER_ID_REQUIRED b-2
        heartbeat g a
          NONE
        join g b
          parked
          g PreparingRebalance 1
        heartbeat g a
          REBALANCE_IN_PROGRESS
        sync g a
          REBALANCE_IN_PROGRESS
        commit g a t-0=5
          NONE
          record: g t-0=5 at=0
        join g a
          joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t] b-2[t]
          b: joined b-2 generation=2 consumer/range leader=a-1
          g CompletingRebalance 2
        sync g b
          parked
        heartbeat g b
          NONE
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=2 consumer/range leader=a-1 at=0 a-1=x b-2=y
          b: synced consumer/range y
          g Stable 2
        heartbeat g b
          NONE
        heartbeat g a
          NONE
    "#]]);
}

#[test]
fn members_that_do_not_rejoin_in_time_are_out() {
    check(&expect![[r#"
        config delay=0
        join g a version=3 rebalance=30000
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        join g b version=3 rebalance=20000 session=25000
          parked
          g PreparingRebalance 1
        heartbeat g a
          REBALANCE_IN_PROGRESS
        tick 9000
        heartbeat g a
          REBALANCE_IN_PROGRESS
        tick 9000
        heartbeat g a
          REBALANCE_IN_PROGRESS
        tick 9000
        heartbeat g a
          REBALANCE_IN_PROGRESS
        tick 3000
          b: joined b-2 generation=2 consumer/range leader=b-2 members: b-2[t]
          g CompletingRebalance 2
        heartbeat g a
          UNKNOWN_MEMBER_ID
    "#]]);
}

#[test]
fn session_of_a_silent_member_ends() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        tick 9999
        heartbeat g a
          NONE
        tick 9999
        tick 1
          record: g generation=2 consumer/- leader=- at=19999
          g Empty 2
        heartbeat g a
          UNKNOWN_MEMBER_ID
        list
          g classic Empty consumer
    "#]]);
}

#[test]
fn pending_member_that_never_comes_back_does_not_hold_the_group() {
    check(&expect![[r#"
        config delay=0
        join g a version=3 session=30000
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        join g b
          MEMBER_ID_REQUIRED b-2
        join g a
          parked
          g PreparingRebalance 1
        tick 9999
        tick 1
          a: joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 2
        join g b member=b-2
          UNKNOWN_MEMBER_ID b-2
    "#]]);
}

#[test]
fn members_that_do_not_sync_are_out() {
    check(&expect![[r#"
        config delay=0
        join g a version=3 rebalance=9000
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3 rebalance=8000
          parked
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        sync g b
          parked
        heartbeat g a
          NONE
        tick 9000
          b: REBALANCE_IN_PROGRESS
          g PreparingRebalance 1
        join g b
          joined b-2 generation=2 consumer/range leader=b-2 members: b-2[t]
          g CompletingRebalance 2
    "#]]);
}

#[test]
fn lost_leader_answer_is_given_again() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3
          parked
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        join g a
          joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t]
        join g b
          joined b-2 generation=1 consumer/range leader=a-1
        join g b topics=u
          parked
          g PreparingRebalance 1
        join g a
          joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t] b-2[u]
          b: joined b-2 generation=2 consumer/range leader=a-1
          g CompletingRebalance 2
    "#]]);
}

#[test]
fn follower_that_rejoins_unchanged_stays_in_its_generation_and_a_leader_rebalances() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3
          parked
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x b-2=y
          g Stable 1
        sync g b
          synced consumer/range y
        join g b
          joined b-2 generation=1 consumer/range leader=a-1
        join g a
          parked
          g PreparingRebalance 1
        heartbeat g b
          REBALANCE_IN_PROGRESS
        join g b
          joined b-2 generation=2 consumer/range leader=a-1
          a: joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t] b-2[t]
          g CompletingRebalance 2
    "#]]);
}

#[test]
fn syncs_before_the_leaders_wait_and_members_left_out_get_nothing() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3
          parked
        join g c version=3
          parked
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t] c-3[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          c: joined c-3 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        sync g b
          parked
        sync g c
          parked
        sync g a b=y
          synced consumer/range
          record: g generation=1 consumer/range leader=a-1 at=0 a-1= b-2=y c-3=
          b: synced consumer/range y
          c: synced consumer/range
          g Stable 1
        sync g b
          synced consumer/range y
        sync g a a=late
          synced consumer/range
    "#]]);
}

#[test]
fn requests_of_strangers_and_of_other_generations_are_refused() {
    check(&expect![[r#"
        config delay=0
        join g x member=unknown
          UNKNOWN_MEMBER_ID unknown
        heartbeat g x generation=1 member=unknown
          UNKNOWN_MEMBER_ID
        sync g x generation=1 member=unknown
          UNKNOWN_MEMBER_ID
        leave g member=unknown
          UNKNOWN_MEMBER_ID
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        heartbeat g y generation=2 member=a-1
          ILLEGAL_GENERATION
        sync g y generation=2 member=a-1
          ILLEGAL_GENERATION
        sync g y type=connect generation=1 member=a-1
          INCONSISTENT_GROUP_PROTOCOL
        sync g y protocol=roundrobin generation=1 member=a-1
          INCONSISTENT_GROUP_PROTOCOL
        sync g a type=consumer protocol=range a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        heartbeat g x member=unknown
          UNKNOWN_MEMBER_ID
        leave g member=unknown
          UNKNOWN_MEMBER_ID
        commit g a t-0=1 generation=0
          all ILLEGAL_GENERATION
        commit g - t-0=1
          all UNKNOWN_MEMBER_ID
        commit g b t-0=1
          all UNKNOWN_MEMBER_ID
    "#]]);
}

#[test]
fn requests_that_can_never_be_right_are_refused() {
    check(&expect![[r#"
        join "" a
          INVALID_GROUP_ID -
        join g a session=5999
          INVALID_SESSION_TIMEOUT -
        join g a session=1800001
          INVALID_SESSION_TIMEOUT -
        join g a type=
          INCONSISTENT_GROUP_PROTOCOL -
        join g a protocols=
          INCONSISTENT_GROUP_PROTOCOL -
        list
    "#]]);
}

#[test]
fn members_must_share_a_protocol_and_its_type() {
    check(&expect![[r#"
        config delay=0
        join g a version=3 protocols=range,roundrobin
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        join g b version=3 protocols=sticky
          INCONSISTENT_GROUP_PROTOCOL -
        join g b version=3 type=connect
          INCONSISTENT_GROUP_PROTOCOL -
        join g b version=3 protocols=roundrobin
          parked
          g PreparingRebalance 1
        join g a protocols=range
          INCONSISTENT_GROUP_PROTOCOL a-1
        join g a protocols=range,roundrobin
          joined a-1 generation=2 consumer/roundrobin leader=a-1 members: a-1[t] b-4[t]
          b: joined b-4 generation=2 consumer/roundrobin leader=a-1
          g CompletingRebalance 2
        sync g a a=x b=y
          synced consumer/roundrobin x
          record: g generation=2 consumer/roundrobin leader=a-1 at=0 a-1=x b-4=y
          g Stable 2
    "#]]);
}

#[test]
fn protocol_with_the_most_votes_wins_and_the_leaders_choice_among_equals() {
    check(&expect![[r#"
        config delay=0
        join g a version=3 protocols=range,roundrobin
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3 protocols=roundrobin,range
          parked
        join g c version=3 protocols=roundrobin,range
          parked
        tick 0
          a: joined a-1 generation=1 consumer/roundrobin leader=a-1 members: a-1[t] b-2[t] c-3[t]
          b: joined b-2 generation=1 consumer/roundrobin leader=a-1
          c: joined c-3 generation=1 consumer/roundrobin leader=a-1
          g CompletingRebalance 1
        leave g c
          NONE
          g PreparingRebalance 1
        join g a
          parked
        join g b
          joined b-2 generation=2 consumer/range leader=a-1
          a: joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t] b-2[t]
          g CompletingRebalance 2
    "#]]);
}

#[test]
fn members_leave_and_the_last_one_empties_the_group() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3
          parked
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x b-2=y
          g Stable 1
        sync g b
          synced consumer/range y
        leave g a b
          NONE NONE
          record: g generation=2 consumer/- leader=- at=0
          g Empty 2
        list
          g classic Empty consumer
        join g c
          MEMBER_ID_REQUIRED c-3
        join g c
          parked
          g PreparingRebalance 2
        tick 0
          c: joined c-3 generation=3 consumer/range leader=c-3 members: c-3[t]
          g CompletingRebalance 3
    "#]]);
}

#[test]
fn leader_that_leaves_is_replaced() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3
          parked
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x b-2=y
          g Stable 1
        sync g b
          synced consumer/range y
        leave g a
          NONE
          g PreparingRebalance 1
        heartbeat g b
          REBALANCE_IN_PROGRESS
        join g b
          joined b-2 generation=2 consumer/range leader=b-2 members: b-2[t]
          g CompletingRebalance 2
        sync g b b=z
          synced consumer/range z
          record: g generation=2 consumer/range leader=b-2 at=0 b-2=z
          g Stable 2
    "#]]);
}

#[test]
fn member_that_leaves_while_it_waits_is_answered() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3
          parked
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        sync g b
          parked
        leave g b
          NONE
          b: UNKNOWN_MEMBER_ID
          g PreparingRebalance 1
        join g a
          joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 2
        join g b version=3
          parked
          g PreparingRebalance 2
        leave g a
          NONE
          b: joined b-3 generation=3 consumer/range leader=b-3 members: b-3[t]
          g CompletingRebalance 3
    "#]]);
}

#[test]
fn leaving_pending_member_lets_the_rebalance_end() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        join g b
          MEMBER_ID_REQUIRED b-2
        join g a
          parked
          g PreparingRebalance 1
        leave g member=b-2
          NONE
          a: joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 2
    "#]]);
}

#[test]
fn group_of_the_largest_size_takes_nobody_else() {
    check(&expect![[r#"
        config delay=0 size=2
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3
          parked
        join g c version=3
          GROUP_MAX_SIZE_REACHED -
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x b-2=y
          g Stable 1
        join g c version=3
          GROUP_MAX_SIZE_REACHED -
        join g c
          GROUP_MAX_SIZE_REACHED -
        config delay=0 size=1
        reload
          g PreparingRebalance 1
        join g b
          parked
        join g a
          GROUP_MAX_SIZE_REACHED -
          b: joined b-2 generation=2 consumer/range leader=b-2 members: b-2[t]
          g CompletingRebalance 2
    "#]]);
}

#[test]
fn assignments_that_no_batch_can_hold_fail() {
    check(&expect![[r#"
        config delay=0 batch=210
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        sync g a a=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
          UNKNOWN_SERVER_ERROR
          g PreparingRebalance 1
        join g a
          joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 2
        sync g a a=x
          synced consumer/range x
          record: g generation=2 consumer/range leader=a-1 at=0 a-1=x
          g Stable 2
    "#]]);
}

#[test]
fn retried_requests_take_the_place_of_those_that_wait() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3
          parked
        join g b member=b-2
          parked
          b: REBALANCE_IN_PROGRESS b-2
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        sync g b
          parked
        sync g b
          parked
          b: REBALANCE_IN_PROGRESS
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x b-2=y
          b: synced consumer/range y
          g Stable 1
    "#]]);
}

#[test]
fn a_rebalance_waits_for_others_when_a_session_ends() {
    check(&expect![[r#"
        config delay=0
        join g a version=3 rebalance=60000
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3 session=6000 rebalance=60000
          parked
        join g c version=3 session=30000 rebalance=60000
          parked
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t] b-2[t] c-3[t]
          b: joined b-2 generation=1 consumer/range leader=a-1
          c: joined c-3 generation=1 consumer/range leader=a-1
          g CompletingRebalance 1
        sync g a a=x b=y c=z
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x b-2=y c-3=z
          g Stable 1
        join g a version=3 rebalance=60000
          parked
          g PreparingRebalance 1
        tick 6000
        join g c version=3 session=30000 rebalance=60000
          joined c-3 generation=2 consumer/range leader=a-1
          a: joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t] c-3[t]
          g CompletingRebalance 2
    "#]]);
}
