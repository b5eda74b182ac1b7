//! What was said last of each partition of a coordinator's topic: that it is led here, or not any more.
//!
//! A partition is led when its log has been told so, in the queue of a log directory that may be slow, and is
//! left at once: what was said first may come last.
//!
//! Invariant: of an epoch that was left, or of one before, nothing is led any more.

use model::LeaderEpoch;
use replication::PartitionKey;
use std::collections::BTreeMap;

/// By topic id and index: another topic of the same name is another matter.
#[derive(Debug, Default)]
pub(super) struct Tenures(BTreeMap<PartitionKey, Tenure>);

#[derive(Debug, Clone, Copy)]
struct Tenure {
    leader_epoch: LeaderEpoch,
    is_led: bool,
}

impl Tenures {
    /// Notes that a partition is led in an epoch. False where that is known, or out of date.
    pub(super) fn begin(&mut self, key: PartitionKey, leader_epoch: LeaderEpoch) -> bool {
        let known = self.0.get(&key);
        let is_news = known.is_none_or(|known| known.leader_epoch < leader_epoch);
        if is_news {
            let is_led = true;
            self.0.insert(
                key,
                Tenure {
                    leader_epoch,
                    is_led,
                },
            );
        }
        is_news
    }

    /// Notes that a partition is not led any more since after an epoch. Whether it was led.
    pub(super) fn end(&mut self, key: PartitionKey, leader_epoch: LeaderEpoch) -> bool {
        let known = self.0.entry(key).or_insert(Tenure {
            leader_epoch,
            is_led: false,
        });
        if known.leader_epoch > leader_epoch {
            return false;
        }
        known.leader_epoch = leader_epoch;
        std::mem::take(&mut known.is_led)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Uuid;

    /// Each word is a topic that is led or left in an epoch, `a+5` or `a-5`; `!` where it makes a difference.
    fn check(script: &str) {
        let mut tenures = Tenures::default();
        let told = script.split(' ').map(|word| {
            let word = word.trim_end_matches('!');
            let (topic, rest) = word.split_at(1);
            let key = (Uuid::from_u128(u128::from(topic.as_bytes()[0])), 0);
            let epoch = LeaderEpoch(rest[1..].parse().unwrap());
            let is_news = match rest.starts_with('+') {
                true => tenures.begin(key, epoch),
                false => tenures.end(key, epoch),
            };
            format!("{word}{}", if is_news { "!" } else { "" })
        });
        assert_eq!(told.collect::<Vec<_>>().join(" "), script);
    }

    #[test]
    fn what_comes_late_does_nothing() {
        check("a+5! a-5! a+7! a-7!");
        check("a+5! a-6! a+5 a+6 a+7!");
        check("a-5 a+5 a+4 a+6!");
        check("a+7! a-5 a-6 a-7!");
        check("a+5! a+5 a+4 a-5! a-5");
    }

    #[test]
    fn who_leads_on_in_another_epoch_begins_anew() {
        check("a+5! a+6! a-5 a-6!");
    }

    #[test]
    fn another_topic_of_the_name_is_another_matter() {
        check("a+5! a-5! b+0! a+5 a-5 b-0!");
    }
}
