//! BrokerHeartbeat: a broker tells how it is and what it wants, and learns how the controller has it.
//!
//! ```text
//!             caught up, wants to serve              wants to stop, and leads
//!   fenced ─────────────────────────────> unfenced ──────────────────────────> controlled shutdown
//!     ▲ │ wants to stop                    │  │ wants to stop, leads nothing           │
//!     │ └──────────────> may stop <────────┼──┘                                        │
//!     └──────── wants to be fenced ────────┘       leads nothing, and all active brokers know
//!                            ▲                                                         │
//!                            └─────────────────────────────────────────────────────────┘
//! ```
//!
//! Directories that have failed, or take no new replicas, come after it: a broker that is unfenced with the
//! same heartbeat leaves what it was elected for there.

use crate::brokers::{begin_controlled_shutdown, check_broker_epoch, fence_broker, unfence_broker};
use crate::context::ControllerContext;
use crate::decision::{ApiError, Decision};
use crate::directories::change_directories;
use crate::sessions::Sessions;
use metadata::{BrokerRegistration, MetadataImage, MetadataRecord};
use model::MonotonicTime;
use model::{BrokerEpoch, BrokerId, ErrorCode, Offset, Uuid};

/// BrokerHeartbeat (KIP-631, KIP-858, KIP-1066). Who receives it notes the contact before it waits for
/// its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerHeartbeat {
    /// The broker.
    pub broker_id: BrokerId,
    /// The epoch of its registration.
    pub broker_epoch: BrokerEpoch,
    /// The offset of the last metadata record that the broker has followed; -1 for none.
    pub metadata_offset: Offset,
    /// Whether the broker wants to be fenced, or to stay so.
    pub wants_fence: bool,
    /// Whether the broker wants to stop.
    pub wants_shut_down: bool,
    /// Its log directories that have failed.
    pub offline_directories: Vec<Uuid>,
    /// Those that take no new partitions; `None` when nothing is told of it.
    pub cordoned_directories: Option<Vec<Uuid>>,
    /// When nobody waits for the answer any more.
    pub deadline: MonotonicTime,
}

/// How the controller has a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerStanding {
    /// Whether the broker has followed the metadata to its registration.
    pub is_caught_up: bool,
    /// Whether the broker is fenced.
    pub is_fenced: bool,
    /// Whether the broker is in its controlled shutdown, and has to wait.
    pub is_shutting_down: bool,
    /// Whether the broker may stop now.
    pub should_shut_down: bool,
}

/// What is next for a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Fenced,
    Unfenced,
    ControlledShutdown,
    ShutdownNow,
}

/// Decides what a heartbeat of a broker changes.
///
/// # Errors
/// STALE_BROKER_EPOCH; REQUEST_TIMED_OUT when nobody waits any more.
pub(crate) fn heartbeat(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    sessions: &Sessions,
    now: MonotonicTime,
    heartbeat: &BrokerHeartbeat,
) -> Result<Decision<BrokerStanding>, ApiError> {
    if now > heartbeat.deadline {
        return Err(ApiError::bare(ErrorCode::RequestTimedOut));
    }
    let broker = (heartbeat.broker_id, heartbeat.broker_epoch);
    check_broker_epoch(image, broker.0, broker.1)?;
    let registration = image.cluster.broker(broker.0);
    let registration = registration.expect("a broker with an epoch is registered");
    let is_caught_up = heartbeat.metadata_offset >= sessions.registration_offset(registration);
    let next = next(image, sessions, registration, heartbeat, is_caught_up);

    let decision = match next {
        Next::Fenced if registration.is_fenced => Decision::unchanged(()),
        Next::Fenced | Next::ShutdownNow => fence_broker(image, context, broker.0, broker.1)?,
        Next::Unfenced => unfence_broker(image, context, broker.0, broker.1)?,
        // The log may have only a part of the records that began it.
        Next::ControlledShutdown
            if registration.is_in_controlled_shutdown && !leads(image, broker.0) =>
        {
            Decision::unchanged(())
        }
        Next::ControlledShutdown => begin_controlled_shutdown(image, context, broker.0, broker.1)?,
    };
    let mut records = decision.records;
    let changed = after(image, &records);
    let image = changed.as_ref().unwrap_or(image);
    let offline = &heartbeat.offline_directories;
    let cordoned = heartbeat.cordoned_directories.as_deref();
    records.extend(change_directories(image, context, broker, offline, cordoned)?.records);
    let standing = BrokerStanding {
        is_caught_up,
        is_fenced: matches!(next, Next::Fenced | Next::ShutdownNow),
        is_shutting_down: next == Next::ControlledShutdown,
        should_shut_down: next == Next::ShutdownNow,
    };
    Ok(Decision::splittable(records, standing))
}

fn next(
    image: &MetadataImage,
    sessions: &Sessions,
    broker: &BrokerRegistration,
    heartbeat: &BrokerHeartbeat,
    is_caught_up: bool,
) -> Next {
    let (wants_fence, wants_shut_down) = (heartbeat.wants_fence, heartbeat.wants_shut_down);
    if broker.is_fenced {
        return match () {
            () if wants_shut_down => Next::ShutdownNow,
            () if !wants_fence && is_caught_up => Next::Unfenced,
            () => Next::Fenced,
        };
    }
    if broker.is_in_controlled_shutdown {
        return match !leads(image, broker.id) && sessions.may_stop(image, broker) {
            true => Next::ShutdownNow,
            false => Next::ControlledShutdown,
        };
    }
    match (wants_fence, wants_shut_down) {
        (true, false) => Next::Fenced,
        (true, true) => Next::ShutdownNow,
        (false, false) => Next::Unfenced,
        (false, true) if leads(image, broker.id) => Next::ControlledShutdown,
        (false, true) => Next::ShutdownNow,
    }
}

fn leads(image: &MetadataImage, broker_id: BrokerId) -> bool {
    let mut topics = image.topics.topics_by_id().values();
    topics.any(|topic| {
        let mut partitions = topic.partitions.values();
        partitions.any(|partition| partition.leader == broker_id)
    })
}

/// The image with records that were just decided over it; `None` without any.
fn after(image: &MetadataImage, records: &[MetadataRecord]) -> Option<MetadataImage> {
    let (first, rest) = records.split_first()?;
    let mut changed = image.clone();
    for record in std::iter::once(first).chain(rest) {
        let replayed = changed.replay(record);
        replayed.expect("records fit the image that they were decided over");
    }
    Some(changed)
}
