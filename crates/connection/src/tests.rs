//! Connections over sockets.

use crate::{
    Backoff, Connection, Connector, Deadline, Endpoint, Error, Options, Request, SettingNames,
};
use bytes::{BufMut as _, Bytes};
use model::Message as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::Instant;
use wire::ApiKey;
use wire::messages::ApiVersionsResponse;
use wire::messages::api_versions_response::ApiVersion;

/// An API whose headers are the plainest in this version.
const API: ApiKey = ApiKey::Heartbeat;
const VERSION: i16 = 0;
/// Bytes before the body of such a request: numbers, correlation id, client id.
const HEADER_BYTES: usize = 2 + 2 + 4 + 2 + 2;

/// What the tests of this crate say of themselves.
pub(crate) fn options() -> Options {
    Options {
        client_id: "me".to_owned(),
        software_name: "tests",
        software_version: "1",
        request_timeout_ms: 20_000,
        setup_timeout: Backoff {
            base_ms: 10_000,
            max_ms: 30_000,
        },
        reconnect: Backoff {
            base_ms: 50,
            max_ms: 1_000,
        },
        idle_max: None,
        send_buffer_bytes: None,
        receive_buffer_bytes: None,
        response_bytes_max: 100_000_000,
        in_flight_max: 64,
        hold_max: Duration::from_secs(60),
        connector: Connector::default(),
        names: SettingNames {
            addresses: "brokers",
            request_timeout: "request.timeout.ms",
            setup_timeout: "setup.timeout.ms",
            idle_max: "idle.max.ms",
            response_bytes_max: "response.max.bytes",
        },
    }
}

/// A frame as the peer reads it, without its size.
async fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size).await.ok()?;
    let mut frame = vec![0; u32::from_be_bytes(size) as usize];
    stream.read_exact(&mut frame).await.ok()?;
    Some(frame)
}

/// The answer to a request: its correlation id, then `body`.
fn answer(request: &[u8], body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.put_u32(4 + body.len() as u32);
    frame.extend_from_slice(&request[4..8]);
    frame.extend_from_slice(body);
    frame
}

/// Connects to a peer that does as `peer` says once versions are agreed on.
async fn connect<F>(options: Options, peer: impl FnOnce(TcpStream) -> F) -> Connection
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("is bound");
    let endpoint = Endpoint::new("127.0.0.1", address.port());
    let opened = tokio::spawn(async move { Connection::open(&endpoint, "peer", &options).await });
    let (mut stream, _) = listener.accept().await.expect("connects");
    let request = read_frame(&mut stream).await.expect("asks");
    let apis = [ApiVersion {
        api_key: API as i16,
        min_version: 0,
        max_version: VERSION,
    }];
    let versions = ApiVersionsResponse {
        api_keys: apis[..].into(),
        ..ApiVersionsResponse::default()
    };
    let version = i16::from_be_bytes([request[2], request[3]]);
    let frame = answer(&request, &versions.to_bytes(version));
    stream.write_all(&frame).await.expect("takes it");
    tokio::spawn(peer(stream));
    opened.await.expect("no panic").expect("is opened")
}

/// Answers each request with its own body.
async fn echo(mut stream: TcpStream) {
    while let Some(frame) = read_frame(&mut stream).await {
        let frame = answer(&frame, &frame[HEADER_BYTES..]);
        if stream.write_all(&frame).await.is_err() {
            return;
        }
    }
}

fn request(connection: &Connection, body: &[u8]) -> Request {
    let mut request = connection.request(API, VERSION);
    request.body().extend_from_slice(body);
    request
}

#[tokio::test]
async fn every_request_gets_its_own_answer() {
    let connection = connect(options(), echo).await;
    let mut pending = Vec::new();
    for number in 0..1_000_u32 {
        let body = number.to_be_bytes().repeat(1 + number as usize % 50);
        let deadline = connection.request_deadline();
        let request = request(&connection, &body);
        pending.push((
            body,
            connection.send(request, deadline).await.expect("is sent"),
        ));
    }
    for (body, pending) in pending {
        let answer = pending.await.expect("is answered");
        assert_eq!(answer.body(), &body[..]);
        assert_eq!(answer.version(), VERSION);
    }
}

#[tokio::test]
async fn slices_arrive_between_the_fields_and_large_answers_whole() {
    let connection = connect(options(), echo).await;
    for size in [0, 1, 5_000, 70_000, 3_000_000] {
        let slice = Bytes::from(vec![b's'; size]);
        let mut request = request(&connection, b"before");
        request.append_slice(slice.clone());
        request.body().extend_from_slice(b"after");
        let deadline = connection.request_deadline();
        let pending = connection.send(request, deadline).await.expect("is sent");
        let answer = pending.await.expect("is answered");
        let expect = [b"before", &slice[..], b"after"].concat();
        assert!(answer.body() == &expect[..], "{size}");
    }
}

#[tokio::test]
async fn no_more_requests_are_in_flight_than_may_be() {
    let mut options = options();
    options.in_flight_max = 3;
    let arrived = Arc::new(AtomicUsize::new(0));
    let counter = arrived.clone();
    let (go, may_answer) = oneshot::channel::<()>();
    let connection = connect(options, async move |mut stream: TcpStream| {
        let mut unanswered = Vec::new();
        for _ in 0..3 {
            unanswered.push(read_frame(&mut stream).await.expect("arrives"));
        }
        counter.store(3, Ordering::SeqCst);
        may_answer.await.expect("the test goes on");
        let more = stream.try_read(&mut [0; 1]);
        assert!(more.is_err(), "a fourth request came without an answer");
        for frame in unanswered {
            stream
                .write_all(&answer(&frame, b""))
                .await
                .expect("takes it");
        }
        echo(stream).await;
    })
    .await;
    let deadline = connection.request_deadline();
    let mut pending = Vec::new();
    for _ in 0..10 {
        let request = request(&connection, b"");
        pending.push(connection.send(request, deadline).await.expect("is queued"));
    }
    while arrived.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    go.send(()).expect("the peer waits");
    for pending in pending {
        pending.await.expect("is answered");
    }
}

/// KIP-219: from version 1 on an answer of this API begins with a time, which `echo` takes from the
/// request.
#[tokio::test]
async fn a_broker_that_throttles_is_left_alone_for_as_long() {
    const THROTTLE_MS: u32 = 250;
    let connection = connect(options(), echo).await;
    let send = async |throttle_ms: u32, deadline: Deadline| {
        let mut request = connection.request(API, 1);
        request.body().extend_from_slice(&throttle_ms.to_be_bytes());
        connection.send(request, deadline).await
    };
    let started = Instant::now();
    let first = send(THROTTLE_MS, connection.request_deadline()).await;
    first.expect("is sent").await.expect("is answered");
    let soon = Deadline::after_ms(20, "request.timeout.ms");
    let early = send(0, soon).await.expect("waits for its turn");
    let later = send(0, connection.request_deadline()).await;
    let error = early.await.expect_err("may not be sent in time");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    later
        .expect("waits for its turn")
        .await
        .expect("is answered");
    let waited_ms = started.elapsed().as_millis();
    assert!(waited_ms >= u128::from(THROTTLE_MS), "{waited_ms} ms");
    // Then it goes on as before.
    let last = send(0, connection.request_deadline()).await;
    last.expect("is sent").await.expect("is answered");
}

#[tokio::test]
async fn a_late_answer_ends_the_connection_for_all() {
    let connection = connect(options(), async |stream: TcpStream| {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let soon = Deadline::after_ms(20, "request.timeout.ms");
    let later = connection.request_deadline();
    let first = request(&connection, b"");
    let first = connection.send(first, later).await.expect("is sent");
    let second = request(&connection, b"");
    let second = connection.send(second, soon).await.expect("is sent");
    let error = second.await.expect_err("is late");
    assert!(
        matches!(&error, Error::TimedOut { address, setting: "request.timeout.ms", .. } if address == "peer"),
        "{error}"
    );
    let error = first.await.expect_err("its connection is gone");
    assert!(matches!(error, Error::Disconnected { .. }), "{error}");
    connection.closed().await;
    let again = request(&connection, b"");
    let error = connection.send(again, later).await.expect_err("is closed");
    assert!(
        error.to_string().contains("got no answer within"),
        "{error}"
    );
}

#[tokio::test]
async fn a_peer_that_closes_fails_what_is_in_flight() {
    let connection = connect(options(), async |mut stream: TcpStream| {
        read_frame(&mut stream).await;
    })
    .await;
    let deadline = connection.request_deadline();
    let request = request(&connection, b"");
    let pending = connection.send(request, deadline).await.expect("is sent");
    let error = pending.await.expect_err("is not answered");
    assert!(matches!(error, Error::Disconnected { .. }), "{error}");
    connection.closed().await;
    assert!(connection.is_closed());
}

#[tokio::test]
async fn a_request_without_an_answer_is_done_when_it_has_left() {
    let (arrived, has_arrived) = oneshot::channel();
    let connection = connect(options(), async move |mut stream: TcpStream| {
        let frame = read_frame(&mut stream).await.expect("arrives");
        arrived
            .send(frame[HEADER_BYTES..].to_vec())
            .expect("is awaited");
        echo(stream).await;
    })
    .await;
    let deadline = connection.request_deadline();
    let silent = request(&connection, b"silent").without_answer();
    let pending = connection.send(silent, deadline).await.expect("is sent");
    assert!(pending.await.expect("has left").body().is_empty());
    assert_eq!(has_arrived.await.as_deref(), Ok(&b"silent"[..]));
    let loud = request(&connection, b"loud");
    let pending = connection.send(loud, deadline).await.expect("is sent");
    assert_eq!(pending.await.expect("is answered").body(), &b"loud"[..]);
}

#[tokio::test]
async fn an_idle_connection_closes_and_so_does_one_that_nobody_holds() {
    let mut idle = options();
    idle.idle_max = Some(Duration::from_millis(10));
    let connection = connect(idle, echo).await;
    connection.closed().await;

    let (ended, has_ended) = oneshot::channel();
    let connection = connect(options(), async move |mut stream: TcpStream| {
        let frame = read_frame(&mut stream).await.expect("arrives");
        let frame = answer(&frame, b"last");
        stream.write_all(&frame).await.expect("takes it");
        assert_eq!(read_frame(&mut stream).await, None);
        ended.send(()).expect("is awaited");
    })
    .await;
    let deadline = connection.request_deadline();
    let last = request(&connection, b"");
    let pending = connection.send(last, deadline).await.expect("is sent");
    drop(connection);
    assert_eq!(pending.await.expect("is answered").body(), &b"last"[..]);
    has_ended.await.expect("the peer sees the end");
}
