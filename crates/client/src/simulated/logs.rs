//! Topics, their logs, and who leads them.

use super::cluster::{Call, Outcome};
use super::network::HOST;
use super::transactions::Transactions;
use metadata::{MetadataImage, MetadataRecord};
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset, Uuid};
use record::{Decompressor, RecordBatch, RecordBatchMut};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use wire::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use wire::messages::produce_response::{
    LeaderIdAndEpoch, PartitionProduceResponse, TopicProduceResponse,
};
use wire::messages::{
    FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
    MetadataResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, ProduceRequest,
    ProduceResponse,
};

/// How many batches of a producer a leader remembers.
const REMEMBERED: usize = 5;

/// A batch in a log.
#[derive(Debug, Clone)]
struct Stored {
    end: i64,
    bytes: Vec<u8>,
    /// The producer of a transactional batch.
    writer: Option<(i64, i16)>,
}

/// What a leader knows of a producer.
#[derive(Debug, Default)]
struct Writer {
    epoch: i16,
    next_sequence: Option<i32>,
    /// First sequence and base offset.
    batches: Vec<(i32, i64)>,
}

/// What is read of a log: its end, and batches.
type Read = Result<(i64, Vec<u8>), ErrorCode>;

/// A partition.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) leader: i32,
    pub(crate) epoch: i32,
    batches: Vec<Stored>,
    writers: BTreeMap<i64, Writer>,
    /// The ends of transactions: the producer, the offset and whether it was committed.
    markers: Vec<(i64, i64, bool)>,
}

#[derive(Debug)]
struct Topic {
    id: Uuid,
    partitions: Vec<Log>,
}

/// All topics.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    topics: BTreeMap<String, Topic>,
    /// Of the topic that was made last.
    next_id: u128,
    /// Topics that Metadata knows nothing of for the moment.
    pub(crate) unknown: Vec<String>,
    /// Topics that nobody may know of.
    pub(crate) forbidden: Vec<String>,
    /// What each answer to Produce asks its sender to wait.
    pub(super) produce_throttle_ms: i32,
}

impl Log {
    pub(super) fn end(&self) -> i64 {
        let markers = self.markers.iter().map(|(_, at, _)| at + 1);
        let batches = self.batches.iter().map(|batch| batch.end);
        markers.chain(batches).max().unwrap_or(0)
    }

    /// Ends the transaction of a producer.
    pub(super) fn mark(&mut self, producer: (i64, i16), commits: bool) {
        let at = self.end();
        self.markers.push((producer.0, at, commits));
        let writer = self.writers.entry(producer.0).or_default();
        if producer.1 > writer.epoch {
            *writer = Writer {
                epoch: producer.1,
                ..Writer::default()
            };
        }
    }

    /// The values of the records that are there, or with `is_settled` of those that are committed.
    pub(super) fn values(&self, is_settled: bool) -> Vec<String> {
        let is_visible = |batch: &&Stored| match (is_settled, batch.writer) {
            (true, Some((id, _))) => {
                let end = self.markers.iter();
                let mut end = end.filter(|(of, at, _)| *of == id && *at >= batch.end);
                end.next().is_some_and(|(_, _, commits)| *commits)
            }
            _ => true,
        };
        let mut values = Vec::new();
        for stored in self.batches.iter().filter(is_visible) {
            let (batch, _) = RecordBatch::parse(&stored.bytes).expect("a batch");
            let mut scratch = Vec::new();
            let records = batch.records(&mut Decompressor::new(), &mut scratch, 1 << 20);
            for record in records.expect("records") {
                let value = record.expect("a record").value.expect("a value");
                values.push(String::from_utf8(value.to_vec()).expect("text"));
            }
        }
        values
    }

    /// Writes a record of each value.
    pub(super) fn fill(&mut self, values: impl IntoIterator<Item = String>) {
        for value in values {
            let batch = testkit::batch(&[&value]);
            self.append(&batch, None).expect("nothing refuses it");
        }
    }

    fn append(&mut self, bytes: &[u8], transactions: Option<ErrorCode>) -> Result<i64, ErrorCode> {
        let (batch, _) = RecordBatch::parse(bytes).expect("a batch");
        let count = batch.record_count();
        let base = self.end();
        let mut writer = None;
        if batch.has_producer_id() {
            let (id, epoch) = (batch.producer_id().0, batch.producer_epoch().0);
            let known = self.writers.entry(id).or_default();
            if epoch < known.epoch {
                return Err(ErrorCode::InvalidProducerEpoch);
            }
            if epoch > known.epoch {
                *known = Writer {
                    epoch,
                    ..Writer::default()
                };
            }
            let first = batch.base_sequence();
            if let Some((_, offset)) = known.batches.iter().find(|(one, _)| *one == first) {
                return Ok(*offset);
            }
            if known.next_sequence.is_some_and(|next| next != first) {
                return Err(ErrorCode::OutOfOrderSequenceNumber);
            }
            if batch.is_transactional() {
                if let Some(code) = transactions {
                    return Err(code);
                }
                writer = Some((id, epoch));
            }
            known.next_sequence = Some(first + count);
            known.batches.push((first, base));
            if known.batches.len() > REMEMBERED {
                known.batches.remove(0);
            }
        }
        let mut bytes = bytes.to_vec();
        let (mut batch, _) = RecordBatchMut::parse(&mut bytes).expect("a batch");
        batch.set_base_offset(Offset(base));
        batch.set_partition_leader_epoch(LeaderEpoch(self.epoch));
        self.batches.push(Stored {
            end: base + i64::from(count),
            bytes,
            writer,
        });
        Ok(base)
    }
}

impl Logs {
    /// Makes a topic, with leaders in turn from `leader` on.
    pub(super) fn create(&mut self, name: &str, partitions: i32, leader: i32) {
        self.next_id += 1;
        let log = |index| Log {
            leader: leader + index,
            epoch: 0,
            batches: Vec::new(),
            writers: BTreeMap::new(),
            markers: Vec::new(),
        };
        let topic = Topic {
            id: Uuid::from_u128(self.next_id),
            partitions: (0..partitions).map(log).collect(),
        };
        self.topics.insert(name.to_owned(), topic);
    }

    /// The topics as a coordinator sees them.
    pub(super) fn image(&self) -> MetadataImage {
        let mut image = MetadataImage::default();
        for (name, topic) in &self.topics {
            let record = MetadataRecord::Topic {
                name: name.clone(),
                topic_id: topic.id,
            };
            image.replay(&record).expect("a new topic");
            for partition_id in 0..topic.partitions.len() as i32 {
                let record = MetadataRecord::Partition {
                    topic_id: topic.id,
                    partition_id,
                    partition: metadata::Partition::default(),
                };
                image.replay(&record).expect("a new partition");
            }
        }
        image.provenance.last_offset = Offset(self.version());
        image
    }

    /// Rises with each topic that is made.
    pub(super) const fn version(&self) -> i64 {
        self.next_id as i64
    }

    pub(super) fn log(&mut self, name: &str, index: i32) -> &mut Log {
        let topic = self.topics.get_mut(name).expect("a topic");
        &mut topic.partitions[index as usize]
    }

    /// The topic that a request means, by id or by name.
    fn find(&self, name: &str, id: Uuid) -> Result<&String, ErrorCode> {
        if id.is_zero() {
            let found = self.topics.get_key_value(name);
            return found
                .map(|(name, _)| name)
                .ok_or(ErrorCode::UnknownTopicOrPartition);
        }
        let found = self.topics.iter().find(|(_, topic)| topic.id == id);
        found.map(|(name, _)| name).ok_or(ErrorCode::UnknownTopicId)
    }

    fn led(&mut self, node: i32, name: &str, id: Uuid, index: i32) -> Result<&mut Log, ErrorCode> {
        let name = self.find(name, id)?.clone();
        let topic = self.topics.get_mut(&name).expect("it was found");
        let log = usize::try_from(index)
            .ok()
            .and_then(|index| topic.partitions.get_mut(index))
            .ok_or(ErrorCode::UnknownTopicOrPartition)?;
        match log.leader == node {
            true => Ok(log),
            false => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    fn describe<'a>(&'a self, name: &'a str) -> MetadataResponseTopic<'a> {
        let refused = |code: ErrorCode| MetadataResponseTopic {
            error_code: code.code(),
            name: Some(name),
            ..MetadataResponseTopic::default()
        };
        if self.forbidden.iter().any(|one| one == name) {
            return refused(ErrorCode::TopicAuthorizationFailed);
        }
        let topic = self.topics.get(name);
        let Some(topic) = topic.filter(|_| !self.unknown.iter().any(|one| one == name)) else {
            return refused(ErrorCode::UnknownTopicOrPartition);
        };
        let partitions = topic.partitions.iter().enumerate();
        let partitions = partitions.map(|(index, log)| MetadataResponsePartition {
            partition_index: index as i32,
            leader_id: BrokerId(log.leader),
            leader_epoch: log.epoch,
            ..MetadataResponsePartition::default()
        });
        MetadataResponseTopic {
            name: Some(name),
            topic_id: topic.id,
            partitions: partitions.collect(),
            ..MetadataResponseTopic::default()
        }
    }

    pub(super) fn metadata(&self, call: &Call<'_>, nodes: i32) -> Outcome {
        let request: MetadataRequest<'_> = call.read();
        let asked: Vec<&str> = match &request.topics {
            Some(topics) => topics.iter().filter_map(|topic| topic.name).collect(),
            None => self.topics.keys().map(String::as_str).collect(),
        };
        let brokers = (1..=nodes).map(|id| MetadataResponseBroker {
            node_id: BrokerId(id),
            host: HOST,
            port: id,
            rack: None,
        });
        call.answer(&MetadataResponse {
            brokers: brokers.collect(),
            cluster_id: Some("simulated"),
            topics: asked.iter().map(|name| self.describe(name)).collect(),
            ..MetadataResponse::default()
        })
    }

    pub(super) fn produce(&mut self, call: &Call<'_>, transactions: &mut Transactions) -> Outcome {
        let request: ProduceRequest<'_> = call.read();
        let mut topics = Vec::new();
        for topic in request.topic_data.iter() {
            let mut partitions = Vec::new();
            for data in topic.partition_data.iter() {
                let bytes = data.records.unwrap_or_default();
                let name = self.find(topic.name, topic.topic_id).cloned();
                let named = name.as_deref().unwrap_or_default();
                let place = (named, data.index);
                let led = self.led(call.node, topic.name, topic.topic_id, data.index);
                let enrolled = match led {
                    Ok(_) => transactions.check(request.transactional_id, place, bytes),
                    Err(_) => None,
                };
                let appended = match (call.refusal, led) {
                    (Some(code), _) | (None, Err(code)) => Err(code),
                    (None, Ok(log)) => log.append(bytes, enrolled),
                };
                // Who is wrong about the leader is told who it is (KIP-951).
                let is_elsewhere = appended.err() == Some(ErrorCode::NotLeaderOrFollower);
                let current_leader = name
                    .as_ref()
                    .ok()
                    .filter(|_| is_elsewhere)
                    .map(|name| self.log(name, data.index))
                    .map_or_else(LeaderIdAndEpoch::default, |log| LeaderIdAndEpoch {
                        leader_id: BrokerId(log.leader),
                        leader_epoch: log.epoch,
                    });
                partitions.push(PartitionProduceResponse {
                    current_leader,
                    index: data.index,
                    error_code: appended.err().map_or(0, ErrorCode::code),
                    base_offset: appended.unwrap_or(-1),
                    ..PartitionProduceResponse::default()
                });
            }
            topics.push(TopicProduceResponse {
                name: topic.name,
                topic_id: topic.topic_id,
                partition_responses: partitions.into(),
            });
        }
        if request.acks == 0 {
            return Outcome::Silence;
        }
        call.answer(&ProduceResponse {
            responses: topics.into(),
            throttle_time_ms: self.produce_throttle_ms,
            ..ProduceResponse::default()
        })
    }

    pub(super) fn fetch(&mut self, call: &Call<'_>) -> Outcome {
        let request: FetchRequest<'_> = call.read();
        let mut found: Vec<(String, Uuid, i32, Read)> = Vec::new();
        for topic in request.topics.iter() {
            for asked in topic.partitions.iter() {
                let log = self.led(call.node, topic.topic, topic.topic_id, asked.partition);
                let read = log.and_then(|log| {
                    let end = log.end();
                    if !(0..=end).contains(&asked.fetch_offset) {
                        return Err(ErrorCode::OffsetOutOfRange);
                    }
                    let wanted = log.batches.iter();
                    let wanted = wanted.filter(|batch| batch.end > asked.fetch_offset);
                    let bytes = wanted.take(4).flat_map(|batch| batch.bytes.clone());
                    Ok((end, bytes.collect()))
                });
                found.push((
                    topic.topic.to_owned(),
                    topic.topic_id,
                    asked.partition,
                    read,
                ));
            }
        }
        let has_news = |one: &Read| one.as_ref().map_or(true, |(_, bytes)| !bytes.is_empty());
        let wait = Duration::from_millis(request.max_wait_ms.max(1) as u64);
        let until = call.since + wait;
        if !found.iter().any(|(_, _, _, one)| has_news(one)) && tokio::time::Instant::now() < until
        {
            return Outcome::Wait(until);
        }
        let topics = found.iter().map(|(name, id, index, read)| {
            let read_part = read.as_ref();
            let (end, bytes) = read_part.map_or((-1, &[][..]), |(end, bytes)| (*end, &**bytes));
            let partition = PartitionData {
                partition_index: *index,
                error_code: read.as_ref().err().map_or(0, |code| code.code()),
                high_watermark: end,
                last_stable_offset: end,
                log_start_offset: 0,
                records: Some(bytes),
                ..PartitionData::default()
            };
            FetchableTopicResponse {
                topic: name,
                topic_id: *id,
                partitions: vec![partition].into(),
            }
        });
        call.answer(&FetchResponse {
            responses: topics.collect(),
            ..FetchResponse::default()
        })
    }

    pub(super) fn list_offsets(&mut self, call: &Call<'_>) -> Outcome {
        let request: ListOffsetsRequest<'_> = call.read();
        let mut topics = Vec::new();
        for topic in request.topics.iter() {
            let mut partitions = Vec::new();
            for asked in topic.partitions.iter() {
                let index = asked.partition_index;
                let log = self.led(call.node, topic.name, Uuid::ZERO, index);
                let found = log.map(|log| match asked.timestamp {
                    -2 => 0,
                    _ => log.end(),
                });
                partitions.push(ListOffsetsPartitionResponse {
                    partition_index: index,
                    error_code: found.err().map_or(0, ErrorCode::code),
                    offset: found.unwrap_or(-1),
                    ..ListOffsetsPartitionResponse::default()
                });
            }
            topics.push(ListOffsetsTopicResponse {
                name: topic.name,
                partitions: partitions.into(),
            });
        }
        call.answer(&ListOffsetsResponse {
            topics: topics.into(),
            ..ListOffsetsResponse::default()
        })
    }

    /// Logs are never cut: each epoch ends at the end.
    pub(super) fn epoch_ends(&mut self, call: &Call<'_>) -> Outcome {
        let request: OffsetForLeaderEpochRequest<'_> = call.read();
        let mut topics = Vec::new();
        for topic in request.topics.iter() {
            let mut partitions = Vec::new();
            for asked in topic.partitions.iter() {
                let log = self.led(call.node, topic.topic, Uuid::ZERO, asked.partition);
                let end = log.map(|log| (log.epoch.min(asked.leader_epoch), log.end()));
                let (epoch, end_offset) = end.unwrap_or((-1, -1));
                partitions.push(EpochEndOffset {
                    error_code: end.err().map_or(0, ErrorCode::code),
                    partition: asked.partition,
                    leader_epoch: epoch,
                    end_offset,
                });
            }
            topics.push(OffsetForLeaderTopicResult {
                topic: topic.topic,
                partitions: partitions.into(),
            });
        }
        call.answer(&OffsetForLeaderEpochResponse {
            topics: topics.into(),
            ..OffsetForLeaderEpochResponse::default()
        })
    }
}
