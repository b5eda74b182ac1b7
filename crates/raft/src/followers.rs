//! What the leader knows of those who fetch its log: how far each has come, and when it was heard of.
//!
//! Nobody's vote depends on it while the leader votes alone. It is told by `DescribeQuorum`, and
//! forgotten of those who are silent for five minutes.

use model::{BrokerId, MonotonicTime, Now, Offset, Uuid};
use std::collections::BTreeMap;

/// A follower that is silent for so long is forgotten.
const SILENCE_MS: i64 = 300_000;
/// No more followers are known. The caller notes nodes of the cluster alone, but anybody may fetch in the name
/// of one, and call its directories what it likes.
const COUNT_MAX: usize = 1_000;

/// A node with a copy of the log, and the log directory that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaKey {
    /// The node.
    pub id: BrokerId,
    /// Its directory; all zero when it does not tell.
    pub directory_id: Uuid,
}

/// A replica of the quorum's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumReplica {
    /// The node.
    pub id: BrokerId,
    /// Its directory; all zero when the voters are fixed by configuration.
    pub directory_id: Uuid,
    /// The end of its log.
    pub log_end_offset: Offset,
    /// When it was last heard of.
    pub last_fetch_timestamp_ms: i64,
    /// When it last had the whole log; negative when it never had.
    pub last_caught_up_timestamp_ms: i64,
}

/// Those who fetch.
#[derive(Debug, Default)]
pub(crate) struct Followers(BTreeMap<ReplicaKey, Follower>);

/// How far one has come.
#[derive(Debug, Clone, Copy)]
struct Follower {
    log_end_offset: Offset,
    /// The end of the leader's log at the last fetch.
    leader_end_offset: Offset,
    heard_at: MonotonicTime,
    last_fetch_timestamp_ms: i64,
    /// Negative before it has caught up once.
    last_caught_up_timestamp_ms: i64,
}

impl Follower {
    const fn is_silent(&self, now: MonotonicTime) -> bool {
        now.ms_since(self.heard_at) >= SILENCE_MS
    }
}

impl Followers {
    /// Takes note of a fetch from `offset` on, of a log that ends at `leader_end_offset`.
    pub(crate) fn fetched(
        &mut self,
        replica: ReplicaKey,
        offset: Offset,
        leader_end_offset: Offset,
        now: Now,
    ) {
        let nameless = self.take_nameless(replica);
        let known = self.0.get(&replica).copied().or(nameless);
        if known.is_none() {
            self.make_room(now.monotonic);
        }
        let mut caught_up_ms = known.map_or(-1, |known| known.last_caught_up_timestamp_ms);
        if offset >= leader_end_offset {
            caught_up_ms = caught_up_ms.max(now.wall_ms);
        } else if let Some(known) = known.filter(|known| offset >= known.leader_end_offset) {
            // It has all that there was when it fetched before.
            caught_up_ms = caught_up_ms.max(known.last_fetch_timestamp_ms);
        }
        self.0.insert(
            replica,
            Follower {
                log_end_offset: offset,
                leader_end_offset,
                heard_at: now.monotonic,
                last_fetch_timestamp_ms: now.wall_ms,
                last_caught_up_timestamp_ms: caught_up_ms,
            },
        );
    }

    /// The node's follower without a directory, which this one takes the place of: a node that is new fetches
    /// before it knows what its directory is called.
    fn take_nameless(&mut self, replica: ReplicaKey) -> Option<Follower> {
        let nameless = ReplicaKey {
            directory_id: Uuid::ZERO,
            ..replica
        };
        (replica != nameless)
            .then(|| self.0.remove(&nameless))
            .flatten()
    }

    /// Whether the node was heard of lately.
    pub(crate) fn knows(&self, id: BrokerId, now: MonotonicTime) -> bool {
        let [first, last] = [Uuid::ZERO, Uuid::from_u128(u128::MAX)]
            .map(|directory_id| ReplicaKey { id, directory_id });
        let mut of_node = self.0.range(first..=last);
        of_node.any(|(_, follower)| !follower.is_silent(now))
    }

    /// Those that were heard of lately.
    pub(crate) fn describe(&self, now: MonotonicTime) -> Vec<QuorumReplica> {
        let followers = self.0.iter();
        let heard_of = followers.filter(|(_, follower)| !follower.is_silent(now));
        heard_of
            .map(|(key, follower)| QuorumReplica {
                id: key.id,
                directory_id: key.directory_id,
                log_end_offset: follower.log_end_offset,
                last_fetch_timestamp_ms: follower.last_fetch_timestamp_ms,
                last_caught_up_timestamp_ms: follower.last_caught_up_timestamp_ms,
            })
            .collect()
    }

    /// Forgets somebody when as many are known as may be: the one that is silent for longest.
    fn make_room(&mut self, now: MonotonicTime) {
        if self.0.len() < COUNT_MAX {
            return;
        }
        self.0.retain(|_, follower| !follower.is_silent(now));
        if self.0.len() >= COUNT_MAX
            && let Some(key) = self.most_silent()
        {
            self.0.remove(&key);
        }
    }

    fn most_silent(&self) -> Option<ReplicaKey> {
        let followers = self.0.iter();
        let most_silent = followers.min_by_key(|(_, follower)| follower.heard_at);
        most_silent.map(|(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: i32) -> ReplicaKey {
        ReplicaKey {
            id: BrokerId(id),
            directory_id: Uuid::ZERO,
        }
    }

    /// Fetches as time, offset, and end of the leader's log; when the follower had caught up last.
    fn check(fetches: &[(i64, i64, i64)], caught_up_ms: i64) {
        let mut followers = Followers::default();
        for (now_ms, offset, leader_end_offset) in fetches {
            followers.fetched(
                key(5),
                Offset(*offset),
                Offset(*leader_end_offset),
                Now::at_ms(*now_ms),
            );
        }
        let (now_ms, offset, _) = *fetches.last().expect("some");
        let expect = QuorumReplica {
            id: BrokerId(5),
            directory_id: Uuid::ZERO,
            log_end_offset: Offset(offset),
            last_fetch_timestamp_ms: now_ms,
            last_caught_up_timestamp_ms: caught_up_ms,
        };
        let described = followers.describe(MonotonicTime::from_ms(now_ms));
        assert_eq!(described, [expect], "{fetches:?}");
    }

    #[test]
    fn a_follower_has_caught_up_when_it_has_what_there_was() {
        check(&[(1_000, 0, 10)], -1);
        check(&[(1_000, 0, 10), (2_000, 5, 12)], -1);
        check(&[(1_000, 0, 10), (2_000, 10, 12)], 1_000);
        check(&[(1_000, 0, 10), (2_000, 12, 12)], 2_000);
        check(&[(1_000, 12, 12), (2_000, 12, 15), (3_000, 13, 15)], 1_000);
    }

    #[test]
    fn whoever_is_silent_is_forgotten() {
        let mut followers = Followers::default();
        followers.fetched(key(5), Offset(0), Offset(0), Now::at_ms(1_000));
        followers.fetched(key(6), Offset(0), Offset(0), Now::at_ms(2_000));
        let ids = |now_ms| {
            let described = followers.describe(MonotonicTime::from_ms(now_ms));
            described.iter().map(|one| one.id.0).collect::<Vec<_>>()
        };
        assert_eq!(ids(300_999), [5, 6]);
        assert_eq!(ids(301_000), [6]);
        assert_eq!(ids(302_000), [0; 0]);
    }

    #[test]
    fn a_directory_takes_the_place_of_none_of_the_same_node() {
        let mut followers = Followers::default();
        let named = |id, name| ReplicaKey {
            directory_id: Uuid::from_u128(name),
            ..key(id)
        };
        followers.fetched(key(5), Offset(3), Offset(3), Now::at_ms(1_000));
        followers.fetched(key(6), Offset(3), Offset(3), Now::at_ms(1_000));
        followers.fetched(named(5, 7), Offset(3), Offset(9), Now::at_ms(2_000));
        // A directory that is another one is another replica.
        followers.fetched(named(5, 8), Offset(3), Offset(9), Now::at_ms(2_000));
        let described = followers.describe(MonotonicTime::from_ms(2_000));
        let described = described.iter().map(|one| {
            let directory = u128::from_be_bytes(one.directory_id.to_bytes());
            (one.id.0, directory, one.last_caught_up_timestamp_ms)
        });
        let expect = [(5, 7, 1_000), (5, 8, -1), (6, 0, 1_000)];
        assert_eq!(described.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn a_node_is_known_until_all_its_directories_are_silent() {
        let mut followers = Followers::default();
        let named = ReplicaKey {
            directory_id: Uuid::from_u128(u128::MAX),
            ..key(5)
        };
        followers.fetched(named, Offset(0), Offset(0), Now::at_ms(1_000));
        followers.fetched(key(5), Offset(0), Offset(0), Now::at_ms(2_000));
        let knows = |id, now_ms| followers.knows(BrokerId(id), MonotonicTime::from_ms(now_ms));
        assert!(knows(5, 301_999) && !knows(5, 302_000));
        assert!(!knows(4, 2_000) && !knows(6, 2_000));
    }

    #[test]
    fn those_who_are_known_are_bounded() {
        let mut followers = Followers::default();
        for id in 0..COUNT_MAX as i32 + 3 {
            followers.fetched(key(id), Offset(0), Offset(0), Now::at_ms(i64::from(id)));
        }
        let described = followers.describe(MonotonicTime::from_ms(2_000));
        assert_eq!((described.len(), described[0].id), (COUNT_MAX, BrokerId(3)));
    }
}
