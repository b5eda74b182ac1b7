//! One connection of the floor: frames in a reused buffer, answers in another.

use std::cell::RefCell;
use std::io::ErrorKind;

use anyhow::{Context as _, Result, bail};
use model::{ErrorCode, Message, Reader};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use wire::messages::create_topics_response::CreatableTopicResult;
use wire::messages::delete_topics_response::DeletableTopicResult;
use wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    FetchRequest, ProduceRequest,
};
use wire::produce_response::{ProduceResponsePartition, ProduceResponseWriter};
use wire::{ApiKey, RequestHeader, ResponseHeader, begin_frame, finish_frame};

use super::fetch;
use super::topics::Topics;

const BUFFER_BYTES: usize = 128 * 1024;

thread_local! {
    /// A buffer that nobody uses, warm in the processor's cache.
    static KEPT: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// Serves requests in order until the client leaves. A connection has a buffer only while it holds
/// a part of a frame, as in riverrun: buffers of their own for all are more than the cache.
pub(super) async fn serve(mut stream: TcpStream, topics: &Topics) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    let (mut start, mut end) = (0, 0);
    let mut out = Vec::new();
    loop {
        let have = end - start;
        let size = match buffer[start..end].first_chunk() {
            Some(size) => 4 + usize::try_from(i32::from_be_bytes(*size))?,
            None => 4,
        };
        if have >= 4 && have >= size {
            let frame = &mut buffer[start + 4..start + size];
            start += size;
            answer(&mut stream, topics, frame, &mut out).await?;
            continue;
        }
        if !out.is_empty() {
            stream.write_all(&out).await?;
            out.clear();
        }
        if have == 0 && !buffer.is_empty() {
            KEPT.set(Some(std::mem::take(&mut buffer)));
        }
        stream.readable().await?;
        if buffer.is_empty() {
            buffer = KEPT.take().unwrap_or_else(|| vec![0; BUFFER_BYTES]);
            (start, end) = (0, 0);
        }
        if start + size > buffer.len() {
            buffer.copy_within(start..end, 0);
            (start, end) = (0, have);
            buffer.resize(buffer.len().max(size), 0);
        }
        match stream.try_read(&mut buffer[end..]) {
            Ok(0) => return Ok(()),
            Ok(count) => end += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Appends the answer to one request, or sends it when it holds records.
async fn answer(
    stream: &mut TcpStream,
    topics: &Topics,
    frame: &mut [u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader)?;
    let api = ApiKey::from_number(header.api_key).context("an unknown request")?;
    let version = header.api_version;
    let body_at = frame.len() - reader.remaining().len();
    let response = ResponseHeader {
        correlation_id: header.correlation_id,
    };
    let start = begin_frame(out);
    response.encode(api.response_header_version(version), out);
    match api {
        ApiKey::Produce => produce(topics, version, frame, body_at, out)?,
        ApiKey::Fetch => {
            let request = FetchRequest::from_bytes(&frame[body_at..], version)?;
            return fetch::answer(stream, topics, version, &request, start, out).await;
        }
        ApiKey::CreateTopics => create_topics(topics, version, &frame[body_at..], out)?,
        ApiKey::DeleteTopics => delete_topics(topics, version, &frame[body_at..], out)?,
        other => bail!("{other:?} is not served"),
    }
    finish_frame(out, start, 0);
    Ok(())
}

fn produce(
    topics: &Topics,
    version: i16,
    frame: &mut [u8],
    body_at: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let writer = ProduceResponseWriter::new(version);
    let frame_at = frame.as_ptr() as usize;
    let request = ProduceRequest::from_bytes(&frame[body_at..], version)?;
    let topic = request.topic_data.iter().next().context("one topic")?;
    let found = topics.find(topic.name)?;
    writer.head(1, out);
    writer.topic(topic.name, topic.topic_id, topic.partition_data.len(), out);
    // Where each batch stands in the frame, which is about to be written to.
    let batches: Vec<_> = topic
        .partition_data
        .iter()
        .map(|partition| {
            let records = partition.records.unwrap_or_default();
            let at = records.as_ptr() as usize - frame_at;
            (partition.index, at..at + records.len())
        })
        .collect();
    for (index, range) in batches {
        let base_offset = found.append(index, &mut frame[range])?;
        let partition = ProduceResponsePartition {
            index,
            error: ErrorCode::None,
            base_offset,
            log_append_time_ms: -1,
            log_start_offset: 0,
            record_errors: &[],
            error_message: None,
            current_leader: None,
        };
        writer.partition(&partition, out);
    }
    writer.end_topic(out);
    writer.end(0, &[], out);
    topics.appended.notify_waiters();
    Ok(())
}

fn create_topics(topics: &Topics, version: i16, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let request = CreateTopicsRequest::from_bytes(body, version)?;
    let mut results = Vec::new();
    for topic in request.topics.iter() {
        let error = match topics.create(topic.name, topic.num_partitions)? {
            true => ErrorCode::None,
            false => ErrorCode::TopicAlreadyExists,
        };
        results.push(CreatableTopicResult {
            name: topic.name,
            error_code: error.code(),
            ..CreatableTopicResult::default()
        });
    }
    let response = CreateTopicsResponse {
        topics: results.into(),
        ..CreateTopicsResponse::default()
    };
    out.extend_from_slice(&response.to_bytes(version));
    Ok(())
}

fn delete_topics(topics: &Topics, version: i16, body: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let request = DeleteTopicsRequest::from_bytes(body, version)?;
    let mut results = Vec::new();
    for name in request.topic_names.iter() {
        topics.delete(name)?;
        results.push(DeletableTopicResult {
            name: Some(name),
            ..DeletableTopicResult::default()
        });
    }
    let response = DeleteTopicsResponse {
        responses: results.into(),
        ..DeleteTopicsResponse::default()
    };
    out.extend_from_slice(&response.to_bytes(version));
    Ok(())
}
