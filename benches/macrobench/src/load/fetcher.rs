//! Fetches of a topic's partitions with one leader on one connection, in an incremental session
//! (KIP-227) if the server makes one: a request names only the partitions whose offset has changed.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use model::{ErrorCode, Message};
use record::RecordBatch;
use wire::ApiKey;
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::{FetchRequest, FetchResponse};

use super::Target;
use super::client::{FETCH_VERSION, body_of, write_frame};

const LIMIT: Duration = Duration::from_secs(60);
/// The defaults of Kafka's consumer.
const MAX_WAIT_MS: i32 = 500;
const MAX_BYTES: i32 = 50 << 20;
const PARTITION_MAX_BYTES: i32 = 1 << 20;

/// What follows the last record of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtEnd {
    /// The next record, when there is one.
    Follow,
    /// The first record again.
    Repeat,
}

/// A consumer of every partition of a topic that a server leads.
#[derive(Debug)]
pub(super) struct Fetcher {
    stream: TcpStream,
    topic: String,
    at_end: AtEnd,
    /// Those that the server leads.
    led: Vec<usize>,
    /// The next offset of each partition.
    offsets: Vec<i64>,
    /// The partitions that the next request names.
    changed: Vec<usize>,
    session_id: i32,
    session_epoch: i32,
    request: Vec<u8>,
    /// Grows to the greatest answer.
    answer: Vec<u8>,
}

impl Fetcher {
    /// Connects to the leader of some partitions; fetching starts at offset 0.
    pub(super) fn connect(target: &Target, leader: SocketAddr, at_end: AtEnd) -> Result<Self> {
        let stream = TcpStream::connect(leader)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let leaders = target.leaders.iter().enumerate();
        let led: Vec<usize> = leaders
            .filter_map(|(partition, address)| (*address == leader).then_some(partition))
            .collect();
        Ok(Self {
            stream,
            topic: target.topic.clone(),
            at_end,
            offsets: vec![0; target.leaders.len()],
            changed: led.clone(),
            led,
            session_id: 0,
            session_epoch: 0,
            request: Vec::new(),
            answer: Vec::new(),
        })
    }

    /// One fetch; `each` sees the partition and batch of whatever it brings.
    pub(super) fn poll(&mut self, each: &mut dyn FnMut(usize, &RecordBatch<'_>)) -> Result<()> {
        self.send()?;
        let size = self.receive()?;
        self.changed.clear();
        let body = body_of(&self.answer[..size], ApiKey::Fetch, FETCH_VERSION)?;
        let response = FetchResponse::from_bytes(body, FETCH_VERSION)?;
        let error = ErrorCode::from_code(response.error_code);
        ensure!(error == ErrorCode::None, "a fetch was refused: {error}");
        for topic in response.responses.iter() {
            for partition in topic.partitions.iter() {
                let error = ErrorCode::from_code(partition.error_code);
                let index = usize::try_from(partition.partition_index)?;
                ensure!(error == ErrorCode::None, "partition {index}: {error}");
                let offset = self
                    .offsets
                    .get_mut(index)
                    .context("an unknown partition")?;
                let before = *offset;
                let mut records = partition.records.unwrap_or_default();
                // The last batch may be cut off; it comes whole the next time.
                while let Ok((batch, rest)) = RecordBatch::parse(records) {
                    each(index, &batch);
                    *offset = batch.next_offset().0;
                    records = rest;
                }
                if self.at_end == AtEnd::Repeat && *offset >= partition.high_watermark {
                    *offset = 0;
                }
                if *offset != before {
                    self.changed.push(index);
                }
            }
        }
        self.session_id = response.session_id;
        if self.session_id == 0 {
            self.changed.clone_from(&self.led);
        } else {
            self.session_epoch += 1;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        let partitions = self.changed.iter().map(|&index| FetchPartition {
            partition: index as i32,
            fetch_offset: self.offsets[index],
            partition_max_bytes: PARTITION_MAX_BYTES,
            ..FetchPartition::default()
        });
        let topic = FetchTopic {
            topic: &self.topic,
            partitions: partitions.collect(),
            ..FetchTopic::default()
        };
        let topics = if self.changed.is_empty() {
            Vec::new()
        } else {
            vec![topic]
        };
        let request = FetchRequest {
            max_wait_ms: MAX_WAIT_MS,
            min_bytes: 1,
            max_bytes: MAX_BYTES,
            session_id: self.session_id,
            session_epoch: self.session_epoch,
            topics: topics.into(),
            ..FetchRequest::default()
        };
        self.request.clear();
        write_frame(ApiKey::Fetch, FETCH_VERSION, &request, &mut self.request);
        self.stream.write_all(&self.request)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<usize> {
        let mut size = [0; 4];
        let read = self.stream.read_exact(&mut size);
        read.context("no answer to a fetch")?;
        let size = usize::try_from(i32::from_be_bytes(size)).context("a negative size")?;
        if self.answer.len() < size {
            self.answer.resize(size, 0);
        }
        self.stream.read_exact(&mut self.answer[..size])?;
        Ok(size)
    }
}
