//! One call about many things becomes requests to the brokers that know of each.
//!
//! ```text
//!   keys ── route ──> brokers ── one request each, at the same time ──> answers by key
//!    ^                                                                    │ may pass
//!    └───────────────────────── backoff ──────────────────────────────────┘
//! ```

use super::{Admin, PerKey};
use crate::Error;
use crate::cluster::{Connection, CoordinatorKind, Deadline, Lane};
use model::{BrokerId, ErrorCode, TopicPartition};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// How often a topic that does not exist is asked for: one that was just created becomes known to
/// all brokers within this time, and a name that is wrong is not waited for much longer.
const UNKNOWN_TOPIC_ROUNDS: u32 = 5;

/// Who can answer for a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    /// Any broker; what is the controller's it hands on.
    Any,
    /// This broker.
    Broker(BrokerId),
    /// The leader of this partition.
    Leader(TopicPartition),
    /// The coordinator of this group.
    Coordinator(String),
    /// The coordinator of this transactional id.
    TransactionCoordinator(String),
}

/// A broker to ask; `None` is any.
type Target = Option<BrokerId>;

/// What a broker answered for some of the keys that it was asked for.
pub(super) type Answers<K, T> = Result<Vec<(K, Result<T, Error>)>, Error>;

impl Admin {
    /// Asks for every key who can answer for it. `call` sends one request about some keys to one
    /// broker, with a deadline for its answer.
    pub(super) async fn fan_out<K, T, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        route: impl Fn(&K) -> Route,
        call: impl Fn(Connection, Vec<K>, Deadline) -> F,
    ) -> PerKey<K, T>
    where
        K: Ord + Clone,
        F: Future<Output = Answers<K, T>>,
    {
        let deadline = self.deadline();
        let mut done = PerKey::new();
        let mut pending: Vec<K> = keys.into_iter().collect();
        let mut rounds = 0;
        while !pending.is_empty() {
            rounds += 1;
            let answers = self.round(pending, &route, &call, deadline).await;
            let mut again = Vec::new();
            for (key, answer) in answers {
                match answer {
                    Err(error) if is_worth_another_round(&error, rounds) => {
                        self.forget_route(&route(&key));
                        again.push((key, error));
                    }
                    answer => {
                        done.insert(key, answer);
                    }
                }
            }
            let delay_ms = self.brokers.retry_delay_ms(rounds);
            if again.is_empty() || !deadline.sleep_ms(delay_ms).await {
                done.extend(again.into_iter().map(|(key, error)| (key, Err(error))));
                break;
            }
            pending = again.into_iter().map(|(key, _)| key).collect();
        }
        done
    }

    /// As [`Admin::fan_out`] for the one thing that a call is about.
    pub(super) async fn ask<T, F: Future<Output = Result<T, Error>>>(
        &self,
        route: Route,
        call: impl Fn(Connection, Deadline) -> F,
    ) -> Result<T, Error> {
        let one = |connection: Connection, _: Vec<()>, deadline: Deadline| {
            let called = call(connection, deadline);
            async move { Ok(vec![((), Ok(called.await?))]) }
        };
        let mut answers = self.fan_out([()], |()| route.clone(), one).await;
        answers.remove(&()).expect("every key has an answer")
    }

    /// Asks once for every key.
    async fn round<K, T, F>(
        &self,
        keys: Vec<K>,
        route: &impl Fn(&K) -> Route,
        call: &impl Fn(Connection, Vec<K>, Deadline) -> F,
        deadline: Deadline,
    ) -> Vec<(K, Result<T, Error>)>
    where
        K: Ord + Clone,
        F: Future<Output = Answers<K, T>>,
    {
        let routes: Vec<Route> = keys.iter().map(route).collect();
        self.learn_leaders(&routes, deadline).await;
        let mut by_target: BTreeMap<Target, Vec<K>> = BTreeMap::new();
        let mut answers = Vec::new();
        for (key, route) in keys.into_iter().zip(routes) {
            match self.target(route, deadline).await {
                Ok(target) => by_target.entry(target).or_default().push(key),
                Err(error) => answers.push((key, Err(error))),
            }
        }
        let requests = by_target.into_iter().map(|(target, keys)| async move {
            let asked = keys.clone();
            let answered = self.ask_target(target, asked, call, deadline).await;
            (keys, answered)
        });
        for (keys, answered) in join_all(requests).await {
            match answered {
                Ok(answered) => answers.extend(complete(keys, answered)),
                Err(error) => answers.extend(keys.into_iter().map(|key| (key, Err(error.clone())))),
            }
        }
        answers
    }

    async fn ask_target<K, T, F: Future<Output = Answers<K, T>>>(
        &self,
        target: Target,
        keys: Vec<K>,
        call: &impl Fn(Connection, Vec<K>, Deadline) -> F,
        deadline: Deadline,
    ) -> Answers<K, T> {
        let connection = match target {
            Some(id) => self.brokers.connection(id, Lane::Main, deadline).await?,
            None => self.brokers.any_broker(deadline).await?,
        };
        let within = deadline.earlier(connection.request_deadline());
        call(connection, keys, within).await
    }

    /// Refreshes the metadata if it lacks the leader of a partition that is asked for.
    async fn learn_leaders(&self, routes: &[Route], deadline: Deadline) {
        let metadata = self.brokers.metadata();
        let mut is_missing = false;
        for route in routes {
            if let Route::Leader(partition) = route {
                self.brokers.want(&partition.topic);
                let leader = metadata.leader(&partition.topic, partition.partition);
                is_missing |= leader.is_none();
            }
        }
        if is_missing && let Err(error) = self.brokers.refreshed(deadline).await {
            // Each key then says that its leader is not known; the reason is here.
            tracing::debug!(%error, "leaders are not known");
        }
    }

    async fn target(&self, route: Route, deadline: Deadline) -> Result<Target, Error> {
        match route {
            Route::Any => Ok(None),
            Route::Broker(id) => {
                let is_known = |metadata: &std::sync::Arc<crate::cluster::Metadata>| {
                    metadata.broker(id).is_some() || metadata.updates() > 0
                };
                let known = self.brokers.metadata_where(is_known, "Metadata", deadline);
                if known.await?.broker(id).is_none() {
                    // What is known may be old. What is new and does not name it is an answer.
                    let metadata = self.brokers.refreshed(deadline).await?;
                    if metadata.broker(id).is_none() {
                        return Err(Error::Invalid(format!("broker {id} is not in the cluster")));
                    }
                }
                Ok(Some(id))
            }
            Route::Leader(partition) => self.leader(&partition, deadline).map(Some),
            Route::Coordinator(group) => {
                let kind = CoordinatorKind::Group;
                let found = self.brokers.coordinator(kind, &group, deadline).await?;
                Ok(Some(found.id))
            }
            Route::TransactionCoordinator(id) => {
                let kind = CoordinatorKind::Transaction;
                let found = self.brokers.coordinator(kind, &id, deadline).await?;
                Ok(Some(found.id))
            }
        }
    }

    /// The leader of a partition in the metadata as it is.
    fn leader(&self, partition: &TopicPartition, deadline: Deadline) -> Result<BrokerId, Error> {
        let metadata = self.brokers.metadata();
        if metadata.updates() == 0 {
            return Err(self.brokers.failure_at("Metadata", deadline));
        }
        let topic = &partition.topic;
        if let Some(leader) = metadata.leader(topic, partition.partition) {
            return Ok(leader.id);
        }
        let code = match (metadata.topic_error(topic), metadata.partition_count(topic)) {
            (Some(code), _) => code,
            (None, Some(count)) if partition.partition as usize >= count => {
                return Err(Error::no_partition(topic, partition.partition, count));
            }
            _ => ErrorCode::LeaderNotAvailable,
        };
        Err(Error::Refused {
            subject: format!("partition `{partition}`"),
            code,
            message: None,
        })
    }

    /// Looks again who can answer, as the one who was asked could not.
    fn forget_route(&self, route: &Route) {
        match route {
            Route::Any | Route::Broker(_) => {}
            Route::Leader(_) => self.brokers.request_refresh(),
            Route::Coordinator(group) => {
                let kind = CoordinatorKind::Group;
                self.brokers.forget_coordinator(kind, group);
            }
            Route::TransactionCoordinator(id) => {
                let kind = CoordinatorKind::Transaction;
                self.brokers.forget_coordinator(kind, id);
            }
        }
    }
}

fn is_worth_another_round(error: &Error, rounds: u32) -> bool {
    match error {
        Error::Refused {
            code: ErrorCode::UnknownTopicOrPartition,
            ..
        } => rounds < UNKNOWN_TOPIC_ROUNDS,
        error => error.is_retriable(),
    }
}

/// The answers to all keys: one that the broker left out is answered with an error.
fn complete<K: Ord + Clone, T>(
    keys: Vec<K>,
    answered: Vec<(K, Result<T, Error>)>,
) -> Vec<(K, Result<T, Error>)> {
    let mut by_key: BTreeMap<K, Result<T, Error>> = answered.into_iter().collect();
    let answer = |key: K| {
        let answer = by_key.remove(&key).unwrap_or_else(|| {
            Err(Error::Malformed {
                address: "the broker".to_owned(),
                reason: "an answer that leaves out what it was asked for".to_owned(),
            })
        });
        (key, answer)
    };
    keys.into_iter().map(answer).collect()
}

/// Awaits all futures at the same time; their results are in the same order.
async fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    enum Slot<F: Future> {
        Waiting(Pin<Box<F>>),
        Ready(F::Output),
    }
    let mut slots: Vec<Slot<F>> = futures
        .into_iter()
        .map(|future| Slot::Waiting(Box::pin(future)))
        .collect();
    // No slot is pinned itself: what is pinned is behind a box.
    poll_fn(move |context| {
        let mut is_ready = true;
        for slot in &mut slots {
            if let Slot::Waiting(future) = slot {
                match future.as_mut().poll(context) {
                    Poll::Ready(output) => *slot = Slot::Ready(output),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if !is_ready {
            return Poll::Pending;
        }
        let outputs = std::mem::take(&mut slots).into_iter();
        Poll::Ready(
            outputs
                .filter_map(|slot| match slot {
                    Slot::Ready(output) => Some(output),
                    Slot::Waiting(_) => None,
                })
                .collect(),
        )
    })
    .await
}
