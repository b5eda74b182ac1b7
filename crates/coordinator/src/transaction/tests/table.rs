//! The table of `docs/transactions.md`: what becomes of each state with each event, as the code
//! has it.

use super::super::records;
use super::super::transaction::Transaction;
use super::super::{
    AddPartitions, DecisionContext, EndTransaction, InitProducerId, NeedsProducerId,
    ProducerIdAndEpoch, TransactionConfig, TransactionDecision, TransactionShard, TransactionState,
};
use model::{ErrorCode, Now, ProducerEpoch, ProducerId, TopicPartition};
use std::fmt::Write;

const ID: &str = "t";
const CURRENT: ProducerIdAndEpoch = ProducerIdAndEpoch {
    producer_id: ProducerId(7),
    producer_epoch: ProducerEpoch(5),
};
const NOW_MS: i64 = 10_000_000_000;

/// An event's name and what it comes to.
type Event = (&'static str, fn(&mut TransactionShard) -> String);

const EVENTS: &[Event] = &[
    ("InitProducerId", |shard| init(shard, None)),
    ("InitProducerId of the same producer", |shard| {
        init(shard, Some(CURRENT))
    }),
    ("AddPartitionsToTxn, AddOffsetsToTxn", add),
    ("EndTxn v0–4, commit", |shard| {
        end(shard, true, 0, CURRENT)
    }),
    ("EndTxn v0–4, abort", |shard| {
        end(shard, false, 0, CURRENT)
    }),
    ("EndTxn v5, commit", |shard| end(shard, true, 2, CURRENT)),
    ("EndTxn v5, abort", |shard| end(shard, false, 2, CURRENT)),
    ("EndTxn v5 repeated, commit", |shard| {
        end(shard, true, 2, before())
    }),
    ("EndTxn v5 repeated, abort", |shard| {
        end(shard, false, 2, before())
    }),
    ("every partition has its marker", |shard| {
        let context = context();
        let decision = shard.complete(ID, CURRENT, &context);
        shown(shard, decision, |done| match done {
            true => None,
            false => Some("–".to_owned()),
        })
    }),
    ("the timeout passes", |shard| {
        let context = context();
        match shard.abort_timed_out(ID, &context) {
            Ok(decision) => shown(shard, decision, |done| (!done).then(|| "–".to_owned())),
            Err(NeedsProducerId) => panic!("the epoch is not used up"),
        }
    }),
    ("`transactional.id.expiration.ms` passes", |shard| {
        let decision = shard.expire_ids(Now::at_ms(NOW_MS));
        shown(shard, decision, |count| {
            (count == 0).then(|| "–".to_owned())
        })
    }),
];

const fn before() -> ProducerIdAndEpoch {
    ProducerIdAndEpoch {
        producer_epoch: ProducerEpoch(CURRENT.producer_epoch.0 - 1),
        ..CURRENT
    }
}

const fn context() -> DecisionContext {
    DecisionContext {
        now: Now::at_ms(NOW_MS),
        transaction_version: 2,
        fresh_producer_id: Some(ProducerId(9)),
    }
}

/// A shard in which the id has this state since the beginning of time.
fn shard(state: Option<TransactionState>) -> TransactionShard {
    let mut shard = TransactionShard::new(TransactionConfig::default());
    if let Some(state) = state {
        let has_partitions = state == TransactionState::Ongoing || state.is_prepared();
        let stored = Transaction {
            state,
            producer_epoch: CURRENT.producer_epoch,
            previous_producer_id: CURRENT.producer_id,
            timeout_ms: 1,
            start_timestamp_ms: 0,
            last_update_timestamp_ms: 0,
            client_transaction_version: 2,
            partitions: match has_partitions {
                true => [("a".into(), [0].into())].into(),
                false => [].into(),
            },
            ..Transaction::unused(CURRENT.producer_id)
        };
        let record = records::transaction(ID, &stored, 2);
        let replayed = shard.replay(Now::at_ms(NOW_MS), &record.key, record.value.as_deref());
        replayed.expect("the record is sound");
    }
    shard
}

fn init(shard: &mut TransactionShard, expected: Option<ProducerIdAndEpoch>) -> String {
    let request = InitProducerId {
        transactional_id: ID,
        timeout_ms: 1,
        enables_two_phase_commit: false,
        keeps_prepared_transaction: false,
        expected,
    };
    match shard.init_producer_id(&request, &context()) {
        Ok(decision) => shown(shard, decision, |reply| reply.err().map(code)),
        Err(NeedsProducerId) => panic!("there is a producer id"),
    }
}

fn add(shard: &mut TransactionShard) -> String {
    let decision = shard.add_partitions(
        &AddPartitions {
            transactional_id: ID,
            producer: CURRENT,
            partitions: &[TopicPartition::new("b", 0)],
            client_transaction_version: 2,
        },
        &context(),
    );
    let refusal = |error: ErrorCode| (!error.is_none()).then(|| code(error));
    shown(shard, decision, refusal)
}

fn end(
    shard: &mut TransactionShard,
    committed: bool,
    client_transaction_version: i16,
    producer: ProducerIdAndEpoch,
) -> String {
    let request = EndTransaction {
        transactional_id: ID,
        producer,
        committed,
        client_transaction_version,
    };
    match shard.end_transaction(&request, &context()) {
        Ok(decision) => shown(shard, decision, |reply| reply.err().map(code)),
        Err(NeedsProducerId) => panic!("the epoch is not used up"),
    }
}

fn code(error: ErrorCode) -> String {
    error.name().to_owned()
}

/// What the decision makes of the id, and the refusal if there is one.
fn shown<R>(
    shard: &mut TransactionShard,
    decision: TransactionDecision<R>,
    refusal: impl Fn(R) -> Option<String>,
) -> String {
    let epoch = |shard: &TransactionShard| {
        let entry = shard.transactions.get(ID);
        entry.map_or(-1, |entry| entry.stored.producer_epoch.0)
    };
    let state_before = shard.transactions.get(ID).map(|entry| entry.stored.state);
    let epoch_before = epoch(shard);
    let changes = !decision.records.is_empty();
    for record in &decision.records {
        let replayed = shard.replay(Now::at_ms(NOW_MS), &record.key, record.value.as_deref());
        replayed.expect("a shard can read what it has written");
    }
    let entry = shard.transactions.get(ID);
    let mut parts = Vec::new();
    match entry.map(|entry| entry.stored.state) {
        Some(state) if changes => {
            if let Some(before) = state_before {
                assert!(state.valid_previous().contains(&before));
            }
            parts.push(format!("**{}**", state.name()));
        }
        None if changes => parts.push("**forgotten**".to_owned()),
        _ => {}
    }
    if changes && entry.is_some() && epoch(shard) != epoch_before {
        parts.push("epoch + 1".to_owned());
    }
    parts.extend(refusal(decision.reply));
    match parts.is_empty() {
        true => "as answered before".to_owned(),
        false => parts.join(", "),
    }
}

fn table() -> String {
    let states = TransactionState::ALL.map(Some);
    let states: Vec<_> = [None].into_iter().chain(states).collect();
    let mut table = String::from("| event |");
    for state in &states {
        write!(
            table,
            " {} |",
            state.map_or("no such id", TransactionState::name)
        )
        .expect("strings take all");
    }
    table += "\n|--|";
    table += &"--|".repeat(states.len());
    for (name, event) in EVENTS {
        write!(table, "\n| {name} |").expect("strings take all");
        for state in &states {
            write!(table, " {} |", event(&mut shard(*state))).expect("strings take all");
        }
    }
    table
}

#[test]
fn the_documentation_has_the_table_of_the_code() {
    let page = include_str!("../../../../../docs/transactions.md");
    let table = table();
    assert!(
        page.contains(&table),
        "docs/transactions.md is to hold:\n\n{table}\n"
    );
}

#[test]
fn every_state_can_be_reached_and_left() {
    for state in TransactionState::ALL {
        assert_eq!(TransactionState::from_id(state.id()), Some(state));
        assert_eq!(TransactionState::from_name(state.name()), Some(state));
        assert!(!state.valid_previous().is_empty(), "{state:?}");
        let follows = TransactionState::ALL.iter();
        let mut follows = follows.filter(|next| next.valid_previous().contains(&state));
        assert!(follows.next().is_some(), "{state:?}");
    }
}
