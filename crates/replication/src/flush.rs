//! Flushes of a partition's log: shared by those who wait for the same, and seen by nobody before they
//! end.
//!
//! ```text
//!   append, `flush.messages` reached ──> a flush is due: the high watermark stays
//!   flush_up_to ──> files synced ──────> the high watermark follows, whoever waits goes on
//! ```
//!
//! A flush stays due when the role changes: who has appended as a follower and leads now shows no more than is durable,
//! and who has led tells its next leader of no more.

use crate::log_state::LogState;
use crate::partition::Partition;
use crate::state::State;
use model::Offset;
use storage::{Disk, StorageError};

impl<D: Disk> State<D> {
    /// Records below are durable.
    pub(crate) fn flushed_end_offset(&self) -> Offset {
        match &self.residence {
            LogState::Open(log) => log.flushed_end_offset(),
            LogState::Idle(idle) => idle.flushed_end_offset,
        }
    }

    /// Whether a flush that is due has not ended.
    pub(crate) fn awaits_flush(&self) -> bool {
        self.flushed_end_offset() < self.flush_due_end
    }

    /// A flush is due of all that is in the log, which is open.
    pub(crate) fn note_flush_due(&mut self) {
        self.flush_due_end = self.open_log().last_batch_end_offset();
    }

    /// What was above the end of the log, which is open, is gone, and no flush of it is due any more.
    pub(crate) fn bound_flush_due(&mut self) {
        let end = self.open_log().last_batch_end_offset();
        self.flush_due_end = self.flush_due_end.min(end);
    }
}

impl<D: Disk> Partition<D> {
    /// Makes everything below `end_offset` durable, unless another call has done so meanwhile.
    /// Blocks; appends go on beside it, and those that came before share one sync.
    ///
    /// # Errors
    /// When the disk fails; the log takes no more appends then.
    pub fn flush_up_to(&self, end_offset: Offset, now_ms: i64) -> Result<(), StorageError> {
        let _flushing = self.flushing.lock();
        let mut state = self.lock();
        if state.flushed_end_offset() >= end_offset {
            // By another call, or beside this one.
            if state.advance_high_watermark() {
                self.host.note_change();
            }
            return Ok(());
        }
        self.open(&mut state)?;
        let flush = state.log().begin_flush(now_ms)?;
        drop(state);
        let outcome = flush.sync();
        // It does not become idle while it is flushed.
        let mut state = self.lock();
        let completed = state.log().complete_flush(flush, outcome);
        state.advance_high_watermark();
        drop(state);
        // Whoever waits hears of a failure as well.
        match completed.is_err() {
            true => self.notify(),
            false => self.host.note_change(),
        }
        completed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

    use super::*;
    use crate::LogHost;
    use model::LeaderEpoch;
    use model::{TopicPartition, Uuid};
    use record::{BatchBuilder, BatchHeader, Compression};
    use std::sync::Arc;
    use storage::sim::{Crash, SimDisk};
    use storage::{Log, LogConfig, LogOpening, OpenFiles};

    fn partition(disk: &SimDisk, flush_messages: i64) -> Partition<SimDisk> {
        lead(disk, flush_messages, |opening| {
            Log::create(opening).unwrap()
        })
    }

    fn lead(
        disk: &SimDisk,
        flush_messages: i64,
        log: impl FnOnce(LogOpening<SimDisk>) -> Log<SimDisk>,
    ) -> Partition<SimDisk> {
        let open_files = Arc::new(OpenFiles::new(usize::MAX));
        let host = Arc::new(LogHost::new(disk.clone(), open_files.clone()));
        let name = TopicPartition::new("topic", 0);
        let config = LogConfig {
            flush_messages,
            ..LogConfig::default()
        };
        let log = log(LogOpening {
            config: Arc::new(config),
            open_files,
            ..LogOpening::new(disk.clone(), "/topic-0".into(), name)
        });
        Partition::lead(&host, log, Uuid::METADATA_TOPIC, "/".into(), LeaderEpoch(0)).unwrap()
    }

    fn append(partition: &Partition<SimDisk>) -> bool {
        let mut batch = BatchBuilder::new(BatchHeader::default());
        batch.append(0, None, Some(b"value"), &[]);
        let mut batch = batch.into_batch(Compression::None);
        partition
            .append_as_coordinator(&mut batch, 0)
            .unwrap()
            .is_flush_due
    }

    #[test]
    fn nobody_sees_what_a_flush_is_due_for_before_it_has_ended() {
        let partition = partition(&SimDisk::default(), 2);
        assert!(!append(&partition));
        assert_eq!(
            partition.offsets().high_watermark,
            Offset(1),
            "no flush is due"
        );
        assert!(append(&partition));
        assert!(append(&partition));
        assert_eq!(partition.offsets().high_watermark, Offset(1));
        let flushing = partition.lock().log().begin_flush(0).unwrap();
        assert!(append(&partition));
        let outcome = flushing.sync();
        {
            let mut state = partition.lock();
            state.log().complete_flush(flushing, outcome).unwrap();
            state.advance_high_watermark();
        }
        assert_eq!(
            partition.offsets().high_watermark,
            Offset(3),
            "what came meanwhile waits"
        );
        partition.flush_up_to(Offset(4), 0).unwrap();
        assert_eq!(partition.offsets().high_watermark, Offset(4));
        assert!(!append(&partition));
        assert_eq!(partition.offsets().high_watermark, Offset(5));
    }

    /// What a process has written and not synced is still there when it has died; the machine may die
    /// after it.
    #[test]
    fn nobody_sees_after_a_crash_what_is_not_durable() {
        for (flush_messages, is_durable) in [(1, true), (2, true), (3, false)] {
            let disk = SimDisk::default();
            let created = partition(&disk, flush_messages);
            disk.sync_directory(std::path::Path::new("/")).unwrap();
            append(&created);
            append(&created);
            disk.crash(Crash::KeepsAll);
            drop(created);
            let opened = lead(&disk, flush_messages, |opening| {
                Log::open(opening).unwrap().log
            });
            assert_eq!(opened.offsets().high_watermark, Offset(2));
            disk.crash(Crash::LosesUnsynced);
            drop(opened);
            let opened = lead(&disk, flush_messages, |opening| {
                Log::open(opening).unwrap().log
            });
            let is_there = opened.offsets().high_watermark == Offset(2);
            assert_eq!(is_there, is_durable, "{flush_messages}");
        }
    }

    #[test]
    fn a_flush_that_fails_ends_the_wait() {
        let disk = SimDisk::default();
        let partition = partition(&disk, 1);
        assert!(append(&partition));
        disk.fail_syncs_of(Some(".log"));
        partition.flush_up_to(Offset(1), 0).unwrap_err();
        assert_eq!(partition.offsets().high_watermark, Offset(0));
        let mut waiting = std::pin::pin!(partition.wait_for_high_watermark(Offset(1)));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let ended = waiting.as_mut().poll(&mut context);
        assert_eq!(ended, std::task::Poll::Ready(false));
    }
}
