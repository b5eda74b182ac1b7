//! What other brokers are asked for the sake of transactions, each time about partitions, which have an outcome each.
//!
//! - One request to each broker at a time: what is asked meanwhile goes in the next one.
//! - A request has one question of a kind at most, as its answer tells them apart by that alone.
//! - Nothing is sent twice here. Whoever has asked asks again, perhaps of another broker.

use super::connections::PeerConnections;
use super::endpoints::{PeerNode, broker_node};
use super::outbox::{Outbox, Sending};
use crate::coordinators::transaction_peers::Outcomes;
use crate::scheduling::log_rate_limit::LogRateLimit;
use crate::settings::node::Node;
use connection::Error;
use model::{BrokerId, ErrorCode, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;

/// More partitions go in the request after. A question about more goes alone.
const PARTITIONS_MAX: usize = 10_000;

/// Something that a broker is asked about partitions.
pub(super) trait Question: Clone + Send + Sync + Sized + 'static {
    /// What is answered for each partition when the metadata have no such broker; `None` stands for no answer.
    const WITHOUT_BROKER: Option<ErrorCode>;

    /// The partitions.
    fn partitions(&self) -> &[TopicPartition];

    /// Whether an answer does not tell this question from that one.
    fn is_like(&self, other: &Self) -> bool;

    /// Asks a broker, with one request; an outcome for each partition of each question.
    fn call(
        connections: &PeerConnections,
        broker: &PeerNode,
        questions: &[Self],
    ) -> impl Future<Output = Result<AllOutcomes, Error>> + Send;

    /// Says that a broker has not answered.
    fn log_unanswered(broker: BrokerId, error: &Error, not_logged: u64);
}

/// The outcome of each partition of each question. One without any was not answered.
pub(super) type AllOutcomes = Vec<Vec<ErrorCode>>;

/// Questions of one sort on their way to other brokers.
#[derive(Debug)]
pub(super) struct Questions<Q> {
    node: Arc<Node>,
    connections: Arc<PeerConnections>,
    outbox: Arc<Outbox<PendingQuestion<Q>>>,
    unanswered: LogRateLimit,
}

/// A question, and who waits for what becomes of it.
type PendingQuestion<Q> = (Q, oneshot::Sender<Vec<ErrorCode>>);

impl<Q: Question> Questions<Q> {
    pub(super) fn new(node: Arc<Node>, connections: Arc<PeerConnections>) -> Self {
        Self {
            node,
            connections,
            outbox: Arc::default(),
            unanswered: LogRateLimit::once_a_minute(),
        }
    }

    /// Asks a broker, with the next request to it.
    pub(super) fn ask(self: &Arc<Self>, broker: BrokerId, question: Q) -> Outcomes {
        let (sender, outcomes) = Outcomes::new(question.partitions().len());
        if let Some(sending) = self.outbox.add(broker, (question, sender)) {
            let questions = self.clone();
            self.node.runtime.spawn(questions.ask_all(sending));
        }
        outcomes
    }

    async fn ask_all(self: Arc<Self>, mut sending: Sending<PendingQuestion<Q>>) {
        while let Some(asked) = sending.next(fits) {
            let (questions, senders): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
            let outcomes = match self.call(sending.to(), &questions).await {
                Ok(outcomes) => outcomes,
                Err(error) => {
                    if let Some(not_logged) = self.unanswered.due() {
                        Q::log_unanswered(sending.to(), &error, not_logged);
                    }
                    vec![Vec::new(); questions.len()]
                }
            };
            for (sender, outcomes) in senders.into_iter().zip(outcomes) {
                // Whoever has asked may be gone, as another broker leads by now.
                let _ = sender.send(outcomes);
            }
        }
    }

    async fn call(&self, broker: BrokerId, questions: &[Q]) -> Result<AllOutcomes, Error> {
        let listener = &self.node.config.listeners.inter_broker;
        match broker_node(&self.node.image(), broker, listener) {
            Some(broker) => Q::call(&self.connections, &broker, questions).await,
            None => Ok(match Q::WITHOUT_BROKER {
                Some(error) => refused(questions, error),
                None => vec![Vec::new(); questions.len()],
            }),
        }
    }
}

/// Whether a question goes in a request with others.
fn fits<Q: Question>(taken: &[PendingQuestion<Q>], one: &PendingQuestion<Q>) -> bool {
    let counts = taken.iter().map(|(asked, _)| asked.partitions().len());
    let mut asked = taken.iter().map(|(asked, _)| asked);
    counts.sum::<usize>() + one.0.partitions().len() <= PARTITIONS_MAX
        && asked.all(|taken| !taken.is_like(&one.0))
}

/// The same outcome for all.
pub(super) fn refused<Q: Question>(questions: &[Q], error: ErrorCode) -> AllOutcomes {
    let questions = questions.iter();
    questions
        .map(|one| vec![error; one.partitions().len()])
        .collect()
}

/// The indexes of partitions by their topics, each in its order.
pub(super) fn by_topic(partitions: &[TopicPartition]) -> BTreeMap<&str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        let indexes = topics.entry(&partition.topic).or_default();
        indexes.push(partition.partition);
    }
    topics
}

/// What an answer tells, by what tells its questions apart, and by topic and partition.
#[derive(Debug)]
pub(super) struct AnsweredErrors<'a, K>(BTreeMap<(K, &'a str, i32), ErrorCode>);

impl<K: Ord> Default for AnsweredErrors<'_, K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'a, K: Ord + Copy> AnsweredErrors<'a, K> {
    pub(super) fn add(&mut self, key: K, topic: &'a str, partition: i32, error_code: i16) {
        let error = ErrorCode::from_code(error_code);
        self.0.insert((key, topic, partition), error);
    }

    /// The outcomes of all questions. What an answer does not tell is unknown.
    pub(super) fn outcomes<'q: 'a, Q: Question>(
        &self,
        questions: &'q [Q],
        key: impl Fn(&'q Q) -> K,
    ) -> AllOutcomes {
        let questions = questions.iter().map(|one| {
            let outcomes = one.partitions().iter().map(|partition| {
                let told = self
                    .0
                    .get(&(key(one), &*partition.topic, partition.partition));
                told.copied().unwrap_or(ErrorCode::UnknownServerError)
            });
            outcomes.collect()
        });
        questions.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone)]
    struct Numbered(i32, Vec<TopicPartition>);

    impl Question for Numbered {
        const WITHOUT_BROKER: Option<ErrorCode> = None;

        fn partitions(&self) -> &[TopicPartition] {
            &self.1
        }

        fn is_like(&self, other: &Self) -> bool {
            self.0 == other.0
        }

        async fn call(_: &PeerConnections, _: &PeerNode, _: &[Self]) -> Result<AllOutcomes, Error> {
            unreachable!("nobody is asked")
        }

        fn log_unanswered(_: BrokerId, _: &Error, _: u64) {}
    }

    #[test]
    fn a_request_has_one_question_of_a_kind_and_its_partitions_are_bounded() {
        let asked = |number, count: usize| {
            let partitions = vec![TopicPartition::new("a", 0); count];
            (Numbered(number, partitions), Outcomes::new(count).0)
        };
        let taken = [asked(5, 1), asked(6, PARTITIONS_MAX - 2)];
        assert!(fits(&taken, &asked(7, 1)));
        assert!(!fits(&taken, &asked(7, 2)));
        assert!(!fits(&taken, &asked(5, 1)));
    }
}
