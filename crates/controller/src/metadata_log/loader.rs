//! What the quorum has committed, replayed into an image: at load, and wherever another node leads.

use super::error::OpenMetadataLogError;
use metadata::{
    MetadataImage, MetadataLoader, Provenance, read_metadata_records, read_quorum_records,
    read_snapshot,
};
use model::Offset;
use raft::Committed;
use record::{Batches, RecordBatch};

/// Follows the quorum's log and keeps the image of what is in effect.
#[derive(Debug, Default)]
pub(super) struct ImageLoader {
    loader: MetadataLoader,
}

impl ImageLoader {
    /// What is in effect.
    pub(super) const fn image(&self) -> &MetadataImage {
        self.loader.image()
    }

    /// Whether a metadata transaction has begun and neither ended nor been aborted.
    pub(super) const fn is_in_transaction(&self) -> bool {
        self.loader.is_in_transaction()
    }

    /// Replays what was committed next.
    ///
    /// # Errors
    /// When it is damaged, or holds what this build does not know; the loader must not go on then.
    pub(super) fn replay(&mut self, committed: &Committed) -> Result<(), OpenMetadataLogError> {
        match committed {
            Committed::Snapshot { id, bytes } => {
                let of_snapshot = |error| OpenMetadataLogError::Snapshot { id: *id, error };
                let snapshot = read_snapshot(bytes, *id).map_err(of_snapshot)?;
                self.loader = MetadataLoader::new(snapshot.content);
            }
            Committed::Batches(batches) => {
                for batch in Batches::new(&batches.bytes) {
                    let batch = batch.map_err(|error| raft::ReadError::Log(error.to_string()))?;
                    self.replay_batch(&batch, batches.start_offset)?;
                }
            }
        }
        Ok(())
    }

    /// Replays what a batch holds at `start_offset` and beyond.
    fn replay_batch(
        &mut self,
        batch: &RecordBatch<'_>,
        start_offset: Offset,
    ) -> Result<(), OpenMetadataLogError> {
        let at = Provenance {
            last_offset: batch.last_offset(),
            last_epoch: batch.partition_leader_epoch(),
            last_timestamp_ms: batch.max_timestamp(),
        };
        if batch.is_control() {
            read_quorum_records(batch)?;
            self.loader.advance(at);
            return Ok(());
        }
        read_metadata_records(batch, |offset, record| {
            if offset < start_offset {
                return Ok(());
            }
            let replayed = self.loader.replay(&record, at);
            replayed.map_err(|error| OpenMetadataLogError::Replay { offset, error })
        })
    }
}
