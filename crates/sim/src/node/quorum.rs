//! The start of a node's metadata, in the order of the broker's: whose the log directories are, the
//! metadata log in one of them, new directories made, marks of an orderly stop taken, and only then the
//! leadership of a new epoch.

use crate::halted::Halted;
use crate::planted::Planted;
use crate::random::Random;
use config::ServerConfig;
use controller::RegisterBroker;
use controller::bootstrap::bootstrap_records;
use controller::brokers::NewRegistration;
use controller::metadata_log::{
    DirectoryOptions, LocalVoter, LogDirectories, MetadataLog, MetadataLogOptions,
    find_log_directories, known_directories,
};
use metadata::{MetadataVersion, VoterEndpoint};
use model::{BrokerEpoch, BrokerId, Uuid};
use std::path::{Path, PathBuf};
use storage::clean_shutdown::{CleanShutdown, take_clean_shutdown};
use storage::sim::SimDisk;

/// What a start has before it looks at partitions.
#[derive(Debug)]
pub(super) struct OpenedMetadata {
    /// Led by this node.
    pub(super) log: MetadataLog<SimDisk>,
    pub(super) directories: LogDirectories,
    /// Of each log directory, the mark of an orderly stop.
    marks: Vec<(PathBuf, Option<CleanShutdown>)>,
}

impl OpenedMetadata {
    /// Opens what the log directories hold, or makes them; the first one has the metadata log.
    pub(super) fn open(
        disk: &SimDisk,
        paths: &[PathBuf],
        config: &ServerConfig,
        planted: Planted,
        random: &mut Random,
        now_ms: i64,
    ) -> Result<Self, Halted> {
        let metadata_directory = paths.first().ok_or("no log directory")?;
        let bootstrap_records = bootstrap_records(MetadataVersion::LATEST);
        let endpoints = vec![VoterEndpoint {
            listener: "CONTROLLER".to_owned(),
            host: "localhost".to_owned(),
            port: 9093,
        }];
        let voters = &config.controller.quorum.voters;
        let mut options = DirectoryOptions {
            directories: paths,
            metadata_directory,
            node_id: config.node_id,
            new_cluster_id: "AAAAAAAAAAAAAAAAAAAAAg",
            new_directory_id: &mut || Uuid::from_bytes(random.bytes()),
            new_quorum: voters.is_empty().then(|| endpoints.clone()),
            bootstrap_records: &bootstrap_records,
            is_observer: false,
            now_ms,
        };
        let found = find_log_directories(disk, &mut options)?;
        let directory_id = found.prepared().id_of(metadata_directory);
        let log_disk = match planted {
            Planted::KeepsMetadataInMemory => disk.without_syncs(),
            _ => disk.clone(),
        };
        let loaded = MetadataLog::load(
            log_disk,
            MetadataLogOptions {
                directory: metadata_directory.clone(),
                local: LocalVoter {
                    id: config.node_id,
                    directory_id: directory_id.unwrap_or_default(),
                    endpoints,
                },
                fixed_voters: (!voters.is_empty())
                    .then(|| voters.iter().map(|one| one.id).collect()),
                bootstrap_records: bootstrap_records.clone(),
                min_insync_replicas: config.topics.min_insync_replicas,
                config: config.controller.metadata_log,
                now_ms,
            },
        )?;
        let known = known_directories(loaded.image(), config.node_id);
        let directories = found.prepare(disk, &mut options, known.as_ref())?;
        let mut marks = Vec::new();
        for (path, _) in &directories.directories {
            marks.push((path.clone(), take_clean_shutdown(disk, path)?));
        }
        let opened = loaded.lead(now_ms)?;
        Ok(Self {
            log: opened.log,
            directories,
            marks,
        })
    }

    /// Whether a directory was left in order.
    pub(super) fn is_clean(&self, path: &Path) -> bool {
        let mut marks = self.marks.iter();
        marks.any(|(of, mark)| of == path && mark.is_some())
    }

    /// The broker's epoch when it stopped: only when every directory was left in order was it all.
    fn previous_broker_epoch(&self) -> BrokerEpoch {
        let epochs = self.marks.iter();
        let epochs = epochs.map(|(_, mark)| mark.and_then(|mark| mark.broker_epoch));
        epochs
            .map(|epoch| epoch.unwrap_or(BrokerEpoch::NONE))
            .min()
            .unwrap_or(BrokerEpoch::NONE)
    }

    /// What this run of the broker says of itself.
    pub(super) fn registration(&self, broker_id: BrokerId, incarnation_id: Uuid) -> RegisterBroker {
        let directories = self.directories.directories.iter();
        RegisterBroker {
            registration: NewRegistration {
                broker_id,
                incarnation_id,
                endpoints: Vec::new(),
                features: controller::broker_features(),
                rack: None,
                directories: directories.map(|(_, id)| *id).collect(),
                previous_broker_epoch: self.previous_broker_epoch(),
                is_migrating_zk_broker: false,
            },
            detects_clean_shutdown: true,
        }
    }
}
