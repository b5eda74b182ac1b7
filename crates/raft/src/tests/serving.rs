//! What a voter alone answers, in Apache Kafka 4.3.1's order of checks where there is one.

use super::*;
use crate::replica::RoleState;
use metadata::VersionRange;
use model::{ErrorCode, Offset};
use std::sync::Arc;

const STRANGER: ReplicaKey = ReplicaKey {
    id: BrokerId(9),
    directory_id: Uuid::from_u128(0xaa),
};
const NOBODY: ReplicaKey = ReplicaKey {
    id: BrokerId::NONE,
    directory_id: Uuid::ZERO,
};
const SELF: ReplicaKey = ReplicaKey {
    id: NODE_ID,
    directory_id: Uuid::from_u128(0xd0_0001),
};

/// A leader in epoch 2, with epochs at the offsets 0 and 3.
fn leader() -> Replica<SimDisk> {
    let disk = new_disk();
    let (mut replica, _) = lead(&disk).expect("new");
    append(&mut replica, &["a", "b"]).expect("fits");
    let (mut replica, _) = lead(&disk).expect("whole");
    append(&mut replica, &["c", "d"]).expect("fits");
    assert_eq!(
        (replica.epoch(), replica.end_offset()),
        (LeaderEpoch(2), Offset(6))
    );
    replica
}

fn fetch(fetch_offset: Offset, last_fetched_epoch: i32) -> FetchRequest {
    FetchRequest {
        replica: Some(STRANGER),
        leader_epoch: LeaderEpoch(2),
        fetch_offset,
        last_fetched_epoch: LeaderEpoch(last_fetched_epoch),
        high_watermark: Offset::MAX,
        max_wait_ms: 500,
        max_bytes: 1 << 20,
    }
}

/// What a fetch is answered with, in a word.
fn told(replica: &mut Replica<SimDisk>, request: &FetchRequest) -> String {
    let answer = replica.handle_fetch(request, Now::at_ms(2_000));
    if answer.error != ErrorCode::None {
        assert_eq!(answer.high_watermark, Offset::NONE);
        return format!("{:?}", answer.error);
    }
    match answer.content {
        FetchContent::Nothing if answer.is_news(request) => "high watermark".to_owned(),
        FetchContent::Nothing => "nothing yet".to_owned(),
        FetchContent::Records(slice) => {
            let bytes = slice.to_vec().expect("there");
            format!("{:?}", values_of(&bytes, Offset(0)))
        }
        FetchContent::Diverging(end) => {
            format!("diverging {} {}", end.leader_epoch, end.end_offset)
        }
        FetchContent::SnapshotId(id) => format!("snapshot {} {}", id.end_offset, id.epoch),
    }
}

#[test]
fn whoever_has_more_than_the_only_voter_shows_that_it_has_lost_records() {
    let mut replica = leader();
    let mut check = |request: &FetchRequest, expect| {
        let answer = replica.handle_fetch(request, Now::at_ms(2_000));
        assert_eq!(answer.shows_loss(request), expect, "{request:?}");
    };
    let of_epoch = |leader_epoch| FetchRequest {
        leader_epoch: LeaderEpoch(leader_epoch),
        ..fetch(Offset(0), 0)
    };
    check(&fetch(Offset(3), 1), false);
    check(&fetch(Offset(6), 2), false);
    check(&fetch(Offset(7), 2), true);
    check(&fetch(Offset(4), 1), true);
    check(&of_epoch(1), false);
    check(&of_epoch(3), true);
}

#[test]
fn a_fetch_is_answered_by_offset_and_epoch() {
    let mut replica = leader();
    for (request, expect) in [
        (fetch(Offset(0), 0), r#"["a", "b", "c", "d"]"#),
        (fetch(Offset(3), 1), r#"["c", "d"]"#),
        (fetch(Offset(6), 2), "nothing yet"),
        (fetch(Offset(0), 1), r#"["a", "b", "c", "d"]"#),
        (fetch(Offset(4), 1), "diverging 1 3"),
        (fetch(Offset(7), 2), "diverging 2 6"),
        (fetch(Offset(5), 0), "diverging 0 0"),
        (fetch(Offset::NONE, 0), "InvalidRequest"),
        (fetch(Offset(0), -1), "InvalidRequest"),
        (fetch(Offset(0), 3), "InvalidRequest"),
        (
            FetchRequest {
                max_wait_ms: -1,
                ..fetch(Offset(0), 0)
            },
            "InvalidRequest",
        ),
        (
            FetchRequest {
                leader_epoch: LeaderEpoch(1),
                ..fetch(Offset(0), 0)
            },
            "FencedLeaderEpoch",
        ),
        (
            FetchRequest {
                leader_epoch: LeaderEpoch(3),
                ..fetch(Offset(0), 0)
            },
            "UnknownLeaderEpoch",
        ),
        (
            FetchRequest {
                leader_epoch: LeaderEpoch(-1),
                last_fetched_epoch: LeaderEpoch(-1),
                ..fetch(Offset(0), 0)
            },
            "InvalidRequest",
        ),
        (
            FetchRequest {
                high_watermark: Offset(5),
                ..fetch(Offset(6), 2)
            },
            "high watermark",
        ),
        (
            FetchRequest {
                high_watermark: Offset(6),
                ..fetch(Offset(6), 2)
            },
            "nothing yet",
        ),
        (
            FetchRequest {
                max_bytes: 1,
                ..fetch(Offset(4), 2)
            },
            r#"["c", "d"]"#,
        ),
    ] {
        assert_eq!(told(&mut replica, &request), expect, "{request:?}");
    }
}

/// Its log may be longer than what it shares with the leader's.
#[test]
fn whoever_has_another_log_is_no_follower_yet() {
    let mut replica = leader();
    let now = Now::at_ms(2_000);
    for (offset, epoch, count) in [(4, 1, 0), (7, 2, 0), (-1, 0, 0), (3, 1, 1)] {
        replica.handle_fetch(&fetch(Offset(offset), epoch), now);
        let RoleState::Leader(leading) = &replica.role else {
            panic!("it leads");
        };
        let followers = leading.followers.describe(now.monotonic);
        assert_eq!(followers.len(), count, "{offset} {epoch}");
    }
}

#[test]
fn what_is_in_a_snapshot_is_fetched_from_there() {
    let disk = new_disk();
    let mut options = options(voter());
    options.config.retention_bytes = 0;
    options.config.segment_bytes = 300;
    let (mut replica, mut state) = lead_with(&disk, options).expect("new");
    let mut ids = Vec::new();
    for value in ["a", "b", "c"] {
        append(&mut replica, &[value]).expect("fits");
        replica.log.log.roll_segment(2_000).expect("works");
        state.apply(&mut replica);
        let draft = replica.begin_snapshot(state.id(), 2_000).expect("due");
        ids.push(draft.id());
        let written = state.write(&draft);
        replica.complete_snapshot(written, 2_000).expect("works");
    }
    assert_eq!(replica.start_offset(), Offset(4), "one snapshot is left");
    let fetch = |offset, epoch| FetchRequest {
        leader_epoch: LeaderEpoch(1),
        ..fetch(offset, epoch)
    };
    for (request, expect) in [
        (fetch(Offset(0), 0), "snapshot 4 1"),
        (fetch(Offset(2), 1), "snapshot 4 1"),
        (fetch(Offset(4), 0), "snapshot 4 1"),
        (fetch(Offset(4), 1), "nothing yet"),
    ] {
        assert_eq!(told(&mut replica, &request), expect, "{request:?}");
    }
    let newest = ids[2];
    let whole = state.write_bytes(newest);
    let piece = |id, position, max_bytes, leader_epoch: i32| {
        let answer = replica.handle_fetch_snapshot(&FetchSnapshotRequest {
            leader_epoch: LeaderEpoch(leader_epoch),
            id,
            position,
            max_bytes,
        });
        let bytes = answer.piece.map(|piece| piece.to_vec().expect("there"));
        (answer.error, answer.size_bytes, bytes.unwrap_or_default())
    };
    let asked = FetchSnapshotRequest {
        leader_epoch: LeaderEpoch(1),
        id: newest,
        position: 0,
        max_bytes: 1,
    };
    let file = || {
        let answer = replica.handle_fetch_snapshot(&asked);
        answer.piece.expect("there").file
    };
    assert!(Arc::ptr_eq(&file(), &file()), "one file for many");
    let size_bytes = whole.len() as u64;
    let rest = whole[10..].to_vec();
    assert_eq!(
        piece(newest, 10, 1 << 20, 1),
        (ErrorCode::None, size_bytes, rest)
    );
    let some = whole[3..8].to_vec();
    assert_eq!(piece(newest, 3, 5, 1), (ErrorCode::None, size_bytes, some));
    for (id, position, leader_epoch, error) in [
        (newest, 0, 0, ErrorCode::FencedLeaderEpoch),
        (newest, 0, 2, ErrorCode::UnknownLeaderEpoch),
        (ids[0], 0, 1, ErrorCode::SnapshotNotFound),
        (SnapshotId::BOOTSTRAP, 0, 1, ErrorCode::SnapshotNotFound),
        (newest, -1, 1, ErrorCode::PositionOutOfRange),
        (newest, size_bytes as i64, 1, ErrorCode::PositionOutOfRange),
    ] {
        let refused = piece(id, position, 1 << 20, leader_epoch);
        assert_eq!(refused, (error, 0, Vec::new()), "{id} {position}");
    }
}

#[test]
fn whoever_does_not_lead_says_so() {
    let opened = Replica::open(new_disk(), options(observer()));
    let mut replica = opened.expect("new").replica;
    let learnt = LeaderAndEpoch {
        leader_id: Some(BrokerId(2)),
        epoch: LeaderEpoch(2),
    };
    replica
        .handle_leader(learnt, Now::at_ms(1_000))
        .expect("it is the first");
    assert_eq!(
        told(&mut replica, &fetch(Offset(0), 0)),
        "NotLeaderOrFollower"
    );
    assert_eq!(replica.leader_and_epoch(), learnt);
    assert_eq!(replica.describe(Now::at_ms(1_000)), None);
}

#[test]
fn nobody_else_is_elected() {
    let replica = leader();
    let vote = |epoch, last_offset_epoch, is_pre_vote| VoteRequest {
        voter: SELF,
        candidate: STRANGER.id,
        epoch: LeaderEpoch(epoch),
        last_offset_epoch: LeaderEpoch(last_offset_epoch),
        last_offset: Offset(1_000),
        is_pre_vote,
    };
    for (request, error) in [
        (vote(2, 0, false), ErrorCode::None),
        (vote(2, 2, true), ErrorCode::None),
        (vote(2, 2, false), ErrorCode::InvalidRequest),
        (vote(2, -1, false), ErrorCode::InvalidRequest),
        (vote(-1, -2, false), ErrorCode::InvalidRequest),
        (vote(1, 0, false), ErrorCode::FencedLeaderEpoch),
        (vote(12, 2, false), ErrorCode::None),
        (vote(12, 12, true), ErrorCode::None),
        (
            VoteRequest {
                voter: STRANGER,
                ..vote(2, 0, false)
            },
            ErrorCode::InvalidVoterKey,
        ),
        (
            VoteRequest {
                voter: NOBODY,
                ..vote(2, 0, false)
            },
            ErrorCode::None,
        ),
        (
            VoteRequest {
                candidate: BrokerId(-1),
                ..vote(2, 0, false)
            },
            ErrorCode::InvalidRequest,
        ),
    ] {
        let answer = replica.handle_vote(&request);
        let leader = LeaderAndEpoch {
            leader_id: Some(NODE_ID),
            epoch: LeaderEpoch(2),
        };
        assert_eq!(answer, VoteAnswer { error, leader }, "{request:?}");
    }
}

#[test]
fn nobody_else_begins_or_ends_an_epoch() {
    let replica = leader();
    for (voter, leader_id, epoch, error) in [
        (SELF, NODE_ID, 2, ErrorCode::None),
        (NOBODY, NODE_ID, 2, ErrorCode::None),
        (SELF, STRANGER.id, 1, ErrorCode::FencedLeaderEpoch),
        (STRANGER, STRANGER.id, 1, ErrorCode::FencedLeaderEpoch),
        (SELF, BrokerId(-1), 2, ErrorCode::InvalidRequest),
        (STRANGER, STRANGER.id, 2, ErrorCode::InvalidVoterKey),
        (SELF, STRANGER.id, 2, ErrorCode::InconsistentVoterSet),
        (SELF, STRANGER.id, 12, ErrorCode::InconsistentVoterSet),
        (SELF, NODE_ID, 12, ErrorCode::InconsistentVoterSet),
    ] {
        let request = EpochRequest {
            voter,
            leader_id,
            leader_epoch: LeaderEpoch(epoch),
        };
        assert_eq!(replica.handle_epoch(&request), error, "{request:?}");
    }
    assert_eq!(
        (replica.epoch(), replica.is_leader()),
        (LeaderEpoch(2), true)
    );
}

#[test]
fn a_voter_alone_stays_alone() {
    let mut replica = leader();
    let error_of = |refused: Result<(), VoterRefusal>| refused.expect_err("always").error;
    let here = ["CONTROLLER"];
    // The voters are fixed.
    assert_eq!(
        error_of(replica.handle_add_voter(STRANGER, &here)),
        ErrorCode::UnsupportedVersion
    );
    assert_eq!(
        error_of(replica.handle_remove_voter(SELF)),
        ErrorCode::UnsupportedVersion
    );
    replica.raise_kraft_version(1, 2_000).expect("works");
    for (voter, listeners, error) in [
        (NOBODY, &here[..], ErrorCode::InvalidRequest),
        (STRANGER, &[], ErrorCode::InvalidRequest),
        (SELF, &here, ErrorCode::DuplicateVoter),
        (STRANGER, &here, ErrorCode::UnsupportedVersion),
    ] {
        let refused = error_of(replica.handle_add_voter(voter, listeners));
        assert_eq!(refused, error, "{voter:?}");
    }
    for (voter, error) in [
        (NOBODY, ErrorCode::InvalidRequest),
        (STRANGER, ErrorCode::VoterNotFound),
        (SELF, ErrorCode::VoterNotFound),
    ] {
        assert_eq!(error_of(replica.handle_remove_voter(voter)), error);
    }
    let update = |voter, leader_epoch, listeners, max| {
        replica.handle_update_voter(&UpdateVoterRequest {
            leader_epoch: LeaderEpoch(leader_epoch),
            voter,
            listeners,
            kraft_version: VersionRange { min: 0, max },
        })
    };
    assert_eq!(update(SELF, 1, &here, 1), ErrorCode::FencedLeaderEpoch);
    assert_eq!(update(SELF, 3, &here, 1), ErrorCode::UnknownLeaderEpoch);
    assert_eq!(update(SELF, 2, &[], 1), ErrorCode::InvalidRequest);
    assert_eq!(update(SELF, 2, &here, 0), ErrorCode::InvalidRequest);
    assert_eq!(update(STRANGER, 2, &here, 1), ErrorCode::VoterNotFound);
    let without_directory = ReplicaKey {
        directory_id: Uuid::ZERO,
        ..STRANGER
    };
    for voter in [without_directory, NOBODY] {
        assert_eq!(update(voter, 2, &here, 1), ErrorCode::InvalidRequest);
        assert_eq!(update(voter, 1, &here, 1), ErrorCode::FencedLeaderEpoch);
    }
    assert_eq!(update(SELF, 2, &here, 1), ErrorCode::None);
}

/// Its log parts from the leader's within what the leader has in a snapshot only.
#[test]
fn whoever_is_in_an_epoch_before_the_oldest_snapshots_is_given_a_snapshot() {
    let disk = new_disk();
    let mut options = options(voter());
    options.config.retention_bytes = 0;
    let (mut replica, _) = lead_with(&disk, options.clone()).expect("new");
    append(&mut replica, &["a"]).expect("fits");
    let (mut replica, mut state) = lead_with(&disk, options).expect("whole");
    for value in ["b", "c"] {
        append(&mut replica, &[value]).expect("fits");
        replica.log.log.roll_segment(2_000).expect("works");
        state.apply(&mut replica);
        let draft = replica.begin_snapshot(state.id(), 2_000).expect("due");
        let written = state.write(&draft);
        replica.complete_snapshot(written, 2_000).expect("works");
    }
    append(&mut replica, &["d"]).expect("fits");
    assert_eq!(
        (replica.start_offset(), replica.end_offset()),
        (Offset(5), Offset(6))
    );
    for (request, expect) in [
        (fetch(Offset(6), 1), "snapshot 5 2"),
        (fetch(Offset(9), 1), "snapshot 5 2"),
        (fetch(Offset(5), 1), "snapshot 5 2"),
        (fetch(Offset(5), 2), r#"["d"]"#),
        (fetch(Offset(6), 2), "nothing yet"),
    ] {
        assert_eq!(told(&mut replica, &request), expect, "{request:?}");
    }
}
