//! Produce: right and wrong batches, idempotent producers, compression, timestamps, limits.

use interpreter::{Random, Value};
use model::{LeaderEpoch, Offset};
use record::{Compression, TimestampType};
use wire::ApiKey;

use super::batches::{self, Batch, TIMESTAMP};
use super::body::body;
use super::session::{Session, Stop, value};
use super::topics::{Topic, UNKNOWN_ID, create};
use super::whole_topic::read_all;

const DAY_MS: i64 = 86_400_000;

/// Settings of the topics that are produced to.
const TOPIC_CONFIGS: &[&[(&str, &str)]] = &[
    &[],
    &[],
    &[("message.timestamp.type", "LogAppendTime")],
    &[("compression.type", "gzip")],
    &[("compression.type", "uncompressed")],
    &[("compression.type", "snappy")],
    &[("compression.type", "lz4")],
    &[("compression.type", "zstd")],
    &[("cleanup.policy", "compact")],
    &[("max.message.bytes", "150")],
    &[("message.timestamp.before.max.ms", "1000")],
    &[("min.insync.replicas", "2")],
];

/// A produce request of one partition.
pub(super) fn request(topic: &Topic, partition: i32, acks: i16, records: Value) -> Value {
    body!({
        TransactionalId: null,
        Acks: acks,
        TimeoutMs: 2_000,
        TopicData: [{
            Name: (&topic.name),
            TopicId: (&topic.id),
            PartitionData: [{ Index: partition, Records: records }],
        }],
    })
}

/// Produces a batch to partition 0 with all acknowledgements.
pub(super) fn produce(session: &mut Session<'_>, topic: &Topic, batch: &Batch) -> Result<(), Stop> {
    let request = request(topic, 0, -1, batch.bytes().into());
    session.call(ApiKey::Produce, &request)?;
    Ok(())
}

/// Batches of all kinds to one topic, then all that is in it.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let configs = *session.random.choice(TOPIC_CONFIGS);
    let topic = create(session, 2, configs)?;
    for _ in 0..8 {
        match session.random.below(10) {
            0..3 => {
                let batch = random_batch(&mut session.random);
                produce(session, &topic, &batch)?;
            }
            3 | 4 => damaged(session, &topic)?,
            5 => odd_batch(session, &topic)?,
            6 => odd_request(session, &topic)?,
            7 => several_partitions(session, &topic)?,
            8 => without_acks(session, &topic)?,
            _ => old_compression(session, &topic)?,
        }
    }
    read_all(session, &topic)
}

/// An idempotent producer: in order, again, with gaps, and fenced.
pub(super) fn idempotent_sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 1, &[])?;
    let init = body!({ TransactionalId: null, TransactionTimeoutMs: 60_000, ProducerId: (-1), ProducerEpoch: (-1) });
    let answer = session.call(ApiKey::InitProducerId, &init)?;
    let id = value(&answer, "ProducerId").as_integer().unwrap_or(-1);
    let mut epoch = 0;
    let mut next = 0;
    for _ in 0..10 {
        let batch = Batch::random(&mut session.random);
        let count = batch.count();
        let choice = session.random.below(12);
        let (batch, advances) = match choice {
            0..5 => (batch.of_producer(id, epoch, next), true),
            5 => (batch.of_producer(id, epoch, next + 5), false),
            6 => (batch.of_producer(id, epoch, (next - 1).max(0)), false),
            7 => {
                epoch += 1;
                next = 0;
                (batch.of_producer(id, epoch, 0), true)
            }
            8 => (batch.of_producer(id, epoch - 1, next), false),
            9 => (batch.of_producer(id, epoch + 1, 3), false),
            10 => (batch.of_producer(id, -1, -1), false),
            _ => (batch.of_producer(987_654_321, 0, 7), false),
        };
        produce(session, &topic, &batch)?;
        if choice == 4 {
            // The same again is a duplicate.
            produce(session, &topic, &batch)?;
        }
        if advances {
            next += count;
        }
    }
    let describe = body!({ Topics: [{ Name: (&topic.name), PartitionIndexes: [0, 7] }, { Name: "no-such-topic", PartitionIndexes: [0] }] });
    session.call(ApiKey::DescribeProducers, &describe)?;
    read_all(session, &topic)
}

fn random_batch(random: &mut Random) -> Batch {
    let batch = Batch::random(random);
    let compression = *random.choice(&Compression::ALL);
    batch.compressed(compression)
}

fn damaged(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let bytes = random_batch(&mut session.random).bytes();
    let bytes = batches::damage(bytes, &mut session.random);
    session.call(ApiKey::Produce, &request(topic, 0, -1, bytes.into()))?;
    Ok(())
}

fn odd_batch(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let mut batch = Batch::random(&mut session.random);
    let timestamps = [
        -1,
        0,
        TIMESTAMP - 9_000 * DAY_MS,
        TIMESTAMP + 40_000 * DAY_MS,
        i64::MAX,
        -5,
    ];
    match session.random.below(8) {
        0 => batch.header.is_control = true,
        1 => batch.header.is_transactional = true,
        2 => batch.records.clear(),
        3 => batch.header.base_offset = Offset(77),
        4 => batch.header.timestamp_type = TimestampType::LogAppendTime,
        5 => {
            let timestamp = *session.random.choice(&timestamps);
            batch.records.truncate(1);
            batch
                .records
                .iter_mut()
                .for_each(|record| record.0 = timestamp);
        }
        6 => batch.records.iter_mut().for_each(|record| record.1 = None),
        _ => batch.header.partition_leader_epoch = LeaderEpoch(12),
    }
    produce(session, topic, &batch)
}

fn odd_request(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let bytes = Batch::random(&mut session.random).bytes();
    let known = request(topic, 0, -1, bytes.clone().into());
    let unknown = Topic {
        name: "no-such-topic".into(),
        id: UNKNOWN_ID.into(),
        partitions: 1,
    };
    let odd = match session.random.below(7) {
        0 => request(topic, 99, -1, bytes.into()),
        1 => request(topic, -1, -1, bytes.into()),
        2 => request(&unknown, 0, -1, bytes.into()),
        3 => request(topic, 0, *session.random.choice(&[2, -2, 7]), bytes.into()),
        // Not null: Kafka never answers that.
        4 => request(topic, 0, -1, Value::Bytes(Vec::new())),
        5 => request(topic, 0, 1, Value::Bytes(Vec::new())),
        _ => body!({ Acks: 1, TimeoutMs: 1_000, TopicData: [] }),
    };
    session.call(ApiKey::Produce, &odd)?;
    session.call(ApiKey::Produce, &known)?;
    Ok(())
}

fn several_partitions(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let good = Batch::random(&mut session.random).bytes();
    let bad = batches::damage(good.clone(), &mut session.random);
    let request = body!({
        Acks: 1,
        TimeoutMs: 2_000,
        TopicData: [
            {
                Name: (&topic.name),
                TopicId: (&topic.id),
                PartitionData: [
                    { Index: 0, Records: bad },
                    { Index: 1, Records: (good.clone()) },
                    { Index: 2, Records: (good.clone()) },
                ],
            },
            {
                Name: "no-such-topic",
                TopicId: UNKNOWN_ID,
                PartitionData: [{ Index: 0, Records: good }],
            },
        ],
    });
    session.call(ApiKey::Produce, &request)?;
    Ok(())
}

fn without_acks(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let mut bytes = Batch::random(&mut session.random).bytes();
    if session.random.chance(1, 3) {
        bytes = batches::damage(bytes, &mut session.random);
    }
    session.call_without_answer(ApiKey::Produce, &request(topic, 0, 0, bytes.into()))
}

/// Zstandard needs a version that knows it.
fn old_compression(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let batch = Batch::random(&mut session.random).compressed(Compression::Zstd);
    let request = request(topic, 1, 1, batch.bytes().into());
    session.call_within(ApiKey::Produce, (3, 7), &request)?;
    Ok(())
}
