//! A member of a group whose coordinator assigns: one kind of request, the heartbeat, joins, reconciles and leaves.
//! What consumer groups (KIP-848) and streams groups (KIP-1071) differ in is their [`Protocol`].
//!
//! ```text
//!   subscribe, leave, handle_application_poll ─┐                     ┌─> poll_request  heartbeats
//!   handle_answer, handle_names, now_ms ───────┴ HeartbeatMembership ┴─> poll_event    to the application
//! ```
//!
//! A heartbeat carries only what has changed since the last one that was answered. The coordinator
//! answers with what the member may own now; what it owns beyond that is revoked first, then what is
//! new is assigned, and the next heartbeat says so. Nobody else is given a partition before.

mod anew;
mod answer;
mod protocol;
mod streams;

pub(crate) use answer::HeartbeatAnswer;
pub(crate) use protocol::{Assignment, ConsumerGroup, Protocol};
pub(crate) use streams::{StreamsGroup, StreamsNews};

use self::anew::Anew;
use super::GroupMembershipOperation;
use super::membership::Event;
use model::{BrokerId, ErrorCode, TopicPartition, Uuid};
use std::collections::{BTreeSet, VecDeque};

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

/// Of any broker, or of the coordinator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MemberRequest<P: Protocol = ConsumerGroup> {
    /// Who coordinates the group?
    FindCoordinator,
    /// See [`Heartbeat`].
    Heartbeat(Heartbeat<P>),
}

/// The fields of a heartbeat; what is `None` has not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heartbeat<P: Protocol = ConsumerGroup> {
    pub(crate) member_id: String,
    pub(crate) member_epoch: i32,
    pub(crate) group_instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) rebalance_timeout_ms: Option<i64>,
    pub(crate) interest: Option<P::Interest>,
    /// Whether a pattern from before counts no more.
    pub(crate) drops_pattern: bool,
    pub(crate) remote_assignor: Option<String>,
    pub(crate) owned: Option<P::Assignment>,
    pub(crate) beside: P::Beside,
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
    /// Has given all up, and leaves to join again.
    Parting,
    /// Refused for good.
    Failed(ErrorCode),
    /// Leaves, or has left.
    Leaving {
        has_left: bool,
    },
}

/// What the coordinator knows from heartbeats that it has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Acknowledged<P: Protocol> {
    interest: P::Interest,
    owned: P::Assignment,
}

/// A member.
#[derive(Debug)]
pub(crate) struct HeartbeatMembership<P: Protocol = ConsumerGroup> {
    settings: HeartbeatSettings,
    protocol: P,
    member_id: String,
    /// `None` while nothing is subscribed.
    interest: Option<P::Interest>,
    coordinator: Option<BrokerId>,
    /// 0 while it is no member.
    member_epoch: i32,
    phase: Phase,
    /// What the coordinator last said that the member may own.
    target: P::Assignment,
    /// What the application has, as the coordinator names it.
    owned: P::Assignment,
    /// What it has once the events that are out are dealt with.
    next_owned: Option<P::Assignment>,
    /// Whether the coordinator waits to hear that the member has what it said, even if that changes
    /// nothing: it may have taken back what the member never got to own.
    owes_answer: bool,
    told: Option<Acknowledged<P>>,
    /// What the heartbeat in flight tells.
    telling: Option<Acknowledged<P>>,
    /// Whether an answer was lost that may have said what nobody says again.
    has_lost_answer: bool,
    /// Gives all up in order, leaves and joins again, to hear what it may own.
    begins_again: bool,
    /// When it may do so next.
    anew: Anew,
    /// Does not come back, although it is a static member.
    leaves_for_good: bool,
    has_request_in_flight: bool,
    events: VecDeque<Event>,
    has_event_out: bool,
    /// What the application has, by the events that it took.
    held: BTreeSet<TopicPartition>,
    /// Why the last heartbeat was refused, if the application is to hear of it; it is sent again all the same.
    untold_refusal: Option<ErrorCode>,
    failed_attempts: u32,
    next_attempt_ms: i64,
    heartbeat_interval_ms: i64,
    heartbeat_due_ms: i64,
    poll_deadline_ms: i64,
}

impl HeartbeatMembership {
    /// A member of a consumer group that subscribes to nothing yet.
    pub(crate) fn new(settings: HeartbeatSettings, now_ms: i64) -> Self {
        Self::with(settings, ConsumerGroup::default(), now_ms)
    }

    /// Learns the names of topics.
    pub(crate) fn handle_names(&mut self, name_of: impl Fn(Uuid) -> Option<String>) {
        self.protocol.learn(&self.target, name_of);
        self.reconcile();
    }
}

impl<P: Protocol> HeartbeatMembership<P> {
    fn with(settings: HeartbeatSettings, protocol: P, now_ms: i64) -> Self {
        let poll_deadline_ms = now_ms.saturating_add(settings.max_poll_interval_ms);
        Self {
            member_id: settings.member_id.clone(),
            settings,
            protocol,
            interest: None,
            coordinator: None,
            member_epoch: JOIN_EPOCH,
            phase: Phase::Unjoined,
            target: P::Assignment::default(),
            owned: P::Assignment::default(),
            next_owned: None,
            owes_answer: false,
            told: None,
            telling: None,
            has_lost_answer: false,
            begins_again: false,
            anew: Anew::default(),
            leaves_for_good: false,
            has_request_in_flight: false,
            events: VecDeque::new(),
            has_event_out: false,
            held: BTreeSet::new(),
            untold_refusal: None,
            failed_attempts: 0,
            next_attempt_ms: now_ms,
            heartbeat_interval_ms: 0,
            heartbeat_due_ms: now_ms,
            poll_deadline_ms,
        }
    }

    /// Wants to read this instead of anything before.
    pub(crate) fn subscribe(&mut self, interest: P::Interest) {
        if self.interest.as_ref() == Some(&interest) && !matches!(self.phase, Phase::Failed(_)) {
            return;
        }
        self.interest = Some(interest);
        self.leaves_for_good = false;
        if matches!(
            self.phase,
            Phase::Failed(_) | Phase::Leaving { has_left: true }
        ) {
            self.phase = Phase::Unjoined;
        }
    }

    /// Leaves the group for good, or until the next subscription. What is owned is revoked by the
    /// caller beforehand: there are no more events. By default a static member goes away for a while.
    pub(crate) fn leave(&mut self, operation: GroupMembershipOperation) {
        let is_static = self.settings.group_instance_id.is_some();
        let is_told = is_static || operation != GroupMembershipOperation::RemainInGroup;
        let has_left = !(is_told && self.can_leave());
        self.leaves_for_good = operation == GroupMembershipOperation::LeaveGroup;
        self.interest = None;
        self.forget_assignment();
        self.events.clear();
        self.has_event_out = false;
        self.held.clear();
        self.untold_refusal = None;
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
        self.target = P::Assignment::default();
        self.owned = P::Assignment::default();
        self.next_owned = None;
        self.owes_answer = false;
        self.has_lost_answer = false;
        self.begins_again = false;
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

    /// Whether `take_refusal` has one.
    pub(crate) const fn has_refusal(&self) -> bool {
        self.untold_refusal.is_some()
    }

    /// Why a heartbeat was refused that is sent again, once.
    pub(crate) const fn take_refusal(&mut self) -> Option<ErrorCode> {
        self.untold_refusal.take()
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

    /// Whether something is to be learned of topics that are assigned.
    pub(crate) fn needs_topics(&self) -> bool {
        self.protocol.needs_topics(&self.target)
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
            Some(Event::Tasks(_) | Event::Statuses(..) | Event::Endpoints(_)) | None => {}
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
        if self.events.is_empty() {
            if let Some(owned) = self.next_owned.take() {
                self.owned = owned;
            }
            // The coordinator may have said something else meanwhile.
            self.reconcile();
        }
    }

    const fn is_settled(&self) -> bool {
        !self.has_event_out && self.next_owned.is_none()
    }

    /// The next request, answered by `handle_answer` or `handle_failure` before the next.
    pub(crate) fn poll_request(&mut self, now_ms: i64) -> Option<MemberRequest<P>> {
        if self.has_request_in_flight || now_ms < self.next_attempt_ms {
            return None;
        }
        let request = self.next_request(now_ms);
        self.has_request_in_flight = request.is_some();
        request
    }

    fn next_request(&mut self, now_ms: i64) -> Option<MemberRequest<P>> {
        match self.phase {
            Phase::Leaving { has_left: false }
            | Phase::Evicted { has_left: false }
            | Phase::Parting => {
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
            Phase::Joined if self.has_given_all_up() => {
                self.phase = Phase::Parting;
                return Some(MemberRequest::Heartbeat(self.last_heartbeat()));
            }
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

    /// Whether a member that begins again has nothing any more.
    fn has_given_all_up(&self) -> bool {
        self.begins_again && self.is_settled() && self.events.is_empty()
    }

    /// Whether the next heartbeat says that the member has what the coordinator said.
    fn answers(&self) -> bool {
        let is_done = self.is_settled() && self.events.is_empty() && !self.needs_topics();
        self.owes_answer && is_done
    }

    fn next_heartbeat(&mut self) -> Heartbeat<P> {
        let interest = self.interest.clone().expect("something is subscribed");
        let telling: Acknowledged<P> = Acknowledged {
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
            beside: self.protocol.beside(),
        };
        self.telling = Some(telling);
        self.owes_answer &= !answers;
        heartbeat
    }

    fn last_heartbeat(&self) -> Heartbeat<P> {
        let comes_back = self.settings.group_instance_id.is_some() && !self.leaves_for_good;
        Heartbeat {
            member_id: self.member_id.clone(),
            member_epoch: if comes_back {
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
            beside: self.protocol.beside(),
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
            Phase::Evicted { .. } | Phase::Leaving { .. } | Phase::Parting => {
                Some(self.next_attempt_ms)
            }
            _ if self.interest.is_none() => None,
            _ if self.coordinator.is_none() => Some(self.next_attempt_ms),
            Phase::Unjoined if self.events.is_empty() && !self.has_event_out => {
                Some(self.next_attempt_ms)
            }
            Phase::Unjoined => Some(self.poll_deadline_ms.max(self.next_attempt_ms)),
            Phase::Joined if self.has_news() || self.has_given_all_up() => {
                Some(self.next_attempt_ms)
            }
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
        let next = match self.begins_again {
            true => P::Assignment::default(),
            false => self.protocol.readable(&self.target),
        };
        let after = self.protocol.partitions(&next);
        // The same tasks read more of a topic that has more partitions.
        if next == self.owned && after == self.held {
            return;
        }
        self.protocol.forget_others(&self.target, &self.owned);
        let revoked: Vec<TopicPartition> = self.held.difference(&after).cloned().collect();
        let added: Vec<TopicPartition> = after.difference(&self.held).cloned().collect();
        let target = match self.begins_again {
            true => &next,
            false => &self.target,
        };
        let announcement = self.protocol.announcement(&next, target);
        self.next_owned = Some(next);
        self.events
            .extend((!revoked.is_empty()).then_some(Event::Revoked(revoked)));
        self.events.extend(announcement);
        self.events
            .extend((!added.is_empty()).then_some(Event::Assigned(added)));
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
        self.events.extend(self.protocol.handle_loss());
    }

    fn fail(&mut self, error: ErrorCode) {
        self.lose();
        self.phase = Phase::Failed(error);
    }
}

#[cfg(test)]
mod script;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
