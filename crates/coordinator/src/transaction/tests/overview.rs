//! What administrators are told.

use super::script::check;
use expect_test::expect;

#[test]
fn what_administrators_see() {
    check(
        "init t
         init u
         tick 500
         add-by-broker u 8/0 b-1 a-2 a-0
         tick 100
         describe t
         describe u
         describe v
         list
         list states=Ongoing
         list states=ongoing,Dead,nonsense
         list producers=7,9
         list duration=99
         list duration=100
         list states=Empty producers=8",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init u
              8/0
              log u Empty 8/0 previous 8 start -1 client 0
            tick 500
            add-by-broker u 8/0 b-1 a-2 a-0
              NONE
              log u Ongoing 8/0 previous 8 start 1500 client 2 a-0 a-2 b-1
            tick 100
            describe t
              DescribedTransaction { state: Empty, timeout_ms: 60000, start_timestamp_ms: -1, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 0 }, topics: [] }
            describe u
              DescribedTransaction { state: Ongoing, timeout_ms: 60000, start_timestamp_ms: 1500, producer: ProducerIdAndEpoch { producer_id: 8, producer_epoch: 0 }, topics: [("a", [0, 2]), ("b", [1])] }
            describe v
              TRANSACTIONAL_ID_NOT_FOUND
            list
              t 7 Empty
              u 8 Ongoing
            list states=Ongoing
              u 8 Ongoing
            list states=ongoing,Dead,nonsense
              unknown nonsense
              unknown ongoing
            list producers=7,9
              t 7 Empty
            list duration=99
              t 7 Empty
              u 8 Ongoing
            list duration=100
              t 7 Empty
            list states=Empty producers=8
        "#]],
    );
}

#[test]
fn partitions_that_have_their_markers_are_shown_no_more() {
    check(
        "init t
         add-by-broker t 7/0 a-0 a-1 b-2
         markers-but t 7/0 a-1
         describe t
         end t 7/0 commit
         markers-but t 7/0 a-1
         describe t
         markers-but t 7/1 a-1 b-2
         describe t
         markers-but t 7/1 b-2
         describe t
         reload
         describe t
         markers-but t 7/1
         describe t
         markers t
         describe t
         add-by-broker t 7/1 c-0
         describe t",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add-by-broker t 7/0 a-0 a-1 b-2
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0 a-1 b-2
            markers-but t 7/0 a-1
            describe t
              DescribedTransaction { state: Ongoing, timeout_ms: 60000, start_timestamp_ms: 1000, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 0 }, topics: [("a", [0, 1]), ("b", [2])] }
            end t 7/0 commit
              7/1
              log t PrepareCommit 7/1 previous 7 start 1000 client 2 a-0 a-1 b-2
            markers-but t 7/0 a-1
            describe t
              DescribedTransaction { state: PrepareCommit, timeout_ms: 60000, start_timestamp_ms: 1000, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 1 }, topics: [("a", [0, 1]), ("b", [2])] }
            markers-but t 7/1 a-1 b-2
            describe t
              DescribedTransaction { state: PrepareCommit, timeout_ms: 60000, start_timestamp_ms: 1000, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 1 }, topics: [("a", [1]), ("b", [2])] }
            markers-but t 7/1 b-2
            describe t
              DescribedTransaction { state: PrepareCommit, timeout_ms: 60000, start_timestamp_ms: 1000, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 1 }, topics: [("b", [2])] }
            reload
            describe t
              DescribedTransaction { state: PrepareCommit, timeout_ms: 60000, start_timestamp_ms: 1000, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 1 }, topics: [("a", [0, 1]), ("b", [2])] }
            markers-but t 7/1
            describe t
              DescribedTransaction { state: PrepareCommit, timeout_ms: 60000, start_timestamp_ms: 1000, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 1 }, topics: [] }
            markers t
              done
              commit 7/1 to [a-0 a-1 b-2]
              log t CompleteCommit 7/1 previous 7 start 1000 client 2
            describe t
              DescribedTransaction { state: CompleteCommit, timeout_ms: 60000, start_timestamp_ms: 1000, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 1 }, topics: [] }
            add-by-broker t 7/1 c-0
              NONE
              log t Ongoing 7/1 previous 7 start 1000 client 2 c-0
            describe t
              DescribedTransaction { state: Ongoing, timeout_ms: 60000, start_timestamp_ms: 1000, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 1 }, topics: [("c", [0])] }
        "#]],
    );
}
