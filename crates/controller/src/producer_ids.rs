//! AllocateProducerIds: blocks of producer ids that are given out once.

use crate::brokers::check_broker_epoch;
use crate::decision::{ApiError, Decision};
use metadata::{MetadataImage, MetadataRecord};
use model::{BrokerEpoch, BrokerId, ErrorCode, ProducerId};

/// Ids in a block.
pub const BLOCK_SIZE: i64 = 1000;

/// Producer ids that belong to one broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The first id.
    pub first: i64,
    /// How many ids follow one another.
    pub count: i64,
}

/// Gives the next block to a broker.
///
/// # Errors
/// When the registration is not the broker's last one, or no ids are left.
pub fn allocate_producer_ids(
    image: &MetadataImage,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
) -> Result<Decision<ProducerIdBlock>, ApiError> {
    check_broker_epoch(image, broker_id, broker_epoch)?;
    let first = image.next_producer_id.max(ProducerId(0));
    let next_producer_id = first
        .0
        .checked_add(BLOCK_SIZE)
        .ok_or_else(|| ApiError::bare(ErrorCode::UnknownServerError))?;
    let record = MetadataRecord::ProducerIds {
        broker_id,
        broker_epoch,
        next_producer_id: ProducerId(next_producer_id),
    };
    let block = ProducerIdBlock {
        first: first.0,
        count: BLOCK_SIZE,
    };
    Ok(Decision::atomic(vec![record], block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_cluster::TestCluster;

    #[test]
    fn blocks_follow_one_another() {
        let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1), BrokerId(2)]);
        for (broker, first) in [(1, 0), (2, 1000), (1, 2000)] {
            let epoch = cluster
                .image
                .cluster
                .broker(BrokerId(broker))
                .unwrap()
                .epoch;
            let decision = allocate_producer_ids(&cluster.image, BrokerId(broker), epoch).unwrap();
            cluster.replay(&decision.records);
            assert_eq!(decision.response, ProducerIdBlock { first, count: 1000 });
            assert_eq!(cluster.image.next_producer_id, ProducerId(first + 1000));
        }
    }

    #[test]
    fn stale_brokers_and_the_last_ids_are_refused() {
        let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1)]);
        let epoch = cluster.image.cluster.broker(BrokerId(1)).unwrap().epoch;
        let error_of = |cluster: &TestCluster, id, epoch| {
            allocate_producer_ids(&cluster.image, id, epoch)
                .unwrap_err()
                .code
        };
        assert_eq!(
            error_of(&cluster, BrokerId(1), BrokerEpoch(epoch.0 - 1)),
            ErrorCode::StaleBrokerEpoch
        );
        assert_eq!(
            error_of(&cluster, BrokerId(2), epoch),
            ErrorCode::StaleBrokerEpoch
        );
        cluster.replay(&[MetadataRecord::ProducerIds {
            broker_id: BrokerId(1),
            broker_epoch: epoch,
            next_producer_id: ProducerId(i64::MAX - BLOCK_SIZE + 1),
        }]);
        assert_eq!(
            error_of(&cluster, BrokerId(1), epoch),
            ErrorCode::UnknownServerError
        );
    }
}
