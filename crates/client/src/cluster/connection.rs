//! A connection as the client has it: made as its configuration says, with the errors that the
//! application sees. All else is the crate [`connection`]'s.

use crate::Error;
use crate::config::{ClientConfig, Endpoint};
use bytes::Bytes;
use connection::{Backoff, Called, Deadline, Options, Request, ServedVersions, SettingNames};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use wire::ApiKey;

/// Requests of a connection without an answer; the producer has fewer.
const IN_FLIGHT_MAX: usize = 64;
/// The longest that a broker holds a connection up: more than any of its quota windows.
const HOLD_MAX: Duration = Duration::from_secs(3_600);

/// What connections are to know of `config`.
pub(super) fn options_of(config: &ClientConfig) -> Options {
    let idle_max = u64::try_from(config.connections_max_idle_ms).ok();
    Options {
        client_id: config.client_id.clone(),
        software_name: crate::SOFTWARE_NAME,
        software_version: crate::SOFTWARE_VERSION,
        request_timeout_ms: config.request_timeout_ms,
        setup_timeout: Backoff {
            base_ms: config.connection_setup_timeout_ms,
            max_ms: config.connection_setup_timeout_max_ms,
        },
        reconnect: Backoff {
            base_ms: config.reconnect_backoff_ms,
            max_ms: config.reconnect_backoff_max_ms,
        },
        idle_max: idle_max.map(Duration::from_millis),
        // -1 leaves the size to the system.
        send_buffer_bytes: u32::try_from(config.send_buffer_bytes).ok(),
        receive_buffer_bytes: u32::try_from(config.receive_buffer_bytes).ok(),
        response_bytes_max: config.response_bytes_max,
        in_flight_max: IN_FLIGHT_MAX,
        hold_max: HOLD_MAX,
        #[cfg(not(test))]
        connector: config.connector.clone(),
        #[cfg(test)]
        connector: crate::simulated::connector_of(config),
        names: SettingNames {
            addresses: "bootstrap.servers",
            request_timeout: "request.timeout.ms",
            setup_timeout: "socket.connection.setup.timeout.ms",
            idle_max: "connections.max.idle.ms",
            response_bytes_max: "receive.message.max.bytes",
        },
    }
}

/// A broker at one address, as [`connection::Peer`].
#[derive(Debug)]
pub(super) struct Peer(connection::Peer);

impl Peer {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self(connection::Peer::new(endpoint))
    }

    /// The connection, if it lives.
    pub(super) fn live(&self) -> Option<Connection> {
        self.0.live().map(Connection)
    }

    /// The live connection, or one attempt to make it once the backoff is over.
    pub(super) async fn connect(
        &self,
        called: Called<'_>,
        options: &Options,
        deadline: Deadline,
        random: impl Fn() -> u64,
    ) -> Result<Connection, Error> {
        let connected = self.0.connect(called, options, deadline, random).await;
        connected.map(Connection).map_err(Error::of)
    }
}

/// See [`connection::Connection`].
#[derive(Debug, Clone)]
pub(crate) struct Connection(connection::Connection);

/// See [`connection::Response`].
#[derive(Debug, Clone)]
pub(crate) struct Response(connection::Response);

/// See [`connection::Pending`].
#[derive(Debug)]
pub(crate) struct Pending(connection::Pending);

/// See [`connection::Sent`].
#[derive(Debug)]
pub(crate) enum Sent {
    /// The request is on its way.
    Pending(Pending),
    /// The queue has no room.
    Full,
}

impl Connection {
    /// The broker's address, as errors name it.
    pub(crate) fn address(&self) -> &Arc<str> {
        self.0.address()
    }

    /// What the broker serves.
    pub(crate) fn versions(&self) -> &ServedVersions {
        self.0.versions()
    }

    /// The highest version of `api` that both sides have, or [`Error::Unsupported`].
    pub(crate) fn version_of(&self, api: ApiKey) -> Result<i16, Error> {
        self.0.version_of(api).map_err(Error::of)
    }

    /// As [`Connection::version_of`], not above `at_most`.
    pub(crate) fn version_up_to(&self, api: ApiKey, at_most: i16) -> Result<i16, Error> {
        self.0.version_up_to(api, at_most).map_err(Error::of)
    }

    /// Whether it has ended, so that nothing can be sent any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// The deadline of a request from now, as `request.timeout.ms` says.
    pub(crate) fn request_deadline(&self) -> Deadline {
        self.0.request_deadline()
    }

    /// A request with its header; the body is to be appended.
    pub(crate) fn request(&self, api: ApiKey, version: i16) -> Request {
        self.0.request(api, version)
    }

    /// Sends `request` if the queue has room for it.
    pub(crate) fn try_send(&self, request: Request, deadline: Deadline) -> Result<Sent, Error> {
        match self.0.try_send(request, deadline) {
            Ok(connection::Sent::Pending(pending)) => Ok(Sent::Pending(Pending(pending))),
            Ok(connection::Sent::Full) => Ok(Sent::Full),
            Err(error) => Err(Error::of(error)),
        }
    }

    /// Sends `message` in `version` and awaits the answer.
    pub(crate) async fn call_version<'a, M: wire::Request<'a>>(
        &self,
        version: i16,
        message: &M,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let answer = self.0.call_version(version, message, deadline).await;
        answer.map(Response).map_err(Error::of)
    }

    /// Sends `message` in the highest version and awaits the answer.
    pub(crate) async fn call<'a, M: wire::Request<'a>>(
        &self,
        message: &M,
        deadline: Deadline,
    ) -> Result<Response, Error> {
        let answer = self.0.call(message, deadline).await;
        answer.map(Response).map_err(Error::of)
    }

    /// The broker wants no more requests for so long (KIP-219).
    pub(crate) fn hold_ms(&self, throttle_ms: u64) {
        self.0.hold_ms(throttle_ms);
    }
}

impl Response {
    /// The broker's address, as errors name it.
    pub(crate) fn address(&self) -> &Arc<str> {
        self.0.address()
    }

    /// The slice of the body that `part`, a view that was decoded from it, stands for; shares its
    /// memory.
    pub(crate) fn slice_of(&self, part: &[u8]) -> Bytes {
        self.0.slice_of(part)
    }

    /// Decodes the response, or [`Error::Malformed`].
    pub(crate) fn read<'a, M: model::Message<'a>>(&'a self) -> Result<M, Error> {
        self.0.read().map_err(Error::of)
    }
}

impl Future for Pending {
    type Output = Result<Response, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let poll = Pin::new(&mut self.0).poll(context);
        poll.map(|answer| answer.map(Response).map_err(Error::of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_connections_read_as_they_do_there() {
        let address = || "one:9092".to_owned();
        let reason = || "why".to_owned();
        let errors = [
            connection::Error::Unreachable {
                address: address(),
                waited_ms: 7,
                reason: reason(),
            },
            connection::Error::TimedOut {
                operation: "Fetch".to_owned(),
                address: address(),
                waited_ms: 7,
                setting: "request.timeout.ms",
            },
            connection::Error::Disconnected {
                address: address(),
                reason: reason(),
            },
            connection::Error::Malformed {
                address: address(),
                reason: reason(),
            },
            connection::Error::Unsupported {
                address: address(),
                api: "Fetch",
                detail: ": at all".to_owned(),
            },
            connection::Error::Refused {
                subject: "SASL".to_owned(),
                code: crate::ErrorCode::SaslAuthenticationFailed,
                message: Some(reason()),
            },
        ];
        for error in errors {
            let text = error.to_string();
            assert_eq!(Error::of(error).to_string(), text);
        }
    }
}
