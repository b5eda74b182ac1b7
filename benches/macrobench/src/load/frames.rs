//! Produce requests, built once and sent again and again.

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use record::{BatchBuilder, BatchHeader, Codec, Compressor};
use wire::ApiKey;
use wire::messages::ProduceRequest;
use wire::messages::produce_request::{PartitionProduceData, TopicProduceData};

use super::client::{PRODUCE_VERSION, frame};
use super::window::Work;
use super::{Batching, Target};

/// The requests that one connection sends in turn.
#[derive(Debug)]
pub(super) struct Frames {
    /// Where they go.
    pub(super) leader: SocketAddr,
    /// Each with the partitions that it goes to.
    pub(super) requests: Vec<(Vec<u8>, Vec<i32>)>,
    /// What one batch adds to a partition.
    pub(super) batch: Work,
}

impl Frames {
    /// What the answer to request `number` of the connection says was done.
    pub(super) fn work_of(&self, number: usize) -> Work {
        let (_, partitions) = &self.requests[number % self.requests.len()];
        let batches = partitions.len() as u64;
        Work {
            requests: 1,
            records: self.batch.records * batches,
            bytes: self.batch.bytes * batches,
        }
    }
}

/// Builds the requests of each connection. Leaders share the connections out among themselves, and a
/// leader's connections its partitions; where there are fewer partitions, connections share a partition.
pub(super) fn build(target: &Target, batching: &Batching) -> Result<Vec<Frames>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let (bytes, batch) = build_batch(batching, now.as_millis() as i64)?;
    let leaders = target.distinct_leaders();
    let connections = batching.connections;
    ensure!(
        connections >= leaders.len(),
        "each leader needs a connection of its own"
    );
    let frames = (0..connections).map(|connection| {
        let (index, number) = (connection % leaders.len(), connection / leaders.len());
        let leader = leaders[index];
        let led: Vec<i32> = (0..target.partitions)
            .zip(&target.leaders)
            .filter_map(|(partition, of)| (*of == leader).then_some(partition))
            .collect();
        let siblings = (index..connections).step_by(leaders.len()).count();
        let own: Vec<i32> = match led.len() {
            count if count < siblings => vec![led[number % count]],
            _ => led.into_iter().skip(number).step_by(siblings).collect(),
        };
        let requests = own
            .chunks(batching.partitions_per_request.max(1))
            .map(|some| (request(target, batching.acks, some, &bytes), some.to_vec()));
        Frames {
            leader,
            requests: requests.collect(),
            batch,
        }
    });
    Ok(frames.collect())
}

/// One batch, as full as may be, and what it holds.
fn build_batch(batching: &Batching, timestamp: i64) -> Result<(Vec<u8>, Work)> {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    let mut random = 0x9e37_79b9_7f4a_7c15;
    loop {
        let value = value(&mut random, batching.record_bytes);
        let size = builder.size_with_record(timestamp, None, Some(&value), &[]);
        if size > batching.batch_bytes && !builder.is_empty() {
            break;
        }
        builder.append(timestamp, None, Some(&value), &[]);
        ensure!(
            builder.record_count() < 1_000_000,
            "--record-bytes is too small for --batch-bytes"
        );
    }
    let mut bytes = Vec::new();
    let codec = Codec::from(batching.compression);
    builder.build(codec, &mut Compressor::default(), &mut bytes);
    let records = u64::try_from(builder.record_count())?;
    let work = Work {
        requests: 0,
        records,
        bytes: records * batching.record_bytes as u64,
    };
    Ok((bytes, work))
}

/// A value that compresses to about half: random bytes and their copy, in turn.
fn value(random: &mut u64, length: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(length + 32);
    while value.len() < length {
        let at = value.len();
        for _ in 0..2 {
            *random ^= *random << 13;
            *random ^= *random >> 7;
            *random ^= *random << 17;
            value.extend_from_slice(&random.to_be_bytes());
        }
        value.extend_from_within(at..);
    }
    value.truncate(length);
    value
}

fn request(target: &Target, acks: i16, partitions: &[i32], batch: &[u8]) -> Vec<u8> {
    let partitions = partitions.iter().map(|&index| PartitionProduceData {
        index,
        records: Some(batch),
    });
    let topic = TopicProduceData {
        name: &target.topic,
        partition_data: partitions.collect(),
        ..TopicProduceData::default()
    };
    let request = ProduceRequest {
        acks,
        timeout_ms: 30_000,
        topic_data: vec![topic].into(),
        ..ProduceRequest::default()
    };
    frame(ApiKey::Produce, PRODUCE_VERSION, &request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::test_target;
    use record::{Compression, RecordBatch};
    use std::collections::BTreeSet;

    fn batching(connections: usize, compression: Compression) -> Batching {
        Batching {
            connections,
            record_bytes: 1024,
            batch_bytes: 65536,
            partitions_per_request: 2,
            compression,
            acks: 1,
        }
    }

    #[test]
    fn every_partition_is_written_to() {
        for (connections, partitions, leaders) in [
            (1, 1, 1),
            (4, 4, 1),
            (3, 10, 1),
            (8, 2, 1),
            (3, 6, 3),
            (7, 10, 3),
            (8, 2, 2),
        ] {
            let plan = batching(connections, Compression::None);
            let target = test_target(partitions, leaders);
            let frames = build(&target, &plan).unwrap();
            assert_eq!(frames.len(), connections);
            for one in &frames {
                let mut reached = one.requests.iter().flat_map(|(_, some)| some);
                assert!(reached.all(|&partition| target.leaders[partition as usize] == one.leader));
            }
            let requests = frames.iter().flat_map(|frames| &frames.requests);
            let reached: BTreeSet<i32> = requests.flat_map(|(_, some)| some.clone()).collect();
            assert_eq!(reached, (0..partitions).collect());
        }
    }

    #[test]
    fn a_batch_is_full_and_valid() {
        let (plain, work) = build_batch(&batching(1, Compression::None), 7).unwrap();
        assert_eq!(work.records, 63);
        assert!(plain.len() > 64 * 1024 - 1100 && plain.len() <= 64 * 1024);
        let (small, _) = build_batch(&batching(1, Compression::Lz4), 7).unwrap();
        assert!(small.len() * 10 > plain.len() * 4 && small.len() * 10 < plain.len() * 8);
        for bytes in [plain, small] {
            let (batch, rest) = RecordBatch::parse(&bytes).unwrap();
            assert!(rest.is_empty() && batch.is_crc_valid());
        }
    }
}
