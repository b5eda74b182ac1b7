//! The life of committed offsets.

use super::script::check;
use expect_test::expect;

#[test]
fn simple_consumer_commits_and_fetches() {
    check(&expect![[r#"
        commit g - t-0=5 t-1=6 u-0=7 epoch=3 metadata=note
          NONE NONE NONE
          record: g t-0=5 at=0
          record: g t-1=6 at=0
          record: g u-0=7 at=0
          g Empty 0
        fetch g t-0 t-9 x-0
          t-0=5 epoch=3 metadata=note
          t-9=-1
          x-0=-1
        fetch g all
          t-0=5 epoch=3 metadata=note
          t-1=6 epoch=3 metadata=note
          u-0=7 epoch=3 metadata=note
        fetch none t-0
          t-0=-1
        fetch none all
        commit g - t-0=4
          NONE
          record: g t-0=4 at=0
        fetch g t-0
          t-0=4
        list
          g classic Empty -
    "#]]);
}

#[test]
fn group_that_does_not_exist_takes_no_commit_of_a_member() {
    check(&expect![[r#"
        commit g - t-0=5 generation=1
          all GROUP_ID_NOT_FOUND
        commit g - t-0=5 generation=1 version=8
          all ILLEGAL_GENERATION
        txn-commit g - t-0=5 generation=1
          all ILLEGAL_GENERATION
        list
    "#]]);
}

#[test]
fn offset_with_a_note_that_is_too_long_is_refused() {
    check(&expect![[r#"
        config metadata=4
        commit g - t-0=5 metadata=éééé
          NONE
          record: g t-0=5 at=0
          g Empty 0
        commit g - t-0=5 metadata=ééééé
          OFFSET_METADATA_TOO_LARGE
        fetch g t-0
          t-0=5 metadata=éééé
    "#]]);
}

#[test]
fn offsets_of_a_topic_that_was_created_again_are_not_fetched() {
    check(&expect![[r#"
        topics t=1
        commit g - t-0=5 topic-id=name
          NONE
          record: g t-0=5 at=0
          g Empty 0
        fetch g t-0
          t-0=5
        fetch g t-0 topic-id=116
          t-0=5
        fetch g t-0 topic-id=2
          t-0=-1
        fetch g all
          t-0=5
        topics t:2=1
        fetch g all
        topics
        fetch g all
          t-0=5
        delete-topic t topic-id=2
        delete-topic t topic-id=116
          record: g t-0 gone
    "#]]);
}

#[test]
fn offsets_of_a_topic_that_is_gone_are_refused() {
    check(&expect![[r#"
        topics t=1 u=1
        txn-commit g - producer=7 t-0=5 topic-id=name
          NONE
          record: g t-0=5 at=0
          g Empty 0
        topics t:2=1 u=1
        delete-topic t topic-id=116
          record: g t-0 gone
        commit g - t-0=6 topic-id=name
          UNKNOWN_TOPIC_OR_PARTITION
        txn-commit g - producer=7 t-0=6 topic-id=name
          UNKNOWN_TOPIC_OR_PARTITION
        commit g - u-0=6 topic-id=name
          NONE
          record: g u-0=6 at=0
        end-txn producer=7 commit
        fetch g all
          u-0=6
    "#]]);
}

#[test]
fn offsets_of_members_survive_a_reload() {
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
        commit g a t-0=5
          NONE
          record: g t-0=5 at=0
        reload
        fetch g all
          t-0=5
        commit g a t-0=6
          NONE
          record: g t-0=6 at=0
        fetch g all
          t-0=6
    "#]]);
}

#[test]
fn commits_keep_members_alive() {
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
        commit g a t-0=5
          NONE
          record: g t-0=5 at=9999
        tick 9999
        heartbeat g a
          NONE
    "#]]);
}

#[test]
fn offsets_of_an_empty_group_expire_with_the_group_when_it_has_been_empty_long_enough() {
    check(&expect![[r#"
        config delay=0 retention=1200000
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
        commit g a t-0=5
          NONE
          record: g t-0=5 at=0
        tick 5000
        leave g a
          NONE
          record: g generation=2 consumer/- leader=- at=5000
          g Empty 2
        tick 1195000
        tick 600000
          record: g t-0 gone
          record: g gone
          g gone
        list
    "#]]);
}

#[test]
fn offsets_of_topics_that_a_stable_group_does_not_consume_expire() {
    check(&expect![[r#"
        config delay=0 retention=600000
        join g a version=3 session=1800000
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
        commit g a t-0=5 other-0=6
          NONE NONE
          record: g t-0=5 at=0
          record: g other-0=6 at=0
        tick 600000
          record: g other-0 gone
        fetch g all
          t-0=5
        tick 600000
    "#]]);
}

#[test]
fn offsets_of_a_group_that_may_consume_anything_do_not_expire() {
    check(&expect![[r#"
        config delay=0 retention=600000
        join g a version=3 session=1800000 metadata=?
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        join h b version=3 session=1800000 type=connect
          parked
          record: h generation=0 /- leader=- at=0
          h PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1?
          b: joined b-2 generation=1 connect/range leader=b-2 members: b-2[t]
          g CompletingRebalance 1
          h CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        sync h b b=y
          synced connect/range y
          record: h generation=1 connect/range leader=b-2 at=0 b-2=y
          h Stable 1
        commit g a t-0=5
          NONE
          record: g t-0=5 at=0
        commit h b t-0=5
          NONE
          record: h t-0=5 at=0
        tick 1200000
    "#]]);
}

#[test]
fn offsets_of_simple_consumers_expire_one_by_one() {
    check(&expect![[r#"
        config retention=600000
        commit g - t-0=5
          NONE
          record: g t-0=5 at=0
          g Empty 0
        tick 300000
        commit g - t-1=6
          NONE
          record: g t-1=6 at=300000
        commit h - t-0=7 retention=1000
          NONE
          record: h t-0=7 at=300000 expires=301000
          h Empty 0
        tick 300000
          record: g t-0 gone
          record: h t-0 gone
          record: h gone
          h gone
        tick 600000
          record: g t-1 gone
          record: g gone
          g gone
        list
    "#]]);
}

#[test]
fn empty_group_without_offsets_ends() {
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
        tick 600000
          record: g gone
          g gone
        list
    "#]]);
}

#[test]
fn pending_member_keeps_an_empty_group() {
    check(&expect![[r#"
        join g a session=1800000
          MEMBER_ID_REQUIRED a-1
          record: g generation=0 /- leader=- at=0
          g Empty 0
        tick 600000
        join g a
          parked
          g PreparingRebalance 0
        tick 3000
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
    "#]]);
}

#[test]
fn subscribed_topics_keep_their_offsets_from_being_deleted() {
    check(&expect![[r#"
        config delay=0
        join g a version=3 topics=t,u
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t, u]
          g CompletingRebalance 1
        sync g a a=x
          synced consumer/range x
          record: g generation=1 consumer/range leader=a-1 at=0 a-1=x
          g Stable 1
        commit g a t-0=5 other-0=6
          NONE NONE
          record: g t-0=5 at=0
          record: g other-0=6 at=0
        delete-offsets g t-0 other-0 other-1
          GROUP_SUBSCRIBED_TO_TOPIC NONE NONE
          record: g other-0 gone
        fetch g all
          t-0=5
        join c b version=3 type=connect
          parked
          record: c generation=0 /- leader=- at=0
          c PreparingRebalance 0
        tick 0
          b: joined b-2 generation=1 connect/range leader=b-2 members: b-2[t]
          c CompletingRebalance 1
        delete-offsets c t-0
          all NON_EMPTY_GROUP
        delete-offsets none t-0
          all GROUP_ID_NOT_FOUND
        leave g a
          NONE
          record: g generation=2 consumer/- leader=- at=0
          g Empty 2
        delete-offsets g t-0
          NONE
          record: g t-0 gone
    "#]]);
}

#[test]
fn empty_groups_are_deleted_with_their_offsets() {
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
        commit g a t-0=5 t-1=6
          NONE NONE
          record: g t-0=5 at=0
          record: g t-1=6 at=0
        commit s - t-0=7
          NONE
          record: s t-0=7 at=0
          s Empty 0
        delete-groups g s none
          NON_EMPTY_GROUP NONE GROUP_ID_NOT_FOUND
          record: s t-0 gone
          record: s gone
          s gone
        list
          g classic Stable consumer
        leave g a
          NONE
          record: g generation=2 consumer/- leader=- at=0
          g Empty 2
        delete-groups g
          NONE
          record: g t-0 gone
          record: g t-1 gone
          record: g gone
          g gone
        list
        reload
        list
    "#]]);
}

#[test]
fn deleted_group_forgets_pending_members() {
    check(&expect![[r#"
        join g a
          MEMBER_ID_REQUIRED a-1
          record: g generation=0 /- leader=- at=0
          g Empty 0
        delete-groups g
          NONE
          record: g gone
          g gone
        join g a
          UNKNOWN_MEMBER_ID a-1
        list
        tick 10000
    "#]]);
}

#[test]
fn offsets_of_deleted_topics_go() {
    check(&expect![[r#"
        commit g - t-0=1 u-0=2
          NONE NONE
          record: g t-0=1 at=0
          record: g u-0=2 at=0
          g Empty 0
        commit h - t-0=3
          NONE
          record: h t-0=3 at=0
          h Empty 0
        delete-topic t
          record: g t-0 gone
          record: h t-0 gone
        fetch g all
          u-0=2
        list
          g classic Empty -
          h classic Empty -
    "#]]);
}

#[test]
fn transactional_offsets_count_when_the_transaction_commits() {
    check(&expect![[r#"
        txn-commit g - producer=7 t-0=5
          NONE
          record: g t-0=5 at=0
          g Empty 0
        fetch g t-0
          t-0=-1
        fetch g t-0 stable
          t-0=-1 UNSTABLE_OFFSET_COMMIT
        list
          g classic Empty -
        end-txn producer=7 commit
        fetch g t-0 stable
          t-0=5
        fetch g all stable
          t-0=5
    "#]]);
}

#[test]
fn aborted_offsets_never_count() {
    check(&expect![[r#"
        commit g - t-0=1
          NONE
          record: g t-0=1 at=0
          g Empty 0
        txn-commit g - producer=7 t-0=5 u-0=6
          NONE NONE
          record: g t-0=5 at=0
          record: g u-0=6 at=0
        fetch g all stable
          t-0=-1 UNSTABLE_OFFSET_COMMIT
        end-txn producer=7 abort
        fetch g all stable
          t-0=1
        txn-commit x - producer=7 t-0=5
          NONE
          record: x t-0=5 at=0
          x Empty 0
        end-txn producer=7
        list
          g classic Empty -
          x classic Empty -
    "#]]);
}

#[test]
fn commit_after_an_offset_of_an_open_transaction_wins() {
    check(&expect![[r#"
        txn-commit g - producer=7 t-0=5 t-1=6
          NONE NONE
          record: g t-0=5 at=0
          record: g t-1=6 at=0
          g Empty 0
        commit g - t-0=9
          NONE
          record: g t-0=9 at=0
        txn-commit g - producer=8 t-1=7
          NONE
          record: g t-1=7 at=0
        reload
        fetch g t-1 stable
          t-1=-1 UNSTABLE_OFFSET_COMMIT
        end-txn producer=8 commit
        fetch g t-1 stable
          t-1=-1 UNSTABLE_OFFSET_COMMIT
        end-txn producer=7 commit
        fetch g all stable
          t-0=9
          t-1=7
    "#]]);
}

#[test]
fn open_transactions_keep_offsets_and_groups_from_expiring() {
    check(&expect![[r#"
        config retention=600000
        commit g - t-0=1
          NONE
          record: g t-0=1 at=0
          g Empty 0
        txn-commit g - producer=7 t-0=5
          NONE
          record: g t-0=5 at=0
        txn-commit h - producer=7 t-0=5
          NONE
          record: h t-0=5 at=0
          h Empty 0
        tick 1200000
        end-txn producer=7 abort
        tick 600000
          record: g t-0 gone
          record: g gone
          record: h gone
          g gone
          h gone
    "#]]);
}

#[test]
fn deleting_offsets_reaches_into_open_transactions() {
    check(&expect![[r#"
        topics t=1 u=1
        txn-commit g - producer=7 t-0=5 topic-id=116
          NONE
          record: g t-0=5 at=0
          g Empty 0
        txn-commit g - producer=8 t-0=6 topic-id=116
          NONE
          record: g t-0=6 at=0
        txn-commit g - producer=8 t-1=7 topic-id=117
          NONE
          record: g t-1=7 at=0
        topics u=1
        delete-topic t topic-id=116
          record: g t-0 gone
        end-txn producer=7 commit
        end-txn producer=8 commit
        fetch g all
          t-1=7
        txn-commit g - producer=7 t-1=8
          NONE
          record: g t-1=8 at=0
        delete-groups g
          NONE
          record: g t-1 gone
          record: g gone
          g gone
        end-txn producer=7 commit
        list
    "#]]);
}

#[test]
fn producers_of_old_commit_for_groups_with_members() {
    check(&expect![[r#"
        config delay=0
        join g a version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          a: joined a-1 generation=1 consumer/range leader=a-1 members: a-1[t]
          g CompletingRebalance 1
        txn-commit g - t-0=5
          NONE
          record: g t-0=5 at=0
        txn-commit g a t-0=6
          NONE
          record: g t-0=6 at=0
        txn-commit g a t-0=6 generation=9
          all ILLEGAL_GENERATION
        commit g a t-0=6
          all REBALANCE_IN_PROGRESS
        end-txn commit
        fetch g all
          t-0=6
    "#]]);
}
