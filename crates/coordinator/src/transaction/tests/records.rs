//! The bytes of records: those that Apache Kafka 4.3.1 writes, and those that nobody should.

use super::super::records;
use super::super::transaction::Transaction;
use super::super::{
    ReplayError, TransactionConfig, TransactionShard, TransactionState, fuzz_replay,
};
use crate::CoordinatorRecord;
use model::{DecodeError, Now, ProducerEpoch, ProducerId};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_bytes(record: &CoordinatorRecord, key: &str, value: Option<&str>) {
    assert_eq!(hex(&record.key), key);
    assert_eq!(record.value.as_deref().map(hex).as_deref(), value);
}

fn ongoing() -> Transaction {
    Transaction {
        producer_id: ProducerId(258),
        producer_epoch: ProducerEpoch(3),
        previous_producer_id: ProducerId(258),
        timeout_ms: 60_000,
        state: TransactionState::Ongoing,
        partitions: [(Arc::from("topic"), BTreeSet::from([0, 2]))].into(),
        start_timestamp_ms: 1_234_567_890_000,
        last_update_timestamp_ms: 1_234_567_890_123,
        ..Transaction::unused(ProducerId(0))
    }
}

#[test]
fn records_are_those_of_kafka() {
    let key = "0000000374786e";
    check_bytes(
        &records::transaction("txn", &ongoing(), 0),
        key,
        Some(
            "0000000000000000010200030000ea600100000001\
             0005746f7069630000000200000000000000020000011f71fb04cb0000011f71fb0450",
        ),
    );
    check_bytes(
        &records::transaction("txn", &ongoing(), 1),
        key,
        Some(
            "0001000000000000010200030000ea600102\
             06746f7069630300000000000000020000000\
             11f71fb04cb0000011f71fb04500100080000000000000102",
        ),
    );
    check_bytes(&records::tombstone("txn"), key, None);
}

#[test]
fn an_empty_transaction_has_no_list_of_partitions() {
    let empty = Transaction {
        state: TransactionState::Empty,
        partitions: [].into(),
        ..ongoing()
    };
    let record = records::transaction("txn", &empty, 0);
    let value = record.value.expect("it is no tombstone");
    assert_eq!(&value[17..21], (-1i32).to_be_bytes());
    let complete = Transaction {
        state: TransactionState::CompleteCommit,
        ..empty
    };
    let record = records::transaction("txn", &complete, 0);
    let value = record.value.expect("it is no tombstone");
    assert_eq!(&value[17..21], 0i32.to_be_bytes());
}

fn replay(record: &CoordinatorRecord) -> (TransactionShard, Result<(), ReplayError>) {
    let mut shard = TransactionShard::new(TransactionConfig::default());
    let sound = records::transaction("txn", &ongoing(), 1);
    let replayed = shard.replay(Now::at_ms(0), &sound.key, sound.value.as_deref());
    replayed.expect("the record is sound");
    let replayed = shard.replay(Now::at_ms(0), &record.key, record.value.as_deref());
    (shard, replayed)
}

#[test]
fn damage_forgets_the_transactional_id_and_nothing_else() {
    let damaged = |change: fn(&mut CoordinatorRecord)| {
        let mut record = records::transaction("txn", &ongoing(), 1);
        change(&mut record);
        let (shard, replayed) = replay(&record);
        (shard.len(), replayed)
    };
    assert_eq!(
        damaged(|record| record.value.as_mut().expect("a value")[1] = 2),
        (0, Err(ReplayError::Version(2)))
    );
    assert_eq!(
        damaged(|record| record.value.as_mut().expect("a value")[16] = 6),
        (0, Err(ReplayError::State(6)))
    );
    assert_eq!(
        damaged(|record| record.value.as_mut().expect("a value").truncate(20)),
        (0, Err(ReplayError::Value(DecodeError::Truncated)))
    );
    assert_eq!(
        damaged(|record| record.key.truncate(4)),
        (1, Err(ReplayError::Key(DecodeError::Truncated)))
    );
    // A type to come.
    assert_eq!(damaged(|record| record.key[1] = 9), (1, Ok(())));
}

proptest! {

    #![proptest_config(trials::property(256))]

    #[test]
    fn any_bytes_load(bytes in vec(any::<u8>(), 0..300)) {
        fuzz_replay(&bytes);
    }

    #[test]
    fn damaged_records_load(at in 0..80_usize, byte in any::<u8>(), version in 0..2_i16) {
        let mut record = records::transaction("txn", &ongoing(), version);
        if let Some(place) = record.value.as_mut().and_then(|value| value.get_mut(at)) {
            *place = byte;
        }
        let value = record.value.unwrap_or_default();
        let mut bytes = vec![u8::try_from(record.key.len()).expect("a short key")];
        bytes.extend(&record.key);
        bytes.push(u8::try_from(value.len()).expect("a short value"));
        bytes.extend(&value);
        fuzz_replay(&bytes);
    }
}
