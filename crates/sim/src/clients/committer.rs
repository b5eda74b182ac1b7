//! A consumer without a group's members: it commits offsets, and looks at what is committed.

use super::{Client, Desk, KnownTopics};
use crate::judge::OffsetKey;
use crate::protocol::{Answer, Ask};
use crate::schedule::Task;
use model::ErrorCode;
use std::collections::VecDeque;

const GROUP: &str = "committer";

#[derive(Debug, Default)]
pub(crate) struct Committer {
    tasks: VecDeque<&'static str>,
    topics: KnownTopics,
    /// The offset that is committed, or looked at when there is none.
    stage: Stage,
    is_waiting: bool,
    was_gone: bool,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    Committing(OffsetKey, i64),
    Looking(OffsetKey),
}

impl Client for Committer {
    fn take(&mut self, task: Task) {
        if let Task::CommitOffset { topic } = task {
            self.tasks.push_back(topic);
        }
    }

    fn act(&mut self, desk: &mut Desk<'_>) {
        if self.is_waiting || self.is_at_rest() {
            return;
        }
        self.is_waiting = true;
        if self.stage == Stage::Idle
            && let Some(topic) = self.tasks.front()
        {
            let Some(topic_id) = self.topics.find(topic, desk) else {
                return;
            };
            let key = (GROUP.to_owned(), topic_id, 0);
            let offset = desk.judge.next_offset(&key);
            desk.judge.committing(key.clone(), offset, None);
            self.stage = Stage::Committing(key, offset);
        }
        match &self.stage {
            Stage::Idle => {}
            Stage::Committing(key, offset) => {
                desk.ask(Ask::CommitOffset {
                    group: key.0.clone(),
                    generation: -1,
                    member_id: String::new(),
                    topic_id: key.1,
                    partition: key.2,
                    offset: *offset,
                });
            }
            Stage::Looking(key) => {
                self.was_gone = desk.judge.is_gone(key.1);
                desk.ask(Ask::FetchOffset {
                    group: key.0.clone(),
                    topic_id: key.1,
                    partition: key.2,
                });
            }
        }
    }

    fn answered(&mut self, _: i32, ask: &Ask, answer: Answer, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        match (std::mem::take(&mut self.stage), answer) {
            (Stage::Committing(key, offset), Answer::Done { error }) => match error {
                ErrorCode::None => {
                    desk.judge.offset_known(key.clone(), offset);
                    self.stage = Stage::Looking(key);
                }
                ErrorCode::UnknownTopicId | ErrorCode::UnknownTopicOrPartition => {
                    self.topics.forget(key.1);
                    self.tasks.pop_front();
                }
                _ => {
                    self.stage = Stage::Committing(key, offset);
                    desk.retry();
                }
            },
            (Stage::Looking(key), Answer::Offset { error, offset }) => match error {
                ErrorCode::None => {
                    desk.judge.offset_fetched(key, offset, self.was_gone, None);
                    self.tasks.pop_front();
                }
                ErrorCode::UnknownTopicId => {
                    self.topics.forget(key.1);
                    self.tasks.pop_front();
                }
                _ => {
                    self.stage = Stage::Looking(key);
                    desk.retry();
                }
            },
            (stage, answer) => {
                self.stage = stage;
                if !self.topics.answered(ask, &answer, desk) {
                    self.tasks.pop_front();
                }
            }
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
