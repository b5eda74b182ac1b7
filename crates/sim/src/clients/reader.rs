//! A consumer that reads every partition of every topic, for as long as the world lasts.

use super::{Client, Desk, KnownTopics};
use crate::judge::Floor;
use crate::protocol::{Answer, Ask};
use crate::schedule::{STEADY_PARTITIONS, Task};
use model::ErrorCode;
use replication::PartitionKey;
use std::collections::BTreeMap;

const POLL_MS: i64 = 150;

#[derive(Debug)]
pub(crate) struct Reader {
    is_committed: bool,
    names: Vec<&'static str>,
    topics: KnownTopics,
    offsets: BTreeMap<PartitionKey, i64>,
    turn: usize,
    asked: Option<(PartitionKey, Floor)>,
    is_waiting: bool,
}

impl Reader {
    /// It reads these topics.
    pub(crate) fn new(is_committed: bool, names: Vec<&'static str>) -> Self {
        Self {
            is_committed,
            names,
            topics: KnownTopics::default(),
            offsets: BTreeMap::new(),
            turn: 0,
            asked: None,
            is_waiting: false,
        }
    }
}

impl Client for Reader {
    fn take(&mut self, _: Task) {}

    fn act(&mut self, desk: &mut Desk<'_>) {
        if self.is_waiting {
            return;
        }
        self.is_waiting = true;
        let topic = self.names[self.turn / STEADY_PARTITIONS as usize % self.names.len()];
        let Some(topic_id) = self.topics.find(topic, desk) else {
            return;
        };
        let key = (topic_id, self.turn as i32 % STEADY_PARTITIONS);
        self.asked = Some((key, desk.judge.floor(key)));
        desk.ask(Ask::Fetch {
            topic_id,
            partition: key.1,
            offset: self.offsets.get(&key).copied().unwrap_or(0),
            is_committed: self.is_committed,
        });
    }

    fn answered(&mut self, _: i32, ask: &Ask, answer: Answer, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        self.turn += 1;
        desk.wake_in_ms = Some(POLL_MS);
        let (Answer::Fetched(fetched), Some((key, floor))) = (&answer, self.asked) else {
            self.topics.answered(ask, &answer, desk);
            return;
        };
        let offset = self.offsets.get(&key).copied().unwrap_or(0);
        match fetched.error {
            ErrorCode::None => {
                let read = (key, offset);
                let next = desk
                    .judge
                    .read(read, fetched, floor, self.is_committed, false);
                self.offsets.insert(key, next);
            }
            ErrorCode::OffsetOutOfRange => {
                let next = desk.judge.out_of_range(key, offset);
                self.offsets.insert(key, next);
            }
            ErrorCode::UnknownTopicId => self.topics.forget(key.0),
            _ => {}
        }
    }

    fn lost(&mut self, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        desk.wake_in_ms = Some(POLL_MS);
    }

    fn is_at_rest(&self) -> bool {
        true
    }
}
