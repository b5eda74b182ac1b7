//! Partitions that come and go: what the application has a say in.

use super::committed_offset::Offsets;
use super::fetcher::Position;
use super::membership::Event;
use super::offsets::Commit;
use super::shared::Subscription;
use super::streams_group::StreamsListener;
use super::{Consumer, GroupMembershipOperation, joining};
use crate::Error;
use crate::cluster::Deadline;
use crate::transport::BoxFuture;
use model::{LeaderEpoch, TopicPartition};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Hears of partitions that come and go, always within [`Consumer::poll`], `unsubscribe` or
/// `close`.
///
/// Under the cooperative protocol it hears only of those that change. What it does may take until
/// `max.poll.interval.ms`: no poll ends, and the group waits, meanwhile. A call of the consumer that
/// is cancelled does not cancel it: the next one goes on with it.
///
/// ```
/// use riverrun_client::TopicPartition;
/// use riverrun_client::consumer::{Offsets, RebalanceListener};
///
/// /// Keeps offsets beside what is made of the records.
/// struct Ledger { /* a connection to a database */ }
///
/// impl RebalanceListener for Ledger {
///     async fn revoked(&self, partitions: &[TopicPartition]) -> Offsets {
///         // ... wait until what is under way is written ...
///         Offsets::new()
///     }
///
///     async fn assigned(&self, partitions: &[TopicPartition]) -> Offsets {
///         // ... read where each partition was left ...
///         Offsets::new()
///     }
/// }
/// ```
pub trait RebalanceListener: Send + Sync {
    /// These are about to be others'. What was processed of them may be committed: the offsets
    /// that are returned are, beside what `enable.auto.commit` does. A listener that takes longer than
    /// `default.api.timeout.ms`, `max.poll.interval.ms` or the timeout of
    /// [`close`](Consumer::close) is not waited for.
    fn revoked(&self, partitions: &[TopicPartition]) -> impl Future<Output = Offsets> + Send {
        let _ = partitions;
        std::future::ready(Offsets::new())
    }

    /// These may be others' already: the member was taken for dead. Nothing can be committed.
    fn lost(&self, partitions: &[TopicPartition]) -> impl Future<Output = ()> + Send {
        let _ = partitions;
        std::future::ready(())
    }

    /// These are this consumer's from here on. They are read from the offsets that are returned,
    /// and from the committed ones where none is.
    fn assigned(&self, partitions: &[TopicPartition]) -> impl Future<Output = Offsets> + Send {
        let _ = partitions;
        std::future::ready(Offsets::new())
    }
}

/// What a listener is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum News {
    Revoked(Vec<TopicPartition>),
    Lost(Vec<TopicPartition>),
    Assigned(Vec<TopicPartition>),
}

/// A [`RebalanceListener`] of any type.
pub(super) trait Listener: Send + Sync {
    fn hear(self: Arc<Self>, news: News) -> BoxFuture<'static, Offsets>;
}

impl<L: RebalanceListener + 'static> Listener for L {
    fn hear(self: Arc<Self>, news: News) -> BoxFuture<'static, Offsets> {
        Box::pin(async move {
            match news {
                News::Revoked(partitions) => self.revoked(&partitions).await,
                News::Assigned(partitions) => self.assigned(&partitions).await,
                News::Lost(partitions) => {
                    self.lost(&partitions).await;
                    Offsets::new()
                }
            }
        })
    }
}

/// What the listener has been told and is not done with.
pub(super) struct Listening {
    news: News,
    /// Nobody waits for the lock: it makes the future one that may be shared.
    answer: Mutex<BoxFuture<'static, Offsets>>,
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
        consumer.streams.end_all();
        consumer.giving_up = GivingUp::default();
        consumer.listening = None;
        let partitions: Vec<TopicPartition> = consumer.assignment().into_iter().collect();
        consumer.unassign(&partitions);
        let mut state = consumer.shared.state.lock();
        state.subscription = Subscription::None;
        state.last_member = None;
        drop(state);
        consumer.begin_to_leave(GroupMembershipOperation::Default);
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
                if membership.handle_application_poll(now_ms) {
                    self.shared.joining.notify_one();
                }
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
                self.streams.end(&partitions);
                self.tell(News::Lost(partitions.clone())).await;
                self.unassign(&partitions);
                Ok(())
            }
            Event::Tasks(tasks) => {
                self.tell_streams(|listener| listener.assigned(&tasks));
                Ok(())
            }
            Event::Statuses(statuses, interval_ms) => {
                let interval = Duration::from_millis(u64::try_from(interval_ms).unwrap_or(0));
                self.tell_streams(|listener| listener.statuses(&statuses, interval));
                Ok(())
            }
            Event::Endpoints(endpoints) => {
                self.tell_streams(|listener| listener.endpoints(&endpoints));
                Ok(())
            }
            Event::Assigned(partitions) => {
                let starts = self.tell(News::Assigned(partitions.clone())).await;
                let mut state = self.shared.state.lock();
                for name in &partitions {
                    state.fetcher.assign(name);
                    if let Some(start) = starts.get(name) {
                        let position = Position {
                            offset: start.offset,
                            leader_epoch: LeaderEpoch(start.leader_epoch),
                        };
                        state.fetcher.seek(name, position);
                    }
                }
                Ok(())
            }
        }
    }

    /// Tells the listener of a member of a streams group.
    fn tell_streams(&self, tell: impl FnOnce(&dyn StreamsListener)) {
        if let Some(member) = &self.shared.streams {
            tell(&*member.listener);
        }
    }

    /// Tells the listener, and waits for what it says. A call that was cancelled meanwhile is gone
    /// on with by the next one that has the same to tell.
    async fn tell(&mut self, news: News) -> Offsets {
        let Some(listener) = &self.listener else {
            return Offsets::new();
        };
        if self.listening.as_ref().is_none_or(|one| one.news != news) {
            self.listening = Some(Listening {
                news: news.clone(),
                answer: Mutex::new(listener.clone().hear(news)),
            });
        }
        let answer = std::future::poll_fn(|context| match &mut self.listening {
            Some(listening) => listening.answer.get_mut().as_mut().poll(context),
            None => Poll::Ready(Offsets::new()),
        });
        let heard = answer.await;
        self.listening = None;
        heard
    }

    /// Tells the listener of those of `partitions` that it does not know to be revoked, after what it
    /// is being told already.
    async fn tell_revoked(&mut self, partitions: &[TopicPartition]) {
        loop {
            let begun = match &self.listening {
                Some(Listening {
                    news: News::Revoked(begun),
                    ..
                }) => begun.clone(),
                _ => {
                    let told = &self.giving_up.told;
                    let untold = partitions.iter().filter(|name| !told.contains(name));
                    untold.cloned().collect()
                }
            };
            if begun.is_empty() {
                return;
            }
            let heard = self.tell(News::Revoked(begun.clone())).await;
            self.giving_up.told.extend(begun);
            self.giving_up.chosen.extend(heard);
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
        // What a stream has in hand is not processed, and it gives no more.
        self.streams.end(partitions);
        // No later than the rebalance waits for this member.
        let interval_ms = self.shared.config.max_poll_interval_ms;
        let rebalance = Deadline::after_ms(interval_ms, "max.poll.interval.ms");
        let within = deadline.earlier(rebalance);
        if within.bound(self.tell_revoked(partitions)).await.is_none() {
            self.listening = None;
            tracing::warn!("the listener is not done with revoked partitions in time");
        }
        let mut offsets = Offsets::new();
        if self.shared.config.commits_automatically() {
            offsets = self.offsets();
            offsets.retain(|name, _| partitions.contains(name));
        }
        let chosen = &self.giving_up.chosen;
        let is_asked_for = !chosen.is_empty();
        offsets.extend(chosen.clone());
        let committed = match Commit::begin(&self.shared, offsets) {
            Ok(commit) => commit.send(&self.shared, within).await,
            Err(error) => Err(error),
        };
        self.giving_up = GivingUp::default();
        self.unassign(partitions);
        committed.map_err(|error| (error, is_asked_for))
    }

    fn unassign(&mut self, partitions: &[TopicPartition]) {
        let mut state = self.shared.state.lock();
        for name in partitions {
            state.fetcher.unassign(name);
        }
        drop(state);
        self.streams.forget(partitions);
    }

    /// Gives everything up, at the end of the subscription.
    pub(super) async fn give_up_all(&mut self, deadline: Deadline) -> Result<(), Error> {
        let partitions: Vec<TopicPartition> = self.assignment().into_iter().collect();
        if self.is_replaced() {
            self.streams.end(&partitions);
            let told = &self.giving_up.told;
            let untold = partitions.iter().filter(|name| !told.contains(name));
            let untold: Vec<TopicPartition> = untold.cloned().collect();
            if !untold.is_empty()
                && deadline
                    .bound(self.tell(News::Lost(untold)))
                    .await
                    .is_none()
            {
                self.listening = None;
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
    pub(super) async fn leave(&mut self, operation: GroupMembershipOperation, deadline: Deadline) {
        self.begin_to_leave(operation);
        let _ = deadline.bound(joining::step(&self.shared)).await;
        self.serve_membership();
    }

    /// Makes the member one that leaves. What its task has asked for does not matter any more.
    fn begin_to_leave(&mut self, operation: GroupMembershipOperation) {
        self.tasks[1].abort();
        self.interrupted_event = None;
        if let Some(membership) = self.shared.state.lock().membership.as_mut() {
            membership.leave(operation);
        }
    }

    /// Starts the task of the membership anew.
    fn serve_membership(&mut self) {
        self.tasks[1].abort();
        let task = self.runtime.spawn(joining::run(self.shared.clone()));
        self.tasks[1] = task.abort_handle();
    }
}
