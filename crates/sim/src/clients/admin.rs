//! An administrator: topics are made, deleted and made anew, configurations altered, records deleted.

use super::{Client, Desk, KnownTopics};
use crate::judge::TopicState;
use crate::protocol::{Answer, Ask};
use crate::schedule::Task;
use model::ErrorCode;
use std::collections::{BTreeMap, VecDeque};

/// The one key that is altered.
const KEY: &str = "retention.ms";

#[derive(Debug, Default)]
pub(crate) struct Admin {
    tasks: VecDeque<Task>,
    topics: KnownTopics,
    /// What the task in front has asked for, once it has.
    asked: Option<Ask>,
    is_waiting: bool,
    asked_at_ms: i64,
}

/// A topic that is made, whose retention tells it from others of its name.
fn made(retention_ms: i64) -> TopicState {
    Some(BTreeMap::from([(KEY.to_owned(), retention_ms.to_string())]))
}

fn altered(state: &TopicState, value: Option<i64>) -> TopicState {
    let mut values = state.clone()?;
    match value {
        Some(value) => drop(values.insert(KEY.to_owned(), value.to_string())),
        None => drop(values.remove(KEY)),
    }
    Some(values)
}

impl Admin {
    /// The request of a task, and what it may lead to; nothing while a topic is asked for.
    fn begin(&mut self, task: &Task, desk: &mut Desk<'_>) -> Option<Ask> {
        match task {
            Task::Create {
                topic,
                partition_count,
            } => {
                let retention_ms = desk.random.between(200_000_000, 900_000_000);
                desk.judge.topic_may_be(topic, vec![made(retention_ms)]);
                Some(Ask::CreateTopic {
                    name: (*topic).to_owned(),
                    partition_count: *partition_count,
                    configs: vec![(KEY.to_owned(), retention_ms.to_string())],
                })
            }
            Task::Delete { topic } => {
                desk.judge.topic_may_be(topic, vec![None]);
                Some(Ask::DeleteTopic {
                    name: (*topic).to_owned(),
                })
            }
            Task::AlterConfig { topic, value } => {
                let states = desk.judge.topic_states(topic);
                let states = states.iter().map(|state| altered(state, *value));
                desk.judge.topic_may_be(topic, states.collect());
                Some(Ask::AlterConfig {
                    topic: (*topic).to_owned(),
                    key: KEY.to_owned(),
                    value: value.map(|value| value.to_string()),
                })
            }
            Task::DeleteRecords { topic, partition } => {
                let topic_id = self.topics.find(topic, desk)?;
                let key = (topic_id, *partition);
                let end = desk.judge.high_watermark(key);
                let offset = desk.random.between(end.min(1), end);
                desk.judge.deleting_records(key, offset);
                Some(Ask::DeleteRecords {
                    topic: (*topic).to_owned(),
                    partition: *partition,
                    offset,
                })
            }
            _ => None,
        }
    }

    /// What the administrator knows now; whether the task is done.
    fn note(&self, ask: &Ask, answer: &Answer, desk: &mut Desk<'_>) -> bool {
        match (ask, answer) {
            (Ask::CreateTopic { name, configs, .. }, Answer::Created { error, topic_id }) => {
                match error {
                    ErrorCode::None => {
                        let state = Some(configs.iter().cloned().collect());
                        desk.judge.topic_is(name, vec![state]);
                        desk.judge.topic_id(name, *topic_id, self.asked_at_ms);
                    }
                    ErrorCode::TopicAlreadyExists => {
                        let mut states = desk.judge.topic_states(name);
                        states.retain(Option::is_some);
                        desk.judge.topic_is(name, states);
                    }
                    _ => return false,
                }
                true
            }
            (Ask::DeleteTopic { name }, Answer::Done { error }) => {
                let is_gone = matches!(error, ErrorCode::None | ErrorCode::UnknownTopicOrPartition);
                if is_gone {
                    desk.judge.topic_is(name, vec![None]);
                }
                is_gone
            }
            (Ask::AlterConfig { topic, value, .. }, Answer::Done { error }) => {
                let value = value.as_ref().and_then(|value| value.parse().ok());
                match error {
                    ErrorCode::None => {
                        let mut states = desk.judge.topic_states(topic);
                        states.retain(|state| state.is_some() && *state == altered(state, value));
                        desk.judge.topic_is(topic, states);
                        true
                    }
                    // There is no such topic.
                    ErrorCode::UnknownTopicOrPartition => true,
                    _ => false,
                }
            }
            (_, Answer::Done { error }) => matches!(
                error,
                ErrorCode::None | ErrorCode::UnknownTopicOrPartition | ErrorCode::OffsetOutOfRange
            ),
            _ => false,
        }
    }
}

impl Client for Admin {
    fn take(&mut self, task: Task) {
        self.tasks.push_back(task);
    }

    fn act(&mut self, desk: &mut Desk<'_>) {
        if self.is_waiting || self.is_at_rest() {
            return;
        }
        self.is_waiting = true;
        if self.asked.is_none()
            && let Some(task) = self.tasks.front().cloned()
        {
            self.asked = self.begin(&task, desk);
        }
        if let Some(ask) = self.asked.clone() {
            self.asked_at_ms = desk.judge.now_ms;
            desk.ask(ask);
        }
    }

    fn answered(&mut self, _: i32, ask: &Ask, answer: Answer, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        let is_done = match &answer {
            Answer::Metadata { .. } => !self.topics.answered(ask, &answer, desk),
            answer => self.note(ask, answer, desk),
        };
        let is_about_topic = !matches!(ask, Ask::Metadata { .. });
        if is_done {
            self.tasks.pop_front();
            self.asked = None;
            // A name may be another topic's by now.
            self.topics = KnownTopics::default();
        } else if is_about_topic {
            desk.retry();
        }
    }

    fn lost(&mut self, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        desk.retry();
    }

    fn is_at_rest(&self) -> bool {
        self.tasks.is_empty()
    }
}
