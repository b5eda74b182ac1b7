//! Modelled clients: each does its tasks one after another, as often as it takes, and tells the judge
//! what it sends and what it hears.
//!
//! ```text
//!   schedule ──> take ──> act ──> Desk: requests ──> network ──> node
//!                          ^                                      │
//!                          └── answered, lost <── network <───────┘
//! ```

mod admin;
mod committer;
mod member;
mod producer;
mod reader;
mod transactional;

pub(crate) use self::transactional::offset_key;

use self::admin::Admin;
use self::committer::Committer;
use self::member::Member;
use self::producer::Producer;
use self::reader::Reader;
use self::transactional::Transactional;

use crate::judge::Judge;
use crate::protocol::{Answer, Ask};
use crate::random::Random;
use crate::record_key::key_of;
use crate::schedule::{MEMBERS, READERS, TRANSACTIONAL, Task};
use model::{ErrorCode, Uuid};
use record::{BatchBuilder, BatchHeader};
use std::collections::BTreeMap;

/// The date on which every world begins.
pub(crate) const START_WALL_MS: i64 = 1_700_000_000_000;

/// Where a client lays down what it wants.
#[derive(Debug)]
pub(crate) struct Desk<'a> {
    pub(crate) client: usize,
    pub(crate) random: &'a mut Random,
    pub(crate) judge: &'a mut Judge,
    pub(crate) next_correlation: &'a mut i32,
    pub(crate) asks: Vec<(i32, Ask)>,
    /// It acts again after so long, and not before.
    pub(crate) wake_in_ms: Option<i64>,
}

impl Desk<'_> {
    /// Sends a request.
    pub(crate) fn ask(&mut self, ask: Ask) -> i32 {
        *self.next_correlation += 1;
        self.asks.push((*self.next_correlation, ask));
        *self.next_correlation
    }

    /// Tries again in a moment.
    pub(crate) fn retry(&mut self) {
        self.wake_in_ms = Some(self.random.between(20, 250));
    }

    /// A value that nobody has sent before.
    pub(crate) fn value(&mut self, number: u64) -> String {
        let padding = self.random.below(500) as usize;
        let letter = char::from(b'a' + self.random.below(26) as u8);
        let text: String = std::iter::repeat_n(letter, padding).collect();
        format!("{}-{number} {text}", self.client)
    }
}

/// A modelled client.
pub(crate) trait Client: std::fmt::Debug {
    /// Something more to do.
    fn take(&mut self, task: Task);
    /// Does the next thing, unless something is under way.
    fn act(&mut self, desk: &mut Desk<'_>);
    /// A request was answered.
    fn answered(&mut self, correlation_id: i32, ask: &Ask, answer: Answer, desk: &mut Desk<'_>);
    /// The connection is lost: what was not answered may have been done or not.
    fn lost(&mut self, desk: &mut Desk<'_>);
    /// Whether all its tasks are done.
    fn is_at_rest(&self) -> bool;
}

/// The modelled clients, in the places that [`crate::schedule`] has for them; readers read these topics.
pub(crate) fn modelled_clients(topics: &[&'static str]) -> Vec<Box<dyn Client>> {
    let mut clients: Vec<Box<dyn Client>> = Vec::new();
    clients.push(Box::new(Producer::default()));
    clients.push(Box::new(Producer::default()));
    for client in TRANSACTIONAL {
        clients.push(Box::new(Transactional::new(client)));
    }
    clients.push(Box::new(Committer::default()));
    clients.push(Box::new(Admin::default()));
    for _ in MEMBERS {
        clients.push(Box::new(Member::default()));
    }
    for (at, _) in READERS.iter().enumerate() {
        clients.push(Box::new(Reader::new(at == 1, topics.to_vec())));
    }
    clients
}

/// The topics that a client knows by their names.
#[derive(Debug, Default)]
pub(crate) struct KnownTopics {
    ids: BTreeMap<String, Uuid>,
    asked_at_ms: i64,
}

impl KnownTopics {
    /// The id of a topic; asks for it when it is not known.
    pub(crate) fn find(&mut self, topic: &str, desk: &mut Desk<'_>) -> Option<Uuid> {
        let known = self.ids.get(topic).copied();
        if known.is_none() {
            self.asked_at_ms = desk.judge.now_ms;
            desk.ask(Ask::Metadata {
                topic: topic.to_owned(),
            });
        }
        known
    }

    /// Takes an answer in; whether there is such a topic.
    pub(crate) fn answered(&mut self, ask: &Ask, answer: &Answer, desk: &mut Desk<'_>) -> bool {
        let (
            Ask::Metadata { topic },
            Answer::Metadata {
                error, topic_id, ..
            },
        ) = (ask, answer)
        else {
            return false;
        };
        if *error != ErrorCode::None {
            return false;
        }
        desk.judge.topic_id(topic, *topic_id, self.asked_at_ms);
        self.ids.insert(topic.clone(), *topic_id);
        true
    }

    pub(crate) fn forget(&mut self, topic_id: Uuid) {
        self.ids.retain(|_, id| *id != topic_id);
    }
}

/// A batch of records with these values and their keys.
pub(crate) fn batch(header: BatchHeader, values: &[String]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(header);
    for value in values {
        let key = key_of(value).as_bytes();
        builder.append(START_WALL_MS, Some(key), Some(value.as_bytes()), &[]);
    }
    builder.into_uncompressed()
}
