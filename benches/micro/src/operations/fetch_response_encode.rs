//! A fetch response encoded: all but records, which either server sends from their file.

use super::TOPIC_ID;
use crate::Operation;
use model::{BrokerId, ErrorCode, Offset};
use std::hint::black_box;
use wire::fetch_response::{FetchResponseHead, FetchResponsePartition, FetchResponseWriter};

const VERSION: i16 = 18;

pub(super) struct FetchResponseEncode {
    version: i16,
    results: Vec<FetchResponsePartition<'static>>,
    out: Vec<u8>,
}

impl FetchResponseEncode {
    pub(super) fn new(partitions: usize) -> Self {
        let result = |i: usize| FetchResponsePartition {
            index: i as i32,
            error: ErrorCode::None,
            high_watermark: Offset(1_000_000 + 7 * i as i64),
            last_stable_offset: Offset(1_000_000 + 7 * i as i64),
            log_start_offset: Offset(i as i64),
            diverging_epoch: None,
            current_leader: None,
            aborted_transactions: None,
            preferred_read_replica: BrokerId::NONE,
            records_bytes: 0,
        };
        Self {
            version: VERSION,
            results: (0..partitions).map(result).collect(),
            out: Vec::new(),
        }
    }
}

/// Encodes the response after what `out` holds.
fn encode(version: i16, results: &[FetchResponsePartition<'_>], out: &mut Vec<u8>) {
    let writer = FetchResponseWriter::new(version);
    let head = FetchResponseHead {
        throttle_time_ms: 0,
        error: ErrorCode::None,
        session_id: 42,
        topic_count: 1,
    };
    writer.head(&head, out);
    writer.topic("", TOPIC_ID, results.len(), out);
    for result in results {
        writer.partition_without_records(result, out);
    }
    writer.end_topic(out);
    writer.end(&[], out);
}

impl Operation for FetchResponseEncode {
    fn evidence(&mut self) -> Vec<u8> {
        self.repeat(1);
        self.out.clone()
    }

    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            self.out.clear();
            let version = black_box(self.version);
            encode(version, black_box(&self.results), &mut self.out);
            black_box(&mut self.out);
        }
    }
}
