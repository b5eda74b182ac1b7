//! The network of a cluster: a relay before each listener, which knows who connects to it.
//!
//! ```text
//!   node 1 ─┐                          ┌──────────┐
//!   node 2 ─┼─ advertised: 127.0.0.1:R │  relay R │─ weather of (who, owner) ─> listener of the owner
//!   client ─┘                          └──────────┘
//! ```
//!
//! All nodes are on one machine, so a connection's address does not say whose it is. The kernel does: the
//! socket at the other end belongs to a process (`/proc/net/tcp`, `/proc/PID/fd`), and the runner knows
//! which processes are nodes. Whoever else connects is a client. A link that is cut passes nothing on, and
//! says nothing of it, as a network that loses every packet; what waits goes on when it heals.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

/// Read from a connection at a time, and as many of them may wait to be passed on.
const CHUNK_BYTES: usize = 16 * 1024;
const CHUNKS_MAX: usize = 64;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    /// A node of the cluster, by its id.
    Node(i32),
    /// Any process that is no node.
    Client,
}

/// What befalls what one party sends to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weather {
    /// Nothing comes through.
    pub(crate) is_cut: bool,
    /// How late everything comes.
    pub(crate) delay: Duration,
    /// The most that comes through, of all connections together.
    pub(crate) bytes_per_second: Option<u32>,
}

/// The relays of one cluster; dropping it ends them.
#[derive(Debug)]
pub(crate) struct Network {
    runtime: Option<Runtime>,
    links: Arc<Links>,
}

/// What is known of the parties.
#[derive(Debug, Default)]
struct Links {
    /// Each direction on its own: who sends, and who is sent to.
    directions: Mutex<BTreeMap<(Party, Party), Arc<Direction>>>,
    /// The nodes' processes.
    nodes: Mutex<BTreeMap<u32, i32>>,
}

#[derive(Debug)]
struct Direction {
    weather: watch::Sender<Weather>,
    /// When what has been sent already is through, by its limit.
    free_at: Mutex<Instant>,
}

impl Network {
    /// A network without relays.
    pub(crate) fn new() -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("relays")
            .enable_all()
            .build()?;
        Ok(Self {
            runtime: Some(runtime),
            links: Arc::default(),
        })
    }

    /// Starts a relay to the listener that a node has on `port`, and returns its port.
    pub(crate) fn relay(&self, owner: i32, port: u16) -> Result<u16> {
        let runtime = self.runtime.as_ref().context("the relays run")?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?;
        let target = SocketAddr::from(([127, 0, 0, 1], port));
        runtime.spawn(listen(listener, self.links.clone(), owner, target));
        Ok(address.port())
    }

    /// Says which process a node is now.
    pub(crate) fn set_process(&self, node: i32, process: u32) {
        let mut nodes = lock(&self.links.nodes);
        nodes.retain(|_, known| *known != node);
        nodes.insert(process, node);
    }

    /// Cuts each of some parties off from each of the others, both ways.
    pub(crate) fn cut(&self, some: &[Party], others: &[Party]) {
        for one in some {
            for other in others.iter().filter(|other| *other != one) {
                for pair in [(*one, *other), (*other, *one)] {
                    let direction = self.links.direction(pair);
                    direction
                        .weather
                        .send_modify(|weather| weather.is_cut = true);
                }
            }
        }
    }

    /// What some parties send each other comes late and slowly from here on.
    pub(crate) fn slow(&self, parties: &[Party], delay: Duration, bytes_per_second: u32) {
        for from in parties {
            for to in parties.iter().filter(|to| *to != from) {
                let direction = self.links.direction((*from, *to));
                direction.weather.send_modify(|weather| {
                    weather.delay = delay;
                    weather.bytes_per_second = Some(bytes_per_second);
                });
            }
        }
    }

    /// Nothing is cut, late or slow any more.
    pub(crate) fn heal(&self) {
        for direction in lock(&self.links.directions).values() {
            direction.weather.send_replace(Weather::default());
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Links {
    fn direction(&self, pair: (Party, Party)) -> Arc<Direction> {
        let mut directions = lock(&self.directions);
        let fair = || {
            Arc::new(Direction {
                weather: watch::Sender::new(Weather::default()),
                free_at: Mutex::new(Instant::now()),
            })
        };
        directions.entry(pair).or_insert_with(fair).clone()
    }

    /// Whose the other end of a connection is.
    fn party(&self, peer: SocketAddr, own: SocketAddr) -> Party {
        let nodes = lock(&self.nodes).clone();
        let is_node = socket_inode(peer.port(), own.port())
            .and_then(|inode| nodes.into_iter().find(|(id, _)| has_socket(*id, inode)));
        is_node.map_or(Party::Client, |(_, node)| Party::Node(node))
    }
}

impl Direction {
    /// Waits until a chunk that came at `came` may be passed on.
    async fn pass(&self, weather: &mut watch::Receiver<Weather>, came: Instant, size: usize) {
        loop {
            // The sender lives as long as `self`.
            let _ = weather.wait_for(|weather| !weather.is_cut).await;
            let now = *weather.borrow_and_update();
            let mut due = came + now.delay;
            if let Some(limit) = now.bytes_per_second {
                let took = Duration::from_secs_f64(size as f64 / f64::from(limit.max(1)));
                let mut free_at = lock(&self.free_at);
                *free_at = (*free_at).max(Instant::now()) + took;
                due = due.max(*free_at);
            }
            tokio::select! {
                () = tokio::time::sleep_until(due) => return,
                _ = weather.changed() => {}
            }
        }
    }
}

async fn listen(listener: TcpListener, links: Arc<Links>, owner: i32, target: SocketAddr) {
    loop {
        // A connection that is gone before it is taken is nobody's.
        let Ok((client, peer)) = listener.accept().await else {
            continue;
        };
        let links = links.clone();
        tokio::spawn(async move {
            let own = client.local_addr().unwrap_or(target);
            // It reads the names of all files that the nodes have open, and others are not to wait for it.
            let asked = links.clone();
            let asked = tokio::task::spawn_blocking(move || asked.party(peer, own));
            let (who, owner) = (asked.await.unwrap_or(Party::Client), Party::Node(owner));
            let there = links.direction((who, owner));
            let back = links.direction((owner, who));
            // What goes wrong is a party that has gone.
            let _ = serve(client, target, &there, &back).await;
        });
    }
}

/// Relays one connection until one end breaks it, or both have ended it.
async fn serve(
    client: TcpStream,
    target: SocketAddr,
    there: &Arc<Direction>,
    back: &Arc<Direction>,
) -> io::Result<()> {
    let mut weather = there.weather.subscribe();
    there.pass(&mut weather, Instant::now(), 0).await;
    let server = TcpStream::connect(target).await?;
    server.set_nodelay(true)?;
    client.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::try_join!(
        pump(from_client, to_server, there),
        pump(from_server, to_client, back)
    )?;
    Ok(())
}

/// Passes on what one end sends, as the weather allows, and the end of it.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    direction: &Arc<Direction>,
) -> io::Result<()> {
    let (sender, mut chunks) = mpsc::channel::<(Instant, io::Result<Vec<u8>>)>(CHUNKS_MAX);
    let reading = async {
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let read = from.read(&mut chunk).await;
            let chunk = read.map(|count| {
                chunk.truncate(count);
                chunk
            });
            let is_last = chunk.as_ref().map_or(true, Vec::is_empty);
            if sender.send((Instant::now(), chunk)).await.is_err() || is_last {
                drop(sender);
                return io::Result::Ok(());
            }
        }
    };
    let writing = async {
        let mut weather = direction.weather.subscribe();
        while let Some((came, chunk)) = chunks.recv().await {
            let size = chunk.as_ref().map_or(0, Vec::len);
            direction.pass(&mut weather, came, size).await;
            to.write_all(&chunk?).await?;
        }
        to.shutdown().await
    };
    tokio::try_join!(reading, writing)?;
    Ok(())
}

/// The inode of the socket that has `local` as its port and is connected to `remote`.
fn socket_inode(local: u16, remote: u16) -> Option<u64> {
    let ends = |address: &str| u16::from_str_radix(address.rsplit(':').next()?, 16).ok();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let (Some(from), Some(to), Some(inode)) = (fields.get(1), fields.get(2), fields.get(9))
            else {
                continue;
            };
            if ends(from) == Some(local) && ends(to) == Some(remote) {
                return inode.parse().ok();
            }
        }
    }
    None
}

/// Whether a process has the socket open.
fn has_socket(process: u32, inode: u64) -> bool {
    let wanted = format!("socket:[{inode}]");
    let files = fs::read_dir(format!("/proc/{process}/fd"));
    files.into_iter().flatten().flatten().any(|file| {
        let target = fs::read_link(file.path());
        target.is_ok_and(|target| target.as_os_str() == wanted.as_str())
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const OWNER: i32 = 7;

    /// A server that sends back what it gets, behind a relay of `OWNER`.
    fn echo(network: &Network) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection comes");
                std::thread::spawn(move || {
                    let mut chunk = [0; 100];
                    while let Ok(count @ 1..) = stream.read(&mut chunk) {
                        if stream.write_all(&chunk[..count]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        network.relay(OWNER, port).expect("a relay starts")
    }

    fn connect(port: u16) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the relay listens");
        let limit = Duration::from_secs(20);
        stream
            .set_read_timeout(Some(limit))
            .expect("it is a socket");
        stream
    }

    fn exchange(stream: &mut TcpStream, text: &str) -> String {
        stream.write_all(text.as_bytes()).expect("it is open");
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).expect("an answer comes");
        String::from_utf8(answer).expect("it is text")
    }

    #[test]
    fn a_link_is_cut_by_who_connects_and_goes_on_when_it_heals() {
        let network = Network::new().expect("threads start");
        let port = echo(&network);
        let mut as_client = connect(port);
        assert_eq!(exchange(&mut as_client, "one"), "one");
        network.cut(&[Party::Client], &[Party::Node(OWNER)]);
        // From here on this process is a node, to which nothing is cut.
        network.set_process(8, std::process::id());
        let mut as_node = connect(port);
        assert_eq!(exchange(&mut as_node, "two"), "two");
        as_client.write_all(b"three").expect("the relay takes it");
        let wait = Some(Duration::from_millis(100));
        as_client.set_read_timeout(wait).expect("it is a socket");
        let mut answer = [0; 5];
        assert!(
            as_client.read_exact(&mut answer).is_err(),
            "the link is cut"
        );
        network.heal();
        let limit = Some(Duration::from_secs(20));
        as_client.set_read_timeout(limit).expect("it is a socket");
        as_client.read_exact(&mut answer).expect("it comes now");
        assert_eq!(&answer, b"three");
    }

    #[test]
    fn what_is_sent_comes_late_and_an_end_is_passed_on() {
        let network = Network::new().expect("threads start");
        let port = echo(&network);
        let delay = Duration::from_millis(40);
        network.slow(&[Party::Client, Party::Node(OWNER)], delay, 1_000_000);
        let started = std::time::Instant::now();
        let mut stream = connect(port);
        assert_eq!(exchange(&mut stream, "late"), "late");
        assert!(started.elapsed() >= 2 * delay, "both ways are late");
        network.heal();
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("it is open");
        assert_eq!(stream.read(&mut [0; 1]).expect("the end comes"), 0);
    }
}
