//! What the applications of suite `streams-run` read: seeded, with nulls, headers, and records out of order and late.
//!
//! It is written in rounds, so that what the applications make of it does not depend on which of two partitions is
//! fetched first: one partition of each input, and then nothing until every application is at the end. Tables get each
//! key once in a round, and of two tables one.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use interpreter::Random;

use super::PARTITIONS;
use crate::streams_topics::NewRecord;

/// How far one round is from the next.
const ROUND_MS: i64 = 2_500;
/// Records of a round are so much out of order.
const DISORDER_MS: usize = 4_000;
/// Late ones are so much later.
const LATE_MS: usize = 40_000;
const WORDS: [&str; 9] = [
    "to", "be", "or", "not", "that", "is", "the", "question", "é",
];

/// The rounds.
#[derive(Debug)]
pub(super) struct Feed {
    random: Random,
    now_ms: i64,
    round: usize,
    numbers: usize,
}

impl Feed {
    /// Times are about now, so that no topic's retention ends; those of a seed differ from each other always alike.
    pub(super) fn new(seed: u64) -> Result<Self> {
        let now_ms = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
        Ok(Self {
            random: Random::new(seed),
            now_ms: now_ms - now_ms % 60_000 - 60_000,
            round: 0,
            numbers: 0,
        })
    }

    /// The records of the next round.
    pub(super) fn next_round(&mut self) -> Vec<NewRecord> {
        let partition = self.partition();
        let mut records = self.stream("events", partition, 40);
        // The right side follows in the left one's partition.
        let side = ["left", "right"][self.round % 2];
        let partition = (self.round / 2 % PARTITIONS as usize) as i32;
        records.extend(self.stream(side, partition, 20));
        match self.random.chance(1, 2) {
            true => records.extend(self.orders()),
            false => records.push(self.customer()),
        }
        self.round += 1;
        self.now_ms += ROUND_MS;
        records
    }

    fn partition(&mut self) -> i32 {
        self.random.below(PARTITIONS as usize) as i32
    }

    fn stream(&mut self, topic: &'static str, partition: i32, most: usize) -> Vec<NewRecord> {
        let count = 1 + self.random.below(most);
        (0..count)
            .map(|_| {
                let key = format!("key-{}", self.random.below(6));
                let words = (0..self.random.below(4)).map(|_| *self.random.choice(&WORDS));
                let words = words.collect::<Vec<_>>().join(" ");
                NewRecord {
                    topic,
                    partition: Some(partition),
                    key: (!self.random.chance(1, 15)).then_some(key),
                    value: (!self.random.chance(1, 15)).then_some(words),
                    timestamp_ms: Some(self.time_ms()),
                    headers: self.headers(),
                }
            })
            .collect()
    }

    /// Orders by key; a value begins with the key of a customer, or with nothing.
    fn orders(&mut self) -> Vec<NewRecord> {
        let first = self.random.below(12);
        let count = 1 + self.random.below(8);
        (first..first + count)
            .map(|order| {
                let customer = match self.random.chance(1, 6) {
                    true => String::new(),
                    false => format!("customer-{}", self.random.below(5)),
                };
                let value = format!("{customer}|{}", self.number());
                NewRecord {
                    topic: "orders",
                    partition: None,
                    key: Some(format!("order-{}", order % 12)),
                    value: (!self.random.chance(1, 6)).then_some(value),
                    timestamp_ms: Some(self.time_ms()),
                    headers: self.headers(),
                }
            })
            .collect()
    }

    fn customer(&mut self) -> NewRecord {
        let name = format!("name-{}", self.random.below(3));
        NewRecord {
            topic: "customers",
            partition: None,
            key: Some(format!("customer-{}", self.random.below(5))),
            value: (!self.random.chance(1, 5)).then_some(name),
            timestamp_ms: Some(self.time_ms()),
            headers: self.headers(),
        }
    }

    fn number(&mut self) -> usize {
        self.numbers += 1;
        self.numbers
    }

    fn time_ms(&mut self) -> i64 {
        let mut before_ms = self.random.below(DISORDER_MS);
        if self.random.chance(1, 12) {
            before_ms += self.random.below(LATE_MS);
        }
        self.now_ms - before_ms as i64
    }

    /// Few names, so that some repeat; some values are null or empty.
    fn headers(&mut self) -> Vec<(String, Option<String>)> {
        let count = self.random.below(4).saturating_sub(1);
        (0..count)
            .map(|_| {
                let name = format!("header-{}", self.random.below(2));
                let value = match self.random.below(4) {
                    0 => None,
                    1 => Some(String::new()),
                    _ => Some(self.number().to_string()),
                };
                (name, value)
            })
            .collect()
    }
}
