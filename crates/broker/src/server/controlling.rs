//! The start of a controller without a broker: its metadata log, its listeners, and nothing else.

use super::directories::LockedDirectories;
use super::listening::{Bound, accept, new_sockets};
use super::own_controller::{
    OpenedMetadata, PublishedController, StartingController, open_metadata,
};
use super::{Server, blocking, no_thread, publishers};
use crate::api::ListenerService;
use crate::api::cluster_node::ClusterNode;
use crate::controller::controller_thread;
use crate::net::Listeners;
use crate::scheduling::clock;
use crate::scheduling::heavy_work::HeavyWork;
use crate::scheduling::metadata_disk::MetadataDisk;
use crate::settings::loggers::Loggers;
use crate::settings::node::Node;
use crate::settings::start_error::StartError;
use config::ServerConfig;
use std::sync::Arc;
use storage::directory_lock::DirectoryLock;
use tokio::runtime::Handle;

/// Starts a controller. Others can connect when this returns.
pub(super) async fn start(
    config: ServerConfig,
    bound: Bound,
    loggers: Loggers,
) -> Result<Server, StartError> {
    let Bound {
        listeners,
        sockets,
        reserve,
    } = bound;
    let opened = blocking(move || open(config, listeners, loggers)).await?;
    let node = opened.node;
    opened.controller.start(&node.node)?;
    let runtime = node.node.runtime.clone();
    let watching = node.metadata_disk.start(runtime, reserve.0.clone());
    watching.map_err(no_thread)?;
    let mut tasks = vec![tokio::spawn(clock::keep_pulse())];
    let accepting = accept(&node.sockets, sockets, |_| {
        ListenerService::Controller(node.clone())
    });
    tasks.extend(accepting?);
    Ok(Server {
        node,
        broker: None,
        tasks,
        lifecycle: None,
        _locks: opened.locks,
        _reserve: reserve,
    })
}

/// What is there once every file is open.
struct Opened {
    node: Arc<ClusterNode>,
    controller: PublishedController,
    locks: Vec<DirectoryLock>,
}

/// Everything that reads and writes files before the first request.
fn open(
    config: ServerConfig,
    listeners: Listeners,
    loggers: Loggers,
) -> Result<Opened, StartError> {
    let LockedDirectories {
        metadata_directory,
        usable,
        locks,
        metadata_lock,
        ..
    } = LockedDirectories::lock(&config)?;
    let metadata_disk = MetadataDisk::alone(&metadata_directory);
    let OpenedMetadata {
        directories, log, ..
    } = open_metadata(&config, &usable, metadata_directory, &listeners)?;
    let (link, controller_thread) = controller_thread::new();
    let runtime = Handle::current();
    let node = Arc::new(Node::new(config, directories.cluster_id, loggers, runtime));
    let heavy_work = Arc::new(HeavyWork::default());
    let sockets = new_sockets(node.clone(), None, heavy_work.clone(), listeners)?;
    let node = Arc::new(ClusterNode {
        sockets: Arc::new(sockets),
        heavy_work,
        controller: link,
        metadata_disk,
        forwarding: None,
        logs: None,
        foreign_nodes: Arc::default(),
        refused_registrations: Arc::default(),
        node,
    });
    let starting = StartingController::new(log, node.node.config.clone());
    let publishers = publishers::of_controller(&node);
    Ok(Opened {
        node,
        controller: starting.publish(publishers, controller_thread)?,
        locks: locks.into_iter().chain([metadata_lock]).flatten().collect(),
    })
}
