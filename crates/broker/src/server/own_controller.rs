//! The controller of this node, before anybody lives by the metadata: its metadata log, and what a start asks it.

use super::directories::{Marks, take_marks};
use super::no_thread;
use super::publishers::{self, Publisher};
use super::registration::{registration, voter_endpoints};
use crate::api::broker::Broker;
use crate::controller::controller_thread::{ControllerParts, Unstarted};
use crate::controller::metadata_loader::{MetadataPublisher, Waiting};
use crate::logs::log_directories;
use crate::net::Listeners;
use crate::scheduling::clock::{now, now_ms, random_bytes, random_uuid};
use crate::settings::node::Node;
use crate::settings::start_error::StartError;
use config::ServerConfig;
use controller::metadata_log::{
    DirectoryOptions, LoadedMetadataLog, LocalVoter, LogDirectories, MetadataLog,
    MetadataLogOptions, find_log_directories, known_directories,
};
use controller::{Controller, ControllerContext, RegisterBroker, Request, UnfenceBroker};
use metadata::{MetadataImage, MetadataRecord, MetadataVersion, VoterEndpoint};
use model::BrokerEpoch;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::RealDisk;

/// The metadata log, and the log directories that the metadata are about.
pub(super) struct OpenedMetadata {
    pub(super) directories: LogDirectories,
    pub(super) log: MetadataLog,
    /// What a clean shutdown has left.
    pub(super) marks: Marks,
}

/// Makes `directories` those of this node, and opens the metadata log in one of them.
///
/// # Errors
/// When they are not this node's, or the metadata log is damaged or another quorum's.
pub(super) fn open_metadata(
    config: &ServerConfig,
    directories: &[PathBuf],
    metadata_directory: PathBuf,
    listeners: &Listeners,
) -> Result<OpenedMetadata, StartError> {
    let chosen_id = config.new_cluster_id.clone();
    let new_cluster_id = chosen_id.unwrap_or_else(|| random_uuid().to_string());
    let bootstrap_records = controller::bootstrap::bootstrap_records(MetadataVersion::LATEST);
    let endpoints = voter_endpoints(listeners);
    let has_fixed_voters = !config.controller.quorum.voters.is_empty();
    let mut options = DirectoryOptions {
        directories,
        metadata_directory: &metadata_directory,
        node_id: config.node_id,
        new_cluster_id: &new_cluster_id,
        new_directory_id: &mut random_uuid,
        new_quorum: (!has_fixed_voters).then(|| endpoints.clone()),
        bootstrap_records: &bootstrap_records,
        is_observer: false,
        now_ms: now_ms(),
    };
    let found = find_log_directories(&RealDisk, &mut options)?;
    let loaded = load_metadata_log(
        config,
        found.prepared(),
        metadata_directory.clone(),
        endpoints,
        bootstrap_records.clone(),
    )?;
    let known = known_directories(loaded.image(), config.node_id);
    let directories = found.prepare(&RealDisk, &mut options, known.as_ref())?;
    for (path, error) in &directories.failed {
        log_directories::log_unusable(path, error);
    }
    if let Some(chosen) = &config.new_cluster_id
        && directories.cluster_id != *chosen
    {
        tracing::warn!(
            "CLUSTER_ID is {chosen}, and the log directories belong to the cluster {}: they stay \
             as they are",
            directories.cluster_id
        );
    }
    // Before anything is appended: a crash from here on is no clean shutdown.
    let marks = take_marks(&directories, &metadata_directory)?;
    let opened = loaded.lead(now_ms())?;
    for event in &opened.events {
        tracing::warn!("{event}");
    }
    Ok(OpenedMetadata {
        directories,
        log: opened.log,
        marks,
    })
}

fn load_metadata_log(
    config: &ServerConfig,
    prepared: &LogDirectories,
    directory: PathBuf,
    endpoints: Vec<VoterEndpoint>,
    bootstrap_records: Vec<MetadataRecord>,
) -> Result<LoadedMetadataLog<RealDisk>, StartError> {
    let directory_id = prepared.id_of(&directory).unwrap_or_default();
    let voters = &config.controller.quorum.voters;
    let loaded = MetadataLog::load(
        RealDisk,
        MetadataLogOptions {
            directory,
            local: LocalVoter {
                id: config.node_id,
                directory_id,
                endpoints,
            },
            fixed_voters: (!voters.is_empty()).then(|| voters.iter().map(|one| one.id).collect()),
            bootstrap_records,
            min_insync_replicas: config.topics.min_insync_replicas,
            config: config.controller.metadata_log,
            now_ms: now_ms(),
        },
    )?;
    Ok(loaded)
}

/// The controller when all who live by the metadata have them, and nothing is decided yet.
pub(super) struct PublishedController {
    controller: Controller<Waiting>,
    config: ServerConfig,
    publishers: Vec<Box<dyn MetadataPublisher>>,
    thread: Unstarted,
}

impl PublishedController {
    /// Starts the threads of the controller and of the metadata loader.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(super) fn start(self, node: &Arc<Node>) -> Result<(), StartError> {
        let parts = ControllerParts {
            config: self.config,
            publishers: self.publishers,
            halt: publishers::halt(node),
        };
        let started = self.thread.start(self.controller, parts);
        started.map_err(no_thread)
    }
}

/// The controller at a start, before anybody lives by the metadata.
pub(super) struct StartingController {
    pub(super) controller: Controller<Waiting>,
    config: ServerConfig,
}

impl StartingController {
    /// The controller of a metadata log that this node leads.
    pub(super) fn new(log: MetadataLog, config: ServerConfig) -> Self {
        let controller = Controller::new(log, &ControllerContext::new(&config), now());
        Self { controller, config }
    }

    /// Lets the controller decide.
    ///
    /// # Errors
    /// When its log does not take what is decided.
    pub(super) fn decide<R: Request>(&mut self, request: R) -> Result<R::Response, StartError> {
        let context = ControllerContext::new(&self.config);
        let nobody = Waiting::nobody();
        let controller = &mut self.controller;
        let decided =
            controller.decide_at_start(request, nobody, &context, now(), &mut random_bytes);
        Ok(decided?)
    }

    fn image(&self) -> &Arc<MetadataImage> {
        self.controller.log.image()
    }

    /// Gives the publishers the metadata that the controller has; `thread` is to go on from there.
    ///
    /// # Errors
    /// When a publisher cannot do what a start asks for.
    pub(super) fn publish(
        self,
        publishers: Vec<Box<dyn Publisher>>,
        thread: Unstarted,
    ) -> Result<PublishedController, StartError> {
        let change = self.controller.change_at_start();
        for publisher in &publishers {
            publisher.publish_start(&change)?;
        }
        Ok(PublishedController {
            controller: self.controller,
            config: self.config,
            publishers: publishers.into_iter().map(|one| one as _).collect(),
            thread,
        })
    }

    /// Registers this run of the broker, and unfences it: whoever has the metadata log has caught up.
    ///
    /// # Errors
    /// When the controller refuses it.
    pub(super) fn register(
        &mut self,
        broker: &Broker,
        previous_broker_epoch: BrokerEpoch,
    ) -> Result<(), StartError> {
        let broker_id = broker.node.id;
        let broker_epoch = self.decide(RegisterBroker {
            registration: registration(broker, previous_broker_epoch),
            detects_clean_shutdown: true,
        })??;
        self.decide(UnfenceBroker {
            broker_id,
            broker_epoch,
        })??;
        let known = &broker.node.broker_epoch;
        known.store(broker_epoch.0, Ordering::Release);
        // What is in force is not that of the image yet.
        let config = broker.node.config_as_of(self.image());
        let config = config.unwrap_or_else(|_| self.config.clone());
        if let Some(change) = broker.logs.cordoning_change(self.image(), &config) {
            self.decide(change)??;
        }
        Ok(())
    }
}
