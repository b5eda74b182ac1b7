//! How transactions end, in both versions of the protocol.

use super::script::check;
use expect_test::expect;

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn version_1_keeps_the_epoch_from_transaction_to_transaction() {
    check(
        "init t
         add t 7/0 a-0
         tick 10
         add t 7/0 a-0 b-3
         add t 7/0 a-0
         end t 7/0 commit v1
         end t 7/0 commit v1
         end t 7/0 abort v1
         add t 7/0 a-0
         init t
         verify t 7/0 a-0
         markers t
         end t 7/0 commit v1
         end t 7/0 abort v1
         tick 10
         add t 7/0 a-0
         end t 7/0 abort v1
         markers t
         end t 7/0 abort v1
         end t 7/0 commit v1",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 0 a-0
            tick 10
            add t 7/0 a-0 b-3
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 0 a-0 b-3
            add t 7/0 a-0
              NONE
            end t 7/0 commit v1
              7/0
              log t PrepareCommit 7/0 previous 7 start 1000 client 0 a-0 b-3
            end t 7/0 commit v1
              CONCURRENT_TRANSACTIONS
            end t 7/0 abort v1
              CONCURRENT_TRANSACTIONS
            add t 7/0 a-0
              CONCURRENT_TRANSACTIONS
            init t
              CONCURRENT_TRANSACTIONS
            verify t 7/0 a-0
              all CONCURRENT_TRANSACTIONS
            markers t
              done
              commit 7/0 to [a-0 b-3]
              log t CompleteCommit 7/0 previous 7 start 1000 client 0
            end t 7/0 commit v1
              7/0
            end t 7/0 abort v1
              INVALID_TXN_STATE
            tick 10
            add t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1020 client 0 a-0
            end t 7/0 abort v1
              7/0
              log t PrepareAbort 7/0 previous 7 start 1020 client 0 a-0
            markers t
              done
              abort 7/0 to [a-0]
              log t CompleteAbort 7/0 previous 7 start 1020 client 0
            end t 7/0 abort v1
              7/0
            end t 7/0 commit v1
              INVALID_TXN_STATE
        "#]],
    );
}

#[test]
fn version_2_bumps_the_epoch_at_each_end() {
    check(
        "init t
         add-by-broker t 7/0 a-0
         end t 7/0 commit
         end t 7/0 commit
         markers t
         end t 7/0 commit
         end t 7/0 abort
         end t 7/1 commit
         tick 5
         end t 7/1 abort
         markers t
         end t 7/1 abort
         end t 7/1 commit
         end t 7/0 abort
         add-by-broker t 7/2 a-1
         end t 7/1 commit
         end t 7/3 commit
         end t 8/2 commit",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add-by-broker t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0
            end t 7/0 commit
              7/1
              log t PrepareCommit 7/1 previous 7 start 1000 client 2 a-0
            end t 7/0 commit
              CONCURRENT_TRANSACTIONS
            markers t
              done
              commit 7/1 to [a-0]
              log t CompleteCommit 7/1 previous 7 start 1000 client 2
            end t 7/0 commit
              7/1
            end t 7/0 abort
              INVALID_TXN_STATE
            end t 7/1 commit
              INVALID_TXN_STATE
            tick 5
            end t 7/1 abort
              7/2
              log t PrepareAbort 7/2 previous 7 start 1005 client 2
            markers t
              done
              abort 7/2 to []
              log t CompleteAbort 7/2 previous 7 start 1005 client 2
            end t 7/1 abort
              7/2
            end t 7/1 commit
              INVALID_TXN_STATE
            end t 7/0 abort
              PRODUCER_FENCED
            add-by-broker t 7/2 a-1
              NONE
              log t Ongoing 7/2 previous 7 start 1005 client 2 a-1
            end t 7/1 commit
              PRODUCER_FENCED
            end t 7/3 commit
              PRODUCER_FENCED
            end t 8/2 commit
              INVALID_PRODUCER_ID_MAPPING
        "#]],
    );
}

#[test]
fn version_2_takes_the_epoch_before_for_a_repeated_end_whatever_version_ended_it() {
    check(
        "init t
         init t
         add t 7/1 a-0
         end t 7/1 abort v1
         markers t
         end t 7/0 abort",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init t
              7/1
              log t Empty 7/1 previous 7 start -1 client 0
            add t 7/1 a-0
              NONE
              log t Ongoing 7/1 previous 7 start 1000 client 0 a-0
            end t 7/1 abort v1
              7/1
              log t PrepareAbort 7/1 previous 7 start 1000 client 0 a-0
            markers t
              done
              abort 7/1 to [a-0]
              log t CompleteAbort 7/1 previous 7 start 1000 client 0
            end t 7/0 abort
              7/1
        "#]],
    );
}

#[test]
fn an_empty_transaction_can_be_aborted_in_version_2_only() {
    check(
        "init t
         end t 7/0 commit
         end t 7/0 commit v1
         end t 7/0 abort v1
         tick 5
         end t 7/0 abort
         markers t
         markers t",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            end t 7/0 commit
              INVALID_TXN_STATE
            end t 7/0 commit v1
              INVALID_TXN_STATE
            end t 7/0 abort v1
              INVALID_TXN_STATE
            tick 5
            end t 7/0 abort
              7/1
              log t PrepareAbort 7/1 previous 7 start 1005 client 2
            markers t
              done
              abort 7/1 to []
              log t CompleteAbort 7/1 previous 7 start 1005 client 2
            markers t
              nothing is prepared
        "#]],
    );
}

#[test]
fn what_is_not_appended_has_not_happened() {
    check(
        "log broken
         init t
         log sound
         init t
         log broken
         add-by-broker t 8/0 a-0
         log sound
         add-by-broker t 8/0 a-1
         log broken
         end t 8/0 commit
         log sound
         end t 8/0 abort
         log broken
         markers t
         log sound
         reload
         markers t",
        expect![[r#"
            log broken
            init t
              not appended
            log sound
            init t
              8/0
              log t Empty 8/0 previous 8 start -1 client 0
            log broken
            add-by-broker t 8/0 a-0
              not appended
            log sound
            add-by-broker t 8/0 a-1
              NONE
              log t Ongoing 8/0 previous 8 start 1000 client 2 a-1
            log broken
            end t 8/0 commit
              not appended
            log sound
            end t 8/0 abort
              8/1
              log t PrepareAbort 8/1 previous 8 start 1000 client 2 a-1
            log broken
            markers t
              abort 8/1 to [a-1]
              not appended
            log sound
            reload
            markers t
              done
              abort 8/1 to [a-1]
              log t CompleteAbort 8/1 previous 8 start 1000 client 2
        "#]],
    );
}
