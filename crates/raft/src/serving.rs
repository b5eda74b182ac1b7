//! What the leader answers those who follow it: Fetch and FetchSnapshot (KIP-595, KIP-630) without
//! their encoding. `observing` is the other side.
//!
//! ```text
//!   handle_fetch ── not the leader, or of another epoch ──> error
//!        ├── what is wanted is in a snapshot only        ──> its id ──> handle_fetch_snapshot ──> pieces
//!        ├── the logs part                               ──> epoch and end
//!        └── else                                        ──> a slice of a file, or nothing yet
//! ```
//!
//! Nothing is read here but positions: the bytes go out of the files, by whoever has the socket. An
//! answer that brings nothing is kept there until there is more, or time is out.

use crate::followers::ReplicaKey;
use crate::messages::LeaderAndEpoch;
use crate::replica::{QuorumMembership, Replica, RoleState};
use metadata::SnapshotId;
use model::{BrokerId, ErrorCode, LeaderEpoch, MonotonicTime, Now, Offset};
use storage::FileSlice;
use storage::disk::{Disk, DiskFile};
use storage::leader_epochs::LeaderEpochEnd;

/// No answer has more bytes of the log, but for one batch that is longer.
const FETCH_BYTES_MAX: usize = 1 << 20;
/// No piece of a snapshot is longer.
const PIECE_BYTES_MAX: usize = 8 << 20;

/// A Fetch of the quorum's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchRequest {
    /// Who asks; `None` for one that does not tell.
    pub replica: Option<ReplicaKey>,
    /// The epoch that it is in.
    pub leader_epoch: LeaderEpoch,
    /// The end of its log.
    pub fetch_offset: Offset,
    /// The epoch of its last batch.
    pub last_fetched_epoch: LeaderEpoch,
    /// What it knows as committed; the largest number when it does not tell (before KIP-1166).
    pub high_watermark: Offset,
    /// How long it would wait, in milliseconds.
    pub max_wait_ms: i32,
    /// How many bytes of batches it takes.
    pub max_bytes: usize,
}

/// The answer to a Fetch.
#[derive(Debug)]
pub struct FetchAnswer<F> {
    /// Of the one partition.
    pub error: ErrorCode,
    /// Who leads.
    pub leader: LeaderAndEpoch,
    /// The end of what is committed; -1 with an error.
    pub high_watermark: Offset,
    /// Where the log starts.
    pub log_start_offset: Offset,
    /// What it brings.
    pub content: FetchContent<F>,
}

/// What the answer to a Fetch brings.
#[derive(Debug)]
pub enum FetchContent<F> {
    /// Nothing: there is no more.
    Nothing,
    /// Batches from the offset on that was asked for, the last one perhaps in part.
    Records(FileSlice<F>),
    /// Where the logs part.
    Diverging(LeaderEpochEnd),
    /// The snapshot that holds what was asked for.
    SnapshotId(SnapshotId),
}

impl<F> FetchAnswer<F> {
    /// Whether it is sent at once, however long whoever asks would wait.
    pub fn is_news(&self, request: &FetchRequest) -> bool {
        !matches!(self.error, ErrorCode::None)
            || !matches!(self.content, FetchContent::Nothing)
            || request.high_watermark < self.high_watermark
    }

    /// Whether a leader that votes alone has lost records by this: whoever asks has some that are not here, or
    /// knows an epoch to come. All that such a leader has ever sent was durable.
    pub fn shows_loss(&self, request: &FetchRequest) -> bool {
        match (self.error, &self.content) {
            (ErrorCode::UnknownLeaderEpoch, _) => request.leader_epoch > self.leader.epoch,
            (_, FetchContent::Diverging(end)) => request.fetch_offset > end.end_offset,
            _ => false,
        }
    }
}

/// A FetchSnapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchSnapshotRequest {
    /// The epoch that whoever asks is in.
    pub leader_epoch: LeaderEpoch,
    /// Which snapshot.
    pub id: SnapshotId,
    /// From where on.
    pub position: i64,
    /// How many bytes it takes.
    pub max_bytes: usize,
}

/// The answer to a FetchSnapshot.
#[derive(Debug)]
pub struct FetchSnapshotAnswer<F> {
    /// Of the one partition.
    pub error: ErrorCode,
    /// Who leads.
    pub leader: LeaderAndEpoch,
    /// How large the whole snapshot is; 0 with an error.
    pub size_bytes: u64,
    /// The bytes from the position on; none with an error.
    pub piece: Option<FileSlice<F>>,
}

impl<D: Disk> Replica<D> {
    /// Answers a Fetch, and takes note of how far whoever asks has come.
    pub fn handle_fetch(&mut self, request: &FetchRequest, now: Now) -> FetchAnswer<D::File> {
        match self.fetched(request) {
            Err(error) => FetchAnswer {
                error,
                leader: self.leader_and_epoch(),
                high_watermark: Offset::NONE,
                log_start_offset: Offset::ZERO,
                content: FetchContent::Nothing,
            },
            Ok(content) => {
                let high_watermark = self.high_watermark();
                let is_valid = matches!(content, FetchContent::Nothing | FetchContent::Records(_));
                if let RoleState::Leader(leading) = &mut self.role
                    && let Some(replica) = request.replica.filter(|_| is_valid)
                {
                    let offset = request.fetch_offset;
                    let followers = &mut leading.followers;
                    followers.fetched(replica, offset, high_watermark, now);
                }
                FetchAnswer {
                    error: ErrorCode::None,
                    leader: self.leader_and_epoch(),
                    high_watermark,
                    log_start_offset: self.start_offset(),
                    content,
                }
            }
        }
    }

    /// Whether a node has fetched the log that this one leads, and was heard of lately.
    pub fn knows_follower(&self, id: BrokerId, now: MonotonicTime) -> bool {
        match &self.role {
            RoleState::Leader(leading) => leading.followers.knows(id, now),
            _ => false,
        }
    }

    fn fetched(&self, request: &FetchRequest) -> Result<FetchContent<D::File>, ErrorCode> {
        let (offset, last_epoch) = (request.fetch_offset, request.last_fetched_epoch);
        if request.max_wait_ms < 0
            || offset < Offset::ZERO
            || request.leader_epoch.is_none()
            || last_epoch.is_none()
            || last_epoch > request.leader_epoch
        {
            return Err(ErrorCode::InvalidRequest);
        }
        self.check_leader(request.leader_epoch)?;
        if let Some(id) = self.snapshot_for(offset, last_epoch) {
            return Ok(FetchContent::SnapshotId(id));
        }
        // All that is written here is committed: what a torn append has left is not part of the log.
        let end_offset = self.high_watermark();
        let log = &self.log;
        let end = log.log.offset_for_leader_epoch(last_epoch);
        let end = end.unwrap_or_else(|| LeaderEpochEnd {
            leader_epoch: log.last_epoch(),
            end_offset,
        });
        let end = LeaderEpochEnd {
            end_offset: end.end_offset.min(end_offset),
            ..end
        };
        if end.leader_epoch != last_epoch || end.end_offset < offset {
            return Ok(FetchContent::Diverging(end));
        }
        if offset >= end_offset {
            return Ok(FetchContent::Nothing);
        }
        let max_bytes = request.max_bytes.min(FETCH_BYTES_MAX);
        let read = log.log.read(offset, max_bytes, end_offset, true);
        let read = read.map_err(|_| ErrorCode::KafkaStorageError)?;
        Ok(read
            .slice
            .map_or(FetchContent::Nothing, FetchContent::Records))
    }

    /// The snapshot that whoever has the log up to there has to have first, if any.
    fn snapshot_for(&self, offset: Offset, last_epoch: LeaderEpoch) -> Option<SnapshotId> {
        let newest = self.log.snapshots.newest();
        let newest = newest.filter(|id| *id != SnapshotId::BOOTSTRAP)?;
        let start_offset = self.start_offset();
        let oldest = self.log.snapshots.all().first();
        // What is before the log is known by that snapshot alone.
        let is_apart = oldest.is_some_and(|oldest| {
            oldest.id.end_offset == start_offset
                && (last_epoch < oldest.id.epoch
                    || offset == start_offset && last_epoch != oldest.id.epoch)
        });
        (offset == Offset::ZERO || offset < start_offset || is_apart).then_some(newest)
    }

    /// Answers a FetchSnapshot.
    pub fn handle_fetch_snapshot(
        &self,
        request: &FetchSnapshotRequest,
    ) -> FetchSnapshotAnswer<D::File> {
        let (error, size_bytes, piece) = match self.piece_of(request) {
            Ok((size_bytes, piece)) => (ErrorCode::None, size_bytes, Some(piece)),
            Err(error) => (error, 0, None),
        };
        FetchSnapshotAnswer {
            error,
            leader: self.leader_and_epoch(),
            size_bytes,
            piece,
        }
    }

    fn piece_of(
        &self,
        request: &FetchSnapshotRequest,
    ) -> Result<(u64, FileSlice<D::File>), ErrorCode> {
        self.check_leader(request.leader_epoch)?;
        let stored = self.log.snapshots.all().iter();
        let mut stored = stored.filter(|stored| stored.id != SnapshotId::BOOTSTRAP);
        if !stored.any(|stored| stored.id == request.id) {
            return Err(ErrorCode::SnapshotNotFound);
        }
        let opened = self.log.snapshots.file(request.id);
        let opened = opened.and_then(|file| Ok((file.length()?, file)));
        let (size_bytes, file) = opened.map_err(|_| ErrorCode::KafkaStorageError)?;
        let position = u64::try_from(request.position).ok();
        let position = position.filter(|position| *position < size_bytes);
        let position = position.ok_or(ErrorCode::PositionOutOfRange)?;
        let rest_bytes = usize::try_from(size_bytes - position).unwrap_or(usize::MAX);
        let max_bytes = request.max_bytes.clamp(1, PIECE_BYTES_MAX);
        let piece = FileSlice {
            file,
            position,
            length: rest_bytes.min(max_bytes),
        };
        Ok((size_bytes, piece))
    }

    /// Who leads, as this node knows it.
    pub fn leader_and_epoch(&self) -> LeaderAndEpoch {
        let leader_id = match (&self.role, &self.standing) {
            (RoleState::Leader(_), QuorumMembership::Voter(local)) => Some(local.id),
            (RoleState::Observer(observer), _) => observer.leader_id,
            _ => None,
        };
        LeaderAndEpoch {
            leader_id,
            epoch: self.epoch,
        }
    }

    /// Whether this node leads the epoch that whoever asks is in.
    pub(crate) fn check_leader(&self, leader_epoch: LeaderEpoch) -> Result<(), ErrorCode> {
        match leader_epoch.cmp(&self.epoch) {
            std::cmp::Ordering::Less => Err(ErrorCode::FencedLeaderEpoch),
            std::cmp::Ordering::Greater => Err(ErrorCode::UnknownLeaderEpoch),
            std::cmp::Ordering::Equal if self.is_leader() => Ok(()),
            std::cmp::Ordering::Equal => Err(ErrorCode::NotLeaderOrFollower),
        }
    }
}
