//! Brokers register, are unfenced and fenced, shut down, and are unregistered.
//!
//! ```text
//!   register ─> fenced ─unfence─> active ─begin_controlled_shutdown─> shutting down ─fence─> fenced
//!                  ^                └───────────── fence ──────────────────────────────────────┘
//!                  └─ register again: a new incarnation, a new epoch
//! ```
//!
//! When to do which is for whoever hears the brokers' heartbeats. Whether a broker belongs to this
//! cluster, by its id, is for the caller to check.

use crate::context::ControllerContext;
use crate::decision::{ApiError, Decision};
use crate::elections::{BrokerEvent, elect_leaders};
use crate::registration_size::RegistrationSize;
use metadata::{
    BrokerRegistration, BrokerRegistrationChange, Endpoint, LOST_DIRECTORY, MIGRATING_DIRECTORY,
    MetadataImage, MetadataRecord, MetadataVersion, NO_LEADER, Partition, SupportedFeatures,
    UNASSIGNED_DIRECTORY, VersionRange,
};
use model::{BrokerEpoch, BrokerId, ErrorCode, Offset, Uuid};
use std::ops::RangeInclusive;

/// PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL.
const SECURITY_PROTOCOLS: RangeInclusive<i16> = 0..=3;

/// What a broker says of itself when it registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRegistration {
    /// The broker's id.
    pub broker_id: BrokerId,
    /// The id of this run of the broker's process.
    pub incarnation_id: Uuid,
    /// The broker's listeners.
    pub endpoints: Vec<Endpoint>,
    /// The features that the broker can work with.
    pub features: SupportedFeatures,
    /// The broker's rack.
    pub rack: Option<String>,
    /// The broker's online log directories.
    pub directories: Vec<Uuid>,
    /// The epoch of the registration that the broker ended by a clean shutdown; -1 after a crash.
    pub previous_broker_epoch: BrokerEpoch,
    /// Set by brokers that still run with ZooKeeper; they are refused.
    pub is_migrating_zk_broker: bool,
}

/// What the controller knows beside image and registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistrationState {
    /// The offset of the next record of the metadata log: the epoch of a new registration.
    pub next_offset: Offset,
    /// Whether the current registration of this id is alive: its heartbeats come in time.
    pub has_live_session: bool,
    /// Whether the broker can tell a clean shutdown: it sends version 3 or higher.
    pub detects_clean_shutdown: bool,
}

/// Registers a broker; answers its epoch. A new incarnation starts fenced, and what the one before
/// it led and was in sync with is given up. The same incarnation changes its registration.
///
/// # Errors
/// When another process has the id, the directories are taken or impossible, or the broker cannot
/// work with a finalized feature.
pub fn register_broker(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    registration: &NewRegistration,
    state: RegistrationState,
) -> Result<Decision<BrokerEpoch>, ApiError> {
    let broker_id = registration.broker_id;
    let existing = image.cluster.broker(broker_id);
    let same = existing.filter(|old| old.incarnation_id == registration.incarnation_id);
    if same.is_none() && existing.is_some() && state.has_live_session {
        return Err(ApiError::new(
            ErrorCode::DuplicateBrokerRegistration,
            "Another broker is registered with that broker id. If the broker was recently \
             restarted this should self-resolve once the heartbeat manager expires the broker's \
             session.",
        ));
    }
    if registration.is_migrating_zk_broker {
        return Err(ApiError::new(
            ErrorCode::BrokerIdNotRegistered,
            "Controller does not support registering ZK brokers.",
        ));
    }
    // First, as what is looked at takes as long as there is much of it.
    RegistrationSize {
        node: "A broker",
        endpoints: &registration.endpoints,
        features: &registration.features,
        rack: registration.rack.as_deref(),
        directory_count: registration.directories.len(),
    }
    .check()?;
    let has_directories = image.metadata_version().supports_directory_assignment();
    if has_directories {
        check_directories(image, registration)?;
    }
    check_listeners(registration)?;
    check_features(image, &registration.features)?;
    let mut records = Vec::new();
    if same.is_none() {
        let is_clean = state.detects_clean_shutdown
            && existing.is_some_and(|old| old.epoch == registration.previous_broker_epoch);
        records = end_incarnation(image, context, broker_id, is_clean);
    }
    let epoch = same.map_or(BrokerEpoch(state.next_offset.0), |same| same.epoch);
    // The registration comes last: whatever cuts the records short, the broker registers again.
    records.push(MetadataRecord::RegisterBroker(BrokerRegistration {
        id: broker_id,
        epoch,
        incarnation_id: registration.incarnation_id,
        endpoints: registration.endpoints.clone(),
        features: registration.features.clone(),
        rack: registration.rack.clone(),
        is_fenced: same.is_none_or(|same| same.is_fenced),
        is_in_controlled_shutdown: same.is_some_and(|same| same.is_in_controlled_shutdown),
        is_migrating_zk_broker: false,
        directories: if has_directories {
            registration.directories.clone()
        } else {
            Vec::new()
        },
        cordoned_directories: None,
    }));
    Ok(Decision::splittable(records, epoch))
}

/// What no broker could connect to stops brokers of Apache Kafka that read it in the metadata.
fn check_listeners(registration: &NewRegistration) -> Result<(), ApiError> {
    let is_known = |one: &Endpoint| {
        !one.name.is_empty() && SECURITY_PROTOCOLS.contains(&one.security_protocol)
    };
    let Some(one) = registration.endpoints.iter().find(|one| !is_known(one)) else {
        return Ok(());
    };
    let words = format!(
        "The listener `{}` has no name or an unknown security protocol, {}.",
        one.name, one.security_protocol
    );
    Err(ApiError::new(ErrorCode::InvalidRegistration, words))
}

fn check_directories(
    image: &MetadataImage,
    registration: &NewRegistration,
) -> Result<(), ApiError> {
    let invalid = |words: String| Err(ApiError::new(ErrorCode::InvalidRegistration, words));
    let directories = &registration.directories;
    if directories.is_empty() {
        return invalid("No directories specified in request".to_owned());
    }
    if directories.iter().any(|id| is_reserved(*id)) {
        return invalid("Reserved directory ID in request".to_owned());
    }
    let mut sorted = directories.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != directories.len() {
        return invalid("Duplicate directory ID in request".to_owned());
    }
    for other in image.cluster.brokers().values() {
        if other.id == registration.broker_id {
            continue;
        }
        let mut others = other.directories.iter();
        if let Some(taken) = others.find(|id| sorted.binary_search(id).is_ok()) {
            let id = other.id;
            return invalid(format!(
                "Broker {id} is already registered with directory {taken}"
            ));
        }
    }
    Ok(())
}

/// Whether the id is one of the hundred that stand for something else than a directory.
fn is_reserved(id: Uuid) -> bool {
    debug_assert!(
        [MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY]
            .iter()
            .all(|special| *special < Uuid::from_u128(RESERVED_DIRECTORY_COUNT))
    );
    id < Uuid::from_u128(RESERVED_DIRECTORY_COUNT)
}

const RESERVED_DIRECTORY_COUNT: u128 = 100;

/// Every finalized feature must be within what the broker can work with.
fn check_features(image: &MetadataImage, features: &SupportedFeatures) -> Result<(), ApiError> {
    if !features.contains_key(MetadataVersion::FEATURE) {
        return Err(ApiError::new(
            ErrorCode::InvalidRegistration,
            format!(
                "Request features do not contain '{}'",
                MetadataVersion::FEATURE
            ),
        ));
    }
    let finalized = image.features.finalized();
    let names = features.keys().chain(finalized.keys());
    for name in names {
        let level = finalized.get(name).copied().unwrap_or(0);
        let range = features
            .get(name)
            .copied()
            .unwrap_or(VersionRange { min: 0, max: 0 });
        if !range.contains(level) {
            let VersionRange { min, max } = range;
            return Err(ApiError::new(
                ErrorCode::UnsupportedVersion,
                format!(
                    "Unable to register because the broker does not support finalized version \
                     {level} of {name}. The broker wants a version between {min} and {max}, \
                     inclusive."
                ),
            ));
        }
    }
    Ok(())
}

/// Gives up what the last process of a broker led and was in sync with. After a crash its records
/// may be lost, so it is no eligible leader either.
fn end_incarnation(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    broker_id: BrokerId,
    is_clean: bool,
) -> Vec<MetadataRecord> {
    if is_clean || !image.features.has_eligible_leader_replicas() {
        return leave(image, context, broker_id);
    }
    forget_replicas(image, context, broker_id)
}

/// Nothing is known any more of what the broker's replicas have: it is neither in sync nor an eligible leader.
fn forget_replicas(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    broker_id: BrokerId,
) -> Vec<MetadataRecord> {
    let event = BrokerEvent::MayHaveLostRecords(broker_id);
    elect_leaders(image, context, event, &|_, _, partition| {
        is_in_sync_or_eligible(partition, broker_id)
    })
}

fn is_in_sync_or_eligible(partition: &Partition, broker_id: BrokerId) -> bool {
    partition.isr.contains(&broker_id) || partition.eligible_leader_replicas.contains(&broker_id)
}

/// The partitions that a broker is in sync for go on without it.
fn leave(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    broker_id: BrokerId,
) -> Vec<MetadataRecord> {
    let event = BrokerEvent::Leaves(broker_id);
    elect_leaders(image, context, event, &|_, _, partition| {
        partition.isr.contains(&broker_id)
    })
}

/// Checks that `broker_epoch` is the epoch of the broker's registration.
///
/// # Errors
/// STALE_BROKER_EPOCH when it is not.
pub fn check_broker_epoch(
    image: &MetadataImage,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
) -> Result<(), ApiError> {
    let stale = |words| Err(ApiError::new(ErrorCode::StaleBrokerEpoch, words));
    match image.cluster.broker(broker_id) {
        None => stale(format!(
            "No broker registration found for broker id {broker_id}"
        )),
        Some(broker) if broker.epoch != broker_epoch => stale(format!(
            "Expected broker epoch {}, but got broker epoch {broker_epoch}",
            broker.epoch
        )),
        Some(_) => Ok(()),
    }
}

/// Lets a fenced broker lead: partitions without a leader may get one. Nothing for a broker that
/// is not fenced.
///
/// # Errors
/// STALE_BROKER_EPOCH.
pub fn unfence_broker(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
) -> Result<Decision<()>, ApiError> {
    check_broker_epoch(image, broker_id, broker_epoch)?;
    let is_fenced = |broker: &BrokerRegistration| broker.is_fenced;
    if !image
        .cluster
        .broker(broker_id)
        .is_some_and(|b| is_fenced(b))
    {
        return Ok(Decision::unchanged(()));
    }
    let mut records = vec![MetadataRecord::BrokerRegistrationChange(
        BrokerRegistrationChange {
            broker_id,
            broker_epoch,
            is_fenced: Some(false),
            ..BrokerRegistrationChange::default()
        },
    )];
    let event = BrokerEvent::Returns(broker_id);
    records.extend(elect_leaders(image, context, event, &|_, _, partition| {
        partition.leader == NO_LEADER
    }));
    Ok(Decision::splittable(records, ()))
}

/// Fences a broker: what it leads and is in sync with is given up. One that is fenced gives up what was left
/// to it before eligible leader replicas were enabled.
///
/// # Errors
/// STALE_BROKER_EPOCH.
pub fn fence_broker(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
) -> Result<Decision<()>, ApiError> {
    check_broker_epoch(image, broker_id, broker_epoch)?;
    let mut records = leave(image, context, broker_id);
    let broker = image.cluster.broker(broker_id);
    if !broker.is_some_and(|broker| broker.is_fenced) {
        records.push(MetadataRecord::BrokerRegistrationChange(
            BrokerRegistrationChange {
                broker_id,
                broker_epoch,
                is_fenced: Some(true),
                ..BrokerRegistrationChange::default()
            },
        ));
    }
    Ok(Decision::splittable(records, ()))
}

/// Begins the controlled shutdown of a broker, or goes on with it: leaderships that it still has
/// are given away. Once it has none it may go.
///
/// # Errors
/// STALE_BROKER_EPOCH.
pub fn begin_controlled_shutdown(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
) -> Result<Decision<()>, ApiError> {
    check_broker_epoch(image, broker_id, broker_epoch)?;
    let mut records = Vec::new();
    let has_begun = |broker: &BrokerRegistration| broker.is_in_controlled_shutdown;
    if !image
        .cluster
        .broker(broker_id)
        .is_some_and(|b| has_begun(b))
    {
        records.push(MetadataRecord::BrokerRegistrationChange(
            BrokerRegistrationChange {
                broker_id,
                broker_epoch,
                enters_controlled_shutdown: true,
                ..BrokerRegistrationChange::default()
            },
        ));
    }
    records.extend(leave(image, context, broker_id));
    Ok(Decision::splittable(records, ()))
}

/// UnregisterBroker: forgets a broker, and elects leaders where it led or could have. What comes back with its id is a
/// broker that nobody knows, so it is no eligible leader either: one that is never coming back must not keep the last
/// known leader from its partition. Apache Kafka 4.3 leaves it among the eligible leaders.
///
/// # Errors
/// BROKER_ID_NOT_REGISTERED.
pub fn unregister_broker(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    broker_id: BrokerId,
) -> Result<Decision<()>, ApiError> {
    let Some(broker) = image.cluster.broker(broker_id) else {
        return Err(ApiError::new(
            ErrorCode::BrokerIdNotRegistered,
            format!("Broker ID {broker_id} is not currently registered"),
        ));
    };
    let mut records = forget_replicas(image, context, broker_id);
    records.push(MetadataRecord::UnregisterBroker {
        broker_id,
        broker_epoch: broker.epoch,
    });
    Ok(Decision::splittable(records, ()))
}

#[cfg(test)]
mod tests;
