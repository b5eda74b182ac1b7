//! What frames of the product's clients say, for the judge and for whoever reads what has happened.

use super::frames::{asks_of_produce, read_header, version_of};
use crate::protocol::Ask;
use model::{DecodeError, ErrorCode, Message, Reader};
use record::RecordBatch;
use replication::PartitionKey;
use std::fmt::Write as _;
use wire::messages::{ProduceRequest, ProduceResponse};
use wire::{ApiKey, ResponseHeader};

/// The partitions of a request to produce, each with what it was answered.
fn produced(
    request: &[u8],
    frame: &[u8],
) -> Result<Vec<(PartitionKey, ErrorCode, i64)>, DecodeError> {
    let (_, api, _) = read_header(request)?;
    if api != ApiKey::Produce {
        return Ok(Vec::new());
    }
    let version = version_of(api);
    let mut reader = Reader::new(frame);
    ResponseHeader::decode(&mut reader, api.response_header_version(version))?;
    let message = ProduceResponse::from_bytes(reader.remaining(), version)?;
    let mut all = Vec::new();
    for topic in message.responses.iter() {
        for one in topic.partition_responses.iter() {
            let error = ErrorCode::from_code(one.error_code);
            all.push(((topic.topic_id, one.index), error, one.base_offset));
        }
    }
    Ok(all)
}

/// The partitions that have refused a batch as out of order.
pub(crate) fn refused_out_of_order(request: &[u8], frame: &[u8]) -> Vec<PartitionKey> {
    let all = produced(request, frame).unwrap_or_default().into_iter();
    let refused = all.filter(|one| one.1 == ErrorCode::OutOfOrderSequenceNumber);
    refused.map(|one| one.0).collect()
}

/// How a request was answered.
pub(crate) fn shown_response(request: &[u8], frame: &[u8]) -> String {
    let api = read_header(request).map(|(_, api, _)| api);
    let mut shown = format!("{api:?} of {} bytes", frame.len());
    for (key, error, base_offset) in produced(request, frame).unwrap_or_default() {
        let _ = write!(shown, "; {key:?}: {error:?} {base_offset}");
    }
    shown
}

/// What a request asks for.
pub(crate) fn shown_request(frame: &[u8]) -> String {
    let Ok((_, api, body)) = read_header(frame) else {
        return "no request".to_owned();
    };
    let mut shown = format!("{api:?}");
    let asks = match (api, ProduceRequest::from_bytes(body, version_of(api))) {
        (ApiKey::Produce, Ok(message)) => asks_of_produce(&message),
        _ => Vec::new(),
    };
    for ask in &asks {
        if let Ask::Produce {
            topic_id,
            partition,
            records,
            ..
        } = ask
            && let Ok((batch, _)) = RecordBatch::parse(records)
        {
            let _ = write!(
                shown,
                "; {topic_id} {partition}: {} records of {} {} from {}",
                batch.record_count(),
                batch.producer_id().0,
                batch.producer_epoch().0,
                batch.base_sequence()
            );
        }
    }
    shown
}
