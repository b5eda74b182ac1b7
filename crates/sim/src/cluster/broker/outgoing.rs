//! What a broker asks of other brokers for transactions: one request to each at a time, and what comes meanwhile goes
//! together in the next one.

use crate::cluster::message::{Ask, Channel, Outbox};
use coordinator::transaction::{MarkersToWrite, PartitionsToAdd};
use model::{BrokerId, ErrorCode};
use std::collections::BTreeMap;

/// Something that is asked of other brokers.
pub(super) trait Asked: Sized + Clone {
    fn fits(&self, taken: &[Self]) -> bool;
    fn partition_count(&self) -> usize;
    fn request(all: Vec<Self>) -> Ask;
    fn channel(to: BrokerId) -> Channel;
}

impl Asked for MarkersToWrite {
    fn fits(&self, taken: &[Self]) -> bool {
        let key = self.answer_key();
        !taken.iter().any(|one| one.answer_key() == key)
    }

    fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    fn request(all: Vec<Self>) -> Ask {
        Ask::WriteMarkers(all)
    }

    fn channel(to: BrokerId) -> Channel {
        Channel::Markers(to)
    }
}

impl Asked for PartitionsToAdd {
    fn fits(&self, taken: &[Self]) -> bool {
        let key = self.answer_key();
        !taken.iter().any(|one| one.answer_key() == key)
    }

    fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    fn request(all: Vec<Self>) -> Ask {
        Ask::AddPartitions(all)
    }

    fn channel(to: BrokerId) -> Channel {
        Channel::Verification(to)
    }
}

/// What waits for each broker, and what it was asked. Each has a number, by which whoever waits for it is found.
#[derive(Debug)]
pub(super) struct Outgoing<T> {
    waiting: BTreeMap<BrokerId, Vec<(u64, T)>>,
    under_way: BTreeMap<BrokerId, Vec<(u64, T)>>,
}

impl<T> Default for Outgoing<T> {
    fn default() -> Self {
        Self {
            waiting: BTreeMap::new(),
            under_way: BTreeMap::new(),
        }
    }
}

impl<T: Asked> Outgoing<T> {
    pub(super) fn add(&mut self, to: BrokerId, number: u64, one: T) {
        self.waiting.entry(to).or_default().push((number, one));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }

    /// Asks whomever there is something to ask.
    pub(super) fn poll(&mut self, out: &mut Outbox) {
        for (to, all) in std::mem::take(&mut self.waiting) {
            if self.under_way.contains_key(&to) {
                self.waiting.insert(to, all);
                continue;
            }
            let (mut taken, mut left, mut request) = (Vec::new(), Vec::new(), Vec::<T>::new());
            for (number, one) in all {
                match request.is_empty() || one.fits(&request) {
                    true => {
                        request.push(one.clone());
                        taken.push((number, one));
                    }
                    false => left.push((number, one)),
                }
            }
            if !left.is_empty() {
                self.waiting.insert(to, left);
            }
            self.under_way.insert(to, taken);
            let (channel, ask) = (T::channel(to), T::request(request));
            out.ask(to.0 as usize, channel, ask, super::REQUEST_TIMEOUT_MS);
        }
    }

    /// Takes what a broker has answered, or that it has not: the outcomes of each that it was asked.
    pub(super) fn answered(
        &mut self,
        from: BrokerId,
        outcomes: Option<Vec<Vec<ErrorCode>>>,
    ) -> Vec<(u64, Vec<ErrorCode>)> {
        let asked = self.under_way.remove(&from).unwrap_or_default();
        let mut outcomes = outcomes.unwrap_or_default().into_iter();
        let told = asked.into_iter().map(|(number, one)| {
            let count = one.partition_count();
            let told = outcomes.next().filter(|told| told.len() == count);
            let lost = vec![ErrorCode::NetworkException; count];
            (number, told.unwrap_or(lost))
        });
        told.collect()
    }
}
