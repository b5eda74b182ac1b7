//! The groups of a shard: listed, unloaded and loaded, of other types.

use super::script::check;
use expect_test::expect;

#[test]
fn unloading_answers_all_and_loading_finds_the_last_stable_group() {
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
        join g a
          parked
          g PreparingRebalance 1
        reload
          a: NOT_COORDINATOR a-1
          g Stable 1
        heartbeat g a
          NONE
        heartbeat g b
          NONE
        join g b
          joined b-2 generation=1 consumer/range leader=a-1
        tick 10000
          record: g generation=2 consumer/- leader=- at=10000
          g Empty 2
        list
          g classic Empty consumer
    "#]]);
}

#[test]
fn members_sync_waits_are_answered_when_unloading() {
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
        reload
          b: NOT_COORDINATOR
          g Empty 0
        heartbeat g a
          UNKNOWN_MEMBER_ID
    "#]]);
}

#[test]
fn groups_are_listed_by_state_and_type() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join h b version=3
          parked
          record: h generation=0 /- leader=- at=0
          h PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          b: joined b-2 generation=1 consumer/range leader=b-2 members: b-2[t]
          g CompletingRebalance 1
          h CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        commit simple - t-0=5
          NONE
          record: simple t-0=5 at=0
          simple Empty 0
        list
          g classic Stable consumer
          h classic CompletingRebalance consumer
          simple classic Empty -
        list states=stable
          g classic Stable consumer
        list states=Empty,COMPLETINGREBALANCE types=Classic
          h classic CompletingRebalance consumer
          simple classic Empty -
        list types=consumer
        describe h
          CompletingRebalance consumer/
          b-2 - b/host  -> 
        describe simple
          Empty /
        describe none
          Group none not found.
    "#]]);
}

#[test]
fn modern_groups_are_listed_and_give_way_when_they_are_empty() {
    check(&expect![[r#"
        append 17 c
          record: c type 17
        append 19 c m
          record: c type 19
        append 22 c m
          record: c type 22
        append 17 e
          record: e type 17
        append 20 e
          record: e type 20
        append 11 s
          record: s type 11
        append 17 st
          record: st type 17
        list
          c streams Stable streams
          e streams Empty streams
          s share Empty share
          st streams Empty streams
        list types=share
          s share Empty share
        describe c
          Group c is not a classic group.
        join c a
          INCONSISTENT_GROUP_PROTOCOL -
        join s a
          INCONSISTENT_GROUP_PROTOCOL -
        leave c member=m
          UNKNOWN_MEMBER_ID
        heartbeat c a generation=1 member=m
          UNKNOWN_MEMBER_ID
        delete-groups c e
          NON_EMPTY_GROUP NONE
          record: e type 20 gone
          record: e type 17 gone
        commit c - t-0=5
          all UNKNOWN_MEMBER_ID
        commit st - t-0=6
          NONE
          record: st t-0=6 at=0
        join st a
          MEMBER_ID_REQUIRED a-3
          record: st type 17 gone
          record: st generation=0 /- leader=- at=0
          st Empty 0
        fetch st all
          t-0=6
        list
          c streams Stable streams
          s share Empty share
          st classic Empty -
        append 19 c m tombstone
          record: c type 19 gone
        append 22 c m tombstone
          record: c type 22 gone
        reload
        list
          c streams Empty streams
          s share Empty share
          st classic Empty -
    "#]]);
}

#[test]
fn group_whose_assignments_the_log_does_not_take_rebalances() {
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
        log broken
        sync g a a=x b=y
          not appended
          b: COORDINATOR_NOT_AVAILABLE
          g PreparingRebalance 1
        log sound
        join g a
          parked
        join g b
          joined b-2 generation=2 consumer/range leader=a-1
          a: joined a-1 generation=2 consumer/range leader=a-1 members: a-1[t] b-2[t]
          g CompletingRebalance 2
        sync g a a=x b=y
          synced consumer/range x
          record: g generation=2 consumer/range leader=a-1 at=0 a-1=x b-2=y
          g Stable 2
    "#]]);
}

#[test]
fn requests_are_refused_while_the_log_takes_nothing() {
    check(&expect![[r#"
        config delay=0
        log broken
        join g a
          not appended
          g Empty 0
        join g a version=3
          parked
          g PreparingRebalance 0
        commit h - t-0=5
          not appended
        tick 0
          a: joined a-2 generation=1 consumer/range leader=a-2 members: a-2[t]
          g CompletingRebalance 1
        list
          g classic CompletingRebalance consumer
        log sound
        sync g a member=a-2 generation=1 a-2=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-2 at=0 a-2=x
          g Stable 1
        log broken
        leave g member=a-2
          NONE
          g PreparingRebalance 1
        reload
          g Stable 1
        describe g
          Stable consumer/range
          a-2 - a/host [t] -> x
    "#]]);
}

#[test]
fn group_whose_end_the_log_does_not_take_stays_as_it_was() {
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
        leave g a
          NONE
          record: g generation=2 consumer/- leader=- at=0
          g Empty 2
        log broken
        delete-groups g
          not appended
        tick 600000
          not appended
        list
          g classic Empty consumer
        log sound
        join g b version=3
          parked
          g PreparingRebalance 2
    "#]]);
}
