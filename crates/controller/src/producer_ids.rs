//! AllocateProducerIds: blocks of producer ids that are given out once.

use crate::brokers::check_broker_epoch;
use crate::decision::{ApiError, Decision};
use metadata::{MetadataImage, MetadataRecord};
use model::{BrokerId, ErrorCode};

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
    broker_epoch: i64,
) -> Result<Decision<ProducerIdBlock>, ApiError> {
    check_broker_epoch(image, broker_id, broker_epoch)?;
    let first = image.next_producer_id.max(0);
    let next_producer_id = first
        .checked_add(BLOCK_SIZE)
        .ok_or_else(|| ApiError::bare(ErrorCode::UnknownServerError))?;
    let record = MetadataRecord::ProducerIds {
        broker_id,
        broker_epoch,
        next_producer_id,
    };
    let block = ProducerIdBlock {
        first,
        count: BLOCK_SIZE,
    };
    Ok(Decision::atomic(vec![record], block))
}
