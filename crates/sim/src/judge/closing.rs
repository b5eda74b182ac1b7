//! What is judged when all is at rest, and every partition was scanned.

use super::{Broken, Judge, LogFacts, Promise, short};
use crate::record_key::key_of;
use replication::PartitionKey;

impl Judge {
    /// The last scan of a partition has ended.
    pub(crate) fn scanned(&mut self, key: PartitionKey, end: i64, high_watermark: i64) {
        self.logs.entry(key).or_default().scanned_end = Some(end);
        if end < high_watermark {
            let detail = format!("{key:?}: {end} of {high_watermark}");
            self.broken(Promise::RecordsAreReadable, detail);
        }
    }

    /// All was scanned: what is acknowledged has to be there, and transactions as wholes.
    pub(crate) fn close(&mut self) {
        let mut wrong = None;
        for (key, facts) in &self.logs {
            let end = facts.scanned_end.unwrap_or(0);
            let mut all = facts.acknowledged.keys().chain(facts.seen.keys());
            let lost = all.find(|at| **at >= end);
            if let (Some(at), false) = (lost, self.is_gone(key.0)) {
                wrong = Some((
                    Promise::AcknowledgedIsKept,
                    format!("{key:?} {at}: end {end}"),
                ));
            }
            if self.keyed.contains(&key.0)
                && let Some(detail) = facts.lost_key()
            {
                let detail = format!("{key:?} {detail}");
                wrong = Some((Promise::LastOfKeyStays, detail));
            }
        }
        for (number, facts) in &self.transactions {
            wrong = wrong.or_else(|| self.transaction_fault(*number, facts));
        }
        wrong = wrong.or_else(|| self.order_fault());
        wrong = wrong.or_else(|| self.group_gap());
        if let Some((promise, detail)) = wrong {
            self.broken(promise, detail);
        }
    }

    /// Records that one life of a client has sent in another order than they are in.
    fn order_fault(&self) -> Option<Broken> {
        self.orders.iter().find_map(|((life, key), order)| {
            let places = &self.logs.get(key)?.places;
            let once = order.iter().map(|(value, _)| value);
            let once = once.filter(|value| !self.repeatable.contains(*value));
            let placed = once.filter_map(|value| Some((places.get(value)?, value)));
            let placed: Vec<_> = placed.collect();
            let wrong = placed.windows(2).find(|pair| pair[0].0 > pair[1].0)?;
            let (one, next) = (wrong[0], wrong[1]);
            let detail = format!(
                "{life:?} {key:?}: {} at {}, and then {} at {}",
                short(one.1),
                one.0,
                short(next.1),
                next.0
            );
            Some((Promise::OrderIsKept, detail))
        })
    }
}

impl LogFacts {
    /// A record that was acknowledged, and has gone without a later one of its key.
    fn lost_key(&self) -> Option<String> {
        let last = |value: &str| {
            let committed = self.committed.iter();
            let of_key = committed.filter(|(other, _)| key_of(other) == key_of(value));
            of_key.map(|(_, at)| *at).max()
        };
        let acknowledged = self.acknowledged.iter();
        let mut all = acknowledged.filter(|(at, _)| **at >= self.deletable_end);
        let is_lost = |at: i64, value: &str| {
            !self.committed.contains_key(value) && last(value).is_none_or(|last| last < at)
        };
        let lost = all.find(|(at, value)| is_lost(**at, value));
        lost.map(|(at, value)| format!("{at}: {}", short(value)))
    }
}
