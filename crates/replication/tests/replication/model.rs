//! Random lives of a partition against lists: whatever is asked, and whether its log is open or
//! idle, it answers as the lists do.

use crate::support::{
    LOGS, Served, batch, batches_in, batches_of, marker, producer_batch, request,
};
use model::{ErrorCode, LeaderEpoch, Offset, ProducerId};
use proptest::prelude::*;
use replication::{Isolation, PartitionOffsets, ReadError, ReadRequest, TimestampSearch};
use storage::Log;
use storage::sim::SimDisk;

/// A time at which no producer sends again what it has sent at 0.
const NO_RETRIES_MS: i64 = 600_000;

#[derive(Debug, Clone)]
enum Step {
    Append { timestamp_ms: i64, count: usize },
    AppendTransactional { producer: usize, count: usize },
    EndTransaction { producer: usize, is_abort: bool },
    NextEpoch,
    DeleteBefore { percent: i64 },
    Flush { percent: i64 },
    Rest { is_synced: bool },
}

fn step() -> impl Strategy<Value = Step> {
    let producer = 0usize..2;
    prop_oneof![
        4 => (0i64..50, 1usize..4)
            .prop_map(|(timestamp_ms, count)| Step::Append { timestamp_ms, count }),
        3 => (producer.clone(), 1usize..4)
            .prop_map(|(producer, count)| Step::AppendTransactional { producer, count }),
        3 => (producer, any::<bool>())
            .prop_map(|(producer, is_abort)| Step::EndTransaction { producer, is_abort }),
        2 => Just(Step::NextEpoch),
        1 => (0i64..=100).prop_map(|percent| Step::DeleteBefore { percent }),
        1 => (0i64..=100).prop_map(|percent| Step::Flush { percent }),
        4 => any::<bool>().prop_map(|is_synced| Step::Rest { is_synced }),
    ]
}

#[derive(Debug, Clone, Copy)]
struct ModelBatch {
    base_offset: i64,
    last_offset: i64,
    epoch: LeaderEpoch,
    timestamp_ms: i64,
}

#[derive(Debug, Default)]
struct Model {
    batches: Vec<ModelBatch>,
    /// Producer, first and last offset.
    aborted: Vec<(ProducerId, i64, i64)>,
    /// First offsets of open transactions, by producer.
    open: [Option<i64>; 2],
    sequences: [i32; 2],
    /// Epochs with where they start.
    epochs: Vec<(LeaderEpoch, i64)>,
    start: i64,
    end: i64,
    flushed: i64,
}

impl Model {
    fn epoch(&self) -> LeaderEpoch {
        self.epochs.last().unwrap().0
    }

    fn offsets(&self) -> PartitionOffsets {
        let open = self.open.iter().flatten().min().copied();
        PartitionOffsets {
            log_start_offset: Offset(self.start),
            last_stable_offset: open.map_or(Offset(self.end), |open| Offset(open.max(self.start))),
            high_watermark: Offset(self.end),
            log_end_offset: Offset(self.end),
            leader_epoch: self.epoch(),
        }
    }

    fn note(&mut self, timestamp_ms: i64, count: usize) -> i64 {
        let base_offset = self.end;
        self.end += count as i64;
        self.batches.push(ModelBatch {
            base_offset,
            last_offset: self.end - 1,
            epoch: self.epoch(),
            timestamp_ms,
        });
        base_offset
    }

    /// An epoch without records is not remembered.
    fn next_epoch(&mut self) -> LeaderEpoch {
        let epoch = self.epoch().next();
        self.epochs.retain(|(_, start)| *start < self.end);
        self.epochs.push((epoch, self.end));
        epoch
    }

    fn delete_before(&mut self, offset: i64) {
        self.start = offset;
        let covered = self.epochs.iter().rposition(|(_, start)| *start <= offset);
        self.epochs.drain(..covered.unwrap());
        self.epochs[0].1 = offset;
    }

    /// The largest epoch that is not above this one, and where it ends.
    fn end_of(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, i64)> {
        if epoch == self.epoch() {
            return Some((epoch, self.end));
        }
        let above = self.epochs.iter().position(|(one, _)| *one > epoch)?;
        let below = above.checked_sub(1).map_or(epoch, |at| self.epochs[at].0);
        Some((below, self.epochs[above].1))
    }

    fn epoch_at(&self, offset: i64) -> Option<LeaderEpoch> {
        let covering = self.epochs.iter().rfind(|(_, start)| *start <= offset);
        covering.map(|(epoch, _)| *epoch)
    }
}

/// A partition with its model.
struct Tested {
    served: Served,
    model: Model,
}

impl Tested {
    fn new() -> Self {
        let model = Model {
            epochs: vec![(LeaderEpoch(0), 0)],
            ..Model::default()
        };
        Self {
            served: Served::new(),
            model,
        }
    }

    fn step(&mut self, step: &Step) {
        let Self { served, model } = self;
        match *step {
            Step::Append {
                timestamp_ms,
                count,
            } => {
                let at = served.append(batch(timestamp_ms, count));
                assert_eq!(at, model.note(timestamp_ms, count));
            }
            Step::AppendTransactional { producer, count } => {
                let sequence = model.sequences[producer];
                model.sequences[producer] += count as i32;
                let at = served.append(producer_batch(producer as i64, sequence, count, true));
                assert_eq!(at, model.note(5, count));
                model.open[producer].get_or_insert(at);
            }
            Step::EndTransaction { producer, is_abort } => {
                let mut bytes = marker(producer as i64, is_abort);
                let appended = served.partition.append_marker(&mut bytes, 0, 0).unwrap();
                let at = model.note(5, 1);
                assert_eq!(appended.base_offset, Offset(at));
                if let Some(first) = model.open[producer].take().filter(|_| is_abort) {
                    model.aborted.push((ProducerId(producer as i64), first, at));
                }
            }
            Step::NextEpoch => {
                let epoch = model.next_epoch();
                served.partition.set_leader_epoch(epoch).unwrap();
                // An older one changes nothing.
                served
                    .partition
                    .set_leader_epoch(LeaderEpoch(epoch.0 - 1))
                    .unwrap();
            }
            Step::DeleteBefore { percent } => {
                let offset = model.start + (model.end - model.start) * percent / 100;
                model.delete_before(offset);
                let start = served
                    .partition
                    .delete_records_before(Offset(offset))
                    .unwrap();
                assert_eq!(start, Offset(offset));
            }
            Step::Flush { percent } => {
                let offset = model.start + (model.end - model.start) * percent / 100;
                served.partition.flush_up_to(Offset(offset), 0).unwrap();
                model.flushed = model.flushed.max(offset);
            }
            Step::Rest { is_synced } => {
                let partition = &served.partition;
                let log_end = model.end;
                // What is below the start would keep it open until retention has looked.
                let retain = |log: &mut Log<SimDisk>| {
                    log.delete_old_segments(Offset(log_end), 0).unwrap();
                    log.remove_deleted_files(i64::MAX).unwrap();
                };
                partition.with_log(retain).unwrap();
                let become_idle = || partition.become_idle(NO_RETRIES_MS, is_synced).unwrap();
                assert!(!become_idle(), "it was used just now");
                let is_idle = become_idle();
                let is_open = model.open.iter().any(Option::is_some);
                assert_eq!(is_idle, !is_open, "open transactions keep it");
                assert_eq!(served.is_idle(), is_idle);
            }
        }
    }

    fn check(&self) {
        let (partition, model) = (&self.served.partition, &self.model);
        let offsets = model.offsets();
        assert_eq!(partition.offsets(), offsets);
        assert!(partition.flushed_end_offset() >= Offset(model.flushed));
        let recovery_point = partition.recovery_point();
        assert!(recovery_point <= partition.flushed_end_offset());
        let checkpoint = Some((recovery_point, offsets));
        assert_eq!(partition.checkpoint_in(LOGS), checkpoint);
        assert_eq!(partition.checkpoint_in("/other"), None);
        self.check_epochs();
        self.check_times();
        for offset in model.start - 1..=model.end + 1 {
            self.check_reads(offset);
        }
    }

    /// What an epoch has to do with the offsets, asked of the idle log too.
    fn check_epochs(&self) {
        let (partition, model) = (&self.served.partition, &self.model);
        let was_idle = self.served.is_idle();
        let epoch = partition.leader_epoch_at(Offset(model.end)).unwrap();
        assert_eq!(epoch, Some(model.epoch()));
        let current = partition.end_offset_of_epoch(model.epoch()).unwrap();
        assert_eq!(current, Some((model.epoch(), Offset(model.end))));
        assert_eq!(self.served.is_idle(), was_idle, "no need to open it");
        for epoch in (0..=model.epoch().0 + 1).map(LeaderEpoch) {
            let found = partition.end_offset_of_epoch(epoch).unwrap();
            assert_eq!(
                found,
                model.end_of(epoch).map(|(of, end)| (of, Offset(end))),
                "epoch {epoch} of {model:?}"
            );
            let known = match epoch.0 - model.epoch().0 {
                ..0 => Err(ErrorCode::FencedLeaderEpoch),
                0 => Ok(()),
                _ => Err(ErrorCode::UnknownLeaderEpoch),
            };
            assert_eq!(partition.check_leader(epoch), known);
            let read = partition.read(&ReadRequest {
                current_leader_epoch: epoch,
                ..request(model.end)
            });
            let refused = read.map(drop).map_err(|error| error.code());
            assert_eq!(refused, known);
        }
        for offset in model.start..=model.end {
            let epoch = partition.leader_epoch_at(Offset(offset)).unwrap();
            assert_eq!(epoch, model.epoch_at(offset));
        }
    }

    fn check_times(&self) {
        let (partition, model) = (&self.served.partition, &self.model);
        let ended = |search| match search {
            TimestampSearch::Ended(found) => {
                found.map(|found| (found.offset, found.timestamp_ms, found.leader_epoch))
            }
            TimestampSearch::TooLarge => panic!("there is no limit"),
        };
        let readable = || {
            model
                .batches
                .iter()
                .filter(|one| one.last_offset >= model.start)
        };
        for time in [0, 5, 6, 20, 49, 50] {
            let mut readable = readable();
            let expected = readable.find(|one| one.timestamp_ms >= time).map(|one| {
                let offset = one.base_offset.max(model.start);
                (Offset(offset), one.timestamp_ms, Some(one.epoch))
            });
            let found = partition.offset_for_timestamp(time, usize::MAX);
            assert_eq!(ended(found.unwrap()), expected, "time {time} of {model:?}");
        }
    }

    fn check_reads(&self, offset: i64) {
        let (partition, model) = (&self.served.partition, &self.model);
        let offsets = model.offsets();
        if !(model.start..=model.end).contains(&offset) {
            let read = partition.read(&request(offset));
            assert_eq!(read.unwrap_err().code(), ErrorCode::OffsetOutOfRange);
            return;
        }
        for (isolation, bound) in [
            (Isolation::LogEnd, offsets.log_end_offset),
            (Isolation::HighWatermark, offsets.high_watermark),
            (Isolation::LastStableOffset, offsets.last_stable_offset),
        ] {
            let read = self.served.read(offset, isolation);
            assert_eq!(read.offsets, offsets);
            assert_eq!(read.diverging_epoch, None);
            let found = batches_of(&read);
            // One segment at a time.
            let expected = model.batches.iter();
            let expected = expected.filter(|one| one.last_offset >= offset);
            let expected: Vec<_> = expected
                .take_while(|one| one.last_offset < bound.0)
                .map(|one| (one.base_offset, one.last_offset, one.epoch))
                .take(found.len().max(1))
                .collect();
            assert_eq!(found, expected, "{isolation:?} from {offset} of {model:?}");
            let is_committed = isolation == Isolation::LastStableOffset;
            assert_eq!(read.aborted_transactions.is_some(), is_committed);
            if let Some(brought) = read.aborted_transactions {
                self.check_aborted(&found, &brought);
            }
        }
        let bytes = partition.read_bytes(Offset(offset), 1).unwrap();
        let expected = model.batches.iter().find(|one| one.last_offset >= offset);
        let expected = expected.map(|one| (one.base_offset, one.last_offset, one.epoch));
        assert_eq!(batches_in(&bytes).first().copied(), expected);
        self.check_divergence(offset);
    }

    /// Those that the batches have records of are there, and none that has ended before them.
    fn check_aborted(&self, batches: &[(i64, i64, LeaderEpoch)], brought: &[(ProducerId, Offset)]) {
        let aborted = &self.model.aborted;
        let (Some(first), Some(last)) = (batches.first(), batches.last()) else {
            assert_eq!(brought, []);
            return;
        };
        let overlapping = aborted
            .iter()
            .filter(|(_, begin, end)| *begin <= last.1 && *end >= first.0);
        for (producer, begin, _) in overlapping {
            assert!(
                brought.contains(&(*producer, Offset(*begin))),
                "{brought:?} of {aborted:?}"
            );
        }
        for (producer, begin) in brought {
            let mut aborted = aborted.iter();
            let one = aborted.find(|one| (one.0, one.1) == (*producer, begin.0));
            assert!(
                one.unwrap().2 >= first.0,
                "{one:?} has ended before {first:?}"
            );
        }
    }

    /// A reader whose last record is of another history is told where the histories part.
    fn check_divergence(&self, offset: i64) {
        let model = &self.model;
        for epoch in (0..=model.epoch().0 + 1).map(LeaderEpoch) {
            let read = self.served.partition.read(&ReadRequest {
                last_fetched_epoch: epoch,
                ..request(offset)
            });
            let Some(end) = model.end_of(epoch) else {
                assert!(matches!(read, Err(ReadError::UnknownLastEpoch(one)) if one == epoch));
                continue;
            };
            let read = read.unwrap();
            let diverges = end.0 != epoch || end.1 < offset;
            assert_eq!(
                read.diverging_epoch,
                diverges.then_some((end.0, Offset(end.1)))
            );
            assert!(read.records.is_none() || !diverges);
        }
    }
}

proptest! {
    #![proptest_config(trials::property(64))]

    #[test]
    fn a_partition_does_what_lists_do(steps in prop::collection::vec(step(), 1..30)) {
        let mut tested = Tested::new();
        for step in &steps {
            tested.step(step);
            tested.check();
        }
    }

    /// As above, but nobody asks anything meanwhile: the log stays idle through what leaves it so.
    #[test]
    fn an_idle_log_is_what_lists_are(steps in prop::collection::vec(step(), 1..40)) {
        let mut tested = Tested::new();
        for step in &steps {
            tested.step(step);
            assert_eq!(tested.served.partition.offsets(), tested.model.offsets());
        }
        tested.check();
    }
}
