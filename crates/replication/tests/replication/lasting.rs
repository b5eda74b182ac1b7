//! What stays true of a partition through rest, cuts and changes of its role.

use crate::support::{Served, batch, producer_batch, topic_partition};
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use replication::{FirstBatch, Role};
use std::path::Path;
use storage::{Disk, Log, LogOpening};

/// What a producer's transaction begins with here.
const FIRST: FirstBatch = FirstBatch {
    producer_id: ProducerId(3),
    producer_epoch: ProducerEpoch(0),
    base_sequence: 0,
};

/// What was flushed stays durable while the log is idle, though the indexes may not be: else a flush would be due
/// that nobody begins, and the high watermark would stay.
#[test]
fn what_was_flushed_is_durable_after_the_log_was_idle() {
    let served = Served::with(|config| config.flush_messages = 2);
    served.append(batch(0, 1));
    served.append(batch(0, 1));
    served.partition.flush_up_to(Offset(2), 0).unwrap();
    assert_eq!(served.partition.flushed_end_offset(), Offset(2));
    assert!(!served.partition.become_idle(0, false).unwrap());
    assert!(served.partition.become_idle(0, false).unwrap());
    let seen = || {
        let partition = &served.partition;
        let offsets = partition.offsets();
        let durable = partition.flushed_end_offset();
        (offsets.high_watermark, durable, partition.awaits_flush())
    };
    assert_eq!(seen(), (Offset(2), Offset(2), false));
    served.append(batch(0, 1));
    assert_eq!(seen(), (Offset(3), Offset(2), false));
}

/// A producer may have five batches under way, and send all of them again when it has heard of none. Of an idle log it
/// would be known as the sender of the last one alone.
#[test]
fn a_log_is_not_idle_while_a_producer_may_send_again_what_it_knows() {
    let served = Served::new();
    let send_all = || {
        let sent = (0..5).map(|sequence| served.append(producer_batch(3, sequence, 1, false)));
        sent.collect::<Vec<_>>()
    };
    assert_eq!(send_all(), [0, 1, 2, 3, 4]);
    let becomes_idle = |now_ms| {
        assert!(!served.partition.become_idle(now_ms, false).unwrap());
        served.partition.become_idle(now_ms, false).unwrap()
    };
    assert!(!becomes_idle(299_999));
    assert_eq!(send_all(), [0, 1, 2, 3, 4], "they are known");
    assert!(becomes_idle(300_000));
    // Of one batch an idle log knows all there is to know.
    let served = Served::new();
    served.append(producer_batch(3, 0, 1, false));
    served.rest();
    assert_eq!(served.append(producer_batch(3, 0, 1, false)), 0);
}

/// What was proved before the log was cut, by a broker that led, proves nothing to the one that leads again.
#[test]
fn a_proof_does_not_outlive_the_records_that_it_was_for() {
    let served = Served::with(|config| config.verify_transactions = true);
    let partition = &served.partition;
    let lead = |epoch| {
        partition
            .take_role(Role::alone(LeaderEpoch(epoch)))
            .unwrap()
    };
    lead(1);
    let before = partition.start_verification(FIRST, true, 0).unwrap();
    for (epoch, restarts) in [(2, false), (4, true)] {
        served.append(batch(0, 1));
        let role = Role::Follower {
            leader: BrokerId(9),
            leader_epoch: LeaderEpoch(epoch),
        };
        partition.take_role(role).unwrap();
        let leader_epoch = LeaderEpoch(epoch);
        match restarts {
            true => partition
                .restart_as_follower(leader_epoch, Offset(0), 0)
                .unwrap(),
            false => partition
                .truncate_as_follower(leader_epoch, Offset(0), 0)
                .unwrap(),
        };
        lead(epoch + 1);
        let now = partition.start_verification(FIRST, true, 0).unwrap();
        assert!(before.is_some() && now.is_some());
        assert_ne!(before, now);
    }
}

/// Nor the log that it was asked for, when a copy in another directory takes its place.
#[test]
fn a_proof_does_not_outlive_the_log_that_it_was_for() {
    let served = Served::with(|config| config.verify_transactions = true);
    let partition = &served.partition;
    let before = partition.start_verification(FIRST, true, 0).unwrap();
    served.disk.create_directory(Path::new("/other")).unwrap();
    let moved = partition.move_log(&"/other".into(), |_, _| {
        let directory = "/other/topic-3".into();
        let disk = served.disk.clone();
        Log::create(LogOpening::new(disk, directory, topic_partition()))
    });
    assert!(moved.is_ok());
    let now = partition.start_verification(FIRST, true, 0).unwrap();
    assert!(before.is_some() && now.is_some());
    assert_ne!(before, now);
}

#[test]
fn only_what_is_replicated_is_deleted() {
    let served = Served::with(|config| config.flush_messages = 2);
    served.append(batch(0, 1));
    served.append(batch(0, 1));
    let delete = |offset| served.partition.delete_records_before(offset);
    let refused = delete(Offset(2)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::OffsetOutOfRange);
    assert_eq!(delete(Offset(1)).unwrap(), Offset(1));
}
