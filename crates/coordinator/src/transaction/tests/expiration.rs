//! What becomes of transactional ids when time passes.

use super::script::check;
use expect_test::expect;

#[test]
fn transactions_out_of_time_are_aborted() {
    check(
        "init t timeout=100
         init u
         add-by-broker t 7/0 a-0
         tick 50
         add-by-broker t 7/0 a-1
         add-by-broker u 8/0 a-1
         tick 50
         time-out
         tick 1
         time-out
         time-out
         add-by-broker t 7/0 a-2
         markers t
         add-by-broker t 7/0 a-2
         end t 7/0 commit",
        expect![[r#"
            init t timeout=100
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init u
              8/0
              log u Empty 8/0 previous 8 start -1 client 0
            add-by-broker t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0
            tick 50
            add-by-broker t 7/0 a-1
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0 a-1
            add-by-broker u 8/0 a-1
              NONE
              log u Ongoing 8/0 previous 8 start 1050 client 2 a-1
            tick 50
            time-out
            tick 1
            time-out
              t true
              log t PrepareAbort 7/1 previous 7 start 1000 client 2 a-0 a-1
            time-out
            add-by-broker t 7/0 a-2
              CONCURRENT_TRANSACTIONS
            markers t
              done
              abort 7/1 to [a-0 a-1]
              log t CompleteAbort 7/1 previous 7 start 1000 client 2
            add-by-broker t 7/0 a-2
              PRODUCER_FENCED
            end t 7/0 commit
              INVALID_TXN_STATE
        "#]],
    );
}

#[test]
fn transactional_ids_that_nobody_uses_are_forgotten() {
    check(
        "init t
         init u
         init v
         add-by-broker u 8/0 a-0
         add-by-broker v 9/0 a-0
         end v 9/0 commit
         tick 99999
         expire
         tick 1
         expire
         list
         markers v
         tick 100000
         expire
         list
         init t",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init u
              8/0
              log u Empty 8/0 previous 8 start -1 client 0
            init v
              9/0
              log v Empty 9/0 previous 9 start -1 client 0
            add-by-broker u 8/0 a-0
              NONE
              log u Ongoing 8/0 previous 8 start 1000 client 2 a-0
            add-by-broker v 9/0 a-0
              NONE
              log v Ongoing 9/0 previous 9 start 1000 client 2 a-0
            end v 9/0 commit
              9/1
              log v PrepareCommit 9/1 previous 9 start 1000 client 2 a-0
            tick 99999
            expire
              0
            tick 1
            expire
              1
              log t forgotten
            list
              u 8 Ongoing
              v 9 PrepareCommit
            markers v
              done
              commit 9/1 to [a-0]
              log v CompleteCommit 9/1 previous 9 start 1000 client 2
            tick 100000
            expire
              1
              log v forgotten
            list
              u 8 Ongoing
            init t
              10/0
              log t Empty 10/0 previous 10 start -1 client 0
        "#]],
    );
}

#[test]
fn a_transaction_takes_as_long_as_it_may_whatever_the_clock_does() {
    check(
        "init t timeout=100
         add-by-broker t 7/0 a-0
         clock 691200000
         time-out
         tick 100
         time-out
         clock -1382400000
         time-out
         add-by-broker t 7/0 a-1
         tick 1
         time-out",
        expect![[r#"
            init t timeout=100
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add-by-broker t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0
            clock 691200000
            time-out
            tick 100
            time-out
            clock -1382400000
            time-out
            add-by-broker t 7/0 a-1
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0 a-1
            tick 1
            time-out
              t true
              log t PrepareAbort 7/1 previous 7 start 1000 client 2 a-0 a-1
        "#]],
    );
}

#[test]
fn a_transaction_that_is_loaded_has_begun_when_the_log_says_but_not_in_the_future() {
    check(
        "init t timeout=100
         add-by-broker t 7/0 a-0
         clock 60
         reload
         tick 40
         time-out
         tick 1
         time-out
         init u timeout=100
         add-by-broker u 8/0 a-0
         clock -3600000
         reload
         time-out
         tick 101
         time-out",
        expect![[r#"
            init t timeout=100
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add-by-broker t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0
            clock 60
            reload
            tick 40
            time-out
            tick 1
            time-out
              t true
              log t PrepareAbort 7/1 previous 7 start 1000 client 2 a-0
            init u timeout=100
              8/0
              log u Empty 8/0 previous 8 start -1 client 0
            add-by-broker u 8/0 a-0
              NONE
              log u Ongoing 8/0 previous 8 start 1101 client 2 a-0
            clock -3600000
            reload
            time-out
            tick 101
            time-out
              u true
              log u PrepareAbort 8/1 previous 8 start 1101 client 2 a-0
        "#]],
    );
}

#[test]
fn a_moment_of_a_wrong_date_forgets_no_transactional_id() {
    check(
        "init t
         tick 10
         clock 691200000
         expire
         clock -691200000
         tick 99989
         expire
         tick 1
         expire",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            tick 10
            clock 691200000
            expire
              0
            clock -691200000
            tick 99989
            expire
              0
            tick 1
            expire
              1
              log t forgotten
        "#]],
    );
}
