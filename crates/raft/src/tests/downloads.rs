//! A snapshot that comes from the leader: whole or not at all, with its voters.

use super::*;
use metadata::{VersionRange, Voter};
use model::{LeaderEpoch, Offset};
use storage::leader_epochs::LeaderEpochEnd;

const ID: SnapshotId = SnapshotId {
    end_offset: Offset(7),
    epoch: LeaderEpoch(5),
};

fn leader() -> LeaderAndEpoch {
    LeaderAndEpoch {
        leader_id: Some(BrokerId(2)),
        epoch: LeaderEpoch(9),
    }
}

/// What came of one request that is answered so.
fn exchange(
    replica: &mut Replica<SimDisk>,
    now_ms: i64,
    content: Content<'_>,
) -> Result<(), ObserverError> {
    let request = replica.poll_request(Now::at_ms(now_ms));
    let request = request.expect("it is time");
    let answer = Answer::Answer {
        error: model::ErrorCode::None,
        leader: leader(),
        content,
    };
    replica.handle_answer(request.number, answer, Now::at_ms(now_ms))
}

const fn piece(bytes: &[u8]) -> Content<'_> {
    Content::Piece(SnapshotPiece {
        id: ID,
        size_bytes: bytes.len() as u64,
        position: 0,
        bytes,
    })
}

/// An observer with a log of two records, which the leader has in `epoch` or not at all.
fn follower(disk: &SimDisk, epoch: LeaderEpoch) -> Result<Replica<SimDisk>, ObserverError> {
    let opened = Replica::open(disk.clone(), options(observer()));
    let mut replica = opened.map_err(|_| AppendError::Failed)?.replica;
    replica.handle_leader(leader(), Now::at_ms(1_000))?;
    let place = BatchPlace {
        base_offset: Offset(0),
        leader_epoch: epoch,
        timestamp_ms: 2_000,
    };
    // As long as what the snapshot holds.
    let bytes = batch(place, &["a", "b", "c", "d", "e", "f", "g", "h"]);
    let records = Content::Records {
        bytes: &bytes,
        high_watermark: Offset(0),
    };
    exchange(&mut replica, 2_000, records)?;
    Ok(replica)
}

fn download(disk: &SimDisk, epoch: LeaderEpoch) -> Result<Replica<SimDisk>, ObserverError> {
    let mut replica = follower(disk, epoch)?;
    exchange(&mut replica, 3_000, Content::SnapshotId(ID))?;
    exchange(&mut replica, 3_000, piece(&snapshot_bytes(ID, &["x", "y"])))?;
    Ok(replica)
}

/// Where a follower's next batch belongs.
const NEXT: BatchPlace = BatchPlace {
    base_offset: Offset(8),
    leader_epoch: LeaderEpoch(9),
    timestamp_ms: 2_000,
};

/// What a batch says, compressed: no node of a quorum writes that, and few bytes may expand to many.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let (plain, rest) = RecordBatch::parse(bytes).expect("a batch");
    let mut builder = BatchBuilder::new(BatchHeader::of(&plain));
    let mut scratch = Vec::new();
    let records = plain.records(&mut Decompressor::default(), &mut scratch, 0);
    for record in records.expect("not compressed") {
        let record = record.expect("whole");
        builder.append_record(record.offset, &record);
    }
    let mut packed = Vec::new();
    let codec = record::Compression::Zstd.into();
    builder.build(codec, &mut record::Compressor::default(), &mut packed);
    packed.extend_from_slice(rest);
    packed
}

#[test]
fn what_is_compressed_is_no_part_of_the_log() {
    let disk = new_disk();
    let mut replica = follower(&disk, LeaderEpoch(3)).expect("the disk works");
    let control = quorum_batch(&[QuorumRecord::KRaftVersion(1)], NEXT);
    for (now_ms, bytes) in [(3_000, batch(NEXT, &["x"])), (4_000, control)] {
        let records = Content::Records {
            bytes: &compressed(&bytes),
            high_watermark: Offset(9),
        };
        let refused = exchange(&mut replica, now_ms, records);
        assert!(
            matches!(refused, Err(ObserverError::Records(_))),
            "{refused:?}"
        );
        assert_eq!(replica.end_offset(), Offset(8));
    }
    exchange(&mut replica, 5_000, Content::SnapshotId(ID)).expect("begins");
    let snapshot = compressed(&snapshot_bytes(ID, &["x", "y"]));
    let refused = exchange(&mut replica, 5_000, piece(&snapshot));
    assert!(
        matches!(refused, Err(ObserverError::Snapshot { .. })),
        "{refused:?}"
    );
    assert_eq!(replica.end_offset(), Offset(8));
}

/// Its leader has it whole. A control batch is read before it is written.
#[test]
fn what_was_damaged_on_its_way_is_asked_for_again() {
    let disk = new_disk();
    let mut replica = follower(&disk, LeaderEpoch(3)).expect("the disk works");
    let sent = quorum_batch(&[QuorumRecord::KRaftVersion(1)], NEXT);
    for (now_ms, end_offset) in [(3_000, 8), (4_000, 9)] {
        let mut bytes = sent.clone();
        let last = bytes.last_mut().expect("some");
        *last ^= u8::from(end_offset == 8);
        let records = Content::Records {
            bytes: &bytes,
            high_watermark: Offset(9),
        };
        let taken = exchange(&mut replica, now_ms, records);
        let is_refused = matches!(taken, Err(ObserverError::Records(_)));
        assert_eq!(is_refused, end_offset == 8, "{taken:?}");
        assert_eq!(replica.end_offset(), Offset(end_offset));
    }
}

/// Whatever another leader has written beside it: in an earlier epoch, the same or a later one.
#[test]
fn a_crash_leaves_the_log_or_the_snapshot_in_its_place() {
    for epoch in [3, 5, 8].map(LeaderEpoch) {
        let disk = new_disk();
        let start = disk.change_count();
        download(&disk, epoch).expect("the disk works");
        for stop_at in start..disk.change_count() {
            let disk = new_disk();
            disk.stop_at(Some(stop_at));
            let _ = download(&disk, epoch);
            disk.crash(Crash::LosesUnsynced);
            let voter_disk = disk.fork();
            let opened = Replica::open(disk.clone(), options(observer()));
            let mut replica = opened.expect("a crash harms nothing").replica;
            assert!(!files(&disk).iter().any(|name| name.ends_with(".part")));
            let mut state = State::default();
            state.apply(&mut replica);
            match replica.newest_snapshot() {
                None => assert_eq!(
                    (state.end_offset, replica.start_offset()),
                    (Offset(0), Offset(0))
                ),
                Some(id) => {
                    assert_eq!(
                        (id, &state.values[..]),
                        (ID, &["x", "y"].map(String::from)[..])
                    );
                    // What is in the way of the leader's log is gone.
                    let is_alike = epoch == ID.epoch;
                    let end_offset = replica.end_offset();
                    assert!(
                        end_offset == Offset(7) || is_alike && end_offset == Offset(8),
                        "{end_offset}"
                    );
                }
            }
            if epoch == LeaderEpoch(3) && replica.newest_snapshot().is_some() {
                let opened = Replica::open(voter_disk, options(voter())).expect("whole");
                assert_eq!(opened.replica.end_offset(), Offset(7));
            }
        }
    }
}

#[test]
fn what_is_no_whole_snapshot_is_not_taken() {
    let whole = snapshot_bytes(ID, &["x", "y"]);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    let header = whole.len() - batch_length_from_end(&whole);
    for bytes in [&damaged[..], &whole[..header]] {
        let disk = new_disk();
        let mut replica = follower(&disk, LeaderEpoch(5)).expect("the disk works");
        exchange(&mut replica, 3_000, Content::SnapshotId(ID)).expect("asked for");
        let refused = exchange(&mut replica, 3_000, piece(bytes));
        assert!(
            matches!(refused, Err(ObserverError::Snapshot { .. })),
            "{refused:?}"
        );
        assert_eq!(
            (replica.newest_snapshot(), replica.end_offset()),
            (None, Offset(8))
        );
        assert!(!files(&disk).iter().any(|name| name.ends_with(".part")));
    }
}

/// The length of the last batch.
fn batch_length_from_end(bytes: &[u8]) -> usize {
    let last = Batches::new(bytes).last().expect("some");
    last.expect("whole").size_in_bytes()
}

#[test]
fn a_download_leaves_no_older_snapshot() {
    let disk = new_disk();
    let mut replica = follower(&disk, LeaderEpoch(5)).expect("the disk works");
    let older = SnapshotId {
        end_offset: Offset(2),
        epoch: LeaderEpoch(5),
    };
    exchange(&mut replica, 3_000, Content::SnapshotId(older)).expect("asked for");
    let bytes = snapshot_bytes(older, &["o"]);
    let content = Content::Piece(SnapshotPiece {
        id: older,
        size_bytes: bytes.len() as u64,
        position: 0,
        bytes: &bytes,
    });
    exchange(&mut replica, 3_000, content).expect("whole");
    exchange(&mut replica, 3_000, Content::SnapshotId(ID)).expect("asked for");
    exchange(&mut replica, 3_000, piece(&snapshot_bytes(ID, &["x"]))).expect("whole");
    let names = files(&disk).into_iter();
    let snapshots: Vec<_> = names.filter(|name| name.ends_with(".checkpoint")).collect();
    assert_eq!(snapshots, [ID.to_string()]);
}

fn voters(id: BrokerId) -> [QuorumRecord; 2] {
    let voter = Voter {
        id,
        directory_id: Uuid::from_u128(7),
        endpoints: Vec::new(),
        kraft_version: VersionRange { min: 0, max: 1 },
    };
    [
        QuorumRecord::KRaftVersion(1),
        QuorumRecord::VoterSet(vec![voter]),
    ]
}

/// A snapshot that holds one voter and nothing else.
fn snapshot_of_voter(id: BrokerId) -> Vec<u8> {
    let place = |base_offset| BatchPlace {
        base_offset,
        leader_epoch: ID.epoch,
        timestamp_ms: 2_000,
    };
    let mut header = vec![QuorumRecord::SnapshotHeader {
        last_contained_log_timestamp_ms: 2_000,
    }];
    header.extend(voters(id));
    let mut bytes = quorum_batch(&header, place(Offset(0)));
    bytes.extend(quorum_batch(
        &[QuorumRecord::SnapshotFooter],
        place(Offset(3)),
    ));
    bytes
}

fn voter_ids(replica: &Replica<SimDisk>) -> Vec<BrokerId> {
    let voters = replica.voters().voters.iter().flatten();
    voters.map(|voter| voter.id).collect()
}

/// They count from where they are appended, and no longer when that is cut (KIP-853).
#[test]
fn voters_are_those_of_the_log_as_it_is() {
    let disk = new_disk();
    let opened = Replica::open(disk.clone(), options(observer()));
    let mut replica = opened.expect("new").replica;
    replica
        .handle_leader(leader(), Now::at_ms(1_000))
        .expect("it is the first");
    let place = |base_offset, leader_epoch| BatchPlace {
        base_offset,
        leader_epoch,
        timestamp_ms: 2_000,
    };
    let mut bytes = quorum_batch(&voters(BrokerId(4)), place(Offset(0), LeaderEpoch(3)));
    bytes.extend(quorum_batch(
        &voters(BrokerId(5)),
        place(Offset(2), LeaderEpoch(5)),
    ));
    let records = Content::Records {
        bytes: &bytes,
        high_watermark: Offset(2),
    };
    exchange(&mut replica, 2_000, records).expect("in order");
    assert_eq!(voter_ids(&replica), [BrokerId(5)]);
    let opened = Replica::open(disk.fork(), options(observer()));
    assert_eq!(voter_ids(&opened.expect("whole").replica), [BrokerId(5)]);
    let end = LeaderEpochEnd {
        leader_epoch: LeaderEpoch(3),
        end_offset: Offset(2),
    };
    exchange(&mut replica, 2_000, Content::Diverging(end)).expect("it can be cut");
    assert_eq!(
        (voter_ids(&replica), replica.end_offset()),
        (vec![BrokerId(4)], Offset(2))
    );
    exchange(&mut replica, 2_000, Content::SnapshotId(ID)).expect("asked for");
    exchange(&mut replica, 2_000, piece(&snapshot_of_voter(BrokerId(6)))).expect("whole");
    assert_eq!(voter_ids(&replica), [BrokerId(6)]);
}

/// A disk that fails once, at any change: what is in the log's place has its voters, whether the
/// older snapshot could be removed or not.
#[test]
fn a_snapshot_in_the_place_of_the_log_brings_its_voters() {
    let older = SnapshotId {
        end_offset: Offset(2),
        epoch: LeaderEpoch(5),
    };
    let begin = |disk: &SimDisk| {
        let mut replica = follower(disk, LeaderEpoch(5)).expect("the disk works");
        let bytes = snapshot_bytes(older, &["o"]);
        let content = Content::Piece(SnapshotPiece {
            id: older,
            size_bytes: bytes.len() as u64,
            position: 0,
            bytes: &bytes,
        });
        exchange(&mut replica, 3_000, Content::SnapshotId(older)).expect("asked for");
        exchange(&mut replica, 3_000, content).expect("whole");
        exchange(&mut replica, 3_000, Content::SnapshotId(ID)).expect("asked for");
        replica
    };
    let disk = new_disk();
    let mut replica = begin(&disk);
    let start = disk.change_count();
    exchange(&mut replica, 3_000, piece(&snapshot_of_voter(BrokerId(6)))).expect("whole");
    let mut went_on = 0;
    for stop_at in start..disk.change_count() {
        let disk = new_disk();
        let mut replica = begin(&disk);
        disk.stop_at(Some(stop_at));
        exchange(&mut replica, 3_000, piece(&snapshot_of_voter(BrokerId(6))))
            .expect_err("the disk fails");
        if replica.start_offset() == ID.end_offset && !replica.has_failed() {
            assert_eq!(voter_ids(&replica), [BrokerId(6)], "{stop_at}");
            went_on += 1;
        }
    }
    assert!(went_on > 0);
}

/// Its log would be gone, and the snapshot could never be read.
#[test]
fn a_snapshot_that_is_too_large_to_be_read_is_not_taken() {
    let disk = new_disk();
    let mut replica = follower(&disk, LeaderEpoch(5)).expect("the disk works");
    exchange(&mut replica, 3_000, Content::SnapshotId(ID)).expect("asked for");
    let content = Content::Piece(SnapshotPiece {
        id: ID,
        size_bytes: 1 << 31,
        position: 0,
        bytes: b"begins",
    });
    let refused = exchange(&mut replica, 3_000, content);
    assert!(
        matches!(refused, Err(ObserverError::Piece { .. })),
        "{refused:?}"
    );
    assert!(!files(&disk).iter().any(|name| name.ends_with(".part")));
}

/// As a crash leaves it that comes before the log is emptied.
#[test]
fn a_batch_that_a_snapshot_ends_within_is_not_cut() {
    let disk = new_disk();
    drop(follower(&disk, LeaderEpoch(5)).expect("the disk works"));
    let path = Path::new("/a").join(METADATA_LOG_FOLDER);
    let file = disk.open(&path.join(ID.to_string()), OpenMode::Create);
    let bytes = snapshot_bytes(ID, &["x"]);
    file.expect("made").write_at(&bytes, 0).expect("room");
    let opened = Replica::open(disk, options(observer()));
    let mut replica = opened.expect("whole").replica;
    let end = LeaderEpochEnd {
        leader_epoch: LeaderEpoch(5),
        end_offset: Offset(7),
    };
    let refused = exchange(&mut replica, 2_000, Content::Diverging(end));
    assert!(
        matches!(refused, Err(ObserverError::BelowHighWatermark { .. })),
        "{refused:?}"
    );
    assert_eq!(
        (replica.high_watermark(), replica.end_offset()),
        (Offset(7), Offset(8))
    );
}

/// What one segment does not hold is written part after part, and only then is the next part looked at.
#[test]
fn damage_in_an_answer_of_several_segments_is_fetched_again() {
    let disk = new_disk();
    let mut options = options(observer());
    options.config.segment_bytes = 300;
    let mut replica = Replica::open(disk, options).expect("new").replica;
    replica
        .handle_leader(leader(), Now::at_ms(1_000))
        .expect("it is the first");
    let mut bytes = Vec::new();
    for base_offset in 0..20 {
        let place = BatchPlace {
            base_offset: Offset(base_offset),
            leader_epoch: LeaderEpoch(5),
            timestamp_ms: 2_000,
        };
        bytes.extend(batch(place, &["as long as others"]));
    }
    let mut damaged = bytes.clone();
    let last = damaged.len() - 3;
    damaged[last] ^= 1;
    let records = |bytes| Content::Records {
        bytes,
        high_watermark: Offset(20),
    };
    let refused = exchange(&mut replica, 2_000, records(&damaged));
    assert!(
        matches!(refused, Err(ObserverError::Records(_))),
        "{refused:?}"
    );
    exchange(&mut replica, 3_000, records(&bytes)).expect("whole");
    let mut state = State::default();
    state.apply(&mut replica);
    assert_eq!(state.values.len(), 20);
}

/// Another leader may have another snapshot, or none: what is here of this one is of no use.
#[test]
fn another_leader_ends_a_download() {
    let disk = new_disk();
    let mut replica = follower(&disk, LeaderEpoch(5)).expect("the disk works");
    exchange(&mut replica, 3_000, Content::SnapshotId(ID)).expect("asked for");
    let whole = snapshot_bytes(ID, &["x", "y"]);
    let begins = Content::Piece(SnapshotPiece {
        id: ID,
        size_bytes: whole.len() as u64,
        position: 0,
        bytes: &whole[..10],
    });
    exchange(&mut replica, 3_000, begins).expect("it is the first");
    let is_part = |name: &String| name.ends_with(".part");
    assert!(files(&disk).iter().any(is_part));
    let next = LeaderAndEpoch {
        leader_id: Some(BrokerId(3)),
        epoch: LeaderEpoch(10),
    };
    replica
        .handle_leader(next, Now::at_ms(3_000))
        .expect("it is the next one");
    assert!(!files(&disk).iter().any(is_part));
    let request = replica.poll_request(Now::at_ms(3_000));
    let request = request.expect("it is time");
    assert_eq!(request.to, Recipient::Leader(BrokerId(3)));
    assert!(matches!(request.wanted, Wanted::Log { .. }), "{request:?}");
}
