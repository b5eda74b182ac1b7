//! Which batches belong to aborted transactions, and which markers end nothing any more, while the
//! batches of a log pass by in the order of their offsets.

use model::{Offset, ProducerId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use record::{RecordBatch, TransactionResult};

use crate::transaction_index::AbortedTransaction;
use crate::transaction_marker::transaction_marker;

/// The transactions that are open at the batch that has just passed.
#[derive(Debug, Default)]
pub(super) struct CleanedTransactions {
    /// Aborted transactions that have not begun, by first offset.
    to_come: BinaryHeap<Reverse<(Offset, Offset, ProducerId, Offset)>>,
    /// Those that have begun, by producer, with whether a batch of theirs has been seen.
    aborted: BTreeMap<ProducerId, (AbortedTransaction, bool)>,
    /// Producers with batches of a transaction that is not aborted.
    committed: BTreeSet<ProducerId>,
}

/// What a marker is still good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MarkerUse {
    /// Nothing of its transaction is left.
    None,
    /// It commits batches that are there.
    Commits,
    /// It aborts batches that are there.
    Aborts(AbortedTransaction),
    /// It is no marker of a transaction.
    Unknown,
}

impl CleanedTransactions {
    /// Transactions that may have batches in what follows; known ones may come again.
    pub(super) fn add_aborted(&mut self, transactions: Vec<AbortedTransaction>) {
        let transactions = transactions.into_iter().map(|one| {
            Reverse((
                one.first_offset,
                one.last_offset,
                one.producer_id,
                one.last_stable_offset,
            ))
        });
        self.to_come.extend(transactions);
    }

    fn begin_up_to(&mut self, offset: Offset) {
        while let Some(Reverse(next)) = self.to_come.peek().copied()
            && next.0 <= offset
        {
            self.to_come.pop();
            let (first_offset, last_offset, producer_id, last_stable_offset) = next;
            let transaction = AbortedTransaction {
                producer_id,
                first_offset,
                last_offset,
                last_stable_offset,
            };
            let known = self.aborted.entry(producer_id);
            known.or_insert((transaction, false));
        }
    }

    /// A batch of records passes; whether its transaction is aborted.
    pub(super) fn note_batch(&mut self, batch: &RecordBatch<'_>) -> bool {
        self.begin_up_to(batch.last_offset());
        if !batch.is_transactional() || batch.is_control() {
            return false;
        }
        match self.aborted.get_mut(&batch.producer_id()) {
            Some((_, is_seen)) => {
                *is_seen = true;
                true
            }
            None => {
                self.committed.insert(batch.producer_id());
                false
            }
        }
    }

    /// A control batch passes; what it is still good for.
    pub(super) fn note_control(&mut self, batch: &RecordBatch<'_>) -> MarkerUse {
        self.begin_up_to(batch.last_offset());
        if batch.record_count() == 0 {
            // Its records have been removed before.
            return MarkerUse::None;
        }
        let producer_id = batch.producer_id();
        match transaction_marker(batch).map(|marker| marker.result) {
            Some(TransactionResult::Abort) => match self.aborted.remove(&producer_id) {
                Some((transaction, true)) => MarkerUse::Aborts(transaction),
                _ => MarkerUse::None,
            },
            Some(TransactionResult::Commit) => match self.committed.remove(&producer_id) {
                true => MarkerUse::Commits,
                false => MarkerUse::None,
            },
            None => MarkerUse::Unknown,
        }
    }
}
