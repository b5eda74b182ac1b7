//! What comes back to a member, and what it makes of it.

use super::{ConsumerGroup, HeartbeatMembership, JOIN_EPOCH, Phase, Protocol};
use model::{BrokerId, ErrorCode};

/// However short the interval is that the coordinator says, heartbeats are no more frequent without news.
const INTERVAL_FLOOR_MS: i64 = 50;

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HeartbeatAnswer<P: Protocol = ConsumerGroup> {
    /// Who coordinates.
    Coordinator(Result<BrokerId, ErrorCode>),
    /// The heartbeat counts.
    Accepted {
        /// The coordinator's choice, where it made one.
        member_id: Option<String>,
        member_epoch: i32,
        heartbeat_interval_ms: i64,
        /// What the member may own now; `None` when that has not changed.
        assignment: Option<P::Assignment>,
        news: P::News,
    },
    /// It does not.
    Refused(ErrorCode),
}

impl<P: Protocol> HeartbeatMembership<P> {
    /// The answer to the request in flight.
    pub(crate) fn handle_answer(&mut self, answer: HeartbeatAnswer<P>, now_ms: i64) {
        self.has_request_in_flight = false;
        let telling = self.telling.take();
        if let Phase::Evicted { .. } | Phase::Leaving { .. } | Phase::Parting = self.phase {
            // The answer to a heartbeat from before the end may be the one that it is a member by.
            match answer {
                HeartbeatAnswer::Accepted { member_epoch, .. }
                    if member_epoch > JOIN_EPOCH && telling.is_some() =>
                {
                    self.member_epoch = member_epoch;
                }
                HeartbeatAnswer::Coordinator(Ok(broker)) => self.coordinator = Some(broker),
                _ => self.handle_left(),
            }
            return;
        }
        match answer {
            // By these epochs members join and leave; no coordinator says that one has them.
            HeartbeatAnswer::Accepted { member_epoch, .. } if member_epoch <= JOIN_EPOCH => {
                self.telling = telling;
                self.handle_failure(now_ms);
            }
            HeartbeatAnswer::Coordinator(Ok(broker)) => {
                self.coordinator = Some(broker);
                self.next_attempt_ms = now_ms;
            }
            HeartbeatAnswer::Coordinator(Err(error)) if error.is_retriable() => {
                self.back_off(now_ms);
            }
            HeartbeatAnswer::Coordinator(Err(error)) => self.fail(error),
            HeartbeatAnswer::Accepted {
                member_id,
                member_epoch,
                heartbeat_interval_ms,
                assignment,
                news,
            } => {
                // A commit may have told meanwhile that the member is none any more.
                let Some(telling) = telling else { return };
                self.failed_attempts = 0;
                self.next_attempt_ms = now_ms;
                self.heartbeat_interval_ms = heartbeat_interval_ms.max(INTERVAL_FLOOR_MS);
                self.heartbeat_due_ms = now_ms.saturating_add(self.heartbeat_interval_ms);
                self.member_id = member_id.unwrap_or_else(|| self.member_id.clone());
                self.member_epoch = member_epoch;
                self.phase = Phase::Joined;
                self.told = Some(telling);
                self.hear_news(news);
                match assignment {
                    Some(assignment) => {
                        self.has_lost_answer = false;
                        self.target = assignment;
                        self.owes_answer = true;
                    }
                    None if self.has_lost_answer && !self.begins_again => {
                        let most_ms = self.settings.max_poll_interval_ms;
                        let interval_ms = self.heartbeat_interval_ms;
                        self.begins_again = self.anew.take(now_ms, interval_ms, most_ms);
                    }
                    None => {}
                }
                self.reconcile();
            }
            HeartbeatAnswer::Refused(error) => self.handle_refusal(error, now_ms),
        }
    }

    /// Of what comes while the application is busy, the newest counts.
    fn hear_news(&mut self, news: P::News) {
        for event in self.protocol.handle_news(news) {
            let kind = std::mem::discriminant(&event);
            let mut waiting = self.events.iter_mut();
            match waiting.find(|waiting| std::mem::discriminant(*waiting) == kind) {
                Some(waiting) => *waiting = event,
                None => self.events.push_back(event),
            }
        }
    }

    /// The request in flight failed: no connection, no answer in time, or no answer at all.
    pub(crate) fn handle_failure(&mut self, now_ms: i64) {
        self.has_request_in_flight = false;
        self.coordinator = None;
        // Nobody knows what of it was heard.
        self.told = None;
        let was_heartbeat = self.telling.take().is_some();
        self.has_lost_answer |=
            was_heartbeat && self.phase == Phase::Joined && !P::REPEATS_ASSIGNMENT;
        self.handle_left();
        self.back_off(now_ms);
    }

    /// The member has left, or nobody can be told. Another subscription may have come meanwhile.
    fn handle_left(&mut self) {
        let is_wanted = self.interest.is_some();
        match &mut self.phase {
            Phase::Leaving { .. } if is_wanted => self.phase = Phase::Unjoined,
            Phase::Parting => {
                self.forget_assignment();
                self.phase = Phase::Unjoined;
            }
            Phase::Evicted { has_left } | Phase::Leaving { has_left } => *has_left = true,
            _ => return,
        }
        self.member_epoch = JOIN_EPOCH;
    }

    fn back_off(&mut self, now_ms: i64) {
        let doubled = 1i64.checked_shl(self.failed_attempts.min(20)).unwrap_or(1);
        let wait_ms = self.settings.retry_backoff_ms.saturating_mul(doubled);
        let wait_ms = wait_ms.min(self.settings.retry_backoff_max_ms);
        self.failed_attempts = self.failed_attempts.saturating_add(1);
        self.next_attempt_ms = now_ms.saturating_add(wait_ms);
    }

    fn handle_refusal(&mut self, error: ErrorCode, now_ms: i64) {
        self.told = None;
        match error {
            ErrorCode::FencedMemberEpoch | ErrorCode::UnknownMemberId => {
                self.lose();
                self.back_off(now_ms);
            }
            // The group was deleted, or never was one of this protocol.
            ErrorCode::GroupIdNotFound if self.member_epoch > JOIN_EPOCH => {
                self.lose();
                self.back_off(now_ms);
            }
            ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => {
                self.coordinator = None;
                self.back_off(now_ms);
            }
            // The topic may be allowed later; what the member has it keeps.
            ErrorCode::TopicAuthorizationFailed => {
                self.untold_refusal = Some(error);
                self.back_off(now_ms);
            }
            error if error.is_retriable() => self.back_off(now_ms),
            error => self.fail(error),
        }
    }
}
