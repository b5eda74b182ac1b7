//! What comes back to a member, and what it makes of it.

use super::{Event, Membership, Phase};
use crate::consumer::assignors::{self, Assignor, Topics, protocol};
use model::{BrokerId, ErrorCode, TopicPartition};

/// The answer to a request of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Response {
    /// Who coordinates.
    Coordinator(Result<BrokerId, ErrorCode>),
    /// The generation.
    Join(Result<JoinAnswer, ErrorCode>),
    /// The coordinator wants the member to join with this id.
    MemberIdRequired(String),
    /// The topics that exist of those asked for.
    Topics(Topics),
    /// The member's assignment.
    Sync(Result<Vec<u8>, ErrorCode>),
    /// `None` or what is wrong with the member.
    Heartbeat(ErrorCode),
    /// Left, or unknown anyway.
    Leave,
}

/// A generation that the member has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinAnswer {
    pub(crate) generation_id: i32,
    pub(crate) protocol_name: String,
    pub(crate) leader: String,
    /// The leader came back and is to leave the assignment as it is (KIP-814).
    pub(crate) skips_assignment: bool,
    pub(crate) member_id: String,
    /// For the leader alone.
    pub(crate) members: Vec<JoinedMember>,
}

/// A member as its leader gets to know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JoinedMember {
    pub(crate) member_id: String,
    pub(crate) group_instance_id: Option<String>,
    /// Its subscription, encoded.
    pub(crate) metadata: Vec<u8>,
}

impl Membership {
    /// The answer to the request in flight.
    pub(crate) fn handle_answer(&mut self, answer: Response, now_ms: i64) {
        self.has_request_in_flight = false;
        match answer {
            Response::Coordinator(Ok(broker)) => {
                // That is no word of the coordinator itself: heartbeats stay due.
                self.coordinator = Some(broker);
                self.next_attempt_ms = now_ms;
            }
            Response::Coordinator(Err(error)) if error.is_retriable() => self.back_off(now_ms),
            Response::Coordinator(Err(error)) => self.fail(error),
            Response::Leave => {
                if let Phase::Evicted { .. } | Phase::Leaving { .. } = self.phase {
                    self.member_id.clear();
                    self.generation_id = -1;
                    self.handle_left();
                }
            }
            // What was asked for before the member began to leave does not count any more.
            _ if matches!(self.phase, Phase::Evicted { .. } | Phase::Leaving { .. }) => {
                if let Response::Join(Ok(join)) = answer {
                    self.member_id = join.member_id;
                    self.generation_id = join.generation_id;
                }
            }
            Response::MemberIdRequired(member_id) => {
                self.member_id = member_id;
                self.succeed(now_ms);
            }
            Response::Join(Ok(join)) => self.handle_join(join, now_ms),
            Response::Join(Err(error)) => self.handle_refusal(error, now_ms),
            Response::Topics(topics) => self.assign(topics),
            Response::Sync(Ok(assignment)) => self.handle_assignment(&assignment, now_ms),
            Response::Sync(Err(error)) => {
                self.phase = Phase::Unjoined;
                self.handle_refusal(error, now_ms);
            }
            Response::Heartbeat(ErrorCode::None) => self.succeed(now_ms),
            Response::Heartbeat(error) => self.handle_refusal(error, now_ms),
        }
    }

    /// The request in flight failed: no connection, no answer in time, or no answer at all.
    pub(crate) fn handle_failure(&mut self, now_ms: i64) {
        self.has_request_in_flight = false;
        self.coordinator = None;
        match &mut self.phase {
            Phase::Evicted { .. } | Phase::Leaving { .. } => self.handle_left(),
            // The assignment of the generation may have been made without this member hearing.
            Phase::Syncing(_) => self.phase = Phase::Unjoined,
            _ => {}
        }
        self.back_off(now_ms);
    }

    /// The member has left, or nobody can be told. Another subscription may have come meanwhile.
    fn handle_left(&mut self) {
        let is_wanted = self.topics.is_some();
        match &mut self.phase {
            Phase::Leaving { .. } if is_wanted => self.phase = Phase::Unjoined,
            Phase::Evicted { has_left } | Phase::Leaving { has_left } => *has_left = true,
            _ => {}
        }
    }

    fn succeed(&mut self, now_ms: i64) {
        self.failed_attempts = 0;
        self.next_attempt_ms = now_ms;
        if self.generation_id >= 0 {
            self.heartbeat_due_ms = now_ms.saturating_add(self.settings.heartbeat_interval_ms);
            self.session_end_ms = now_ms.saturating_add(self.settings.session_timeout_ms);
        }
    }

    fn back_off(&mut self, now_ms: i64) {
        let doubled = 1i64.checked_shl(self.failed_attempts.min(20)).unwrap_or(1);
        let wait_ms = self.settings.retry_backoff_ms.saturating_mul(doubled);
        let wait_ms = wait_ms.min(self.settings.retry_backoff_max_ms);
        self.failed_attempts = self.failed_attempts.saturating_add(1);
        self.next_attempt_ms = now_ms.saturating_add(wait_ms);
    }

    /// An error of JoinGroup, SyncGroup or Heartbeat.
    fn handle_refusal(&mut self, error: ErrorCode, now_ms: i64) {
        match error {
            ErrorCode::RebalanceInProgress if self.phase == Phase::Stable => {
                self.succeed(now_ms);
                self.rejoin("the group rebalances");
            }
            // A heartbeat says so again while the application is awaited.
            ErrorCode::RebalanceInProgress => {
                self.succeed(now_ms);
                self.next_attempt_ms = now_ms;
            }
            ErrorCode::UnknownMemberId => {
                self.lose_generation(true);
                self.back_off(now_ms);
            }
            ErrorCode::IllegalGeneration => {
                self.lose_generation(false);
                self.back_off(now_ms);
            }
            ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator => {
                self.coordinator = None;
                self.back_off(now_ms);
            }
            error if error.is_retriable() => self.back_off(now_ms),
            error => self.fail(error),
        }
    }

    fn handle_join(&mut self, join: JoinAnswer, now_ms: i64) {
        let named = |assignor: &&Assignor| assignor.name() == join.protocol_name;
        let Some(assignor) = self.settings.assignors.iter().find(named).cloned() else {
            return self.fail(ErrorCode::InconsistentGroupProtocol);
        };
        let is_leader = join.leader == join.member_id;
        self.member_id = join.member_id;
        self.generation_id = join.generation_id;
        self.assignor = Some(assignor);
        self.reason = "";
        self.succeed(now_ms);
        if !is_leader || join.skips_assignment {
            self.phase = Phase::Syncing(Vec::new());
            return;
        }
        let members = join.members.into_iter().map(|member| {
            let subscription = protocol::decode_subscription(&member.metadata).ok()?;
            Some(assignors::Member {
                member_id: member.member_id,
                group_instance_id: member.group_instance_id,
                subscription,
            })
        });
        match members.collect() {
            Some(members) => self.phase = Phase::Describing(members),
            None => self.fail(ErrorCode::InconsistentGroupProtocol),
        }
    }

    /// Assigns all partitions, as the leader.
    fn assign(&mut self, topics: Topics) {
        let Phase::Describing(members) = &self.phase else {
            return;
        };
        let Some(assignor) = &self.assignor else {
            return;
        };
        let lists = assignor.assign(&topics, members);
        self.assigned_topics = Some((super::wanted(members), topics));
        let members = members.iter().map(|member| member.member_id.clone());
        let lists = lists.iter().map(protocol::encode_assignment);
        self.phase = Phase::Syncing(members.zip(lists).collect());
    }

    fn handle_assignment(&mut self, bytes: &[u8], now_ms: i64) {
        let Ok(assignment) = protocol::decode_assignment(bytes) else {
            return self.fail(ErrorCode::InconsistentGroupProtocol);
        };
        let asks_again = match &self.assignor {
            Some(Assignor::Other(assignor)) => assignor.assigned(&assignment),
            _ => false,
        };
        let mut assigned = assignment.partitions;
        assigned.sort();
        assigned.dedup();
        self.phase = Phase::Stable;
        self.succeed(now_ms);
        let topics = self.topics.as_ref();
        let is_subscribed = |partition: &TopicPartition| {
            topics.is_some_and(|topics| topics.contains(&partition.topic))
        };
        if !assigned.iter().all(is_subscribed) {
            return self.rejoin("the assignment is of another subscription");
        }
        self.remembered = (assigned.clone(), self.generation_id);
        let owned = std::mem::replace(&mut self.owned, assigned);
        let kept = |list: &[TopicPartition], partition| list.binary_search(partition).is_ok();
        let revoked = owned.iter().filter(|p| !kept(&self.owned, p)).cloned();
        let revoked: Vec<TopicPartition> = revoked.collect();
        let added = self.owned.iter().filter(|p| !kept(&owned, p)).cloned();
        let added: Vec<TopicPartition> = added.collect();
        let must_rejoin = !revoked.is_empty() && self.is_cooperative();
        self.push_event(Event::Revoked(revoked));
        self.push_event(Event::Assigned(added));
        if must_rejoin {
            self.rejoin("partitions were given up for other members");
        } else if asks_again {
            self.rejoin("the assignor asks for another rebalance");
        }
    }
}
