//! Transactions: producer ids and epochs, partitions and offsets added, ends and fences.

use interpreter::{Struct, Value};
use wire::ApiKey;

use super::batches::Batch;
use super::body::body;
use super::leaf::leaf;
use super::produce::request;
use super::session::{Session, Stop, integer, value};
use super::topics::{Topic, create};
use super::whole_topic::read_all;

/// A transactional producer.
struct Producer {
    transactional_id: String,
    id: i64,
    epoch: i64,
    next_sequence: i32,
}

fn init(
    session: &mut Session<'_>,
    transactional_id: &str,
    with: Option<&Producer>,
) -> Result<Producer, Stop> {
    let (id, epoch) = with.map_or((-1, -1), |producer| (producer.id, producer.epoch));
    let request = body!({
        TransactionalId: transactional_id,
        TransactionTimeoutMs: 60_000,
        ProducerId: id,
        ProducerEpoch: epoch,
    });
    let answer = session.call(ApiKey::InitProducerId, &request)?;
    Ok(Producer {
        transactional_id: transactional_id.to_owned(),
        id: integer(&answer, "ProducerId"),
        epoch: integer(&answer, "ProducerEpoch"),
        next_sequence: 0,
    })
}

/// Transactions of one producer, some of them wrong.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 2, &[])?;
    let transactional_id = session.new_name("transaction");
    let group = session.new_name("group");
    odd_init(session)?;
    let mut producer = init(session, &transactional_id, None)?;
    for _ in 0..4 {
        for _ in 0..session.random.below(4) {
            match session.random.below(6) {
                0 | 1 => add_partitions(session, &producer, &topic)?,
                2 | 3 => produce(session, &mut producer, &topic)?,
                4 => add_offsets(session, &producer, &group, &topic)?,
                _ => wrong_producer(session, &producer, &topic)?,
            }
        }
        describe(session, &producer)?;
        end(session, &mut producer)?;
        settled(session, &producer)?;
        describe(session, &producer)?;
        if session.random.chance(1, 3) {
            let with = session.random.chance(1, 2);
            let old = Producer {
                transactional_id: transactional_id.clone(),
                ..producer
            };
            producer = init(session, &transactional_id, with.then_some(&old))?;
        }
    }
    marker_of_nobody(session, &topic)?;
    read_all(session, &topic)
}

/// The end of a transaction that no coordinator knows.
fn marker_of_nobody(session: &mut Session<'_>, topic: &Topic) -> Result<(), Stop> {
    let random = &mut session.random;
    let request = body!({ Markers: [{
        ProducerId: 555_000_111_i64,
        ProducerEpoch: (*random.choice(&[0, 3])),
        TransactionResult: (random.chance(1, 2)),
        Topics: [{ Name: (&topic.name), PartitionIndexes: [1, 9] }],
        CoordinatorEpoch: 0,
        TransactionVersion: (*random.choice(&[0, 1, 2])),
    }] });
    match session.call(ApiKey::WriteTxnMarkers, &request) {
        Ok(_) | Err(Stop::NotOffered(_)) => Ok(()),
        Err(stop) => Err(stop),
    }
}

fn odd_init(session: &mut Session<'_>) -> Result<(), Stop> {
    let name = session.new_name("odd");
    let odd = [
        body!({ TransactionalId: "", TransactionTimeoutMs: 60_000, ProducerId: (-1), ProducerEpoch: (-1) }),
        body!({ TransactionalId: (&name), TransactionTimeoutMs: 0, ProducerId: (-1), ProducerEpoch: (-1) }),
        body!({ TransactionalId: (&name), TransactionTimeoutMs: (i32::MAX), ProducerId: (-1), ProducerEpoch: (-1) }),
        body!({ TransactionalId: (&name), TransactionTimeoutMs: 60_000, ProducerId: 5, ProducerEpoch: (-1) }),
        body!({ TransactionalId: (&name), TransactionTimeoutMs: 60_000, ProducerId: (-1), ProducerEpoch: 2 }),
        body!({ TransactionalId: (&name), TransactionTimeoutMs: 60_000, ProducerId: 5_000_000, ProducerEpoch: 2 }),
        body!({ TransactionalId: null, TransactionTimeoutMs: 60_000, ProducerId: (-1), ProducerEpoch: (-1) }),
    ];
    let odd = session.random.choice(&odd).clone();
    session.call(ApiKey::InitProducerId, &odd)?;
    Ok(())
}

/// Versions up to 3 are those of clients; a broker sends the others.
fn add_partitions(
    session: &mut Session<'_>,
    producer: &Producer,
    topic: &Topic,
) -> Result<(), Stop> {
    let name = if session.random.chance(1, 6) {
        "no-such-topic"
    } else {
        &topic.name
    };
    let partitions = if session.random.chance(1, 6) {
        vec![0, 9]
    } else {
        vec![0, 1]
    };
    let partitions: Vec<Value> = partitions.into_iter().map(Value::from).collect();
    let topics = body!([{ Name: name, Partitions: partitions }]);
    let verify_only = session.random.chance(1, 2);
    let request = body!({
        V3AndBelowTransactionalId: (&producer.transactional_id),
        V3AndBelowProducerId: (producer.id),
        V3AndBelowProducerEpoch: (producer.epoch),
        V3AndBelowTopics: (topics.clone()),
        Transactions: [{
            TransactionalId: (&producer.transactional_id),
            ProducerId: (producer.id),
            ProducerEpoch: (producer.epoch),
            VerifyOnly: verify_only,
            Topics: topics,
        }],
    });
    session.call(ApiKey::AddPartitionsToTxn, &request)?;
    Ok(())
}

fn produce_body(producer: &Producer, topic: &Topic, batch: &Batch) -> Value {
    let mut body = request(topic, 0, -1, batch.bytes().into());
    if let Value::Struct(fields) = &mut body {
        fields.set("TransactionalId", (&producer.transactional_id).into());
    }
    body
}

fn produce(session: &mut Session<'_>, producer: &mut Producer, topic: &Topic) -> Result<(), Stop> {
    let batch = Batch::random(&mut session.random);
    let count = batch.count();
    let epoch = i16::try_from(producer.epoch).unwrap_or(-1);
    let batch = batch
        .of_producer(producer.id, epoch, producer.next_sequence)
        .transactional();
    let answer = session.call(ApiKey::Produce, &produce_body(producer, topic, &batch))?;
    if leaf(&answer, "Responses[0].PartitionResponses[0].ErrorCode") == Value::Integer(0) {
        producer.next_sequence += count;
    }
    Ok(())
}

fn add_offsets(
    session: &mut Session<'_>,
    producer: &Producer,
    group: &str,
    topic: &Topic,
) -> Result<(), Stop> {
    let add = body!({
        TransactionalId: (&producer.transactional_id),
        ProducerId: (producer.id),
        ProducerEpoch: (producer.epoch),
        GroupId: group,
    });
    if session.random.chance(3, 4) {
        session.call(ApiKey::AddOffsetsToTxn, &add)?;
    }
    let commit = body!({
        TransactionalId: (&producer.transactional_id),
        GroupId: group,
        ProducerId: (producer.id),
        ProducerEpoch: (producer.epoch),
        GenerationId: (*session.random.choice(&[-1, -1, 3])),
        MemberId: (*session.random.choice(&["", "", "stranger"])),
        Topics: [{ Name: (&topic.name), Partitions: [{ PartitionIndex: 0, CommittedOffset: 3, CommittedMetadata: "m" }] }],
    });
    session.call(ApiKey::TxnOffsetCommit, &commit)?;
    let fetch = body!({
        GroupId: group,
        Topics: [{ Name: (&topic.name), PartitionIndexes: [0] }],
        Groups: [{ GroupId: group, Topics: [{ Name: (&topic.name), TopicId: (topic.id.clone()), PartitionIndexes: [0] }] }],
        RequireStable: (session.random.chance(1, 2)),
    });
    session.call(ApiKey::OffsetFetch, &fetch)?;
    Ok(())
}

fn wrong_producer(
    session: &mut Session<'_>,
    producer: &Producer,
    topic: &Topic,
) -> Result<(), Stop> {
    let wrong = match session.random.below(3) {
        0 => Producer {
            transactional_id: producer.transactional_id.clone(),
            epoch: producer.epoch + 1,
            ..*producer
        },
        1 => Producer {
            transactional_id: producer.transactional_id.clone(),
            id: 4_242_424,
            ..*producer
        },
        _ => Producer {
            transactional_id: "no-such-transaction".into(),
            ..*producer
        },
    };
    match session.random.below(3) {
        0 => add_partitions(session, &wrong, topic),
        1 => end_body(session, &wrong).map(drop),
        _ => {
            let add = body!({ TransactionalId: (&wrong.transactional_id), ProducerId: (wrong.id), ProducerEpoch: (wrong.epoch), GroupId: "some-group" });
            session.call(ApiKey::AddOffsetsToTxn, &add).map(drop)
        }
    }
}

fn end_body(session: &mut Session<'_>, producer: &Producer) -> Result<Struct, Stop> {
    let committed = session.random.chance(2, 3);
    let request = body!({
        TransactionalId: (&producer.transactional_id),
        ProducerId: (producer.id),
        ProducerEpoch: (producer.epoch),
        Committed: committed,
    });
    session.call(ApiKey::EndTxn, &request)
}

/// Ends the transaction; from version 5 on the answer carries the next epoch.
fn end(session: &mut Session<'_>, producer: &mut Producer) -> Result<(), Stop> {
    let answer = end_body(session, producer)?;
    let id = value(&answer, "ProducerId").as_integer().unwrap_or(-1);
    if id != -1 {
        producer.id = id;
        producer.epoch = integer(&answer, "ProducerEpoch");
        producer.next_sequence = 0;
    }
    Ok(())
}

/// Waits until no end of the transaction is under way.
fn settled(session: &mut Session<'_>, producer: &Producer) -> Result<(), Stop> {
    let request = body!({ TransactionalIds: [(&producer.transactional_id)] });
    let done = |answer: &Struct| {
        let state = leaf(answer, "TransactionStates[0].TransactionState");
        !state
            .as_str()
            .is_some_and(|state| state.starts_with("Prepare"))
    };
    session.wait(ApiKey::DescribeTransactions, 0, &request, &done)
}

fn describe(session: &mut Session<'_>, producer: &Producer) -> Result<(), Stop> {
    let request =
        body!({ TransactionalIds: [(&producer.transactional_id), "no-such-transaction"] });
    session.call(ApiKey::DescribeTransactions, &request)?;
    if session.random.chance(1, 3) {
        let random = &mut session.random;
        let pattern = format!("{}.*", producer.transactional_id);
        let filters = [
            body!({ TransactionalIdPattern: (&pattern) }),
            body!({ StateFilters: ["Ongoing", "nonsense"], TransactionalIdPattern: (&pattern) }),
            body!({ ProducerIdFilters: [(producer.id)] }),
            body!({ DurationFilter: 1_000_000 }),
            body!({ TransactionalIdPattern: "(" }),
        ];
        let filter = random.choice(&filters).clone();
        session.call(ApiKey::ListTransactions, &filter)?;
    }
    Ok(())
}
