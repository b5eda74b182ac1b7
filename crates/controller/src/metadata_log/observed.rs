//! The metadata log where another node leads the quorum: what it has committed becomes the image here.
//!
//! ```text
//!   open             files ─> raft::Replica ─> newest snapshot ─> image
//!   poll_request     ─> the quorum ─> handle_answer ─> what is committed ─> image ─> next_change
//!   now and then     image ─> SnapshotJob ─> complete_snapshot ─> old segments go
//! ```
//!
//! Of the log at hand nobody knows how much is committed until the leader says so: the image is an old one, of what
//! an earlier run was told, until the log [has caught up](ObservedMetadataLog::has_caught_up). Nothing is to be
//! deleted because such an image does not have it.

use super::error::{FollowMetadataError, OpenMetadataLogError};
use super::loader::ImageLoader;
use super::snapshot_job::SnapshotJob;
use crate::metadata_change::MetadataChange;
use config::server::MetadataLogConfig;
use metadata::{MetadataDelta, MetadataImage, Voter};
use model::{BrokerId, MonotonicTime, Now, Offset};
use raft::{
    Answer, LeaderAndEpoch, QuorumMembership, Replica, ReplicaOptions, Request, Role, Timeouts,
    WrittenSnapshot,
};
use std::path::PathBuf;
use std::sync::Arc;
use storage::disk::{Disk, RealDisk};
use storage::{RecoveryEvent, StorageError};

/// What it takes to follow the quorum.
#[derive(Debug, Clone)]
pub struct ObservedLogOptions {
    /// The log directory that holds the metadata log.
    pub directory: PathBuf,
    /// This node.
    pub node_id: BrokerId,
    /// `controller.quorum.voters`, if it is set.
    pub fixed_voters: Option<Vec<BrokerId>>,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// Segments, snapshots and retention.
    pub config: MetadataLogConfig,
    /// The time.
    pub now: Now,
}

/// The metadata log of a node that leads nothing, its snapshots, and the image that they add up to.
#[derive(Debug)]
pub struct ObservedMetadataLog<D: Disk = RealDisk> {
    replica: Replica<D>,
    loader: ImageLoader,
    image: Arc<MetadataImage>,
}

impl<D: Disk> ObservedMetadataLog<D> {
    /// Reads the metadata log of a log directory, or makes it; gives what opening it has mended, too.
    ///
    /// # Errors
    /// When files are damaged beyond what a crash explains, or hold what this build does not know; when the
    /// disk fails.
    pub fn open(
        disk: D,
        options: ObservedLogOptions,
    ) -> Result<(Self, Vec<RecoveryEvent>), OpenMetadataLogError> {
        let opened = Replica::open(
            disk,
            ReplicaOptions {
                directory: options.directory,
                standing: QuorumMembership::Observer {
                    id: options.node_id,
                    timeouts: options.timeouts,
                },
                fixed_voters: options.fixed_voters,
                config: options.config,
                now: options.now,
            },
        )?;
        let mut log = Self {
            replica: opened.replica,
            loader: ImageLoader::default(),
            image: Arc::new(MetadataImage::default()),
        };
        log.load()?;
        Ok((log, opened.events))
    }

    /// What is committed, as far as that is known here.
    pub const fn image(&self) -> &Arc<MetadataImage> {
        &self.image
    }

    /// Whether the image has all that the leader had committed when it was last heard of.
    pub fn has_caught_up(&self) -> bool {
        self.replica.has_caught_up()
    }

    /// The level of `kraft.version`.
    pub fn kraft_version(&self) -> i16 {
        self.replica.voters().kraft_version
    }

    /// The voters that the log names; none where configuration fixes them.
    pub fn voters(&self) -> &[Voter] {
        self.replica.voters().voters.as_deref().unwrap_or_default()
    }

    /// The epoch of the quorum, and who leads it if that is known.
    pub fn leader(&self) -> LeaderAndEpoch {
        let leader_id = match self.replica.role() {
            Role::Observer { leader_id } => Some(leader_id),
            Role::Unattached | Role::Leader => None,
        };
        LeaderAndEpoch {
            leader_id,
            epoch: self.replica.epoch(),
        }
    }

    /// Whether a write or a sync has failed so that nobody knows what is on the disk: the quorum is followed
    /// no more.
    pub fn has_failed(&self) -> bool {
        self.replica.has_failed()
    }

    /// The next request for the quorum, if it is time for one.
    pub fn poll_request(&mut self, now: Now) -> Option<Request> {
        self.replica.poll_request(now)
    }

    /// When [`Self::poll_request`] may have something without an answer having come.
    pub fn next_deadline(&self) -> Option<MonotonicTime> {
        self.replica.next_deadline()
    }

    /// Takes the answer to the request of this number, and what is committed with it into the image; gives
    /// the change, if there is one.
    ///
    /// # Errors
    /// What the answer asks for that cannot be, or what the disk refuses: see
    /// [`FollowMetadataError::is_final`].
    pub fn handle_answer(
        &mut self,
        number: u64,
        answer: Answer<'_>,
        now: Now,
    ) -> Result<Option<MetadataChange>, FollowMetadataError> {
        let before = self.image.clone();
        self.replica.handle_answer(number, answer, now)?;
        self.load()?;
        let is_news = !Arc::ptr_eq(&before, &self.image);
        Ok(is_news.then(|| self.change_since(before)))
    }

    /// What has changed since another image.
    pub fn change_since(&self, before: Arc<MetadataImage>) -> MetadataChange {
        MetadataChange {
            delta: MetadataDelta::new(before, self.image.clone()),
            kraft_version: self.kraft_version(),
        }
    }

    /// Takes what is committed into the image.
    fn load(&mut self) -> Result<(), OpenMetadataLogError> {
        let mut is_news = false;
        while let Some(committed) = self.replica.next_committed()? {
            self.loader.replay(&committed)?;
            is_news = true;
        }
        if is_news && self.loader.image().provenance != self.image.provenance {
            let image = self.loader.image().clone();
            let features = crate::unsupported_features(&image);
            if !features.is_empty() {
                return Err(OpenMetadataLogError::Features { features });
            }
            self.image = Arc::new(image);
        }
        Ok(())
    }

    /// The next snapshot, if one is due; its outcome goes to [`Self::complete_snapshot`].
    pub fn snapshot_due(&mut self, now_ms: i64) -> Option<SnapshotJob<D>> {
        let is_empty = self.image.provenance.last_offset < Offset::ZERO;
        if is_empty || !self.replica.is_snapshot_due(now_ms) {
            return None;
        }
        SnapshotJob::begin(&mut self.replica, &self.image, now_ms)
    }

    /// Takes note of a snapshot, and removes what retention no longer keeps.
    ///
    /// # Errors
    /// The failure of the snapshot itself, which is due again a minute later, or of the removals. The log
    /// goes on.
    pub fn complete_snapshot(
        &mut self,
        written: Result<WrittenSnapshot, StorageError>,
        now_ms: i64,
    ) -> Result<(), StorageError> {
        self.replica.complete_snapshot(written, now_ms)
    }

    /// Closes the files in order. Nothing is followed any more.
    ///
    /// # Errors
    /// When the disk fails, or a torn tail cannot be cut.
    pub fn close(&mut self, now_ms: i64) -> Result<raft::Closed, super::AppendMetadataError> {
        Ok(self.replica.close(now_ms)?)
    }
}

#[cfg(test)]
mod tests;
