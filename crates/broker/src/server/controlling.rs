//! The start of a controller without a broker: its metadata log, its listeners, and nothing else.

use super::directories::LockedDirectories;
use super::listening::{Bound, accept, new_sockets};
use super::own_controller::{OpenedMetadata, StartingController, open_metadata};
use super::{Server, blocking, no_thread, publishers};
use crate::api::ListenerService;
use crate::api::cluster_node::ClusterNode;
use crate::controller::controller_thread::{self, ControllerParts, Unstarted};
use crate::controller::metadata_loader::{MetadataPublisher, Waiting};
use crate::net::Listeners;
use crate::scheduling::clock;
use crate::scheduling::heavy_work::HeavyWork;
use crate::settings::loggers::Loggers;
use crate::settings::node::Node;
use crate::settings::start_error::StartError;
use config::ServerConfig;
use controller::Controller;
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
    let parts = ControllerParts {
        config: node.node.config.clone(),
        publishers: opened.publishers,
        halt: publishers::halt(&node.node),
    };
    let started = opened.controller_thread.start(opened.controller, parts);
    started.map_err(no_thread)?;
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
    controller: Controller<Waiting>,
    controller_thread: Unstarted,
    /// They have the metadata that the controller has.
    publishers: Vec<Box<dyn MetadataPublisher>>,
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
        forwarding: None,
        logs: None,
        strangers: Arc::default(),
        refused_registrations: Arc::default(),
        node,
    });
    let starting = StartingController::new(log, node.node.config.clone());
    let publishers = publishers::of_controller(&node);
    let change = starting.controller.change_at_start();
    for publisher in &publishers {
        publisher.publish_start(&change)?;
    }
    Ok(Opened {
        node,
        controller: starting.controller,
        controller_thread,
        publishers: publishers.into_iter().map(|one| one as _).collect(),
        locks: locks.into_iter().chain([metadata_lock]).flatten().collect(),
    })
}
