//! Fetch: sessions and their epochs, limits, offsets out of range, isolation.

use interpreter::{Struct, Value};
use wire::ApiKey;

use super::batches::Batch;
use super::body::body;
use super::produce::{produce, request};
use super::session::{Session, Stop, integer};
use super::topics::{UNKNOWN_ID, create};
use super::whole_topic::fetch;

fn partition(index: i32, offset: i64) -> Value {
    body!({ Partition: index, FetchOffset: offset, PartitionMaxBytes: 1_000_000 })
}

fn set(body: &mut Value, field: &str, value: Value) {
    if let Value::Struct(fields) = body
        && !fields.set(field, value.clone())
    {
        fields.fields.push((field.to_owned(), value));
    }
}

/// Fetches without a session, in every odd form.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 2, &[])?;
    for _ in 0..3 {
        let batch = Batch::random(&mut session.random);
        produce(session, &topic, &batch)?;
    }
    for _ in 0..8 {
        let mut one = partition(0, 0);
        let random = &mut session.random;
        match random.below(6) {
            0 => set(
                &mut one,
                "FetchOffset",
                (*random.choice(&[-1, 1, 3, 99, i64::MAX])).into(),
            ),
            1 => set(
                &mut one,
                "PartitionMaxBytes",
                (*random.choice(&[0, 1, 70, 150, -1])).into(),
            ),
            2 => set(
                &mut one,
                "CurrentLeaderEpoch",
                (*random.choice(&[0, 1, 50, -1])).into(),
            ),
            3 => set(&mut one, "Partition", (*random.choice(&[7, -1])).into()),
            4 => set(
                &mut one,
                "LastFetchedEpoch",
                (*random.choice(&[0, 3])).into(),
            ),
            _ => {}
        }
        let mut request = fetch(&topic, vec![one, partition(1, 0)], 0, -1);
        match random.below(7) {
            0 => set(
                &mut request,
                "MaxBytes",
                (*random.choice(&[0, 1, 100, 200, -1])).into(),
            ),
            1 => set(
                &mut request,
                "IsolationLevel",
                (*random.choice(&[0, 1, 5])).into(),
            ),
            2 => set(
                &mut request,
                "MinBytes",
                (*random.choice(&[1, 100, 1_000_000, -1])).into(),
            ),
            3 => set(&mut request, "RackId", "elsewhere".into()),
            4 => {
                let unknown = body!([{ Topic: "no-such-topic", TopicId: UNKNOWN_ID, Partitions: [(partition(0, 0))] }]);
                set(&mut request, "Topics", unknown);
            }
            5 => set(
                &mut request,
                "MaxWaitMs",
                (*random.choice(&[0, 1, -1])).into(),
            ),
            _ => {}
        }
        session.call(ApiKey::Fetch, &request)?;
    }
    Ok(())
}

/// An incremental fetch session from its first request to its last.
pub(super) fn session_sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 3, &[])?;
    let batch = Batch::random(&mut session.random);
    produce(session, &topic, &batch)?;
    // Names until version 12, ids from 13 on: a session keeps to one of them.
    let range = if session.random.chance(1, 2) {
        (7, 12)
    } else {
        (13, 18)
    };
    let all = (0..3).map(|index| partition(index, 0)).collect();
    let opened = session.call_within(ApiKey::Fetch, range, &fetch(&topic, all, 0, 0))?;
    let id = integer(&opened, "SessionId");
    let mut epoch = 1;
    for _ in 0..8 {
        let mut sent_epoch = epoch;
        let mut request_id = id;
        let mut partitions = Vec::new();
        let mut forgotten = body!([]);
        match session.random.below(9) {
            0 | 1 => {
                let batch = Batch::random(&mut session.random);
                let index = session.random.below(3) as i32;
                let produced = request(&topic, index, 1, batch.bytes().into());
                session.call(ApiKey::Produce, &produced)?;
            }
            2 => partitions.push(partition(session.random.below(4) as i32, 1)),
            3 => partitions.push(partition(0, *session.random.choice(&[-1, 500]))),
            4 => {
                let index = session.random.below(4) as i32;
                forgotten =
                    body!([{ Topic: (&topic.name), TopicId: (&topic.id), Partitions: [index] }]);
            }
            5 => sent_epoch = epoch + 3,
            6 => request_id = 123_456,
            7 => sent_epoch = (epoch - 1).max(1),
            _ => {}
        }
        let mut request = fetch(&topic, partitions, request_id, sent_epoch);
        set(&mut request, "ForgottenTopicsData", forgotten);
        let answer = session.call_within(ApiKey::Fetch, range, &request)?;
        epoch += advance(&answer, sent_epoch == epoch && request_id == id);
    }
    let closing = fetch(&topic, Vec::new(), id, -1);
    session.call_within(ApiKey::Fetch, range, &closing)?;
    let late = fetch(&topic, Vec::new(), id, epoch);
    session.call_within(ApiKey::Fetch, range, &late)?;
    Ok(())
}

/// A request that the session has taken moves its epoch on.
fn advance(answer: &Struct, in_order: bool) -> i32 {
    i32::from(in_order && integer(answer, "ErrorCode") == 0)
}
