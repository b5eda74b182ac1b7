//! Static members: those that keep their place through restarts.

use super::script::check;
use expect_test::expect;

#[test]
fn static_member_that_restarts_keeps_its_assignment_without_a_rebalance() {
    check(&expect![[r#"
        config delay=0
        join g a instance=i
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b instance=j
          parked
        tick 0
          a: joined i-1 generation=1 consumer/range leader=i-1 members: i-1(i)[t] j-2(j)[t]
          b: joined j-2 generation=1 consumer/range leader=i-1
          g CompletingRebalance 1
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=1 consumer/range leader=i-1 at=0 i-1=x j-2=y
          g Stable 1
        sync g b
          synced consumer/range y
        join g a member=-
          joined i-3 generation=1 consumer/range leader=i-3 skip members: i-3(i)[t] j-2(j)[t]
          record: g generation=1 consumer/range leader=i-3 at=0 i-3=x j-2=y
        sync g a
          synced consumer/range x
        join g b member=- version=8
          joined j-4 generation=1 consumer/range leader=i-3
          record: g generation=1 consumer/range leader=i-3 at=0 i-3=x j-4=y
        sync g b
          synced consumer/range y
        heartbeat g a
          NONE
        heartbeat g a member=i-1
          FENCED_INSTANCE_ID
        leave g instance=i
          NONE
          g PreparingRebalance 1
        heartbeat g b
          REBALANCE_IN_PROGRESS
    "#]]);
}

#[test]
fn restarted_static_leader_of_old_versions_takes_itself_for_a_follower() {
    check(&expect![[r#"
        config delay=0
        join g a instance=i version=8
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined i-1 generation=1 consumer/range leader=i-1 members: i-1(i)[t]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=i-1 at=0 i-1=x
          g Stable 1
        join g a member=- version=8
          joined i-2 generation=1 consumer/range leader=i-1
          record: g generation=1 consumer/range leader=i-2 at=0 i-2=x
        sync g a
          synced consumer/range x
    "#]]);
}

#[test]
fn static_member_with_another_protocol_of_choice_rebalances() {
    check(&expect![[r#"
        config delay=0
        join g a instance=i protocols=range,roundrobin
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined i-1 generation=1 consumer/range leader=i-1 members: i-1(i)[t]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=i-1 at=0 i-1=x
          g Stable 1
        join g a member=- protocols=roundrobin
          joined i-2 generation=2 consumer/roundrobin leader=i-2 members: i-2(i)[t]
          g CompletingRebalance 2
        sync g a a=y
          synced consumer/roundrobin y
          record: g generation=2 consumer/roundrobin leader=i-2 at=0 i-2=y
          g Stable 2
    "#]]);
}

#[test]
fn static_member_that_restarts_during_a_rebalance_is_fenced_out_of_its_old_requests() {
    check(&expect![[r#"
        config delay=0
        join g a instance=i
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b instance=j
          parked
        tick 0
          a: joined i-1 generation=1 consumer/range leader=i-1 members: i-1(i)[t] j-2(j)[t]
          b: joined j-2 generation=1 consumer/range leader=i-1
          g CompletingRebalance 1
        sync g b
          parked
        join g b member=-
          parked
          b: FENCED_INSTANCE_ID
          g PreparingRebalance 1
        join g b member=-
          parked
          b: FENCED_INSTANCE_ID j-3
        join g a
          joined i-1 generation=2 consumer/range leader=i-1 members: i-1(i)[t] j-4(j)[t]
          b: joined j-4 generation=2 consumer/range leader=i-1
          g CompletingRebalance 2
        heartbeat g b member=j-2
          FENCED_INSTANCE_ID
    "#]]);
}

#[test]
fn static_members_are_not_out_for_joining_late_but_when_their_session_ends() {
    check(&expect![[r#"
        config delay=0
        join g a instance=i session=60000 rebalance=10000
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3 rebalance=10000 session=60000
          parked
        tick 0
          a: joined i-1 generation=1 consumer/range leader=i-1 members: b-2[t] i-1(i)[t]
          b: joined b-2 generation=1 consumer/range leader=i-1
          g CompletingRebalance 1
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=1 consumer/range leader=i-1 at=0 b-2=y i-1=x
          g Stable 1
        sync g b
          synced consumer/range y
        join g b topics=u rebalance=10000
          parked
          g PreparingRebalance 1
        tick 10000
          b: joined b-2 generation=2 consumer/range leader=b-2 members: b-2[u] i-1(i)[t]
          g CompletingRebalance 2
        heartbeat g a
          ILLEGAL_GENERATION
        sync g b a=x b=y
          synced consumer/range y
          record: g generation=2 consumer/range leader=b-2 at=10000 b-2=y i-1=x
          g Stable 2
        tick 10000
          g PreparingRebalance 2
        join g b topics=u rebalance=10000
          UNKNOWN_MEMBER_ID b-2
    "#]]);
}

#[test]
fn group_of_static_members_alone_waits_for_one_of_them() {
    check(&expect![[r#"
        config delay=0
        join g a instance=i session=60000 rebalance=10000
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join g b version=3 rebalance=10000 session=60000
          parked
        tick 0
          a: joined i-1 generation=1 consumer/range leader=i-1 members: b-2[t] i-1(i)[t]
          b: joined b-2 generation=1 consumer/range leader=i-1
          g CompletingRebalance 1
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=1 consumer/range leader=i-1 at=0 b-2=y i-1=x
          g Stable 1
        sync g b
          synced consumer/range y
        leave g b
          NONE
          g PreparingRebalance 1
        tick 10000
        tick 10000
        join g a
          joined i-1 generation=2 consumer/range leader=i-1 members: i-1(i)[t]
          g CompletingRebalance 2
    "#]]);
}
