mod conversations;
mod crashes;
mod downloads;
mod faults;
mod following;
mod losses;
mod roles;
mod script;
mod serving;
mod snapshots;

use crate::*;
use config::server::MetadataLogConfig;
use metadata::{BatchPlace, QuorumRecord, SnapshotId, VoterEndpoint, quorum_batch};
use model::{BrokerId, LeaderEpoch, MonotonicTime, Now, Offset, Uuid};
use record::{BatchBuilder, BatchHeader, Batches, Decompressor, RecordBatch};
use std::path::{Path, PathBuf};
use storage::disk::{Disk, DiskFile, OpenMode};
use storage::sim::{Crash, SimDisk};

const NODE_ID: BrokerId = BrokerId(1);
const LOG: &str = "/a/__cluster_metadata-0/00000000000000000000.log";

pub(crate) fn config() -> MetadataLogConfig {
    MetadataLogConfig {
        max_record_bytes_between_snapshots: 20 << 20,
        max_snapshot_interval_ms: Some(3_600_000),
        segment_bytes: 1 << 30,
        segment_ms: i64::MAX,
        retention_bytes: 100 << 20,
        retention_ms: i64::MAX,
        max_batch_size_bytes: 8 << 20,
        delete_delay_ms: 0,
    }
}

fn voter() -> QuorumMembership {
    QuorumMembership::Voter(LocalVoter {
        id: NODE_ID,
        directory_id: Uuid::from_u128(0xd0_0001),
        endpoints: vec![VoterEndpoint {
            listener: "CONTROLLER".to_owned(),
            host: "localhost".to_owned(),
            port: 9093,
        }],
    })
}

fn observer() -> QuorumMembership {
    QuorumMembership::Observer {
        id: NODE_ID,
        timeouts: Timeouts::default(),
    }
}

fn options(standing: QuorumMembership) -> ReplicaOptions {
    ReplicaOptions {
        directory: PathBuf::from("/a"),
        standing,
        fixed_voters: Some(vec![NODE_ID]),
        config: config(),
        now: Now::at_ms(1_000),
    }
}

fn new_disk() -> SimDisk {
    let disk = SimDisk::default();
    disk.create_directory(Path::new("/a")).expect("new");
    disk.sync_directory(Path::new("/")).expect("there");
    disk
}

fn lead_with(
    disk: &SimDisk,
    options: ReplicaOptions,
) -> Result<(Replica<SimDisk>, State), OpenError> {
    let mut replica = Replica::open(disk.clone(), options)?.replica;
    let mut state = State::default();
    state.apply(&mut replica);
    replica.lead(1_000)?;
    Ok((replica, state))
}

/// Opens `/a` and leads.
fn lead(disk: &SimDisk) -> Result<(Replica<SimDisk>, State), OpenError> {
    lead_with(disk, options(voter()))
}

/// What a batch of values is.
fn batch(place: BatchPlace, values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader {
        base_offset: place.base_offset,
        partition_leader_epoch: place.leader_epoch,
        ..BatchHeader::default()
    });
    for value in values {
        builder.append(place.timestamp_ms, None, Some(value.as_bytes()), &[]);
    }
    builder.into_uncompressed()
}

/// Takes values without a flush.
fn stage(replica: &mut Replica<SimDisk>, values: &[&str]) -> Result<Offset, AppendError> {
    let batch = batch(replica.next_place(2_000), values);
    replica.append(vec![batch], 2_000)
}

fn append(replica: &mut Replica<SimDisk>, values: &[&str]) -> Result<Offset, AppendError> {
    stage(replica, values)?;
    replica.flush(2_000)
}

/// The bytes of a snapshot of these values.
fn snapshot_bytes(id: SnapshotId, values: &[&str]) -> Vec<u8> {
    let place = |base_offset| BatchPlace {
        base_offset,
        leader_epoch: id.epoch,
        timestamp_ms: 2_000,
    };
    let header = QuorumRecord::SnapshotHeader {
        last_contained_log_timestamp_ms: 2_000,
    };
    let mut bytes = quorum_batch(&[header], place(Offset(0)));
    if !values.is_empty() {
        bytes.extend(batch(place(Offset(1)), values));
    }
    let footer = place(Offset(1 + values.len() as i64));
    bytes.extend(quorum_batch(&[QuorumRecord::SnapshotFooter], footer));
    bytes
}

fn values_of(bytes: &[u8], start_offset: Offset) -> Vec<String> {
    let mut values = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch.expect("whole");
        assert!(batch.is_crc_valid());
        if batch.is_control() {
            continue;
        }
        let mut scratch = Vec::new();
        let records = batch.records(&mut Decompressor::default(), &mut scratch, 1 << 20);
        for record in records.expect("whole") {
            let record = record.expect("whole");
            if record.offset >= start_offset {
                let value = record.value.expect("a value");
                values.push(String::from_utf8(value.to_vec()).expect("text"));
            }
        }
    }
    values
}

/// What whoever applies the log has: all values in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    values: Vec<String>,
    end_offset: Offset,
    /// The epoch of the last batch.
    epoch: LeaderEpoch,
}

impl State {
    /// Takes what is committed; returns what it was.
    fn apply(&mut self, replica: &mut Replica<SimDisk>) -> Vec<String> {
        let mut seen = Vec::new();
        while let Some(committed) = replica.next_committed().expect("the disk works") {
            match committed {
                Committed::Snapshot { id, bytes } => {
                    self.values = values_of(&bytes, Offset(0));
                    assert!(id.end_offset >= self.end_offset);
                    (self.end_offset, self.epoch) = (id.end_offset, id.epoch);
                    seen.push(format!("snapshot {} {:?}", id.end_offset, self.values));
                }
                Committed::Batches(batches) => {
                    assert_eq!(batches.start_offset, self.end_offset, "nothing is left out");
                    let values = values_of(&batches.bytes, batches.start_offset);
                    self.end_offset = batches.end_offset;
                    let last = Batches::new(&batches.bytes).last().expect("some");
                    self.epoch = last.expect("whole").partition_leader_epoch();
                    seen.push(format!("to {} {values:?}", batches.end_offset));
                    self.values.extend(values);
                }
            }
        }
        assert_eq!(self.end_offset, replica.high_watermark());
        seen
    }

    fn id(&self) -> SnapshotId {
        SnapshotId {
            end_offset: self.end_offset,
            epoch: self.epoch,
        }
    }

    /// Writes what a snapshot is to hold.
    fn write(
        &self,
        draft: &SnapshotDraft<SimDisk>,
    ) -> Result<WrittenSnapshot, storage::StorageError> {
        draft.write(2_000, |sink| sink(&self.write_bytes(draft.id())))
    }

    /// What a snapshot is to hold.
    fn write_bytes(&self, id: SnapshotId) -> Vec<u8> {
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        snapshot_bytes(id, &values)
    }
}

fn files(disk: &SimDisk) -> Vec<String> {
    let entries = disk.list(Path::new("/a/__cluster_metadata-0"));
    let mut names: Vec<_> = entries
        .expect("there")
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.sort();
    names
}
