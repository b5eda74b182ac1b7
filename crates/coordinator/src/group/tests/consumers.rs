//! Consumer groups: members that join, live, get partitions and leave.

use super::script::check;
use expect_test::expect;

#[test]
fn members_share_the_partitions() {
    check(&expect![[r#"
        config interval=0
        topics t=4
        beat g a epoch=0
          a epoch=2 t:0,1,2,3
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1,2,3
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1,2,3
        beat g b epoch=0
          b epoch=3 -
          record: g member b [t]
          record: g epoch=3
          record: g target a t:0,1
          record: g target b t:2,3
          record: g assignment epoch=3
          record: g current b epoch=3 unreleased -
        beat g a
          a epoch=2 t:0,1
          record: g current a epoch=2 unrevoked t:0,1 without t:2,3
        beat g b
          b epoch=3
          record: g current b epoch=3 unreleased -
        beat g a ack
          a epoch=3
          record: g current a epoch=3 stable t:0,1
        beat g b
          b epoch=3 t:2,3
          record: g current b epoch=3 stable t:2,3
        beat g a
          a epoch=3
        consumers g
          Stable epoch=3 assignment=3 uniform
          a epoch=3 ["t"] t:0,1 -> t:0,1
          b epoch=3 ["t"] t:2,3 -> t:2,3
        beat g a epoch=-1
          a epoch=-1
          record: g current a gone
          record: g target a gone
          record: g member a gone
          record: g epoch=4
        beat g b
          b epoch=4 t:0,1,2,3
          record: g target b t:0,1,2,3
          record: g assignment epoch=4
          record: g current b epoch=4 stable t:0,1,2,3
        list
          g consumer Stable consumer
        describe g
          Group g is not a classic group.
        beat g b epoch=-1
          b epoch=-1
          record: g current b gone
          record: g target b gone
          record: g member b gone
          record: g epoch=5
        list
          g consumer Empty consumer
        delete-groups g
          NONE
          record: g assignment gone
          record: g epoch gone
        list
    "#]]);
}

#[test]
fn epochs_and_instances_are_checked() {
    check(&expect![[r#"
        config interval=0
        topics t=2
        beat g a epoch=1
          GROUP_ID_NOT_FOUND
        beat g a epoch=0
          a epoch=2 t:0,1
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
        beat g a epoch=7
          FENCED_MEMBER_EPOCH
        beat g a epoch=1
          FENCED_MEMBER_EPOCH
        beat g s epoch=0 instance=i
          s epoch=3 -
          record: g member s [t] instance=i
          record: g epoch=3
          record: g target a t:0
          record: g target s t:1
          record: g assignment epoch=3
          record: g current s epoch=3 unreleased -
        beat g s2 epoch=0 instance=i
          UNRELEASED_INSTANCE_ID
        beat g s2 epoch=3 instance=i
          FENCED_INSTANCE_ID
        beat g s epoch=-2 instance=i
          s epoch=-2
          record: g current s epoch=-2 unreleased -
        beat g s2 epoch=0 instance=i
          s2 epoch=3 -
          record: g current s gone
          record: g target s gone
          record: g member s gone
          record: g member s2 [t] instance=i
          record: g target s2 t:1
          record: g current s2 epoch=0 unreleased -
          record: g member s2 [t] instance=i
          record: g current s2 epoch=3 unreleased -
        beat g s epoch=3 instance=i
          FENCED_INSTANCE_ID
        beat g s2 epoch=-2
          s2 epoch=-2
          record: g current s2 epoch=-2 unreleased -
        beat g a epoch=0 assignor=nobody
          UNSUPPORTED_ASSIGNOR
        beat g a epoch=0 topics= regex=(
          INVALID_REGULAR_EXPRESSION
        beat g a epoch=-5
          INVALID_REQUEST
        beat g b epoch=0 rebalance=-1
          INVALID_REQUEST
        beat "" a epoch=0
          INVALID_REQUEST
        config interval=0 consumers=2
        beat g c epoch=0
          GROUP_MAX_SIZE_REACHED
    "#]]);
}

#[test]
fn offsets_are_stored_by_members_that_had_the_partition_at_the_time() {
    check(&expect![[r#"
        config interval=0
        topics t=2
        beat g a epoch=0
          a epoch=2 t:0,1
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
        commit g a topic-id=name t-0=5
          NONE
          record: g t-0=5 at=0
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
        commit g a topic-id=name generation=2 t-0=6
          NONE
          record: g t-0=6 at=0
        commit g a topic-id=name generation=2 t-1=6
          all STALE_MEMBER_EPOCH
        commit g a topic-id=name generation=9 t-0=6
          all STALE_MEMBER_EPOCH
        commit g a version=8 t-0=6
          all UNSUPPORTED_VERSION
        commit g - t-0=6
          all UNKNOWN_MEMBER_ID
        fetch g t-0 member=a epoch=3
          t-0=6
        fetch g t-0 member=a epoch=2
          STALE_MEMBER_EPOCH
        fetch g t-0 member=nobody epoch=2
          UNKNOWN_MEMBER_ID
        fetch g t-0
          t-0=6
        delete-offsets g t-0
          GROUP_SUBSCRIBED_TO_TOPIC
        delete-groups g
          NON_EMPTY_GROUP
    "#]]);
}

#[test]
fn regular_expressions_follow_the_topics() {
    check(&expect![[r#"
        config interval=0
        topics t=2 u=1 v=1
        beat g a epoch=0 topics= regex=[tu]
          a epoch=1 -
          record: g member a [] regex=[tu]
          record: g current a epoch=1 stable -
        tick 0
          record: g regex [tu] [t,u]
          record: g epoch=2
        beat g a
          a epoch=2 t:0,1 u:0
          record: g target a t:0,1 u:0
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1 u:0
        topics t=2 u=1 tt=3 uu=1 v=1
        beat g a
          a epoch=2
        beat g a topics= regex=[tu]+
          a epoch=2 -
          record: g member a [] regex=[tu]+
          record: g regex [tu] gone
          record: g current a epoch=2 unrevoked - without t:0,1 u:0
        tick 10001
        beat g a
          a epoch=2
        tick 0
          record: g regex [tu]+ [t,tt,u,uu]
          record: g epoch=3
        beat g a
          a epoch=2
          record: g target a t:0,1 u:0 tt:0,1,2 uu:0
          record: g assignment epoch=3
        beat g a regex=
          a epoch=2
          record: g member a []
          record: g regex [tu]+ gone
          record: g epoch=4
          record: g target a -
          record: g assignment epoch=4
        beat g a ack
          a epoch=4
          record: g current a epoch=4 stable -
    "#]]);
}

#[test]
fn members_that_are_silent_or_late_go() {
    check(&expect![[r#"
        config interval=0
        topics t=2
        beat g a epoch=0 rebalance=10000
          a epoch=2 t:0,1
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
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
        tick 9999
        beat g b
          b epoch=3
          record: g current b epoch=3 unreleased -
        tick 1
          record: g current a gone
          record: g target a gone
          record: g member a gone
          record: g epoch=4
        beat g b
          b epoch=4 t:0,1
          record: g target b t:0,1
          record: g assignment epoch=4
          record: g current b epoch=4 stable t:0,1
        tick 45000
          record: g current b gone
          record: g target b gone
          record: g member b gone
          record: g epoch=5
        reload
        list
          g consumer Empty consumer
    "#]]);
}

#[test]
fn regular_expressions_may_take_long_to_be_resolved() {
    check(&expect![[r#"
        config interval=0
        topics t=2 u=1 v=1
        regexes later
        beat g a epoch=0 topics= regex=[tu]
          a epoch=1 -
          record: g member a [] regex=[tu]
          record: g current a epoch=1 stable -
        tick 0
        beat g b epoch=0 topics= regex=v
          b epoch=1 -
          record: g member b [] regex=v
          record: g current b epoch=1 stable -
        beat g a
          a epoch=1
        topics t=2 tt=1 v=1
        tick 10001
        beat g a
          a epoch=1
        resolve
          record: g regex [tu] [t,u]
          record: g epoch=2
        beat g a
          a epoch=2 t:0,1
          record: g target a t:0,1
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
        beat g b
          b epoch=2
          record: g current b epoch=2 stable -
        tick 0
        resolve
        tick 10001
        beat g b
          b epoch=2
        tick 0
        resolve
          record: g regex v [v]
          record: g regex [tu] [t]
          record: g epoch=3
    "#]]);
}

#[test]
fn who_leaves_waits_for_no_regular_expression() {
    check(&expect![[r#"
        config interval=0
        topics t=1
        regexes later
        beat g a epoch=0 topics= regex=t
          a epoch=1 -
          record: g member a [] regex=t
          record: g current a epoch=1 stable -
        tick 0
        beat g a epoch=-1
          a epoch=-1
          record: g current a gone
          record: g target a gone
          record: g member a gone
          record: g regex t gone
          record: g epoch=2
        abandoned 1
        beat g b epoch=0 topics= regex=t
          b epoch=2 -
          record: g member b [] regex=t
          record: g assignment epoch=2
          record: g current b epoch=2 stable -
        tick 0
        abandoned 1
        resolve
          record: g regex t [t]
          record: g epoch=3
        tick 10001
        beat g b regex=tt
          b epoch=3
          record: g member b [] regex=tt
          record: g regex t gone
          record: g assignment epoch=3
          record: g current b epoch=3 stable -
        tick 0
        beat g b topics=t regex=
          b epoch=4 t:0
          record: g member b [t]
          record: g regex tt gone
          record: g epoch=4
          record: g target b t:0
          record: g assignment epoch=4
          record: g current b epoch=4 stable t:0
        abandoned 1
        beat g b regex=u
          b epoch=4
          record: g member b [t] regex=u
        resolve
    "#]]);
}

#[test]
fn regular_expressions_that_somebody_has_given_up_are_asked_for_again() {
    check(&expect![[r#"
        config interval=0
        topics t=1
        regexes later
        beat g a epoch=0 topics= regex=t
          a epoch=1 -
          record: g member a [] regex=t
          record: g current a epoch=1 stable -
        tick 0
        beat g a
          a epoch=1
        tick 0
        give-up
        regexes now
        beat g a
          a epoch=1
        tick 0
          record: g regex t [t]
          record: g epoch=2
    "#]]);
}
