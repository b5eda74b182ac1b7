//! The active controller: which request is decided over which image, and when it is answered.
//!
//! ```text
//!   request ─> propose ─> Proposal ─┬─ accepted: appended to the metadata log, not yet committed
//!                                   │     the next decision sees it ─> committed ─> answered
//!                                   └─ refused: nothing has changed
//!   lost by the log ─> reverted: whoever waits for it learns that, and the next decision does not see it
//!   leadership lost ─> resign: whoever waits learns that this is no controller any more
//! ```
//!
//! Invariants:
//! - One proposal is accepted or refused before the next request is decided.
//! - An answer leaves once all that its decision has seen is committed: also one that changes
//!   nothing, as what it has seen may never be.
//! - Answers leave in the order of their decisions, each request has one.

use crate::broker_transition::{BrokerTransition, TransitionCause, transitions};
use crate::brokers::fence_broker;
use crate::context::{ControllerContext, Random};
use crate::decision::Decision;
use crate::elect_leaders::{balance_leaders, elect_unclean_leaders};
use crate::requests::{ControllerRequest, ControllerResponse, DecisionContext};
use crate::sessions::Sessions;
use crate::tasks::{ELECTIONS_MAX, Task, Tasks};
use crate::topic_values::allow_unclean_election;
use metadata::{MetadataImage, MetadataRecord};
use model::MonotonicTime;
use model::{BrokerId, Offset};
use std::collections::VecDeque;
use std::sync::Arc;

/// The controller of a quorum whose leader is this node. `T` stands for whoever waits for an answer.
#[derive(Debug)]
pub struct ActiveController<T> {
    /// With all that is appended, committed or not.
    image: Arc<MetadataImage>,
    kraft_version: i16,
    /// The end of the log that `image` is of.
    end_offset: Offset,
    high_watermark: Offset,
    sessions: Sessions,
    tasks: Tasks,
    proposed: Option<Proposed<T>>,
    waiting: VecDeque<Waiting<T>>,
    /// What has become of brokers, by the end of the log that has it; nobody was told.
    transitions: VecDeque<(Offset, BrokerTransition)>,
}

/// What is in the hands of the metadata log.
#[derive(Debug)]
struct Proposed<T> {
    /// Whoever has asked, and the answer; nobody asks for what the controller does by itself.
    asked: Option<(T, ControllerResponse)>,
    effect: Effect,
    /// Partitions without a leader may get one that lacks records from here on.
    allows_unclean_election: bool,
    at: MonotonicTime,
}

/// What a decision changes beside the metadata.
#[derive(Debug, Clone, Copy)]
enum Effect {
    None,
    Heartbeat {
        broker_id: BrokerId,
        metadata_offset: Offset,
        is_shutting_down: bool,
    },
    Registration(BrokerId),
    Task(Task, bool),
}

#[derive(Debug)]
struct Waiting<T> {
    asker: T,
    response: ControllerResponse,
    /// The end of what the decision has seen.
    seen_offset: Offset,
}

/// What a decision asks of the metadata log.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "it is to be appended, and accepted or refused"]
pub struct Proposal {
    /// The level that `kraft.version` is raised to, before the records are appended.
    pub kraft_version: Option<i16>,
    /// To append; may be none.
    pub records: Vec<MetadataRecord>,
}

impl Proposal {
    /// Whether it asks for nothing.
    pub const fn is_empty(&self) -> bool {
        self.kraft_version.is_none() && self.records.is_empty()
    }
}

impl<T> ActiveController<T> {
    /// A controller that begins over `image`, which is that of the log up to `end_offset` and
    /// committed.
    pub fn new(
        image: Arc<MetadataImage>,
        kraft_version: i16,
        end_offset: Offset,
        context: &ControllerContext<'_>,
        now: MonotonicTime,
    ) -> Self {
        let tasks = context.config.controller.tasks;
        Self {
            sessions: Sessions::new(tasks.broker_session_timeout_ms, &image, now),
            tasks: Tasks::new(tasks, now),
            image,
            kraft_version,
            end_offset,
            high_watermark: end_offset,
            proposed: None,
            waiting: VecDeque::new(),
            transitions: VecDeque::new(),
        }
    }

    /// Which brokers are heard of.
    pub const fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The broker of this process begins: whoever was registered by its id is gone.
    pub fn begin_own_broker(&mut self, broker_id: BrokerId) {
        self.sessions.end(broker_id);
    }

    /// The broker is that of this process, and this controller leads alone: it is always live.
    pub fn keep_own_broker(&mut self, broker_id: BrokerId) {
        self.sessions.keep_own(broker_id);
    }

    /// Decides. What is proposed is to be appended, and then to be [accepted](Self::accepted) or
    /// [refused](Self::refused); an empty proposal is accepted as it is.
    ///
    /// # Panics
    /// When an earlier proposal is neither accepted nor refused.
    pub fn propose(
        &mut self,
        request: &ControllerRequest,
        asker: T,
        context: &ControllerContext<'_>,
        now: MonotonicTime,
        random: &mut Random<'_>,
    ) -> Proposal {
        assert!(self.proposed.is_none(), "one proposal at a time");
        if let ControllerRequest::BrokerHeartbeat(heartbeat) = request {
            let (id, epoch) = (heartbeat.broker_id, heartbeat.broker_epoch);
            self.sessions.contacts().note(id, epoch, now);
        }
        let decision = request.decide(&mut DecisionContext {
            image: &self.image,
            next_offset: self.end_offset,
            controller: context,
            kraft_version: self.kraft_version,
            sessions: &self.sessions,
            now,
            random,
        });
        let kraft_version = match (request, &decision.response) {
            (
                ControllerRequest::UpdateFeatures(update),
                ControllerResponse::UpdateFeatures(Ok(updated)),
            ) if !update.validate_only => updated.kraft_version,
            _ => None,
        };
        let proposal = Proposal {
            kraft_version,
            records: decision.records,
        };
        let proposed = Proposed {
            allows_unclean_election: allow_unclean_election(&proposal.records),
            effect: Effect::of(&self.image, request, &decision.response),
            asked: Some((asker, decision.response)),
            at: now,
        };
        self.hand_out(proposal, proposed)
    }

    /// When the controller has something to do [by itself](Self::propose_task); `None` when nothing is to
    /// come.
    pub fn next_task(&self) -> Option<MonotonicTime> {
        let next = self.tasks.next(&self.image, &self.sessions);
        next.map(|(at, _)| at)
    }

    /// Decides what the controller does by itself, one thing at a time; `None` when nothing is due. What is
    /// proposed is treated as that of a request, which nobody waits for.
    ///
    /// # Panics
    /// When an earlier proposal is neither accepted nor refused.
    pub fn propose_task(
        &mut self,
        context: &ControllerContext<'_>,
        now: MonotonicTime,
    ) -> Option<Proposal> {
        assert!(self.proposed.is_none(), "one proposal at a time");
        let next = self.tasks.next(&self.image, &self.sessions);
        let (_, task) = next.filter(|(at, _)| *at <= now)?;
        let decision = self.decide_task(task, context);
        let proposal = Proposal {
            kraft_version: None,
            records: decision.records,
        };
        let proposed = Proposed {
            asked: None,
            allows_unclean_election: false,
            effect: Effect::Task(task, decision.response),
            at: now,
        };
        Some(self.hand_out(proposal, proposed))
    }

    /// Answers whether there may be more of the task.
    fn decide_task(&self, task: Task, context: &ControllerContext<'_>) -> Decision<bool> {
        let image = &self.image;
        match task {
            Task::Fence(broker_id) => {
                let broker = image.cluster.broker(broker_id);
                let epoch = broker.expect("a session is that of a broker").epoch;
                let decided = fence_broker(image, context, broker_id, epoch);
                let decision = decided.expect("the epoch is that of the broker");
                decision.map(|()| true)
            }
            Task::BalanceLeaders => balance_leaders(image, context, ELECTIONS_MAX),
            Task::ElectUncleanLeaders => elect_unclean_leaders(image, context, ELECTIONS_MAX),
            Task::NoOp => Decision::atomic(vec![MetadataRecord::NoOp], false),
        }
    }

    fn hand_out(&mut self, proposal: Proposal, proposed: Proposed<T>) -> Proposal {
        match proposal.is_empty() {
            true => self.settle(proposed),
            false => self.proposed = Some(proposed),
        }
        proposal
    }

    /// The log ends at `end_offset` now, and `image` has what is before it.
    ///
    /// # Panics
    /// When the log has become shorter.
    pub fn appended(&mut self, image: Arc<MetadataImage>, kraft_version: i16, end_offset: Offset) {
        assert!(end_offset >= self.end_offset, "a leader cuts nothing");
        let cause = self
            .proposed
            .as_ref()
            .map_or(TransitionCause::Other, Proposed::cause);
        let changed = transitions(&self.image.cluster, &image.cluster, cause);
        let changed = changed.into_iter().map(|one| (end_offset, one));
        self.transitions.extend(changed);
        self.sessions.follow(&self.image, &image);
        self.image = image;
        self.kraft_version = kraft_version;
        self.end_offset = end_offset;
    }

    /// All that was proposed is [appended](Self::appended).
    ///
    /// # Panics
    /// When nothing was proposed.
    pub fn accepted(&mut self) {
        let proposed = self.proposed.take().expect("something was proposed");
        self.tasks.written(proposed.at);
        self.settle(proposed);
    }

    /// Not all that was proposed is in the log, and no more of it will be; gives whoever has asked.
    ///
    /// # Panics
    /// When nothing was proposed.
    pub fn refused(&mut self) -> Option<T> {
        let proposed = self.proposed.take().expect("something was proposed");
        if matches!(proposed.effect, Effect::Task(..)) {
            self.tasks.refused(proposed.at);
        }
        proposed.asked.map(|(asker, _)| asker)
    }

    /// Of what was accepted the log has only what `image` has, and ends at `end_offset`; the rest will
    /// never be in it. Gives whoever waits for an answer that has seen it.
    ///
    /// # Panics
    /// When something is proposed, or was committed and is not in the log.
    pub fn reverted(
        &mut self,
        image: Arc<MetadataImage>,
        kraft_version: i16,
        end_offset: Offset,
        now: MonotonicTime,
    ) -> Vec<T> {
        assert!(self.proposed.is_none(), "one proposal at a time");
        assert!(end_offset >= self.high_watermark, "a leader cuts nothing");
        if end_offset < self.end_offset {
            self.tasks.refused(now);
        }
        self.sessions.follow(&self.image, &image);
        self.image = image;
        self.kraft_version = kraft_version;
        self.end_offset = end_offset;
        self.transitions.retain(|(at, _)| *at <= end_offset);
        let in_log = |one: &Waiting<T>| one.seen_offset <= end_offset;
        let kept = self.waiting.partition_point(in_log);
        let lost = self.waiting.drain(kept..);
        lost.map(|one| one.asker).collect()
    }

    /// All before `high_watermark` is committed; gives the answers that this lets go.
    pub fn committed(&mut self, high_watermark: Offset) -> Vec<(T, ControllerResponse)> {
        debug_assert!(high_watermark <= self.end_offset);
        self.high_watermark = self.high_watermark.max(high_watermark);
        let waits = |one: &Waiting<T>| one.seen_offset > self.high_watermark;
        let count = self.waiting.iter().take_while(|one| !waits(one)).count();
        let released = self.waiting.drain(..count);
        released.map(|one| (one.asker, one.response)).collect()
    }

    /// What has become of brokers, as far as it is committed, in its order; each is given once.
    pub fn take_transitions(&mut self) -> Vec<BrokerTransition> {
        let is_committed = |(at, _): &(Offset, _)| *at <= self.high_watermark;
        let count = self.transitions.partition_point(is_committed);
        let committed = self.transitions.drain(..count);
        committed.map(|(_, one)| one).collect()
    }

    /// Another node leads the quorum, or this one cannot: gives whoever waits for an answer.
    pub fn resign(self) -> Vec<T> {
        let proposed = self.proposed.and_then(|proposed| proposed.asked);
        let proposed = proposed.map(|(asker, _)| asker);
        let waiting = self.waiting.into_iter().map(|one| one.asker);
        waiting.chain(proposed).collect()
    }

    /// What was decided is in the log: its effect takes place, and its answer waits for what it has seen.
    fn settle(&mut self, proposed: Proposed<T>) {
        match proposed.effect {
            Effect::None => {}
            Effect::Heartbeat {
                broker_id,
                metadata_offset,
                is_shutting_down,
            } => {
                let told = (broker_id, metadata_offset);
                self.sessions.heard(told, is_shutting_down, self.end_offset);
            }
            // Its record is the last one of the decision.
            Effect::Registration(id) => self.sessions.registered(id, self.end_offset - 1),
            Effect::Task(task, has_more) => self.tasks.done(task, has_more, proposed.at),
        }
        if proposed.allows_unclean_election {
            self.tasks.hasten_unclean_election(proposed.at);
        }
        if let Some((asker, response)) = proposed.asked {
            self.waiting.push_back(Waiting {
                asker,
                response,
                seen_offset: self.end_offset,
            });
        }
    }
}

impl<T> Proposed<T> {
    /// What is decided about brokers.
    const fn cause(&self) -> TransitionCause {
        match (&self.effect, &self.asked) {
            (Effect::Task(Task::Fence(_), _), _) => TransitionCause::SessionExpired,
            (_, Some((_, ControllerResponse::BrokerHeartbeat(Ok(standing)))))
                if standing.should_shut_down =>
            {
                TransitionCause::ShutdownAllowed
            }
            _ => TransitionCause::Other,
        }
    }
}

impl Effect {
    fn of(
        image: &MetadataImage,
        request: &ControllerRequest,
        response: &ControllerResponse,
    ) -> Self {
        match (request, response) {
            (
                ControllerRequest::BrokerHeartbeat(heartbeat),
                ControllerResponse::BrokerHeartbeat(Ok(standing)),
            ) => Self::Heartbeat {
                broker_id: heartbeat.broker_id,
                // What a broker follows before it serves tells nothing of what it serves by.
                metadata_offset: match image.cluster.broker(heartbeat.broker_id) {
                    Some(broker) if !broker.is_fenced => heartbeat.metadata_offset,
                    _ => Offset::NONE,
                },
                is_shutting_down: standing.is_shutting_down,
            },
            (
                ControllerRequest::RegisterBroker(request),
                ControllerResponse::RegisterBroker(Ok(_)),
            ) => Self::Registration(request.registration.broker_id),
            _ => Self::None,
        }
    }
}

#[cfg(test)]
mod tests;
