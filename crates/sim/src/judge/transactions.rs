//! Transactions, and the offsets that groups have committed, within them or at once.

use super::{Broken, Judge, OffsetKey, Promise, TransactionFacts, TransactionOutcome};
use replication::PartitionKey;
use std::fmt::Debug;

impl Judge {
    /// A producer begins a transaction.
    pub(crate) fn begun(&mut self, number: u64) {
        let facts = TransactionFacts {
            outcome: TransactionOutcome::Open,
            values: Vec::new(),
            offset: None,
        };
        self.transactions.insert(number, facts);
    }

    /// A transaction has ended so, as far as its producer knows. What is certain stays.
    pub(crate) fn ended(&mut self, number: u64, outcome: TransactionOutcome) {
        let Some(facts) = self.transactions.get_mut(&number) else {
            return;
        };
        facts.outcome = outcome;
        let Some((key, offset)) = facts.offset.clone() else {
            return;
        };
        match outcome {
            TransactionOutcome::Committed => self.offset_known(key, offset),
            TransactionOutcome::Aborted => {
                let facts = self.offsets.entry(key).or_default();
                facts.attempts.remove(&offset);
                facts.forbidden.insert(offset);
            }
            TransactionOutcome::Open | TransactionOutcome::Unknown => {}
        }
    }

    // Committed offsets.

    /// An offset is about to be committed, by a transaction or at once.
    pub(crate) fn committing(&mut self, key: OffsetKey, offset: i64, transaction: Option<u64>) {
        if let Some(facts) = transaction.and_then(|id| self.transactions.get_mut(&id)) {
            facts.offset = Some((key.clone(), offset));
        }
        self.offsets.entry(key).or_default().attempts.insert(offset);
    }

    /// A commit was acknowledged, or seen.
    pub(crate) fn offset_known(&mut self, key: OffsetKey, offset: i64) {
        let facts = self.offsets.entry(key).or_default();
        facts.known = facts.known.max(Some(offset));
    }

    /// The committed offset that is known.
    pub(crate) fn known_offset(&self, key: &OffsetKey) -> Option<i64> {
        self.offsets.get(key).and_then(|facts| facts.known)
    }

    /// The next offset to commit: one that nobody has tried yet.
    pub(crate) fn next_offset(&self, key: &OffsetKey) -> i64 {
        let facts = self.offsets.get(key);
        let last = facts.and_then(|facts| facts.attempts.last().max(facts.forbidden.last()));
        last.map_or(1, |last| last + 1)
    }

    /// A committed offset was fetched; -1 for none.
    ///
    /// In a cluster one who does not know yet that another broker coordinates the group sees what was committed
    /// before: `seen` is what it has seen itself, and none for who knows.
    pub(crate) fn offset_fetched(
        &mut self,
        key: OffsetKey,
        offset: i64,
        was_gone: bool,
        seen: Option<i64>,
    ) {
        if was_gone {
            let detail = format!("{key:?}: {offset}");
            return self.broken(Promise::DeletedTopicHasNoOffsets, detail);
        }
        let facts = self.offsets.entry(key.clone()).or_default();
        let known = match seen.filter(|_| self.leaders_change) {
            Some(seen) => seen,
            None => facts.known.unwrap_or(-1),
        };
        let detail = format!("{key:?}: {offset} where {known} is known");
        let is_known = known == offset || facts.known == Some(offset);
        let is_later = known < offset;
        if facts.forbidden.contains(&offset) {
            self.broken(Promise::AbortedOffsetNeverCounts, detail);
        } else if !is_known && !is_later {
            self.broken(Promise::OffsetsNeverGoBack, detail);
        } else if !is_known && !facts.attempts.contains(&offset) {
            self.broken(Promise::OffsetIsNotMadeUp, detail);
        } else if offset >= 0 {
            self.offset_known(key, offset);
        }
    }

    /// At rest somebody has no answer to what offset a group has committed.
    pub(crate) fn offset_unanswered(&mut self, key: &OffsetKey, answer: &dyn Debug) {
        self.broken(Promise::AllComesToRest, format!("{key:?}: {answer:?}"));
    }

    /// At rest these are the offsets that all who coordinate a group know of.
    pub(crate) fn coordinated(&mut self, key: OffsetKey, offsets: &[i64]) {
        match offsets {
            [offset] => self.offset_fetched(key, *offset, false, None),
            _ => self.broken(
                Promise::GroupHasOneCoordinator,
                format!("{key:?}: {offsets:?}"),
            ),
        }
    }

    /// A transaction that is not there as it has ended.
    pub(super) fn transaction_fault(
        &self,
        number: u64,
        facts: &TransactionFacts,
    ) -> Option<Broken> {
        let is_kept = |(key, value): &&(PartitionKey, String)| {
            let log = self.logs.get(key);
            let place = log.and_then(|log| log.places.get(value).map(|at| (*at, log)));
            // What may have been deleted says nothing.
            place.is_none_or(|(at, log)| at >= log.deletable_end) && !self.is_gone(key.0)
        };
        let place = |(key, value): &(PartitionKey, String)| {
            let log = self.logs.get(key)?;
            Some((*key, *log.committed.get(value)?))
        };
        let judged: Vec<_> = facts.values.iter().filter(is_kept).collect();
        let found: Vec<_> = judged.iter().filter_map(|one| place(one)).collect();
        let count = format!("{number}: {} of {} records", found.len(), judged.len());
        let is_whole = found.len() == judged.len();
        match facts.outcome {
            TransactionOutcome::Committed if !is_whole => Some((Promise::CommittedIsWhole, count)),
            TransactionOutcome::Aborted if !found.is_empty() => {
                Some((Promise::AbortedIsUnread, count))
            }
            TransactionOutcome::Unknown if !is_whole && !found.is_empty() => {
                Some((Promise::WholeOrNotAtAll, count))
            }
            TransactionOutcome::Open => {
                Some((Promise::AllComesToRest, format!("{number} is open")))
            }
            _ => {
                let is_in_order = found.is_sorted_by(|one, next| one.0 != next.0 || one.1 < next.1);
                (!is_in_order).then_some((Promise::TransactionIsInOrder, count))
            }
        }
    }
}
