//! Where a node listens: ports are taken before any file is touched, and nobody can connect before all is there.

use super::Tasks;
use crate::api::ListenerService;
use crate::logs::Logs;
use crate::net::{
    self, AnswerMemory, BoundListener, BoundSocket, ByteBudget, ConnectionLimits, Listeners,
    RequestMemory, SocketSettings, Sockets, connection_limits,
};
use crate::scheduling::heavy_work::HeavyWork;
use crate::scheduling::log_rate_limit::LogRateLimit;
use crate::scheduling::reserve::ReserveEnd;
use crate::settings::node::Node;
use crate::settings::start_error::StartError;
use config::ServerConfig;
use config::listeners::{Endpoint, ListenerName};
use std::sync::Arc;

/// What is there before any file is touched.
pub(super) struct Bound {
    pub(super) listeners: Listeners,
    pub(super) sockets: Vec<BoundSocket>,
    pub(super) reserve: ReserveEnd,
}

/// Both buffers are the kernel's to fit to each connection unless a size was given: Kafka's default
/// of 100 KiB lets the sender of a fetch sleep and wake once for every 60 KiB.
fn socket_settings(config: &ServerConfig) -> SocketSettings {
    let network = &config.network;
    let given = |key: &str, bytes: Option<i32>| {
        let bytes = bytes.filter(|_| config.values.contains_key(key));
        bytes.and_then(|bytes| u32::try_from(bytes).ok())
    };
    let (send, receive) = (
        network.socket_send_buffer_bytes,
        network.socket_receive_buffer_bytes,
    );
    SocketSettings {
        backlog: network.socket_listen_backlog_size.max(1).unsigned_abs(),
        send_buffer_bytes: given("socket.send.buffer.bytes", send),
        receive_buffer_bytes: given("socket.receive.buffer.bytes", receive),
        loopback_pacing: network.loopback_pacing,
    }
}

/// Takes the ports, so that one that is in use is known before any file is touched. Nobody can
/// connect yet.
pub(super) async fn bind(
    config: &ServerConfig,
) -> Result<(Listeners, Vec<BoundSocket>), StartError> {
    let mut bound = Listeners::new();
    let mut sockets = Vec::new();
    let settings = socket_settings(config);
    for endpoint in &config.listeners.bound {
        let is_controller = config.listeners.is_controller(&endpoint.listener);
        let advertised = advertised(config, &endpoint.listener);
        let listener = BoundListener::bind(
            endpoint.listener.as_str(),
            &endpoint.host,
            endpoint.port,
            settings,
            advertised.map(|one| (one.host.clone(), one.port)),
            is_controller,
        );
        let (listener, socket) = listener.await.map_err(|source| StartError::Bind {
            listener: endpoint.listener.to_string(),
            address: format!("{}:{}", endpoint.host, endpoint.port),
            source,
        })?;
        bound.push(Arc::new(listener));
        sockets.push(socket);
    }
    Ok((bound, sockets))
}

/// What `advertised.listeners` say of a listener: nothing if they name no host for it.
fn advertised<'a>(config: &'a ServerConfig, name: &ListenerName) -> Option<&'a Endpoint> {
    let listeners = &config.listeners;
    let to_clients = listeners.advertised_to_clients.iter();
    let mut told = to_clients.chain(&listeners.advertised_by_controller);
    let found = told.find(|one| one.listener == *name)?;
    let is_given = config.values.contains_key("advertised.listeners");
    Some(found).filter(|one| is_given && !one.host.is_empty())
}

/// The sockets of a node that listens there.
///
/// # Errors
/// When a limit of connections is for a host that is unknown.
pub(super) fn new_sockets(
    node: Arc<Node>,
    logs: Option<Arc<Logs>>,
    heavy_work: Arc<HeavyWork>,
    listeners: Listeners,
) -> Result<Sockets, StartError> {
    let network = &node.config.network;
    let (limits, unknown) = connection_limits(&node.config);
    if let Some(error) = unknown.into_iter().next() {
        return Err(error);
    }
    let request_memory_bytes = network
        .queued_max_request_bytes
        .and_then(|bytes| u64::try_from(bytes).ok());
    let controller_memory = controller_memory(network.socket_request_max_bytes);
    Ok(Sockets {
        node,
        logs,
        heavy_work,
        listeners,
        client_limits: ConnectionLimits::new(limits.clone()),
        controller_limits: ConnectionLimits::new(limits),
        request_memory: RequestMemory::new(request_memory_bytes),
        answer_memory: AnswerMemory::new(request_memory_bytes),
        controller_memory,
        unaccepted: LogRateLimit::default(),
    })
}

/// The memory of requests that are before the controller: as much as one may be long.
fn controller_memory(socket_request_max_bytes: i32) -> Arc<ByteBudget> {
    ByteBudget::new(
        "requests that are before the controller use all of their memory, and others wait",
        Some(socket_request_max_bytes.max(1).unsigned_abs().into()),
    )
}

/// Lets clients connect.
///
/// # Errors
/// When a port is taken meanwhile.
pub(super) fn accept(
    sockets: &Arc<Sockets>,
    bound: Vec<BoundSocket>,
    service_of: impl Fn(&BoundListener) -> ListenerService,
) -> Result<Tasks, StartError> {
    let mut tasks = Vec::new();
    for (listener, socket) in sockets.listeners.iter().zip(bound) {
        let socket = socket.listen().map_err(|source| {
            sockets.node.stop.send_replace(true);
            StartError::Bind {
                listener: listener.name.clone(),
                address: listener.address.to_string(),
                source,
            }
        })?;
        let (parts, listener) = (
            (sockets.clone(), Arc::new(service_of(listener))),
            listener.clone(),
        );
        let serve = {
            let listener = listener.clone();
            move |stream, peer, slot| {
                net::serve(parts.clone(), listener.clone(), stream, peer, slot)
            }
        };
        let accepting = net::accept(listener, socket, sockets.clone(), serve);
        tasks.push(tokio::spawn(accepting));
    }
    Ok(tasks)
}
