//! The floor's answer to a fetch: encoded bytes around ranges of files, which sendfile sends.

use std::io;
use std::time::Duration;

use anyhow::{Result, ensure};
use model::{BrokerId, ErrorCode, Offset};
use rustix::net::SendFlags;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use wire::fetch_response::{FetchResponseHead, FetchResponsePartition, FetchResponseWriter};
use wire::finish_frame;
use wire::messages::FetchRequest;

use super::topics::{Range, Topics};

/// Answers a fetch whose frame begins at `start` of `out`; waits for a record if there is none.
pub(super) async fn answer(
    stream: &mut TcpStream,
    topics: &Topics,
    version: i16,
    request: &FetchRequest<'_>,
    start: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let deadline = Instant::now() + wait;
    let ranges = loop {
        let appended = topics.appended.notified();
        tokio::pin!(appended);
        appended.as_mut().enable();
        let ranges = ranges(topics, request)?;
        if ranges.iter().flatten().any(|(_, range)| range.length > 0)
            || timeout_at(deadline, appended).await.is_err()
        {
            break ranges;
        }
    };
    let sends = encode(version, request, &ranges, start, out);
    let mut sent = 0;
    for (at, range) in sends {
        send_more(stream, &out[sent..at]).await?;
        sent = at;
        send_range(stream, range).await?;
    }
    stream.write_all(&out[sent..]).await?;
    out.clear();
    Ok(())
}

/// The ranges of each topic's partitions.
fn ranges(topics: &Topics, request: &FetchRequest<'_>) -> Result<Vec<Vec<(i32, Range)>>> {
    let ranges = request.topics.iter().map(|topic| {
        let found = topics.find(topic.topic)?;
        let ranges = topic.partitions.iter().map(|partition| {
            let max_bytes = usize::try_from(partition.partition_max_bytes).unwrap_or(0);
            let range = found.range(partition.partition, partition.fetch_offset, max_bytes)?;
            Ok((partition.partition, range))
        });
        ranges.collect()
    });
    ranges.collect()
}

/// Encodes all but the records; returns each range with the length of `out` before it.
fn encode<'a>(
    version: i16,
    request: &FetchRequest<'_>,
    ranges: &'a [Vec<(i32, Range)>],
    start: usize,
    out: &mut Vec<u8>,
) -> Vec<(usize, &'a Range)> {
    let writer = FetchResponseWriter::new(version);
    let head = FetchResponseHead {
        throttle_time_ms: 0,
        error: ErrorCode::None,
        session_id: 0,
        topic_count: ranges.len(),
    };
    writer.head(&head, out);
    let mut sends = Vec::new();
    let mut records_bytes = 0;
    for (topic, ranges) in request.topics.iter().zip(ranges) {
        writer.topic(topic.topic, topic.topic_id, ranges.len(), out);
        for (index, range) in ranges {
            let partition = FetchResponsePartition {
                index: *index,
                error: ErrorCode::None,
                high_watermark: Offset(range.end_offset),
                last_stable_offset: Offset(range.end_offset),
                log_start_offset: Offset::ZERO,
                diverging_epoch: None,
                current_leader: None,
                aborted_transactions: None,
                preferred_read_replica: BrokerId::NONE,
                records_bytes: range.length,
            };
            writer.partition(&partition, out);
            if range.length > 0 {
                sends.push((out.len(), range));
                records_bytes += range.length;
            }
            writer.end_partition(&partition, out);
        }
        writer.end_topic(out);
    }
    writer.end(&[], out);
    finish_frame(out, start, records_bytes);
    sends
}

async fn send_more(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
                rustix::net::send(stream, bytes, flags).map_err(io::Error::from)
            })
            .await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

async fn send_range(stream: &TcpStream, range: &Range) -> Result<()> {
    let mut position = range.position;
    let end = position + range.length as u64;
    while position < end {
        let sent = stream
            .async_io(Interest::WRITABLE, || {
                let left = (end - position) as usize;
                rustix::fs::sendfile(stream, &range.file, Some(&mut position), left)
                    .map_err(io::Error::from)
            })
            .await?;
        ensure!(sent > 0, "a file is shorter than its range");
    }
    Ok(())
}
