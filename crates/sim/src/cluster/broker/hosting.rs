//! The partitions of a broker: opened when its metadata have caught up, made and removed as its roles change.

use super::{BrokerNode, LOGS, SimPartition};
use crate::cluster::judge::Log as LogId;
use crate::cluster::message::Outbox;
use crate::cluster::planted::PlantedInCluster;
use controller::metadata_log::METADATA_LOG_FOLDER;
use metadata::{MetadataDelta, MetadataImage};
use model::{BrokerId, Now, Offset, TopicPartition};
use replication::{Partition, PartitionKey, Role, RoleChange, role_changes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::boot_id::note_boot_id;
use storage::checkpoint::{
    LOG_START_OFFSET_CHECKPOINT, OffsetCheckpoint, RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT, read_checkpoint, write_checkpoint,
};
use storage::disk::Disk;
use storage::partition_metadata::{read_partition_metadata, sync_partition_metadata};
use storage::{CleanupPolicy, Log, LogConfig, LogOpening};

/// Small, so that logs have several.
const SEGMENT_BYTES: u32 = 3_000;

fn log_config(min_insync_replicas: i32) -> Arc<LogConfig> {
    Arc::new(LogConfig {
        segment_bytes: SEGMENT_BYTES,
        index_interval_bytes: 200,
        file_delete_delay_ms: 500,
        cleanup_policy: CleanupPolicy {
            delete: true,
            compact: false,
        },
        min_insync_replicas: min_insync_replicas.max(1).unsigned_abs(),
        ..LogConfig::default()
    })
}

/// What a start has found of the logs.
#[derive(Debug, Default)]
pub(super) struct Found {
    recovery_points: OffsetCheckpoint,
    log_start_offsets: OffsetCheckpoint,
    high_watermarks: OffsetCheckpoint,
}

impl BrokerNode {
    fn path_of(name: &TopicPartition) -> PathBuf {
        Path::new(LOGS).join(name.to_string())
    }

    fn checkpoint(&self, name: &str) -> OffsetCheckpoint {
        read_checkpoint(&self.disk, &Path::new(LOGS).join(name)).unwrap_or_default()
    }

    /// Opens the logs, and takes the roles that the metadata give.
    pub(super) fn begin_hosting(&mut self, now: Now, out: &mut Outbox) -> Result<(), String> {
        self.is_hosting = true;
        let image = self.metadata.image().clone();
        self.delete_strays(&image)?;
        // Before any of them is written for the logs that are open by then.
        self.found = Found {
            recovery_points: self.checkpoint(RECOVERY_POINT_CHECKPOINT),
            log_start_offsets: self.checkpoint(LOG_START_OFFSET_CHECKPOINT),
            high_watermarks: self.checkpoint(REPLICATION_OFFSET_CHECKPOINT),
        };
        let delta = MetadataDelta::new(Arc::new(MetadataImage::default()), image.clone());
        self.apply(&delta, now)?;
        self.write_checkpoints()?;
        note_boot_id(&self.disk, Path::new(LOGS), Some(&self.disk.boot_id()))
            .map_err(|error| error.to_string())?;
        self.image = image;
        self.coordinators_follow(&delta, now, out)?;
        self.life.ready(now.monotonic);
        Ok(())
    }

    /// Removes the logs that the metadata of `image` do not have here.
    pub(super) fn delete_strays(&mut self, image: &MetadataImage) -> Result<(), String> {
        let entries = self
            .disk
            .list(Path::new(LOGS))
            .map_err(|error| error.to_string())?;
        for entry in entries {
            let directory = storage::log_directory::PartitionDirectory::parse(&entry.name);
            let Some(directory) = directory.filter(|_| entry.name != METADATA_LOG_FOLDER) else {
                continue;
            };
            let name = &directory.topic_partition;
            let path = Path::new(LOGS).join(&entry.name);
            let topic = image.topics.by_name(&name.topic);
            let partition = topic.and_then(|topic| topic.partition(name.partition));
            let is_here = partition.is_some_and(|one| one.replicas.contains(&self.id));
            let id = read_partition_metadata(&self.disk, &path).ok().flatten();
            let is_other = id.is_some() && id != topic.map(|topic| topic.id);
            if !is_here || is_other {
                let removed = self.disk.remove_directory(&path);
                removed.map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Takes the roles that have changed.
    pub(super) fn apply(&mut self, delta: &MetadataDelta, now: Now) -> Result<(), String> {
        let image = &delta.after;
        self.host.leaders().set_cluster(image.cluster.clone());
        let changes = role_changes(image, Some(delta), self.id, &self.roles);
        for mut change in changes {
            if self.planted == PlantedInCluster::LeadsOn {
                lead_on(&mut change, image, self.id);
            }
            self.take_role(image, &change, now)?;
        }
        self.drop_idle_fetchers();
        Ok(())
    }

    fn take_role(
        &mut self,
        image: &MetadataImage,
        change: &RoleChange,
        now: Now,
    ) -> Result<(), String> {
        let key = change.key;
        if change.before.is_leader() && !change.after.is_leader() {
            self.left(key);
        }
        if change.after == Role::None {
            self.roles.remove(&key);
            self.unfollow(key);
            return self.remove(key, now);
        }
        self.roles.insert(key, change.after.clone());
        let is_following = |role: &Role| matches!(role, Role::Follower { .. });
        if change.before.leader_epoch() != change.after.leader_epoch()
            || !is_following(&change.after)
        {
            let is_kept = self.planted == PlantedInCluster::FollowsLeadersNotEpochs
                && is_following(&change.before)
                && is_following(&change.after)
                && change.before.leader(self.id) == change.after.leader(self.id);
            if is_kept {
                if let Some(partition) = self.partitions.get(&key) {
                    partition
                        .take_role(change.after.clone())
                        .map_err(|error| error.to_string())?;
                }
                return Ok(());
            }
            self.unfollow(key);
        }
        let partition = match self.partitions.get(&key) {
            Some(partition) => {
                let is_new_follower = is_following(&change.after) && change.before.is_leader();
                let partition = partition.clone();
                partition
                    .take_role(change.after.clone())
                    .map_err(|error| error.to_string())?;
                if is_new_follower && self.planted == PlantedInCluster::ForgetsProducers {
                    forget_producers(&partition);
                }
                partition
            }
            None => self.host_partition(image, key, &change.after, now)?,
        };
        match change.after {
            Role::Follower {
                leader,
                leader_epoch,
            } => self.follow(&partition, leader, leader_epoch, now)?,
            Role::Leader { leader_epoch, .. }
                if change.before.leader_epoch() != Some(leader_epoch)
                    || !change.before.is_leader() =>
            {
                self.led(&partition, leader_epoch, now);
            }
            _ => {}
        }
        Ok(())
    }

    fn host_partition(
        &mut self,
        image: &MetadataImage,
        key: PartitionKey,
        role: &Role,
        now: Now,
    ) -> Result<Arc<SimPartition>, String> {
        let topic = image.topics.by_id(key.0).ok_or("a role without a topic")?;
        let name = TopicPartition::new(&*topic.name, key.1);
        let config = log_config(self.config.topics.min_insync_replicas);
        let path = Self::path_of(&name);
        let mut opening = LogOpening {
            topic_id: Some(topic.id),
            config,
            open_files: self.host.open_files().clone(),
            now_ms: now.wall_ms,
            ..LogOpening::new(self.disk.clone(), path.clone(), name.clone())
        };
        let mut high_watermark = Offset::ZERO;
        let log = match self.disk.list(&path) {
            Ok(_) => {
                let of = |all: &OffsetCheckpoint| all.get(&name).copied().unwrap_or(Offset::ZERO);
                opening.recovery_point = of(&self.found.recovery_points);
                if self.planted != PlantedInCluster::ForgetsLogStarts {
                    opening.log_start_offset = of(&self.found.log_start_offsets);
                }
                high_watermark = of(&self.found.high_watermarks);
                opening.is_clean = self.is_clean;
                opening.has_machine_stopped =
                    self.has_machine_stopped && self.planted != PlantedInCluster::OverlooksGaps;
                Log::open(opening).map_err(|error| error.to_string())?.log
            }
            Err(_) => {
                let log = Log::create(opening).map_err(|error| error.to_string())?;
                sync_partition_metadata(&self.disk, &path).map_err(|error| error.to_string())?;
                log
            }
        };
        if self.planted == PlantedInCluster::TrustsItsLog {
            high_watermark = log.log_end_offset();
        }
        let directory: Arc<str> = Arc::from(LOGS);
        let place = (role.clone(), high_watermark);
        let partition = Partition::host(&self.host, log, topic.id, directory, place);
        let partition = Arc::new(partition.map_err(|error| error.to_string())?);
        if self.planted == PlantedInCluster::ForgetsProducers {
            forget_producers(&partition);
        }
        self.partitions.insert(key, partition.clone());
        Ok(partition)
    }

    fn remove(&mut self, key: PartitionKey, now: Now) -> Result<(), String> {
        let Some(partition) = self.partitions.remove(&key) else {
            return Ok(());
        };
        let path = Self::path_of(partition.topic_partition());
        partition
            .take_role(Role::None)
            .map_err(|error| error.to_string())?;
        partition
            .close(now.wall_ms, true)
            .map_err(|error| error.to_string())?;
        self.write_checkpoints()?;
        self.disk
            .remove_directory(&path)
            .map_err(|error| error.to_string())
    }

    /// What no request asks for.
    pub(super) fn keep_up(&mut self, now: Now) -> Result<(), String> {
        if !self.is_hosting {
            return Ok(());
        }
        for partition in self.partitions.values() {
            let _ = partition.with_log(|log| log.remove_deleted_files(now.wall_ms));
        }
        self.write_checkpoints()
    }

    /// Writes what the logs say now.
    pub(super) fn write_checkpoints(&self) -> Result<(), String> {
        let mut checkpoints = [
            (RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint::new()),
            (LOG_START_OFFSET_CHECKPOINT, OffsetCheckpoint::new()),
            (REPLICATION_OFFSET_CHECKPOINT, OffsetCheckpoint::new()),
        ];
        for partition in self.partitions.values() {
            let Some((recovery_point, offsets)) = partition.checkpoint_in(LOGS) else {
                continue;
            };
            let name = partition.topic_partition().clone();
            if offsets.log_start_offset > Offset::ZERO {
                let start = offsets.log_start_offset;
                checkpoints[1].1.insert(name.clone(), start);
            }
            checkpoints[2]
                .1
                .insert(name.clone(), offsets.high_watermark);
            checkpoints[0].1.insert(name, recovery_point);
        }
        for (name, offsets) in &checkpoints {
            write_checkpoint(&self.disk, &Path::new(LOGS).join(name), offsets)
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Where its logs start, as the directory says.
    pub(in crate::cluster) fn noted_log_starts(&self) -> BTreeMap<LogId, i64> {
        let noted = self.checkpoint(LOG_START_OFFSET_CHECKPOINT);
        let noted_of = |name: &TopicPartition| noted.get(name).copied().unwrap_or_default();
        let partitions = self.partitions.iter();
        partitions
            .map(|(log, partition)| (*log, noted_of(partition.topic_partition()).0))
            .collect()
    }

    /// Asks for followers to be out of sync that are too late.
    pub(super) fn check_followers(&self, now: Now) {
        for key in self.host.leaders().followed() {
            if let Some(partition) = self.partitions.get(&key) {
                partition.check_followers(now.monotonic, std::time::Duration::from_secs(1));
            }
        }
    }
}

/// The mistake of taking the epoch of a change, and not who leads in it.
fn lead_on(change: &mut RoleChange, image: &MetadataImage, id: BrokerId) {
    let topic = image.topics.by_id(change.key.0);
    let partition = topic.and_then(|topic| topic.partition(change.key.1));
    let is_replaced = change.before.is_leader() && !change.after.is_leader();
    if let Some(partition) = partition.filter(|one| is_replaced && one.has_leader()) {
        let mut partition = (**partition).clone();
        partition.leader = id;
        change.after = Role::of(&partition, id);
    }
}

fn forget_producers(partition: &SimPartition) {
    let _ = partition.with_log(|log| log.producer_state_mut().expire(i64::MAX, 0));
}
