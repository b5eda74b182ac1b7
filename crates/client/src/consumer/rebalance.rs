//! Partitions that come and go: what the application has a say in.

use super::fetcher::Position;
use super::membership::Event;
use super::offsets::{Commit, Offsets};
use super::shared::Subscription;
use super::{Consumer, joining};
use crate::Error;
use crate::cluster::Deadline;
use model::TopicPartition;
use std::collections::BTreeSet;

/// Hears of partitions that come and go, always within [`Consumer::poll`], `unsubscribe` or
/// `close`.
///
/// Under the cooperative protocol it hears only of those that change.
pub trait RebalanceListener: Send + Sync {
    /// These are about to be others'. What was processed of them may be committed: the offsets
    /// that are returned are, beside what `enable.auto.commit` does.
    fn revoked(&mut self, partitions: &[TopicPartition]) -> Offsets {
        let _ = partitions;
        Offsets::new()
    }

    /// These may be others' already: the member was taken for dead. Nothing can be committed.
    fn lost(&mut self, partitions: &[TopicPartition]) {
        let _ = partitions;
    }

    /// These are this consumer's from here on. They are read from the offsets that are returned,
    /// and from the committed ones where none is.
    fn assigned(&mut self, partitions: &[TopicPartition]) -> Offsets {
        let _ = partitions;
        Offsets::new()
    }
}

/// What is about to be given up, kept from the listener's word until the commit has ended: a call
/// that is cancelled between them is gone on with by the next one.
#[derive(Debug, Default)]
pub(super) struct GivingUp {
    /// The partitions that the listener has been told of.
    told: BTreeSet<TopicPartition>,
    /// What it wants committed of them.
    chosen: Offsets,
}

/// Ends a subscription when it is dropped, however far the call has come.
pub(super) struct Ending<'a>(pub(super) &'a mut Consumer);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let consumer = &mut *self.0;
        consumer.pending.clear();
        consumer.pending_batches = None;
        consumer.giving_up = GivingUp::default();
        let partitions: Vec<TopicPartition> = consumer.assignment().into_iter().collect();
        consumer.unassign(&partitions);
        let mut state = consumer.shared.state.lock();
        state.subscription = Subscription::None;
        state.last_member = None;
        drop(state);
        consumer.begin_to_leave();
        consumer.serve_membership();
        consumer.shared.want_topics();
    }
}

impl Consumer {
    /// Deals with the partitions that come and go.
    pub(super) async fn handle_events(&mut self) -> Result<(), Error> {
        loop {
            let event = {
                let mut state = self.shared.state.lock();
                let now_ms = self.shared.now_ms();
                let Some(membership) = state.membership.as_mut() else {
                    return Ok(());
                };
                membership.handle_application_poll(now_ms);
                membership.poll_event()
            };
            let Some(event) = event.or_else(|| self.interrupted_event.take()) else {
                return Ok(());
            };
            // A poll that is cancelled meanwhile leaves the event to the next one.
            self.interrupted_event = Some(event.clone());
            let handled = self.handle_event(event).await;
            self.interrupted_event = None;
            let mut state = self.shared.state.lock();
            if let Some(membership) = state.membership.as_mut() {
                membership.handle_event_done();
            }
            drop(state);
            self.shared.want_topics();
            self.wake();
            handled?;
        }
    }

    async fn handle_event(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Revoked(partitions) => {
                let deadline = self.shared.api_deadline();
                match self.give_up(&partitions, deadline).await {
                    Ok(()) => Ok(()),
                    Err((error, true)) => Err(error),
                    // Whoever gets the partitions reads again what was not committed.
                    Err((error, false)) => {
                        tracing::warn!(%error, "positions of revoked partitions are not committed");
                        Ok(())
                    }
                }
            }
            Event::Lost(partitions) => {
                if let Some(listener) = &mut self.listener {
                    listener.lost(&partitions);
                }
                self.unassign(&partitions);
                Ok(())
            }
            Event::Assigned(partitions) => {
                let starts = match &mut self.listener {
                    Some(listener) => listener.assigned(&partitions),
                    None => Offsets::new(),
                };
                let mut state = self.shared.state.lock();
                for name in &partitions {
                    state.fetcher.assign(name);
                    if let Some(start) = starts.get(name) {
                        let position = Position {
                            offset: start.offset,
                            leader_epoch: start.leader_epoch,
                        };
                        state.fetcher.seek(name, position);
                    }
                }
                Ok(())
            }
        }
    }

    /// Gives partitions up: the listener's offsets and the positions are committed first, after all
    /// commits that are under way. A commit that fails does not keep the partitions; the error comes
    /// with whether the listener asked for it.
    async fn give_up(
        &mut self,
        partitions: &[TopicPartition],
        deadline: Deadline,
    ) -> Result<(), (Error, bool)> {
        let mut offsets = Offsets::new();
        if self.shared.config.commits_automatically() {
            offsets = self.offsets();
            offsets.retain(|name, _| partitions.contains(name));
        }
        let GivingUp { told, chosen } = &mut self.giving_up;
        let untold = partitions.iter().filter(|name| !told.contains(name));
        let untold: Vec<TopicPartition> = untold.cloned().collect();
        if let (Some(listener), false) = (&mut self.listener, untold.is_empty()) {
            told.extend(untold.iter().cloned());
            chosen.extend(listener.revoked(&untold));
        }
        let is_asked_for = !chosen.is_empty();
        offsets.extend(chosen.clone());
        // No later than the rebalance waits for this member.
        let interval_ms = self.shared.config.max_poll_interval_ms;
        let rebalance = Deadline::after_ms(interval_ms, "max.poll.interval.ms");
        let within = deadline.earlier(rebalance);
        let committed = match Commit::begin(&self.shared, offsets) {
            Ok(commit) => commit.perform(&self.shared, within).await,
            Err(error) => Err(error),
        };
        self.giving_up = GivingUp::default();
        self.unassign(partitions);
        committed.map_err(|error| (error, is_asked_for))
    }

    fn unassign(&self, partitions: &[TopicPartition]) {
        let mut state = self.shared.state.lock();
        for name in partitions {
            state.fetcher.unassign(name);
        }
    }

    /// Gives everything up, at the end of the subscription.
    pub(super) async fn give_up_all(&mut self, deadline: Deadline) -> Result<(), Error> {
        let partitions: Vec<TopicPartition> = self.assignment().into_iter().collect();
        if self.is_replaced() {
            let told = &self.giving_up.told;
            let untold = partitions.iter().filter(|name| !told.contains(name));
            let untold: Vec<TopicPartition> = untold.cloned().collect();
            if let (Some(listener), false) = (&mut self.listener, untold.is_empty()) {
                listener.lost(&untold);
            }
            self.giving_up = GivingUp::default();
            self.unassign(&partitions);
            return Ok(());
        }
        let given_up = self.give_up(&partitions, deadline).await;
        given_up.map_err(|(error, _)| error)
    }

    /// Whether the group goes on without this consumer, which can commit nothing then.
    fn is_replaced(&self) -> bool {
        let state = self.shared.state.lock();
        let generation = state
            .membership
            .as_ref()
            .map(|member| member.generation().1);
        state.is_subscribed() && generation.is_some_and(|id| id < 0)
    }

    /// Leaves the group, as far as the coordinator can be reached in time.
    pub(super) async fn leave(&mut self, deadline: Deadline) {
        self.begin_to_leave();
        let _ = deadline.bound(joining::step(&self.shared)).await;
        self.serve_membership();
    }

    /// Makes the member one that leaves. What its task has asked for does not matter any more.
    fn begin_to_leave(&mut self) {
        self.tasks[1].abort();
        self.interrupted_event = None;
        if let Some(membership) = self.shared.state.lock().membership.as_mut() {
            membership.leave();
        }
    }

    /// Starts the task of the membership anew.
    fn serve_membership(&mut self) {
        self.tasks[1].abort();
        let task = self.runtime.spawn(joining::run(self.shared.clone()));
        self.tasks[1] = task.abort_handle();
    }
}
