//! Members that speak the classic protocol in consumer groups, and groups that go over.

use super::script::check;
use expect_test::expect;

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn a_classic_group_becomes_a_consumer_group_and_a_classic_one_again() {
    check(&expect![[r#"
        config delay=0 interval=0
        topics t=4
        join g x version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          x: joined x-1 generation=1 consumer/range leader=x-1 members: x-1[t]
          g CompletingRebalance 1
        sync g x
          synced consumer/range
          record: g generation=1 consumer/range leader=x-1 at=0 x-1=
          g Stable 1
        beat g a epoch=0
          a epoch=2 t:0,1
          record: g gone
          record: g member x-1 [t] classic
          record: g epoch=1
          record: g target x-1 -
          record: g assignment epoch=1
          record: g current x-1 epoch=1 stable -
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1
          record: g target x-1 t:2,3
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
          g gone
        list
          g consumer Reconciling consumer
        heartbeat g x
          REBALANCE_IN_PROGRESS
        join g x topics=t
          joined x-1 generation=2 consumer/range leader=
          record: g current x-1 epoch=2 stable t:2,3
        sync g x
          synced -/- t:2,3
        beat g a
          a epoch=2
        heartbeat g x
          NONE
        consumers g
          Stable epoch=2 assignment=2 uniform
          a epoch=2 ["t"] t:0,1 -> t:0,1
          x-1 epoch=2 ["t"] t:2,3 classic -> t:2,3
        beat g a epoch=-1
          a epoch=-1
          record: g current a gone
          record: g current x-1 gone
          record: g target a gone
          record: g target x-1 gone
          record: g assignment gone
          record: g member a gone
          record: g member x-1 gone
          record: g epoch gone
          record: g generation=2 consumer/range leader=x-1 at=0 x-1=t:2,3
          g PreparingRebalance 2
        list
          g classic PreparingRebalance consumer
        heartbeat g x
          REBALANCE_IN_PROGRESS
        join g x
          joined x-1 generation=3 consumer/range leader=x-1 members: x-1[t]
          g CompletingRebalance 3
        sync g x x=all
          synced consumer/range all
          record: g generation=3 consumer/range leader=x-1 at=0 x-1=all
          g Stable 3
        heartbeat g x
          NONE
    "#]]);
}

#[test]
fn conversions_are_refused_where_the_policy_says_so() {
    check(&expect![[r#"
        config delay=0 interval=0 migration=disabled
        topics t=2
        join g x version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          x: joined x-1 generation=1 consumer/range leader=x-1 members: x-1[t]
          g CompletingRebalance 1
        beat g a epoch=0
          GROUP_ID_NOT_FOUND
        beat h a epoch=0
          a epoch=2 t:0,1
          record: h member a [t]
          record: h epoch=2
          record: h target a t:0,1
          record: h assignment epoch=2
          record: h current a epoch=2 stable t:0,1
        join h y version=3
          INCONSISTENT_GROUP_PROTOCOL -
        config delay=0 interval=0 migration=upgrade
        join h y version=3
          joined 3 generation=3 consumer/range leader=
          record: h member 3 [t] classic
          record: h epoch=3
          record: h target 3 t:1
          record: h target a t:0
          record: h assignment epoch=3
          record: h current 3 epoch=3 unreleased -
        beat h a epoch=-1
          a epoch=-1
          record: h current a gone
          record: h target a gone
          record: h member a gone
          record: h epoch=4
        list
          g classic CompletingRebalance consumer
          h consumer Assigning consumer
    "#]]);
}

#[test]
fn a_generation_that_members_saw_is_never_given_again() {
    check(&expect![[r#"
        config delay=0 interval=0
        topics t=4
        join g x version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          x: joined x-1 generation=1 consumer/range leader=x-1 members: x-1[t]
          g CompletingRebalance 1
        log broken
        beat g a epoch=0
          not appended
          g Empty 1
        list
          g classic Empty -
        log sound
        join g y version=3
          parked
          g PreparingRebalance 1
        tick 0
          y: joined y-2 generation=2 consumer/range leader=y-2 members: y-2[t]
          g CompletingRebalance 2
    "#]]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn a_member_that_has_the_newest_assignment_gets_it_though_the_group_has_moved_on() {
    check(&expect![[r#"
        config delay=0 interval=0
        tick 1
        topics t=4
        join g x version=3
          parked
          record: g generation=0 /- leader=- at=1
          g PreparingRebalance 0
        tick 0
          x: joined x-1 generation=1 consumer/range leader=x-1 members: x-1[t]
          g CompletingRebalance 1
        sync g x
          synced consumer/range
          record: g generation=1 consumer/range leader=x-1 at=1 x-1=
          g Stable 1
        beat g a epoch=0
          a epoch=2 t:0,1
          record: g gone
          record: g member x-1 [t] classic
          record: g epoch=1
          record: g target x-1 -
          record: g assignment epoch=1
          record: g current x-1 epoch=1 stable -
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1
          record: g target x-1 t:2,3
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
          g gone
        join g x topics=t
          joined x-1 generation=2 consumer/range leader=
          record: g current x-1 epoch=2 stable t:2,3
        config delay=0 interval=6000
        beat g b epoch=0
          b epoch=2 -
          record: g member b [t]
          record: g epoch=3
          record: g current b epoch=2 stable -
        sync g x
          synced -/- t:2,3
        heartbeat g x
          NONE
        tick 2000
        heartbeat g x
          NONE
        beat g a
          a epoch=2
        beat g b
          b epoch=2
        tick 2000
        heartbeat g x
          NONE
        beat g a
          a epoch=2
        beat g b
          b epoch=2
        tick 2000
        beat g a
          a epoch=3
          record: g target b t:3
          record: g target x-1 t:2
          record: g assignment epoch=3
          record: g current a epoch=3 stable t:0,1
        sync g x
          REBALANCE_IN_PROGRESS
        join g x topics=t
          joined x-1 generation=3 consumer/range leader=
          record: g current x-1 epoch=3 stable t:2
        sync g x
          synced -/- t:2
    "#]]);
}

#[test]
fn a_group_whose_assignor_leaves_data_for_members_stays_as_it_is() {
    check(&expect![[r#"
        config delay=0 interval=0
        topics t=2
        join g x version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          x: joined x-1 generation=1 consumer/range leader=x-1 members: x-1[t]
          g CompletingRebalance 1
        sync g x x=t:0,1+data
          synced consumer/range t:0,1
          record: g generation=1 consumer/range leader=x-1 at=0 x-1=t:0,1
          g Stable 1
        beat g a epoch=0 why
          GROUP_ID_NOT_FOUND: Cannot upgrade classic group g to consumer group because an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.
    "#]]);
}

#[test]
fn classic_members_of_a_consumer_group_are_refused_as_in_a_classic_one() {
    check(&expect![[r#"
        config delay=0 interval=0
        topics t=4
        join g x version=5 instance=i
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          x: joined i-1 generation=1 consumer/range leader=i-1 members: i-1(i)[t]
          g CompletingRebalance 1
        sync g x
          synced consumer/range
          record: g generation=1 consumer/range leader=i-1 at=0 i-1=
          g Stable 1
        beat g a epoch=0
          a epoch=2 t:0,1
          record: g gone
          record: g member i-1 [t] instance=i classic
          record: g epoch=1
          record: g target i-1 -
          record: g assignment epoch=1
          record: g current i-1 epoch=1 stable -
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1
          record: g target i-1 t:2,3
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
          g gone
        join g x instance=i topics=t
          joined i-1 generation=2 consumer/range leader=
          record: g current i-1 epoch=2 stable t:2,3
        sync g x generation=1
          ILLEGAL_GENERATION
        sync g x type=connect
          INCONSISTENT_GROUP_PROTOCOL
        sync g x type=consumer protocol=roundrobin
          INCONSISTENT_GROUP_PROTOCOL
        sync g x type=consumer protocol=range
          synced consumer/range t:2,3
        sync g y generation=2 member=unknown
          UNKNOWN_MEMBER_ID
        heartbeat g x generation=1
          ILLEGAL_GENERATION
        heartbeat g x member=other
          FENCED_INSTANCE_ID
        sync g x member=other
          FENCED_INSTANCE_ID
    "#]]);
}

#[test]
fn a_group_that_is_too_large_for_a_consumer_group_stays_what_it_is() {
    check(&expect![[r#"
        config delay=0 interval=0 consumers=1
        topics t=2
        join g x version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          x: joined x-1 generation=1 consumer/range leader=x-1 members: x-1[t]
          g CompletingRebalance 1
        sync g x
          synced consumer/range
          record: g generation=1 consumer/range leader=x-1 at=0 x-1=
          g Stable 1
        beat g a epoch=0 why
          GROUP_MAX_SIZE_REACHED: The consumer group has reached its maximum capacity of 1 members.
        join g y version=3
          parked
          g PreparingRebalance 1
        join g x
          joined x-1 generation=2 consumer/range leader=x-1 members: x-1[t] y-2[t]
          y: joined y-2 generation=2 consumer/range leader=x-1
          g CompletingRebalance 2
        sync g x
          synced consumer/range
          record: g generation=2 consumer/range leader=x-1 at=0 x-1= y-2=
          g Stable 2
        beat g a epoch=0 why
          GROUP_ID_NOT_FOUND: Cannot upgrade classic group g to consumer group because the group size exceeds the consumer group maximum size.
    "#]]);
}
