//! Connections to a broker that is a model: a task at the other end of a pipe in memory, on a clock that
//! only goes when everybody waits.

use bytes::BufMut as _;
use connection::{
    Backoff, BoxFuture, ByteStream, Called, Connection, Connector, Deadline, Endpoint, Error,
    Options, Peer, Pending, Request, Sent, SettingNames, Transport,
};
use model::{ErrorCode, Message as _};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufStream, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use wire::ApiKey;
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::{ApiVersionsRequest, ApiVersionsResponse};

/// An API whose headers are the plainest in this version.
const API: ApiKey = ApiKey::Heartbeat;
const VERSION: i16 = 0;
/// Bytes of a frame before the body of such a request: numbers, correlation id, client id.
const HEADER_BYTES: usize = 2 + 2 + 4 + 2 + 2;
const RESPONSE_BYTES_MAX: usize = 1_000;

/// Says what comes of each attempt to connect.
struct Dial<F>(F);

impl<F> fmt::Debug for Dial<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dial")
    }
}

impl<F: Fn() -> Option<io::Result<DuplexStream>> + Send + Sync> Transport for Dial<F> {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        match (self.0)() {
            Some(dialled) => {
                // What is written is kept back until it is flushed, as by what encrypts.
                let kept_back = |stream| Box::new(BufStream::new(stream)) as Box<dyn ByteStream>;
                let connected = dialled.map(kept_back);
                Box::pin(std::future::ready(connected))
            }
            None => Box::pin(std::future::pending()),
        }
    }
}

/// What a caller says whose attempts to connect end as `dial` says; `None` never ends.
fn options(dial: impl Fn() -> Option<io::Result<DuplexStream>> + Send + Sync + 'static) -> Options {
    Options {
        client_id: "me".to_owned(),
        software_name: "modelled-tests",
        software_version: "7.1",
        request_timeout_ms: 20_000,
        setup_timeout: Backoff {
            base_ms: 1_000,
            max_ms: 3_000,
        },
        reconnect: Backoff {
            base_ms: 50,
            max_ms: 300,
        },
        idle_max: None,
        send_buffer_bytes: None,
        receive_buffer_bytes: None,
        response_bytes_max: RESPONSE_BYTES_MAX,
        in_flight_max: 8,
        hold_max: Duration::from_millis(250),
        connector: Connector {
            transport: Some(Arc::new(Dial(dial))),
            authenticator: None,
        },
        names: SettingNames {
            addresses: "brokers",
            request_timeout: "request.timeout.ms",
            setup_timeout: "setup.timeout.ms",
            idle_max: "idle.max.ms",
            response_bytes_max: "response.max.bytes",
        },
    }
}

fn endpoint() -> Endpoint {
    Endpoint::new("modelled", 1)
}

/// A frame as the broker reads it, without its size.
async fn read_frame(stream: &mut DuplexStream) -> Option<Vec<u8>> {
    let size = stream.read_u32().await.ok()?;
    let mut frame = vec![0; size as usize];
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

/// Reads the first request, ApiVersions, and names the one API that is served.
async fn agree(stream: &mut DuplexStream) {
    let request = read_frame(stream).await.expect("asks");
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
}

/// What a caller says who meets a broker that does as `broker` says once versions are agreed on.
fn meeting<F: Future<Output = ()> + Send + 'static>(
    broker: impl Fn(DuplexStream) -> F + Clone + Send + Sync + 'static,
) -> Options {
    options(move || {
        let (here, mut there) = tokio::io::duplex(1 << 16);
        let broker = broker.clone();
        tokio::spawn(async move {
            agree(&mut there).await;
            broker(there).await;
        });
        Some(Ok(here))
    })
}

async fn connect(options: &Options) -> Connection {
    let opened = Connection::open(&endpoint(), "modelled:1", options).await;
    opened.expect("is opened")
}

async fn send(connection: &Connection, body: &[u8]) -> Pending {
    let mut request: Request = connection.request(API, VERSION);
    request.body().extend_from_slice(body);
    let sent = connection
        .send(request, connection.request_deadline())
        .await;
    sent.expect("is sent")
}

/// What any later request hears.
async fn refusals(connection: &Connection) -> [String; 2] {
    connection.closed().await;
    assert!(connection.is_closed());
    let request = || connection.request(API, VERSION);
    let deadline = connection.request_deadline();
    let sent = connection.send(request(), deadline).await;
    let tried = connection
        .try_send(request(), deadline)
        .map(|sent| match sent {
            Sent::Pending(_) => "sent",
            Sent::Full => "full",
        });
    [
        sent.expect_err("it has ended").to_string(),
        tried.expect_err("it has ended").to_string(),
    ]
}

#[tokio::test(start_paused = true)]
async fn answers_in_pieces_reach_the_requests_that_they_answer() {
    const COUNT: u8 = 5;
    let options = meeting(async |mut stream| {
        let mut answers = Vec::new();
        for _ in 0..COUNT {
            let request = read_frame(&mut stream)
                .await
                .expect("does not wait for answers");
            answers.extend(answer(&request, &request[HEADER_BYTES..]));
        }
        for byte in answers {
            stream.write_all(&[byte]).await.expect("takes it");
            tokio::task::yield_now().await;
        }
        read_frame(&mut stream).await;
    });
    let connection = connect(&options).await;
    let mut pending = Vec::new();
    for number in 0..COUNT {
        pending.push((
            number,
            send(&connection, &vec![number; usize::from(number)]).await,
        ));
    }
    for (number, pending) in pending {
        let answer = pending.await.expect("is answered");
        assert_eq!(answer.body(), &vec![number; usize::from(number)]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_out_of_order_ends_the_connection_for_all() {
    let options = meeting(async |mut stream| {
        read_frame(&mut stream).await.expect("arrives");
        let second = read_frame(&mut stream).await.expect("arrives");
        let early = answer(&second, b"");
        stream.write_all(&early).await.expect("takes it");
        read_frame(&mut stream).await;
    });
    let connection = connect(&options).await;
    let (first, second) = (send(&connection, b"").await, send(&connection, b"").await);
    let expect = "modelled:1 sent what is no answer of Kafka's protocol: an answer with correlation id \
                  257 where Heartbeat with 256 was next";
    for pending in [first, second] {
        let error = pending.await.expect_err("nobody knows whose answer it was");
        assert!(matches!(error, Error::Malformed { .. }), "{error}");
        assert_eq!(error.to_string(), expect);
    }
    assert_eq!(refusals(&connection).await, [expect, expect]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_asked_for_ends_the_connection() {
    let options = meeting(async |mut stream| {
        // What came with the answer to ApiVersions would be looked at when more comes.
        tokio::time::sleep(Duration::from_millis(1)).await;
        stream
            .write_all(&answer(&[0; 8], b""))
            .await
            .expect("takes it");
        read_frame(&mut stream).await;
    });
    let connection = connect(&options).await;
    for refusal in refusals(&connection).await {
        assert!(
            refusal.ends_with("an answer that nothing was asked for"),
            "{refusal}"
        );
    }
}

/// The body is never sent: the size alone is enough.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_announced_larger_than_the_limit_ends_the_connection() {
    for (announced, is_allowed) in [(RESPONSE_BYTES_MAX, true), (RESPONSE_BYTES_MAX + 1, false)] {
        let options = meeting(move |mut stream: DuplexStream| async move {
            let request = read_frame(&mut stream).await.expect("arrives");
            let mut head = Vec::new();
            head.put_u32(announced as u32);
            head.extend_from_slice(&request[4..8]);
            stream.write_all(&head).await.expect("takes it");
            if is_allowed {
                let rest = vec![1; announced - 4];
                stream.write_all(&rest).await.expect("takes it");
            }
            read_frame(&mut stream).await;
        });
        let connection = connect(&options).await;
        let answered = send(&connection, b"").await.await;
        if is_allowed {
            assert_eq!(answered.expect("is allowed").body().len(), announced - 4);
            assert!(!connection.is_closed());
            continue;
        }
        let error = answered.expect_err("is not allowed").to_string();
        assert!(
            error.ends_with("an answer of 1001 bytes, more than `response.max.bytes` = 1000"),
            "{error}"
        );
        assert_eq!(refusals(&connection).await, [&*error, &*error]);
    }
}

/// What a broker that serves ApiVersions up to `highest` is asked: versions, and whether each named the
/// software. It answers what is above in version 0, and names `named` there.
async fn asked(highest: i16, named: Option<i16>) -> (Vec<(i16, bool)>, Result<bool, Error>) {
    let (heard, mut hearing) = mpsc::unbounded_channel();
    let options = options(move || {
        let (here, mut there) = tokio::io::duplex(1 << 16);
        let heard = heard.clone();
        tokio::spawn(async move {
            while let Some(request) = read_frame(&mut there).await {
                let version = i16::from_be_bytes([request[2], request[3]]);
                // A flexible header ends with its tags.
                let head = HEADER_BYTES + usize::from(version >= 3);
                let message = ApiVersionsRequest::from_bytes(&request[head..], version);
                let message = message.expect("is a request");
                let names = (
                    message.client_software_name,
                    message.client_software_version,
                );
                heard
                    .send((version, names == ("modelled-tests", "7.1")))
                    .expect("is awaited");
                let is_served = version <= highest;
                let served = [ApiVersion {
                    api_key: API as i16,
                    min_version: 0,
                    max_version: VERSION,
                }];
                let refused = [ApiVersion {
                    api_key: ApiKey::ApiVersions as i16,
                    min_version: 0,
                    max_version: named.unwrap_or_default(),
                }];
                let refused = &refused[..usize::from(named.is_some())];
                let response = ApiVersionsResponse {
                    error_code: match is_served {
                        true => ErrorCode::None.code(),
                        false => ErrorCode::UnsupportedVersion.code(),
                    },
                    api_keys: if is_served {
                        served[..].into()
                    } else {
                        refused.into()
                    },
                    ..ApiVersionsResponse::default()
                };
                let layout = if is_served { version } else { 0 };
                let frame = answer(&request, &response.to_bytes(layout));
                if there.write_all(&frame).await.is_err() {
                    return;
                }
            }
        });
        Some(Ok(here))
    });
    let opened = Connection::open(&endpoint(), "modelled:1", &options).await;
    let serves = opened.map(|connection| connection.versions().serves(API));
    let mut versions = Vec::new();
    while let Ok(one) = hearing.try_recv() {
        versions.push(one);
    }
    (versions, serves)
}

/// KIP-511: what a broker does not know it refuses in version 0, with the versions that it has.
#[tokio::test(start_paused = true)]
async fn versions_are_agreed_on_with_brokers_of_any_age() {
    let newest = ApiKey::ApiVersions.facts().max_stable_version;
    let (heard, serves) = asked(newest, None).await;
    assert_eq!((heard, serves), (vec![(newest, true)], Ok(true)));
    let (heard, serves) = asked(2, Some(2)).await;
    assert_eq!(
        (heard, serves),
        (vec![(newest, true), (2, false)], Ok(true))
    );
    // One from before KIP-511 names nothing.
    let (heard, serves) = asked(0, None).await;
    assert_eq!(
        (heard, serves),
        (vec![(newest, true), (0, false)], Ok(true))
    );
    // One that names what it has refused is asked in a lower version all the same.
    let (heard, serves) = asked(1, Some(99)).await;
    let versions: Vec<i16> = heard.iter().map(|(version, _)| *version).collect();
    assert_eq!(versions, (1..=newest).rev().collect::<Vec<_>>());
    assert_eq!(serves, Ok(true));
    // One that serves none at all is no broker for anybody.
    let (heard, serves) = asked(-1, None).await;
    assert_eq!(heard, [(newest, true), (0, false)]);
    let error = serves.expect_err("nothing is served").to_string();
    assert!(error.starts_with("ApiVersions at modelled:1: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_gives_up_the_answer_and_not_the_request() {
    let (heard, mut hearing) = mpsc::unbounded_channel();
    let options = meeting(move |mut stream: DuplexStream| {
        let heard = heard.clone();
        async move {
            while let Some(request) = read_frame(&mut stream).await {
                let body = request[HEADER_BYTES..].to_vec();
                let frame = answer(&request, &body);
                heard.send(body).expect("is awaited");
                stream.write_all(&frame).await.expect("takes it");
            }
        }
    });
    let connection = connect(&options).await;
    drop(send(&connection, b"first").await);
    let second = send(&connection, b"second").await;
    assert_eq!(second.await.expect("is answered").body(), &b"second"[..]);
    assert_eq!(hearing.recv().await.as_deref(), Some(&b"first"[..]));
    assert_eq!(hearing.recv().await.as_deref(), Some(&b"second"[..]));
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_idle_only_when_nothing_is_in_flight() {
    let mut options = meeting(async |mut stream| {
        let request = read_frame(&mut stream).await.expect("arrives");
        tokio::time::sleep(Duration::from_millis(5_000)).await;
        stream
            .write_all(&answer(&request, b""))
            .await
            .expect("takes it");
        read_frame(&mut stream).await;
    });
    options.idle_max = Some(Duration::from_millis(100));
    let connection = connect(&options).await;
    send(&connection, b"")
        .await
        .await
        .expect("is answered, late as it is");
    let answered = Instant::now();
    connection.closed().await;
    // Looked at when the request's deadline, for which there was a timer, has passed.
    let idle_ms = answered.elapsed().as_millis();
    assert!((100..=15_000).contains(&idle_ms), "{idle_ms} ms");
    for refusal in refusals(&connection).await {
        assert!(
            refusal.ends_with("it was idle for `idle.max.ms`"),
            "{refusal}"
        );
    }
}

/// How long a connection that may be idle for 100 ms lives after a request that was made at 60 ms.
async fn lives_after(broker_answers: bool) -> u128 {
    let mut options = meeting(move |mut stream: DuplexStream| async move {
        let request = read_frame(&mut stream).await.expect("arrives");
        if broker_answers {
            tokio::time::sleep(Duration::from_millis(60)).await;
            let frame = answer(&request, b"");
            stream.write_all(&frame).await.expect("takes it");
        }
        read_frame(&mut stream).await;
    });
    options.idle_max = Some(Duration::from_millis(100));
    let connection = connect(&options).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    let mut request = connection.request(API, VERSION);
    if !broker_answers {
        request = request.without_answer();
    }
    // It is looked at when this has passed, if not before.
    let deadline = Deadline::after_ms(150, "request.timeout.ms");
    let sent = connection.send(request, deadline).await;
    sent.expect("is sent").await.expect("is done");
    let used = Instant::now();
    connection.closed().await;
    used.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_idle_from_its_last_request_or_answer_on() {
    for broker_answers in [true, false] {
        let lived_ms = lives_after(broker_answers).await;
        assert!((100..=102).contains(&lived_ms), "{lived_ms} ms");
    }
}

/// Nobody would ever answer it, and so nobody would ever find it late.
#[tokio::test(start_paused = true)]
async fn a_request_without_an_answer_that_cannot_leave_ends_the_connection_in_time() {
    let mut options = meeting(async |stream| {
        std::future::pending::<()>().await;
        drop(stream);
    });
    // The timer goes off before.
    options.idle_max = Some(Duration::from_millis(100));
    let connection = connect(&options).await;
    let mut request = connection.request(API, VERSION);
    request.body().extend_from_slice(&vec![0; 1 << 18]);
    let deadline = Deadline::after_ms(300, "request.timeout.ms");
    let sent = connection.send(request.without_answer(), deadline).await;
    let started = Instant::now();
    let leaving = sent.expect("is queued");
    let left = tokio::time::timeout(Duration::from_millis(1_000), leaving).await;
    let error = left.expect("is given up").expect_err("has not left");
    assert!(
        error.to_string().ends_with("it takes no more bytes"),
        "{error}"
    );
    let waited_ms = started.elapsed().as_millis();
    assert!((300..=302).contains(&waited_ms), "{waited_ms} ms");
}

/// KIP-219: an answer of this version begins with the time for which the broker wants nothing.
#[tokio::test(start_paused = true)]
async fn who_is_held_up_for_too_long_hears_it_in_time() {
    let options = meeting(async |mut stream| {
        while let Some(request) = read_frame(&mut stream).await {
            let frame = answer(&request, &250_u32.to_be_bytes());
            stream.write_all(&frame).await.expect("takes it");
        }
    });
    let connection = connect(&options).await;
    let send = async |timeout_ms| {
        let deadline = Deadline::after_ms(timeout_ms, "request.timeout.ms");
        let request = connection.request(API, 1);
        let sent = connection.send(request, deadline).await;
        sent.expect("is queued").await
    };
    send(1_000).await.expect("is answered");
    let started = Instant::now();
    let error = send(20).await.expect_err("may not be sent in time");
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    let waited_ms = started.elapsed().as_millis();
    assert!((20..=22).contains(&waited_ms), "{waited_ms} ms");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_held_up_for_longer_than_the_settings_say() {
    let options = meeting(async |mut stream| {
        while let Some(request) = read_frame(&mut stream).await {
            let frame = answer(&request, &i32::MAX.to_be_bytes());
            stream.write_all(&frame).await.expect("takes it");
        }
    });
    let connection = connect(&options).await;
    let started = Instant::now();
    for _ in 0..3 {
        let deadline = Deadline::after_ms(1_000, "request.timeout.ms");
        let request = connection.request(API, 1);
        let sent = connection.send(request, deadline).await.expect("is queued");
        sent.await.expect("is answered");
    }
    let waited_ms = started.elapsed().as_millis();
    assert!((500..=504).contains(&waited_ms), "{waited_ms} ms");
}

const CALLED: Called<'static> = Called {
    address: "modelled:1 (broker 1)",
    advice: "look there",
};

fn soon() -> Deadline {
    Deadline::after_ms(60_000, "the test's time")
}

/// What gives waits without any deviation.
const EVEN: u64 = 20_000;

#[tokio::test(start_paused = true)]
async fn attempts_to_connect_are_further_and_further_apart_until_one_succeeds() {
    let started = Instant::now();
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let noted = attempts.clone();
    let options = options(move || {
        let mut noted = noted.lock().expect("nobody panics");
        noted.push(started.elapsed().as_millis());
        if noted.len() != 6 {
            return Some(Err(io::ErrorKind::ConnectionRefused.into()));
        }
        let (here, mut there) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move { agree(&mut there).await });
        Some(Ok(here))
    });
    let peer = Peer::new(endpoint());
    for _ in 0..5 {
        let error = peer.connect(CALLED, &options, soon(), || EVEN).await;
        assert_eq!(
            error.expect_err("is refused").to_string(),
            "no broker answers at modelled:1 (broker 1) within 0 ms: connection refused; look there"
        );
        assert!(peer.live().is_none());
    }
    let connection = peer.connect(CALLED, &options, soon(), || EVEN).await;
    let connection = connection.expect("is accepted");
    // The model ends after the first answer: the next attempt is the first one again, at once.
    connection.closed().await;
    assert!(peer.live().is_none());
    for _ in 0..2 {
        let error = peer.connect(CALLED, &options, soon(), || EVEN).await;
        error.expect_err("is refused");
    }
    let waits: Vec<u128> = {
        let attempts = attempts.lock().expect("nobody panics");
        attempts.windows(2).map(|two| two[1] - two[0]).collect()
    };
    assert_eq!(waits, [50, 100, 200, 300, 300, 0, 50]);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_more_time_than_the_one_that_failed() {
    let options = options(|| None);
    let peer = Peer::new(endpoint());
    for expect in [1_000, 2_000, 3_000, 3_000] {
        let error = peer.connect(CALLED, &options, soon(), || EVEN).await;
        let error = error.expect_err("nothing answers");
        let reason = format!("no connection within {expect} ms (`setup.timeout.ms`); look there");
        let address = CALLED.address.to_owned();
        let (waited_ms, told) = (expect, error);
        assert_eq!(
            told,
            Error::Unreachable {
                address,
                waited_ms,
                reason
            }
        );
    }
    // Who has less time than that hears why the last one failed.
    let hasty = Deadline::after_ms(10, "haste");
    let error = peer.connect(CALLED, &options, hasty, || EVEN).await;
    let error = error.expect_err("nothing answers").to_string();
    assert!(
        error.contains("within 10 ms: no connection within 3000 ms"),
        "{error}"
    );
    let first = Peer::new(endpoint());
    let hasty = Deadline::after_ms(10, "haste");
    let error = first.connect(CALLED, &options, hasty, || EVEN).await;
    assert_eq!(
        error.expect_err("nothing answers").to_string(),
        "connect: no answer from modelled:1 (broker 1) within 10 ms (`haste`)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_peer_is_connected_to_once_for_all_who_ask() {
    let count = Arc::new(Mutex::new(0));
    let counted = count.clone();
    let options = options(move || {
        *counted.lock().expect("nobody panics") += 1;
        let (here, mut there) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(10)).await;
            agree(&mut there).await;
            read_frame(&mut there).await;
        });
        Some(Ok(here))
    });
    let peer = Peer::new(endpoint());
    let ask = || peer.connect(CALLED, &options, soon(), || EVEN);
    let (one, other, another) = tokio::join!(ask(), ask(), ask());
    for connection in [one, other, another] {
        assert!(!connection.expect("is accepted").is_closed());
    }
    assert_eq!(*count.lock().expect("nobody panics"), 1);
    assert!(peer.live().is_some());
}
