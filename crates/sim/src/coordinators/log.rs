//! What the coordinators' runtime is given in a node: the logs of their topics, and who waits.

use super::{Caller, Halted, SimPartition, Then};
use crate::planted::Planted;
use coordinator::runtime::{
    AppendedBatch, Asker, CoordinatorLog, CoordinatorShard, HostedPartition, LoadError, LogReader,
    Waiter, load_shard,
};
use model::{ErrorCode, Now};
use record::{Batches, Codec, Compression, ValidatedBatch};
use replication::{AppendError, Appended, ReadError, VerificationGuard};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A hosted partition of a node: its answers are what the node goes on with.
pub(super) type Hosted<S> = HostedPartition<S, SimLog, Caller>;

/// The log of a hosted partition.
#[derive(Debug)]
pub(super) struct SimLog {
    pub(super) partition: Arc<SimPartition>,
    /// Why the node cannot go on.
    failure: RefCell<Option<Halted>>,
}

impl SimLog {
    pub(super) const fn new(partition: Arc<SimPartition>) -> Self {
        let failure = RefCell::new(None);
        Self { partition, failure }
    }

    /// Whether the node can go on.
    pub(super) fn check(&self) -> Result<(), Halted> {
        self.failure.take().map_or(Ok(()), Err)
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
        self.told(partition.append_transactional_as_coordinator(batch, verification, now_ms))
    }

    fn append_marker(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        transaction_version: i16,
        now_ms: i64,
    ) -> Result<AppendedBatch, ErrorCode> {
        let partition = &self.partition;
        self.told(partition.append_marker(batch, transaction_version, now_ms))
    }

    fn high_watermark(&self) -> i64 {
        self.partition.high_watermark()
    }
}

/// Takes over a partition: replays its log, lets `equip` see the shard, then serves it.
pub(super) fn load<S>(
    partition: &Arc<SimPartition>,
    shard: S,
    planted: Planted,
    now: Now,
    equip: impl FnOnce(&mut S),
) -> Result<Hosted<S>, Halted>
where
    S: CoordinatorShard,
    Caller: Waiter<S>,
{
    let reader = SimReader {
        partition,
        end_offset: match planted {
            Planted::LoadsTooLittle => last_batch(partition)?,
            _ => partition.offsets().log_end_offset,
        },
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
    let mut hosted = Hosted::new(SimLog::new(partition.clone()));
    hosted.loaded(Some((shard, end_offset)), now);
    Ok(hosted)
}

/// The log of a partition as it is loaded. In a node that was written by nobody else, nothing is left out.
struct SimReader<'p> {
    partition: &'p SimPartition,
    end_offset: i64,
    fault: RefCell<Option<String>>,
}

impl LogReader for SimReader<'_> {
    type Error = ReadError;

    fn bounds(&self) -> (i64, i64) {
        (self.partition.offsets().log_start_offset, self.end_offset)
    }

    fn read(&self, offset: i64, max_bytes: usize) -> Result<Vec<u8>, ReadError> {
        self.partition.read_bytes(offset, max_bytes)
    }

    fn note_damage(&self, offset: i64) {
        let fault = format!("a damaged batch of a coordinator at {offset}");
        self.fault.replace(Some(fault));
    }

    fn note_skipped(&self, offset: i64, reason: &str) {
        self.fault
            .replace(Some(format!("record {offset}: {reason}")));
    }
}

/// Where the last batch begins.
fn last_batch(partition: &SimPartition) -> Result<i64, Halted> {
    let offsets = partition.offsets();
    let (mut offset, mut last) = (offsets.log_start_offset, offsets.log_start_offset);
    while offset < offsets.log_end_offset {
        let bytes = partition.read_bytes(offset, 1 << 20)?;
        for batch in Batches::new(&bytes) {
            let batch = batch?;
            last = batch.base_offset();
            offset = batch.next_offset();
        }
    }
    Ok(last)
}

/// Who asks, and what the node goes on with when the answer may leave.
pub(super) struct Asking<'a, F> {
    /// None where nobody waits for others.
    pub(super) caller: Option<Caller>,
    /// Why there is no answer.
    pub(super) refused: &'a Cell<Option<ErrorCode>>,
    pub(super) then: F,
}

impl<S, R, F> Asker<S, R, Caller> for Asking<'_, F>
where
    S: CoordinatorShard,
    Caller: Waiter<S, Answer = Option<Then>>,
    F: FnOnce(&S, R) -> Option<Then>,
{
    fn answered(self, outcome: Result<(&S, R), ErrorCode>) -> Option<Then> {
        match outcome {
            Ok((shard, reply)) => (self.then)(shard, reply),
            Err(error) => {
                self.refused.set(Some(error));
                None
            }
        }
    }

    fn parked(self) -> Caller {
        self.caller.expect("who is parked has asked")
    }
}

/// What the node goes on with, of all that hosted partitions let go.
pub(super) fn poll_answer<'h, S>(hosted: impl Iterator<Item = &'h mut Hosted<S>>) -> Option<Then>
where
    S: CoordinatorShard + 'h,
    Caller: Waiter<S, Answer = Option<Then>> + 'h,
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
