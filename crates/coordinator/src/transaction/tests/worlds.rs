//! A coordinator with its log, and the partitions that transactions write to, modelled as far as
//! transactions are concerned: who may append, what a marker does, what a committed reader sees.

use super::super::transaction::Transaction;
use super::super::{
    AddPartitions, DecisionContext, NeedsProducerId, PreparedTransaction, ProducerIdAndEpoch,
    TransactionConfig, TransactionDecision, TransactionShard,
};
use crate::CoordinatorRecord;
use model::{ErrorCode, Now, ProducerEpoch, ProducerId, TopicPartition};
use std::collections::BTreeMap;

/// The topic of every modelled partition.
const TOPIC: &str = "a";

/// The coordinator's answer when its log takes no records.
pub(super) const NOT_APPENDED: ErrorCode = ErrorCode::CoordinatorNotAvailable;

/// The name of a modelled partition.
pub(super) fn partition_name(index: usize) -> TopicPartition {
    TopicPartition::new(TOPIC, i32::try_from(index).expect("few partitions"))
}

#[derive(Debug, Clone, Copy)]
enum Entry {
    Record {
        producer_id: ProducerId,
        record: u32,
    },
    Marker {
        producer_id: ProducerId,
        committed: bool,
    },
}

#[derive(Debug, Clone, Copy)]
struct KnownProducer {
    epoch: ProducerEpoch,
    has_transaction: bool,
}

/// A partition that producers write to.
#[derive(Debug, Default)]
pub(super) struct ModelPartition {
    log: Vec<Entry>,
    producers: BTreeMap<ProducerId, KnownProducer>,
}

impl ModelPartition {
    /// Whether a batch needs no word of the coordinator.
    fn has_transaction(&self, producer: ProducerIdAndEpoch) -> bool {
        let known = self.producers.get(&producer.producer_id);
        known.is_some_and(|known| known.has_transaction && known.epoch == producer.producer_epoch)
    }

    fn append(&mut self, producer: ProducerIdAndEpoch, record: u32) -> Result<(), ErrorCode> {
        let ProducerIdAndEpoch {
            producer_id,
            producer_epoch,
        } = producer;
        if let Some(known) = self.producers.get(&producer_id) {
            if known.epoch > producer_epoch {
                return Err(ErrorCode::InvalidProducerEpoch);
            }
            assert!(
                !known.has_transaction || known.epoch == producer_epoch,
                "a transaction of a fenced producer is open while the next one writes"
            );
        }
        let known = KnownProducer {
            epoch: producer_epoch,
            has_transaction: true,
        };
        self.producers.insert(producer_id, known);
        self.log.push(Entry::Record {
            producer_id,
            record,
        });
        Ok(())
    }

    fn write_marker(&mut self, end: &PreparedTransaction) {
        let ProducerIdAndEpoch {
            producer_id,
            producer_epoch,
        } = end.producer;
        if let Some(known) = self.producers.get(&producer_id) {
            assert!(known.epoch <= producer_epoch, "a marker is out of date");
            assert!(
                end.client_transaction_version < 2
                    || !known.has_transaction
                    || known.epoch < producer_epoch,
                "a marker of version 2 has an epoch of its own"
            );
        }
        let known = KnownProducer {
            epoch: producer_epoch,
            has_transaction: false,
        };
        self.producers.insert(producer_id, known);
        self.log.push(Entry::Marker {
            producer_id,
            committed: end.committed,
        });
    }

    /// The records that a committed reader sees.
    pub(super) fn committed(&self) -> Vec<u32> {
        let mut open: BTreeMap<ProducerId, Vec<u32>> = BTreeMap::new();
        let mut committed = Vec::new();
        for entry in &self.log {
            match *entry {
                Entry::Record {
                    producer_id,
                    record,
                } => open.entry(producer_id).or_default().push(record),
                Entry::Marker {
                    producer_id,
                    committed: is_commit,
                } => {
                    let records = open.remove(&producer_id).unwrap_or_default();
                    if is_commit {
                        committed.extend(records);
                    }
                }
            }
        }
        committed
    }

    fn has_any_transaction(&self) -> bool {
        self.producers.values().any(|known| known.has_transaction)
    }
}

/// Everything but the clients.
#[derive(Debug)]
pub(super) struct World {
    shard: TransactionShard,
    log: Vec<CoordinatorRecord>,
    pub(super) partitions: Vec<ModelPartition>,
    /// Ends whose markers are being written, with the partitions that still need theirs.
    finishing: Vec<(PreparedTransaction, Vec<TopicPartition>)>,
    pub(super) now: Now,
    next_producer_id: ProducerId,
    /// Whether the coordinator's log refuses what comes next.
    pub(super) refuses_next: bool,
}

impl World {
    pub(super) fn new(partition_count: usize) -> Self {
        Self {
            shard: TransactionShard::new(TransactionConfig::default()),
            log: Vec::new(),
            partitions: (0..partition_count)
                .map(|_| ModelPartition::default())
                .collect(),
            finishing: Vec::new(),
            now: Now::at_ms(1),
            next_producer_id: ProducerId(0),
            refuses_next: false,
        }
    }

    /// Lets the coordinator decide about an id, appends and replays; begins to write markers when
    /// an end is prepared.
    pub(super) fn decide<R>(
        &mut self,
        transactional_id: &str,
        mut decide: impl FnMut(
            &mut TransactionShard,
            &DecisionContext,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>,
    ) -> Result<R, ErrorCode> {
        let mut context = DecisionContext {
            now: self.now,
            transaction_version: 2,
            fresh_producer_id: None,
        };
        let decision = decide(&mut self.shard, &context).unwrap_or_else(|NeedsProducerId| {
            context.fresh_producer_id = Some(self.next_producer_id);
            self.next_producer_id.0 += 1;
            decide(&mut self.shard, &context).expect("it has a producer id")
        });
        let before = self.states();
        self.append(decision.records)?;
        if let Some((_, after)) = self.states().iter().find(|(id, _)| id == transactional_id)
            && let Some((_, before)) = before.iter().find(|(id, _)| id == transactional_id)
            && before != after
        {
            let previous = after.state.valid_previous();
            assert!(previous.contains(&before.state), "{before:?} {after:?}");
        }
        let is_known = |end: &PreparedTransaction| {
            let mut finishing = self.finishing.iter();
            finishing.any(|(one, _)| one.transactional_id == end.transactional_id)
        };
        if let Some(end) = self.shard.prepared_of(transactional_id)
            && !is_known(&end)
        {
            let left = end.partitions.clone();
            self.finishing.push((end, left));
        }
        Ok(decision.reply)
    }

    fn append(&mut self, records: Vec<CoordinatorRecord>) -> Result<(), ErrorCode> {
        if records.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.refuses_next) {
            return Err(NOT_APPENDED);
        }
        for record in records {
            let replayed = self
                .shard
                .replay(self.now, &record.key, record.value.as_deref());
            replayed.expect("a shard can read what it has written");
            self.log.push(record);
        }
        Ok(())
    }

    fn states(&self) -> Vec<(String, Transaction)> {
        let all = self.shard.transactions.iter();
        all.map(|(id, entry)| (id.to_string(), entry.stored.clone()))
            .collect()
    }

    /// A batch of a producer of version 1, which has added the partition before, or of version 2,
    /// whose partition is added now.
    pub(super) fn produce(
        &mut self,
        transactional_id: &str,
        producer: ProducerIdAndEpoch,
        client_transaction_version: i16,
        partition: usize,
        record: u32,
    ) -> Result<(), ErrorCode> {
        if !self.partitions[partition].has_transaction(producer) {
            let partitions = [partition_name(partition)];
            let request = AddPartitions {
                transactional_id,
                producer,
                partitions: &partitions,
                client_transaction_version,
            };
            let error = match client_transaction_version {
                2.. => self.decide(transactional_id, |shard, context| {
                    Ok(shard.add_partitions(&request, context))
                })?,
                _ => self.shard.verify_partitions(&request)?[0],
            };
            if !error.is_none() {
                return Err(error);
            }
        }
        self.partitions[partition].append(producer, record)
    }

    /// Writes one marker of one end; completes the transaction when it was the last.
    pub(super) fn write_marker(&mut self, at: usize) {
        if self.finishing.is_empty() {
            return;
        }
        let at = at % self.finishing.len();
        let (end, left) = &mut self.finishing[at];
        if let Some(target) = left.pop() {
            let index = usize::try_from(target.partition).expect("a partition");
            self.partitions[index].write_marker(end);
        }
        if !left.is_empty() {
            return;
        }
        let (id, producer) = (end.transactional_id.clone(), end.producer);
        let completed = self.decide(&id, |shard, context| {
            Ok(shard.complete(&id, producer, context))
        });
        match completed {
            Ok(is_done) => {
                assert!(is_done, "nobody else ends what is prepared");
                self.finishing.remove(at);
            }
            Err(error) => assert_eq!(error, NOT_APPENDED),
        }
    }

    /// The coordinator stops without a warning, and loads its log.
    pub(super) fn restart_coordinator(&mut self) {
        let before = self.states();
        self.shard = TransactionShard::new(TransactionConfig::default());
        for record in &self.log {
            let replayed = self
                .shard
                .replay(self.now, &record.key, record.value.as_deref());
            replayed.expect("a shard can read what it has written");
        }
        assert_eq!(self.states(), before, "the log gives the same state");
        let prepared = self.shard.prepared().into_iter();
        self.finishing = prepared
            .map(|end| {
                let left = end.partitions.clone();
                (end, left)
            })
            .collect();
    }

    pub(super) fn wait(&mut self, ms: i64) {
        self.now.monotonic = self.now.monotonic.plus_ms(ms);
        self.now.wall_ms += ms;
    }

    pub(super) fn abort_timed_out(&mut self) {
        for id in self.shard.timed_out(self.now.monotonic) {
            let aborted = self.decide(&id, |shard, context| shard.abort_timed_out(&id, context));
            assert!(matches!(aborted, Ok(true) | Err(NOT_APPENDED)));
        }
    }

    pub(super) fn expire_ids(&mut self) {
        let records = self.shard.expire_ids(self.now).records;
        let _ = self.append(records);
    }

    /// Nothing fails any more: every transaction comes to its end.
    pub(super) fn settle(&mut self) {
        self.refuses_next = false;
        self.wait(1_000_000);
        self.abort_timed_out();
        while !self.finishing.is_empty() {
            self.write_marker(0);
        }
        assert_eq!(self.shard.ongoing_count(), 0);
        for partition in &self.partitions {
            assert!(!partition.has_any_transaction(), "a transaction hangs");
        }
    }
}
