//! Batches whose `delivery.timeout.ms` is over.

use std::time::Instant;

use model::TopicPartition;

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
            let error = self.timed_out(&batch, now);
            self.fail(batch, BatchResult::failed(error));
        }
        let mut requests = std::mem::take(&mut self.requests);
        let in_flight = requests
            .values_mut()
            .flat_map(|request| &mut request.batches);
        let mut oldest = accumulator.oldest_batch();
        for batch in in_flight.filter(|batch| !batch.is_done()) {
            if is_over(batch) {
                let result = BatchResult::failed(self.timed_out(batch, now));
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

    fn timed_out(&self, batch: &Batch, now: Instant) -> Error {
        let partition = self.partitions.get(batch.partition);
        let leader = partition.and_then(|partition| partition.leader);
        let address = leader.map(|leader| match self.addresses.get(&leader.id) {
            Some(address) => format!("{address} (broker {})", leader.id),
            None => format!("broker {}", leader.id),
        });
        let (what, advice) = match (address, batch.attempts) {
            (None, 0) => (
                "no leader of the partition is known".to_owned(),
                "check that a broker leads it",
            ),
            (None, _) => (
                "sent without an acknowledgement, so perhaps written, and the partition has no leader \
                 any more"
                    .to_owned(),
                "check that a broker leads it",
            ),
            (Some(leader), 0) => (
                format!("not sent yet to {leader}"),
                "if records come faster than it takes them, send fewer, or raise \
                 `delivery.timeout.ms`",
            ),
            (Some(leader), attempts) => (
                format!(
                    "sent {} to {leader} without an acknowledgement, so perhaps written",
                    times(attempts)
                ),
                "check that it runs and that this machine reaches it, or raise \
                 `delivery.timeout.ms`",
            ),
        };
        let met = partition.and_then(|partition| partition.last_failure.as_deref());
        let met = met.or(self.identity_failure.as_deref());
        let met = met.map(|failure| format!("; the last failure was `{failure}`"));
        let (topic, index) = batch.outcome().name();
        Error::DeliveryTimedOut {
            partition: TopicPartition::new(topic, index),
            record_count: batch.record_count(),
            waited_ms: now.duration_since(batch.created).as_millis() as u64,
            timeout_ms: self.settings.delivery_timeout.as_millis() as u64,
            attempts: batch.attempts,
            reason: format!("{what}{}; {advice}", met.unwrap_or_default()),
        }
    }
}

fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}
