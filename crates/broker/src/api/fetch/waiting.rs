//! What a fetch waits for that has found too little.

use super::part::Part;
use super::{find, take_changed};
use crate::api::broker::Broker;
use replication::{Changes, IncrementalFetch, Isolation, PartitionSlot, Watches};
use std::collections::HashMap;
use std::sync::Arc;

/// Where each slot is among the parts.
pub(super) fn places(parts: &[Part]) -> HashMap<PartitionSlot, usize> {
    parts.iter().map(|part| part.slot).zip(0..).collect()
}

/// What a fetch waits for.
pub(super) enum Waiting<'f> {
    /// Any partition of the session; those that were not read are watched already.
    Session(&'f IncrementalFetch, HashMap<PartitionSlot, usize>),
    /// Any partition of the request, watched by its place.
    Request(Watches),
}

impl Waiting<'_> {
    /// Watches the parts that were just read. `None` when the session has gone on without this
    /// fetch.
    pub(super) fn watch(
        &mut self,
        broker: &Broker,
        parts: &[Part],
        read: &[usize],
        isolation: Isolation,
    ) -> Option<Arc<Changes>> {
        let read = read.iter().map(|at| &parts[*at]);
        let found = read.filter_map(|part| Some((part, part.partition.as_ref().ok()?)));
        match self {
            Self::Session(fetch, _) => broker.fetch_sessions.with(fetch.session_id, |sessions| {
                let session = sessions.session(fetch).ok()?;
                for (part, partition) in found {
                    part.watch(session, partition, isolation);
                }
                Some(session.changes().clone())
            }),
            Self::Request(watches) => {
                for (part, partition) in found {
                    watches.watch(part.slot.0, partition.progress(isolation), part.seen);
                }
                Some(watches.changes().clone())
            }
        }
    }

    /// The places of the parts that have changed, as they are hosted now: what has changed may be
    /// that a topic is deleted. Those that the session had not read before are added.
    pub(super) fn take_changed(&mut self, broker: &Broker, parts: &mut Vec<Part>) -> Vec<usize> {
        let mut changed = Vec::new();
        match self {
            Self::Session(fetch, places) => {
                let (taken, _) = take_changed(broker, fetch).unwrap_or_default();
                for taken in taken {
                    let part = taken.part(broker);
                    let at = *places.entry(part.slot).or_insert(parts.len());
                    changed.push(at);
                    match parts.get_mut(at) {
                        Some(known) => known.partition = part.partition,
                        None => parts.push(part),
                    }
                }
            }
            Self::Request(watches) => watches.take_changed(|place| {
                let at = place as usize;
                let part = &mut parts[at];
                part.partition = find(broker, &part.topic, part.index);
                changed.push(at);
            }),
        }
        changed
    }
}
