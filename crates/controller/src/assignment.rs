//! New partitions from chosen replicas, and the rules for replicas that a client chooses.

use crate::decision::ApiError;
use crate::placement::default_directory;
use metadata::{MetadataImage, NO_LEADER, Partition};
use model::{BrokerId, ErrorCode};

/// Whether a client may choose `replicas` for a partition, when those before it have
/// `replication_factor` replicas each.
pub(crate) fn check_assignment(
    image: &MetadataImage,
    replicas: &[BrokerId],
    replication_factor: Option<usize>,
) -> Result<(), ApiError> {
    let invalid = |words| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, words));
    if replicas.is_empty() {
        return invalid("The manual partition assignment includes an empty replica list.".into());
    }
    let mut sorted = replicas.to_vec();
    sorted.sort_unstable();
    let mut previous = None;
    for broker in sorted {
        if image.cluster.broker(broker).is_none() {
            return invalid(format!(
                "The manual partition assignment includes broker {broker}, but no such broker is \
                 registered."
            ));
        }
        if previous.replace(broker) == Some(broker) {
            return invalid(format!(
                "The manual partition assignment includes the broker {broker} more than once."
            ));
        }
    }
    if let Some(factor) = replication_factor.filter(|factor| *factor != replicas.len()) {
        let count = replicas.len();
        return invalid(format!(
            "The manual partition assignment includes a partition with {count} replica(s), but \
             this is not consistent with previous partitions, which have {factor} replica(s)."
        ));
    }
    Ok(())
}

/// The same for a partition of this index that is new: one of its replicas must be able to lead.
pub(crate) fn check_new_assignment(
    image: &MetadataImage,
    replicas: &[BrokerId],
    replication_factor: Option<usize>,
    partition_id: i32,
) -> Result<(), ApiError> {
    check_assignment(image, replicas, replication_factor)?;
    if !replicas.iter().any(|id| image.cluster.is_active(*id)) {
        return Err(ApiError::new(
            ErrorCode::InvalidReplicaAssignment,
            format!(
                "All brokers specified in the manual partition assignment for partition \
                 {partition_id} are fenced or in controlled shutdown."
            ),
        ));
    }
    Ok(())
}

/// A new partition on `replicas`: those on active brokers are in sync, the first of them leads.
pub(crate) fn new_partition(image: &MetadataImage, replicas: &[BrokerId]) -> Partition {
    let is_active = |id: &BrokerId| image.cluster.is_active(*id);
    let isr: Vec<BrokerId> = replicas.iter().copied().filter(is_active).collect();
    Partition {
        replicas: replicas.to_vec(),
        directories: replicas
            .iter()
            .map(|id| default_directory(image, *id))
            .collect(),
        leader: isr.first().copied().unwrap_or(NO_LEADER),
        isr,
        ..Partition::default()
    }
}
