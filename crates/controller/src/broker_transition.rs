//! Steps in the lives of brokers, as an operator reads them in the controller's log.
//!
//! ```text
//!   Registered ─> Unfenced ─> ShutdownBegun ─> ShutdownEnded
//!                     └─────> Fenced ─> Unfenced …            at any time: Unregistered
//! ```
//!
//! They follow from what a decision has changed in the registrations, and from what was decided.

use metadata::{BrokerRegistration, ClusterImage};
use model::{BrokerEpoch, BrokerId, Uuid};

/// A step in the life of a broker, which is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerTransition {
    /// The broker.
    pub broker_id: BrokerId,
    /// The epoch of its registration.
    pub broker_epoch: BrokerEpoch,
    /// What has become of it.
    pub kind: BrokerTransitionKind,
}

/// What has become of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerTransitionKind {
    /// A process has registered, with this incarnation id; it is fenced until it has caught up.
    Registered(Uuid),
    /// It may lead, and serves.
    Unfenced,
    /// It may not lead any more.
    Fenced(FencingCause),
    /// It wants to stop, and its leaderships are given away.
    ShutdownBegun,
    /// It may stop, and is fenced.
    ShutdownEnded,
    /// The cluster has forgotten it.
    Unregistered,
}

/// Why a broker is fenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FencingCause {
    /// Nothing was heard of it for `broker.session.timeout.ms`.
    SessionExpired,
    /// It has asked for that.
    Wanted,
}

/// What the decision was that has changed registrations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransitionCause {
    /// A session has run out.
    SessionExpired,
    /// The broker may stop.
    ShutdownAllowed,
    /// Something else.
    Other,
}

/// The steps between two images of the cluster, by broker.
pub(crate) fn transitions(
    before: &ClusterImage,
    after: &ClusterImage,
    cause: TransitionCause,
) -> Vec<BrokerTransition> {
    let differences = before.brokers().diff(after.brokers());
    let transitions = differences.filter_map(|difference| {
        let kind = kind(
            difference.before.map(|one| &**one),
            difference.after.map(|one| &**one),
            cause,
        )?;
        let broker = difference.after.or(difference.before)?;
        Some(BrokerTransition {
            broker_id: broker.id,
            broker_epoch: broker.epoch,
            kind,
        })
    });
    transitions.collect()
}

fn kind(
    before: Option<&BrokerRegistration>,
    after: Option<&BrokerRegistration>,
    cause: TransitionCause,
) -> Option<BrokerTransitionKind> {
    let (before, after) = match (before, after) {
        (_, None) => return Some(BrokerTransitionKind::Unregistered),
        (Some(before), Some(after)) if before.epoch == after.epoch => (before, after),
        (_, Some(after)) => return Some(BrokerTransitionKind::Registered(after.incarnation_id)),
    };
    let begins_shutdown = after.is_in_controlled_shutdown && !before.is_in_controlled_shutdown;
    match (before.is_fenced, after.is_fenced) {
        (false, true) => Some(match cause {
            TransitionCause::SessionExpired => {
                BrokerTransitionKind::Fenced(FencingCause::SessionExpired)
            }
            TransitionCause::ShutdownAllowed => BrokerTransitionKind::ShutdownEnded,
            TransitionCause::Other => BrokerTransitionKind::Fenced(FencingCause::Wanted),
        }),
        (true, false) => Some(BrokerTransitionKind::Unfenced),
        _ => begins_shutdown.then_some(BrokerTransitionKind::ShutdownBegun),
    }
}
