//! A snapshot of the image, to be written apart from the log.

use metadata::{MetadataImage, SnapshotId, write_snapshot};
use raft::{Replica, SnapshotDraft, WrittenSnapshot};
use std::sync::Arc;
use storage::StorageError;
use storage::disk::Disk;

/// A snapshot to be written: that takes as long as the cluster is big.
#[derive(Debug, Clone)]
pub struct SnapshotJob<D> {
    draft: SnapshotDraft<D>,
    image: Arc<MetadataImage>,
}

impl<D: Disk> SnapshotJob<D> {
    /// That of `image`; `None` while another one is written, and when there is one already.
    pub(super) fn begin(
        replica: &mut Replica<D>,
        image: &Arc<MetadataImage>,
        now_ms: i64,
    ) -> Option<Self> {
        let id = SnapshotId {
            end_offset: image.provenance.last_offset + 1,
            epoch: image.provenance.last_epoch,
        };
        let draft = replica.begin_snapshot(id, now_ms)?;
        let image = image.clone();
        Some(Self { draft, image })
    }

    /// The snapshot that will be written.
    pub const fn id(&self) -> SnapshotId {
        self.draft.id()
    }

    /// Writes the snapshot; it is durable on return.
    ///
    /// # Errors
    /// When the disk fails; nothing counts as written then.
    pub fn run(&self, now_ms: i64) -> Result<WrittenSnapshot, StorageError> {
        let timestamp_ms = self.image.provenance.last_timestamp_ms;
        self.draft.write(timestamp_ms, |sink| {
            write_snapshot(&self.image, self.draft.quorum(), now_ms, sink)
        })
    }
}
