//! What became of each partition's batch, encoded as a produce response.

use super::TOPIC_ID;
use crate::Operation;
use model::ErrorCode;
use std::hint::black_box;
use wire::produce_response::{ProduceResponsePartition, ProduceResponseWriter};

const VERSION: i16 = 13;

pub(super) struct ProduceResponseEncode {
    version: i16,
    results: Vec<ProduceResponsePartition<'static>>,
    out: Vec<u8>,
}

impl ProduceResponseEncode {
    pub(super) fn new(partitions: usize) -> Self {
        let result = |i: usize| ProduceResponsePartition {
            index: i as i32,
            error: ErrorCode::None,
            base_offset: 1_000_000 + 7 * i as i64,
            log_append_time_ms: -1,
            log_start_offset: i as i64,
            record_errors: &[],
            error_message: None,
            current_leader: None,
        };
        Self {
            version: VERSION,
            results: (0..partitions).map(result).collect(),
            out: Vec::new(),
        }
    }
}

/// Encodes the response after what `out` holds.
fn encode(version: i16, results: &[ProduceResponsePartition<'_>], out: &mut Vec<u8>) {
    let writer = ProduceResponseWriter::new(version);
    writer.head(1, out);
    writer.topic("", TOPIC_ID, results.len(), out);
    for result in results {
        writer.partition(result, out);
    }
    writer.end_topic(out);
    writer.end(0, &[], out);
}

impl Operation for ProduceResponseEncode {
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
