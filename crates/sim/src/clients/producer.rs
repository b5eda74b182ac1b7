//! An idempotent producer: batches of a partition under way together, all sent again in their order
//! when one is not acknowledged.

use super::{Client, Desk, KnownTopics, batch};
use crate::protocol::{Answer, Ask};
use crate::schedule::Task;
use model::{ErrorCode, ProducerEpoch, ProducerId};
use record::BatchHeader;
use replication::PartitionKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Batches of a partition that are under way together, once one is acknowledged: a log that knows no
/// producer takes whatever sequence comes first.
const IN_FLIGHT_MAX: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Producer {
    tasks: VecDeque<(&'static str, i32, u64)>,
    producer_id: Option<ProducerId>,
    topics: KnownTopics,
    sequences: BTreeMap<PartitionKey, i32>,
    known_in: BTreeSet<PartitionKey>,
    unacknowledged: VecDeque<Batch>,
    is_waiting: bool,
    /// Whether a batch was acknowledged before the one in front of it.
    has_later: bool,
    value_count: u64,
}

#[derive(Debug)]
struct Batch {
    key: PartitionKey,
    values: Vec<String>,
    bytes: Vec<u8>,
    correlation_id: Option<i32>,
}

impl Producer {
    fn send_all(&mut self, desk: &mut Desk<'_>) {
        for one in &mut self.unacknowledged {
            one.correlation_id = Some(desk.ask(Ask::Produce {
                topic_id: one.key.0,
                partition: one.key.1,
                transactional_id: None,
                records: one.bytes.clone(),
            }));
        }
    }

    /// Makes batches of the next tasks, if they are of one partition.
    fn build(&mut self, desk: &mut Desk<'_>) {
        let Some(&(topic, partition, _)) = self.tasks.front() else {
            return;
        };
        let Some(topic_id) = self.topics.find(topic, desk) else {
            self.is_waiting = true;
            return;
        };
        let key = (topic_id, partition);
        let count_max = match self.known_in.contains(&key) {
            true => IN_FLIGHT_MAX,
            false => 1,
        };
        self.has_later = false;
        while self.unacknowledged.len() < count_max
            && let Some((_, _, count)) = self
                .tasks
                .pop_front_if(|task| (task.0, task.1) == (topic, partition))
        {
            let mut values = Vec::new();
            for _ in 0..count {
                self.value_count += 1;
                let value = desk.value(self.value_count);
                desk.judge.sent(key, &value, None);
                values.push(value);
            }
            let sequence = self.sequences.entry(key).or_default();
            let header = BatchHeader {
                producer_id: self.producer_id.unwrap_or(ProducerId::NONE),
                producer_epoch: ProducerEpoch(0),
                base_sequence: *sequence,
                ..BatchHeader::default()
            };
            *sequence += values.len() as i32;
            self.unacknowledged.push_back(Batch {
                key,
                bytes: batch(header, &values),
                values,
                correlation_id: None,
            });
        }
    }

    fn produced(
        &mut self,
        correlation_id: i32,
        error: ErrorCode,
        offset: i64,
        desk: &mut Desk<'_>,
    ) {
        let is_it = |one: &Batch| one.correlation_id == Some(correlation_id);
        let Some(at) = self.unacknowledged.iter().position(is_it) else {
            return;
        };
        match error {
            ErrorCode::None => {
                if let Some(done) = self.unacknowledged.remove(at) {
                    desk.judge.acknowledged(done.key, offset, &done.values);
                    self.known_in.insert(done.key);
                    self.has_later = at > 0;
                }
            }
            // A later batch was taken, so this one was: after a start a log knows the last batch only.
            ErrorCode::OutOfOrderSequenceNumber if self.has_later && at == 0 => {
                self.unacknowledged.pop_front();
            }
            // Too old for its offset to be known.
            ErrorCode::DuplicateSequenceNumber => drop(self.unacknowledged.remove(at)),
            ErrorCode::UnknownTopicId => {
                let key = self.unacknowledged[at].key;
                self.topics.forget(key.0);
                self.unacknowledged.retain(|one| one.key != key);
            }
            _ => {
                self.unacknowledged[at].correlation_id = None;
                desk.retry();
            }
        }
    }
}

impl Client for Producer {
    fn take(&mut self, task: Task) {
        if let Task::Produce {
            topic,
            partition,
            count,
        } = task
        {
            self.tasks.push_back((topic, partition, count));
        }
    }

    fn act(&mut self, desk: &mut Desk<'_>) {
        let is_sent = self
            .unacknowledged
            .iter()
            .any(|one| one.correlation_id.is_some());
        if self.is_waiting || is_sent || self.is_at_rest() {
            return;
        }
        if self.producer_id.is_none() {
            self.is_waiting = true;
            desk.ask(Ask::InitProducerId {
                transactional_id: None,
                expected: None,
            });
            return;
        }
        if self.unacknowledged.is_empty() {
            self.build(desk);
        }
        self.send_all(desk);
    }

    fn answered(&mut self, correlation_id: i32, ask: &Ask, answer: Answer, desk: &mut Desk<'_>) {
        match answer {
            Answer::Produced { error, base_offset } => {
                self.produced(correlation_id, error, base_offset, desk);
            }
            Answer::Producer { error, producer } => {
                self.is_waiting = false;
                match error {
                    ErrorCode::None => {
                        desk.judge.producer_id(producer.id);
                        self.producer_id = Some(ProducerId(producer.id));
                    }
                    _ => desk.retry(),
                }
            }
            answer => {
                self.is_waiting = false;
                if !self.topics.answered(ask, &answer, desk) {
                    // There is no such topic, and what was to be sent to it is not.
                    self.tasks.pop_front();
                }
            }
        }
    }

    fn lost(&mut self, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        for one in &mut self.unacknowledged {
            one.correlation_id = None;
        }
        desk.retry();
    }

    fn is_at_rest(&self) -> bool {
        self.tasks.is_empty() && self.unacknowledged.is_empty()
    }
}
