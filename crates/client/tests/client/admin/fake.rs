//! A peer that speaks as much of Kafka's protocol as a test wants.

use model::{BrokerId, ErrorCode, Message, Reader};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::metadata_response::MetadataResponseBroker;
use wire::messages::{ApiVersionsResponse, MetadataResponse};
use wire::{ApiKey, RequestHeader, ResponseHeader, begin_frame, finish_frame};

/// A request as the fake sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    /// Counts the requests of the connection from zero.
    pub(crate) index: usize,
}

/// What the fake does about a request.
#[derive(Debug)]
pub(crate) enum Reaction {
    /// Answers with this body.
    Answer(Vec<u8>),
    /// Answers another request than the one that was sent.
    WrongCorrelationId(Vec<u8>),
    /// Sends these bytes.
    Bytes(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Does nothing, and keeps the connection.
    Hang,
}

/// A peer that listens.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
}

impl Fake {
    /// Reacts to each request as `react` says, until the runtime ends.
    pub(crate) async fn start(
        react: impl Fn(SocketAddr, Asked) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let react = Arc::new(move |asked| react(address, asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, react.clone()));
            }
        });
        Self { address }
    }
}

async fn serve(mut stream: TcpStream, react: Arc<impl Fn(Asked) -> Reaction>) {
    let mut index = 0;
    loop {
        let mut size = [0; 4];
        if stream.read_exact(&mut size).await.is_err() {
            return;
        }
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        if stream.read_exact(&mut frame).await.is_err() {
            return;
        }
        let header = RequestHeader::decode(&mut Reader::new(&frame)).unwrap();
        let asked = Asked {
            api: ApiKey::from_number(header.api_key).unwrap(),
            version: header.api_version,
            index,
        };
        index += 1;
        let bytes = match react(asked) {
            Reaction::Answer(body) => answer(asked, header.correlation_id, &body),
            Reaction::WrongCorrelationId(body) => answer(asked, header.correlation_id + 1, &body),
            Reaction::Bytes(bytes) => bytes,
            Reaction::Close => return,
            Reaction::Hang => std::future::pending().await,
        };
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

fn answer(asked: Asked, correlation_id: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let start = begin_frame(&mut frame);
    let version = asked.api.response_header_version(asked.version);
    ResponseHeader { correlation_id }.encode(version, &mut frame);
    frame.extend_from_slice(body);
    finish_frame(&mut frame, start, 0);
    frame
}

/// The answer to ApiVersions of a broker that serves everything.
pub(crate) fn versions(asked: Asked) -> Reaction {
    let apis = ApiKey::all().map(|facts| ApiVersion {
        api_key: facts.key as i16,
        min_version: facts.min_version,
        max_version: facts.max_stable_version,
    });
    let response = ApiVersionsResponse {
        api_keys: apis.collect(),
        ..ApiVersionsResponse::default()
    };
    Reaction::Answer(response.to_bytes(asked.version))
}

/// The answer to Metadata of a cluster whose broker 1 is at `address`.
pub(crate) fn metadata(asked: Asked, address: SocketAddr, code: ErrorCode) -> Reaction {
    let host = address.ip().to_string();
    let brokers = [MetadataResponseBroker {
        node_id: BrokerId(1),
        host: &host,
        port: i32::from(address.port()),
        rack: None,
    }];
    let response = MetadataResponse {
        brokers: brokers[..].into(),
        cluster_id: Some("fake"),
        controller_id: BrokerId(1),
        error_code: code.code(),
        ..MetadataResponse::default()
    };
    Reaction::Answer(response.to_bytes(asked.version))
}
