//! Producers that take a transactional id from one another, and that go on with another id.

use super::script::check;
use expect_test::expect;

#[test]
fn a_producer_with_the_same_id_fences_the_one_before() {
    check(
        "init t
         add-by-broker t 7/0 a-0
         init t
         init t
         markers t
         init t
         add-by-broker t 7/0 a-0
         add-by-broker t 7/1 a-0
         end t 7/0 commit
         verify t 7/0 a-0
         add-by-broker t 7/2 a-0
         verify t 7/2 a-0 a-1
         verify t 8/2 a-0
         verify u 7/2 a-0",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add-by-broker t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0
            init t
              CONCURRENT_TRANSACTIONS
              log t PrepareAbort 7/1 previous 7 start 1000 client 2 a-0
            init t
              CONCURRENT_TRANSACTIONS
            markers t
              done
              abort 7/1 to [a-0]
              log t CompleteAbort 7/1 previous 7 start 1000 client 2
            init t
              7/2
              log t Empty 7/2 previous 7 start -1 client 2
            add-by-broker t 7/0 a-0
              PRODUCER_FENCED
            add-by-broker t 7/1 a-0
              PRODUCER_FENCED
            end t 7/0 commit
              PRODUCER_FENCED
            verify t 7/0 a-0
              all PRODUCER_FENCED
            add-by-broker t 7/2 a-0
              NONE
              log t Ongoing 7/2 previous 7 start 1000 client 2 a-0
            verify t 7/2 a-0 a-1
              NONE TRANSACTION_ABORTABLE
            verify t 8/2 a-0
              all INVALID_PRODUCER_ID_MAPPING
            verify u 7/2 a-0
              all INVALID_PRODUCER_ID_MAPPING
        "#]],
    );
}

#[test]
fn a_producer_of_version_1_is_fenced_the_same_way() {
    check(
        "version 1
         init t
         add t 7/0 a-0
         init t
         markers t
         init t
         end t 7/0 commit v1
         version 0
         add t 7/2 a-0
         end t 7/2 commit
         markers t",
        expect![[r#"
            version 1
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 0 a-0
            init t
              CONCURRENT_TRANSACTIONS
              log t PrepareAbort 7/1 previous 7 start 1000 client 0 a-0
            markers t
              done
              abort 7/1 to [a-0]
              log t CompleteAbort 7/1 previous 7 start 1000 client 0
            init t
              7/2
              log t Empty 7/2 previous 7 start -1 client 0
            end t 7/0 commit v1
              PRODUCER_FENCED
            version 0
            add t 7/2 a-0
              NONE
              log t Ongoing 7/2 previous -1 start 1000 client 0 a-0
            end t 7/2 commit
              7/2
              log t PrepareCommit 7/2 previous -1 start 1000 client 0 a-0
            markers t
              done
              commit 7/2 to [a-0]
              log t CompleteCommit 7/2 previous -1 start 1000 client 0
        "#]],
    );
}

#[test]
fn a_producer_goes_on_after_an_error() {
    check(
        "init t
         init t expected=7/0
         init t expected=7/0
         init t expected=7/1
         init t expected=7/0
         init t expected=8/2
         reload
         init t expected=7/1
         init t expected=7/2
         init t
         init t expected=7/3
         add-by-broker t 7/4 a-0
         init t expected=7/3
         init u expected=99/5",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init t expected=7/0
              7/1
              log t Empty 7/1 previous 7 start -1 client 0
            init t expected=7/0
              7/1
              log t Empty 7/1 previous 7 start -1 client 0
            init t expected=7/1
              7/2
              log t Empty 7/2 previous 7 start -1 client 0
            init t expected=7/0
              PRODUCER_FENCED
            init t expected=8/2
              PRODUCER_FENCED
            reload
            init t expected=7/1
              PRODUCER_FENCED
            init t expected=7/2
              7/3
              log t Empty 7/3 previous 7 start -1 client 0
            init t
              7/4
              log t Empty 7/4 previous 7 start -1 client 0
            init t expected=7/3
              PRODUCER_FENCED
            add-by-broker t 7/4 a-0
              NONE
              log t Ongoing 7/4 previous 7 start 1000 client 2 a-0
            init t expected=7/3
              CONCURRENT_TRANSACTIONS
              log t PrepareAbort 7/5 previous 7 start 1000 client 2 a-0
            init u expected=99/5
              8/0
              log u Empty 8/0 previous 8 start -1 client 0
        "#]],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn epochs_that_are_used_up_bring_another_producer_id() {
    check(
        "given t 5 32765
         init t expected=5/32765
         init t expected=5/32766
         init t expected=5/32766
         init t expected=5/32765
         given u 6 32766
         init u expected=6/3
         add-by-broker u 6/32766 a-0
         end u 6/32766 commit
         end u 8/0 commit
         markers u
         end u 6/32766 commit
         end u 6/32766 abort
         init u expected=6/32766
         given v 5 32766
         add-by-broker v 5/32766 a-0
         init v
         markers v
         init v
         version 1
         given w 4 32766
         add w 4/32766 a-0
         init w
         markers w
         init w",
        expect![[r#"
            given t 5 32765
            init t expected=5/32765
              5/32766
              log t Empty 5/32766 previous 5 start -1 client 0
            init t expected=5/32766
              7/0
              log t Empty 7/0 previous 5 start -1 client 0
            init t expected=5/32766
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init t expected=5/32765
              PRODUCER_FENCED
            given u 6 32766
            init u expected=6/3
              PRODUCER_FENCED
            add-by-broker u 6/32766 a-0
              NONE
              log u Ongoing 6/32766 previous 6 start 1000 client 2 a-0
            end u 6/32766 commit
              8/0
              log u PrepareCommit 6/32767 previous 6 next 8 start 1000 client 2 a-0
            end u 8/0 commit
              CONCURRENT_TRANSACTIONS
            markers u
              done
              commit 6/32767 to [a-0]
              log u CompleteCommit 8/0 previous 6 start 1000 client 2
            end u 6/32766 commit
              8/0
            end u 6/32766 abort
              INVALID_TXN_STATE
            init u expected=6/32766
              8/0
              log u Empty 8/0 previous 8 start -1 client 2
            given v 5 32766
            add-by-broker v 5/32766 a-0
              NONE
              log v Ongoing 5/32766 previous 5 start 1000 client 2 a-0
            init v
              CONCURRENT_TRANSACTIONS
              log v PrepareAbort 5/32767 previous 5 next 9 start 1000 client 2 a-0
            markers v
              done
              abort 5/32767 to [a-0]
              log v CompleteAbort 9/0 previous 5 start 1000 client 2
            init v
              9/1
              log v Empty 9/1 previous 9 start -1 client 2
            version 1
            given w 4 32766
            add w 4/32766 a-0
              NONE
              log w Ongoing 4/32766 previous 4 start 1000 client 0 a-0
            init w
              CONCURRENT_TRANSACTIONS
              log w PrepareAbort 4/32767 previous 4 start 1000 client 0 a-0
            markers w
              done
              abort 4/32767 to [a-0]
              log w CompleteAbort 4/32767 previous 4 start 1000 client 0
            init w
              10/0
              log w Empty 10/0 previous 4 start -1 client 0
        "#]],
    );
}

#[test]
fn requests_that_are_wrong() {
    check(
        "init -
         init t timeout=0
         init t timeout=-1
         init t timeout=900000
         init t timeout=900001
         init t two-phase
         init t keep
         add u 7/0 a-0
         add t 8/0 a-0
         add t 7/1 a-0
         end u 7/0 commit
         end u 7/0 commit v1
         end t 8/0 commit
         end t 8/0 commit v1
         end t 7/1 commit
         end t 7/1 commit v1
         verify t 7/0 a-0
         describe u",
        expect![[r#"
            init -
              INVALID_REQUEST
            init t timeout=0
              INVALID_TRANSACTION_TIMEOUT
            init t timeout=-1
              INVALID_TRANSACTION_TIMEOUT
            init t timeout=900000
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init t timeout=900001
              INVALID_TRANSACTION_TIMEOUT
            init t two-phase
              TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            init t keep
              UNSUPPORTED_VERSION
            add u 7/0 a-0
              INVALID_PRODUCER_ID_MAPPING
            add t 8/0 a-0
              INVALID_PRODUCER_ID_MAPPING
            add t 7/1 a-0
              PRODUCER_FENCED
            end u 7/0 commit
              INVALID_PRODUCER_ID_MAPPING
            end u 7/0 commit v1
              INVALID_PRODUCER_ID_MAPPING
            end t 8/0 commit
              INVALID_PRODUCER_ID_MAPPING
            end t 8/0 commit v1
              INVALID_PRODUCER_ID_MAPPING
            end t 7/1 commit
              PRODUCER_FENCED
            end t 7/1 commit v1
              PRODUCER_FENCED
            verify t 7/0 a-0
              TRANSACTION_ABORTABLE
            describe u
              TRANSACTIONAL_ID_NOT_FOUND
        "#]],
    );
}
