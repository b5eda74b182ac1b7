//! Connections to other nodes: one for each node and purpose, made when it is needed.
//!
//! ```text
//!   fetcher, controller channel, markers …  ── call(node, purpose, message) ──> Peer ──> Connection
//! ```
//!
//! Each purpose has a connection of its own, since a broker answers one request of a connection after the
//! other: a fetch that waits for records holds nobody else up. Nothing is sent twice here; what becomes of
//! a request that was not answered is its sender's to say.

use super::endpoints::PeerNode;
use crate::scheduling::clock::random_bytes;
use config::ServerConfig;
use connection::{
    Backoff, Called, Connection, Connector, Deadline, Error, Options, Peer, Response, SettingNames,
};
use model::BrokerId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use wire::Request;

/// How the program calls itself to other nodes (KIP-511).
const SOFTWARE_NAME: &str = "riverrun";
/// Which version of it.
const SOFTWARE_VERSION: &str = env!("CARGO_PKG_VERSION");
/// Requests of a connection without an answer.
const IN_FLIGHT_MAX: usize = 5;

/// What a node is asked for. Requests of different purposes do not wait for one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    /// The metadata log, of the quorum.
    Quorum,
    /// Registration and heartbeats, of the controller.
    Lifecycle,
    /// Other requests of this broker's own, of the controller.
    Controller,
    /// Requests of clients, of the controller.
    Forwarding,
    /// The logs of partitions, of a leader, by one of this broker's fetchers.
    Replication(u32),
    /// The markers of transactions, of a leader.
    Markers,
    /// The partitions of transactions, of a coordinator.
    Transactions,
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Quorum => f.write_str("quorum"),
            Self::Lifecycle => f.write_str("lifecycle"),
            Self::Controller => f.write_str("controller"),
            Self::Forwarding => f.write_str("forwarding"),
            Self::Replication(number) => write!(f, "fetcher-{number}"),
            Self::Markers => f.write_str("markers"),
            Self::Transactions => f.write_str("transactions"),
        }
    }
}

/// The connections of this node to others; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct PeerConnections(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    node_id: BrokerId,
    config: config::server::PeersConfig,
    quorum_timeout_ms: i32,
    idle_max_ms: Option<i64>,
    peers: Mutex<HashMap<(BrokerId, Purpose), Arc<PeerOfPurpose>>>,
}

/// One node as it is asked for one purpose.
#[derive(Debug)]
struct PeerOfPurpose {
    node: PeerNode,
    /// As errors name it.
    address: String,
    peer: Peer,
    options: Options,
}

impl PeerConnections {
    /// Connections as the node is configured to make them; none yet.
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self(Arc::new(Shared {
            node_id: config.node_id,
            config: config.peers,
            quorum_timeout_ms: config.controller.quorum.request_timeout_ms,
            idle_max_ms: config.network.connections_max_idle_ms,
            peers: Mutex::default(),
        }))
    }

    /// The connection to a node for a purpose, made if there is none. After failures in a row the next
    /// attempt waits for a moment, and so does whoever asks.
    ///
    /// # Errors
    /// As [`Peer::connect`].
    pub(crate) async fn connection(
        &self,
        node: &PeerNode,
        purpose: Purpose,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        let peer = self.0.peer(node, purpose);
        let called = Called {
            address: &peer.address,
            advice: "is the node running, and can this host reach it?",
        };
        let random = || u64::from_be_bytes(random_bytes());
        let connected = peer.peer.connect(called, &peer.options, deadline, random);
        connected.await
    }

    /// Sends `message` in the highest version that both sides have and awaits the answer until the deadline.
    ///
    /// # Errors
    /// As [`Self::connection`] and [`Connection::call`].
    pub(crate) async fn call<'m, M: Request<'m>>(
        &self,
        node: &PeerNode,
        purpose: Purpose,
        message: &M,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let connection = self.connection(node, purpose, deadline).await?;
        connection.call(message, deadline).await
    }

    /// The deadline of a request from now.
    pub(crate) fn deadline(&self, purpose: Purpose) -> Deadline {
        let (timeout_ms, setting) = self.0.request_timeout(purpose);
        Deadline::after_ms(timeout_ms, setting)
    }

    /// Forgets a node: what is asked of it and not answered yet fails.
    pub(crate) fn forget(&self, id: BrokerId) {
        self.0.peers.lock().retain(|(of, _), _| *of != id);
    }
}

impl Shared {
    fn peer(&self, node: &PeerNode, purpose: Purpose) -> Arc<PeerOfPurpose> {
        let mut peers = self.peers.lock();
        let known = peers.get(&(node.id, purpose));
        if let Some(known) = known.filter(|known| known.node == *node) {
            return known.clone();
        }
        let peer = Arc::new(PeerOfPurpose {
            node: node.clone(),
            address: match node.id.0 {
                ..0 => node.endpoint.to_string(),
                id => format!("{} (node {id})", node.endpoint),
            },
            peer: Peer::new(node.endpoint.clone()),
            options: self.options(purpose),
        });
        peers.insert((node.id, purpose), peer.clone());
        peer
    }

    fn request_timeout(&self, purpose: Purpose) -> (u64, &'static str) {
        let config = &self.config;
        let (timeout_ms, setting) = match purpose {
            Purpose::Quorum => (
                self.quorum_timeout_ms,
                "controller.quorum.request.timeout.ms",
            ),
            Purpose::Lifecycle | Purpose::Controller | Purpose::Forwarding => {
                (config.controller_timeout_ms, "controller.socket.timeout.ms")
            }
            Purpose::Replication(_) => (config.replica_timeout_ms, "replica.socket.timeout.ms"),
            Purpose::Markers | Purpose::Transactions => {
                (config.request_timeout_ms, "request.timeout.ms")
            }
        };
        (timeout_ms.max(0).unsigned_abs().into(), setting)
    }

    fn options(&self, purpose: Purpose) -> Options {
        let (config, (request_timeout_ms, request_timeout)) =
            (&self.config, self.request_timeout(purpose));
        let not_negative = |ms: i64| u64::try_from(ms).unwrap_or(0);
        // As much as Apache Kafka waits for each.
        let reconnect = match purpose {
            Purpose::Quorum => (50, 500),
            Purpose::Replication(_) => (0, 0),
            _ => (50, 50),
        };
        let receive_buffer_bytes = match purpose {
            Purpose::Replication(_) => config.replica_receive_buffer_bytes,
            _ => None,
        };
        Options {
            client_id: format!("broker-{}-{purpose}", self.node_id),
            software_name: SOFTWARE_NAME,
            software_version: SOFTWARE_VERSION,
            request_timeout_ms,
            setup_timeout: Backoff {
                base_ms: not_negative(config.setup_timeout_ms),
                max_ms: not_negative(config.setup_timeout_max_ms),
            },
            reconnect: Backoff {
                base_ms: reconnect.0,
                max_ms: reconnect.1,
            },
            idle_max: self
                .idle_max_ms
                .and_then(|idle_ms| u64::try_from(idle_ms).ok())
                .map(Duration::from_millis),
            send_buffer_bytes: None,
            receive_buffer_bytes: receive_buffer_bytes.map(i32::unsigned_abs),
            // One batch may be larger than all that a fetch asks for.
            response_bytes_max: i32::MAX as usize,
            in_flight_max: IN_FLIGHT_MAX,
            // Nodes do not throttle nodes: one that does is asked again when a request would have failed.
            hold_max: Duration::from_millis(request_timeout_ms),
            connector: Connector::default(),
            names: SettingNames {
                addresses: "advertised.listeners",
                request_timeout,
                setup_timeout: "socket.connection.setup.timeout.ms",
                idle_max: "connections.max.idle.ms",
                response_bytes_max: "replica.fetch.response.max.bytes",
            },
        }
    }
}
