//! A member of a classic group: joins, is assigned partitions, stays alive, rejoins, leaves.
//!
//! ```text
//!   subscribe, leave, handle_application_poll ─┐            ┌─> poll_request  to the coordinator
//!   handle_answer, handle_failure, now_ms ─────┴ Membership ┴─> poll_event    to the application
//! ```
//!
//! One request is in flight at a time. The application hears of partitions that come and go by
//! events, and a member rejoins only after the application has dealt with all of them: so nobody
//! else is given a partition while records of it are still being processed.

mod answer;
mod request;

pub(crate) use answer::{JoinAnswer, JoinedMember, Response};
pub(crate) use request::{GroupRequest, JoinRequest, SyncRequest};

use super::GroupMembershipOperation;
use super::assignors::{self, Assignor, Subscription, Topics, protocol};
use super::streams_group::{StreamsEndpoint, StreamsStatus, StreamsTasks};
use model::{BrokerId, ErrorCode, TopicPartition};
use std::collections::{BTreeSet, VecDeque};

/// What a member is told once.
#[derive(Debug, Clone)]
pub(crate) struct MembershipSettings {
    /// Set for a static member, which keeps its partitions while it is away for a short time.
    pub(crate) group_instance_id: Option<String>,
    pub(crate) session_timeout_ms: i64,
    pub(crate) heartbeat_interval_ms: i64,
    /// How long the application may go without polling, and a rebalance may wait for it.
    pub(crate) max_poll_interval_ms: i64,
    pub(crate) retry_backoff_ms: i64,
    pub(crate) retry_backoff_max_ms: i64,
    /// Not empty; best first.
    pub(crate) assignors: Vec<Assignor>,
    pub(crate) rack_id: Option<String>,
}

/// What the application has to deal with, in order. [`Membership::handle_event_done`] follows each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Stop reading these, and commit what was processed.
    Revoked(Vec<TopicPartition>),
    /// These are gone already: others may read them, a commit would be refused.
    Lost(Vec<TopicPartition>),
    /// Read these too.
    Assigned(Vec<TopicPartition>),
    /// These are the tasks of a member of a streams group now.
    Tasks(StreamsTasks),
    /// So stands a streams group, which wants to hear of its members once in so many milliseconds.
    Statuses(Vec<StreamsStatus>, i64),
    /// Where the members of a streams group answer.
    Endpoints(Vec<StreamsEndpoint>),
}

impl Event {
    /// The partitions that come or go.
    fn partitions(&self) -> &[TopicPartition] {
        match self {
            Self::Revoked(some) | Self::Lost(some) | Self::Assigned(some) => some,
            Self::Tasks(_) | Self::Statuses(..) | Self::Endpoints(_) => &[],
        }
    }
}

/// Where the member stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// In no generation, or about to leave its one: joins once all events are dealt with.
    Unjoined,
    /// Leads the group and needs to know the topics.
    Describing(Vec<assignors::Member>),
    /// Has joined a generation; its assignment is asked for with what it assigns to all.
    Syncing(Vec<(String, Vec<u8>)>),
    /// Has an assignment.
    Stable,
    /// The application polls no more: leaves the group, then waits for a poll.
    Evicted { has_left: bool },
    /// Refused for good.
    Failed(ErrorCode),
    /// Leaves, or has left.
    Leaving { has_left: bool },
}

/// A member.
#[derive(Debug)]
pub(crate) struct Membership {
    settings: MembershipSettings,
    /// `None` while nothing is subscribed.
    topics: Option<BTreeSet<String>>,
    coordinator: Option<BrokerId>,
    /// Empty until the coordinator gives one.
    member_id: String,
    /// -1 without one.
    generation_id: i32,
    /// Of the generation.
    assignor: Option<Assignor>,
    /// What the last assignment gave, as far as the member still counts on it; sorted.
    owned: Vec<TopicPartition>,
    /// What the sticky assignor remembers: the last assignment and its generation.
    remembered: (Vec<TopicPartition>, i32),
    phase: Phase,
    has_request_in_flight: bool,
    events: VecDeque<Event>,
    /// Whether the application deals with an event.
    has_event_out: bool,
    /// Why it rejoins, for the broker's log.
    reason: &'static str,
    failed_attempts: u32,
    next_attempt_ms: i64,
    heartbeat_due_ms: i64,
    session_end_ms: i64,
    poll_deadline_ms: i64,
    /// Of the leader: the topics that the group wants, and those that existed when it assigned. A
    /// difference is a reason to rejoin.
    assigned_topics: Option<(BTreeSet<String>, Topics)>,
}

impl Membership {
    /// A member that subscribes to nothing yet.
    pub(crate) fn new(settings: MembershipSettings, now_ms: i64) -> Self {
        assert!(!settings.assignors.is_empty(), "a member has an assignor");
        let poll_deadline_ms = now_ms.saturating_add(settings.max_poll_interval_ms);
        Self {
            settings,
            topics: None,
            coordinator: None,
            member_id: String::new(),
            generation_id: -1,
            assignor: None,
            owned: Vec::new(),
            remembered: (Vec::new(), -1),
            phase: Phase::Unjoined,
            has_request_in_flight: false,
            events: VecDeque::new(),
            has_event_out: false,
            reason: "",
            failed_attempts: 0,
            next_attempt_ms: now_ms,
            heartbeat_due_ms: i64::MAX,
            session_end_ms: i64::MAX,
            poll_deadline_ms,
            assigned_topics: None,
        }
    }

    /// Subscribes to these topics instead of any before.
    pub(crate) fn subscribe(&mut self, topics: BTreeSet<String>) {
        if self.topics.as_ref() == Some(&topics) && !matches!(self.phase, Phase::Failed(_)) {
            return;
        }
        self.topics = Some(topics);
        match self.phase {
            Phase::Stable => self.rejoin("the subscription changed"),
            Phase::Failed(_) | Phase::Leaving { has_left: true } => self.phase = Phase::Unjoined,
            // A generation that is being made knows the old subscription; it is left again.
            Phase::Describing(_) | Phase::Syncing(_) => self.phase = Phase::Unjoined,
            Phase::Unjoined | Phase::Evicted { .. } | Phase::Leaving { .. } => {}
        }
    }

    /// Leaves the group for good, or until the next subscription. What is owned is revoked by the
    /// caller beforehand: there are no more events.
    pub(crate) fn leave(&mut self, operation: GroupMembershipOperation) {
        self.topics = None;
        self.events.clear();
        self.has_event_out = false;
        self.owned.clear();
        let leaves = match operation {
            GroupMembershipOperation::Default => self.can_leave(),
            GroupMembershipOperation::LeaveGroup => self.is_member(),
            GroupMembershipOperation::RemainInGroup => false,
        };
        self.phase = Phase::Leaving { has_left: !leaves };
        // The answer to a request in flight does not matter any more: its caller drops it.
        self.has_request_in_flight = false;
        self.next_attempt_ms = i64::MIN;
    }

    /// A static member stays for its session.
    fn can_leave(&self) -> bool {
        self.settings.group_instance_id.is_none() && self.is_member()
    }

    fn is_member(&self) -> bool {
        !self.member_id.is_empty() && self.coordinator.is_some()
    }

    /// The application has polled: it lives. Returns whether the member that had left because it did not
    /// is to join again.
    pub(crate) fn handle_application_poll(&mut self, now_ms: i64) -> bool {
        self.poll_deadline_ms = now_ms.saturating_add(self.settings.max_poll_interval_ms);
        let comes_back = self.phase == (Phase::Evicted { has_left: true });
        if comes_back {
            self.lose_generation(true);
        }
        comes_back
    }

    /// The topics as they are, by partition; the leader rejoins when those it assigned differ.
    pub(crate) fn handle_topics(&mut self, current: &Topics) {
        if self.phase == Phase::Stable
            && let Some((_, assigned)) = &self.assigned_topics
            && assigned != current
        {
            self.rejoin("partitions or racks of the group's topics changed");
        }
    }

    /// The topics whose changes the leader wants to know; none from any other member.
    pub(crate) fn watched_topics(&self) -> impl Iterator<Item = &String> {
        self.assigned_topics.iter().flat_map(|(wanted, _)| wanted)
    }

    /// Joins anew at the application's wish (KIP-568).
    pub(crate) fn enforce_rebalance(&mut self) {
        if self.phase == Phase::Stable {
            self.rejoin("the application asked for a rebalance");
        }
    }

    /// Member id and generation, by which commits are known to be the member's; empty and -1 while
    /// it has none.
    pub(crate) fn generation(&self) -> (&str, i32) {
        (&self.member_id, self.generation_id)
    }

    /// The error for which the coordinator refused the member for good.
    pub(crate) const fn failure(&self) -> Option<ErrorCode> {
        match self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// A commit was refused because of the member's generation; the same errors as of a heartbeat.
    pub(crate) fn handle_commit_error(&mut self, error: ErrorCode, generation_id: i32) {
        if generation_id != self.generation_id {
            return;
        }
        match error {
            ErrorCode::UnknownMemberId => self.lose_generation(true),
            ErrorCode::IllegalGeneration => self.lose_generation(false),
            ErrorCode::RebalanceInProgress if self.phase == Phase::Stable => {
                self.rejoin("a commit met a rebalance");
            }
            ErrorCode::FencedInstanceId => self.fail(error),
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => {
                self.coordinator = None;
            }
            _ => {}
        }
    }

    /// The next thing for the application to deal with; `None` while it deals with the last one.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        if self.has_event_out {
            return None;
        }
        let event = self.events.pop_front();
        self.has_event_out = event.is_some();
        event
    }

    /// Whether the application has something to deal with.
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The application has dealt with the event that it took.
    pub(crate) fn handle_event_done(&mut self) {
        self.has_event_out = false;
    }

    /// The next request for the coordinator (or for any broker, to find it). It is answered by
    /// [`Membership::handle_answer`] or [`Membership::handle_failure`] before the next.
    pub(crate) fn poll_request(&mut self, now_ms: i64) -> Option<GroupRequest> {
        if self.has_request_in_flight || now_ms < self.next_attempt_ms {
            return None;
        }
        let request = self.next_request(now_ms);
        self.has_request_in_flight = request.is_some();
        request
    }

    fn next_request(&mut self, now_ms: i64) -> Option<GroupRequest> {
        let is_silent = now_ms >= self.poll_deadline_ms;
        match &mut self.phase {
            Phase::Leaving { has_left } => {
                return (!*has_left).then_some(GroupRequest::Leave {
                    reason: "the consumer leaves",
                });
            }
            Phase::Failed(_) | Phase::Evicted { has_left: true } => return None,
            Phase::Evicted { has_left: false } => {
                let reason = "the application has not polled for `max.poll.interval.ms`";
                return Some(GroupRequest::Leave { reason });
            }
            Phase::Unjoined | Phase::Describing(_) | Phase::Syncing(_) | Phase::Stable => {}
        }
        self.topics.as_ref()?;
        if is_silent {
            // A static member does not leave: it just falls silent.
            self.phase = Phase::Evicted {
                has_left: !self.can_leave(),
            };
            return self.next_request(now_ms);
        }
        if now_ms >= self.session_end_ms {
            // Whoever coordinates has not answered for a whole session: it may be another one.
            self.coordinator = None;
            self.session_end_ms = i64::MAX;
        }
        if self.coordinator.is_none() {
            return Some(GroupRequest::FindCoordinator);
        }
        let has_heartbeat_due = self.generation_id >= 0 && now_ms >= self.heartbeat_due_ms;
        match &self.phase {
            Phase::Unjoined if self.events.is_empty() && !self.has_event_out => {
                Some(self.join_request())
            }
            // The application is awaited; the session goes on meanwhile.
            Phase::Unjoined | Phase::Stable => has_heartbeat_due.then_some(GroupRequest::Heartbeat),
            Phase::Describing(members) => Some(GroupRequest::DescribeTopics(wanted(members))),
            Phase::Syncing(assignments) => Some(GroupRequest::Sync(SyncRequest {
                protocol_name: self
                    .assignor
                    .as_ref()
                    .map_or_else(String::new, |assignor| assignor.name().to_owned()),
                assignments: assignments.clone(),
            })),
            Phase::Evicted { .. } | Phase::Failed(_) | Phase::Leaving { .. } => None,
        }
    }

    fn join_request(&self) -> GroupRequest {
        let topics: Vec<String> = self.topics.iter().flatten().cloned().collect();
        let (remembered, remembered_generation) = &self.remembered;
        let protocols = self.settings.assignors.iter().map(|assignor| {
            let subscription = Subscription {
                topics: topics.clone(),
                user_data: assignor.user_data(remembered, *remembered_generation),
                owned_partitions: self.owned.clone(),
                generation_id: self.generation_id,
                rack_id: self.settings.rack_id.clone(),
            };
            (
                assignor.name().to_owned(),
                protocol::encode_subscription(&subscription),
            )
        });
        GroupRequest::Join(JoinRequest {
            session_timeout_ms: self.settings.session_timeout_ms,
            rebalance_timeout_ms: self.settings.max_poll_interval_ms,
            protocols: protocols.collect(),
            reason: self.reason,
        })
    }

    /// When [`Membership::poll_request`] may have something without any input.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        if self.has_request_in_flight {
            return None;
        }
        let due_ms = match self.phase {
            Phase::Failed(_)
            | Phase::Evicted { has_left: true }
            | Phase::Leaving { has_left: true } => return None,
            Phase::Evicted { .. } | Phase::Leaving { .. } => self.next_attempt_ms,
            Phase::Describing(_) | Phase::Syncing(_) => self.next_attempt_ms,
            _ if self.topics.is_none() => return None,
            _ if self.coordinator.is_none() => self.next_attempt_ms,
            Phase::Unjoined if self.events.is_empty() && !self.has_event_out => {
                self.next_attempt_ms
            }
            Phase::Unjoined | Phase::Stable => {
                let due_ms = self.heartbeat_due_ms.min(self.session_end_ms);
                due_ms.min(self.poll_deadline_ms).max(self.next_attempt_ms)
            }
        };
        (due_ms < i64::MAX).then_some(due_ms)
    }

    /// Whether members that rejoin keep their partitions: only when every assignor can.
    fn is_cooperative(&self) -> bool {
        self.settings
            .assignors
            .iter()
            .all(|assignor| assignor.is_cooperative())
    }

    /// Leaves the present generation for the next one. What cannot be kept is revoked first.
    fn rejoin(&mut self, reason: &'static str) {
        self.reason = reason;
        self.phase = Phase::Unjoined;
        self.assigned_topics = None;
        let topics = self.topics.as_ref();
        let is_cooperative = self.is_cooperative();
        let may_keep = |partition: &TopicPartition| {
            is_cooperative && topics.is_some_and(|topics| topics.contains(&partition.topic))
        };
        let (kept, revoked) = std::mem::take(&mut self.owned)
            .into_iter()
            .partition(may_keep);
        self.owned = kept;
        self.push_event(Event::Revoked(revoked));
    }

    /// The coordinator does not know the generation, or not even the member.
    fn lose_generation(&mut self, forgets_member: bool) {
        self.phase = Phase::Unjoined;
        self.reason = "the member's generation ended";
        self.generation_id = -1;
        self.assigned_topics = None;
        self.heartbeat_due_ms = i64::MAX;
        self.session_end_ms = i64::MAX;
        if forgets_member {
            self.member_id.clear();
        }
        // What the application has is what the first event says that it has not seen yet: it never had
        // what is assigned there, and it has what is to be revoked.
        let mut decided = BTreeSet::new();
        let mut lost = BTreeSet::new();
        for event in self.events.drain(..) {
            let is_held = !matches!(event, Event::Assigned(_));
            for partition in event.partitions() {
                if decided.insert(partition.clone()) && is_held {
                    lost.insert(partition.clone());
                }
            }
        }
        let owned = self.owned.drain(..);
        lost.extend(owned.filter(|partition| !decided.contains(partition)));
        self.push_event(Event::Lost(lost.into_iter().collect()));
    }

    fn fail(&mut self, error: ErrorCode) {
        self.lose_generation(true);
        self.phase = Phase::Failed(error);
    }

    fn push_event(&mut self, event: Event) {
        if !event.partitions().is_empty() {
            self.events.push_back(event);
        }
    }
}

/// The topics that any of `members` subscribes to.
fn wanted(members: &[assignors::Member]) -> BTreeSet<String> {
    let topics = members
        .iter()
        .flat_map(|member| &member.subscription.topics);
    topics.cloned().collect()
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
