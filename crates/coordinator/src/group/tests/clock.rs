//! A wall clock that is set: what is waited for goes by another one, and what is old by the time
//! that has lasted.

use super::script::check;
use expect_test::expect;

#[test]
fn members_outlive_any_step_of_the_clock() {
    check(&expect![[r#"
        config delay=0
        topics t=2
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
        beat h b epoch=0
          b epoch=2 t:0,1
          record: h member b [t]
          record: h epoch=2
          record: h target b t:0,1
          record: h assignment epoch=2
          record: h current b epoch=2 stable t:0,1
        clock 691200000
        tick 9000
        heartbeat g a
          NONE
        beat h b
          b epoch=2
        clock -691203600000
        tick 9999
        heartbeat g a
          NONE
        beat h b
          b epoch=2
        tick 10000
          record: g generation=2 consumer/- leader=- at=-690512371001
          g Empty 2
        tick 35000
          record: h current b gone
          record: h target b gone
          record: h member b gone
          record: h epoch=3
    "#]]);
}

#[test]
fn a_rebalance_takes_as_long_as_it_may_whatever_the_clock_does() {
    check(&expect![[r#"
        config delay=3000
        clock 3600000
        join g a version=3 session=100000
          parked
          record: g generation=0 /- leader=- at=3600000
          g PreparingRebalance 0
        clock -3600000
        tick 2999
        tick 1
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        clock 3600000
        tick 59999
        tick 1
          record: g generation=2 consumer/- leader=- at=3663000
          g Empty 2
    "#]]);
}

#[test]
fn a_moment_of_a_wrong_date_expires_no_offsets() {
    check(&expect![[r#"
        config delay=0 retention=86400000
        commit g - t-0=5
          NONE
          record: g t-0=5 at=0
          g Empty 0
        tick 599999
        clock 691200000
        tick 1
        clock -691200000
        tick 600000
        clock 691200000
        tick 600000
        tick 600000
          record: g t-0 gone
          record: g gone
          g gone
    "#]]);
}

#[test]
fn an_assignment_of_the_future_is_as_old_as_any() {
    check(&expect![[r#"
        config interval=1000
        topics t=2
        clock 3600000
        beat g a epoch=0
          a epoch=2 t:0,1
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
        clock -3600000
        beat g b epoch=0
          b epoch=3 -
          record: g member b [t]
          record: g epoch=3
          record: g target a t:0
          record: g target b t:1
          record: g assignment epoch=3
          record: g current b epoch=3 unreleased -
        beat g a
          a epoch=2 t:0
          record: g current a epoch=2 unrevoked t:0 without t:1
        beat g a ack
          a epoch=3
          record: g current a epoch=3 stable t:0
        beat g b
          b epoch=3 t:1
          record: g current b epoch=3 stable t:1
    "#]]);
}

#[test]
fn expressions_that_were_resolved_in_the_future_are_resolved_again() {
    check(&expect![[r#"
        config interval=0
        topics t=1
        clock 3600000
        beat g a epoch=0 topics= regex=t.*
          a epoch=1 -
          record: g member a [] regex=t.*
          record: g current a epoch=1 stable -
        tick 0
          record: g regex t.* [t]
          record: g epoch=2
        clock -3600000
        topics t=1 tt=1
        beat g a
          a epoch=2 t:0
          record: g target a t:0
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0
        tick 0
          record: g regex t.* [t,tt]
          record: g epoch=3
        beat g a
          a epoch=3 t:0 tt:0
          record: g target a t:0 tt:0
          record: g assignment epoch=3
          record: g current a epoch=3 stable t:0 tt:0
    "#]]);
}
