//! Producer ids that the controller has given to this broker, a block at a time.
//!
//! ```text
//!   InitProducerId ──> current block ── nearly used up ──> AllocateProducerIds ──> next block
//! ```
//!
//! The next block is asked for before the current one is used up, so that nobody waits for a controller that is
//! far away, or is being elected.

use crate::coordinators::Coordinators;
use crate::scheduling::log_rate_limit::LogRateLimit;
use controller::AllocateProducerIds;
use model::{ErrorCode, ProducerId};
use parking_lot::Mutex;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A block that has given so many tenths of its ids is nearly used up.
const TENTHS_USED: i64 = 9;
/// How long a client waits for a block before it is told to come back.
const PATIENCE: Duration = Duration::from_secs(1);

/// The blocks at hand.
#[derive(Debug, Default)]
pub(crate) struct ProducerIds {
    blocks: Mutex<Blocks>,
    changed: Notify,
    refusals: LogRateLimit,
}

#[derive(Debug, Default)]
struct Blocks {
    current: Range<i64>,
    /// How many ids the current block had.
    current_count: i64,
    next: Option<Range<i64>>,
    is_asked: bool,
}

impl Blocks {
    fn take(&mut self) -> Option<ProducerId> {
        if self.current.is_empty()
            && let Some(next) = self.next.take()
        {
            self.current_count = next.end - next.start;
            self.current = next;
        }
        self.current.next().map(ProducerId)
    }

    /// Whether another block has to be asked for, which nobody else will do.
    fn ask(&mut self) -> bool {
        let left_count = self.current.end - self.current.start;
        let is_nearly_used = left_count * 10 <= self.current_count * (10 - TENTHS_USED);
        is_nearly_used && self.next.is_none() && !std::mem::replace(&mut self.is_asked, true)
    }
}

impl Coordinators {
    /// An id that no producer has had.
    ///
    /// # Errors
    /// `CoordinatorLoadInProgress` when the controller has not given any yet: Kafka's clients try again.
    pub(crate) async fn next_producer_id(&self) -> Result<ProducerId, ErrorCode> {
        let ids = &self.producer_ids;
        let mut changed = pin!(ids.changed.notified());
        changed.as_mut().enable();
        if let Some(id) = self.take_producer_id() {
            return Ok(id);
        }
        let _ = tokio::time::timeout(PATIENCE, changed).await;
        self.take_producer_id()
            .ok_or(ErrorCode::CoordinatorLoadInProgress)
    }

    /// Asks for the first block before anybody wants an id.
    pub(crate) fn ask_for_producer_ids_ahead(&self) {
        let ids = &self.producer_ids;
        if ids.blocks.lock().ask() {
            self.ask_for_producer_ids(ids.clone());
        }
    }

    fn take_producer_id(&self) -> Option<ProducerId> {
        let ids = &self.producer_ids;
        let (id, is_to_ask) = {
            let mut blocks = ids.blocks.lock();
            (blocks.take(), blocks.ask())
        };
        if is_to_ask {
            self.ask_for_producer_ids(ids.clone());
        }
        id
    }

    fn ask_for_producer_ids(&self, ids: Arc<ProducerIds>) {
        let request = AllocateProducerIds {
            broker_id: self.node.id,
            broker_epoch: self.node.broker_epoch(),
        };
        let controller = self.logs.controller.clone();
        self.node.runtime.spawn(async move {
            let error = match controller.request(request).await {
                Ok(Ok(block)) => {
                    ids.blocks.lock().next = Some(block.first..block.first + block.count);
                    None
                }
                Ok(Err(error)) => Some(error.to_string()),
                Err(code) => Some(code.to_string()),
            };
            if let (Some(error), Some(not_logged)) = (error, ids.refusals.due()) {
                tracing::warn!(
                    error,
                    not_logged,
                    "the controller gives no producer ids for now"
                );
            }
            ids.blocks.lock().is_asked = false;
            ids.changed.notify_waiters();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_block_is_asked_for_before_the_current_one_is_used_up() {
        let mut blocks = Blocks::default();
        assert_eq!(blocks.take(), None);
        assert!(blocks.ask() && !blocks.ask());
        blocks.next = Some(100..110);
        blocks.is_asked = false;
        for id in 100..108 {
            assert_eq!(blocks.take(), Some(ProducerId(id)));
            assert!(!blocks.ask());
        }
        assert_eq!(blocks.take(), Some(ProducerId(108)));
        assert!(blocks.ask() && !blocks.ask());
        blocks.next = Some(500..510);
        blocks.is_asked = false;
        assert!(!blocks.ask());
        assert_eq!(blocks.take(), Some(ProducerId(109)));
        assert_eq!(blocks.take(), Some(ProducerId(500)));
        assert!(!blocks.ask());
    }
}
