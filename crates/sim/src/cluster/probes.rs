//! What a consumer asks of a leader beside records: where the log ends (ListOffsets), and where an epoch has ended
//! (OffsetForLeaderEpoch). Neither may contradict what the consumer has read.

#[cfg(test)]
pub(super) mod tests;

use super::judge::Log;
use super::message::{Answer, Ask};
use crate::judge::{Judge, Promise};
use crate::protocol::{self, Fetched};
use crate::random::Random;
use model::{ErrorCode, LeaderEpoch, Offset};
use record::Batches;
use std::collections::BTreeMap;

/// So many fetches in a hundred come after a probe.
const PROBE_PERCENT: u64 = 15;

/// The probes of a consumer.
#[derive(Debug, Default)]
pub(super) struct Probes {
    /// The last offset that it has read of a log, with its epoch, and the end that it was told of, by a leader of this
    /// epoch or of one before.
    read: BTreeMap<Log, Seen>,
    asked: Option<(Log, LeaderEpoch)>,
    has_probed: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    last: Option<(i64, LeaderEpoch)>,
    end_offset: i64,
}

impl Probes {
    /// What is asked before a fetch, now and then.
    pub(super) fn before(
        &mut self,
        ask: &protocol::Ask,
        leader_epoch: LeaderEpoch,
        random: &mut Random,
    ) -> Option<Ask> {
        let protocol::Ask::Fetch {
            topic_id,
            partition,
            is_committed,
            ..
        } = ask
        else {
            return None;
        };
        if std::mem::take(&mut self.has_probed) || !random.percent(PROBE_PERCENT) {
            return None;
        }
        let log = (*topic_id, *partition);
        let last = self.read.get(&log).and_then(|seen| seen.last);
        self.asked = Some((log, leader_epoch));
        Some(match last.filter(|_| random.percent(50)) {
            Some((_, epoch)) => Ask::EpochEnd {
                log,
                leader_epoch,
                epoch,
            },
            None => Ask::EndOffset {
                log,
                leader_epoch,
                is_committed: *is_committed,
            },
        })
    }

    /// Takes the answer to a probe. Gives why it was refused.
    pub(super) fn answered(&mut self, answer: Answer, judge: &mut Judge) -> ErrorCode {
        self.has_probed = true;
        let Some((log, leader_epoch)) = self.asked.take() else {
            return ErrorCode::None;
        };
        let seen = self.read.entry(log).or_default();
        match answer {
            Answer::EndOffset(Ok(end_offset)) => {
                if end_offset < seen.end_offset {
                    let detail = format!(
                        "{log:?} ends at {end_offset} for the leader of {leader_epoch}, after {seen:?}"
                    );
                    judge.broken(Promise::EndNeverGoesBack, detail);
                }
                seen.end_offset = end_offset.max(seen.end_offset);
                ErrorCode::None
            }
            Answer::EpochEnd(Ok((epoch, end_offset))) => {
                let is_short = seen.last.is_some_and(|(last, of)| {
                    epoch == of && end_offset <= Offset(last) || epoch < of
                });
                if is_short {
                    let detail = format!("{log:?}: {epoch} ends at {end_offset}, after {seen:?}");
                    judge.broken(Promise::ReadIsOfItsEpoch, detail);
                }
                ErrorCode::None
            }
            Answer::EndOffset(Err(error)) | Answer::EpochEnd(Err(error)) => error,
            _ => ErrorCode::None,
        }
    }

    /// Notes what a fetch has brought.
    pub(super) fn fetched(&mut self, ask: &protocol::Ask, fetched: &Fetched) {
        let protocol::Ask::Fetch {
            topic_id,
            partition,
            offset,
            ..
        } = ask
        else {
            return;
        };
        if fetched.error != ErrorCode::None {
            return;
        }
        let seen = self.read.entry((*topic_id, *partition)).or_default();
        for batch in Batches::new(&fetched.records).flatten() {
            let last = batch.last_offset();
            if last >= Offset(*offset) {
                seen.last = Some((last.0, batch.partition_leader_epoch()));
                seen.end_offset = seen.end_offset.max((last + 1).0);
            }
        }
    }
}
