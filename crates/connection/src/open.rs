//! How a connection is made: a stream of bytes, ApiVersions (KIP-511), and who the caller is.
//!
//! The first request is ApiVersions in the highest version. A broker that does not know the version
//! answers in version 0 with UNSUPPORTED_VERSION, and is asked again in the highest that it names.

mod authenticate;

use crate::duplex::{Duplex, OwnStream};
use crate::frames::{Input, body_of};
use crate::pipeline::Pipeline;
use crate::shared::{QUEUE_LENGTH, Shared};
use crate::task::Driver;
use crate::{
    Connection, Deadline, Endpoint, Error, Options, Request, ServedVersions, Transport, tcp,
};
use bytes::Bytes;
use model::{ErrorCode, Message as _};
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use wire::ApiKey;
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};

impl Connection {
    /// Connects to `endpoint`, which errors call `address`, and asks which versions it serves
    /// (KIP-35, KIP-511). Must be called within a runtime.
    ///
    /// # Errors
    /// [`Error::Unreachable`] without a connection within its setup timeout, [`Error::TimedOut`]
    /// when nothing answers on it, [`Error::Malformed`] when what answers is no broker, and
    /// [`Error::Refused`] when it does not believe who the caller is.
    pub async fn open(
        endpoint: &Endpoint,
        address: &str,
        options: &Options,
    ) -> Result<Self, Error> {
        open(endpoint, address, options, options.setup_timeout.base_ms).await
    }
}

/// Connects to `endpoint` within so many milliseconds, as [`Connection::open`] does.
pub(crate) async fn open(
    endpoint: &Endpoint,
    address: &str,
    options: &Options,
    setup_timeout_ms: u64,
) -> Result<Connection, Error> {
    if let Some(transport) = &options.connector.transport {
        let stream = connect_by(&**transport, endpoint, address, options, setup_timeout_ms).await?;
        return open_over(stream, endpoint, address, options).await;
    }
    let stream = tcp::connect(endpoint, address, options, setup_timeout_ms).await?;
    open_over(stream, endpoint, address, options).await
}

/// Makes a connection of a stream that is connected.
async fn open_over(
    mut stream: impl Duplex,
    endpoint: &Endpoint,
    address: &str,
    options: &Options,
) -> Result<Connection, Error> {
    let mut input = Input::new(options.response_bytes_max, options.names);
    let mut greeting = Greeting {
        stream: &mut stream,
        input: &mut input,
        address,
        options,
    };
    let deadline = Deadline::after_ms(options.request_timeout_ms, options.names.request_timeout);
    let versions = match deadline.bound(greeting.negotiate()).await {
        Some(versions) => versions?,
        None => return Err(deadline.error(ApiKey::ApiVersions.to_string(), address)),
    };
    if let Some(authenticator) = &options.connector.authenticator {
        let exchange = authenticator.begin(endpoint);
        let mechanism = authenticator.mechanism();
        let proved = authenticate::run(&mut greeting, &versions, mechanism, exchange);
        match deadline.bound(proved).await {
            Some(proved) => proved?,
            None => return Err(deadline.error(ApiKey::SaslAuthenticate.to_string(), address)),
        }
    }
    let address: Arc<str> = address.into();
    let (queue, receiver) = mpsc::channel(QUEUE_LENGTH);
    let shared = Arc::new(Shared::new(address.clone(), options, versions));
    let pipeline = Pipeline::new(address, input);
    let driver = Driver::new(receiver, shared.clone(), pipeline, options);
    tokio::spawn(driver.run(stream));
    Ok(Connection::new(queue, shared))
}

/// Connects as the caller's own transport does.
async fn connect_by(
    transport: &dyn Transport,
    endpoint: &Endpoint,
    address: &str,
    options: &Options,
    setup_timeout_ms: u64,
) -> Result<OwnStream, Error> {
    let setting = options.names.setup_timeout;
    let deadline = Deadline::after_ms(setup_timeout_ms, setting);
    let reason = match deadline.bound(transport.connect(endpoint)).await {
        Some(Ok(stream)) => return Ok(OwnStream(stream)),
        Some(Err(error)) => error.to_string(),
        None => format!("no connection within {setup_timeout_ms} ms (`{setting}`)"),
    };
    Err(Error::Unreachable {
        address: address.to_owned(),
        waited_ms: deadline.waited_ms(),
        reason,
    })
}

/// What is said before anybody else may speak: one request at a time.
struct Greeting<'a, S> {
    stream: &'a mut S,
    input: &'a mut Input,
    address: &'a str,
    options: &'a Options,
}

impl<S: Duplex> Greeting<'_, S> {
    /// Asks which versions the broker serves.
    async fn negotiate(&mut self) -> Result<ServedVersions, Error> {
        let address = self.address;
        let message = ApiVersionsRequest {
            client_software_name: self.options.software_name,
            client_software_version: self.options.software_version,
        };
        let mut version = ApiKey::ApiVersions.facts().max_stable_version;
        for correlation_id in 0.. {
            let body = self.ask(&message, version, correlation_id).await?;
            // What a broker does not understand it answers in version 0.
            let code = body.first_chunk().map(|code| i16::from_be_bytes(*code));
            let is_refused = code == Some(ErrorCode::UnsupportedVersion.code());
            let layout = if is_refused { 0 } else { version };
            let response = ApiVersionsResponse::from_bytes(&body, layout)
                .map_err(|error| malformed(address, format!("ApiVersions: {error}")))?;
            match ServedVersions::of(&response) {
                Ok(versions) => return Ok(versions),
                Err(ErrorCode::UnsupportedVersion) if version > 0 => {
                    version = next_version(&response, version);
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

    /// Sends `message` in `version` and reads the body of the answer.
    async fn ask<'m, M: wire::Request<'m>>(
        &mut self,
        message: &M,
        version: i16,
        correlation_id: i32,
    ) -> Result<Bytes, Error> {
        let (api, address) = (M::API, self.address);
        let mut request = Request::begin(api, version, &self.options.client_id, Vec::new());
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
            // A transport of the caller's own may keep bytes back.
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

/// The version of ApiVersions to ask in after `refused`, which is above 0: the highest that the refusal
/// names, else 0, and always a lower one.
fn next_version(response: &ApiVersionsResponse<'_>, refused: i16) -> i16 {
    let mut apis = response.api_keys.iter();
    let named = apis.find(|api| api.api_key == ApiKey::ApiVersions as i16);
    let highest = named.map_or(0, |api| api.max_version);
    highest.clamp(0, refused - 1)
}

/// The error for bytes that are no answer.
fn malformed(address: &str, reason: impl Into<String>) -> Error {
    Error::Malformed {
        address: address.to_owned(),
        reason: reason.into(),
    }
}
