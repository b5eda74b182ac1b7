//! Partitions are given up, and instances closed, while the coordinator takes no commits.

use crate::harness::{Error, IN_TIME, TestBroker, await_state, config, create_topic, until, write};
use riverrun_client::TopicPartition;
use riverrun_client::admin::{AdminConfig, NewTopic};
use riverrun_client::blocking::{Admin, Consumer};
use riverrun_client::consumer::ConsumerConfig;
use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, State};
use riverrun_streams::topology::Topology;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const OFFSET_COMMIT: i16 = 8;
const REPARTITION: &str = "words-KSTREAM-REPARTITION-0000000002-repartition";

/// What becomes of commits on their way.
struct Commits {
    /// Or whoever sends one is cut off.
    are_taken: AtomicBool,
    /// So many are answered as a group answers that rebalances.
    held_up: AtomicUsize,
}

/// What becomes of a request.
enum Fate {
    HandedOn,
    CutOff,
    Answered(Vec<u8>),
}

impl Commits {
    fn fate(&self, request: &[u8]) -> Fate {
        let is_commit = request[4..].starts_with(&OFFSET_COMMIT.to_be_bytes());
        if !is_commit {
            return Fate::HandedOn;
        }
        if !self.are_taken.load(Ordering::SeqCst) {
            return Fate::CutOff;
        }
        let one_less = |count: usize| count.checked_sub(1);
        let order = Ordering::SeqCst;
        match self.held_up.fetch_update(order, order, one_less) {
            Ok(_) => Fate::Answered(rebalance_in_progress(request)),
            Err(_) => Fate::HandedOn,
        }
    }
}

/// The answer of a coordinator to a commit of partition 0 of `words`.
fn rebalance_in_progress(commit: &[u8]) -> Vec<u8> {
    const REBALANCE_IN_PROGRESS: i16 = 27;
    let correlation_id = &commit[8..12];
    let mut body = [
        correlation_id,
        &[0],
        &0_i32.to_be_bytes(),
        &[2, 6],
        b"words",
        &[2],
    ]
    .concat();
    body.extend(0_i32.to_be_bytes());
    body.extend(REBALANCE_IN_PROGRESS.to_be_bytes());
    // No tagged fields of the partition, the topic and the whole.
    body.extend([0; 3]);
    let length = u32::try_from(body.len()).expect("it is short");
    [&length.to_be_bytes()[..], &body].concat()
}

/// A broker whose clients come by a way on which commits may be stopped.
fn broker_on_a_way() -> Result<(TestBroker, Arc<Commits>), Error> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let advertised = format!("PLAINTEXT://{}", listener.local_addr()?);
    let broker = TestBroker::start_with(|broker| broker.set("advertised.listeners", advertised))?;
    let commits = Arc::new(Commits {
        are_taken: AtomicBool::new(true),
        held_up: AtomicUsize::new(0),
    });
    let (of_way, server) = (Arc::clone(&commits), broker.bootstrap_servers().to_owned());
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(&server)) else {
                return;
            };
            let _ = pass_on(&client, &server, Arc::clone(&of_way));
        }
    });
    Ok((broker, commits))
}

/// Hands requests to the server, and what it says to the client.
fn pass_on(client: &TcpStream, server: &TcpStream, commits: Arc<Commits>) -> std::io::Result<()> {
    let (mut requests, mut to_server) = (client.try_clone()?, server.try_clone()?);
    let to_client = Arc::new(Mutex::new(client.try_clone()?));
    let answering = Arc::clone(&to_client);
    let answer = move |answer: &[u8]| {
        let mut to_client = answering.lock().expect("nobody panics with it");
        to_client.write_all(answer)
    };
    let answer_instead = answer.clone();
    std::thread::spawn(move || {
        while let Some(request) = read_frame(&mut requests) {
            let done = match commits.fate(&request) {
                Fate::HandedOn => to_server.write_all(&request),
                Fate::CutOff => break,
                Fate::Answered(answer) => answer_instead(&answer),
            };
            if done.is_err() {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Both);
        let _ = requests.shutdown(Shutdown::Both);
    });
    let mut answers = server.try_clone()?;
    std::thread::spawn(move || {
        while let Some(frame) = read_frame(&mut answers) {
            if answer(&frame).is_err() {
                break;
            }
        }
        let to_client = to_client.lock().expect("nobody panics with it");
        let _ = to_client.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// A whole request or answer, with its length.
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
    let (broker, commits) = broker_on_a_way()?;
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
    commits.are_taken.store(false, Ordering::SeqCst);
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
    commits.are_taken.store(true, Ordering::SeqCst);
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

/// Commits a record only when it is closed. What that says, and what is committed then.
fn close_with(stop: impl FnOnce(&Commits)) -> Result<(Option<String>, Option<i64>), Error> {
    let (broker, commits) = broker_on_a_way()?;
    create_topic(&broker, "words", 1)?;
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.num_stream_threads = 1;
    config.commit_interval_ms = Some(3_600_000);
    let timeout = ("default.api.timeout.ms".to_owned(), "5000".to_owned());
    config.overrides.main_consumer.extend([timeout]);
    let (seen, is_seen) = mpsc::channel();
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .for_each(move |_, word| {
            let _ = seen.send(word.clone());
        });
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    write(&broker, "words", &[("a", "a")])?;
    is_seen.recv_timeout(IN_TIME)?;
    stop(&commits);
    let closed = streams.close().err().map(|error| error.to_string());
    let mut reader = Consumer::new(ConsumerConfig::new(broker.bootstrap_servers(), "words")?)?;
    let part = [TopicPartition::new("words", 0)];
    let committed = reader.call(async |reader| reader.committed(&part).await)?;
    let committed = committed.values().next().map(|known| known.offset);
    Ok((closed, committed))
}

/// There is no later commit: who is closed in the middle of a rebalance waits for its end.
#[test]
fn what_a_rebalance_holds_up_is_committed_at_the_end() -> Result<(), Error> {
    let closed = close_with(|commits| commits.held_up.store(2, Ordering::SeqCst))?;
    assert_eq!(closed, (None, Some(1)));
    Ok(())
}

#[test]
fn who_cannot_commit_at_the_end_says_so() -> Result<(), Error> {
    let (told, committed) = close_with(|commits| commits.are_taken.store(false, Ordering::SeqCst))?;
    assert!(told.is_some());
    assert_eq!(committed, None);
    Ok(())
}
