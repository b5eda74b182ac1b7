//! Partitions are given up while the coordinator takes no commits.

use crate::harness::{Error, IN_TIME, TestBroker, await_state, config, until, write};
use riverrun_client::TopicPartition;
use riverrun_client::admin::{AdminConfig, NewTopic};
use riverrun_client::blocking::{Admin, Consumer};
use riverrun_client::consumer::ConsumerConfig;
use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, State};
use riverrun_streams::topology::Topology;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

const OFFSET_COMMIT: i16 = 8;
const REPARTITION: &str = "words-KSTREAM-REPARTITION-0000000002-repartition";

/// The way to a broker, which may be closed to commits: whoever sends one is cut off.
struct Way {
    listener: TcpListener,
    takes_commits: Arc<AtomicBool>,
}

impl Way {
    fn new() -> Result<Self, Error> {
        Ok(Self {
            listener: TcpListener::bind("127.0.0.1:0")?,
            takes_commits: Arc::new(AtomicBool::new(true)),
        })
    }

    fn open(self, broker: String) -> Arc<AtomicBool> {
        let takes_commits = Arc::clone(&self.takes_commits);
        std::thread::spawn(move || {
            for client in self.listener.incoming() {
                let (Ok(client), Ok(server)) = (client, TcpStream::connect(&broker)) else {
                    return;
                };
                let takes_commits = Arc::clone(&self.takes_commits);
                let _ = pass_on(&client, &server, takes_commits);
            }
        });
        takes_commits
    }
}

/// Hands requests to the server, and what it says to the client.
fn pass_on(
    client: &TcpStream,
    server: &TcpStream,
    takes_commits: Arc<AtomicBool>,
) -> std::io::Result<()> {
    let (mut requests, mut to_server) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        while let Some(request) = read_frame(&mut requests) {
            let is_commit = request[4..].starts_with(&OFFSET_COMMIT.to_be_bytes());
            let is_taken = !is_commit || takes_commits.load(Ordering::SeqCst);
            if !is_taken || to_server.write_all(&request).is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Both);
        let _ = requests.shutdown(Shutdown::Both);
    });
    let (mut answers, mut to_client) = (server.try_clone()?, client.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut answers, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// A whole request, with its length.
fn read_frame(requests: &mut TcpStream) -> Option<Vec<u8>> {
    let mut frame = vec![0; 4];
    requests.read_exact(&mut frame).ok()?;
    let length = u32::from_be_bytes(frame[..4].try_into().ok()?);
    frame.resize(4 + length as usize, 0);
    requests.read_exact(&mut frame[4..]).ok()?;
    Some(frame)
}

fn topology(seen: mpsc::Sender<String>) -> Result<Topology, Error> {
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .select_key(|_, word| word.clone())
        .repartition()
        .for_each(move |_, word| {
            let _ = seen.send(word.clone());
        });
    Ok(builder.build()?)
}

/// What a rebalance could not commit is committed later by who has kept it, although no record comes; and nothing is
/// purged before.
#[test]
fn what_a_revocation_could_not_commit_is_committed_later() -> Result<(), Error> {
    let way = Way::new()?;
    let advertised = format!("PLAINTEXT://{}", way.listener.local_addr()?);
    let broker = TestBroker::start_with(|broker| broker.set("advertised.listeners", advertised))?;
    let takes_commits = way.open(broker.bootstrap_servers().to_owned());
    let servers = broker.bootstrap_servers();
    let admin = Admin::new(AdminConfig::with_bootstrap_servers(servers)?)?;
    let topics = [NewTopic::new("words").partitions(2)];
    let created = admin.call(async |admin| admin.create_topics(&topics).await)?;
    created.into_values().try_for_each(|one| one.map(|_| ()))?;
    let (one, two) = (trials::directory(), trials::directory());
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, one.path())?;
    config.num_stream_threads = 1;
    config.heartbeat_interval_ms = 50;
    config.repartition_purge_interval_ms = 0;
    let timeout = ("default.api.timeout.ms".to_owned(), "300".to_owned());
    config.overrides.main_consumer.extend([timeout]);
    takes_commits.store(false, Ordering::SeqCst);
    let (seen, is_seen) = mpsc::channel();
    let first = KafkaStreams::new(topology(seen)?, config.clone());
    first.start()?;
    let words = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let records = words.map(|word| (word, word));
    write(&broker, "words", &records)?;
    for _ in words {
        is_seen.recv_timeout(IN_TIME)?;
    }
    config.state_dir = two.path().to_owned();
    let (seen, _is_seen) = mpsc::channel();
    let second = KafkaStreams::new(topology(seen)?, config);
    second.start()?;
    await_state(&second, State::Running)?;
    await_state(&first, State::Running)?;
    let mut reader = ConsumerConfig::new(servers, "words")?;
    reader.allow_auto_create_topics = false;
    let mut reader = Consumer::new(reader)?;
    let parts: Vec<_> = ["words", REPARTITION]
        .iter()
        .flat_map(|topic| (0..2).map(|part| TopicPartition::new(*topic, part)))
        .collect();
    let begins = reader.call(async |reader| reader.beginning_offsets(&parts).await)?;
    assert!(begins.values().all(|begin| *begin == 0), "{begins:?}");
    takes_commits.store(true, Ordering::SeqCst);
    until(&mut reader, async |reader| {
        let ends = reader.end_offsets(&parts).await?;
        let committed = reader.committed(&parts).await?;
        Ok(ends.iter().all(|(part, end)| {
            let committed = committed.get(part).map_or(0, |committed| committed.offset);
            *end == committed
        }))
    })?;
    first.close_within(Duration::from_secs(60))?;
    second.close_within(Duration::from_secs(60))?;
    Ok(())
}
