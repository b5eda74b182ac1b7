//! Each role by scripts: what comes in, and what the replica makes of it.

use super::script::check;
use super::*;
use expect_test::expect;
use model::Offset;

#[test]
fn a_voter_alone_leads_and_commits_what_it_flushes() {
    check(
        voter(),
        "state
         append a
         lead
         apply
         append a
         append b c
         state
         apply
         flush
         apply
         append d
         crash
         apply
         lead
         apply
         poll",
        &expect![[r#"
            state => Unattached epoch 0 log 0..0 high watermark 0
            append a => ! this node does not lead the quorum
            lead => Leader epoch 1 log 0..1 high watermark 1
            apply => to 1 []
            append a => to 2
            append b c => to 4
            state => Leader epoch 1 log 0..4 high watermark 1
            apply => 
            flush => committed 4
            apply => to 4 ["a", "b", "c"]
            append d => to 5
            crash => Unattached epoch 1 log 0..4 high watermark 4
            apply => to 4 ["a", "b", "c"]
            lead => Leader epoch 2 log 0..5 high watermark 5
            apply => to 5 []
            poll => nothing until None
        "#]],
    );
}

#[test]
fn what_finds_no_room_was_never_appended() {
    check(
        voter(),
        "lead
         append a
         flush
         full yes
         append b
         append c
         flush
         state
         append d
         full no
         append e
         flush
         crash
         apply",
        &expect![[r#"
            lead => Leader epoch 1 log 0..1 high watermark 1
            append a => to 2
            flush => committed 2
            full yes => 
            append b => to 3
            append c => to 4
            flush => ! cannot write the metadata log: cannot write `/a/__cluster_metadata-0/00000000000000000000.log`: No space left on device (os error 28)
            state => Leader epoch 1 log 0..2 high watermark 2
            append d => ! cannot write the metadata log: cannot write `/a/__cluster_metadata-0/00000000000000000000.timeindex`: No space left on device (os error 28)
            full no => 
            append e => to 3
            flush => committed 3
            crash => Unattached epoch 1 log 0..3 high watermark 3
            apply => to 3 ["a", "e"]
        "#]],
    );
}

#[test]
fn an_observer_looks_for_a_leader_and_follows_it() {
    check(
        observer(),
        "state
         poll
         poll
         2 5 not-leader
         poll
         2 5 records 0 0:4:a,b 2:5:c
         apply
         poll
         2 5 records 2
         apply
         poll
         2 5 records 3
         apply
         restart
         poll
         3 6 not-leader
         poll
         3 5 records 9 3:5:x
         poll
         wait 20
         poll
         3 6 records 4 2:5:c 3:6:d
         apply",
        &expect![[r#"
            state => Unattached epoch 0 log 0..0 high watermark 0
            poll => Anyone in 0 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            poll => nothing until Some(3000)
            2 5 not-leader => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 0 0:4:a,b 2:5:c => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 0
            apply => 
            poll => Leader(2) in 5 Log { fetch_offset: 3, last_fetched_epoch: 5, high_watermark: 0 }
            2 5 records 2 => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 2
            apply => to 2 ["a", "b"]
            poll => Leader(2) in 5 Log { fetch_offset: 3, last_fetched_epoch: 5, high_watermark: 2 }
            2 5 records 3 => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 3
            apply => to 3 ["c"]
            restart => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 3
            poll => Leader(2) in 5 Log { fetch_offset: 2, last_fetched_epoch: 4, high_watermark: 3 }
            3 6 not-leader => Observer { leader_id: 3 } epoch 6 log 0..3 high watermark 3
            poll => Leader(3) in 6 Log { fetch_offset: 2, last_fetched_epoch: 4, high_watermark: 3 }
            3 5 records 9 3:5:x => Observer { leader_id: 3 } epoch 6 log 0..3 high watermark 3
            poll => nothing until Some(1020)
            wait 20 => 
            poll => Leader(3) in 6 Log { fetch_offset: 2, last_fetched_epoch: 4, high_watermark: 3 }
            3 6 records 4 2:5:c 3:6:d => Observer { leader_id: 3 } epoch 6 log 0..4 high watermark 4
            apply => to 4 ["a", "b", "c", "d"]
        "#]],
    );
}

#[test]
fn an_observer_asks_around_when_its_leader_is_silent() {
    check(
        observer(),
        "learn 2 5
         poll
         lost
         poll
         wait 20
         poll
         2 5 not-leader
         wait 20
         poll
         wait 2000
         poll
         3 7 not-leader
         poll
         2 7 records 0
         wait 20
         poll
         3 7 records 0",
        &expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            lost => 
            poll => nothing until Some(1020)
            wait 20 => 
            poll => Anyone in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 not-leader => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            wait 20 => 
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            wait 2000 => 
            poll => Anyone in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            3 7 not-leader => Observer { leader_id: 3 } epoch 7 log 0..0 high watermark 0
            poll => Leader(3) in 7 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 7 records 0 => ! nodes 3 and 2 are both said to lead epoch 7
            wait 20 => 
            poll => Leader(3) in 7 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            3 7 records 0 => Observer { leader_id: 3 } epoch 7 log 0..0 high watermark 0
        "#]],
    );
}

#[test]
fn where_the_logs_part_an_observer_cuts_but_never_what_is_committed() {
    check(
        observer(),
        "learn 2 5
         poll
         2 5 records 2 0:3:a,b 2:4:c,d 4:5:e
         apply
         learn 3 6
         poll
         3 6 diverging 4 3
         poll
         3 6 diverging 3 2
         poll
         wait 20
         poll
         3 6 records 2 2:6:f
         learn 2 7
         poll
         2 7 diverging 3 1
         apply
         poll
         wait 20
         poll
         2 7 records 3
         poll
         2 7 records 3
         apply
         crash",
        &expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 2 0:3:a,b 2:4:c,d 4:5:e => Observer { leader_id: 2 } epoch 5 log 0..5 high watermark 2
            apply => to 2 ["a", "b"]
            learn 3 6 => Observer { leader_id: 3 } epoch 6 log 0..5 high watermark 2
            poll => Leader(3) in 6 Log { fetch_offset: 4, last_fetched_epoch: 4, high_watermark: 2 }
            3 6 diverging 4 3 => Observer { leader_id: 3 } epoch 6 log 0..2 high watermark 2
            poll => Leader(3) in 6 Log { fetch_offset: 2, last_fetched_epoch: 3, high_watermark: 2 }
            3 6 diverging 3 2 => Observer { leader_id: 3 } epoch 6 log 0..2 high watermark 2
            poll => nothing until Some(1020)
            wait 20 => 
            poll => Leader(3) in 6 Log { fetch_offset: 2, last_fetched_epoch: 3, high_watermark: 2 }
            3 6 records 2 2:6:f => Observer { leader_id: 3 } epoch 6 log 0..3 high watermark 2
            learn 2 7 => Observer { leader_id: 2 } epoch 7 log 0..3 high watermark 2
            poll => Leader(2) in 7 Log { fetch_offset: 2, last_fetched_epoch: 3, high_watermark: 2 }
            2 7 diverging 3 1 => ! the leader's log leaves this one at offset 1, and what is below 2 is committed: is `/a/__cluster_metadata-0` the directory of another cluster? Else the controller has lost records: stop it, and restore its newest directory. Removing this folder gives up what the controller lacks
            apply => 
            poll => nothing until Some(1040)
            wait 20 => 
            poll => Leader(2) in 7 Log { fetch_offset: 2, last_fetched_epoch: 3, high_watermark: 2 }
            2 7 records 3 => Observer { leader_id: 2 } epoch 7 log 0..3 high watermark 2
            poll => Leader(2) in 7 Log { fetch_offset: 3, last_fetched_epoch: 6, high_watermark: 2 }
            2 7 records 3 => Observer { leader_id: 2 } epoch 7 log 0..3 high watermark 3
            apply => to 3 ["f"]
            crash => Observer { leader_id: 2 } epoch 7 log 0..3 high watermark 2
        "#]],
    );
}

#[test]
fn a_snapshot_takes_the_place_of_the_log() {
    check(
        observer(),
        "learn 2 5
         poll
         2 5 records 1 0:3:a 1:3:b
         apply
         poll
         2 5 snapshot 7 4
         poll
         2 5 piece 7 4 0 100 a x y
         poll
         restart
         poll
         2 5 snapshot 7 4
         poll
         2 5 snapshot 7 4
         poll
         2 5 no-snapshot
         wait 20
         poll
         2 5 snapshot 9 5
         poll
         2 5 piece 9 5 0 100 a x y z
         poll
         2 5 piece 9 5 100 999 a x y z
         apply
         poll
         2 5 records 10 9:5:w
         apply
         restart
         apply
         poll
         2 5 piece 9 5 0 100 a",
        &expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 1 0:3:a 1:3:b => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            apply => to 1 ["a"]
            poll => Leader(2) in 5 Log { fetch_offset: 2, last_fetched_epoch: 3, high_watermark: 1 }
            2 5 snapshot 7 4 => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 7, epoch: 4 }, position: 0 }
            2 5 piece 7 4 0 100 a x y => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 7, epoch: 4 }, position: 100 }
            restart => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 3, high_watermark: 1 }
            2 5 snapshot 7 4 => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            poll => Leader(2) in 5 Log { fetch_offset: 2, last_fetched_epoch: 3, high_watermark: 1 }
            2 5 snapshot 7 4 => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 7, epoch: 4 }, position: 0 }
            2 5 no-snapshot => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            wait 20 => 
            poll => Leader(2) in 5 Log { fetch_offset: 2, last_fetched_epoch: 3, high_watermark: 1 }
            2 5 snapshot 9 5 => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 9, epoch: 5 }, position: 0 }
            2 5 piece 9 5 0 100 a x y z => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 9, epoch: 5 }, position: 100 }
            2 5 piece 9 5 100 999 a x y z => Observer { leader_id: 2 } epoch 5 log 9..9 high watermark 9
            apply => snapshot 9 ["a", "x", "y", "z"]
            poll => Leader(2) in 5 Log { fetch_offset: 9, last_fetched_epoch: 5, high_watermark: 9 }
            2 5 records 10 9:5:w => Observer { leader_id: 2 } epoch 5 log 9..10 high watermark 10
            apply => to 10 ["w"]
            restart => Observer { leader_id: 2 } epoch 5 log 9..10 high watermark 10
            apply => snapshot 9 ["a", "x", "y", "z"], to 10 ["w"]
            poll => Leader(2) in 5 Log { fetch_offset: 10, last_fetched_epoch: 5, high_watermark: 10 }
            2 5 piece 9 5 0 100 a => ! the leader has sent what is no part of its log: an answer to another question
        "#]],
    );
}

#[test]
fn what_a_leader_cannot_say_is_refused() {
    check(
        observer(),
        "learn 2 5
         learn 3 5
         learn 3 4
         learn 1 5
         poll
         2 5 records 1 1:5:gap
         wait 20
         poll
         2 5 records 9 0:5:a 1:6:b
         apply
         poll
         2 5 snapshot 0 0
         wait 20
         poll
         2 5 snapshot 5 5
         poll
         2 5 piece 5 5 1 40 a
         wait 20
         poll",
        &expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            learn 3 5 => ! nodes 2 and 3 are both said to lead epoch 5
            learn 3 4 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            learn 1 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 1 1:5:gap => ! the leader has sent what is no part of its log: offset 1 does not follow 0
            wait 20 => 
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 9 0:5:a 1:6:b => Observer { leader_id: 2 } epoch 5 log 0..1 high watermark 1
            apply => to 1 ["a"]
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            2 5 snapshot 0 0 => ! the leader's log leaves this one at offset 0, and what is below 1 is committed: is `/a/__cluster_metadata-0` the directory of another cluster? Else the controller has lost records: stop it, and restore its newest directory. Removing this folder gives up what the controller lacks
            wait 20 => 
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            2 5 snapshot 5 5 => Observer { leader_id: 2 } epoch 5 log 0..1 high watermark 1
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 5, epoch: 5 }, position: 0 }
            2 5 piece 5 5 1 40 a => ! the leader has sent another piece of snapshot 00000000000000000005-0000000005.checkpoint than that at 0
            wait 20 => 
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
        "#]],
    );
}

/// So that what is above can be cut without a part of what is below.
#[test]
fn only_whole_batches_are_committed() {
    check(
        observer(),
        "learn 2 5
         poll
         2 5 records 2 0:5:a,b,c
         apply
         poll
         2 5 records 4 3:5:d
         apply
         poll
         2 5 diverging 5 2",
        &expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 2 0:5:a,b,c => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 0
            apply => 
            poll => Leader(2) in 5 Log { fetch_offset: 3, last_fetched_epoch: 5, high_watermark: 0 }
            2 5 records 4 3:5:d => Observer { leader_id: 2 } epoch 5 log 0..4 high watermark 4
            apply => to 4 ["a", "b", "c", "d"]
            poll => Leader(2) in 5 Log { fetch_offset: 4, last_fetched_epoch: 5, high_watermark: 4 }
            2 5 diverging 5 2 => ! the leader's log leaves this one at offset 2, and what is below 4 is committed: is `/a/__cluster_metadata-0` the directory of another cluster? Else the controller has lost records: stop it, and restore its newest directory. Removing this folder gives up what the controller lacks
        "#]],
    );
}

/// The leader has an epoch that this log has not: it goes back to the one before.
#[test]
fn where_the_leader_has_another_epoch_the_whole_own_one_is_cut() {
    check(
        observer(),
        "learn 2 6
         poll
         2 6 records 1 0:3:a,b 2:5:c 3:5:d
         poll
         2 6 diverging 4 10
         poll",
        &expect![[r#"
            learn 2 6 => Observer { leader_id: 2 } epoch 6 log 0..0 high watermark 0
            poll => Leader(2) in 6 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 6 records 1 0:3:a,b 2:5:c 3:5:d => Observer { leader_id: 2 } epoch 6 log 0..4 high watermark 0
            poll => Leader(2) in 6 Log { fetch_offset: 4, last_fetched_epoch: 5, high_watermark: 0 }
            2 6 diverging 4 10 => Observer { leader_id: 2 } epoch 6 log 0..2 high watermark 0
            poll => Leader(2) in 6 Log { fetch_offset: 2, last_fetched_epoch: 3, high_watermark: 0 }
        "#]],
    );
}

#[test]
fn an_answer_counts_for_its_own_request_alone() {
    check(
        observer(),
        "learn 2 5
         poll
         wait 2000
         poll
         late 2 5 records 1 0:5:a
         2 5 records 1 0:5:a
         poll
         wait 1999
         2 5 records 1
         poll
         wait 2000
         2 5 records 2 1:5:b
         poll
         2 5 not-leader
         wait 20
         poll",
        &expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            wait 2000 => 
            poll => Anyone in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            late 2 5 records 1 0:5:a => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            2 5 records 1 0:5:a => Observer { leader_id: 2 } epoch 5 log 0..1 high watermark 1
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            wait 1999 => 
            2 5 records 1 => Observer { leader_id: 2 } epoch 5 log 0..1 high watermark 1
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            wait 2000 => 
            2 5 records 2 1:5:b => Observer { leader_id: 2 } epoch 5 log 0..1 high watermark 1
            poll => Anyone in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            2 5 not-leader => Observer { leader_id: 2 } epoch 5 log 0..1 high watermark 1
            wait 20 => 
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
        "#]],
    );
}

#[test]
fn a_download_goes_on_when_the_leader_is_back() {
    check(
        observer(),
        "learn 2 5
         poll
         2 5 snapshot 7 4
         poll
         2 5 piece 7 4 0 100 a x y
         poll
         wait 2000
         poll
         2 5 records 1 0:5:a
         poll
         learn 3 6
         poll",
        &expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 snapshot 7 4 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 7, epoch: 4 }, position: 0 }
            2 5 piece 7 4 0 100 a x y => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 7, epoch: 4 }, position: 100 }
            wait 2000 => 
            poll => Anyone in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 1 0:5:a => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 7, epoch: 4 }, position: 100 }
            learn 3 6 => Observer { leader_id: 3 } epoch 6 log 0..0 high watermark 0
            poll => Leader(3) in 6 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
        "#]],
    );
}

#[test]
fn an_observer_goes_on_when_there_is_room_again() {
    check(
        observer(),
        "learn 2 5
         poll
         2 5 records 1 0:5:a 1:5:b
         apply
         full yes
         poll
         2 5 records 3 2:5:c
         poll
         wait 20
         poll
         full no
         wait 20
         poll
         2 5 records 3 1:5:b 2:5:c
         apply",
        &expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 1 0:5:a 1:5:b => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            apply => to 1 ["a"]
            full yes => 
            poll => Leader(2) in 5 Log { fetch_offset: 2, last_fetched_epoch: 5, high_watermark: 1 }
            2 5 records 3 2:5:c => ! cannot write `/a/__cluster_metadata-0/00000000000000000000.log`: No space left on device (os error 28)
            poll => nothing until Some(1020)
            wait 20 => 
            poll => nothing until Some(1040)
            full no => 
            wait 20 => 
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            2 5 records 3 1:5:b 2:5:c => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 3
            apply => to 3 ["b", "c"]
        "#]],
    );
}

#[test]
fn an_observer_has_caught_up_when_it_has_what_its_leader_has_committed() {
    check(
        observer(),
        "learn 2 1
         caught-up
         poll
         2 1 records 4 0:1:a,b
         caught-up
         poll
         2 1 records 4 2:1:c,d,e
         caught-up
         state
         restart
         caught-up
         poll
         2 1 records -1
         caught-up
         poll
         2 1 records 5
         caught-up
         learn 3 2
         caught-up",
        &expect![[r#"
            learn 2 1 => Observer { leader_id: 2 } epoch 1 log 0..0 high watermark 0
            caught-up => false
            poll => Leader(2) in 1 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 1 records 4 0:1:a,b => Observer { leader_id: 2 } epoch 1 log 0..2 high watermark 2
            caught-up => false
            poll => Leader(2) in 1 Log { fetch_offset: 2, last_fetched_epoch: 1, high_watermark: 2 }
            2 1 records 4 2:1:c,d,e => Observer { leader_id: 2 } epoch 1 log 0..5 high watermark 2
            caught-up => false
            state => Observer { leader_id: 2 } epoch 1 log 0..5 high watermark 2
            restart => Observer { leader_id: 2 } epoch 1 log 0..5 high watermark 2
            caught-up => false
            poll => Leader(2) in 1 Log { fetch_offset: 2, last_fetched_epoch: 1, high_watermark: 2 }
            2 1 records -1 => Observer { leader_id: 2 } epoch 1 log 0..5 high watermark 2
            caught-up => false
            poll => Leader(2) in 1 Log { fetch_offset: 5, last_fetched_epoch: 1, high_watermark: 2 }
            2 1 records 5 => Observer { leader_id: 2 } epoch 1 log 0..5 high watermark 5
            caught-up => true
            learn 3 2 => Observer { leader_id: 3 } epoch 2 log 0..5 high watermark 5
            caught-up => false
        "#]],
    );
}

/// It would be asked for again and again otherwise, without a pause.
#[test]
fn a_snapshot_that_is_there_already_is_asked_for_no_more() {
    check(
        observer(),
        "learn 2 5
         poll
         2 5 snapshot 3 5
         poll
         2 5 piece 3 5 0 999 a
         poll
         2 5 records 3 3:5:b
         poll
         2 5 snapshot 3 5
         poll
         wait 20
         poll",
        &expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 snapshot 3 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Snapshot { id: SnapshotId { end_offset: 3, epoch: 5 }, position: 0 }
            2 5 piece 3 5 0 999 a => Observer { leader_id: 2 } epoch 5 log 3..3 high watermark 3
            poll => Leader(2) in 5 Log { fetch_offset: 3, last_fetched_epoch: 5, high_watermark: 3 }
            2 5 records 3 3:5:b => Observer { leader_id: 2 } epoch 5 log 3..4 high watermark 3
            poll => Leader(2) in 5 Log { fetch_offset: 4, last_fetched_epoch: 5, high_watermark: 3 }
            2 5 snapshot 3 5 => Observer { leader_id: 2 } epoch 5 log 3..4 high watermark 3
            poll => nothing until Some(1020)
            wait 20 => 
            poll => Leader(2) in 5 Log { fetch_offset: 4, last_fetched_epoch: 5, high_watermark: 3 }
        "#]],
    );
}

/// Neighbours are one batch as long as an observer can take it in.
#[test]
fn appends_share_batches_up_to_a_size() {
    let (mut replica, mut state) = lead(&new_disk()).expect("new");
    state.apply(&mut replica);
    let large = "v".repeat(3 << 20);
    for value in ["a", &large, &large, "b", &large, &large, "c"] {
        stage(&mut replica, &[value]).expect("it leads");
    }
    assert_eq!(replica.flush(2_000).ok(), Some(Offset(8)));
    let mut ends = Vec::new();
    while let Some(Committed::Batches(batches)) = replica.next_committed().expect("works") {
        ends.push(batches.end_offset);
    }
    assert_eq!(ends, [Offset(5), Offset(8)]);
}
