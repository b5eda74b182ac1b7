//! A record that a buffer holds back, and where it came from.

use super::format::{self, borrow};
use crate::formats::record_context::ProcessorRecordContext;
use crate::record::RecordContext;
use bytes::Bytes;
use std::sync::Arc;

/// The context as a buffer's bytes have it.
pub(crate) fn lend(context: &RecordContext) -> ProcessorRecordContext<'_> {
    ProcessorRecordContext {
        timestamp_ms: context.timestamp_ms,
        offset: context.offset,
        topic: &context.topic,
        partition: context.partition,
        headers: context.headers.iter().map(borrow).collect(),
    }
}

/// The context of a buffer's bytes.
pub(crate) fn own(context: &ProcessorRecordContext<'_>) -> RecordContext {
    RecordContext {
        topic: Arc::from(context.topic),
        partition: context.partition,
        offset: context.offset,
        timestamp_ms: context.timestamp_ms,
        headers: context.headers.iter().map(format::own).collect(),
    }
}

/// What a context counts for in a buffer's size.
pub(crate) fn size_of_context(context: &RecordContext) -> usize {
    let headers: usize = context
        .headers
        .iter()
        .map(|header| header.key.chars().count() + header.value.as_ref().map_or(0, Bytes::len))
        .sum();
    // Timestamp, offset and partition, and the letters of the topic.
    8 + 8 + 4 + context.topic.chars().count() + headers
}
