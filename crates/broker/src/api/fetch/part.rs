//! A partition of a fetch: what is asked of it, and what a read has found.

use super::{Limits, find};
use crate::api::broker::Broker;
use crate::logs::partitions::Unavailable;
use metadata::NO_LEADER;
use model::{BrokerId, ErrorCode, LeaderEpoch};
use replication::{
    FetchPartition, FetchSession, FollowerFetch, Isolation, Partition, PartitionSlot, ReadError,
    ReadOutcome, ReadRequest, ReadResult, Seen, SessionTopic,
};
use std::sync::Arc;

/// A partition to read and what was found.
pub(super) struct Part {
    pub(super) topic: SessionTopic,
    pub(super) index: i32,
    pub(super) request: FetchPartition,
    /// Where the partition stands in its session, or in the request without one.
    pub(super) slot: PartitionSlot,
    pub(super) partition: Result<Arc<Partition>, Unavailable>,
    /// The partition's progress before it was read.
    pub(super) seen: Seen,
    /// The same of its high watermark, where a follower hears of that.
    pub(super) seen_high_watermark: Option<Seen>,
    pub(super) result: Result<ReadResult, ErrorCode>,
    /// The leader and its epoch when the client was found to be wrong about them.
    pub(super) leader: (BrokerId, LeaderEpoch),
    /// From whom a consumer had better read; [`BrokerId::NONE`] for this broker.
    pub(super) preferred_read_replica: BrokerId,
    /// Why there are no records.
    pub(super) failure: Option<ReadError>,
}

impl Part {
    pub(super) fn new(
        broker: &Broker,
        topic: SessionTopic,
        index: i32,
        request: FetchPartition,
        slot: PartitionSlot,
    ) -> Self {
        let partition = find(broker, &topic, index);
        let result = Err(ErrorCode::UnknownServerError);
        Self {
            topic,
            index,
            request,
            slot,
            partition,
            seen: Seen::default(),
            seen_high_watermark: None,
            preferred_read_replica: BrokerId::NONE,
            result,
            leader: (NO_LEADER, LeaderEpoch::NONE),
            failure: None,
        }
    }

    pub(super) fn read(
        &mut self,
        left_bytes: usize,
        at_least_one_batch: bool,
        limits: &Limits,
    ) -> usize {
        self.failure = None;
        self.preferred_read_replica = BrokerId::NONE;
        self.result = match &self.partition {
            Ok(partition) => {
                let partition = partition.clone();
                let request = ReadRequest {
                    current_leader_epoch: self.request.current_leader_epoch,
                    fetch_offset: self.request.fetch_offset,
                    last_fetched_epoch: self.request.last_fetched_epoch,
                    max_bytes: left_bytes.min(self.request.max_bytes.max(0) as usize),
                    at_least_one_batch,
                    isolation: limits.isolation,
                    is_leader_asked: limits.is_leader_asked,
                };
                let read = self.read_from(&partition, &request, limits);
                read.map_err(|error| self.failure.insert(error).code())
            }
            Err(absence) => Err(absence.code_for(self.request.current_leader_epoch)),
        };
        self.note_leader(limits);
        self.bytes()
    }

    fn read_from(
        &mut self,
        partition: &Partition,
        request: &ReadRequest,
        limits: &Limits,
    ) -> Result<ReadResult, ReadError> {
        // What happens from here on is not missed.
        self.seen = partition.progress(limits.isolation).seen();
        let Some(follower) = &limits.follower else {
            let rack = limits.rack.as_deref();
            let preferred =
                rack.and_then(|rack| partition.preferred_read_replica(rack, request.fetch_offset));
            if let Some(preferred) = preferred {
                self.preferred_read_replica = preferred;
                return partition.look(request);
            }
            return partition.read(request);
        };
        let replicated = partition.progress(Isolation::HighWatermark);
        self.seen_high_watermark = Some(replicated.seen());
        let (broker_id, broker_epoch) = follower.replica;
        let fetch = FollowerFetch {
            broker_id,
            broker_epoch,
            log_start_offset: self.request.log_start_offset,
            now: follower.now,
            session: follower.session.as_ref(),
            has_waited: follower.has_waited,
            is_throttled: follower.is_throttled(partition),
        };
        partition.read_as_follower(request, &fetch)
    }

    /// Watches the partition from what was seen of it on.
    pub(super) fn watch(
        &self,
        session: &mut FetchSession,
        partition: &Partition,
        isolation: Isolation,
    ) {
        session.watch(self.slot, partition.progress(isolation), self.seen);
        if let Some(seen) = self.seen_high_watermark {
            let replicated = partition.progress(Isolation::HighWatermark);
            session.watch_quietly(self.slot, replicated, seen);
        }
    }

    /// Looks for the leader on behalf of a client that is wrong about it.
    fn note_leader(&mut self, limits: &Limits) {
        if let (Err(ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch), Ok(partition)) =
            (&self.result, &self.partition)
        {
            self.leader = partition.known_leader(limits.node_id);
        }
    }

    /// Answers without records, which the next fetch may have: the answer holds as many files as there
    /// may be open, until it has left.
    pub(super) fn put_off(&mut self, limits: &Limits) {
        let Ok(partition) = &self.partition else {
            return;
        };
        let is_committed = limits.isolation == Isolation::LastStableOffset;
        let checked = partition.check_leader(self.request.current_leader_epoch);
        self.result = checked.map(|()| ReadResult {
            offsets: partition.offsets(),
            records: None,
            aborted_transactions: is_committed.then(Vec::new),
            diverging_epoch: None,
            is_out_of_sync: false,
        });
        self.note_leader(limits);
    }

    /// Whether there is no such partition.
    pub(super) fn is_unknown(&self) -> bool {
        let absence = self.partition.as_ref().err();
        absence.is_some_and(|absence| absence.is_unknown())
    }

    /// The leader and its epoch, for a client that is wrong about them (KIP-951).
    pub(super) fn current_leader(&self) -> Option<(BrokerId, LeaderEpoch)> {
        match self.result {
            Err(ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) => {}
            _ => return None,
        }
        match &self.partition {
            Ok(_) => Some(self.leader),
            Err(absence) => absence.current_leader(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let records = self
            .result
            .as_ref()
            .ok()
            .and_then(|result| result.records.as_ref());
        records.map_or(0, |records| records.length)
    }

    /// Why there are no records, if that is a lack of file descriptors.
    pub(super) fn shortage(&self) -> Option<&ReadError> {
        self.failure
            .as_ref()
            .filter(|error| error.is_out_of_files())
    }

    /// Whether the client must hear of this partition without waiting.
    pub(super) fn is_urgent(&self) -> bool {
        self.result
            .as_ref()
            .map_or(true, |result| result.diverging_epoch.is_some())
            || !self.preferred_read_replica.is_none()
            || self.shortage().is_some()
    }

    /// Whether it is read again by the next fetch, whatever happens: there is more than the answer has, or the
    /// reader is a follower that comes to be in sync by its fetches.
    pub(super) fn is_read_again(&self, isolation: Isolation) -> bool {
        let read = self.result.as_ref();
        self.is_left_out(isolation) || read.is_ok_and(|read| read.is_out_of_sync)
    }

    /// Whether there are records that the limits have kept from the answer.
    fn is_left_out(&self, isolation: Isolation) -> bool {
        self.result.as_ref().is_ok_and(|result| {
            let end = match isolation {
                Isolation::LogEnd => result.offsets.log_end_offset,
                Isolation::HighWatermark => result.offsets.high_watermark,
                Isolation::LastStableOffset => result.offsets.last_stable_offset,
            };
            result.records.is_none() && self.request.fetch_offset < end
        })
    }

    pub(super) fn outcome(&self) -> ReadOutcome {
        match &self.result {
            Ok(result) => ReadOutcome {
                error: ErrorCode::None,
                high_watermark: result.offsets.high_watermark,
                log_start_offset: result.offsets.log_start_offset,
                has_records: self.bytes() > 0,
                has_diverging_epoch: result.diverging_epoch.is_some(),
                has_preferred_read_replica: !self.preferred_read_replica.is_none(),
            },
            Err(error) => ReadOutcome::error(*error),
        }
    }
}
