//! Batches whose `delivery.timeout.ms` is over.

use std::time::{Duration, Instant};

use super::Sender;
use crate::Error;
use crate::producer::accumulator::Accumulator;
use crate::producer::batch::Batch;
use crate::producer::delivery::BatchResult;

impl Sender {
    /// Fails what is too old. Batches in flight fail too, but are kept until their request ends:
    /// the connection may still be writing them.
    pub(super) fn expire(&mut self, accumulator: &mut Accumulator, now: Instant) {
        let timeout = self.settings.delivery_timeout;
        let expiry_at = *self.expiry_at.get_or_insert(now + timeout);
        if now < expiry_at {
            return;
        }
        let is_over = |batch: &Batch| now.duration_since(batch.created) >= timeout;
        let mut expired = accumulator.take_out(is_over);
        for partition in &mut self.partitions {
            while let Some(batch) = partition.retries.pop_front_if(|batch| is_over(batch)) {
                expired.push(batch);
            }
        }
        for batch in expired {
            let error = self.timed_out(&batch, timeout);
            self.fail(batch, BatchResult::failed(error));
        }
        let mut requests = std::mem::take(&mut self.requests);
        let in_flight = requests
            .values_mut()
            .flat_map(|request| &mut request.batches);
        let mut oldest = accumulator.oldest_batch();
        for batch in in_flight.filter(|batch| !batch.is_done()) {
            if is_over(batch) {
                let result = BatchResult::failed(self.timed_out(batch, timeout));
                self.lose(&result);
                self.callbacks.extend(batch.complete(&result));
            } else {
                oldest = Some(oldest.map_or(batch.created, |oldest| oldest.min(batch.created)));
            }
        }
        self.requests = requests;
        let retries = self
            .partitions
            .iter()
            .filter_map(|partition| partition.retries.front());
        let oldest = retries.map(|batch| batch.created).chain(oldest).min();
        self.expiry_at = Some(oldest.unwrap_or(now) + timeout);
    }

    fn timed_out(&self, batch: &Batch, timeout: Duration) -> Error {
        let (topic, index) = batch.outcome().name();
        let partition = self.partitions.get(batch.partition);
        let leader = partition.and_then(|partition| partition.leader);
        let last_failure = partition.and_then(|partition| partition.last_failure.as_deref());
        let last_failure = last_failure.or(self.identity_failure.as_deref());
        let operation = match last_failure {
            Some(failure) => format!("producing to {topic}-{index}, which met `{failure}`"),
            None => format!("producing to {topic}-{index}"),
        };
        Error::TimedOut {
            operation,
            address: leader.map_or("the cluster".to_owned(), |leader| {
                let address = self.addresses.get(&leader.id);
                address.map_or_else(
                    || format!("broker {}", leader.id),
                    |address| format!("{address} (broker {})", leader.id),
                )
            }),
            waited_ms: timeout.as_millis() as u64,
            setting: "delivery.timeout.ms",
        }
    }
}
