//! An administrator: topics are made, deleted and made anew, configurations altered, records deleted.

use super::{Client, Desk, KnownTopics};
use crate::judge::TopicState;
use crate::protocol::{Answer, Ask};
use crate::schedule::{KEYED, Task};
use model::ErrorCode;
use std::collections::VecDeque;

/// The keys that are altered.
const RETENTION: &str = "retention.ms";
const POLICY: &str = "cleanup.policy";

#[derive(Debug, Default)]
pub(crate) struct Admin {
    tasks: VecDeque<Task>,
    topics: KnownTopics,
    /// What the task in front has asked for, once it has.
    asked: Option<Ask>,
    is_waiting: bool,
    asked_at_ms: i64,
}

/// The configuration of a topic that is made: its retention tells it from others of its name.
fn configs_of(topic: &str, retention_ms: i64) -> Vec<(String, String)> {
    let mut configs = vec![(RETENTION.to_owned(), retention_ms.to_string())];
    if topic == KEYED {
        configs.push((POLICY.to_owned(), "compact".to_owned()));
    }
    configs
}

fn altered(state: &TopicState, key: &str, value: Option<&str>) -> TopicState {
    let mut values = state.clone()?;
    match value {
        Some(value) => drop(values.insert(key.to_owned(), value.to_owned())),
        None => drop(values.remove(key)),
    }
    Some(values)
}

/// Asks to alter a key of a topic's configuration.
fn alter(topic: &str, key: &str, value: Option<String>, desk: &mut Desk<'_>) -> Ask {
    let states = desk.judge.topic_states(topic);
    let states = states
        .iter()
        .map(|state| altered(state, key, value.as_deref()));
    desk.judge.topic_may_be(topic, states.collect());
    Ask::AlterConfig {
        topic: topic.to_owned(),
        key: key.to_owned(),
        value,
    }
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
                let configs = configs_of(topic, retention_ms);
                let state = configs.iter().cloned().collect();
                desk.judge.topic_may_be(topic, vec![Some(state)]);
                Some(Ask::CreateTopic {
                    name: (*topic).to_owned(),
                    partition_count: *partition_count,
                    configs,
                })
            }
            Task::Delete { topic } => {
                desk.judge.topic_may_be(topic, vec![None]);
                Some(Ask::DeleteTopic {
                    name: (*topic).to_owned(),
                })
            }
            Task::AlterRetention { topic, value } => {
                let value = value.map(|value| value.to_string());
                Some(alter(topic, RETENTION, value, desk))
            }
            Task::SetCompaction { is_on } => {
                let value = if *is_on { "compact" } else { "delete" };
                Some(alter(KEYED, POLICY, Some(value.to_owned()), desk))
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
            (Ask::AlterConfig { topic, key, value }, Answer::Done { error }) => {
                match error {
                    ErrorCode::None => {
                        let mut states = desk.judge.topic_states(topic);
                        let value = value.as_deref();
                        states.retain(|state| {
                            state.is_some() && *state == altered(state, key, value)
                        });
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
