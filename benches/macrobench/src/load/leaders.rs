//! Where the partitions of a topic are led, and which of their replicas are in sync.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use model::{BrokerId, ErrorCode, Message};
use wire::ApiKey;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{MetadataRequest, MetadataResponse};

use super::Target;
use super::client::{Client, frame};

const METADATA_VERSION: i16 = 9;
const LIMIT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// A partition as a broker sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Led {
    pub(super) leader: BrokerId,
    pub(super) address: SocketAddr,
    pub(super) in_sync_count: usize,
}

/// What a broker says of the target's partitions, by their index; an error while it knows no leader of one
/// of them.
pub(super) fn ask(client: &mut Client, target: &Target) -> Result<Vec<Led>> {
    let topic = MetadataRequestTopic {
        name: Some(&target.topic),
        ..MetadataRequestTopic::default()
    };
    let request = MetadataRequest {
        topics: Some(vec![topic].into()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let frame = frame(ApiKey::Metadata, METADATA_VERSION, &request);
    let body = client.call(ApiKey::Metadata, METADATA_VERSION, &frame)?;
    let response = MetadataResponse::from_bytes(body, METADATA_VERSION)?;
    let topic = response.topics.iter().next().context("no topic answered")?;
    let error = ErrorCode::from_code(topic.error_code);
    ensure!(
        error == ErrorCode::None,
        "topic `{}`: {error}",
        target.topic
    );
    let address_of = |leader: BrokerId| -> Result<SocketAddr> {
        let mut brokers = response.brokers.iter();
        let broker = brokers.find(|broker| broker.node_id == leader);
        let broker = broker.context("a partition has no leader")?;
        let port = u16::try_from(broker.port).context("a broker has no such port")?;
        let mut addresses = (broker.host, port).to_socket_addrs()?;
        addresses.next().context("a broker has no address")
    };
    (0..target.partitions)
        .map(|index| {
            let mut partitions = topic.partitions.iter();
            let partition = partitions.find(|one| one.partition_index == index);
            let partition = partition.context("a partition is unknown")?;
            Ok(Led {
                leader: partition.leader_id,
                address: address_of(partition.leader_id)?,
                in_sync_count: partition.isr_nodes.iter().count(),
            })
        })
        .collect()
}

/// The addresses of the leaders of the target's partitions, once all of them serve.
pub(super) fn await_serving(target: &Target) -> Result<Vec<SocketAddr>> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match serving(target) {
            Ok(leaders) => return Ok(leaders),
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => thread::sleep(RETRY_INTERVAL),
        }
    }
}

fn serving(target: &Target) -> Result<Vec<SocketAddr>> {
    let led = ask(&mut Client::connect(target.address)?, target)?;
    let leaders: Vec<SocketAddr> = led.iter().map(|one| one.address).collect();
    let mut target = target.clone();
    target.leaders.clone_from(&leaders);
    for leader in target.distinct_leaders() {
        let partitions = (0..).zip(&leaders);
        let led = partitions.filter_map(|(index, address)| (*address == leader).then_some(index));
        Client::connect(leader)?.wait_for_leaders(&target.topic, led)?;
    }
    Ok(leaders)
}
