//! The coordinators of a broker: taken over with the leadership of a partition of their topics, and left with it; what
//! clients and other brokers ask of them.

use super::waiting::{Gathered, GatheringPlace};
use super::{BrokerNode, LOAD_DELAY_MS, SimPartition};
use crate::cluster::message::{Caller, Outbox};
use crate::cluster::planted::PlantedInCluster;
use crate::coordinators::{
    CoordinatorCaller, CoordinatorMistakes, Finishing, OFFSETS_TOPIC, TRANSACTION_TOPIC, answer_of,
    first_offset_batch, known_to,
};
use crate::judge::OffsetKey;
use crate::protocol::{self, ProducerKey};
use coordinator::GroupResponse;
use coordinator::group::GroupShard;
use coordinator::runtime::Waiter;
use coordinator::transaction::{
    PartitionsToAdd, ProducerIdAndEpoch, TransactionShard, coordinator_of,
};
use metadata::MetadataDelta;
use model::{ErrorCode, LeaderEpoch, MonotonicTime, Now, ProducerId};
use replication::{FirstBatch, PartitionKey, VerificationGuard};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

/// How long an answer of a coordinator waits for replicas.
const ANSWER_LIMIT_MS: i64 = 5_000;

/// What a broker goes on with, once a coordinator's answer may leave.
#[derive(Debug)]
pub(in crate::cluster) enum Next {
    Answer(Caller, protocol::Answer),
    /// The partition is part of the transaction.
    Append(Caller, protocol::Ask, Option<VerificationGuard>),
    /// Partitions are part of a transaction, or not, which another broker has asked about.
    Added(GatheringPlace, usize, ErrorCode),
    /// An end is certain.
    Finish(Finishing, Option<(Caller, protocol::Answer)>),
}

impl Next {
    /// What it says could be lost.
    fn refused(self, error: ErrorCode) -> Option<Self> {
        match self {
            Self::Answer(caller, answer) | Self::Finish(_, Some((caller, answer))) => {
                Some(Self::Answer(caller, answer.refused(error)))
            }
            Self::Append(caller, ask, _) => {
                let answer = ask.refused(known_to(&ask, error));
                Some(Self::Answer(caller, answer))
            }
            Self::Added(place, count, _) => Some(Self::Added(place, count, error)),
            // Whoever replays the log finds the end, or does not.
            Self::Finish(_, None) => None,
        }
    }
}

impl Waiter<GroupShard> for Caller {
    type Answer = Option<Next>;

    fn released(self, response: GroupResponse) -> Option<Next> {
        Some(Next::Answer(self, answer_of(response)))
    }

    /// The client asks again.
    fn abandoned(self, _: ErrorCode) -> Option<Next> {
        None
    }

    fn refused(answer: Option<Next>, error: ErrorCode) -> Option<Next> {
        answer.and_then(|next| next.refused(error))
    }
}

impl Waiter<TransactionShard> for Caller {
    type Answer = Option<Next>;

    fn released(self, response: Infallible) -> Option<Next> {
        match response {}
    }

    fn abandoned(self, _: ErrorCode) -> Option<Next> {
        None
    }

    fn refused(answer: Option<Next>, error: ErrorCode) -> Option<Next> {
        answer.and_then(|next| next.refused(error))
    }
}

impl CoordinatorCaller for Caller {
    type Next = Next;

    fn told(self, answer: protocol::Answer) -> Next {
        Next::Answer(self, answer)
    }

    fn resumed(finishing: Finishing) -> Next {
        Next::Finish(finishing, None)
    }
}

/// A batch whose transaction another broker is asked about.
#[derive(Debug)]
pub(super) struct Verifying {
    caller: Caller,
    ask: protocol::Ask,
    guard: VerificationGuard,
}

/// Partitions whose logs are to be replayed, by when.
pub(super) type Loading = BTreeMap<(MonotonicTime, PartitionKey), Arc<SimPartition>>;

impl BrokerNode {
    fn mistakes(&self, partition: &SimPartition) -> CoordinatorMistakes {
        CoordinatorMistakes {
            answers_early: self.planted == PlantedInCluster::CoordinatorAnswersEarly,
            loads_until: match self.planted {
                PlantedInCluster::LoadsToHighWatermark => Some(partition.high_watermark().0),
                _ => None,
            },
        }
    }

    /// This broker leads a partition from here on, or in another epoch.
    pub(super) fn led(
        &mut self,
        partition: &Arc<SimPartition>,
        leader_epoch: LeaderEpoch,
        now: Now,
    ) {
        let mistakes = self.mistakes(partition);
        let is_taken = match partition.topic() {
            OFFSETS_TOPIC => self.groups.take(partition, leader_epoch, mistakes),
            TRANSACTION_TOPIC => self.transactions.take(partition, leader_epoch, mistakes),
            _ => false,
        };
        if is_taken {
            let delay_ms = self.random.between(0, LOAD_DELAY_MS);
            let at = now.monotonic.plus_ms(delay_ms);
            self.loading
                .insert((at, partition.key()), partition.clone());
        }
    }

    /// It does not lead a partition any more.
    pub(super) fn left(&mut self, key: PartitionKey) {
        if self.planted == PlantedInCluster::CoordinatorServesOn {
            return;
        }
        self.groups.unload(key);
        self.transactions.unload(key);
    }

    /// Replays the logs whose time has come.
    pub(super) fn load_coordinators(&mut self, now: Now) -> Result<(), String> {
        while let Some(entry) = self.loading.first_entry()
            && entry.key().0 <= now.monotonic
        {
            let partition = entry.remove();
            let mistakes = self.mistakes(&partition);
            let loaded = match partition.topic() {
                OFFSETS_TOPIC => {
                    let image = self.image.clone();
                    self.groups.load(partition.index(), &image, mistakes, now)
                }
                _ => self.transactions.load(partition.index(), mistakes, now),
            };
            loaded.map_err(|halted| halted.reason)?;
        }
        Ok(())
    }

    /// Coordinators see the newest metadata.
    pub(super) fn coordinators_follow(
        &mut self,
        delta: &MetadataDelta,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let image = &delta.after;
        self.groups.follow(image);
        let told = self.groups.set_metadata(image, &[], now);
        told.map_err(|halted| halted.reason)?;
        self.transactions.follow(image);
        self.give_up_moved(image, now, out)
    }

    /// Does what is due in the coordinators.
    pub(super) fn keep_coordinating(&mut self, now: Now, out: &mut Outbox) -> Result<(), String> {
        self.load_coordinators(now)?;
        if self
            .groups
            .next_deadline()
            .is_some_and(|at| at <= now.monotonic)
        {
            let expired = self.groups.expire(now);
            expired.map_err(|halted| halted.reason)?;
        }
        let made_by = now.monotonic.plus_ms(-ANSWER_LIMIT_MS);
        self.groups.refuse_late(made_by);
        self.transactions.refuse_late(made_by, now);
        self.keep_ending(now, out)
    }

    /// When the coordinators have something to do.
    pub(super) fn coordinators_deadline(&self) -> Option<MonotonicTime> {
        let loading = self.loading.keys().next().map(|(at, _)| *at);
        let held_since = [self.groups.held_since(), self.transactions.held_since()];
        let held = held_since.into_iter().flatten();
        let held = held.map(|since| since.plus_ms(ANSWER_LIMIT_MS));
        let endings = self.endings.values().filter_map(|one| one.deadline());
        let deadlines = loading.into_iter().chain(self.groups.next_deadline());
        deadlines.chain(held).chain(endings).min()
    }

    /// Goes on with the answers that may leave.
    pub(super) fn poll_coordinators(&mut self, now: Now, out: &mut Outbox) -> Result<(), String> {
        loop {
            let next = self.transactions.poll_answer();
            let Some(next) = next.or_else(|| self.groups.poll_answer()) else {
                return Ok(());
            };
            match next {
                Next::Answer(caller, answer) => out.tell(caller, answer),
                Next::Append(caller, ask, guard) => self.append(caller, ask, guard, now, out)?,
                Next::Added((number, at, _), count, error) => {
                    for place in 0..count {
                        self.gather((number, at, place), error, now, out)?;
                    }
                }
                Next::Finish(finishing, reply) => self.finish(finishing, reply, now, out)?,
            }
        }
    }

    pub(super) fn serve_group(
        &mut self,
        caller: Caller,
        ask: &protocol::Ask,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let uuid = format!("{:032x}", u128::from_be_bytes(self.random.bytes()));
        let image = self.image.clone();
        let served = self.groups.serve(caller, ask, (&image, &uuid), now);
        if let Err(error) = served.map_err(|halted| halted.reason)? {
            out.tell(caller, ask.refused(error));
        }
        Ok(())
    }

    /// A request that takes a transactional id, or ends its transaction.
    pub(super) fn serve_transaction(
        &mut self,
        caller: Caller,
        ask: protocol::Ask,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let mut fresh = None;
        loop {
            let then = |answer, finishing| match finishing {
                Some(finishing) => Some(Next::Finish(finishing, Some((caller, answer)))),
                None => Some(Next::Answer(caller, answer)),
            };
            let decided = self.transactions.serve(&ask, (now, fresh), then);
            match decided.map_err(|halted| halted.reason)? {
                Ok(Some(())) => return Ok(()),
                Ok(None) => match self.producer_ids.next() {
                    Some(id) => fresh = Some(ProducerId(id)),
                    None => {
                        self.id_askers.push((caller, ask));
                        return Ok(());
                    }
                },
                Err(error) => {
                    out.tell(caller, ask.refused(error));
                    return Ok(());
                }
            }
        }
    }

    /// Aborts the transactions that have taken longer than they may.
    pub(super) fn abort_timed_out(&mut self, now: Now) -> Result<(), String> {
        for id in self.transactions.timed_out(now) {
            let then = |finishing| Next::Finish(finishing, None);
            let transactions = &mut self.transactions;
            let decided = transactions.abort_timed_out(&id, (now, None), then);
            let decided = decided.map_err(|halted| halted.reason)?;
            if decided == Ok(None)
                && let Some(fresh) = self.producer_ids.next()
            {
                let at = (now, Some(ProducerId(fresh)));
                let decided = self.transactions.abort_timed_out(&id, at, then);
                let _ = decided.map_err(|halted| halted.reason)?;
            }
        }
        let expired = self.transactions.expire_ids(now);
        expired.map_err(|halted| halted.reason)
    }

    /// The offset of a transaction.
    pub(super) fn serve_commit_in_transaction(
        &mut self,
        caller: Caller,
        ask: protocol::Ask,
        (group, producer): (&str, ProducerKey),
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        match self.groups.partition_of(group) {
            Ok(partition) => {
                let first = first_offset_batch(producer);
                self.verify(&partition, first, (caller, ask), now, out)
            }
            Err(error) => {
                out.tell(caller, ask.refused(error));
                Ok(())
            }
        }
    }

    pub(super) fn commit_in_transaction(
        &mut self,
        caller: Caller,
        ask: &protocol::Ask,
        guard: Option<VerificationGuard>,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let image = self.image.clone();
        let groups = &mut self.groups;
        let served = groups.commit_in_transaction(caller, ask, (&image, guard), now);
        if let Err(error) = served.map_err(|halted| halted.reason)? {
            out.tell(caller, ask.refused(error));
        }
        Ok(())
    }

    /// Asks the coordinator about the first batch of a transaction in a partition, and goes on with what asks for
    /// that.
    pub(super) fn verify(
        &mut self,
        partition: &Arc<SimPartition>,
        first: FirstBatch,
        (caller, ask): (Caller, protocol::Ask),
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let (protocol::Ask::Produce {
            transactional_id: Some(transactional_id),
            ..
        }
        | protocol::Ask::CommitInTransaction {
            transactional_id, ..
        }) = &ask
        else {
            return self.append(caller, ask, None, now, out);
        };
        let guard = match partition.start_verification(first, true, now.wall_ms) {
            Ok(Some(guard)) => guard,
            Ok(None) => return self.append(caller, ask, None, now, out),
            Err(error) if error.is_disk_failure() => return Err(error.to_string()),
            Err(error) => {
                out.tell(caller, ask.refused(known_to(&ask, error.code())));
                return Ok(());
            }
        };
        if self.planted == PlantedInCluster::AsksNoCoordinator {
            return self.append(caller, ask, Some(guard), now, out);
        }
        let asked = PartitionsToAdd {
            transactional_id: Box::from(&**transactional_id),
            producer: ProducerIdAndEpoch {
                producer_id: first.producer_id,
                producer_epoch: first.producer_epoch,
            },
            is_verify_only: false,
            partitions: vec![partition.topic_partition().clone()],
        };
        let refused = match coordinator_of(&self.image, TRANSACTION_TOPIC, transactional_id) {
            Ok(coordinator) if coordinator == self.id => {
                let verified = ask.clone();
                let then = |error| match error {
                    ErrorCode::None => Next::Append(caller, verified, Some(guard)),
                    error => {
                        let refused = verified.refused(known_to(&verified, error));
                        Next::Answer(caller, refused)
                    }
                };
                let (id, producer) = (&asked.transactional_id, asked.producer);
                let transactions = &mut self.transactions;
                let decided = transactions.add(id, producer, &asked.partitions, now, then);
                decided.map_err(|halted| halted.reason)?.err()
            }
            Ok(coordinator) => {
                let number = self.next_number();
                self.adding_out.add(coordinator, number, asked);
                let verifying = Verifying {
                    caller,
                    ask: ask.clone(),
                    guard,
                };
                self.verifying.insert(number, verifying);
                None
            }
            Err(error) => Some(error),
        };
        if let Some(error) = refused {
            out.tell(caller, ask.refused(known_to(&ask, error)));
        }
        Ok(())
    }

    /// Another broker has told whether a partition is part of a transaction.
    pub(super) fn verified(
        &mut self,
        number: u64,
        outcomes: &[ErrorCode],
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let Some(verifying) = self.verifying.remove(&number) else {
            return Ok(());
        };
        let Verifying { caller, ask, guard } = verifying;
        match outcomes.first().copied() {
            Some(ErrorCode::None) => self.append(caller, ask, Some(guard), now, out),
            error => {
                let error = error.unwrap_or(ErrorCode::UnknownServerError);
                out.tell(caller, ask.refused(known_to(&ask, error)));
                Ok(())
            }
        }
    }

    /// Another broker's AddPartitionsToTxn.
    pub(super) fn take_partitions(
        &mut self,
        caller: Caller,
        all: &[PartitionsToAdd],
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let counts = all.iter().map(|one| one.partitions.len());
        let gathering = self.begin_gathering(Gathered::Others(caller), counts);
        for (at, one) in all.iter().enumerate() {
            let (place, count) = ((gathering, at, 0), one.partitions.len());
            let mut partitions = one.partitions.iter();
            let topics = &self.image.topics;
            let is_unknown =
                partitions.any(|name| topics.partition(&name.topic, name.partition).is_none());
            let refused = match is_unknown {
                true => Some(ErrorCode::UnknownTopicOrPartition),
                false => {
                    let then = |error| Next::Added(place, count, error);
                    let (id, producer) = (&one.transactional_id, one.producer);
                    let transactions = &mut self.transactions;
                    let decided = transactions.add(id, producer, &one.partitions, now, then);
                    decided.map_err(|halted| halted.reason)?.err()
                }
            };
            if let Some(error) = refused {
                for place in 0..count {
                    self.gather((gathering, at, place), error, now, out)?;
                }
            }
        }
        Ok(())
    }

    /// The committed offset of a group that this broker coordinates; -1 for none.
    pub(in crate::cluster) fn committed_offset(&mut self, key: &OffsetKey) -> Option<i64> {
        let topic = self.image.topics.by_id(key.1)?;
        self.groups.committed_offset(&key.0, &topic.name, key.2)
    }

    /// Whether the coordinators have nothing left to do.
    pub(super) fn is_coordination_at_rest(&self) -> bool {
        self.loading.is_empty()
            && self.verifying.is_empty()
            && self.has_no_endings()
            && !self.groups.is_holding()
            && !self.transactions.is_holding()
    }
}
