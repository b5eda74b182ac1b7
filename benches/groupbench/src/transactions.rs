//! What the transaction coordinator's load costs: a compacted log in which every transactional id
//! has the record of a transaction that is complete.

use crate::{bytes_in_use, row};
use anyhow::{Result, bail};
use coordinator::CoordinatorRecord;
use coordinator::transaction::{
    AddPartitions, DecisionContext, EndTransaction, InitProducerId, NeedsProducerId,
    ProducerIdAndEpoch, TransactionConfig, TransactionDecision, TransactionShard,
};
use model::{Now, ProducerId, TopicPartition};
use std::time::Instant;

const ID_COUNT: i64 = 1_000_000;
/// Partitions of `__transaction_state`, each of which has a shard of its own.
const SHARD_COUNT: i64 = 50;
const NOW: Now = Now::at_ms(1_000_000);

pub(crate) fn measure() -> Result<()> {
    let logs: Vec<Vec<CoordinatorRecord>> = (0..SHARD_COUNT)
        .map(|shard| compacted_log(shard * ID_COUNT / SHARD_COUNT, ID_COUNT / SHARD_COUNT))
        .collect::<Result<_>>()?;
    let before = bytes_in_use();
    let start = Instant::now();
    let mut shards = Vec::with_capacity(logs.len());
    for log in &logs {
        let mut shard = TransactionShard::new(TransactionConfig::default());
        for record in log {
            shard.replay(NOW, &record.key, record.value.as_deref())?;
        }
        if !shard.prepared().is_empty() {
            bail!("no transaction waits for markers");
        }
        shards.push(shard);
    }
    let loaded = start.elapsed();
    let count: usize = shards.iter().map(TransactionShard::len).sum();
    row(
        &format!("{count} transactional ids are replayed"),
        &format!("{:.0} ms", loaded.as_secs_f64() * 1e3),
    );
    let in_use = bytes_in_use().saturating_sub(before) / count;
    row("memory of a transactional id", &format!("{in_use} bytes"));
    Ok(())
}

/// The last record of each of some transactional ids.
fn compacted_log(first: i64, count: i64) -> Result<Vec<CoordinatorRecord>> {
    let mut shard = TransactionShard::new(TransactionConfig::default());
    (first..first + count)
        .map(|number| complete_transaction(&mut shard, number))
        .collect()
}

/// Runs one transaction of a producer from its beginning to its end; its last record.
fn complete_transaction(shard: &mut TransactionShard, number: i64) -> Result<CoordinatorRecord> {
    let id = format!("transactional-id-{number:08}");
    let context = DecisionContext {
        now: NOW,
        transaction_version: 2,
        fresh_producer_id: Some(ProducerId(number)),
    };
    let init = InitProducerId {
        transactional_id: &id,
        timeout_ms: 60_000,
        enables_two_phase_commit: false,
        keeps_prepared_transaction: false,
        expected: None,
    };
    let producer = decided(shard, |shard| shard.init_producer_id(&init, &context))?.0?;
    let add = AddPartitions {
        transactional_id: &id,
        producer,
        partitions: &[TopicPartition::new("topic", 0)],
        client_transaction_version: 2,
    };
    decided(shard, |shard| Ok(shard.add_partitions(&add, &context)))?;
    let end = EndTransaction {
        transactional_id: &id,
        producer,
        committed: true,
        client_transaction_version: 2,
    };
    let producer: ProducerIdAndEpoch =
        decided(shard, |shard| shard.end_transaction(&end, &context))?.0?;
    let (is_complete, record) =
        decided(shard, |shard| Ok(shard.complete(&id, producer, &context)))?;
    match record {
        Some(record) if is_complete => Ok(record),
        _ => bail!("{id} is not complete"),
    }
}

/// Lets the shard decide and replays the decision: its reply and its record.
fn decided<R>(
    shard: &mut TransactionShard,
    decide: impl FnOnce(&mut TransactionShard) -> Result<TransactionDecision<R>, NeedsProducerId>,
) -> Result<(R, Option<CoordinatorRecord>)> {
    let Ok(mut decision) = decide(shard) else {
        bail!("the producer id is given");
    };
    for record in &decision.records {
        shard.replay(NOW, &record.key, record.value.as_deref())?;
    }
    Ok((decision.reply, decision.records.pop()))
}
