//! From which replica a consumer had better read: one in its rack (KIP-392).

use crate::error::ReadError;
use crate::follower::FollowerState;
use crate::partition::Partition;
use crate::reading::{ReadRequest, ReadResult};
use metadata::ClusterImage;
use model::{BrokerId, Offset};
use storage::Disk;

/// The follower that a consumer in `rack` reads from `fetch_offset` on, as Kafka's `RackAwareReplicaSelector`
/// has it; `None` where that is the leader. Of several in the rack it is the one that is furthest, then the one
/// that had everything last, then the one of the greater id.
fn rack_aware(
    cluster: &ClusterImage,
    leader: BrokerId,
    followers: &[FollowerState],
    rack: &str,
    fetch_offset: Offset,
) -> Option<BrokerId> {
    let is_near = |id: BrokerId| {
        let broker = cluster.broker(id).filter(|broker| !broker.is_fenced);
        broker.is_some_and(|broker| broker.rack.as_deref() == Some(rack))
    };
    if is_near(leader) {
        return None;
    }
    let has_offset = |one: &&FollowerState| {
        one.log_start_offset <= fetch_offset && fetch_offset <= one.log_end_offset
    };
    let near = followers.iter().filter(|one| is_near(one.broker_id));
    let best = near
        .filter(has_offset)
        .max_by_key(|one| (one.log_end_offset, one.last_caught_up(), one.broker_id));
    best.map(|one| one.broker_id)
}

impl<D: Disk> Partition<D> {
    /// The follower that a consumer in a rack had better read from, where this broker leads and is in another
    /// one.
    pub fn preferred_read_replica(&self, rack: &str, fetch_offset: Offset) -> Option<BrokerId> {
        let state = self.lock();
        let (in_sync, replicas) = (state.in_sync.as_ref()?, state.role.replicas()?);
        let cluster = self.host.leaders().cluster();
        let followers = in_sync.followers();
        rack_aware(&cluster, replicas.leader, followers, rack, fetch_offset)
    }

    /// What a reader is answered that is sent elsewhere: the offsets, and no records.
    ///
    /// # Errors
    /// That the reader knows another epoch of the leader.
    pub fn look(&self, request: &ReadRequest) -> Result<ReadResult<D>, ReadError> {
        let state = self.lock();
        let checked = state.check_replica(request.current_leader_epoch);
        checked.map_err(ReadError::NotLeader)?;
        Ok(ReadResult {
            offsets: state.offsets(),
            records: None,
            aborted_transactions: None,
            diverging_epoch: None,
            is_out_of_sync: false,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

    use super::*;
    use crate::follower::FollowerFetch;
    use metadata::{BrokerRegistration, MetadataImage, MetadataRecord};
    use model::{BrokerEpoch, MonotonicTime, Uuid};

    /// Each `ID RACK [fenced]`; the leader is 1.
    fn cluster(brokers: &[&str]) -> ClusterImage {
        let mut image = MetadataImage::default();
        for broker in brokers {
            let words: Vec<&str> = broker.split(' ').collect();
            let registration = BrokerRegistration {
                id: words[0].parse().unwrap(),
                epoch: BrokerEpoch(1),
                incarnation_id: Uuid::from_u128(1),
                endpoints: Vec::new(),
                features: std::collections::BTreeMap::new(),
                rack: Some(words[1].to_owned()).filter(|rack| rack != "-"),
                is_fenced: words.contains(&"fenced"),
                is_in_controlled_shutdown: false,
                is_migrating_zk_broker: false,
                directories: Vec::new(),
                cordoned_directories: None,
            };
            image
                .replay(&MetadataRecord::RegisterBroker(registration))
                .unwrap();
        }
        image.cluster
    }

    /// A follower that has fetched at a time.
    fn follower(id: i32, start: Offset, end: Offset, at_ms: i64) -> FollowerState {
        let mut follower = FollowerState::new(BrokerId(id));
        let fetch = FollowerFetch {
            broker_id: BrokerId(id),
            broker_epoch: BrokerEpoch(1),
            log_start_offset: start,
            now: MonotonicTime::from_ms(at_ms),
            session: None,
            has_waited: false,
            is_throttled: false,
        };
        follower.note_fetch(&fetch, end, end);
        follower
    }

    #[test]
    fn a_consumer_is_sent_to_the_best_follower_in_its_rack() {
        let check = |brokers: &[&str], followers: &[FollowerState], expected: i32| {
            let chosen = rack_aware(&cluster(brokers), BrokerId(1), followers, "a", Offset(5));
            assert_eq!(chosen.unwrap_or(BrokerId(1)).0, expected, "{brokers:?}");
        };
        let all = [
            follower(2, Offset(0), Offset(9), 10),
            follower(3, Offset(0), Offset(9), 10),
        ];
        check(&["1 b", "2 a", "3 b"], &all, 2);
        check(&["1 a", "2 a", "3 b"], &all, 1);
        check(&["1 b", "2 b", "3 -"], &all, 1);
        check(&["1 b", "2 a fenced", "3 a"], &all, 3);
        check(&["1 b", "3 b"], &all, 1);
        // Furthest, then caught up last, then the greater id.
        check(&["1 b", "2 a", "3 a"], &all, 3);
        let later = [
            follower(2, Offset(0), Offset(9), 11),
            follower(3, Offset(0), Offset(9), 10),
        ];
        check(&["1 b", "2 a", "3 a"], &later, 2);
        let further = [
            follower(2, Offset(0), Offset(9), 11),
            follower(3, Offset(0), Offset(10), 10),
        ];
        check(&["1 b", "2 a", "3 a"], &further, 3);
        // Those that do not have the offset, or nobody knows of.
        let lacking = [
            follower(2, Offset(0), Offset(4), 11),
            follower(3, Offset(6), Offset(10), 10),
        ];
        check(&["1 b", "2 a", "3 a"], &lacking, 1);
        check(&["1 b", "2 a"], &[FollowerState::new(BrokerId(2))], 1);
    }
}
