//! What the coordinators' runtime is given in a node: the logs of their topics, and who waits.

use super::CoordinatorCaller;
use crate::halted::Halted;
use crate::partition::SimPartition;
use coordinator::runtime::{
    AppendedBatch, Asker, CoordinatorLog, CoordinatorShard, HostedPartition, LoadError, LogReader,
    Waiter, load_shard,
};
use model::{ErrorCode, Now, Offset};
use record::{Codec, Compression, ValidatedBatch};
use replication::{AppendError, Appended, Leadership, ReadError, VerificationGuard};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A hosted partition of a node: its answers are what the node goes on with.
pub(super) type Hosted<S, C> = HostedPartition<S, SimLog, C>;

/// What a node that is as it should not be makes of its coordinators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CoordinatorMistakes {
    /// What is appended counts as replicated.
    pub(crate) answers_early: bool,
    /// Loading leaves out what is from here on.
    pub(crate) loads_until: Option<i64>,
}

/// The log of a hosted partition.
#[derive(Debug)]
pub(super) struct SimLog {
    pub(super) partition: Arc<SimPartition>,
    /// The time for which it is led without a pause; what comes after it is another coordinator's.
    leadership: Leadership,
    /// Why the node cannot go on.
    failure: RefCell<Option<Halted>>,
    answers_early: bool,
}

impl SimLog {
    pub(super) fn new(partition: Arc<SimPartition>, answers_early: bool) -> Self {
        Self {
            leadership: partition.leadership(),
            partition,
            failure: RefCell::new(None),
            answers_early,
        }
    }

    /// Whether it is led without a pause since it was taken over.
    pub(super) fn is_led_on(&self, partition: &Arc<SimPartition>) -> bool {
        Arc::ptr_eq(&self.partition, partition) && self.leadership == partition.leadership()
    }

    /// Whether the node can go on.
    pub(super) fn check(&self) -> Result<(), Halted> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// What every in-sync replica has, while it is led on.
    pub(super) fn replicated(&self) -> Offset {
        self.high_watermark()
    }

    fn told(&self, appended: Result<Appended, AppendError>) -> Result<AppendedBatch, ErrorCode> {
        let appended = appended.map_err(|error| {
            let code = error.code();
            if error.is_disk_failure() {
                self.failure.replace(Some(error.into()));
            }
            code
        })?;
        Ok(AppendedBatch {
            base_offset: appended.base_offset,
            end_offset: appended.last_offset + 1,
            is_flush_due: appended.is_flush_due,
        })
    }
}

impl CoordinatorLog for SimLog {
    type Guard = VerificationGuard;

    fn codec(&self) -> Codec {
        Compression::None.into()
    }

    fn batch_bytes_max(&self) -> usize {
        self.partition.config().max_message_bytes as usize
    }

    fn append(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        verification: Option<VerificationGuard>,
        now_ms: i64,
    ) -> Result<AppendedBatch, ErrorCode> {
        let partition = &self.partition;
        let leadership = self.leadership;
        self.told(partition.append_as_coordinator_in(leadership, batch, verification, now_ms))
    }

    fn append_marker(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<AppendedBatch, ErrorCode> {
        let partition = &self.partition;
        let leadership = self.leadership;
        self.told(partition.append_marker_in(leadership, batch, transaction_version, now_ms))
    }

    fn high_watermark(&self) -> Offset {
        if self.answers_early {
            return Offset::MAX;
        }
        // In this order: what is replicated later may be other records at the same offsets.
        let high_watermark = self.partition.high_watermark();
        match self.partition.leadership() == self.leadership {
            true => high_watermark,
            false => Offset::MIN,
        }
    }
}

/// A partition that is to be taken over.
pub(super) fn unloaded<S, C>(
    partition: &Arc<SimPartition>,
    mistakes: CoordinatorMistakes,
) -> Hosted<S, C>
where
    S: CoordinatorShard,
    C: Waiter<S>,
{
    Hosted::new(SimLog::new(partition.clone(), mistakes.answers_early))
}

/// Replays the log of a partition, lets `equip` see the shard, then serves it.
pub(super) fn load<S, C>(
    hosted: &mut Hosted<S, C>,
    shard: S,
    mistakes: CoordinatorMistakes,
    now: Now,
    equip: impl FnOnce(&mut S),
) -> Result<(), Halted>
where
    S: CoordinatorShard,
    C: Waiter<S>,
{
    let partition = hosted.log().partition.clone();
    let end_offset = partition.offsets().log_end_offset;
    let reader = SimReader {
        end_offset: Offset(mistakes.loads_until.unwrap_or(end_offset.0)),
        partition: &partition,
        fault: RefCell::default(),
    };
    let (mut shard, end_offset) = match load_shard(shard, &reader, now) {
        Ok(loaded) => loaded,
        Err(LoadError::Read(error)) => return Err(error.into()),
        Err(LoadError::Content(reason)) => return Err(reason.into()),
    };
    if let Some(fault) = reader.fault.take() {
        return Err(fault.into());
    }
    equip(&mut shard);
    hosted.loaded(Some((shard, end_offset)), now);
    Ok(())
}

/// The log of a partition as it is loaded. It was written by nobody but coordinators, and nothing is left out.
struct SimReader<'p> {
    partition: &'p SimPartition,
    end_offset: Offset,
    fault: RefCell<Option<String>>,
}

impl LogReader for SimReader<'_> {
    type Error = ReadError;

    fn bounds(&self) -> (Offset, Offset) {
        (self.partition.offsets().log_start_offset, self.end_offset)
    }

    fn read(&self, offset: Offset, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
        self.partition.read_bytes(offset, max_bytes)
    }

    fn note_damage(&self, offset: Offset) {
        let fault = format!("a damaged batch of a coordinator at {offset}");
        self.fault.replace(Some(fault));
    }

    fn note_skipped(&self, offset: Offset, reason: &str) {
        self.fault
            .replace(Some(format!("record {offset}: {reason}")));
    }
}

/// Who asks, and what the node goes on with when the answer may leave.
pub(super) struct Asking<'a, C, F> {
    /// None where nobody waits for others.
    pub(super) caller: Option<C>,
    /// Why there is no answer.
    pub(super) refused: &'a Cell<Option<ErrorCode>>,
    pub(super) then: F,
}

impl<S, R, C, F> Asker<S, R, C> for Asking<'_, C, F>
where
    S: CoordinatorShard,
    C: CoordinatorCaller + Waiter<S, Answer = Option<<C as CoordinatorCaller>::Next>>,
    F: FnOnce(&S, R) -> Option<<C as CoordinatorCaller>::Next>,
{
    fn answered(
        self,
        outcome: Result<(&S, R), ErrorCode>,
    ) -> Option<<C as CoordinatorCaller>::Next> {
        match outcome {
            Ok((shard, reply)) => (self.then)(shard, reply),
            Err(error) => {
                self.refused.set(Some(error));
                None
            }
        }
    }

    fn parked(self) -> C {
        self.caller.expect("who is parked has asked")
    }
}

/// What the node goes on with, of all that hosted partitions let go.
pub(super) fn poll_answer<'h, S, C>(
    hosted: impl Iterator<Item = &'h mut Hosted<S, C>>,
) -> Option<C::Next>
where
    S: CoordinatorShard + 'h,
    C: CoordinatorCaller + Waiter<S, Answer = Option<<C as CoordinatorCaller>::Next>> + 'h,
{
    for one in hosted {
        one.high_watermark_advanced();
        while let Some(answer) = one.poll_answer() {
            if answer.is_some() {
                return answer;
            }
        }
    }
    None
}
