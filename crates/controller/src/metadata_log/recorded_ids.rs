//! The ids of a node's log directories as its metadata log has them, for whoever has lost a
//! `meta.properties`. The files are read as they lie there, as far as they can be: nothing is
//! opened, cut or written.

use metadata::{
    BatchContentError, MetadataRecord, QuorumRecord, read_metadata_records, read_quorum_records,
};
use model::{BrokerId, Uuid};
use raft::METADATA_LOG_FOLDER;
use record::{Batches, RecordBatch};
use std::path::Path;
use storage::disk::Disk;

/// The most of a file that is looked at.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What the newest records say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RecordedIds {
    /// Of the log directories, in the order of their ids.
    pub(super) all: Vec<Uuid>,
    /// Of the one with the metadata log, if the voters of the quorum can change.
    pub(super) metadata: Option<Uuid>,
}

impl RecordedIds {
    /// Reads the metadata log of a log directory.
    pub(super) fn read<D: Disk>(disk: &D, directory: &Path, node_id: BrokerId) -> Self {
        let folder = directory.join(METADATA_LOG_FOLDER);
        let entries = disk.list(&folder).unwrap_or_default();
        let mut names: Vec<&str> = entries.iter().map(|one| &*one.name).collect();
        names.retain(|name| name.ends_with(".log") || name.ends_with(".checkpoint"));
        // Names begin with an offset: a snapshot comes before the log that goes on from it.
        names.sort_unstable();
        let mut ids = Self::default();
        for name in names {
            let bytes = disk.read(&folder.join(name), FILE_BYTES_MAX);
            ids.replay(&bytes.unwrap_or_default(), node_id);
        }
        ids
    }

    fn replay(&mut self, bytes: &[u8], node_id: BrokerId) {
        for batch in Batches::new(bytes).map_while(Result::ok) {
            let read = match batch.is_control() {
                true => self.replay_quorum_records(&batch, node_id),
                false => read_metadata_records(&batch, |_, record| {
                    if let MetadataRecord::RegisterBroker(broker) = record
                        && broker.id == node_id
                    {
                        self.all = broker.directories;
                    }
                    Ok(())
                }),
            };
            if read.is_err() {
                return;
            }
        }
    }

    fn replay_quorum_records(
        &mut self,
        batch: &RecordBatch<'_>,
        node_id: BrokerId,
    ) -> Result<(), BatchContentError> {
        for record in read_quorum_records(batch)? {
            if let QuorumRecord::VoterSet(voters) = record {
                let own = voters.iter().find(|voter| voter.id == node_id);
                self.metadata = own.map(|voter| voter.directory_id);
            }
        }
        Ok(())
    }
}
