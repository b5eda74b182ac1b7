//! A state that is a list of texts: each record adds one.

use super::super::{CoordinatorShard, Unreplayed};
use crate::group::RecordOrigin;
use crate::{CoordinatorRecord, Decision, Reply, Token};
use model::{ErrorCode, MonotonicTime, Now, ProducerId};
use std::collections::BTreeSet;

/// What was replayed, and who waits.
#[derive(Debug, Default)]
pub(super) struct Texts {
    pub(super) texts: Vec<String>,
    /// What was given back, as the log has not taken it.
    pub(super) given_back: Vec<String>,
    parked: BTreeSet<Token>,
    next_token: u64,
}

impl Texts {
    /// Adds texts, one a record; parks who asks, and releases those who wait.
    pub(super) fn write(
        &mut self,
        texts: &[&str],
        parks: bool,
        releases: bool,
        is_atomic: bool,
    ) -> Decision<usize, usize> {
        let count = self.texts.len() + texts.len();
        let released = match releases {
            true => std::mem::take(&mut self.parked),
            false => BTreeSet::new(),
        };
        let reply = match parks {
            true => {
                self.next_token += 1;
                self.parked.insert(Token(self.next_token));
                Reply::Parked(Token(self.next_token))
            }
            false => Reply::Now(count),
        };
        let records = texts.iter().map(|text| CoordinatorRecord {
            key: text.as_bytes().to_vec(),
            value: None,
        });
        Decision {
            records: records.collect(),
            is_atomic,
            indivisible: Vec::new(),
            reply,
            released: released.into_iter().map(|token| (token, count)).collect(),
        }
    }
}

impl CoordinatorShard for Texts {
    type Response = usize;

    fn replay(
        &mut self,
        _: Now,
        origin: RecordOrigin,
        key: &[u8],
        _: Option<&[u8]>,
    ) -> Result<(), Unreplayed> {
        match key {
            b"later" => return Err(Unreplayed::Fatal("a later version".to_owned())),
            b"damaged" => return Err(Unreplayed::Skipped("damage".to_owned())),
            _ => {}
        }
        let text = String::from_utf8_lossy(key);
        let producer = match origin.producer_id {
            ProducerId::NONE => String::new(),
            id => format!("/{id}"),
        };
        self.texts
            .push(format!("{}:{text}{producer}", origin.offset));
        Ok(())
    }

    fn replay_transaction_end(&mut self, producer_id: ProducerId, is_commit: bool) {
        self.texts.push(format!("end/{producer_id}/{is_commit}"));
    }

    fn start(&mut self, _: Now) {
        self.texts.push("start".to_owned());
    }

    fn next_deadline(&self) -> Option<MonotonicTime> {
        None
    }

    fn append_failed<R>(
        &mut self,
        decision: Decision<R, usize>,
        _: ErrorCode,
        _: Now,
    ) -> Vec<(Token, usize)> {
        let untaken = decision.records.iter();
        let untaken = untaken.map(|record| String::from_utf8_lossy(&record.key).into_owned());
        self.given_back.extend(untaken);
        // Who was to be released is told that nobody is there.
        let released = decision.released.into_iter();
        released.map(|(token, _)| (token, 0)).collect()
    }

    fn unload(self) -> Vec<(Token, usize)> {
        let parked = self.parked.into_iter();
        parked.map(|token| (token, 0)).collect()
    }
}
