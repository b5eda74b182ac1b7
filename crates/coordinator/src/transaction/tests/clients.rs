//! Producers of random scripts, honest and prone to accidents: what they send, how they read the
//! answers, and what they know of the outcome of each transaction.

use super::super::{AddPartitions, EndTransaction, InitProducerId, ProducerIdAndEpoch};
use super::worlds::{NOT_APPENDED, World, partition_name};
use model::ErrorCode;
use std::collections::BTreeSet;

/// What a client was told of its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing, or nothing that it can trust.
    Unknown,
    Committed,
    Aborted,
}

/// A transaction as its client began it.
#[derive(Debug)]
pub(super) struct Attempt {
    /// Records that a partition took, wherever.
    pub(super) records: Vec<(usize, u32)>,
    pub(super) asked_to_commit: bool,
    pub(super) outcome: Outcome,
}

/// A batch that is under way for longer than its client waits.
#[derive(Debug)]
pub(super) struct LateBatch {
    transactional_id: &'static str,
    producer: ProducerIdAndEpoch,
    partition: usize,
    record: u32,
    attempt: usize,
}

/// All transactions that were ever begun, and what is under way.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) attempts: Vec<Attempt>,
    late: Vec<LateBatch>,
    record_count: u32,
}

impl History {
    fn begin(&mut self) -> usize {
        self.attempts.push(Attempt {
            records: Vec::new(),
            asked_to_commit: false,
            outcome: Outcome::Unknown,
        });
        self.attempts.len() - 1
    }

    fn next_record(&mut self) -> u32 {
        self.record_count += 1;
        self.record_count
    }

    /// A batch that nobody waits for arrives.
    pub(super) fn deliver(&mut self, world: &mut World, at: usize) {
        if self.late.is_empty() {
            return;
        }
        let late = self.late.swap_remove(at % self.late.len());
        let LateBatch {
            transactional_id,
            producer,
            partition,
            record,
            attempt,
        } = late;
        let taken = world.produce(transactional_id, producer, 2, partition, record);
        if taken.is_ok() {
            self.attempts[attempt].records.push((partition, record));
        }
    }
}

/// One instance of an application.
#[derive(Debug)]
pub(super) struct Client {
    transactional_id: &'static str,
    /// 0 for version 1 of the protocol, 2 for version 2.
    version: i16,
    producer: Option<ProducerIdAndEpoch>,
    /// Who it was before it asked to go on, until it is told who it is.
    resumed: Option<ProducerIdAndEpoch>,
    transaction: Option<usize>,
    added: BTreeSet<usize>,
    must_abort: bool,
    /// An end whose answer has yet to be understood.
    pending_end: Option<bool>,
}

impl Client {
    pub(super) fn new(transactional_id: &'static str, version: i16) -> Self {
        Self {
            transactional_id,
            version,
            producer: None,
            resumed: None,
            transaction: None,
            added: BTreeSet::new(),
            must_abort: false,
            pending_end: None,
        }
    }

    /// Forgets everything, as after a restart.
    pub(super) fn crash(&mut self) {
        *self = Self::new(self.transactional_id, self.version);
    }

    /// Takes the id over, or goes on after an error as the same producer (KIP-360).
    pub(super) fn init(&mut self, world: &mut World, goes_on: bool, loses_answer: bool) {
        let expected = self.resumed.or(self.producer.filter(|_| goes_on));
        let request = InitProducerId {
            transactional_id: self.transactional_id,
            timeout_ms: 60_000,
            enables_two_phase_commit: false,
            keeps_prepared_transaction: false,
            expected,
        };
        let decided = world.decide(self.transactional_id, |shard, context| {
            shard.init_producer_id(&request, context)
        });
        let answer = decided.and_then(|answer| answer);
        self.crash();
        match answer {
            Ok(producer) if !loses_answer => self.producer = Some(producer),
            // It asks again as who it was.
            Ok(_) | Err(NOT_APPENDED | ErrorCode::ConcurrentTransactions) => {
                self.resumed = expected;
            }
            Err(ErrorCode::ProducerFenced) => {}
            Err(error) => panic!("an honest producer is refused: {error:?}"),
        }
    }

    /// Sends a record to a partition; with `is_late` nobody knows when it arrives.
    pub(super) fn send(
        &mut self,
        world: &mut World,
        history: &mut History,
        partition: usize,
        is_late: bool,
    ) {
        let Some(producer) = self.producer else {
            return;
        };
        if self.pending_end.is_some() || self.must_abort {
            return;
        }
        let attempt = *self.transaction.get_or_insert_with(|| history.begin());
        if self.version < 2 && !self.add(world, producer, partition) {
            return;
        }
        let record = history.next_record();
        if is_late && self.version >= 2 {
            history.late.push(LateBatch {
                transactional_id: self.transactional_id,
                producer,
                partition,
                record,
                attempt,
            });
            self.must_abort = true;
            return;
        }
        let id = self.transactional_id;
        match world.produce(id, producer, self.version, partition, record) {
            Ok(()) => history.attempts[attempt].records.push((partition, record)),
            Err(error) => self.fail(error),
        }
    }

    /// Adds a partition as clients of version 1 do. Tells whether it is added.
    fn add(&mut self, world: &mut World, producer: ProducerIdAndEpoch, partition: usize) -> bool {
        if self.added.contains(&partition) {
            return true;
        }
        let partitions = [partition_name(partition)];
        let request = AddPartitions {
            transactional_id: self.transactional_id,
            producer,
            partitions: &partitions,
            client_transaction_version: 0,
        };
        let decided = world.decide(self.transactional_id, |shard, context| {
            Ok(shard.add_partitions(&request, context))
        });
        match decided.unwrap_or_else(|error| error) {
            ErrorCode::None => {
                self.added.insert(partition);
                true
            }
            error => {
                self.fail(error);
                false
            }
        }
    }

    fn fail(&mut self, error: ErrorCode) {
        match error {
            // The same may be tried again.
            NOT_APPENDED | ErrorCode::ConcurrentTransactions => {}
            ErrorCode::TransactionAbortable => self.must_abort = true,
            // Another instance has the id, or nobody knows it any more. An abort that bumped the
            // epoch makes an end of version 2 look like a repeated request.
            ErrorCode::InvalidTxnState if self.version >= 2 => self.crash(),
            ErrorCode::ProducerFenced
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidProducerIdMapping => self.crash(),
            error => panic!("an honest producer is refused: {error:?}"),
        }
    }

    /// Ends the transaction, or asks again for the end whose answer it has not understood.
    pub(super) fn end(
        &mut self,
        world: &mut World,
        history: &mut History,
        commits: bool,
        loses_answer: bool,
    ) {
        let Some(producer) = self.producer else {
            return;
        };
        let repeated = self.pending_end.take();
        let committed = repeated.unwrap_or(commits && !self.must_abort);
        let attempt = self.transaction;
        if repeated.is_none() {
            let has_begun = match self.version {
                2.. => {
                    let records = attempt.map(|at| &history.attempts[at].records);
                    // What has no partition can be aborted, too.
                    !committed || records.is_some_and(|records| !records.is_empty())
                }
                _ => !self.added.is_empty(),
            };
            if !has_begun {
                self.transaction = None;
                return;
            }
        }
        if let Some(at) = attempt {
            history.attempts[at].asked_to_commit |= committed;
        }
        let request = EndTransaction {
            transactional_id: self.transactional_id,
            producer,
            committed,
            client_transaction_version: self.version,
        };
        let decided = world.decide(self.transactional_id, |shard, context| {
            shard.end_transaction(&request, context)
        });
        match decided.and_then(|answer| answer) {
            Ok(_) if loses_answer => self.pending_end = Some(committed),
            Ok(next) => {
                if let Some(at) = attempt {
                    history.attempts[at].outcome = match committed {
                        true => Outcome::Committed,
                        false => Outcome::Aborted,
                    };
                }
                self.crash();
                self.producer = Some(if self.version >= 2 { next } else { producer });
            }
            Err(NOT_APPENDED | ErrorCode::ConcurrentTransactions) => {
                self.pending_end = Some(committed);
            }
            Err(error) => self.fail(error),
        }
    }
}
