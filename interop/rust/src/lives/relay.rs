//! A relay between one client and the server: it loses requests and answers, delays them, holds them
//! back and cuts connections.
//!
//! ```text
//!   client ── Transport ──> Relay ── requests, each lost, delayed or passed on ──> server
//!                             └───── answers, each lost or passed on <───────────────┘
//! ```
//!
//! Kafka's protocol cannot tell a request that arrives late from a new one. So a connection that ends
//! ends for its client only when the server has done what it was asked for before: what the client
//! sends on another connection comes after it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use interpreter::Random;
use riverrun_client::config::Endpoint;
use riverrun_client::transport::{BoxFuture, ByteStream, Transport};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::{Seeded, below_ms};

/// Requests that change something, by the numbers of their APIs: Produce, OffsetCommit,
/// InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn and TxnOffsetCommit.
const CHANGES: [i16; 7] = [0, 8, 22, 24, 25, 26, 28];
/// The first request of a connection tells nothing of the client under test.
const API_VERSIONS: i16 = 18;
/// How long the server may take for them.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
/// The most that a request is delayed.
const DELAY_END_MS: usize = 300;

/// A relay on a port of its own; every broker is behind it. It ends with its runtime.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    random: Seeded,
    /// Of a hundred requests so many meet some fault.
    fault_percent: AtomicUsize,
    /// Counts the times that all connections were cut.
    cuts: watch::Sender<u64>,
    /// Whether requests are held back.
    is_stalled: watch::Sender<bool>,
}

/// What befalls a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The server does not hear it, and the connection ends.
    Lose,
    /// It is done, and the connection ends instead of an answer.
    LoseAnswer,
    Delay(Duration),
}

/// What of a connection's requests has not been answered.
#[derive(Debug, Default)]
struct Waiting {
    /// The API of each request that changes something, by its correlation id.
    changes: BTreeMap<i32, i16>,
    /// The request whose answer is lost.
    lost: Option<i32>,
}

impl Relay {
    /// Starts to relay to `server`. All that is random comes of `seed`.
    pub(crate) async fn start(server: &str, seed: u64) -> Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let mut servers = tokio::net::lookup_host(server).await?;
        let shared = Arc::new(Shared {
            server: servers.next().context("the server has no address")?,
            random: Seeded::new(Random::new(seed)),
            fault_percent: AtomicUsize::new(0),
            cuts: watch::Sender::new(0),
            is_stalled: watch::Sender::new(false),
        });
        let address = listener.local_addr()?;
        tokio::spawn(listen(listener, shared.clone()));
        Ok(Arc::new(Self { address, shared }))
    }

    /// From here on so many of a hundred requests meet some fault.
    pub(crate) fn set_fault_percent(&self, percent: usize) {
        self.shared.fault_percent.store(percent, Ordering::Relaxed);
    }

    /// Ends every connection.
    pub(crate) fn cut(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// Holds requests back until [`Relay::resume`].
    pub(crate) fn stall(&self) {
        self.shared.is_stalled.send_replace(true);
    }

    /// Passes on what was held back.
    pub(crate) fn resume(&self) {
        self.shared.is_stalled.send_replace(false);
    }
}

impl Transport for Relay {
    fn connect<'a>(&'a self, _: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn ByteStream>)
        })
    }
}

impl Shared {
    fn fault_of(&self, api: i16) -> Option<Fault> {
        let percent = self.fault_percent.load(Ordering::Relaxed);
        self.random.draw(|random| {
            let is_meant = api != API_VERSIONS && random.below(100) < percent;
            is_meant.then(|| match random.below(3) {
                0 => Fault::Lose,
                1 => Fault::LoseAnswer,
                _ => Fault::Delay(below_ms(random, DELAY_END_MS)),
            })
        })
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = shared.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(client, &shared).await {
                eprintln!("relay: {error}");
            }
        });
    }
}

/// Relays one connection until either side or a fault ends it.
async fn serve(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut server = TcpStream::connect(shared.server).await?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let mut cuts = shared.cuts.subscribe();
    let waiting = std::sync::Mutex::new(Waiting::default());
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let requests = async {
        let mut stalls = shared.is_stalled.subscribe();
        loop {
            let frame = read_frame(&mut from_client).await?;
            let fault = shared.fault_of(api_of(&frame));
            match fault {
                Some(Fault::Lose) => return io::Result::Ok(()),
                Some(Fault::Delay(delay)) => tokio::time::sleep(delay).await,
                Some(Fault::LoseAnswer) | None => {}
            }
            // The sender lives as long as this connection.
            let _ = stalls.wait_for(|is_stalled| !is_stalled).await;
            to_server.write_all(&frame).await?;
            lock(&waiting).note(&frame, fault);
        }
    };
    let answers = async {
        loop {
            let frame = read_frame(&mut from_server).await?;
            if lock(&waiting).is_lost(&frame) {
                return io::Result::Ok(());
            }
            to_client.write_all(&frame).await?;
        }
    };
    tokio::select! {
        biased;
        _ = cuts.changed() => {}
        // A client that goes away and a server that does are no faults of the relay's.
        _ = requests => {}
        _ = answers => {}
    }
    let settling = async {
        while !lock(&waiting).changes.is_empty() {
            match read_frame(&mut from_server).await {
                Ok(frame) => drop(lock(&waiting).is_lost(&frame)),
                Err(_) => break,
            }
        }
    };
    let _ = tokio::time::timeout(SETTLE_LIMIT, settling).await;
    Ok(())
}

fn lock(waiting: &std::sync::Mutex<Waiting>) -> std::sync::MutexGuard<'_, Waiting> {
    waiting
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Waiting {
    /// A request has been passed on.
    fn note(&mut self, request: &[u8], fault: Option<Fault>) {
        let (api, id) = (api_of(request), number_at(request, 8));
        if CHANGES.contains(&api) {
            self.changes.insert(id, api);
        }
        if fault == Some(Fault::LoseAnswer) {
            self.lost = Some(id);
        }
    }

    /// An answer has come; whether it does not reach the client.
    fn is_lost(&mut self, answer: &[u8]) -> bool {
        let id = number_at(answer, 4);
        self.changes.remove(&id);
        self.lost == Some(id)
    }
}

/// The API of a request, which follows its size.
fn api_of(frame: &[u8]) -> i16 {
    match frame.get(4..6) {
        Some([high, low]) => i16::from_be_bytes([*high, *low]),
        _ => -1,
    }
}

fn number_at(frame: &[u8], at: usize) -> i32 {
    match frame.get(at..at + 4) {
        Some([a, b, c, d]) => i32::from_be_bytes([*a, *b, *c, *d]),
        _ => -1,
    }
}

/// A frame with its size.
async fn read_frame(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; 4];
    stream.read_exact(&mut frame).await?;
    let size = number_at(&frame, 0);
    frame.resize(4 + usize::try_from(size).unwrap_or(0), 0);
    stream
        .read_exact(frame.get_mut(4..).unwrap_or_default())
        .await?;
    Ok(frame)
}
