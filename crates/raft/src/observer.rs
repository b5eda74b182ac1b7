//! What an observer knows beside its log: whom it follows, what it has asked, and when it asks again. What it does
//! with that is in `observing`.

use crate::download::Download;
use crate::messages::Request;
use model::{BrokerId, MonotonicTime, Offset};
use storage::disk::Disk;

/// How long an observer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// `controller.quorum.fetch.timeout.ms`: a leader that is silent for so long may be none any more.
    pub fetch_ms: i64,
    /// `controller.quorum.request.timeout.ms`: an answer that is later does not come.
    pub request_ms: i64,
    /// `controller.quorum.retry.backoff.ms`: before asking again what was not answered.
    pub retry_backoff_ms: i64,
}

impl Default for Timeouts {
    /// Apache Kafka's.
    fn default() -> Self {
        Self {
            fetch_ms: 2_000,
            request_ms: 2_000,
            retry_backoff_ms: 20,
        }
    }
}

/// What an observer knows beside its log.
#[derive(Debug)]
pub(crate) struct Observer<D: Disk> {
    pub(crate) timeouts: Timeouts,
    pub(crate) leader_id: Option<BrokerId>,
    /// When the leader was last heard of, or became known.
    pub(crate) heard_at: MonotonicTime,
    /// Whether somebody else is asked for the leader, which has been silent.
    pub(crate) is_asking_around: bool,
    /// What the leader has told last of how far its log is committed.
    pub(crate) leader_high_watermark: Option<Offset>,
    pub(crate) under_way: Option<UnderWay>,
    /// Before then nothing is asked.
    pub(crate) retry_at: MonotonicTime,
    pub(crate) request_count: u64,
    pub(crate) download: Option<Download<D>>,
    /// Whether the last batch here was compared with the leader's since that was out of reach.
    pub(crate) is_compared: bool,
    /// The offset of the note beside the log, once this run has left one.
    pub(crate) noted: Option<Offset>,
}

/// A request that may still be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnderWay {
    pub(crate) request: Request,
    pub(crate) deadline: MonotonicTime,
}

impl<D: Disk> Observer<D> {
    /// One that knows the leader of its epoch, or none.
    pub(crate) const fn new(
        timeouts: Timeouts,
        leader_id: Option<BrokerId>,
        now: MonotonicTime,
    ) -> Self {
        Self {
            timeouts,
            leader_id,
            heard_at: now,
            is_asking_around: false,
            leader_high_watermark: None,
            under_way: None,
            retry_at: MonotonicTime::MIN,
            request_count: 0,
            download: None,
            is_compared: false,
            noted: None,
        }
    }

    /// Asks nothing for a moment.
    pub(crate) fn back_off(&mut self, now: MonotonicTime) {
        self.retry_at = now.plus_ms(self.timeouts.retry_backoff_ms);
    }

    /// Notes what time has brought: an answer that will not come, a leader that is silent.
    pub(crate) fn pass_time(&mut self, now: MonotonicTime) {
        if self.under_way.is_some_and(|asked| asked.deadline <= now) {
            self.under_way = None;
            self.is_compared = false;
        }
        if self.heard_at.plus_ms(self.timeouts.fetch_ms) <= now {
            self.is_asking_around = true;
        }
    }
}
