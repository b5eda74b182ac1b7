//! Requests of clients that the controller decides, passed on as they came: Envelope v0 (KIP-590).
//!
//! ```text
//!   client ── frame ──> [frame, who asks, from where] ──> active controller ── answer ──> client
//! ```
//!
//! The client's request goes on byte for byte, header included, and so does the answer. Nobody is authenticated:
//! every client is User:ANONYMOUS to the controller, too.

use super::connections::Purpose;
use super::controller_channel::ControllerChannel;
use bytes::Bytes;
use connection::{Deadline, Error, Response, ServedVersions};
use model::{ErrorCode, Message as _};
use parking_lot::RwLock;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::ApiKey;
use wire::messages::{DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse};

/// The version of the principal that goes along.
const PRINCIPAL_VERSION: i16 = 0;
/// How long a request is passed on, as in Apache Kafka: whatever its client says of how long it waits, and longer than
/// clients do. One that gives up asks anew, and is not told that nothing is decided while a controller is yet to come.
const PATIENCE_MS: u64 = 60_000;
/// The pause before a controller is asked again what it serves.
const LEARN_PAUSE: Duration = Duration::from_secs(1);

/// The way of clients' requests to the active controller; clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Forwarding {
    channel: ControllerChannel,
    /// The principal of every client, encoded.
    principal: Bytes,
    /// What the active controller serves, once that is known.
    served: Arc<RwLock<Option<ServedVersions>>>,
}

impl Forwarding {
    /// The way by `channel`.
    pub(crate) fn new(channel: ControllerChannel) -> Self {
        let anonymous = DefaultPrincipalData {
            r#type: "User",
            name: "ANONYMOUS",
            token_authenticated: false,
        };
        let mut principal = PRINCIPAL_VERSION.to_be_bytes().to_vec();
        anonymous.write(PRINCIPAL_VERSION, &mut principal);
        Self {
            channel,
            principal: principal.into(),
            served: Arc::default(),
        }
    }

    /// The versions of an API that the active controller serves; all of them as long as nobody knows.
    pub(crate) fn versions(&self, api: ApiKey) -> Option<(i16, i16)> {
        match &*self.served.read() {
            Some(served) => served.range(api),
            None => Some((i16::MIN, i16::MAX)),
        }
    }

    /// Passes a request on, its frame without the size; gives the answer, header included.
    ///
    /// # Errors
    /// `RequestTimedOut` when no controller has answered in time, `UnsupportedVersion` when it does not know
    /// the request; others as the controller says.
    pub(crate) async fn forward(&self, frame: &[u8], client: IpAddr) -> Result<Bytes, ErrorCode> {
        let deadline = Deadline::after_ms(PATIENCE_MS, "the forwarding of requests");
        let address = match client.to_canonical() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let envelope = EnvelopeRequest {
            request_data: frame,
            request_principal: Some(&self.principal),
            client_host_address: &address,
        };
        let code_of = |response: &Response| {
            let read: EnvelopeResponse<'_> = response.read()?;
            Ok(ErrorCode::from_code(read.error_code))
        };
        let channel = &self.channel;
        let answered = channel.call(Purpose::Forwarding, &envelope, code_of, deadline);
        let response = answered.await.map_err(|error| {
            tracing::debug!(%error, "a request could not be passed on");
            match error {
                Error::Unsupported { .. } => ErrorCode::UnsupportedVersion,
                _ => ErrorCode::RequestTimedOut,
            }
        })?;
        let read: EnvelopeResponse<'_> =
            response.read().map_err(|_| ErrorCode::UnknownServerError)?;
        match (ErrorCode::from_code(read.error_code), read.response_data) {
            (ErrorCode::None, Some(data)) => Ok(response.slice_of(data)),
            (ErrorCode::None, None) => Err(ErrorCode::UnknownServerError),
            (code, _) => Err(code),
        }
    }

    /// Learns what each active controller serves, for ever.
    pub(crate) async fn learn_versions(self) {
        let mut leader = self.channel.leader();
        loop {
            leader.mark_unchanged();
            let deadline = self.channel.deadline(Purpose::Forwarding);
            let connected = self.channel.connection(Purpose::Forwarding, deadline);
            match connected.await {
                Ok(connection) => {
                    *self.served.write() = Some(connection.versions().clone());
                    if leader.changed().await.is_err() {
                        return;
                    }
                }
                // The follower has ended: there are no other controllers.
                Err(_) if leader.has_changed().is_err() => return,
                Err(error) => {
                    tracing::debug!(%error, "what the controller serves is not known yet");
                    tokio::time::sleep(LEARN_PAUSE).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::connections::PeerConnections;
    use crate::peers::endpoints::PeerNode;
    use config::ServerConfig;
    use config::sources::{Sources, load};
    use connection::Endpoint;
    use model::BrokerId;
    use std::io;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;
    use wire::messages::ApiVersionsResponse;
    use wire::messages::api_versions_response::ApiVersion;

    /// A connection to a controller, by which it is silent once it has said what it serves, or answers each request.
    async fn serve(mut stream: TcpStream, is_silent: bool) -> io::Result<()> {
        loop {
            let mut frame = vec![0; stream.read_u32().await? as usize];
            stream.read_exact(&mut frame).await?;
            let [api, version] = [0, 2].map(|at| i16::from_be_bytes([frame[at], frame[at + 1]]));
            let mut answer = frame[4..8].to_vec();
            if api == ApiKey::ApiVersions as i16 {
                let served = [ApiVersion {
                    api_key: ApiKey::Envelope as i16,
                    ..ApiVersion::default()
                }];
                let response = ApiVersionsResponse {
                    api_keys: served[..].into(),
                    ..ApiVersionsResponse::default()
                };
                answer.extend(response.to_bytes(version));
            } else if is_silent {
                continue;
            } else {
                let response = EnvelopeResponse {
                    response_data: Some(b"decided"),
                    error_code: 0,
                };
                // The header has no tagged fields.
                answer.push(0);
                answer.extend(response.to_bytes(version));
            }
            stream.write_u32(answer.len() as u32).await?;
            stream.write_all(&answer).await?;
        }
    }

    /// Nobody tells that a controller's machine is gone, or a firewall between has forgotten the connection.
    #[tokio::test]
    async fn a_request_goes_again_over_another_connection_where_one_is_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("is bound").port();
        tokio::spawn(async move {
            let mut is_silent = true;
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, is_silent));
                is_silent = false;
            }
        });
        let overrides = [("controller.socket.timeout.ms", "200")];
        let overrides = overrides.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let sources = Sources {
            overrides: &overrides,
            ..Sources::default()
        };
        let values = load(&sources).expect("sound").values;
        let config = ServerConfig::read(&values).expect("sound");
        let (_leader, leader) = watch::channel(Some(PeerNode {
            id: BrokerId(7),
            endpoint: Endpoint::new("127.0.0.1", port),
        }));
        let channel = ControllerChannel::new(PeerConnections::new(&config), leader);
        let forwarding = Forwarding::new(channel);
        let client = IpAddr::from([127, 0, 0, 1]);
        let forwarded = forwarding.forward(b"a request", client).await;
        assert_eq!(forwarded.as_deref(), Ok(&b"decided"[..]));
    }
}
