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
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::oneshot;

/// More partitions go in the request after. A question about more goes alone.
const PARTITIONS_MAX: usize = 10_000;

/// Something that a broker is asked about partitions.
pub(super) trait Question: Clone + Send + Sync + Sized + 'static {
    /// What an answer tells questions apart by.
    type Key: Ord;

    /// What is answered for each partition when the metadata have no such broker; `None` stands for no answer.
    const WITHOUT_BROKER: Option<ErrorCode>;

    /// The partitions.
    fn partitions(&self) -> &[TopicPartition];

    /// That of this question.
    fn key(&self) -> Self::Key;

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
        while let Some(asked) = next(&mut sending) {
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

/// The questions of the next request: one of a kind, and no more than there is room for.
fn next<Q: Question>(sending: &mut Sending<PendingQuestion<Q>>) -> Option<Vec<PendingQuestion<Q>>> {
    let (mut keys, mut count) = (BTreeSet::new(), 0);
    sending.next(|(question, _)| {
        let with_this = count + question.partitions().len();
        let fits = keys.is_empty() || with_this <= PARTITIONS_MAX;
        let is_taken = fits && keys.insert(question.key());
        if is_taken {
            count = with_this;
        }
        is_taken
    })
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Its number, its partitions, and how often it was looked at.
    #[derive(Debug, Clone)]
    struct Numbered(i32, Vec<TopicPartition>, Arc<AtomicUsize>);

    impl Question for Numbered {
        type Key = i32;

        const WITHOUT_BROKER: Option<ErrorCode> = None;

        fn partitions(&self) -> &[TopicPartition] {
            &self.1
        }

        fn key(&self) -> i32 {
            self.2.fetch_add(1, Ordering::Relaxed);
            self.0
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
            let question = Numbered(number, partitions, Arc::default());
            (question, Outcomes::new(count).0)
        };
        let outbox = Arc::new(Outbox::default());
        let mut sending = outbox.add(BrokerId(1), asked(5, PARTITIONS_MAX + 1));
        let sending = sending.as_mut().expect("nobody sends");
        for (number, count) in [(5, 1), (6, PARTITIONS_MAX - 2), (7, 2), (6, 1), (8, 1)] {
            assert!(outbox.add(BrokerId(1), asked(number, count)).is_none());
        }
        let mut taken = || -> Option<Vec<i32>> {
            let taken = next(sending)?.into_iter();
            Some(taken.map(|(question, _)| question.0).collect())
        };
        assert_eq!(taken(), Some(vec![5]));
        assert_eq!(taken(), Some(vec![5, 6, 8]));
        assert_eq!(taken(), Some(vec![7, 6]));
        assert_eq!(taken(), None);
    }

    /// Whoever asks meanwhile waits until they are taken.
    #[test]
    fn each_question_is_looked_at_once_for_a_request() {
        const COUNT: i32 = 5_000;
        let outbox = Arc::new(Outbox::default());
        let looked = Arc::new(AtomicUsize::new(0));
        let asked = |number| {
            let question = Numbered(number, Vec::new(), looked.clone());
            (question, Outcomes::new(0).0)
        };
        let mut sending = outbox.add(BrokerId(1), asked(0)).expect("nobody sends");
        for number in 1..COUNT {
            assert!(outbox.add(BrokerId(1), asked(number)).is_none());
        }
        let taken = next(&mut sending).expect("they wait");
        assert_eq!(taken.len(), COUNT as usize);
        assert_eq!(looked.load(Ordering::Relaxed), COUNT as usize);
    }
}
