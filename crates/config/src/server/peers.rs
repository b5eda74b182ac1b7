//! Connections that this node makes to other nodes.

use crate::typed::TypedValues;

/// How this node connects to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeersConfig {
    /// How long the controller's answer may take.
    pub controller_timeout_ms: i32,
    /// How long a leader's answer to a follower may take, beside what the follower lets it wait.
    pub replica_timeout_ms: i32,
    /// Receive buffer of the sockets over which replicas are fetched; none leaves it to the operating
    /// system.
    pub replica_receive_buffer_bytes: Option<i32>,
    /// How long a connection may take to be made, at first.
    pub setup_timeout_ms: i64,
    /// And after failures in a row, at most.
    pub setup_timeout_max_ms: i64,
    /// How long the answer to any other request may take.
    pub request_timeout_ms: i32,
}

impl PeersConfig {
    pub(super) fn of_values(values: &TypedValues) -> Self {
        Self {
            controller_timeout_ms: values.int("controller.socket.timeout.ms"),
            replica_timeout_ms: values.int("replica.socket.timeout.ms"),
            replica_receive_buffer_bytes: Some(values.int("replica.socket.receive.buffer.bytes"))
                .filter(|bytes| *bytes > 0),
            setup_timeout_ms: values.long("socket.connection.setup.timeout.ms"),
            setup_timeout_max_ms: values.long("socket.connection.setup.timeout.max.ms"),
            request_timeout_ms: values.int("request.timeout.ms"),
        }
    }
}
