//! How a connection is made: names to addresses, the socket, ApiVersions (KIP-511), and who the
//! client is.
//!
//! The first request is ApiVersions in the highest version. A broker that does not know the version
//! answers in version 0 with UNSUPPORTED_VERSION, and is asked again in the highest that it names.

mod authenticate;

use super::pipeline::{Input, Pipeline, body_of, malformed};
use super::task::Driver;
use super::{
    Connection, ConnectionSettings, Deadline, QUEUE_LENGTH, Request, ServedVersions, Shared,
};
use crate::Error;
use crate::config::Endpoint;
use crate::transport::{ByteStream, Transport};
use bytes::Bytes;
use model::{ErrorCode, Message as _};
use parking_lot::Mutex;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use wire::ApiKey;
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};

/// What bytes go over, in both directions at once.
pub(super) trait Duplex: Send + 'static {
    /// Whether what is written may be kept back until it is flushed, as by what encrypts.
    const IS_BUFFERED: bool;

    /// The two directions.
    fn halves(
        &mut self,
    ) -> (
        impl AsyncRead + Unpin + Send,
        impl AsyncWrite + Unpin + Send,
    );
}

impl Duplex for TcpStream {
    const IS_BUFFERED: bool = false;

    fn halves(
        &mut self,
    ) -> (
        impl AsyncRead + Unpin + Send,
        impl AsyncWrite + Unpin + Send,
    ) {
        self.split()
    }
}

/// What the application's own transport has connected.
struct OwnStream(Box<dyn ByteStream>);

impl Duplex for OwnStream {
    const IS_BUFFERED: bool = true;

    fn halves(
        &mut self,
    ) -> (
        impl AsyncRead + Unpin + Send,
        impl AsyncWrite + Unpin + Send,
    ) {
        tokio::io::split(&mut self.0)
    }
}

#[cfg(test)]
impl Duplex for crate::simulated::Pipe {
    const IS_BUFFERED: bool = false;

    fn halves(
        &mut self,
    ) -> (
        impl AsyncRead + Unpin + Send,
        impl AsyncWrite + Unpin + Send,
    ) {
        self.split()
    }
}

/// See [`Connection::open`].
pub(super) async fn open(
    endpoint: &Endpoint,
    address: &str,
    settings: &ConnectionSettings,
) -> Result<Connection, Error> {
    #[cfg(test)]
    if let Some(dialled) = crate::simulated::dial(endpoint) {
        let stream = dialled.map_err(|error| Error::Unreachable {
            address: address.to_owned(),
            waited_ms: 0,
            reason: error.to_string(),
        })?;
        return open_over(stream, endpoint, address, settings).await;
    }
    if let Some(transport) = &settings.connector.transport {
        let stream = connect_by(&**transport, endpoint, address, settings).await?;
        return open_over(stream, endpoint, address, settings).await;
    }
    let stream = connect(endpoint, address, settings).await?;
    open_over(stream, endpoint, address, settings).await
}

/// Makes a connection of a stream that is connected.
async fn open_over(
    mut stream: impl Duplex,
    endpoint: &Endpoint,
    address: &str,
    settings: &ConnectionSettings,
) -> Result<Connection, Error> {
    let mut input = Input::new(settings.response_bytes_max);
    let deadline = Deadline::after_ms(settings.request_timeout_ms, "request.timeout.ms");
    let negotiated = negotiate(&mut stream, &mut input, address, settings);
    let versions = match deadline.bound(negotiated).await {
        Some(versions) => versions?,
        None => return Err(deadline.error(ApiKey::ApiVersions.to_string(), address)),
    };
    if let Some(authenticator) = &settings.connector.authenticator {
        let exchange = authenticator.begin(endpoint);
        let mut peer = Peer {
            stream: &mut stream,
            input: &mut input,
            address,
            settings,
        };
        let mechanism = authenticator.mechanism();
        let proved = authenticate::run(&mut peer, &versions, mechanism, exchange);
        match deadline.bound(proved).await {
            Some(proved) => proved?,
            None => return Err(deadline.error(ApiKey::SaslAuthenticate.to_string(), address)),
        }
    }
    let address: Arc<str> = address.into();
    let (queue, receiver) = mpsc::channel(QUEUE_LENGTH);
    let shared = Arc::new(Shared {
        address: address.clone(),
        client_id: settings.client_id.clone(),
        request_timeout_ms: settings.request_timeout_ms,
        versions,
        buffers: Mutex::default(),
        held_until: Mutex::default(),
        ended: Mutex::default(),
    });
    let pipeline = Pipeline::new(address, input);
    let driver = Driver::new(receiver, shared.clone(), pipeline, settings);
    tokio::spawn(driver.run(stream));
    Ok(Connection { queue, shared })
}

/// Connects as the application's own transport does.
async fn connect_by(
    transport: &dyn Transport,
    endpoint: &Endpoint,
    address: &str,
    settings: &ConnectionSettings,
) -> Result<OwnStream, Error> {
    let setting = "socket.connection.setup.timeout.ms";
    let deadline = Deadline::after_ms(settings.setup_timeout_ms, setting);
    let reason = match deadline.bound(transport.connect(endpoint)).await {
        Some(Ok(stream)) => return Ok(OwnStream(stream)),
        Some(Err(error)) => error.to_string(),
        None => format!(
            "no connection within {} ms (`{setting}`)",
            settings.setup_timeout_ms
        ),
    };
    Err(Error::Unreachable {
        address: address.to_owned(),
        waited_ms: deadline.waited_ms(),
        reason,
    })
}

/// Connects to the first address of the name that accepts.
async fn connect(
    endpoint: &Endpoint,
    address: &str,
    settings: &ConnectionSettings,
) -> Result<TcpStream, Error> {
    let setting = "socket.connection.setup.timeout.ms";
    let deadline = Deadline::after_ms(settings.setup_timeout_ms, setting);
    let unreachable = |reason: String| Error::Unreachable {
        address: address.to_owned(),
        waited_ms: deadline.waited_ms(),
        reason,
    };
    let lookup = tokio::net::lookup_host((&*endpoint.host, endpoint.port));
    let addresses: Vec<SocketAddr> = match deadline.bound(lookup).await {
        Some(Ok(addresses)) => addresses.collect(),
        Some(Err(error)) => {
            let reason = format!("the name `{}` has no address: {error}", endpoint.host);
            return Err(unreachable(reason));
        }
        None => {
            let reason = format!(
                "the name `{}` is not resolved in time (`{setting}`)",
                endpoint.host
            );
            return Err(unreachable(reason));
        }
    };
    let mut reason = format!("the name `{}` has no address", endpoint.host);
    let timeout = Duration::from_millis(settings.setup_timeout_ms);
    for socket_address in addresses {
        let attempt = connect_socket(socket_address, settings);
        // Each address has the whole time: one that swallows packets must not use up the others'.
        match tokio::time::timeout(timeout, attempt).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => reason = error.to_string(),
            Err(_) => {
                let waited_ms = settings.setup_timeout_ms;
                reason = format!("no connection within {waited_ms} ms (`{setting}`)");
            }
        }
    }
    Err(unreachable(reason))
}

async fn connect_socket(
    address: SocketAddr,
    settings: &ConnectionSettings,
) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // -1, and nothing else below zero, leaves the size to the system.
    if let Ok(bytes) = u32::try_from(settings.send_buffer_bytes) {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Ok(bytes) = u32::try_from(settings.receive_buffer_bytes) {
        socket.set_recv_buffer_size(bytes)?;
    }
    // There is no congestion within a machine, but a congestion control that paces (BBR, the default
    // of some machines) sets a timer for each segment all the same. Where this is not possible the
    // connection works as it is.
    #[cfg(target_os = "linux")]
    if address.ip().to_canonical().is_loopback() {
        let _ = rustix::net::sockopt::set_tcp_congestion(&socket, "reno");
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A connection that carries one request at a time, until its task takes it over.
struct Peer<'a, S> {
    stream: &'a mut S,
    input: &'a mut Input,
    address: &'a str,
    settings: &'a ConnectionSettings,
}

/// Asks which versions the broker serves.
async fn negotiate(
    stream: &mut impl Duplex,
    input: &mut Input,
    address: &str,
    settings: &ConnectionSettings,
) -> Result<ServedVersions, Error> {
    let mut peer = Peer {
        stream,
        input,
        address,
        settings,
    };
    let mut version = ApiKey::ApiVersions.facts().max_stable_version;
    for correlation_id in 0.. {
        let message = ApiVersionsRequest {
            client_software_name: crate::SOFTWARE_NAME,
            client_software_version: crate::SOFTWARE_VERSION,
        };
        let body = peer.ask(&message, version, correlation_id).await?;
        // What a broker does not understand it answers in version 0.
        let code = body.first_chunk().map(|code| i16::from_be_bytes(*code));
        let is_refused = code == Some(ErrorCode::UnsupportedVersion.code());
        let layout = if is_refused { 0 } else { version };
        let response = ApiVersionsResponse::from_bytes(&body, layout)
            .map_err(|error| malformed(address, format!("ApiVersions: {error}")))?;
        match ServedVersions::of(&response) {
            Ok(versions) => return Ok(versions),
            Err(ErrorCode::UnsupportedVersion) if version > 0 => {
                let named = response
                    .api_keys
                    .iter()
                    .find(|api| api.api_key == ApiKey::ApiVersions as i16);
                let highest = named.map_or(0, |api| api.max_version);
                version = highest.clamp(0, version - 1);
            }
            Err(code) => {
                return Err(Error::Refused {
                    subject: format!("ApiVersions at {address}"),
                    code,
                    message: None,
                });
            }
        }
    }
    unreachable!("each round asks for a lower version")
}

impl<S: Duplex> Peer<'_, S> {
    /// Sends `message` in `version` and reads the body of the answer.
    async fn ask<'m, M: wire::Request<'m>>(
        &mut self,
        message: &M,
        version: i16,
        correlation_id: i32,
    ) -> Result<Bytes, Error> {
        let (api, address) = (M::API, self.address);
        let mut request = Request::begin(api, version, &self.settings.client_id, Vec::new());
        message.write(version, request.body());
        request.finish(correlation_id);
        let disconnected = |reason: String| Error::Disconnected {
            address: address.to_owned(),
            reason: match api {
                ApiKey::ApiVersions => format!(
                    "{reason} before it answered the first request: is this a PLAINTEXT listener of \
                     Kafka's protocol?"
                ),
                _ => format!("{reason} while it was asked who the client is"),
            },
        };
        let (mut read_half, mut write_half) = self.stream.halves();
        let frame = request.into_buffer();
        let written = async {
            write_half.write_all(&frame).await?;
            // A transport of the application's own may keep bytes back.
            write_half.flush().await
        };
        written
            .await
            .map_err(|error| disconnected(error.to_string()))?;
        loop {
            match self.input.next_frame() {
                Ok(Some(frame)) => {
                    let body = body_of(frame, api, version, correlation_id);
                    return body.map_err(|reason| malformed(address, reason));
                }
                Ok(None) => {}
                Err(reason) => return Err(malformed(address, reason)),
            }
            match read_half.read_buf(self.input.room()).await {
                Ok(0) => return Err(disconnected("it ended".to_owned())),
                Ok(_) => {}
                Err(error) => return Err(disconnected(error.to_string())),
            }
        }
    }
}
