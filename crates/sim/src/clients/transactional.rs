//! A transactional producer: one request at a time, repeated until it is answered; after an error that
//! it cannot go on from, it takes its transactional id again, which ends what it has begun.

use super::{Client, Desk, KnownTopics, batch};
use crate::judge::{OffsetKey, TransactionOutcome};
use crate::protocol::{Answer, Ask, ProducerKey};
use crate::schedule::{STEADY, Task};
use model::{ErrorCode, ProducerEpoch, ProducerId, Uuid};
use record::BatchHeader;
use replication::PartitionKey;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(crate) struct Transactional {
    transactional_id: String,
    tasks: VecDeque<Plan>,
    producer: Option<ProducerKey>,
    /// The id that it was given last: one and the same, until its epochs have run out.
    given_id: Option<i64>,
    topics: KnownTopics,
    /// Of the producer's epoch: each transaction has its own.
    sequences: BTreeMap<PartitionKey, i32>,
    running: Option<Running>,
    is_waiting: bool,
    count: u64,
    value_count: u64,
}

#[derive(Debug, Clone)]
struct Plan {
    writes: VecDeque<(&'static str, i32, u64)>,
    commits_offset: bool,
    is_commit: bool,
}

#[derive(Debug)]
struct Running {
    number: u64,
    left: Plan,
    /// What is sent until it is answered.
    part: Option<Part>,
    has_asked_for_end: bool,
}

#[derive(Debug, Clone)]
struct Part {
    ask: Ask,
    /// The records of a batch.
    sent: Option<(PartitionKey, Vec<String>)>,
}

impl Transactional {
    pub(crate) fn new(client: usize) -> Self {
        Self {
            transactional_id: format!("id{client}"),
            tasks: VecDeque::new(),
            producer: None,
            given_id: None,
            topics: KnownTopics::default(),
            sequences: BTreeMap::new(),
            running: None,
            is_waiting: false,
            count: 0,
            value_count: 0,
        }
    }

    /// The next part of the transaction; nothing while a topic is asked for.
    fn next_part(&mut self, producer: ProducerKey, desk: &mut Desk<'_>) -> Option<Part> {
        let running = self.running.as_mut()?;
        if let Some(&(topic, partition, count)) = running.left.writes.front() {
            let topic_id = self.topics.find(topic, desk)?;
            running.left.writes.pop_front();
            let (key, mut values) = ((topic_id, partition), Vec::new());
            for _ in 0..count {
                self.value_count += 1;
                let value = desk.value(self.value_count);
                desk.judge.sent(key, &value, Some(running.number));
                values.push(value);
            }
            let sequence = self.sequences.entry(key).or_default();
            let header = BatchHeader {
                producer_id: ProducerId(producer.id),
                producer_epoch: ProducerEpoch(producer.epoch),
                base_sequence: *sequence,
                is_transactional: true,
                ..BatchHeader::default()
            };
            *sequence += values.len() as i32;
            let ask = Ask::Produce {
                topic_id,
                partition,
                transactional_id: Some(self.transactional_id.clone()),
                records: batch(header, &values),
            };
            return Some(Part {
                ask,
                sent: Some((key, values)),
            });
        }
        if running.left.commits_offset {
            let topic_id = self.topics.find(STEADY[0], desk)?;
            running.left.commits_offset = false;
            let key: OffsetKey = (format!("group-{}", self.transactional_id), topic_id, 0);
            let offset = desk.judge.next_offset(&key);
            desk.judge
                .committing(key.clone(), offset, Some(running.number));
            let ask = Ask::CommitInTransaction {
                transactional_id: self.transactional_id.clone(),
                producer,
                group: key.0,
                topic: STEADY[0].to_owned(),
                partition: 0,
                offset,
            };
            return Some(Part { ask, sent: None });
        }
        running.has_asked_for_end = true;
        let ask = Ask::EndTransaction {
            transactional_id: self.transactional_id.clone(),
            producer,
            is_commit: running.left.is_commit,
        };
        Some(Part { ask, sent: None })
    }

    fn begin(&mut self, desk: &mut Desk<'_>) {
        let Some(left) = self.tasks.pop_front() else {
            return;
        };
        self.count += 1;
        let number = self.count * 100 + desk.client as u64;
        desk.judge.begun(number);
        self.running = Some(Running {
            number,
            left,
            part: None,
            has_asked_for_end: false,
        });
    }

    /// The transaction cannot go on. Whether it was committed is open if that was asked for; else
    /// whoever takes the id next aborts it.
    fn give_up(&mut self, desk: &mut Desk<'_>) {
        if let Some(running) = self.running.take() {
            let outcome = match running.has_asked_for_end && running.left.is_commit {
                true => TransactionOutcome::Unknown,
                false => TransactionOutcome::Aborted,
            };
            desk.judge.ended(running.number, outcome);
        }
        self.producer = None;
    }

    fn part_answered(&mut self, error: ErrorCode, answer: &Answer, desk: &mut Desk<'_>) {
        let Some(running) = &mut self.running else {
            return;
        };
        let Some(part) = running.part.clone() else {
            return;
        };
        if error != ErrorCode::None {
            match is_fatal(error) {
                true => self.give_up(desk),
                false => desk.retry(),
            }
            return;
        }
        running.part = None;
        match (part.ask, answer) {
            (Ask::Produce { .. }, Answer::Produced { base_offset, .. }) => {
                if let Some((key, values)) = part.sent {
                    desk.judge.acknowledged(key, *base_offset, &values);
                }
            }
            (Ask::EndTransaction { is_commit, .. }, Answer::Producer { producer, .. }) => {
                let outcome = match is_commit {
                    true => TransactionOutcome::Committed,
                    false => TransactionOutcome::Aborted,
                };
                desk.judge.ended(running.number, outcome);
                self.running = None;
                self.producer = Some(*producer);
                self.sequences.clear();
            }
            _ => {}
        }
    }
}

/// Whether the producer cannot go on with its transaction.
const fn is_fatal(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::InvalidProducerEpoch
            | ErrorCode::ProducerFenced
            | ErrorCode::TransactionAbortable
            | ErrorCode::InvalidTxnState
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::UnknownTopicId
    )
}

impl Client for Transactional {
    fn take(&mut self, task: Task) {
        if let Task::Transaction {
            writes,
            commits_offset,
            is_commit,
        } = task
        {
            self.tasks.push_back(Plan {
                writes: writes.into(),
                commits_offset,
                is_commit,
            });
        }
    }

    fn act(&mut self, desk: &mut Desk<'_>) {
        if self.is_waiting || self.is_at_rest() {
            return;
        }
        self.is_waiting = true;
        let Some(producer) = self.producer else {
            desk.ask(Ask::InitProducerId {
                transactional_id: Some(self.transactional_id.clone()),
                expected: None,
            });
            return;
        };
        if self.running.is_none() {
            self.begin(desk);
        }
        let part = match self
            .running
            .as_ref()
            .and_then(|running| running.part.clone())
        {
            Some(part) => Some(part),
            None => self.next_part(producer, desk),
        };
        if let (Some(running), Some(part)) = (&mut self.running, part) {
            desk.ask(part.ask.clone());
            running.part = Some(part);
        }
    }

    fn answered(&mut self, _: i32, ask: &Ask, answer: Answer, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        match (ask, &answer) {
            (Ask::InitProducerId { .. }, Answer::Producer { error, producer }) => match error {
                ErrorCode::None => {
                    if self.given_id.replace(producer.id) != Some(producer.id) {
                        desk.judge.producer_id(producer.id);
                    }
                    self.producer = Some(*producer);
                    self.sequences.clear();
                }
                _ => desk.retry(),
            },
            (_, Answer::Metadata { .. }) => {
                let is_known = self.topics.answered(ask, &answer, desk);
                if !is_known {
                    desk.retry();
                }
            }
            (
                _,
                Answer::Produced { error, .. }
                | Answer::Done { error }
                | Answer::Producer { error, .. },
            ) => {
                let error = *error;
                self.part_answered(error, &answer, desk);
            }
            _ => {}
        }
    }

    fn lost(&mut self, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        desk.retry();
    }

    fn is_at_rest(&self) -> bool {
        // Without a producer an end may be open.
        self.tasks.is_empty()
            && self.running.is_none()
            && (self.producer.is_some() || self.count == 0)
    }
}

/// The group that a transactional producer commits offsets of, for who looks at the end.
pub(crate) fn offset_key(client: usize, topic_id: Uuid) -> OffsetKey {
    (format!("group-id{client}"), topic_id, 0)
}
