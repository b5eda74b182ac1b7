//! Snapshots of the metadata log: an image as a `.checkpoint` file, and back.
//!
//! ```text
//! control batch  {SNAPSHOT_HEADER [, KRAFT_VERSION, KRAFT_VOTERS]}
//! data batches   {the image as records}
//! control batch  {SNAPSHOT_FOOTER}
//! ```
//!
//! `bootstrap.checkpoint` has the same frame around the records of a cluster to be made.

use crate::image::{MetadataImage, Provenance, ReplayError};
use crate::log_batch::{
    BatchContentError, BatchPlace, MetadataBatchWriter, is_compressed, quorum_batch,
    read_metadata_records, read_quorum_records,
};
use crate::metadata_version::MetadataVersion;
use crate::quorum::{QuorumRecord, Voter};
use crate::record::MetadataRecord;
use model::{LeaderEpoch, Offset};
use record::{BatchError, Batches};
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// Which part of the log a snapshot stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SnapshotId {
    /// The offset after the last record in the snapshot.
    pub end_offset: Offset,
    /// The leader epoch of that record.
    pub epoch: LeaderEpoch,
}

impl SnapshotId {
    /// The snapshot that formatting a directory writes: no records, only the first voters.
    pub const BOOTSTRAP: Self = Self {
        end_offset: Offset::ZERO,
        epoch: LeaderEpoch(0),
    };
}

impl fmt::Display for SnapshotId {
    /// The name of the snapshot's file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:010}.checkpoint", self.end_offset, self.epoch)
    }
}

impl FromStr for SnapshotId {
    type Err = NotASnapshot;

    fn from_str(name: &str) -> Result<Self, NotASnapshot> {
        let digits = |text: &str, count| {
            text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        let (end_offset, epoch) = name
            .strip_suffix(".checkpoint")
            .and_then(|stem| stem.split_once('-'))
            .filter(|(end_offset, epoch)| digits(end_offset, 20) && digits(epoch, 10))
            .ok_or(NotASnapshot)?;
        Ok(Self {
            end_offset: end_offset.parse().map_err(|_| NotASnapshot)?,
            epoch: epoch.parse().map_err(|_| NotASnapshot)?,
        })
    }
}

/// The name is not that of a snapshot's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a snapshot")]
pub struct NotASnapshot;

/// What a snapshot says about the quorum, when `kraft.version` is above zero.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotQuorum {
    /// The level of `kraft.version`; zero when the snapshot says none.
    pub kraft_version: i16,
    /// The voters; none when they are fixed by configuration.
    pub voters: Option<Vec<Voter>>,
}

/// A snapshot that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot<T> {
    /// When the last record that it contains was appended to the log.
    pub last_contained_log_timestamp_ms: i64,
    /// What it says about the quorum.
    pub quorum: SnapshotQuorum,
    /// The image, or the records of a bootstrap file.
    pub content: T,
}

/// Why a snapshot cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes are not batches.
    #[error("the snapshot is damaged: {0}")]
    Batch(#[from] BatchError),
    /// A batch is damaged, or holds what this build does not know.
    #[error(transparent)]
    Content(#[from] BatchContentError),
    /// The first record is not the header.
    #[error("the snapshot has no header")]
    Header,
    /// The last record is not the footer: the file was not written to its end.
    #[error("the snapshot has no footer")]
    Footer,
    /// A record does not fit those before it.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// Writes the frame of a snapshot around what `fill` pushes, batch after batch, into `sink`.
fn write<E>(
    place: BatchPlace,
    header: Vec<QuorumRecord>,
    metadata_version: MetadataVersion,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    fill: impl FnOnce(&mut dyn FnMut(&MetadataRecord) -> Result<(), E>) -> Result<(), E>,
) -> Result<(), E> {
    sink(&quorum_batch(&header, place))?;
    let base_offset = place.base_offset + header.len() as i64;
    let mut writer = MetadataBatchWriter::new(
        metadata_version,
        BatchPlace {
            base_offset,
            ..place
        },
    );
    fill(&mut |record| {
        if let Some(batch) = writer.push(record) {
            sink(&batch)?;
        }
        if writer.is_full()
            && let Some(batch) = writer.take()
        {
            sink(&batch)?;
        }
        Ok(())
    })?;
    if let Some(batch) = writer.take() {
        sink(&batch)?;
    }
    let end = BatchPlace {
        base_offset: writer.next_offset(),
        ..place
    };
    sink(&quorum_batch(&[QuorumRecord::SnapshotFooter], end))
}

/// Writes the snapshot of `image` into `sink`, batch after batch.
///
/// # Errors
/// What `sink` fails with.
pub fn write_snapshot<E>(
    image: &MetadataImage,
    quorum: &SnapshotQuorum,
    now_ms: i64,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let provenance = image.provenance;
    let place = BatchPlace {
        base_offset: Offset::ZERO,
        leader_epoch: provenance.last_epoch.max(LeaderEpoch(0)),
        timestamp_ms: now_ms,
    };
    // The snapshot of nothing carries the time at which it is made.
    let last_contained_log_timestamp_ms = match provenance {
        Provenance::EMPTY => now_ms,
        _ => provenance.last_timestamp_ms,
    };
    let mut header = vec![QuorumRecord::SnapshotHeader {
        last_contained_log_timestamp_ms,
    }];
    if quorum.kraft_version > 0 {
        header.push(QuorumRecord::KRaftVersion(quorum.kraft_version));
        header.extend(quorum.voters.clone().map(QuorumRecord::VoterSet));
    }
    let version = image.metadata_version();
    write(place, header, version, sink, |push| image.records(push))
}

/// The bytes of a `bootstrap.checkpoint` with these records.
pub fn bootstrap_snapshot(records: &[MetadataRecord], now_ms: i64) -> Vec<u8> {
    let place = BatchPlace {
        base_offset: Offset::ZERO,
        leader_epoch: LeaderEpoch(0),
        timestamp_ms: now_ms,
    };
    let header = vec![QuorumRecord::SnapshotHeader {
        last_contained_log_timestamp_ms: 0,
    }];
    let mut bytes = Vec::new();
    let mut sink = |batch: &[u8]| {
        bytes.extend_from_slice(batch);
        Ok::<(), Infallible>(())
    };
    let Ok(()) = write(place, header, MetadataVersion::MINIMUM, &mut sink, |push| {
        records.iter().try_for_each(push)
    });
    bytes
}

/// Reads the frame of a snapshot and passes its records on.
fn read(
    bytes: &[u8],
    mut push: impl FnMut(MetadataRecord) -> Result<(), SnapshotError>,
) -> Result<Snapshot<()>, SnapshotError> {
    let mut snapshot = None;
    let mut is_complete = false;
    let mut batches = Batches::new(bytes);
    for batch in batches.by_ref() {
        if is_complete {
            return Err(SnapshotError::Footer);
        }
        let batch = batch?;
        if batch.is_control() {
            for record in read_quorum_records(&batch)? {
                is_complete |= record == QuorumRecord::SnapshotFooter;
                read_quorum_record(record, &mut snapshot)?;
            }
        } else if snapshot.is_none() {
            return Err(SnapshotError::Header);
        } else {
            read_metadata_records(&batch, |_, record| push(record))?;
        }
    }
    let is_whole = is_complete && batches.rest().is_empty();
    snapshot
        .ok_or(SnapshotError::Header)
        .and_then(|snapshot| is_whole.then_some(snapshot).ok_or(SnapshotError::Footer))
}

fn read_quorum_record(
    record: QuorumRecord,
    snapshot: &mut Option<Snapshot<()>>,
) -> Result<(), SnapshotError> {
    match (record, snapshot) {
        (
            QuorumRecord::SnapshotHeader {
                last_contained_log_timestamp_ms,
            },
            snapshot @ None,
        ) => {
            *snapshot = Some(Snapshot {
                last_contained_log_timestamp_ms,
                quorum: SnapshotQuorum::default(),
                content: (),
            });
        }
        (_, None) | (QuorumRecord::SnapshotHeader { .. }, Some(_)) => {
            return Err(SnapshotError::Header);
        }
        (QuorumRecord::KRaftVersion(level), Some(snapshot)) => {
            snapshot.quorum.kraft_version = level;
        }
        (QuorumRecord::VoterSet(voters), Some(snapshot)) => {
            snapshot.quorum.voters = Some(voters);
        }
        (QuorumRecord::SnapshotFooter | QuorumRecord::LeaderChange { .. }, Some(_)) => {}
    }
    Ok(())
}

/// Reads a snapshot of the log.
///
/// # Errors
/// A [`SnapshotError`] when it is damaged or incomplete, or when this build does not know all of
/// its records.
pub fn read_snapshot(
    bytes: &[u8],
    id: SnapshotId,
) -> Result<Snapshot<MetadataImage>, SnapshotError> {
    let mut image = MetadataImage::default();
    let frame = read(bytes, |record| Ok(image.replay(&record)?))?;
    if id.end_offset > Offset::ZERO {
        image.provenance = Provenance {
            last_offset: id.end_offset - 1,
            last_epoch: id.epoch,
            last_timestamp_ms: frame.last_contained_log_timestamp_ms,
        };
    }
    Ok(Snapshot {
        last_contained_log_timestamp_ms: frame.last_contained_log_timestamp_ms,
        quorum: frame.quorum,
        content: image,
    })
}

/// What a snapshot says before its records, from its first bytes.
///
/// # Errors
/// A [`SnapshotError`] when they do not hold a whole and valid header.
pub fn snapshot_header(first_bytes: &[u8]) -> Result<Snapshot<()>, SnapshotError> {
    let batch = Batches::new(first_bytes).next();
    let batch = batch.ok_or(SnapshotError::Header)??;
    let mut snapshot = None;
    if batch.is_control() {
        for record in read_quorum_records(&batch)? {
            read_quorum_record(record, &mut snapshot)?;
        }
    }
    snapshot.ok_or(SnapshotError::Header)
}

/// Checks that a snapshot is whole and not compressed, without its records of metadata: checksums, header and footer.
///
/// # Errors
/// A [`SnapshotError`] when it is damaged, incomplete or compressed.
pub fn check_snapshot(bytes: &[u8]) -> Result<(), SnapshotError> {
    snapshot_header(bytes)?;
    let mut batches = Batches::new(bytes);
    let mut is_complete = false;
    for batch in batches.by_ref() {
        let batch = batch?;
        let base_offset = batch.base_offset();
        if !batch.is_crc_valid() {
            return Err(BatchContentError::Checksum { base_offset }.into());
        }
        if is_complete {
            return Err(SnapshotError::Footer);
        }
        if is_compressed(&batch) {
            return Err(BatchContentError::Compressed { base_offset }.into());
        }
        is_complete = batch.is_control()
            && read_quorum_records(&batch)?.contains(&QuorumRecord::SnapshotFooter);
    }
    match is_complete && batches.rest().is_empty() {
        true => Ok(()),
        false => Err(SnapshotError::Footer),
    }
}

/// Reads the records of a `bootstrap.checkpoint`.
///
/// # Errors
/// A [`SnapshotError`] when it is damaged or incomplete, or when this build does not know all of
/// its records.
pub fn read_bootstrap_snapshot(bytes: &[u8]) -> Result<Vec<MetadataRecord>, SnapshotError> {
    let mut records = Vec::new();
    read(bytes, |record| {
        records.push(record);
        Ok(())
    })?;
    Ok(records)
}

/// Fuzz entry: any bytes; a snapshot that was read is written and read again unchanged.
pub fn fuzz_snapshot(bytes: &[u8]) {
    let id = SnapshotId {
        end_offset: Offset(10),
        epoch: LeaderEpoch(1),
    };
    if let Ok(snapshot) = read_snapshot(bytes, id) {
        let mut written = Vec::new();
        let mut sink = |batch: &[u8]| {
            written.extend_from_slice(batch);
            Ok::<(), Infallible>(())
        };
        let Ok(()) = write_snapshot(&snapshot.content, &snapshot.quorum, 0, &mut sink);
        assert!(read_snapshot(&written, id).is_ok());
    }
}
