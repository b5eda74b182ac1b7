//! A member of a group of the consumer protocol (KIP-848): the coordinator assigns, and one kind of
//! request, the heartbeat, joins, reconciles and leaves.
//!
//! ```text
//!   subscribe, leave, handle_application_poll ─┐                     ┌─> poll_request  heartbeats
//!   handle_answer, handle_names, now_ms ───────┴ HeartbeatMembership ┴─> poll_event    to the application
//! ```
//!
//! A heartbeat carries only what has changed since the last one that was answered. The coordinator
//! answers with what the member may own now; what it owns beyond that is revoked first, then what is
//! new is assigned, and the next heartbeat says so. Nobody else is given a partition before.

mod answer;

pub(crate) use answer::HeartbeatAnswer;

use super::membership::Event;
use model::{BrokerId, ErrorCode, TopicPartition, Uuid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The epoch by which a member joins.
pub(crate) const JOIN_EPOCH: i32 = 0;
/// The epoch by which a member leaves.
const LEAVE_EPOCH: i32 = -1;
/// The epoch by which a static member goes away for a while.
const LEAVE_STATIC_EPOCH: i32 = -2;

/// What a member is told once.
#[derive(Debug, Clone)]
pub(crate) struct HeartbeatSettings {
    /// Random; the member's for all its life.
    pub(crate) member_id: String,
    /// Set for a static member, which keeps its partitions while it is away for a short time.
    pub(crate) group_instance_id: Option<String>,
    /// How long the application may go without polling, and a rebalance may wait for it.
    pub(crate) max_poll_interval_ms: i64,
    pub(crate) retry_backoff_ms: i64,
    pub(crate) retry_backoff_max_ms: i64,
    /// How the coordinator is to assign; its own choice when there is none.
    pub(crate) remote_assignor: Option<String>,
    pub(crate) rack_id: Option<String>,
}

/// What the member wants to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Interest {
    Topics(BTreeSet<String>),
    /// A regular expression that the coordinator matches with topics (RE2).
    Pattern(String),
}

/// Partitions of topics by their ids.
pub(crate) type Assignment = BTreeMap<Uuid, BTreeSet<i32>>;

/// Of any broker, or of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemberRequest {
    /// Who coordinates the group?
    FindCoordinator,
    /// See [`Heartbeat`].
    Heartbeat(Heartbeat),
}

/// The fields of a heartbeat; what is `None` has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heartbeat {
    pub(crate) member_id: String,
    pub(crate) member_epoch: i32,
    pub(crate) group_instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) rebalance_timeout_ms: Option<i64>,
    pub(crate) interest: Option<Interest>,
    /// Whether a pattern from before counts no more.
    pub(crate) drops_pattern: bool,
    pub(crate) remote_assignor: Option<String>,
    pub(crate) owned: Option<Assignment>,
}

/// Where the member stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Is no member: joins once all events are dealt with.
    Unjoined,
    Joined,
    /// The application polls no more: leaves the group, then waits for a poll.
    Evicted {
        has_left: bool,
    },
    /// Refused for good.
    Failed(ErrorCode),
    /// Leaves, or has left.
    Leaving {
        has_left: bool,
    },
}

/// What the coordinator knows from heartbeats that it has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Acknowledged {
    interest: Interest,
    owned: Assignment,
}

/// A member.
#[derive(Debug)]
pub(crate) struct HeartbeatMembership {
    settings: HeartbeatSettings,
    member_id: String,
    /// `None` while nothing is subscribed.
    interest: Option<Interest>,
    coordinator: Option<BrokerId>,
    /// 0 while it is no member.
    member_epoch: i32,
    phase: Phase,
    /// What the coordinator last said that the member may own.
    target: Assignment,
    /// What the application has, by ids.
    owned: Assignment,
    /// What it has once the events that are out are dealt with.
    next_owned: Option<Assignment>,
    /// Whether the coordinator waits to hear that the member has what it said, even if that changes
    /// nothing: it may have taken back what the member never got to own.
    owes_answer: bool,
    /// Names of the topics of `target` and `owned`.
    names: BTreeMap<Uuid, String>,
    told: Option<Acknowledged>,
    /// What the heartbeat in flight tells.
    telling: Option<Acknowledged>,
    has_request_in_flight: bool,
    events: VecDeque<Event>,
    has_event_out: bool,
    /// What the application has, by the events that it took.
    held: BTreeSet<TopicPartition>,
    failed_attempts: u32,
    next_attempt_ms: i64,
    heartbeat_interval_ms: i64,
    heartbeat_due_ms: i64,
    poll_deadline_ms: i64,
}

impl HeartbeatMembership {
    /// A member that subscribes to nothing yet.
    pub(crate) fn new(settings: HeartbeatSettings, now_ms: i64) -> Self {
        let poll_deadline_ms = now_ms.saturating_add(settings.max_poll_interval_ms);
        Self {
            member_id: settings.member_id.clone(),
            settings,
            interest: None,
            coordinator: None,
            member_epoch: JOIN_EPOCH,
            phase: Phase::Unjoined,
            target: Assignment::new(),
            owned: Assignment::new(),
            next_owned: None,
            owes_answer: false,
            names: BTreeMap::new(),
            told: None,
            telling: None,
            has_request_in_flight: false,
            events: VecDeque::new(),
            has_event_out: false,
            held: BTreeSet::new(),
            failed_attempts: 0,
            next_attempt_ms: now_ms,
            heartbeat_interval_ms: 0,
            heartbeat_due_ms: now_ms,
            poll_deadline_ms,
        }
    }

    /// Wants to read this instead of anything before.
    pub(crate) fn subscribe(&mut self, interest: Interest) {
        if self.interest.as_ref() == Some(&interest) && !matches!(self.phase, Phase::Failed(_)) {
            return;
        }
        self.interest = Some(interest);
        if matches!(
            self.phase,
            Phase::Failed(_) | Phase::Leaving { has_left: true }
        ) {
            self.phase = Phase::Unjoined;
        }
    }

    /// Leaves the group for good, or until the next subscription. What is owned is revoked by the
    /// caller beforehand: there are no more events.
    pub(crate) fn leave(&mut self) {
        let has_left = !self.can_leave();
        self.interest = None;
        self.forget_assignment();
        self.events.clear();
        self.has_event_out = false;
        self.held.clear();
        self.phase = Phase::Leaving { has_left };
        // The answer to a request in flight does not matter any more: its caller drops it.
        self.has_request_in_flight = false;
        self.next_attempt_ms = i64::MIN;
    }

    fn can_leave(&self) -> bool {
        let may_have_joined = self.member_epoch > JOIN_EPOCH || self.has_request_in_flight;
        may_have_joined && self.coordinator.is_some()
    }

    fn forget_assignment(&mut self) {
        self.target.clear();
        self.owned.clear();
        self.next_owned = None;
        self.owes_answer = false;
        self.told = None;
        self.telling = None;
    }

    /// The application has polled: it lives. Returns whether the member that had left because it did not
    /// is to join again.
    pub(crate) fn handle_application_poll(&mut self, now_ms: i64) -> bool {
        self.poll_deadline_ms = now_ms.saturating_add(self.settings.max_poll_interval_ms);
        let comes_back = self.phase == (Phase::Evicted { has_left: true });
        if comes_back {
            self.lose();
        }
        comes_back
    }

    /// Member id and epoch, by which commits are known to be the member's; -1 while it is none.
    pub(crate) fn generation(&self) -> (&str, i32) {
        match self.member_epoch {
            JOIN_EPOCH => (&self.member_id, -1),
            epoch => (&self.member_id, epoch),
        }
    }

    /// The error for which the coordinator refused the member for good.
    pub(crate) const fn failure(&self) -> Option<ErrorCode> {
        match self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// A commit of this epoch was refused because of the member.
    pub(crate) fn handle_commit_error(&mut self, error: ErrorCode, epoch: i32) {
        match error {
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => {
                self.coordinator = None;
            }
            ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch
                if epoch == self.member_epoch && self.phase == Phase::Joined =>
            {
                self.lose();
            }
            // The next heartbeat brings the new epoch.
            ErrorCode::StaleMemberEpoch => self.heartbeat_due_ms = i64::MIN,
            ErrorCode::FencedInstanceId => self.fail(error),
            _ => {}
        }
    }

    /// Learns the names of topics.
    pub(crate) fn handle_names(&mut self, name_of: impl Fn(Uuid) -> Option<String>) {
        let unknown: Vec<Uuid> = self.unnamed().collect();
        for id in unknown {
            if let Some(name) = name_of(id) {
                self.names.insert(id, name);
            }
        }
        self.reconcile();
    }

    /// Whether topics are assigned whose names are not known.
    pub(crate) fn needs_names(&self) -> bool {
        self.unnamed().next().is_some()
    }

    fn unnamed(&self) -> impl Iterator<Item = Uuid> {
        let ids = self.target.keys();
        ids.filter(|id| !self.names.contains_key(id)).copied()
    }

    /// The next thing for the application to deal with; `None` while it deals with the last one.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        if self.has_event_out {
            return None;
        }
        let event = self.events.pop_front();
        match &event {
            Some(Event::Assigned(partitions)) => self.held.extend(partitions.iter().cloned()),
            Some(Event::Revoked(partitions) | Event::Lost(partitions)) => {
                self.held.retain(|one| !partitions.contains(one));
            }
            None => {}
        }
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
        if self.events.is_empty()
            && let Some(owned) = self.next_owned.take()
        {
            self.owned = owned;
            // The coordinator may have changed its mind meanwhile.
            self.reconcile();
        }
    }

    const fn is_settled(&self) -> bool {
        !self.has_event_out && self.next_owned.is_none()
    }

    /// The next request, answered by `handle_answer` or `handle_failure` before the next.
    pub(crate) fn poll_request(&mut self, now_ms: i64) -> Option<MemberRequest> {
        if self.has_request_in_flight || now_ms < self.next_attempt_ms {
            return None;
        }
        let request = self.next_request(now_ms);
        self.has_request_in_flight = request.is_some();
        request
    }

    fn next_request(&mut self, now_ms: i64) -> Option<MemberRequest> {
        match self.phase {
            Phase::Leaving { has_left: false } | Phase::Evicted { has_left: false } => {
                return Some(MemberRequest::Heartbeat(self.last_heartbeat()));
            }
            Phase::Leaving { .. } | Phase::Evicted { .. } | Phase::Failed(_) => return None,
            Phase::Unjoined | Phase::Joined => {}
        }
        self.interest.as_ref()?;
        if now_ms >= self.poll_deadline_ms {
            self.phase = Phase::Evicted {
                has_left: !self.can_leave(),
            };
            return self.next_request(now_ms);
        }
        if self.coordinator.is_none() {
            return Some(MemberRequest::FindCoordinator);
        }
        match self.phase {
            Phase::Unjoined if self.events.is_empty() && !self.has_event_out => {}
            Phase::Joined if self.has_news() || now_ms >= self.heartbeat_due_ms => {}
            _ => return None,
        }
        Some(MemberRequest::Heartbeat(self.next_heartbeat()))
    }

    /// Whether the coordinator should hear something before the next heartbeat is due.
    fn has_news(&self) -> bool {
        let differs = self.told.as_ref().is_none_or(|told| {
            self.interest.as_ref() != Some(&told.interest) || self.owned != told.owned
        });
        differs || self.answers()
    }

    /// Whether the next heartbeat says that the member has what the coordinator said.
    fn answers(&self) -> bool {
        let is_done = self.is_settled() && self.events.is_empty() && !self.needs_names();
        self.owes_answer && is_done
    }

    fn next_heartbeat(&mut self) -> Heartbeat {
        let interest = self.interest.clone().expect("something is subscribed");
        let telling = Acknowledged {
            interest,
            owned: self.owned.clone(),
        };
        let is_first = self.told.is_none();
        let told = self.told.as_ref();
        let changed_interest = told.is_none_or(|told| told.interest != telling.interest);
        let answers = self.answers();
        let changed_owned = answers || told.is_none_or(|told| told.owned != telling.owned);
        let heartbeat = Heartbeat {
            member_id: self.member_id.clone(),
            member_epoch: self.member_epoch,
            group_instance_id: self.settings.group_instance_id.clone(),
            rack_id: self.settings.rack_id.clone().filter(|_| is_first),
            rebalance_timeout_ms: is_first.then_some(self.settings.max_poll_interval_ms),
            interest: changed_interest.then(|| telling.interest.clone()),
            drops_pattern: changed_interest && self.member_epoch > JOIN_EPOCH,
            remote_assignor: self.settings.remote_assignor.clone().filter(|_| is_first),
            owned: changed_owned.then(|| telling.owned.clone()),
        };
        self.telling = Some(telling);
        self.owes_answer &= !answers;
        heartbeat
    }

    fn last_heartbeat(&self) -> Heartbeat {
        let is_static = self.settings.group_instance_id.is_some();
        Heartbeat {
            member_id: self.member_id.clone(),
            member_epoch: if is_static {
                LEAVE_STATIC_EPOCH
            } else {
                LEAVE_EPOCH
            },
            group_instance_id: self.settings.group_instance_id.clone(),
            rack_id: None,
            rebalance_timeout_ms: None,
            interest: None,
            drops_pattern: false,
            remote_assignor: None,
            owned: None,
        }
    }

    /// When `poll_request` may have something without any input.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        if self.has_request_in_flight {
            return None;
        }
        match self.phase {
            Phase::Failed(_)
            | Phase::Evicted { has_left: true }
            | Phase::Leaving { has_left: true } => None,
            Phase::Evicted { .. } | Phase::Leaving { .. } => Some(self.next_attempt_ms),
            _ if self.interest.is_none() => None,
            _ if self.coordinator.is_none() => Some(self.next_attempt_ms),
            Phase::Unjoined if self.events.is_empty() && !self.has_event_out => {
                Some(self.next_attempt_ms)
            }
            Phase::Unjoined => Some(self.poll_deadline_ms.max(self.next_attempt_ms)),
            Phase::Joined if self.has_news() => Some(self.next_attempt_ms),
            Phase::Joined => {
                let due_ms = self.heartbeat_due_ms.min(self.poll_deadline_ms);
                Some(due_ms.max(self.next_attempt_ms))
            }
        }
    }

    /// Begins to make what the application has what the coordinator says, as far as names are known.
    fn reconcile(&mut self) {
        if self.phase != Phase::Joined || !self.is_settled() || !self.events.is_empty() {
            return;
        }
        let named = |id: &Uuid| self.names.contains_key(id);
        let mut next = self.target.clone();
        next.retain(|id, partitions| named(id) && !partitions.is_empty());
        if next == self.owned {
            return;
        }
        let (target, owned) = (&self.target, &self.owned);
        self.names
            .retain(|id, _| target.contains_key(id) || owned.contains_key(id));
        let revoked = self.named_difference(&self.owned, &next);
        let added = self.named_difference(&next, &self.owned);
        self.next_owned = Some(next);
        for event in [Event::Revoked(revoked), Event::Assigned(added)] {
            let (Event::Revoked(some) | Event::Assigned(some) | Event::Lost(some)) = &event;
            if !some.is_empty() {
                self.events.push_back(event);
            }
        }
    }

    /// The partitions of `one` that `other` lacks.
    fn named_difference(&self, one: &Assignment, other: &Assignment) -> Vec<TopicPartition> {
        let mut partitions: Vec<TopicPartition> = one
            .iter()
            .filter_map(|(id, indexes)| Some((self.names.get(id)?, id, indexes)))
            .flat_map(|(name, id, indexes)| {
                let missing = indexes.iter().filter(move |index| {
                    let there = other.get(id);
                    !there.is_some_and(|there| there.contains(index))
                });
                missing.map(move |index| TopicPartition::new(name.as_str(), *index))
            })
            .collect();
        partitions.sort();
        partitions
    }

    /// The coordinator does not know the member, or not by this epoch: all is lost.
    fn lose(&mut self) {
        // What was announced and not taken yet was never had, or is lost with the rest.
        self.events.clear();
        self.forget_assignment();
        self.member_epoch = JOIN_EPOCH;
        self.phase = Phase::Unjoined;
        if !self.held.is_empty() {
            let lost = self.held.iter().cloned().collect();
            self.events.push_back(Event::Lost(lost));
        }
    }

    fn fail(&mut self, error: ErrorCode) {
        self.lose();
        self.phase = Phase::Failed(error);
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
