//! One request after the other on one connection: topics and single batches.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use model::{ErrorCode, Message, Reader};
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::fetch_request::{FetchPartition, FetchTopic};
use wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    FetchRequest, FetchResponse, ProduceResponse,
};
use wire::{ApiKey, RequestHeader, ResponseHeader, begin_frame, finish_frame};

/// The newest version of Produce that names topics.
pub(super) const PRODUCE_VERSION: i16 = 12;
/// The newest version of Fetch that names topics.
pub(super) const FETCH_VERSION: i16 = 12;
const CREATE_TOPICS_VERSION: i16 = 7;
const DELETE_TOPICS_VERSION: i16 = 5;
const CORRELATION_ID: i32 = 1;
const LIMIT: Duration = Duration::from_secs(180);
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// A connection with at most one unanswered request.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Client {
    /// Connects to a server.
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| address.to_string())?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self {
            stream,
            answer: Vec::new(),
        })
    }

    /// Makes a topic unless there is one of this name; tells whether it is new.
    pub(super) fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        replication_factor: i16,
        config: Option<(&str, &str)>,
    ) -> Result<bool> {
        let config = config.map(|(name, value)| CreatableTopicConfig {
            name,
            value: Some(value),
        });
        let topic = CreatableTopic {
            name,
            num_partitions: partitions,
            replication_factor,
            configs: config.into_iter().collect(),
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic].into(),
            timeout_ms: 30_000,
            ..CreateTopicsRequest::default()
        };
        let frame = frame(ApiKey::CreateTopics, CREATE_TOPICS_VERSION, &request);
        let body = self.call(ApiKey::CreateTopics, CREATE_TOPICS_VERSION, &frame)?;
        let response = CreateTopicsResponse::from_bytes(body, CREATE_TOPICS_VERSION)?;
        let topic = response.topics.iter().next().context("no topic answered")?;
        match ErrorCode::from_code(topic.error_code) {
            ErrorCode::None => Ok(true),
            ErrorCode::TopicAlreadyExists => Ok(false),
            error => bail!("topic `{name}` cannot be made: {error}"),
        }
    }

    /// Waits until these partitions of a new topic are served: a server may answer before that.
    pub(super) fn wait_for_leaders(
        &mut self,
        name: &str,
        partitions: impl Iterator<Item = i32>,
    ) -> Result<()> {
        let partitions = partitions.map(|partition| FetchPartition {
            partition,
            ..FetchPartition::default()
        });
        let topic = FetchTopic {
            topic: name,
            partitions: partitions.collect(),
            ..FetchTopic::default()
        };
        let request = FetchRequest {
            session_epoch: -1,
            topics: vec![topic].into(),
            ..FetchRequest::default()
        };
        let frame = frame(ApiKey::Fetch, FETCH_VERSION, &request);
        let deadline = Instant::now() + LIMIT;
        loop {
            let body = self.call(ApiKey::Fetch, FETCH_VERSION, &frame)?;
            let response = FetchResponse::from_bytes(body, FETCH_VERSION)?;
            let topic = response.responses.iter().next();
            let partitions = topic.context("no topic answered")?.partitions;
            let Some(refused) = partitions.iter().find(|one| one.error_code != 0) else {
                return Ok(());
            };
            let error = ErrorCode::from_code(refused.error_code);
            ensure!(Instant::now() < deadline, "topic `{name}`: {error}");
            thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Deletes a topic.
    pub(super) fn delete_topic(&mut self, name: &str) -> Result<()> {
        let request = DeleteTopicsRequest {
            topic_names: vec![name].into(),
            timeout_ms: 30_000,
            ..DeleteTopicsRequest::default()
        };
        let frame = frame(ApiKey::DeleteTopics, DELETE_TOPICS_VERSION, &request);
        let body = self.call(ApiKey::DeleteTopics, DELETE_TOPICS_VERSION, &frame)?;
        let response = DeleteTopicsResponse::from_bytes(body, DELETE_TOPICS_VERSION)?;
        let topic = response.responses.iter().next();
        let error = ErrorCode::from_code(topic.context("no topic answered")?.error_code);
        ensure!(error == ErrorCode::None, "topic `{name}` is kept: {error}");
        Ok(())
    }

    /// Sends a produce request and tells its first error, if there is one.
    pub(super) fn produce(&mut self, frame: &[u8]) -> Result<Option<ErrorCode>> {
        produce_error(self.call(ApiKey::Produce, PRODUCE_VERSION, frame)?)
    }

    /// Sends a request and returns the body of its answer.
    pub(super) fn call(&mut self, api: ApiKey, version: i16, frame: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(frame)?;
        let mut size = [0; 4];
        let read = self.stream.read_exact(&mut size);
        read.with_context(|| format!("no answer to {api:?}"))?;
        let size = usize::try_from(i32::from_be_bytes(size)).context("a negative size")?;
        self.answer.resize(size, 0);
        self.stream.read_exact(&mut self.answer)?;
        body_of(&self.answer, api, version)
    }
}

/// The bytes of a request, its size included.
pub(super) fn frame<'a, M: Message<'a>>(api: ApiKey, version: i16, request: &M) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(api, version, request, &mut frame);
    frame
}

/// Appends the bytes of a request, its size included.
pub(super) fn write_frame<'a, M: Message<'a>>(
    api: ApiKey,
    version: i16,
    request: &M,
    out: &mut Vec<u8>,
) {
    let header = RequestHeader {
        api_key: api as i16,
        api_version: version,
        correlation_id: CORRELATION_ID,
        client_id: Some("bench"),
    };
    let start = begin_frame(out);
    header.encode(api.is_request_flexible(version), out);
    out.extend_from_slice(&request.to_bytes(version));
    finish_frame(out, start, 0);
}

/// The body of an answer without its size.
pub(super) fn body_of(answer: &[u8], api: ApiKey, version: i16) -> Result<&[u8]> {
    let mut reader = Reader::new(answer);
    let header = ResponseHeader::decode(&mut reader, api.response_header_version(version))?;
    ensure!(
        header.correlation_id == CORRELATION_ID,
        "an answer to another request"
    );
    Ok(reader.remaining())
}

/// The first error of a produce response.
pub(super) fn produce_error(body: &[u8]) -> Result<Option<ErrorCode>> {
    let response = ProduceResponse::from_bytes(body, PRODUCE_VERSION)?;
    for topic in response.responses.iter() {
        for partition in topic.partition_responses.iter() {
            if partition.error_code != 0 {
                return Ok(Some(ErrorCode::from_code(partition.error_code)));
            }
        }
    }
    Ok(None)
}
