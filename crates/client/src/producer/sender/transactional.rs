//! What the sender has to do with transactions: it withdraws what is not to be sent, waits until
//! partitions are enrolled, and tells what was lost.

use std::time::Instant;

use super::Sender;
use super::partition::Place;
use crate::Error;
use crate::producer::accumulator::Accumulator;
use crate::producer::batch::PartitionKey;
use crate::producer::identity::Identity;
use crate::producer::transaction::{Protocol, TransactionAnswer};

/// The last version of Produce that does not enrol partitions by itself.
const EXPLICIT_VERSION_MAX: i16 = 11;

impl Sender {
    /// Tells the producer's transaction, if it has one, what was lost, and goes by what it says.
    pub(super) fn collect_transaction(&mut self, accumulator: &mut Accumulator, now: Instant) {
        let Some(mut transaction) = accumulator.take_transaction() else {
            return;
        };
        for error in self.lost.drain(..) {
            transaction.handle_batch_failure(&error);
        }
        if let Some(error) = transaction.withdrawal() {
            self.withdraw(accumulator, &error);
        }
        self.identity = transaction.identity();
        let is_explicit = transaction.protocol() == Protocol::Explicit;
        self.enrolment = is_explicit.then(|| transaction.number());
        for key in transaction.take_enrolled() {
            let partition = &mut self.partitions[key];
            partition.enrolled_in = transaction.number();
            if partition.place == Place::Unenrolled {
                partition.place = Place::Idle;
                self.route(key, now);
            }
        }
        accumulator.put_transaction(transaction);
    }

    /// Tells the transaction what it waits for, and takes its next request.
    pub(super) fn poll_transaction(&mut self, accumulator: &mut Accumulator, now: Instant) {
        let is_drained = !accumulator.has_unfinished();
        let Some(transaction) = accumulator.transaction_mut() else {
            return;
        };
        transaction.want(self.unenrolled.drain(..));
        let identity = self.identity;
        let has_gaps = self.partitions.iter().any(|one| one.has_gap_in(identity));
        transaction.handle_drained(is_drained, has_gaps);
        if let Some(request) = transaction.poll_request(now) {
            self.transaction_request = Some(request);
        }
        self.transaction_at = transaction.next_deadline();
    }

    /// Fails what has not been sent; what is in flight is waited for.
    fn withdraw(&mut self, accumulator: &mut Accumulator, error: &Error) {
        self.fail_waiting(accumulator, error);
        self.release_finished(accumulator);
        self.unenrolled.clear();
        accumulator.unlist_empty();
        for partition in &mut self.partitions {
            partition.has_new = false;
            if partition.place == Place::Unenrolled {
                partition.place = Place::Idle;
            }
        }
    }

    /// The answer to a request of the transaction, or why there is none.
    pub(crate) fn handle_transaction(
        &mut self,
        answer: Result<TransactionAnswer, Error>,
        accumulator: &mut Accumulator,
        now: Instant,
    ) {
        if let Some(transaction) = accumulator.transaction_mut() {
            match answer {
                Ok(answer) => transaction.handle_answer(answer, now),
                Err(error) => transaction.handle_lost(&error, now),
            }
        }
    }

    /// Whether the partition must be enrolled in the transaction before it is sent to.
    pub(super) fn needs_enrolment(&self, key: PartitionKey) -> bool {
        self.enrolment
            .is_some_and(|number| self.partitions[key].enrolled_in != number)
    }

    /// The highest version of Produce that requests may have.
    pub(super) const fn produce_version_max(&self) -> i16 {
        match self.enrolment {
            Some(_) => EXPLICIT_VERSION_MAX,
            None => i16::MAX,
        }
    }
}

impl super::partition::Partition {
    /// Whether a sequence number of this identity is missing.
    fn has_gap_in(&self, identity: Option<Identity>) -> bool {
        self.has_gap && identity.is_some() && self.identity == identity
    }
}
